//! Checks that a table's reported memory equals its allocated memory, and that small tables are
//! small.

use millstream_groups::{Accumulator, Groups, Layout, Side, hash};
use std::alloc::{GlobalAlloc, System};
use std::cell::Cell;
use std::sync::Arc;

/// Counts the bytes that the current thread has allocated.
struct Counting;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: all calls are forwarded unchanged to the system allocator, and the counter does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as i64);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
        BYTES.set(BYTES.get() - layout.size() as i64);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns a table with this many groups, and the number of bytes that it has allocated.
fn table(accumulators: &[Accumulator], keys: usize, groups: usize) -> (Groups, i64) {
    let layout = Arc::new(Layout::new(accumulators));
    let before = BYTES.get();
    let mut table = Groups::new(layout, keys, usize::MAX);
    for group in 0..groups {
        let ids: Vec<u32> = (0..keys)
            .map(|column| {
                let text = format!("{}", group % 7_usize.pow(column as u32 + 1));
                table.intern(column, text.as_bytes()).unwrap()
            })
            .collect();
        table.add(&ids).unwrap();
    }
    let bytes = BYTES.get() - before;
    (table, bytes)
}

/// Returns whether the memory that a table reports is within 2% of the allocated memory.
fn is_exact(table: &Groups, bytes: i64) -> bool {
    (table.memory_bytes() as i64 - bytes).abs() <= bytes / 50
}

#[test]
fn the_memory_of_a_table_is_what_it_has_allocated() {
    for groups in [0, 1, 2, 10, 100, 5000, 17_000, 70_000, 200_000] {
        for keys in [1, 2, 7] {
            let (table, bytes) = table(&[Accumulator::Sum; 4], keys, groups);
            let reported = table.memory_bytes();
            assert!(is_exact(&table, bytes), "{groups} groups: {reported} of {bytes} bytes");
        }
    }
}

#[test]
fn the_memory_of_sides_is_what_they_have_allocated() {
    let accumulators = [
        Accumulator::Distinct,
        Accumulator::Quantiles,
        Accumulator::Top { size: 20 },
        Accumulator::Samples { size: 5 },
    ];
    let (mut table, bytes) = table(&accumulators, 2, 300);
    let before = BYTES.get();
    for group in 0..table.len() as u32 {
        for number in 0..10 * u64::from(group) {
            let text = number.to_string();
            let change = |side: &mut Side| match side {
                Side::Distinct(hll) => hll.add(hash(text.as_bytes())),
                Side::Quantiles(sketch) => sketch.add(number as f64, 1.0),
                Side::Top(top) => top.add(text.as_bytes(), 1),
                Side::Samples(samples) => samples.add(1, 1, 1, text.as_bytes()),
            };
            (0..4).for_each(|accumulator| table.change_side(group, accumulator, change).unwrap());
        }
    }
    let bytes = bytes + BYTES.get() - before;
    assert!(is_exact(&table, bytes), "{} of {bytes} bytes", table.memory_bytes());
}

#[test]
fn small_tables_are_small_and_large_ones_take_little_per_group() {
    // A dictionary takes about half a kilobyte.
    for (keys, bytes_max) in [(0, 512), (1, 1536), (2, 2048), (3, 2816)] {
        let (_table, bytes) = table(&[Accumulator::Sum; 4], keys, 10);
        assert!(bytes < bytes_max, "{keys} keys: {bytes} bytes");
    }
    let (_table, bytes) = table(&[Accumulator::Sum; 4], 5, 200_000);
    let per_group = bytes / 200_000;
    assert!(per_group < 80, "{per_group} bytes per group");
}
