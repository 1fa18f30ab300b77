//! Components that change data.

pub mod dedupe;
pub mod parse;
pub mod sample;
pub mod throttle;
