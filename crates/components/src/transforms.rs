//! Components that change data.

pub mod fields;
pub mod parse;
pub mod redact;
