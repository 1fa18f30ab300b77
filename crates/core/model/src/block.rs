//! Read blocks and payload buffers: memory that is filled once, shared by reference, and recycled.

use crate::grant::Permit;
use crate::limits::{BLOCK_BYTES, FREE_BLOCKS_MAX};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Recycles the memory of blocks and payloads, most recently used first, while it is still in
/// cache.
///
/// Fresh memory costs a page fault per 4 KiB, which takes as long as scanning the block.
#[derive(Default)]
pub struct BlockPool {
    blocks: Mutex<Vec<Vec<u8>>>,
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl BlockPool {
    /// Creates an empty pool.
    pub fn new() -> Arc<BlockPool> {
        Arc::default()
    }

    /// Returns a block of at least `bytes` bytes, whose memory `permit` accounts for.
    pub fn block(self: &Arc<Self>, bytes: usize, permit: Permit) -> Block {
        let reused = (bytes <= BLOCK_BYTES).then(|| self.blocks.lock().pop()).flatten();
        let memory = reused.unwrap_or_else(|| vec![0; bytes.max(BLOCK_BYTES)]);
        Block { memory, pool: self.clone(), _permit: permit }
    }

    /// Returns an empty buffer to encode into; [`BlockPool::freeze`] makes it shareable.
    pub fn buffer(&self) -> Vec<u8> {
        self.buffers.lock().pop().unwrap_or_default()
    }

    /// Makes an encoded buffer shareable. When its last slice is dropped, its memory returns to the
    /// pool and its bytes to the grant.
    pub fn freeze(self: &Arc<Self>, buffer: Vec<u8>, permit: Permit) -> Bytes {
        Bytes::from_owner(Buffer { memory: buffer, pool: self.clone(), _permit: permit })
    }

    /// Returns an unused buffer to the pool.
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        // Memory of a rare, huge payload must not stay resident forever.
        if buffer.capacity() <= 16 * BLOCK_BYTES {
            recycle(&self.buffers, buffer);
        }
    }
}

fn recycle(list: &Mutex<Vec<Vec<u8>>>, memory: Vec<u8>) {
    let mut free = list.lock();
    if free.len() < FREE_BLOCKS_MAX {
        free.push(memory);
    }
}

/// A block of memory to read into.
pub struct Block {
    memory: Vec<u8>,
    pool: Arc<BlockPool>,
    _permit: Permit,
}

impl Block {
    /// Returns the whole block, to be filled. The block starts with stale data, which must never be
    /// exposed.
    pub fn memory(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Returns the first `len` bytes.
    pub fn filled(&self, len: usize) -> &[u8] {
        &self.memory[..len]
    }

    /// Returns the size in bytes.
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Makes the first `len` bytes shareable without a copy.
    pub fn freeze(self, len: usize) -> Bytes {
        Bytes::from_owner(self).slice(..len)
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.memory.len() == BLOCK_BYTES {
            recycle(&self.pool.blocks, std::mem::take(&mut self.memory));
        }
    }
}

struct Buffer {
    memory: Vec<u8>,
    pool: Arc<BlockPool>,
    _permit: Permit,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grant;

    #[test]
    fn a_block_is_recycled_and_its_bytes_return_with_the_last_slice() {
        let (pool, grant) = (BlockPool::new(), Grant::new(1 << 20));
        let mut block = pool.block(1, grant.try_take(BLOCK_BYTES as u64).unwrap());
        block.memory()[..3].copy_from_slice(b"abc");
        let at = block.memory().as_ptr();
        let slice = block.freeze(3).slice(1..);
        assert_eq!((&slice[..], grant.used()), (&b"bc"[..], BLOCK_BYTES as u64));
        drop(slice);
        assert_eq!(grant.used(), 0);
        let again = pool.block(1, grant.try_take(1).unwrap());
        assert_eq!(again.filled(1).as_ptr(), at);
    }
}
