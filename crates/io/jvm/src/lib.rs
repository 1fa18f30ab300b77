//! A JVM inside the process or in a separate process, which runs operators on batches.
//!
//! A separate crate because it fences `unsafe`: the Invocation API, and the memory that Rust and
//! Java share.
//!
//! ```text
//! JvmMemory::of      computes the JVM's memory from the options alone
//! Jvm::start         finds Java, starts it on the thread `jvm-control`; one per process
//! Jvm::register      compiles an operator on that thread
//! Operator::call     on any thread: passes the addresses of a batch to Java, which writes its
//!                    answer into a buffer; checks the answer, and turns the buffer into columns
//! Jvm::collector     compiles a collector; it passes chunks of events from Java threads
//! JvmProcess::open   does the same in a separate process, which may exit at any time:
//! process/mod.rs
//! ```
//!
//! A thread is attached to the JVM at its first call and detached when it exits. Operators are
//! untrusted code. Whatever they write, an answer is either valid or rejected as a whole
//! (`validate.rs`).

mod answer;
mod answered;
mod bridge;
mod buffer;
mod chunk;
mod collector;
mod content;
mod control;
mod create;
mod discover;
mod error;
mod input;
mod jni;
mod jvm;
mod jvmti;
pub mod layout;
mod memory;
mod operator;
mod options;
mod process;
mod profile;
mod recorded;
mod request;
mod snapshot;
mod unsuitable;
mod validate;
mod worker;

pub use answer::{Answer, ChangedColumn, ColumnPlace, FailureReason, RowFailure};
pub use chunk::{Chunk, CollectedEvent, InvalidChunk};
pub use collector::{
    Collector, CollectorId, CollectorNumber, CollectorSpec, CollectorState, CollectorStats,
    CollectorsStats, Deliver, Taken,
};
pub use discover::find_agent_jar;
pub use error::{CallError, ControlError, RegisterError, StartError};
pub use input::{Input, InputColumn, InputSegment};
pub use jvm::{HeapSize, Jvm, JvmInfo, JvmStats, end_process};
pub use memory::JvmMemory;
pub use operator::{
    Operator, OperatorSpec, OperatorStats, Registered, RuleSource, RuleStats, WeakOperator,
};
pub use options::{COLLECTORS_DEFAULT, JvmOptions};
pub use process::{
    DEFAULT_PROCESS, JvmProcess, JvmProcesses, ProcessOptions, ProcessState, SUBCOMMAND,
    serve_process,
};
pub use snapshot::{CollectorSnapshot, CollectorsSnapshot, JvmProcessSnapshot, JvmSnapshot};
pub use unsuitable::Unsuitable;

/// Placeholder in [`Input::times`] for a row whose time is the time at which it was read.
pub const TIME_UNKNOWN: i64 = layout::TIME_UNKNOWN;
