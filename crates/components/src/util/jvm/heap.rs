//! The heap of the JVM under memory pressure.
//!
//! While the pressure is high, the JVM collects and returns memory to the system; once it is low,
//! the heap may keep more again, which costs less CPU. A separate thread asks for that: a collection
//! takes time, and the governor must not wait for it.

use millstream_jvm::{CallError, Jvm, JvmStats};
use millstream_model::{MemoryPressure, Pressure};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Shortest time between two collections.
const PAUSE_MIN: Duration = Duration::from_secs(2);

/// Longest time between two collections, while they return nothing.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Collections take at most one part in so many of the time.
const TIME_PART: u32 = 20;

/// The memory pressure at the last look of the governor.
static PRESSURE: MemoryPressure = MemoryPressure::new();

/// The thread that asks the JVM, if one runs.
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Collections that were asked for.
static COLLECTIONS: AtomicU64 = AtomicU64::new(0);

/// Those of them after which the heap kept memory that it did not use.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Notes the memory pressure. Returns at once.
pub fn note_pressure(level: Pressure) {
    let before = PRESSURE.level();
    PRESSURE.set(level);
    if level != before || level == Pressure::High {
        THREAD.get().inspect(|thread| thread.unpark());
    }
}

/// Returns how many collections were asked for, and how many of them returned nothing that could be
/// returned.
pub fn collections() -> (u64, u64) {
    (COLLECTIONS.load(Ordering::Relaxed), IGNORED.load(Ordering::Relaxed))
}

/// Begins to follow the memory pressure, once per process. `note` gets what the JVM uses after each
/// collection.
pub fn follow_pressure(jvm: &Jvm, note: fn(JvmStats)) {
    THREAD.get_or_init(|| {
        let (jvm, builder) = (jvm.clone(), thread::Builder::new().name("jvm-memory".to_owned()));
        match builder.spawn(move || follow(&jvm, note)) {
            Ok(handle) => handle.thread().clone(),
            Err(error) => {
                log::warn!("the JVM does not follow the memory pressure: {error}");
                thread::current()
            }
        }
    });
}

fn follow(jvm: &Jvm, note: fn(JvmStats)) -> ! {
    let mut heap = Heap::default();
    loop {
        thread::park();
        match heap.follow(jvm, PRESSURE.level(), Instant::now()) {
            Ok(collected) => collected.into_iter().for_each(note),
            Err(error) => log::warn!("the JVM cannot follow the memory pressure: {error}"),
        }
    }
}

/// What the heap was asked for.
#[derive(Default)]
struct Heap {
    is_tight: bool,
    /// When it may be asked to collect again.
    next: Option<Instant>,
    pause: Duration,
    has_warned: bool,
}

/// What to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Tighten,
    Relax,
}

impl Heap {
    /// Asks for what the level needs; returns what the JVM uses after a collection.
    fn follow(
        &mut self,
        jvm: &Jvm,
        level: Pressure,
        now: Instant,
    ) -> Result<Option<JvmStats>, CallError> {
        match self.request(level, now) {
            Some(Request::Tighten) => {
                let before = jvm.stats()?;
                let begin = Instant::now();
                jvm.tighten_heap()?;
                let took = begin.elapsed();
                let after = jvm.stats()?;
                self.collected(before, after, took);
                return Ok(Some(after));
            }
            Some(Request::Relax) => {
                jvm.relax_heap()?;
                self.is_tight = false;
            }
            None => {}
        }
        Ok(None)
    }

    fn request(&self, level: Pressure, now: Instant) -> Option<Request> {
        let may_collect = self.next.is_none_or(|next| now >= next);
        match level {
            Pressure::High if may_collect => Some(Request::Tighten),
            Pressure::Low if self.is_tight => Some(Request::Relax),
            _ => None,
        }
    }

    /// Notes a collection, and decides when the next one may be: later, if it has returned nothing.
    fn collected(&mut self, before: JvmStats, after: JvmStats, took: Duration) {
        COLLECTIONS.fetch_add(1, Ordering::Relaxed);
        let has_returned = after.heap_committed < before.heap_committed / 20 * 19;
        let has_collected = after.collections > before.collections;
        let keeps = !has_collected || after.heap_used < after.heap_committed / 2;
        let is_ignored = !has_returned && keeps;
        IGNORED.fetch_add(u64::from(is_ignored), Ordering::Relaxed);
        if is_ignored && !std::mem::replace(&mut self.has_warned, true) {
            warn_of_ignored(after);
        }
        let pause = if has_returned { PAUSE_MIN } else { self.pause * 2 };
        self.pause = pause.max(took * TIME_PART).clamp(PAUSE_MIN, PAUSE_MAX);
        self.is_tight = true;
        self.next = Some(Instant::now() + self.pause);
    }
}

fn warn_of_ignored(heap: JvmStats) {
    let (used, committed) = (heap.heap_used >> 20, heap.heap_committed >> 20);
    log::warn!(
        "the JVM uses {used} MiB of its heap and keeps {committed} MiB, though memory is short and \
         it was asked to return some: remove -XX:+DisableExplicitGC and -XX:+UseParallelGC from \
         jvm.options, or lower jvm.heap"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Notes a collection; returns the pause after it in seconds, and whether it was warned.
    fn collect(heap: &mut Heap, committed: u64, after: [u64; 2], seconds: u64) -> (u64, bool) {
        let stats = |used: u64, committed: u64, collections| JvmStats {
            heap_used: used * MIB,
            heap_committed: committed * MIB,
            collections,
            ..JvmStats::default()
        };
        let (before, after) = (stats(committed, committed, 4), stats(after[0], after[1], 5));
        heap.collected(before, after, Duration::from_secs(seconds));
        (heap.pause.as_secs(), heap.has_warned)
    }

    #[test]
    fn the_heap_is_tightened_at_once_and_relaxed_when_memory_is_plentiful() {
        let (mut heap, now) = (Heap::default(), Instant::now());
        assert_eq!(heap.request(Pressure::Low, now), None, "it is not tight");
        assert_eq!(heap.request(Pressure::Normal, now), None);
        assert_eq!(heap.request(Pressure::High, now), Some(Request::Tighten));
        collect(&mut heap, 200, [40, 50], 0);
        assert_eq!(heap.request(Pressure::High, now), None, "a moment later");
        assert_eq!(heap.request(Pressure::High, now + PAUSE_MIN * 2), Some(Request::Tighten));
        assert_eq!(heap.request(Pressure::Normal, now + PAUSE_MIN * 2), None);
        assert_eq!(heap.request(Pressure::Low, now), Some(Request::Relax));
    }

    #[test]
    fn collections_that_return_nothing_become_rare() {
        let mut heap = Heap::default();
        assert_eq!(collect(&mut heap, 200, [40, 50], 0), (2, false));
        assert_eq!(collect(&mut heap, 100, [90, 100], 0), (4, false));
        assert_eq!(collect(&mut heap, 100, [90, 100], 0), (8, false), "all is in use");
        assert_eq!(collect(&mut heap, 100, [10, 100], 2), (40, true));
        assert_eq!(collect(&mut heap, 100, [10, 100], 0), (60, true));
        assert_eq!(collect(&mut heap, 100, [10, 20], 0), (2, true));
    }

    #[test]
    fn a_request_without_a_collection_is_ignored() {
        let (mut heap, stats) =
            (Heap::default(), JvmStats { collections: 4, ..JvmStats::default() });
        let full = JvmStats { heap_used: 90 * MIB, heap_committed: 100 * MIB, ..stats };
        heap.collected(full, full, Duration::ZERO);
        assert!(heap.has_warned);
    }
}
