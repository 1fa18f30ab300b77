//! Tests of the public interface of the crate, in one binary.

mod hostile;
mod live;
mod support;
mod tree;
