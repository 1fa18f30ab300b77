//! What a source of files stands on: finding names, noticing news, choosing lines.

pub mod content;
pub mod discover;
pub mod names;
pub mod open;
pub mod range;
pub mod select;
pub mod watch;
