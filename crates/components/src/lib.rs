//! The components of Millstream: one folder each, and the registry that lists them.
//!
//! A separate crate because it cuts a dependency: engine, console and store build and are tested
//! without any component.

#![forbid(unsafe_code)]

pub mod codec;
pub mod component;
pub mod compress;
pub mod condition;
pub mod disk;
pub mod formats;
pub mod framing;
mod glob;
pub mod metrics;
pub mod on_error;
mod prometheus;
pub mod registry;
pub mod requests;
pub mod rotation;
pub mod route;
pub mod sinks;
pub mod sources;
pub mod template;
pub mod transforms;

mod rows;
mod seed;
mod stream;
mod synced;
