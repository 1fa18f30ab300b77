//! How bytes leave for a far side: HTTP requests over connections that are kept, endpoints with
//! their health, and the pauses between attempts.
//!
//! This crate knows no component: what is sent, and what an answer means for the events in it, is
//! decided by the sinks.

mod backoff;

pub use backoff::{BACKOFF_MAX, BACKOFF_MIN, Backoff, random};
