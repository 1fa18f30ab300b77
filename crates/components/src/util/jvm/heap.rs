//! Adapts the heaps of the JVMs to the memory pressure.
//!
//! While the pressure is high, a JVM collects garbage and returns memory to the system. When the
//! pressure is low again, its heap may keep more memory, which saves CPU time. A separate thread
//! for each JVM makes these requests, because a collection takes time and the governor must not
//! wait for it.

use super::java::Java;
use millstream_jvm::{CallError, JvmStats};
use millstream_model::{MemoryPressure, Pressure};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Shortest time between two collections.
const PAUSE_MIN: Duration = Duration::from_secs(2);

/// Longest time between two collections, used while they return no memory.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Inverse of the maximum share of time that collections may take.
const TIME_PART: u32 = 20;

/// Interval at which a thread checks whether its JVM is still used.
const LOOK: Duration = Duration::from_secs(60);

/// The memory pressure at the governor's last check.
static PRESSURE: MemoryPressure = MemoryPressure::new();

/// The JVMs that react to memory pressure. `None` is the JVM inside the agent; a separate process
/// is identified by its name.
static FOLLOWERS: Mutex<BTreeMap<Option<String>, Follower>> = Mutex::new(BTreeMap::new());

/// The state of a JVM that reacts to memory pressure.
#[derive(Clone, Default)]
struct Follower {
    thread: Option<Thread>,
    collections: Collections,
}

/// Numbers of collections that were requested from a JVM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collections {
    /// Total number of requested collections.
    pub requested: u64,
    /// Number of requested collections after which the heap kept memory that it did not use.
    pub ignored: u64,
}

/// Records the memory pressure. Returns immediately.
pub fn note_pressure(level: Pressure) {
    let before = PRESSURE.level();
    PRESSURE.set(level);
    if level != before || level == Pressure::High {
        let followers = FOLLOWERS.lock();
        followers.values().filter_map(|follower| follower.thread.as_ref()).for_each(Thread::unpark);
    }
}

/// Returns the counts of the collections requested in a JVM; a separate process is identified by
/// its name.
pub fn collections(process: &Option<String>) -> Collections {
    FOLLOWERS.lock().get(process).map_or(Collections::default(), |follower| follower.collections)
}

/// Lets a JVM follow the memory pressure, unless it already does. `find` returns the JVM while it
/// is used, and `note` receives its statistics after each collection.
pub fn follow_pressure(
    process: Option<String>,
    find: impl Fn() -> Option<Java> + Send + 'static,
    note: fn(&Option<String>, JvmStats),
) {
    let mut followers = FOLLOWERS.lock();
    if followers.get(&process).is_some_and(|follower| follower.thread.is_some()) {
        return;
    }
    let (name, builder) = (process.clone(), thread::Builder::new().name("jvm-memory".to_owned()));
    let spawned = builder.spawn(move || follow(&name, &find, note));
    match spawned {
        Ok(handle) => {
            followers.entry(process).or_default().thread = Some(handle.thread().clone());
        }
        Err(error) => log::warn!("a JVM does not react to memory pressure: {error}"),
    }
}

fn follow(
    process: &Option<String>,
    find: &impl Fn() -> Option<Java>,
    note: fn(&Option<String>, JvmStats),
) {
    let mut heap = Heap::default();
    loop {
        thread::park_timeout(LOOK);
        let Some(java) = find() else {
            let mut followers = FOLLOWERS.lock();
            // Another process with this name may have been started in the meantime.
            if find().is_none() {
                followers.remove(process);
                return;
            }
            continue;
        };
        match heap.follow(&java, PRESSURE.level(), Instant::now()) {
            Ok(collected) => collected.into_iter().for_each(|stats| note(process, stats)),
            Err(error) if process.is_none() => {
                log::warn!("the JVM cannot react to memory pressure: {error}");
            }
            // A process that is restarting has little to collect.
            Err(error) => log::debug!("a JVM cannot react to memory pressure: {error}"),
        }
        if let Some(follower) = FOLLOWERS.lock().get_mut(process) {
            follower.collections = heap.collections;
        }
    }
}

/// The state of a JVM's heap with respect to memory pressure.
#[derive(Default)]
struct Heap {
    collections: Collections,
    is_tight: bool,
    /// Earliest time of the next request to collect.
    next: Option<Instant>,
    pause: Duration,
    has_warned: bool,
}

/// A request to the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Tighten,
    Relax,
}

impl Heap {
    /// Sends the JVM the request that the pressure level calls for. Returns the statistics of the
    /// JVM after a collection.
    fn follow(
        &mut self,
        jvm: &Java,
        level: Pressure,
        now: Instant,
    ) -> Result<Option<JvmStats>, CallError> {
        match self.request(level, now) {
            Some(Request::Tighten) => {
                let before = jvm.stats()?;
                let begin = Instant::now();
                jvm.set_heap_tight(true)?;
                let took = begin.elapsed();
                let after = jvm.stats()?;
                self.collected(before, after, took);
                return Ok(Some(after));
            }
            Some(Request::Relax) => {
                jvm.set_heap_tight(false)?;
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

    /// Records a collection, and sets the earliest time of the next one, which is later if the
    /// collection returned no memory.
    fn collected(&mut self, before: JvmStats, after: JvmStats, took: Duration) {
        self.collections.requested += 1;
        let has_returned = after.heap_committed < before.heap_committed / 20 * 19;
        let has_collected = after.collections > before.collections;
        let keeps = !has_collected || after.heap_used < after.heap_committed / 2;
        let is_ignored = !has_returned && keeps;
        self.collections.ignored += u64::from(is_ignored);
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
        "a JVM uses {used} MiB of its heap and keeps {committed} MiB, although memory is short and \
         the agent requested a collection to return some; remove -XX:+DisableExplicitGC and \
         -XX:+UseParallelGC from jvm.options, or lower jvm.heap"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Records a collection. Returns the pause after it in seconds, and whether there was a
    /// warning.
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
