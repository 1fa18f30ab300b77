//! All tests of the crate's public items, in one binary.

mod cuts;
mod decoding;
mod samples;
mod traces;
