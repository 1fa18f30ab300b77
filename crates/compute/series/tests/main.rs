//! All tests of the crate's public items, in one binary.

mod allocations;
mod gauges;
mod limits;
mod oracle;
mod outputs;
mod sketch;
mod steps;
mod threads;
