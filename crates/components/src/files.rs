//! What a source of files stands on: finding names, noticing news, opening, recognising, choosing
//! lines.

pub mod content;
pub mod copies;
pub mod discover;
pub mod effort;
pub mod held;
pub mod identity;
pub mod moves;
pub mod names;
pub mod open;
pub mod packing;
pub mod range;
pub mod records;
pub mod select;
pub mod watch;
