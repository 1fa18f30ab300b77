//! The flow of events, from a blueprint to a running topology.
//!
//! A separate crate because it cuts a dependency: the engine uses components only through their
//! traits, so its simulation runs without any component.
//!
//! A [`Blueprint`] names the components and their inputs. Building it opens the checkpoint store
//! and the sources; starting the result yields a [`Running`] engine.
//!
//! A worker thread polls a source for a [`millstream_model::Batch`], which takes the source's next
//! *ticket*, and runs the whole chain on it. The payloads for all sinks are released to the sinks'
//! *lanes* in ticket order. A lane delivers payloads one by one, with retries, and settles their
//! debts.

#![forbid(unsafe_code)]

mod backlog;
mod blueprint;
mod buffer;
mod chain;
mod clock;
mod committer;
mod core;
mod current;
mod cut;
mod dead_lanes;
mod disk_buffer;
mod error;
mod feed_source;
mod governor;
mod index;
mod lane;
pub mod limits;
mod merge_trial;
mod offload;
mod offload_thread;
mod pace;
mod release;
mod reload;
mod removed;
mod retired;
mod running;
mod scheduler;
mod since;
mod stage;
mod thread;
mod ticket;
mod turns;

#[cfg(test)]
mod simulation;

pub use millstream_model::snapshot::{ComponentSnapshot, FileSnapshot, SinkProgress, Snapshot};
pub use pace::{Pace, Priority};

pub use blueprint::{
    Blueprint, Built, Input, OpenSource, Settings, SinkPart, SourcePart, TransformPart,
};
pub use buffer::{Buffer, DiskMode, DiskOptions, WhenFull};
pub use clock::Clock;
pub use error::EngineError;
pub use governor::{MemoryHost, MemoryLook};
pub use merge_trial::MergeTrial;
pub use millstream_store::{Store, StoreError};
pub use removed::Unsettled;
pub use running::{Running, Stopped};
