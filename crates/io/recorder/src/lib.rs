//! Events of the agent about its own work, such as the reads of files and the calls of endpoints.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! [`schema`] declares every type of event once: its fields, their units, and when it is recorded.

#![forbid(unsafe_code)]

pub mod event;
pub mod schema;
