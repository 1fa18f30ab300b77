//! Fake sources and sinks, and randomness that can be repeated. For tests only.

mod random;
mod sink;
mod source;

pub use random::Random;
pub use sink::{FakeSink, Shelf, Temper};
pub use source::MemoryLog;
