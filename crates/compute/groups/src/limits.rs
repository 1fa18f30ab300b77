//! Limits of the crate, with units and reasons.

/// Maximum number of key columns. The ids of a row fit into two cache lines.
pub const KEYS_MAX: usize = 16;

/// Maximum size, in bytes, of a row or string chunk, which is a single allocation. A longer string
/// gets a separate chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Number of rows that a batch operation handles at a time. Their cache lines are prefetched
/// together and stay in the L1 cache until they are used.
pub const BLOCK_ROWS: usize = 32;

/// Maximum number of buckets in an index before it is split into parts: 64 KiB.
pub const SPLIT_BUCKETS: usize = 1024;

/// Logarithm of the number of parts in a large index. With ten million entries, each part takes
/// about half a megabyte, and copying a part takes a few hundred microseconds.
pub const PARTS_BITS: u32 = 8;
