//! What surrounds a component in a test: fake sources and sinks, the engine's side of a source
//! driven by hand, batches made and checked, randomness that can be repeated, real servers. For
//! tests and benchmarks only.

mod batch;
pub mod certificates;
pub mod frames;
pub mod http;
pub mod kafka;
mod lines;
pub mod prometheus;
mod random;
mod rig;
mod sink;
mod source;
mod store;
pub mod toxiproxy;
pub mod unpack;
mod wire;
mod yaml;

pub use batch::{Rows, assert_whole, batch};
pub use lines::cut_lines;
pub use random::Random;
pub use rig::SourceRig;
pub use sink::{FakeSink, Shelf, Temper};
pub use source::MemoryLog;
pub use store::MemoryStore;
pub use yaml::yaml;
