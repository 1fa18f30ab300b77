//! Checks that the signal handler does not allocate. If it did, this test's allocator would abort
//! the process.

use crate::support::{Profile, burn, settings};
use millstream_profiler::Event;
use std::alloc::{GlobalAlloc, Layout, System};
use std::time::Duration;

/// The system allocator, with a check that the signal handler does not call it.
struct NotInHandler;

fn check() {
    if millstream_profiler::is_handling() {
        std::process::abort();
    }
}

// SAFETY: all calls are forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for NotInHandler {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        check();
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: NotInHandler = NotInHandler;

#[inline(never)]
fn allocating(time: Duration) -> usize {
    let mut bytes = 0;
    while burn(Duration::from_micros(50)) > 0 && crate::support::thread_cpu_time() < time {
        bytes += std::hint::black_box(vec![1_u8; 100]).len();
    }
    bytes
}

#[test]
fn the_handler_allocates_nothing() {
    for event in [Event::Cpu, Event::Wall] {
        let session = millstream_profiler::start(settings(event)).unwrap();
        let end = crate::support::thread_cpu_time() + Duration::from_millis(500);
        allocating(end);
        let profile = Profile::from(session.stop());
        assert!(profile.with("allocating") > 0, "{event}");
    }
}
