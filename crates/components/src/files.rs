//! What a source of files stands on: finding names, noticing news, choosing lines.

pub mod discover;
pub mod select;
pub mod watch;
