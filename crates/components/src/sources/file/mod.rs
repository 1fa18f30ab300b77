//! Source `file`: tails files, follows them through rotation, and never skips a line.
//!
//! - `discover` finds the files the globs name, `watch` notices when there is news.
//! - `identity` says which file is which, over renames and restarts.
//! - `tail` is one file: its cursors, and reading lines of it into a block.
//! - `select` keeps or drops lines by content.

mod config;
mod discover;
mod identity;
mod select;
mod source;
mod tail;
mod watch;

pub use config::{FileConfig, LineFilter, ReadFrom};
pub use discover::check_glob;
pub use source::FileSource;
