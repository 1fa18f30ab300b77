//! Tests of the whole crate.

mod differential;
mod random;
mod reference;
