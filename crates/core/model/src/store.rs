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
    /// Checkpoint of each sink, by sink id; a sink that never settled anything is missing.
    pub checkpoints: Vec<(String, u64)>,
}

/// A source's view of the checkpoint store, limited to its origins.
pub trait OriginStore: Send + Sync {
    /// Returns all origins of this source, and whether the source ever ran with this store. A
    /// failed read is an error, never an empty result: the source would treat all known origins as
    /// new.
    fn origins(&self) -> io::Result<(Vec<OriginRecord>, bool)>;

    /// Returns whether the source ever ran with this store.
    fn has_run(&self) -> io::Result<bool>;

    /// Returns the next origins of this source in the order of their ids, from the first id after
    /// `after`; empty at the end. The origins come in parts because a source may know millions.
    fn origins_after(&self, after: Option<OriginId>) -> io::Result<Vec<OriginRecord>>;

    /// Returns one origin, including changes that wait for a commit.
    fn origin(&self, origin: OriginId) -> io::Result<Option<OriginRecord>>;

    /// Saves descriptors; durable on return. An origin's id must be saved before its first batch.
    fn keep(&self, origins: &[(OriginId, Vec<u8>)]) -> io::Result<()>;

    /// Saves a descriptor with or before the next commit of checkpoints: a descriptor noted before
    /// a range is issued is saved once that range is settled.
    fn note(&self, origin: OriginId, descriptor: Vec<u8>);

    /// Returns whether the store has committed all checkpoints of the origin. Until then a crash
    /// takes the settlement back, so the data before the checkpoint must stay readable.
    fn is_committed(&self, _origin: OriginId) -> bool {
        true
    }

    /// Returns the committed checkpoints of an origin, which survive a crash, by sink id. Blocks
    /// while a commit is under way.
    fn committed(&self, origin: OriginId) -> io::Result<Vec<(String, u64)>>;

    /// Forgets origins and their checkpoints.
    fn forget(&self, origins: &[OriginId]) -> io::Result<()>;
}
