//! Checks the store's allocations: none for points of known series, and little memory per series.

use millstream_series::{
    Canonical, Generation, Kind, Limits, Point, Shard, Store, TagStyle, Values,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of the current thread.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    CALLS.set(CALLS.get() + u64::from(bytes > 0));
    BYTES.set(BYTES.get() + bytes);
}

// SAFETY: all calls are forwarded unchanged to the system allocator, and the counters do not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SERIES: usize = 50_000;
const BYTES_MAX: i64 = 200;

/// Returns tag texts in canonical form.
fn texts() -> Vec<String> {
    (0..SERIES)
        .map(|at| format!("endpoint:/api/{},env:production,host:web-{:06}", at % 97, at))
        .collect()
}

/// Returns the same tags in a different order.
fn unsorted() -> Vec<String> {
    (0..SERIES)
        .map(|at| format!("host:web-{:06},endpoint:/api/{},env:production", at, at % 97))
        .collect()
}

fn add(shard: &mut Shard, kind: Kind, texts: &[String], timestamp: Option<i64>) {
    for tags in texts {
        let values = if kind == Kind::Set {
            Values::Member(b"m")
        } else {
            Values::Numbers(&[1.0, 2.0, 3.0])
        };
        let (name, tags) = (b"service.requests", tags.as_bytes());
        shard.add(&Point { kind, name, tags, values, sample_rate: 1.0, timestamp, arrived: 1 });
    }
}

#[test]
fn points_of_known_series_allocate_nothing() {
    let (sorted, unsorted) = (texts(), unsorted());
    let texts = [&sorted[..1000], &unsorted[1000..2000]].concat();
    for (kind, timestamp) in
        Kind::ALL.iter().copied().flat_map(|kind| [(kind, None), (kind, Some(7))])
    {
        let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        let mut store = Store::new(1, 10, 1);
        let mut spare = Generation::default();
        for period in 0..6 {
            let before = CALLS.get();
            // There are enough values that distributions use buckets.
            (0..30).for_each(|_| add(&mut shard, kind, &texts, timestamp));
            let calls = CALLS.get() - before;
            // Starting with the third period, both generations have memory from earlier periods.
            assert!(
                period < 2 || calls == 0,
                "{kind:?} {timestamp:?}: {calls} allocations in period {period}"
            );
            spare = store.merge(0, shard.swap_generation(spare));
            store.drain(|_| ());
        }
    }
}

#[test]
fn a_counter_or_gauge_adds_little_to_its_name_and_tags() {
    for all in [texts(), unsorted()] {
        // Tables have the most unused memory immediately after they grow.
        for part in [12, 11, 10, 9, 8, 7] {
            is_small(&all[..SERIES * part / 12]);
        }
    }
}

#[test]
fn tags_are_read_in_order_without_allocations() {
    let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
    let mut store = Store::new(1, 10, 1);
    add(&mut shard, Kind::Count, &texts()[..1000], None);
    add(&mut shard, Kind::Gauge, &unsorted()[..1000], None);
    store.merge(0, shard.swap_generation(Generation::default()));
    let (mut scratch, mut calls, mut tags) = (Canonical::default(), [0; 2], 0);
    for calls in &mut calls {
        let before = CALLS.get();
        store.drain(|reading| reading.key.tags(&mut scratch, |_| tags += 1));
        *calls = CALLS.get() - before;
    }
    assert!(
        calls[0] > 0 && calls[1] == 0 && tags == 2 * 2 * 1000 * 3,
        "{calls:?} allocations for {tags} tags"
    );
}

fn is_small(texts: &[String]) {
    let text_bytes: usize = texts.iter().map(|tags| tags.len() + b"service.requests".len()).sum();
    for kind in [Kind::Count, Kind::Gauge] {
        let before = BYTES.get();
        let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        let mut store = Store::new(1, 10, 1);
        let mut spare = Generation::default();
        for _ in 0..3 {
            add(&mut shard, kind, texts, None);
            spare = store.merge(0, shard.swap_generation(spare));
            store.drain(|_| ());
        }
        let bytes = (BYTES.get() - before - text_bytes as i64) / texts.len() as i64;
        println!("{kind:?}: {bytes} bytes");
        assert!(bytes <= BYTES_MAX, "{kind:?}: {bytes} bytes per series, {BYTES_MAX} is the most");
        drop((shard, store, spare));
    }
}
