//! The heap of the JVM under memory pressure.
//!
//! While the pressure is high, the JVM collects and returns memory to the system; once it is low,
//! the heap may keep more again, which costs less CPU. A separate thread asks for that: a collection
//! takes time, and the governor must not wait for it.

use millstream_jvm::{CallError, HeapSize, Jvm};
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

/// Begins to follow the memory pressure. Called once per process.
pub fn follow_pressure(jvm: &Jvm) {
    THREAD.get_or_init(|| {
        let (jvm, builder) = (jvm.clone(), thread::Builder::new().name("jvm-memory".to_owned()));
        match builder.spawn(move || follow(&jvm)) {
            Ok(handle) => handle.thread().clone(),
            Err(error) => {
                log::warn!("the JVM does not follow the memory pressure: {error}");
                thread::current()
            }
        }
    });
}

fn follow(jvm: &Jvm) -> ! {
    let mut heap = Heap::default();
    loop {
        thread::park();
        if let Err(error) = heap.follow(jvm, PRESSURE.level(), Instant::now()) {
            log::warn!("the JVM cannot follow the memory pressure: {error}");
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
    fn follow(&mut self, jvm: &Jvm, level: Pressure, now: Instant) -> Result<(), CallError> {
        match self.request(level, now) {
            Some(Request::Tighten) => {
                let before = jvm.stats()?.heap_committed;
                let begin = Instant::now();
                let after = jvm.tighten_heap()?;
                self.collected(before, after, begin.elapsed());
            }
            Some(Request::Relax) => {
                jvm.relax_heap()?;
                self.is_tight = false;
            }
            None => {}
        }
        Ok(())
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
    fn collected(&mut self, committed_before: u64, after: HeapSize, took: Duration) {
        COLLECTIONS.fetch_add(1, Ordering::Relaxed);
        let has_returned = after.committed < committed_before / 20 * 19;
        let is_ignored = !has_returned && after.used < after.committed / 2;
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

fn warn_of_ignored(heap: HeapSize) {
    let (used, committed) = (heap.used >> 20, heap.committed >> 20);
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

    fn size(used: u64, committed: u64) -> HeapSize {
        HeapSize { used: used * MIB, committed: committed * MIB }
    }

    #[test]
    fn the_heap_is_tightened_at_once_and_relaxed_when_memory_is_plentiful() {
        let (mut heap, now) = (Heap::default(), Instant::now());
        assert_eq!(heap.request(Pressure::Low, now), None, "it is not tight");
        assert_eq!(heap.request(Pressure::Normal, now), None);
        assert_eq!(heap.request(Pressure::High, now), Some(Request::Tighten));
        heap.collected(200 * MIB, size(40, 50), Duration::from_millis(20));
        assert_eq!(heap.request(Pressure::High, now), None, "a moment later");
        assert_eq!(heap.request(Pressure::High, now + PAUSE_MIN * 2), Some(Request::Tighten));
        assert_eq!(heap.request(Pressure::Normal, now + PAUSE_MIN * 2), None);
        assert_eq!(heap.request(Pressure::Low, now), Some(Request::Relax));
    }

    #[test]
    fn collections_that_return_nothing_become_rare() {
        let mut heap = Heap::default();
        heap.collected(200 * MIB, size(40, 50), Duration::ZERO);
        assert_eq!(heap.pause, PAUSE_MIN);
        heap.collected(100 * MIB, size(90, 100), Duration::ZERO);
        heap.collected(100 * MIB, size(90, 100), Duration::ZERO);
        assert_eq!((heap.pause, heap.has_warned), (PAUSE_MIN * 4, false), "all is in use");
        heap.collected(100 * MIB, size(10, 100), Duration::from_secs(2));
        assert_eq!((heap.pause, heap.has_warned), (Duration::from_secs(40), true));
        heap.collected(100 * MIB, size(10, 100), Duration::ZERO);
        assert_eq!(heap.pause, PAUSE_MAX);
        heap.collected(100 * MIB, size(10, 20), Duration::ZERO);
        assert_eq!(heap.pause, PAUSE_MIN);
    }
}
