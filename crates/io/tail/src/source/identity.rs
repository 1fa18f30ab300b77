//! Which file a path leads to.

use crate::identity::Inode;
use crate::tail::Tail;
use millstream_model::OriginId;

/// Identity of the file at a path.
pub(super) enum Identity {
    /// It is open already, under this id.
    Open(OriginId),
    /// It is recorded; this is the file, opened to resume reading.
    Recorded(Box<Tail>),
    /// Its inode is unknown.
    Unknown(Inode),
    /// It is compressed, and may still be incomplete.
    Incomplete,
    /// It is excluded, or was adopted under another name.
    Skipped,
}
