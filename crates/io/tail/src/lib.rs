//! Tails files: finds them, identifies them across rotations, and reads them line by line.
//!
//! A separate crate because it cuts a dependency: the crate uses neither configuration options nor
//! other components, so it can be tested alone.
//!
//! ```text
//! discover, links, watch   which paths match, where links lead, and which names change
//! open, content, recorded  the bytes of a file, decompressed; the calls that read and write them
//! identity, records        which file it is, even after a restart
//! rotation_names, renames, copy_detection, stability    the effects of a rotation on it
//! held, copier             deleted files that are still undelivered
//! file_framer, header, line_filter, range    lines and events, and which of them are kept
//! tail                     one open file: its cursors, and reading its lines into a block
//! source                   the schedule of all files
//! ```

#![forbid(unsafe_code)]

mod container_metadata;
mod content;
mod copier;
mod copy_detection;
pub mod discover;
mod file_framer;
mod finished;
mod folder_inodes;
mod header;
mod held;
mod identity;
mod line_filter;
mod links;
mod open;
mod range;
mod records;
mod renames;
mod rotation_names;
mod scan_budget;
mod settings;
mod source;
mod stability;
mod tail;
mod watch;

pub use file_framer::{Framing, LineLimits};
pub use header::{HeaderLines, LineKind};
pub use line_filter::{LineFilter, LineFilters};
pub use open::{Symlinks, open_max, open_regular};
pub use range::Range;
pub use settings::{HeldSettings, TailSettings};
pub use source::FileSource;
