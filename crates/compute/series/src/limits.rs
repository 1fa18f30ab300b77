//! All limits of the crate, with units and reasons.

/// Maximum length, in bytes, of a name or of a point's tag text as received. Lengths are stored in
/// two bytes.
pub const TEXT_BYTES_MAX: usize = u16::MAX as usize;

/// Number of values that a sketch stores individually, so that quantiles are exact. The values and
/// their weights take 1 KiB.
pub const EXACT_VALUES_MAX: usize = 64;

/// Maximum number of pages in a sketch. A sketch has one page per power of two that has values, and
/// each page has 64 counts of 8 bytes. The pages cover 38 decimal orders of magnitude in at most 66
/// KiB.
pub const PAGES_MAX: usize = 128;

/// Maximum number of timed values in one reading, which bounds the size of its output.
pub const READING_TIMED_MAX: usize = 1024;

/// Number of entries per chunk in a growing table. Entries never move, and fewer than this many are
/// unused.
pub const CHUNK_ENTRIES: usize = 1024;

/// Limits of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of series.
    pub series: usize,
    /// Maximum number of tag orders to index in addition to the first order of each series. A point
    /// whose tags are in any other order is parsed every time.
    pub aliases: usize,
    /// Maximum number of tags in a series, excluding empty tags and duplicates.
    pub tags: usize,
    /// Maximum length of a name in bytes.
    pub name_bytes: usize,
    /// Maximum size, in bytes, of a point's tag text as received.
    pub tags_bytes: usize,
    /// Maximum number of values with a timestamp per period. Additional values are added without
    /// their timestamp.
    pub timed: usize,
    /// Maximum number of members in a set per period. Additional members are rejected and counted.
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
