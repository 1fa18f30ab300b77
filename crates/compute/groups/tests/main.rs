//! All tests of the crate's public items, in one binary.

mod allocations;
mod model;
mod oracle;
mod sides;
