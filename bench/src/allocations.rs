//! Counts the bytes that the calling program allocates during a call.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

static COUNTS: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The system's allocator with a counter of the requested bytes.
struct Counted;

// SAFETY: all calls go unchanged to the system's allocator, and the counters do not allocate.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            BYTES.fetch_add(layout.size() as u64, Relaxed);
        }
        // SAFETY: the caller upholds the conditions of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the conditions of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Returns how many bytes all threads allocate during a call.
pub fn bytes_of(call: impl FnOnce()) -> u64 {
    let before = BYTES.load(Relaxed);
    COUNTS.store(true, Relaxed);
    call();
    COUNTS.store(false, Relaxed);
    BYTES.load(Relaxed) - before
}
