//! The exchange between a receiver thread and the flusher.
//!
//! A lock is taken a few times per period instead of per point: a round of messages costs one load
//! of a flag.

use super::log_events::LogEvent;
use millstream_model::Wake;
use millstream_series::{Generation, Idle, Shard};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most events and service checks that may wait; the rest is dropped and counted.
const LOG_EVENTS_MAX: usize = 4096;

/// Most bytes of them.
const LOG_EVENT_BYTES_MAX: usize = 4 << 20;

/// State shared by one receiver and the flusher.
pub struct Handover {
    /// The receiver has something to do.
    is_due: AtomicBool,
    /// The receiver has series to remove.
    is_forgetting: AtomicBool,
    slot: Mutex<Slot>,
    wake: Wake,
}

#[derive(Default)]
struct Slot {
    /// The flusher wants the generation; the receiver continues with this one.
    spare: Option<Generation>,
    /// Series that the receiver may remove.
    idle: Option<Idle>,
    generation: Option<Generation>,
    log_events: Vec<LogEvent>,
    log_event_bytes: usize,
}

impl Handover {
    /// Creates an empty exchange; `wake` wakes the flusher.
    pub fn new(wake: Wake) -> Handover {
        Handover {
            is_due: AtomicBool::default(),
            is_forgetting: AtomicBool::default(),
            slot: Mutex::default(),
            wake,
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock()
    }

    /// Flusher: requests the generation. The receiver continues with `spare`, which is empty.
    pub fn ask(&self, spare: Generation) {
        self.slot().spare = Some(spare);
        self.is_due.store(true, Ordering::Release);
    }

    /// Flusher: takes the requested generation, once it is there.
    pub fn take(&self) -> Option<Generation> {
        self.slot().generation.take()
    }

    /// Flusher: names series that the receiver may remove.
    pub fn forget(&self, idle: Idle) {
        if !idle.is_empty() {
            self.slot().idle = Some(idle);
            self.is_forgetting.store(true, Ordering::Relaxed);
            self.is_due.store(true, Ordering::Release);
        }
    }

    /// Flusher: whether the receiver has series to remove. While nothing arrives it needs a
    /// notification to do so.
    pub fn is_forgetting(&self) -> bool {
        self.is_forgetting.load(Ordering::Relaxed)
    }

    /// Receiver: all of them are removed.
    pub fn has_forgotten(&self) {
        self.is_forgetting.store(false, Ordering::Relaxed);
    }

    /// Flusher: takes the events and service checks that have arrived.
    pub fn take_log_events(&self) -> Vec<LogEvent> {
        let mut slot = self.slot();
        slot.log_event_bytes = 0;
        std::mem::take(&mut slot.log_events)
    }

    /// Receiver: hands over its generation if requested; adds the series to remove to `idle`.
    #[inline]
    pub fn swap(&self, shard: &mut Shard, idle: &mut Option<Idle>) {
        if self.is_due.load(Ordering::Relaxed) {
            self.turn_now(shard, idle);
        }
    }

    #[cold]
    fn turn_now(&self, shard: &mut Shard, idle: &mut Option<Idle>) {
        self.is_due.store(false, Ordering::Relaxed);
        let mut slot = self.slot();
        *idle = slot.idle.take().or(idle.take());
        let Some(spare) = slot.spare.take() else { return };
        slot.generation = Some(shard.swap_generation(spare));
        drop(slot);
        (self.wake)();
    }

    /// Flusher: whether events or service checks wait.
    pub fn has_log_events(&self) -> bool {
        !self.slot().log_events.is_empty()
    }

    /// Receiver: hands over an event or service check; returns false if too many wait.
    pub fn log_event(&self, log_event: LogEvent) -> bool {
        let mut slot = self.slot();
        let is_first = slot.log_events.is_empty();
        let bytes = slot.log_event_bytes + log_event.bytes();
        let has_room = slot.log_events.len() < LOG_EVENTS_MAX && bytes <= LOG_EVENT_BYTES_MAX;
        if has_room {
            slot.log_event_bytes = bytes;
            slot.log_events.push(log_event);
        }
        drop(slot);
        if is_first {
            (self.wake)();
        }
        has_room
    }
}
