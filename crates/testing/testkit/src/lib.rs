//! What surrounds a component in a test: fake sources and sinks, the engine's side of a source
//! driven by hand, batches made and checked, randomness that can be repeated. For tests and
//! benchmarks only.
//!
//! A separate crate because it cuts a dependency: tests of the core build without the clients of
//! real servers, which are in `testkit-servers`.

#![forbid(unsafe_code)]

mod batch;
mod lines;
mod rig;
mod sink;
mod source;
mod store;
mod yaml;

pub use batch::{Rows, assert_whole, batch};
pub use lines::cut_lines;
pub use rig::SourceRig;
pub use sink::{FakeSink, Shelf, Temper};
pub use source::MemoryLog;
pub use store::MemoryStore;
pub use yaml::yaml;
