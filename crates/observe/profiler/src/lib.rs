//! Samples the stacks of all threads of the process.
//!
//! A separate crate because it fences `unsafe`: a signal handler, which reads registers and stacks, and
//! timers of the kernel.
//!
//! Each thread has a clock of its CPU time, or a timer, that signals the thread once per interval.
//! The signal handler walks the stack of its thread and puts the addresses into a buffer. A thread
//! named `profiler` aggregates the samples, and looks for new threads and libraries ten times a
//! second. Symbols are resolved elsewhere: a [`RawProfile`] has addresses, and the mappings that
//! contain them.
//!
//! The handler finds callers with the unwind information of loaded objects, which [`start`]
//! precomputes, and with frame pointers where there is no such information. In code that a compiler
//! has generated at run time, a stack ends and is marked as truncated, unless a [`Runtime`], such
//! as a JVM, knows the frames of the code.
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
//!     // Samples of this thread have the component.
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
