//! Components that take data in.

pub mod file;
pub mod generate;
pub mod stdin;
