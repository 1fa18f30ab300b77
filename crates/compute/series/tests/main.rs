//! All tests of what the crate exports, in one binary.

mod allocations;
mod gauges;
mod limits;
mod oracle;
mod outputs;
mod sketch;
mod steps;
mod threads;
