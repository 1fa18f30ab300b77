//! Receivers on real sockets: loopback, and files in temporary folders.

mod datagrams;
mod errors;
mod pauses;
mod streams;
mod support;
mod takeover;
