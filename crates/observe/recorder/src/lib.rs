//! Records events about the agent's work, such as file reads and endpoint calls.
//!
//! A separate crate because it fences `unsafe`: memory that is shared with a file, and the time
//! stamp counter.
//!
//! [`schema`] declares every event type in one place: its fields, their units, and the conditions
//! for recording. [`recorder`] starts the recording of the process, and [`record`] has one function
//! per type. Threads write to a memory-mapped file, which survives a crash. [`snapshot`] reads the
//! file. [`jfr`] writes events to a file that the JDK's tools and JDK Mission Control can open.
//! `docs/formats/recorder.md` describes both formats.
//!
//! ```
//! use millstream_recorder::event::{self, Event, Tables, Thread};
//! use millstream_recorder::ids::{SubjectId, TextId, ThreadId};
//! use millstream_recorder::jfr::{self, Clock, Recording};
//! use millstream_recorder::schema::{EventKind, Value};
//! use std::num::NonZeroU64;
//!
//! struct Names;
//!
//! impl Tables for Names {
//!     fn text(&self, id: TextId) -> Option<&str> {
//!         (id.0 == 0).then_some("/var/log/app.log")
//!     }
//!
//!     fn thread(&self, id: ThreadId) -> Option<Thread<'_>> {
//!         (id.0 == 0).then_some(Thread { name: "worker-0", os_id: 4711 })
//!     }
//! }
//!
//! let path = Value::Text(TextId(0));
//! let read = Event {
//!     kind: EventKind::FileRead,
//!     thread: ThreadId(0),
//!     subject: SubjectId(1),
//!     start_ticks: 1_000,
//!     duration_ticks: 500,
//!     values: event::bits([path, Value::Bytes(4096), Value::Flag(false)]),
//! };
//! let ticks_per_second = NonZeroU64::new(1_000_000_000).unwrap();
//! let clock = Clock { ticks_per_second, start_ticks: 0, start_unix_ns: 0 };
//! let recording = Recording { clock, end_ticks: 2_000, settings: &[] };
//! let file = jfr::write(Vec::new(), &recording, &Names, [read]).unwrap();
//! assert!(file.starts_with(b"FLR\0"));
//! ```

pub mod chunks;
pub mod event;
pub mod file;
pub mod ids;
pub mod jfr;
mod layout;
mod memory;
mod names;
pub mod record;
pub mod recorder;
mod run;
pub mod schema;
pub mod slot;
pub mod snapshot;
mod ticks;
pub mod word;
