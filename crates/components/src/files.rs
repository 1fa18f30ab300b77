//! Building blocks of the file source: discovery, inotify, opening, identity, line filters.

pub mod content;
pub mod copy_detection;
pub mod discover;
pub mod folder_inodes;
pub mod held;
pub mod identity;
pub mod line_filter;
pub mod open;
pub mod range;
pub mod records;
pub mod renames;
pub mod rotation_names;
pub mod scan_budget;
pub mod stability;
pub mod watch;
