//! Tests of the whole program, in one binary so that they are linked once.

mod docs;
mod e2e;
mod golden;
mod support;
mod tidy;
