//! Checks that parsing does not allocate memory.

use crate::recorder::Recorder;
use millstream_points::dogstatsd::{self, Options};
use millstream_points::{Event, Extra, Fault, Note, ServiceCheck, Visit, metricserver};
use millstream_series::Point;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of the current thread.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls are forwarded unchanged to the system allocator, and the counter does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the calls to the visitor.
#[derive(Default)]
struct Count(usize);

impl<'a> Visit<'a> for Count {
    fn point(&mut self, _: Point<'a>, _: &Extra<'a>) {
        self.0 += 1;
    }

    fn packed(&mut self, _: &Point<'_>, _: &Extra<'a>) {
        self.0 += 1;
    }

    fn event(&mut self, _: &Event<'a>) {
        self.0 += 1;
    }

    fn service_check(&mut self, _: &ServiceCheck<'a>) {
        self.0 += 1;
    }

    fn fault(&mut self, _: Fault, _: &'a [u8]) {
        self.0 += 1;
    }

    fn note(&mut self, _: Note, _: &'a [u8]) {
        self.0 += 1;
    }
}

#[test]
fn parsing_does_not_allocate() {
    let lines = b"a:1|c|#x:y\nb:12.5|ms|@0.5|c:ci-1\nd:1:2:3|d\nu:v|s\n_e{1,1}:a|b|t:info\n_sc|a|1|m:x\nbad\nc:1|g|?\n";
    let points =
        b"\x92\x96\xA4emit\xA5store\xA1a\xA11\xA3k=v\xA0\x94\xA4emit\xA5bad..\xA1a\xA11hello\n";
    let messages = [lines.repeat(50), points.repeat(50)];
    dogstatsd::parse(&messages[0], Options::default(), 1, &mut Recorder::default());
    let mut count = Count::default();
    let before = CALLS.get();
    dogstatsd::parse(&messages[0], Options::default(), 1, &mut count);
    metricserver::parse(&messages[1], 1, &mut count);
    assert_eq!(CALLS.get(), before);
    assert_eq!(count.0, 50 * 9 + 50 * 3);
}
