//! Every limit of the data path, with its unit and reason.

use std::time::Duration;

/// Bytes of a read block. Large enough that one batch pays for its scheduling (about 1 µs) many
/// times over, small enough that the block and its encoded form stay in a core's L2 cache.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Maximum number of rows of a batch; bounds the 12 bytes that a row costs in addition to its text.
pub const BATCH_ROWS_MAX: usize = 16 * 1024;

/// Bytes that a row costs in a batch in addition to its text: a cell (8) and a line start (4).
pub const ROW_BYTES: usize = 12;

/// Bytes that a waiting payload takes in addition to its text: the payload itself, its debts, and
/// the ledger's entry for its range. Measured with payloads of one byte: 420.
pub const PAYLOAD_BYTES: u64 = 512;

/// Free blocks kept for reuse; more are returned to the system.
pub const FREE_BLOCKS_MAX: usize = 8;

/// Maximum number of sinks of an agent: a [`crate::SinkSet`] is a 64-bit word.
pub const SINKS_MAX: usize = 64;

/// Minimum of `limits.memory`, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// Denominator of the share of a block below which it is copied before it outlives the worker: a
/// block is copied if less than a quarter of it is in use.
pub const COMPACT_BELOW: usize = 4;

// Rows start at 32-bit positions in their block.
const _: () = assert!(BLOCK_BYTES <= u32::MAX as usize);

/// Maximum of the first pause after a failed delivery; later pauses grow with the time since the
/// failure. The short first pause finds an endpoint that restarts quickly.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Maximum pause between two attempts, which is also the maximum delay until a recovered endpoint
/// is noticed.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);
