//! The state that a source saves across restarts.

use crate::origin::OriginId;
use std::io;

/// A saved origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginRecord {
    /// The origin's id.
    pub id: OriginId,
    /// Data by which the source recognizes the origin, in the source's format.
    pub descriptor: Vec<u8>,
    /// Checkpoint of each sink, by sink id; sinks that have never settled anything are missing.
    pub checkpoints: Vec<(String, u64)>,
}

/// A source's view of the checkpoint store, limited to its origins.
pub trait OriginStore: Send + Sync {
    /// Returns all of this source's origins, and whether the source has ever run with this store. A
    /// failed read is an error, never an empty result, because the source would treat all known
    /// origins as new.
    fn origins(&self) -> io::Result<(Vec<OriginRecord>, bool)>;

    /// Returns whether the source has ever run with this store.
    fn has_run(&self) -> io::Result<bool>;

    /// Returns the next of this source's origins in id order, starting with the first id after
    /// `after`. The list is empty at the end. The origins are returned in parts, because a source
    /// may have millions of them.
    fn origins_after(&self, after: Option<OriginId>) -> io::Result<Vec<OriginRecord>>;

    /// Returns one origin, including changes that are waiting for a commit; `None` if the origin is
    /// unknown.
    fn origin(&self, origin: OriginId) -> io::Result<Option<OriginRecord>>;

    /// Saves descriptors, which are durable on return. An origin's id must be saved before its
    /// first batch.
    fn keep(&self, origins: &[(OriginId, Vec<u8>)]) -> io::Result<()>;

    /// Saves a descriptor with or before the next commit of checkpoints. If a descriptor is passed
    /// before a range is issued, the descriptor is therefore saved no later than the settlement of
    /// that range.
    fn note(&self, origin: OriginId, descriptor: Vec<u8>);

    /// Returns whether the store has committed all of the origin's checkpoints. Before that, a
    /// crash would undo the settlement, so the data before the checkpoint must stay readable.
    fn is_committed(&self, _origin: OriginId) -> bool {
        true
    }

    /// Returns an origin's committed checkpoints, which survive a crash, by sink id. Blocks while a
    /// commit is in progress.
    fn committed(&self, origin: OriginId) -> io::Result<Vec<(String, u64)>>;

    /// Forgets origins and their checkpoints.
    fn forget(&self, origins: &[OriginId]) -> io::Result<()>;
}
