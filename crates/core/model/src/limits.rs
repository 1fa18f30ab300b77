//! Every limit of the data path, with its unit and reason.

use std::time::Duration;

/// Bytes of a read block. Large enough that one batch pays for its scheduling (about 1 µs) many
/// times over, small enough that the block and what is encoded from it stay in a core's L2 cache.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Rows of one batch at most: bounds the 12 bytes a row costs beside its text.
pub const BATCH_ROWS_MAX: usize = 16 * 1024;

/// Bytes a row costs in a batch beside its text: a cell (8) and a line start (4).
pub const ROW_BYTES: usize = 12;

/// Free blocks kept for reuse; more are given back to the system.
pub const FREE_BLOCKS_MAX: usize = 8;

/// Sinks of one agent: a [`crate::SinkSet`] is a 64-bit word.
pub const SINKS_MAX: usize = 64;

/// Smallest `limits.memory` the agent starts with, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// A block smaller than this fraction of itself in use is copied before it outlives the worker
/// (one over this number: a quarter).
pub const COMPACT_BELOW: usize = 4;

// Rows start at 32-bit positions of their block.
const _: () = assert!(BLOCK_BYTES <= u32::MAX as usize);

/// First pause after a failed delivery; it doubles with each further failure. An endpoint that
/// restarts quickly is found again quickly.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Longest pause between two attempts: how late, at most, a recovered endpoint is noticed.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);
