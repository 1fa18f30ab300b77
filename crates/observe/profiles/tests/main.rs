//! All tests of what the crate exports, in one binary.

mod graphs;
mod jfr;
mod pprof;
