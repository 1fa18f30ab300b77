//! Every limit of the crate, with unit and reason.

/// Most bytes of a name, and of the tags of a point as they arrived. Lengths are kept in two bytes.
pub const TEXT_BYTES_MAX: usize = u16::MAX as usize;

/// Values that a sketch keeps one by one. Below, quantiles are exact; with the weights they take 1
/// KiB.
pub const EXACT_VALUES_MAX: usize = 64;

/// Pages of a sketch: one for each power of two that has values, 64 counts of 8 bytes each. Values
/// of 38 decimal orders of magnitude find room, in at most 66 KiB.
pub const PAGES_MAX: usize = 128;

/// Timed values of one reading, so that what becomes of a reading has a bound.
pub const READING_TIMED_MAX: usize = 1024;

/// Entries of one chunk of a table that grows: no entry ever moves, and at most this many lie
/// unused.
pub const CHUNK_ENTRIES: usize = 1024;

/// What a source takes by default, and what it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Series of one shard.
    pub series: usize,
    /// Orders of tags that are known by their bytes, beside the first one of each series, of one
    /// shard. A point in one more order is parsed each time.
    pub aliases: usize,
    /// Tags of a series, without empty and repeated ones.
    pub tags: usize,
    /// Bytes of a name.
    pub name_bytes: usize,
    /// Bytes of the tags of a point as they arrived.
    pub tags_bytes: usize,
    /// Values with a timestamp of one shard in one period. What is more counts as if it had none.
    pub timed: usize,
    /// Members of one set in one shard and period. What is more is counted, but is in no set.
    pub members: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            series: 1_000_000,
            aliases: 1_000_000,
            tags: 64,
            name_bytes: 255,
            tags_bytes: 4096,
            timed: 1_000_000,
            members: 65_536,
        }
    }
}
