//! Exchange of generations between a receiver thread and the flusher.
//!
//! The lock is taken a few times per period instead of once per point: a round of messages only
//! loads a flag.

use super::log_events::LogEvent;
use millstream_model::Wake;
use millstream_series::{Generation, Idle, Shard};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of queued events and service checks; more are dropped and counted.
const LOG_EVENTS_MAX: usize = 4096;

/// Maximum total size, in bytes, of queued events and service checks.
const LOG_EVENT_BYTES_MAX: usize = 4 << 20;

/// State shared by one receiver thread and the flusher.
pub struct SwapSlot {
    /// Whether the receiver must take the lock, because a swap is requested or there are series to
    /// evict.
    is_due: AtomicBool,
    /// Whether the receiver is evicting series.
    is_evicting: AtomicBool,
    state: Mutex<State>,
    wake: Wake,
}

#[derive(Default)]
struct State {
    /// An empty generation for the receiver, while a swap is requested.
    spare: Option<Generation>,
    /// Idle series for the receiver to evict.
    idle: Option<Idle>,
    /// The generation that the receiver has swapped out.
    generation: Option<Generation>,
    log_events: Vec<LogEvent>,
    log_event_bytes: usize,
}

impl SwapSlot {
    /// Creates an empty slot. `wake` wakes the flusher.
    pub fn new(wake: Wake) -> SwapSlot {
        SwapSlot {
            is_due: AtomicBool::default(),
            is_evicting: AtomicBool::default(),
            state: Mutex::default(),
            wake,
        }
    }

    /// Flusher: requests the receiver's generation in exchange for `spare`, which is empty.
    pub fn request_swap(&self, spare: Generation) {
        self.state.lock().spare = Some(spare);
        self.is_due.store(true, Ordering::Release);
    }

    /// Flusher: takes the requested generation, if the receiver has swapped it out.
    pub fn take_generation(&self) -> Option<Generation> {
        self.state.lock().generation.take()
    }

    /// Flusher: passes idle series to the receiver to evict.
    pub fn evict(&self, idle: Idle) {
        if !idle.is_empty() {
            self.state.lock().idle = Some(idle);
            self.is_evicting.store(true, Ordering::Relaxed);
            self.is_due.store(true, Ordering::Release);
        }
    }

    /// Flusher: returns whether the receiver is evicting series. Without traffic, the receiver
    /// needs notifications to continue.
    pub fn is_evicting(&self) -> bool {
        self.is_evicting.load(Ordering::Relaxed)
    }

    /// Receiver: reports that all idle series are evicted.
    pub fn finish_eviction(&self) {
        self.is_evicting.store(false, Ordering::Relaxed);
    }

    /// Flusher: takes the queued events and service checks.
    pub fn take_log_events(&self) -> Vec<LogEvent> {
        let mut state = self.state.lock();
        state.log_event_bytes = 0;
        std::mem::take(&mut state.log_events)
    }

    /// Receiver: swaps the shard's generation if requested, and moves series to evict into `idle`.
    /// Returns whether it swapped the generation.
    #[inline]
    pub fn swap(&self, shard: &mut Shard, idle: &mut Option<Idle>) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.swap_now(shard, idle)
    }

    #[cold]
    fn swap_now(&self, shard: &mut Shard, idle: &mut Option<Idle>) -> bool {
        self.is_due.store(false, Ordering::Relaxed);
        let mut state = self.state.lock();
        *idle = state.idle.take().or(idle.take());
        let Some(spare) = state.spare.take() else { return false };
        state.generation = Some(shard.swap_generation(spare));
        drop(state);
        (self.wake)();
        true
    }

    /// Flusher: returns whether events or service checks are queued.
    pub fn has_log_events(&self) -> bool {
        !self.state.lock().log_events.is_empty()
    }

    /// Receiver: queues an event or service check. Returns `false` if the queue is full.
    pub fn log_event(&self, log_event: LogEvent) -> bool {
        let mut state = self.state.lock();
        let is_first = state.log_events.is_empty();
        let bytes = state.log_event_bytes + log_event.bytes();
        let fits = state.log_events.len() < LOG_EVENTS_MAX && bytes <= LOG_EVENT_BYTES_MAX;
        if fits {
            state.log_event_bytes = bytes;
            state.log_events.push(log_event);
        }
        drop(state);
        if is_first {
            (self.wake)();
        }
        fits
    }
}
