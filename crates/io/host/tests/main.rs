//! All tests of what the crate exports, in one binary.

mod hostile;
mod live;
mod support;
mod tree;
