//! The limits of the data path, each with its unit and reason.

use std::time::Duration;

/// Size of a read block in bytes. A block is large enough that one batch pays for its scheduling
/// (about 1 µs) many times over, and small enough that the block and its encoded form stay in a
/// core's L2 cache.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Maximum number of rows in a batch. This bounds the memory for rows, which is 12 bytes per row in
/// addition to the text.
pub const BATCH_ROWS_MAX: usize = 16 * 1024;

/// Bytes that a row in a batch costs in addition to its text: a cell (8) and a line start (4).
pub const ROW_BYTES: usize = 12;

/// Bytes that a queued payload takes in addition to its text: the payload itself, its debts, and
/// the ledger's entry for its range. Measured with one-byte payloads: 420.
pub const PAYLOAD_BYTES: u64 = 512;

/// Maximum number of free blocks kept for reuse. Additional blocks are returned to the system.
pub const FREE_BLOCKS_MAX: usize = 8;

/// Maximum number of sinks in an agent. A [`crate::SinkSet`] is one 64-bit word.
pub const SINKS_MAX: usize = 64;

/// Minimum value of `limits.memory`, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// A block that outlives the worker is copied if less than one part in this many is in use, that
/// is, less than a quarter.
pub const COMPACT_BELOW: usize = 4;

// Rows start at 32-bit positions in a block.
const _: () = assert!(BLOCK_BYTES <= u32::MAX as usize);

/// Maximum length of the first pause after a failed delivery; later pauses grow with the time since
/// the failure. The short first pause finds an endpoint that restarts quickly.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Maximum pause between two attempts, which is also the maximum delay until a recovered endpoint
/// is noticed.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);
