//! The file of a run in memory.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::AtomicU64;

/// Words that live as long as the process, because threads write to them until they end.
pub type Words = &'static [AtomicU64];

/// Allocates the blocks behind these words of a file, all or none: writing to memory behind which the disk has no
/// space would end the process.
///
/// # Errors
///
/// The disk is full, or the file system cannot allocate blocks.
pub fn allocate(file: &File, words: Range<usize>) -> io::Result<()> {
    let bytes = |words: usize| (words * size_of::<u64>()) as u64;
    let (at, length) = (bytes(words.start), bytes(words.len()));
    loop {
        match fallocate(file, FallocateFlags::empty(), at, length) {
            Err(Errno::INTR) => {}
            Err(error) => {
                // Some file systems keep the blocks they had until the disk was full.
                let free = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                _ = fallocate(file, free, at, length);
                return Err(error.into());
            }
            Ok(()) => return Ok(()),
        }
    }
}

/// Returns the words of a file, which reach it even if the process is killed.
///
/// # Errors
///
/// Those of the system.
pub fn map(file: &File, words: usize) -> io::Result<Words> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let bytes = words * size_of::<u64>();
    // SAFETY: the kernel chooses an address range that nothing else uses.
    let start = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0)? };
    // Without the advice the first write to a page makes the kernel read many pages ahead, which takes
    // milliseconds.
    // SAFETY: the range is mapped, and the advice does not change what is in it.
    unsafe { madvise(start, bytes, Advice::Random)? };
    // SAFETY: the range is mapped for reading and writing, aligned to a page, and never unmapped.
    // Other processes may change its words, which any value is valid for.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), words) })
}

/// Returns words that are lost with the process.
///
/// # Errors
///
/// Those of the system.
pub fn without_file(words: usize) -> io::Result<Words> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let bytes = words * size_of::<u64>();
    // SAFETY: the kernel chooses an address range that nothing else uses.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE)? };
    // SAFETY: the range is mapped for reading and writing, aligned to a page, and never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), words) })
}
