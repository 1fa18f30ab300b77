//! All tests of the crate's public items, in one binary.

mod allocations;
mod dogstatsd;
mod metricserver;
mod recorder;
