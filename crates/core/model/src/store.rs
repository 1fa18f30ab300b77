//! What a source keeps over a restart.

use std::io;

/// One origin as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginRecord {
    /// The origin's id.
    pub id: u64,
    /// What the source needs to recognise the origin, in the source's own format.
    pub descriptor: Vec<u8>,
    /// Checkpoint of each sink, by sink id; a sink that never settled anything is missing.
    pub checkpoints: Vec<(String, u64)>,
}

/// The part of the checkpoint store a source sees: its own origins.
pub trait OriginStore: Send + Sync {
    /// Every origin kept for this source, and whether the source ever ran with this store. What
    /// cannot be read is an error, never an empty answer: a source would take all it knows for new.
    fn origins(&self) -> io::Result<(Vec<OriginRecord>, bool)>;

    /// Keeps descriptors; durable on return. An origin's id must be kept before its first batch.
    fn keep(&self, origins: &[(u64, Vec<u8>)]) -> io::Result<()>;

    /// Keeps descriptors with the next commit of checkpoints, in the same transaction or before:
    /// what is noted before a range is issued is kept once that range is settled.
    fn note(&self, origin: u64, descriptor: Vec<u8>);

    /// Whether no checkpoint of the origin waits for a commit. Before its commit a crash takes a
    /// settlement back, so what the checkpoint covers must stay readable until then.
    fn is_committed(&self, _origin: u64) -> bool {
        true
    }

    /// Forgets origins and their checkpoints.
    fn forget(&self, origins: &[u64]) -> io::Result<()>;
}
