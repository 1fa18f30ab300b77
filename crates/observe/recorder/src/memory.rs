//! The memory-mapped recording file.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::AtomicU64;

/// Words that live as long as the process, because threads write to them until they exit.
pub type Words = &'static [AtomicU64];

/// Allocates the blocks for these words in a file, either all of them or none. Without blocks on
/// disk, writing to mapped memory could kill the process.
///
/// # Errors
///
/// Returns an error if the disk is full, or if the file system cannot allocate blocks.
pub fn allocate(file: &File, words: Range<usize>) -> io::Result<()> {
    let bytes = |words: usize| (words * size_of::<u64>()) as u64;
    let (at, length) = (bytes(words.start), bytes(words.len()));
    loop {
        match fallocate(file, FallocateFlags::empty(), at, length) {
            Err(Errno::INTR) => {}
            Err(error) => {
                // Some file systems keep the blocks that they allocated before the disk was full.
                let free = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                _ = fallocate(file, free, at, length);
                return Err(error.into());
            }
            Ok(()) => return Ok(()),
        }
    }
}

/// Maps the words of a file. Writes reach the file even if the process is killed.
///
/// # Errors
///
/// Returns the system's error.
pub fn map(file: &File, words: usize) -> io::Result<Words> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let bytes = words * size_of::<u64>();
    // SAFETY: the kernel chooses an unused address range.
    let start = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0)? };
    // Without this advice, the kernel reads many pages ahead at the first write to a page, which
    // takes milliseconds.
    // SAFETY: the range is mapped, and the advice does not change its content.
    unsafe { madvise(start, bytes, Advice::Random)? };
    // SAFETY: the range is mapped for reading and writing, aligned to a page, and never unmapped.
    // Other processes can change its words, but any value of a word is valid.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), words) })
}

/// Returns anonymous memory, which is lost when the process exits.
///
/// # Errors
///
/// Returns the system's error.
pub fn without_file(words: usize) -> io::Result<Words> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let bytes = words * size_of::<u64>();
    // SAFETY: the kernel chooses an unused address range.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE)? };
    // SAFETY: the range is mapped for reading and writing, aligned to a page, and never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), words) })
}
