//! Source `file`: tails files, follows them through rotation, and never skips a line.
//!
//! - `source` decides when to read which file, and `source/discovery` which file is which. - `tail`
//!   is one file: its cursors, and reading lines of it into a block.
//!
//! It uses `files`: discovery, inotify, opening, identity, line filters.

mod config;
mod source;
mod tail;

pub use config::{FileConfig, ReadFrom};
pub use source::FileSource;
