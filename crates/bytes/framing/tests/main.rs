//! All tests of what the crate exports, in one binary.

mod cuts;
mod decoding;
mod samples;
mod traces;
