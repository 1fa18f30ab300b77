//! Components that change data.

pub mod parse;
