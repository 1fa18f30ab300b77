//! A JVM inside the process: finds and starts it, and calls operators with the addresses of batches.
//!
//! A separate crate because it fences `unsafe`: the Invocation API and the memory that both sides
//! share.

pub mod layout;
