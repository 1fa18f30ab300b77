//! A lane: the queue in front of it, and the task that drives it.

use crate::backoff::{Backoff, random};
use crate::limits::PANIC_PAUSE_MAX;
use crate::store::Store;
use millstream_model::{Counters, DeliverError, Delivery, Hold, Lane, LaneCx, Outcome, Payload, Sink};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Payloads on their way to one lane.
pub(crate) struct LaneQueue {
    state: Mutex<State>,
    changed: Notify,
    bytes: AtomicU64,
    closed: AtomicBool,
    flushing: AtomicBool,
    on_room: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Payload>,
    /// Debts of payloads that were taken and wait for a sync.
    taken: Vec<Hold>,
    /// Why the last delivery failed, until one succeeds.
    trouble: Option<String>,
}

impl LaneQueue {
    /// An empty queue that calls `on_room` whenever bytes leave it.
    pub fn new(on_room: impl Fn() + Send + Sync + 'static) -> Arc<LaneQueue> {
        Arc::new(LaneQueue {
            state: Mutex::default(),
            changed: Notify::new(),
            bytes: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            flushing: AtomicBool::new(false),
            on_room: Box::new(on_room),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Queues a payload.
    pub fn push(&self, payload: Payload) {
        self.bytes.fetch_add(payload.bytes, Ordering::Relaxed);
        self.lock().queue.push_back(payload);
        self.changed.notify_one();
    }

    /// Bytes queued or being delivered.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Why the lane does not get on, if it does not.
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Delivers what is queued, syncs, and ends the lane.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Syncs as soon as the queue is empty, without waiting for the interval.
    pub fn flush(&self) {
        self.flushing.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    fn leave(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        (self.on_room)();
    }
}

/// What the driver of a lane needs to know.
pub(crate) struct LaneDriver {
    pub sink_id: Arc<str>,
    pub lane: usize,
    pub sink: Arc<dyn Sink>,
    pub queue: Arc<LaneQueue>,
    pub counters: Arc<Counters>,
    pub store: Arc<Store>,
}

impl LaneDriver {
    /// Drives the lane until it is closed and empty. A panic in the sink ends only the attempt: the
    /// lane is opened again, what it was delivering is abandoned, what it had taken is returned.
    pub async fn run(self) {
        let driver = Arc::new(self);
        let mut backoff = Backoff::default();
        loop {
            let sent = driver.counters.snapshot().sent_events;
            let Err(failed) = tokio::spawn(driver.clone().drive()).await else { return };
            if !failed.is_panic() {
                return;
            }
            driver.counters.error("panic");
            log::error!("sink {}: panic while delivering; the lane is opened again", driver.sink_id);
            let taken = std::mem::take(&mut driver.queue.lock().taken);
            taken.into_iter().for_each(|hold| hold.settle(Outcome::Returned));
            driver.recount();
            if driver.counters.snapshot().sent_events > sent {
                backoff = Backoff::default();
            }
            tokio::time::sleep(backoff.next(random()).min(PANIC_PAUSE_MAX)).await;
        }
    }

    /// After a panic the payload in delivery is gone: the queue's bytes are what is still queued.
    fn recount(&self) {
        let queued = self.queue.lock().queue.iter().map(|p| p.bytes).sum();
        self.queue.bytes.store(queued, Ordering::Relaxed);
        (self.queue.on_room)();
    }

    async fn drive(self: Arc<Self>) {
        let state = self.store.lane(&self.sink_id, self.lane);
        let mut lane = self.sink.lane(LaneCx {
            lane: self.lane,
            state,
            counters: self.counters.clone(),
            keep: self.keeper(),
        });
        let mut sync_due: Option<Instant> = None;
        loop {
            let due = sync_due.is_some_and(|due| due <= Instant::now());
            let payload = if due { None } else { self.queue.lock().queue.pop_front() };
            if let Some(payload) = payload {
                if self.deliver(&mut *lane, payload).await == Some(Delivery::Taken) {
                    let wait = if lane.wants_sync() { Duration::ZERO } else { lane.sync_interval() };
                    let due = Instant::now() + wait;
                    sync_due = Some(sync_due.map_or(due, |before| before.min(due)));
                }
                continue;
            }
            let closed = self.queue.closed.load(Ordering::Acquire);
            let flush = closed || self.queue.flushing.swap(false, Ordering::AcqRel);
            if sync_due.is_some() && (due || flush) {
                self.sync(&mut *lane).await;
                sync_due = None;
            } else if closed {
                if let Some(state) = lane.close() {
                    self.store.note_lane(&self.sink_id, self.lane, state);
                }
                return;
            } else {
                self.idle(sync_due).await;
            }
        }
    }

    fn keeper(&self) -> Arc<dyn Fn(Vec<u8>) -> std::io::Result<()> + Send + Sync> {
        let (store, sink_id, lane) = (self.store.clone(), self.sink_id.clone(), self.lane);
        Arc::new(move |state| store.keep_lane(&sink_id, lane, state))
    }

    async fn idle(&self, until: Option<Instant>) {
        match until {
            Some(until) => {
                let _ = tokio::time::timeout_at(until, self.queue.changed.notified()).await;
            }
            None => self.queue.changed.notified().await,
        }
    }

    /// Delivers one payload, again and again while that can help.
    async fn deliver(&self, lane: &mut dyn Lane, mut payload: Payload) -> Option<Delivery> {
        let mut backoff = Backoff::default();
        let begun = std::time::Instant::now();
        loop {
            match lane.deliver(&payload).await {
                Ok(delivery) => {
                    self.delivered(&mut payload, delivery);
                    self.counters.busy(begun.elapsed());
                    self.queue.leave(payload.bytes);
                    return Some(delivery);
                }
                Err(error) if error.retry => self.pause(&error, backoff.next(random())).await,
                Err(error) => {
                    self.counters.error(error.kind);
                    self.counters.dropped(error.kind, payload.events);
                    log::error!("sink {}: {} events refused: {error}", self.sink_id, payload.events);
                    self.queue.leave(payload.bytes);
                    payload.settle(Outcome::Rejected);
                    return None;
                }
            }
        }
    }

    fn delivered(&self, payload: &mut Payload, delivery: Delivery) {
        self.counters.sent(payload.events, payload.bytes);
        let holds = payload.take_holds();
        match delivery {
            Delivery::Durable => holds.into_iter().for_each(|hold| hold.settle(Outcome::Delivered)),
            Delivery::Taken => self.queue.lock().taken.extend(holds),
        }
        self.recovered();
    }

    fn recovered(&self) {
        if self.queue.lock().trouble.take().is_some() {
            log::info!("sink {}: delivering again", self.sink_id);
        }
    }

    async fn pause(&self, error: &DeliverError, backoff: Duration) {
        let pause = error.retry_after.unwrap_or(backoff);
        self.counters.error(error.kind);
        self.counters.waited("retry", pause);
        log::warn!("sink {}: {error}; trying again", self.sink_id);
        self.queue.lock().trouble = Some(error.to_string());
        tokio::time::sleep(pause).await;
    }

    /// Syncs, again and again until it succeeds, then settles what was taken.
    async fn sync(&self, lane: &mut dyn Lane) {
        let mut backoff = Backoff::default();
        let state = loop {
            match lane.sync().await {
                Ok(state) => break state,
                Err(error) => self.pause(&error, backoff.next(random())).await,
            }
        };
        let taken = std::mem::take(&mut self.queue.lock().taken);
        {
            let _settling = self.store.settling();
            if let Some(state) = state {
                self.store.note_lane(&self.sink_id, self.lane, state);
            }
            taken.into_iter().for_each(|hold| hold.settle(Outcome::Delivered));
        }
        self.store.synced();
        self.recovered();
    }
}
