//! A test harness for components: fake sources and sinks, a manually driven engine side of a
//! source, and functions that build and check batches. For tests and benchmarks only.
//!
//! A separate crate because it cuts a dependency: tests of the core build without the clients of
//! real servers, which are in `testkit-servers`.

#![forbid(unsafe_code)]

mod batch;
mod flight_recording;
mod journal;
mod lines;
mod merge;
mod recording;
mod rig;
mod sink;
mod source;
mod store;
mod stored;
mod yaml;

pub use batch::{Rows, assert_valid, batch};
pub use flight_recording::FlightRecording;
pub use journal::{JournalEntry, JournalWriter};
pub use lines::{split_file_lines, split_lines};
pub use merge::{FakeMerge, MemorySnapshots, MergeBehavior};
pub use recording::{
    RecordedSum, RecordingTest, ThreadBytes, recorded, start_recording, thread_bytes,
};
pub use rig::SourceRig;
pub use sink::{FakeSink, MemoryEndpoint, SinkBehavior, is_refused};
pub use source::MemoryLog;
pub use store::MemoryStore;
pub use stored::{damaged, reread, stored, written_routing};
pub use yaml::yaml;
