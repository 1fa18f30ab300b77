//! All tests of the crate's public items, in one binary.

mod graphs;
mod jfr;
mod pprof;
