//! Components that change data.

pub mod dedupe;
pub mod filter;
pub mod parse;
pub mod route;
pub mod sample;
pub mod throttle;
