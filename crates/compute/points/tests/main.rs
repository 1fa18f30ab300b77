//! All tests of what the crate exports, in one binary.

mod allocations;
mod dogstatsd;
mod metricserver;
mod recorder;
