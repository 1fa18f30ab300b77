//! Tests of the whole program, in one binary that is linked once.

mod docs;
mod e2e;
mod golden;
mod support;
mod tidy;
