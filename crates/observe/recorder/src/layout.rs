//! Positions of the parts in a recording file.
//!
//! ```text
//! header | texts and subjects, two halves | chunks for frequent events | chunks for others
//! ```
//!
//! All numbers are little-endian words of 64 bits. `docs/formats/recorder.md` lists them.

use crate::schema::EVENTS;
use std::ops::Range;

/// First word of a recording file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"MSRINGS\0");
/// Second word of a recording file.
pub const VERSION: u64 = 1;

/// Number of words in the header.
pub const HEADER_WORDS: usize = 512;
/// Number of words in a chunk: 32 KiB or 1022 slots. A thread takes another chunk after 1022
/// events. A thread that records both frequent and other events owns two chunks.
pub const CHUNK_WORDS: usize = 4096;

/// Maximum number of event types in the header.
const KINDS_MAX: usize = 64;
const _: () = assert!(EVENTS.len() <= KINDS_MAX);

/// Number of chunks, for each use, that have memory from the start. This is enough for an agent's
/// first threads.
pub const CHUNKS_FIRST: usize = 8;

/// Index of the name table half that is used first.
pub const FIRST_HALF: usize = 1;

/// Number of words in the first half that have memory from the start: 128 KiB, enough for more than
/// a thousand paths.
pub const NAME_WORDS_FIRST: usize = 16 << 10;

/// Number of words for the agent's version.
const AGENT_VERSION_WORDS: usize = 8;

/// A word in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Field {
    /// The value [`MAGIC`].
    Magic,
    /// The value [`VERSION`].
    Version,
    /// Number of words in one half of the name table.
    HalfWords,
    /// Number of chunks for frequent events.
    FrequentChunks,
    /// Number of chunks for other events.
    OtherChunks,
    /// Process id.
    Pid,
    /// 0 if ticks are from the time stamp counter, 1 if they are nanoseconds of the system clock.
    ClockSource,
    /// The start of the run, according to each clock.
    StartTicks,
    StartMonotonicNs,
    StartUnixNs,
    /// Odd while the next three fields are being written.
    LatestVersion,
    /// The most recent second of the run, according to each clock.
    LatestTicks,
    LatestMonotonicNs,
    LatestUnixNs,
    /// 1 if the run ended normally.
    Ended,
    /// The sequence that was most recently assigned to a chunk.
    Sequence,
    /// Index of the chunk to try next for frequent events.
    FrequentCursor,
    /// Index of the chunk to try next for other events.
    OtherCursor,
    /// Number of chunks for frequent events for which the file has allocated blocks.
    FrequentAvailable,
    /// Number of chunks for other events for which the file has allocated blocks.
    OtherAvailable,
    /// Number of events that were lost because there was no chunk for them.
    WithoutSpace,
    /// Number of strings and subjects that could not be stored in the name table.
    WithoutName,
    /// Ticks per second, as measured at the start of the run.
    FirstRate,
}

/// The agent's version in UTF-8, padded with zeros.
pub const AGENT_VERSION: Range<usize> = 32..32 + AGENT_VERSION_WORDS;
/// For each event type, the number of events that were not recorded because the type was over its
/// rate limit.
pub const OVER_RATE: Range<usize> = 64..64 + KINDS_MAX;
/// Threshold of an event type that is disabled.
pub const OFF: u64 = u64::MAX;
/// For each event type, its threshold in nanoseconds, or [`OFF`].
pub const THRESHOLD_NS: Range<usize> = 128..128 + KINDS_MAX;
/// For each event type, the maximum number of events per second, or 0 for no limit.
pub const RATE: Range<usize> = 192..192 + KINDS_MAX;

/// Positions of the parts in a recording file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of words in one half of the name table.
    pub half_words: usize,
    /// Number of chunks for frequent events.
    pub frequent_chunks: usize,
    /// Number of chunks for other events.
    pub other_chunks: usize,
}

impl Layout {
    /// Returns the layout for a file of about `bytes` bytes. A quarter of the file is for names,
    /// and a quarter of the chunks is for events that are not frequent.
    pub fn of_bytes(bytes: u64) -> Layout {
        let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        let half_words = words / 8 / HEADER_WORDS * HEADER_WORDS;
        let half_words = half_words.clamp(HEADER_WORDS, HALF_WORDS_MAX);
        let chunks = words.saturating_sub(HEADER_WORDS + 2 * half_words) / CHUNK_WORDS;
        let chunks = chunks.max(4);
        let other_chunks = chunks / 4;
        Layout { half_words, frequent_chunks: chunks - other_chunks, other_chunks }
    }

    /// Returns the position of one half of the name table.
    pub fn half(&self, half: usize) -> Range<usize> {
        let at = HEADER_WORDS + half * self.half_words;
        at..at + self.half_words
    }

    /// Returns the position of the chunks for frequent events.
    pub fn frequent(&self) -> Range<usize> {
        let at = self.half(1).end;
        at..at + self.frequent_chunks * CHUNK_WORDS
    }

    /// Returns the position of the chunks for other events.
    pub fn other(&self) -> Range<usize> {
        let at = self.frequent().end;
        at..at + self.other_chunks * CHUNK_WORDS
    }

    /// Returns the parts that are used from the start: the header, the beginning of one half of the
    /// name table, and a few chunks of each use.
    pub fn first(&self) -> [Range<usize>; 4] {
        let begin = |pool: Range<usize>, words: usize| pool.start..pool.end.min(pool.start + words);
        let chunks = CHUNKS_FIRST * CHUNK_WORDS;
        let names = begin(self.half(FIRST_HALF), NAME_WORDS_FIRST);
        [0..HEADER_WORDS, names, begin(self.frequent(), chunks), begin(self.other(), chunks)]
    }

    /// Returns all parts that are not in [`Layout::first`].
    pub fn rest(&self) -> [Range<usize>; 4] {
        let [_, names, frequent, other] = self.first();
        [
            self.half(1 - FIRST_HALF),
            names.end..self.half(FIRST_HALF).end,
            frequent.end..self.frequent().end,
            other.end..self.other().end,
        ]
    }

    /// Returns the number of words in the file.
    pub fn words(&self) -> usize {
        self.other().end
    }
}

/// Maximum number of words in a half. A reference has 23 bits for a position.
pub const HALF_WORDS_MAX: usize = 1 << 22;
