//! Kernel stacks. The kernel writes them into each clock's ring (see `perf_event_open(2)`).

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page, and of the ring's data, which has room for a few stacks. Only the most recent
/// stack is used.
const PAGE_BYTES: usize = 4096;

/// Bytes of the mapping: a page that describes the ring, and the data of the ring.
const MAPPING_BYTES: usize = 2 * PAGE_BYTES;

/// Byte offsets of two counters in the page that describes the ring: the bytes that the kernel has
/// written since the start, and the bytes that were read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Type of a record that contains a sample.
const SAMPLE: u64 = 9;

/// Maximum number of kernel frames.
pub(crate) const FRAMES_MAX: usize = 48;

/// First kernel address. Lower addresses belong to user code.
const KERNEL_START: u64 = 0xffff_0000_0000_0000;

/// First special number in a stack. Special numbers are not addresses; they describe the entries
/// that follow.
const CONTEXT_MIN: u64 = u64::MAX - 4095;

/// Returns whether an address is in the kernel.
pub fn is_kernel(address: u64) -> bool {
    (KERNEL_START..CONTEXT_MIN).contains(&address)
}

/// The ring of a clock. Dropping it unmaps the ring.
pub(crate) struct Ring(NonNull<c_void>);

// SAFETY: the mapping belongs to the process, and any thread can unmap it.
unsafe impl Send for Ring {}

impl Ring {
    pub fn map(clock: BorrowedFd<'_>) -> io::Result<Ring> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses an unused address range.
        let address = unsafe {
            let descriptor = clock.as_raw_fd();
            libc::mmap(ptr::null_mut(), MAPPING_BYTES, protection, libc::MAP_SHARED, descriptor, 0)
        };
        match NonNull::new(address).filter(|_| address != libc::MAP_FAILED) {
            Some(address) => Ok(Ring(address)),
            None => Err(io::Error::last_os_error()),
        }
    }

    pub fn address(&self) -> *mut c_void {
        self.0.as_ptr()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is unused, because the clock's thread or its handlers have finished.
        unsafe { libc::munmap(self.0.as_ptr(), MAPPING_BYTES) };
    }
}

/// The words of a mapped ring.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [AtomicU64]);

impl Words<'_> {
    fn described(&self, offset: usize) -> &AtomicU64 {
        &self.0[offset / size_of::<u64>()]
    }

    /// Returns the data word at a position, which is the number of bytes since the start.
    fn at(&self, position: u64) -> u64 {
        let word = position as usize % PAGE_BYTES / size_of::<u64>();
        self.0[PAGE_BYTES / size_of::<u64>() + word].load(Ordering::Relaxed)
    }
}

/// Writes the most recent kernel stack, leaf first, and frees its space in the ring. Returns the
/// number of frames, which is 0 if the thread was not in the kernel. Safe in signal handlers.
///
/// # Safety
///
/// `ring` must be the address of a mapped [`Ring`] that no other thread reads.
pub(crate) unsafe fn take_stack(ring: *const c_void, frames: &mut [u64]) -> usize {
    let words = MAPPING_BYTES / size_of::<u64>();
    // SAFETY: the mapping has this many words, and the kernel changes them like atomic words.
    let words = Words(unsafe { std::slice::from_raw_parts(ring.cast::<AtomicU64>(), words) });
    let head = words.described(HEAD).load(Ordering::Acquire);
    let mut position = words.described(TAIL).load(Ordering::Relaxed);
    let mut count = 0;
    while position < head {
        // Contains the type, the flags, and the number of bytes.
        let header = words.at(position);
        let bytes = header >> 48;
        if bytes < 8 || position + bytes > head {
            break;
        }
        if header as u32 as u64 == SAMPLE {
            count = stack(words, position + 8, bytes - 8, frames);
        }
        position += bytes;
    }
    words.described(TAIL).store(head, Ordering::Release);
    count
}

/// Writes the kernel addresses in a record, which consists of an address count and the addresses.
/// Returns the number of addresses written.
fn stack(words: Words<'_>, at: u64, bytes: u64, frames: &mut [u64]) -> usize {
    let listed = words.at(at).min((bytes / 8).saturating_sub(1));
    let addresses = (0..listed).map(|index| words.at(at + 8 + index * 8));
    let mut count = 0;
    for (slot, address) in frames.iter_mut().zip(addresses.filter(|at| is_kernel(*at))) {
        // All addresses except the leaf are return addresses. Subtract one, because a call can be
        // the last instruction of its function.
        *slot = address - u64::from(count > 0);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring in ordinary memory, with this head and tail.
    struct Memory(Vec<u64>);

    impl Memory {
        fn new(tail: u64) -> Memory {
            let mut words = vec![0; MAPPING_BYTES / 8];
            (words[HEAD / 8], words[TAIL / 8]) = (tail, tail);
            Memory(words)
        }

        fn push(&mut self, kind: u64, addresses: &[u64]) {
            let bytes = 16 + 8 * addresses.len() as u64;
            let header = kind | bytes << 48;
            let head = self.0[HEAD / 8];
            let record =
                [header, addresses.len() as u64].into_iter().chain(addresses.iter().copied());
            for (position, word) in (head / 8..).zip(record) {
                self.0[PAGE_BYTES / 8 + position as usize % (PAGE_BYTES / 8)] = word;
            }
            self.0[HEAD / 8] = head + bytes;
        }

        fn take(&mut self) -> Vec<u64> {
            let mut frames = [0; 4];
            // SAFETY: the memory has as many words as a ring.
            let count = unsafe { take_stack(self.0.as_mut_ptr().cast(), &mut frames) };
            assert_eq!(self.0[TAIL / 8], self.0[HEAD / 8], "all is given back");
            frames[..count].to_vec()
        }
    }

    const IN_KERNEL: u64 = u64::MAX - 127;

    const NONE: [u64; 0] = [];

    #[test]
    fn the_last_stack_counts_over_the_end_of_the_ring() {
        for tail in [0, 4000, 4088, 4096 * 7 + 16] {
            let mut ring = Memory::new(tail);
            assert_eq!(ring.take(), NONE);
            let first = 0xffff_ffff_8100_0000;
            ring.push(SAMPLE, &[IN_KERNEL, first, first + 0x10]);
            ring.push(2, &[7, 8]);
            assert_eq!(ring.take(), [first, first + 0xf]);
            ring.push(SAMPLE, &[IN_KERNEL, first]);
            ring.push(SAMPLE, &[]);
            assert_eq!(ring.take(), NONE, "the last one was not in the kernel");
            let deep: Vec<u64> = (0..100).map(|depth| first + depth * 16).collect();
            ring.push(SAMPLE, &deep);
            assert_eq!(ring.take().len(), 4);
        }
    }

    #[test]
    fn records_that_cannot_be_end_the_search() {
        let mut ring = Memory::new(0);
        ring.push(SAMPLE, &[IN_KERNEL, 0xffff_ffff_8100_0000]);
        ring.0[PAGE_BYTES / 8] = SAMPLE | 4096 << 48;
        assert_eq!(ring.take(), NONE);
        ring.push(SAMPLE, &[1, 2]);
        ring.0[PAGE_BYTES / 8 + 5] = u64::MAX;
        assert_eq!(ring.take(), NONE, "more addresses than the record has bytes");
    }
}
