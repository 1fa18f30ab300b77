//! What a file source needs: discovery, inotify, opening, identity, line filters.

pub mod content;
pub mod copies;
pub mod discover;
pub mod held;
pub mod identity;
pub mod names;
pub mod open;
pub mod range;
pub mod records;
pub mod renames;
pub mod scan_budget;
pub mod select;
pub mod stability;
pub mod watch;
