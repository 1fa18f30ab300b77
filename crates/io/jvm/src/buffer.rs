//! The memory into which operators write, and the conversion of this memory to columns without a
//! copy.

use crate::layout;
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mremap, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Usual size of a buffer in bytes. Only pages that have been written occupy memory.
pub const BUFFER_BYTES: usize = 10 << 20;

/// Maximum size of a buffer in bytes, which is a limit of the layout.
const BUFFER_BYTES_MAX: usize = layout::OUT_BYTES_MAX as usize;

/// Maximum size of values that are copied, in bytes. Larger values keep their buffer, which may
/// contain as many unused bytes as values, so values that are kept for a long time take at most
/// about twice their size. Copying a few bytes costs less than the fresh pages of the next buffer.
const COPY_BYTES_MAX: usize = 64 << 10;

const PAGE_BYTES: usize = 4096;

/// Anonymous memory from the kernel, initially zeroed.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Number of bytes from the start that may have been written, and that therefore occupy memory.
    written: usize,
}

// SAFETY: the mapping is owned by this value, and nothing in it depends on the thread.
unsafe impl Send for Mapping {}
// SAFETY: shared references allow only reads.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> io::Result<Mapping> {
        let (access, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, flags)? };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("address 0"))?;
        let mapping = Mapping { start, len, written: 0 };
        // Huge pages would make the whole mapping resident even for a few short values.
        mapping.advise(0, Advice::LinuxNoHugepage);
        Ok(mapping)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` initialized bytes and lives as long as `self`. They change
        // only through `bytes_mut`, and in Java during a call, while no view exists.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes this view the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Changes the size. As much of the contents as fits is kept. The address may change.
    fn resize(&mut self, len: usize) -> io::Result<()> {
        // SAFETY: the old range is this mapping, and `&mut self` rules out views into it.
        let start =
            unsafe { mremap(self.start.as_ptr().cast(), self.len, len, MremapFlags::MAYMOVE)? };
        self.start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("address 0"))?;
        self.len = len;
        self.written = self.written.min(len);
        Ok(())
    }

    /// Returns the pages after the first `used` bytes to the kernel if they contain more bytes than
    /// the used part. Otherwise the pages are kept, because they will soon be used again, and fresh
    /// pages cost more.
    fn trim(&mut self, used: usize) {
        if self.written - used > used {
            self.advise(used.next_multiple_of(PAGE_BYTES).min(self.len), Advice::LinuxDontNeed);
            self.written = used;
        }
    }

    /// Gives the kernel advice on all bytes starting at `from`, which must be a multiple of the
    /// page size.
    fn advise(&self, from: usize, advice: Advice) {
        let start = self.start.as_ptr().wrapping_add(from);
        // SAFETY: the range is in this mapping. The only kinds of advice are `NoHugepage`, which
        // does not change the contents, and `DontNeed` from `trim`, which has exclusive access.
        let _ = unsafe { madvise(start.cast(), self.len - from, advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and nothing borrows it anymore.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A pool of unused mappings.
#[derive(Default)]
pub struct Pool {
    unused: Mutex<Vec<Mapping>>,
    unused_max: usize,
}

impl Pool {
    /// Creates a pool that keeps up to `unused_max` unused buffers.
    pub fn new(unused_max: usize) -> Arc<Pool> {
        Arc::new(Pool { unused: Mutex::default(), unused_max })
    }

    fn take(&self) -> io::Result<Mapping> {
        let unused = self.unused.lock().pop();
        unused.map_or_else(|| Mapping::new(BUFFER_BYTES), Ok)
    }

    fn put(&self, mut mapping: Mapping) {
        if mapping.len > BUFFER_BYTES && mapping.resize(BUFFER_BYTES).is_err() {
            return;
        }
        let mut unused = self.unused.lock();
        if unused.len() < self.unused_max {
            unused.push(mapping);
        }
    }
}

/// A worker's buffer, which takes its memory from a pool.
pub struct Buffer {
    mapping: Option<Mapping>,
    pool: Arc<Pool>,
}

impl Buffer {
    /// Creates a buffer without memory.
    pub fn new(pool: Arc<Pool>) -> Buffer {
        Buffer { mapping: None, pool }
    }

    /// Takes memory from the pool if the buffer has none. Returns the address and the size of the
    /// memory.
    ///
    /// # Errors
    /// Returns an error if the kernel has no memory.
    pub fn prepare(&mut self) -> io::Result<(usize, usize)> {
        let mapping = match self.mapping.take() {
            Some(mapping) => mapping,
            None => self.pool.take()?,
        };
        let mapping = self.mapping.insert(mapping);
        Ok((mapping.start.as_ptr() as usize, mapping.len))
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        self.mapping.as_ref().map_or(&[], Mapping::bytes)
    }

    /// Grows the buffer to at least `needed` bytes, and returns its address and size. The contents
    /// are kept.
    ///
    /// # Errors
    /// Returns an error if `needed` exceeds the maximum size of an answer, or if the kernel has no
    /// memory.
    pub fn grow(&mut self, needed: usize) -> io::Result<(usize, usize)> {
        let (_, len) = self.prepare()?;
        if needed > BUFFER_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        }
        if let Some(mapping) = self.mapping.as_mut().filter(|_| needed > len) {
            mapping.resize(needed.next_power_of_two().min(BUFFER_BYTES_MAX))?;
        }
        self.prepare()
    }

    /// Overwrites the start of the buffer with `bytes` bytes from an address.
    ///
    /// # Errors
    /// See [`Buffer::grow`].
    ///
    /// # Safety
    /// `bytes` bytes must be mapped at the address, and must stay mapped during the call.
    pub unsafe fn fill(&mut self, from: *const u8, bytes: usize) -> io::Result<()> {
        let (_, len) = self.grow(bytes)?;
        debug_assert!(bytes <= len);
        if let Some(mapping) = &mut self.mapping {
            // SAFETY: the mapping has at least this many bytes, and overlaps nothing else.
            unsafe { ptr::copy_nonoverlapping(from, mapping.start.as_ptr(), bytes) };
        }
        self.note_written(bytes);
        Ok(())
    }

    /// Records that the first `bytes` bytes may have been written.
    pub fn note_written(&mut self, bytes: usize) {
        if let Some(mapping) = &mut self.mapping {
            mapping.written = mapping.written.max(bytes.min(mapping.len));
        }
    }

    /// Returns the first `used` bytes, followed by `more`, as a value that owns them. The bytes are
    /// copied only if they are few; otherwise, the value takes over the buffer's memory. Afterward,
    /// the buffer is at most of the usual size.
    ///
    /// # Errors
    /// Returns an error if there is no memory.
    pub fn take(&mut self, used: usize, more: &[u8]) -> io::Result<Bytes> {
        let len = used + more.len();
        if len <= COPY_BYTES_MAX {
            let mut copy = Vec::with_capacity(len);
            copy.extend_from_slice(&self.bytes()[..used]);
            copy.extend_from_slice(more);
            self.shrink();
            return Ok(copy.into());
        }
        self.grow(len)?;
        let Some(mut mapping) = self.mapping.take() else { return Ok(Bytes::new()) };
        mapping.bytes_mut()[used..len].copy_from_slice(more);
        mapping.written = mapping.written.max(len);
        mapping.trim(len);
        Ok(Bytes::from_owner(PooledValues {
            mapping: Some(mapping),
            len,
            pool: Arc::clone(&self.pool),
        }))
    }

    /// Returns the buffer's memory to the pool if it is larger than usual.
    pub fn shrink(&mut self) {
        if let Some(mapping) = self.mapping.take_if(|mapping| mapping.len > BUFFER_BYTES) {
            self.pool.put(mapping);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            self.pool.put(mapping);
        }
    }
}

/// Values to which columns refer. The memory returns to the pool when the last column is dropped.
struct PooledValues {
    mapping: Option<Mapping>,
    len: usize,
    pool: Arc<Pool>,
}

impl AsRef<[u8]> for PooledValues {
    fn as_ref(&self) -> &[u8] {
        self.mapping.as_ref().map_or(&[], |mapping| &mapping.bytes()[..self.len])
    }
}

impl Drop for PooledValues {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            self.pool.put(mapping);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(buffer: &mut Buffer, at: usize, bytes: &[u8]) {
        let mapping = buffer.mapping.as_mut().unwrap();
        mapping.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn few_values_are_copied_and_many_keep_the_memory() {
        let mut buffer = Buffer::new(Pool::new(4));
        let (address, len) = buffer.prepare().unwrap();
        assert_eq!((address % 8, len), (0, BUFFER_BYTES));
        write(&mut buffer, 0, b"values");
        assert_eq!(buffer.take(6, b"+more").unwrap(), "values+more");
        assert_eq!(buffer.prepare().unwrap().0, address, "the memory was kept");
        let many = buffer.take(COPY_BYTES_MAX, b"end").unwrap();
        assert_eq!(many.as_ptr() as usize, address, "without a copy");
        assert_eq!((&many[..6], &many[COPY_BYTES_MAX..]), (&b"values"[..], &b"end"[..]));
        assert_ne!(buffer.prepare().unwrap().0, address);
    }

    #[test]
    fn memory_returns_to_the_pool_with_the_last_reference() {
        let pool = Pool::new(1);
        let mut buffer = Buffer::new(Arc::clone(&pool));
        let (address, _) = buffer.prepare().unwrap();
        let values = buffer.take(1 << 20, b"").unwrap();
        let part = values.slice(5..9);
        drop(values);
        assert!(pool.unused.lock().is_empty(), "a part is still used");
        drop(part);
        assert_eq!(buffer.prepare().unwrap().0, address, "the pool gave it back");
        let more: Vec<Bytes> = (0..3).map(|_| buffer.take(1 << 20, b"").unwrap()).collect();
        drop(more);
        assert_eq!(pool.unused.lock().len(), 1, "the pool is bounded");
    }

    #[test]
    fn many_pages_behind_the_values_are_returned() {
        let mut buffer = Buffer::new(Pool::new(1));
        buffer.prepare().unwrap();
        write(&mut buffer, 4 << 20, b"behind");
        buffer.note_written(5 << 20);
        let values = buffer.take(1 << 20, b"").unwrap();
        drop(values);
        buffer.prepare().unwrap();
        assert_eq!(&buffer.bytes()[4 << 20..][..6], [0; 6], "from the kernel again");
        write(&mut buffer, 1 << 20, b"little");
        buffer.note_written((1 << 20) + 6);
        drop(buffer.take(1 << 20, b"").unwrap());
        buffer.prepare().unwrap();
        assert_eq!(&buffer.bytes()[1 << 20..][..6], b"little");
    }

    #[test]
    fn growth_keeps_what_was_written_and_is_returned() {
        let pool = Pool::new(1);
        let mut buffer = Buffer::new(Arc::clone(&pool));
        buffer.prepare().unwrap();
        write(&mut buffer, BUFFER_BYTES - 4, b"tail");
        let (_, len) = buffer.grow(BUFFER_BYTES + 1).unwrap();
        assert_eq!(len, 16 << 20);
        let values = buffer.take(BUFFER_BYTES, b"more").unwrap();
        assert_eq!(&values[BUFFER_BYTES - 4..], b"tailmore");
        drop(values);
        assert_eq!(buffer.prepare().unwrap().1, BUFFER_BYTES, "shrunk");
        buffer.grow(BUFFER_BYTES * 2).unwrap();
        buffer.take(3, b"").unwrap();
        assert_eq!(buffer.prepare().unwrap().1, BUFFER_BYTES, "shrunk after a copy, too");
    }

    #[test]
    fn growth_is_limited() {
        let mut buffer = Buffer::new(Pool::new(1));
        assert!(buffer.grow(BUFFER_BYTES_MAX + 1).is_err());
        assert_eq!(buffer.grow(BUFFER_BYTES_MAX).unwrap().1, BUFFER_BYTES_MAX);
        assert_eq!(buffer.grow(5).unwrap().1, BUFFER_BYTES_MAX, "never shrinks during a call");
        assert_eq!(
            buffer.take(BUFFER_BYTES_MAX, b"x").unwrap_err().kind(),
            io::ErrorKind::OutOfMemory
        );
    }
}
