//! Components that change data.

pub mod aggregate;
pub mod dedupe;
pub mod fields;
pub mod filter;
pub mod jvm;
pub mod on_error;
pub mod parse;
pub mod redact;
pub mod route;
mod rows;
pub mod rules;
pub mod sample;
pub mod throttle;
pub(crate) mod windows;

pub use windows::rewrite_snapshot;
