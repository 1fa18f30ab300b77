//! The result of identifying the file at a path.

use crate::identity::Inode;
use crate::tail::Tail;
use millstream_model::OriginId;

/// The result of identifying the file at a path.
pub(super) enum Identity {
    /// The file is open already, with this id.
    Open(OriginId),
    /// The file is recorded, and was opened to resume reading.
    Recorded(Box<Tail>),
    /// The file's inode is unknown.
    Unknown(Inode),
    /// The file is compressed or a copy, and may still be incomplete.
    Incomplete,
    /// The file is excluded, or was adopted under another name.
    Skipped,
}
