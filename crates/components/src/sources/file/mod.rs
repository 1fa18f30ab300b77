//! Source `file`: tails files, follows them through rotation, and never skips a line.
//!
//! - `source` decides when to look at which file, and `source/finding` which file is which.
//! - `tail` is one file: its cursors, and reading lines of it into a block.
//!
//! It stands on `files`: finding names, noticing news, opening, recognising, choosing lines.

mod config;
mod source;
mod tail;

pub use config::{FileConfig, ReadFrom};
pub use source::FileSource;
