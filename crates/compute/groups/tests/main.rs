//! All tests of what the crate exports, in one binary.

mod allocations;
mod model;
mod oracle;
mod sides;
