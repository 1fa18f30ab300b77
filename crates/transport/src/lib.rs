//! How bytes leave for a far side: HTTP requests over connections that are kept, endpoints with
//! their health, and the pauses between attempts.
//!
//! This crate knows no component: what is sent, and what an answer means for the events in it, is
//! decided by the sinks.

pub mod auth;
mod backoff;
mod stamp;
mod sys;
pub mod tcp;
pub mod tls;

pub use backoff::{BACKOFF_MAX, BACKOFF_MIN, Backoff, random};
