//! Components that change data.

pub mod dedupe;
pub mod fields;
pub mod filter;
pub mod parse;
pub mod redact;
pub mod route;
pub mod sample;
pub mod throttle;
