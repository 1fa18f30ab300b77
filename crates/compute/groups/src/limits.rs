//! Limits of the crate, with units and reasons.

/// Maximum number of key columns. The ids of a row fit in two cache lines.
pub const KEYS_MAX: usize = 16;

/// Maximum bytes of a chunk of rows or texts, which is the size of one allocation. A longer text
/// gets a separate chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Rows that a batch handles at a time. Their cache lines are prefetched together, and stay in the
/// first-level cache until they are used.
pub const BLOCK_ROWS: usize = 32;

/// Buckets from which an index is split into parts: 64 KiB.
pub const SPLIT_BUCKETS: usize = 1024;

/// Logarithm of the number of parts of a large index. With ten million entries a part takes about
/// half a megabyte, and copying it takes some hundred microseconds.
pub const PARTS_BITS: u32 = 8;
