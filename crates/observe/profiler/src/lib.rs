//! Samples the stacks of all threads in the process.
//!
//! A separate crate because it fences `unsafe`: a signal handler, which reads registers and stacks,
//! and kernel timers.
//!
//! Each thread has a clock for its CPU time, or a timer, which signals the thread once per
//! interval. The signal handler walks the stack of its thread and writes the addresses to a buffer.
//! A thread named `profiler` aggregates the samples, and looks for new threads and libraries once
//! every ten intervals, but at least once and at most ten times per second. Symbols are resolved
//! elsewhere: a [`RawProfile`] contains addresses, and the mappings to which they belong.
//!
//! The handler finds callers with the unwind information of loaded objects, which [`start`]
//! precomputes, and otherwise with frame pointers. In code that was generated at run time, a stack
//! ends and is marked as truncated, unless a [`Runtime`], such as a JVM, can provide the frames of
//! the code.
//!
//! ```
//! use millstream_profiler::{Component, Event, Settings, StartError};
//! use std::time::Duration;
//!
//! let settings = Settings {
//!     event: Event::Cpu,
//!     interval: Duration::from_millis(10),
//!     buffer_bytes: 1 << 20,
//! };
//! let session = millstream_profiler::start(settings)?;
//! {
//!     let _entered = Component::named("parse_access").enter();
//!     // Samples of this thread are attributed to the component.
//! }
//! let profile = session.stop();
//! assert_eq!(profile.event, Event::Cpu);
//! # Ok::<(), StartError>(())
//! ```

mod arch;
mod buffer;
mod clocks;
mod component;
mod handler;
mod kernel;
mod maps;
mod merge;
mod modules;
mod objects;
mod profile;
mod rows;
mod runtime;
mod session;
mod settings;
mod signal_stack;
mod stack;
mod threads;
mod timer;

pub use component::{Component, Entered};
pub use handler::{is_handling, sample_allocation};
pub use kernel::is_kernel;
pub use merge::merge;
pub use profile::{Module, RawProfile, Stack, ThreadName};
pub use runtime::{
    MethodAddress, Runtime, RuntimeCall, RuntimeMethod, method_address, set_runtime,
};
pub use session::{Session, start};
pub use settings::{ALLOC_BYTES, Event, Settings, StartError, UnknownEvent};
pub use signal_stack::{SignalStack, handler_room};
