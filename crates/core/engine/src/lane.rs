//! The queue in front of a lane, and the task that drives the lane.

mod ending;
mod refusals;

use crate::clock::EngineClock;
use crate::index::LaneIndex;
use crate::limits::{ERROR_REPEAT, PANIC_PAUSE_MAX};
use ending::Phase;
use millstream_model::snapshot::FailureSnapshot;
use millstream_model::{
    Backoff, Backpressure, BackpressureReason, Counters, DeliverError, Delivery, Feed, Hold, Kind,
    Lane, LaneCx, MemoryPressure, Outcome, Payload, Settled, Sink,
};
use millstream_recorder::record;
use millstream_store::Store;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Minimum time between two ticks of a lane.
const TICK_MIN: Duration = Duration::from_millis(1);

/// Payloads queued for one lane.
pub(crate) struct LaneQueue {
    state: Mutex<State>,
    changed: Notify,
    bytes: AtomicU64,
    /// Bytes that have left the queue since the lane was created.
    left: AtomicU64,
    /// Shortest time in microseconds between passing a payload to the sink and its delivery.
    round_trip_us: AtomicU64,
    closed: AtomicBool,
    /// Whether a request to close the lane has already ended its pauses.
    has_ended_pauses: AtomicBool,
    flushing: AtomicBool,
    /// Whether the endpoint has been reached.
    started: AtomicBool,
    backpressure: Arc<Backpressure>,
    phase: watch::Sender<Phase>,
    on_available: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Payload>,
    /// Debts of payloads that the sink has accepted and not synced yet.
    taken: Vec<Hold>,
    /// Payloads in flight, without their bytes, until they are settled; oldest first.
    sent: VecDeque<Sent>,
    /// Number of the first payload in flight, counted since the lane was opened.
    first_sent: u64,
    /// Number of the oldest payload in flight, counted since the lane was opened.
    sent_since: Option<Instant>,
    /// How long payloads were in flight before `sent_since`.
    in_flight: Duration,
    /// Error from the last failed delivery, until a delivery succeeds.
    error: Option<LastError>,
}

impl State {
    /// Adds a payload to the payloads in flight.
    fn push_sent(&mut self, sent: Sent) {
        self.sent_since.get_or_insert_with(Instant::now);
        self.sent.push_back(sent);
    }

    /// Takes the oldest payload in flight.
    fn pop_sent(&mut self) -> Option<Sent> {
        let sent = self.sent.pop_front()?;
        self.first_sent += 1;
        if self.sent.is_empty() {
            self.end_flight();
        }
        Some(sent)
    }

    /// Takes all payloads in flight.
    fn take_all_sent(&mut self) -> VecDeque<Sent> {
        self.end_flight();
        std::mem::take(&mut self.sent)
    }

    fn end_flight(&mut self) {
        self.in_flight += self.sent_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }
}

/// A payload in flight.
struct Sent {
    payload: Payload,
    since: Instant,
    /// Whether the payload is reread, regardless of the outcome.
    returns: bool,
}

struct LastError {
    text: String,
    kind: &'static str,
    code: i64,
    /// When the error was last logged.
    logged: Instant,
    /// Time of the first failure.
    since: Instant,
    /// Time of the last failure.
    last: Instant,
    /// When the next attempt is due.
    next: Instant,
    /// Number of failures since the first one.
    attempts: u32,
}

impl LaneQueue {
    /// Creates an empty queue that calls `on_available` whenever bytes leave it.
    pub fn new(on_available: impl Fn() + Send + Sync + 'static) -> Arc<LaneQueue> {
        Arc::new(LaneQueue {
            state: Mutex::default(),
            changed: Notify::new(),
            bytes: AtomicU64::new(0),
            left: AtomicU64::new(0),
            round_trip_us: AtomicU64::new(u64::MAX),
            closed: AtomicBool::new(false),
            has_ended_pauses: AtomicBool::new(false),
            flushing: AtomicBool::new(false),
            started: AtomicBool::new(false),
            backpressure: Arc::default(),
            phase: watch::Sender::new(Phase::Runs),
            on_available: Box::new(on_available),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Queues a payload.
    pub fn push(&self, payload: Payload) {
        self.bytes.fetch_add(payload.queue_bytes(), Ordering::Relaxed);
        self.lock().queue.push_back(payload);
        self.changed.notify_one();
    }

    /// Removes the oldest payload that the lane has not taken yet.
    pub fn take_oldest(&self) -> Option<Payload> {
        let oldest = self.lock().queue.pop_front()?;
        self.bytes.fetch_sub(oldest.queue_bytes(), Ordering::Relaxed);
        Some(oldest)
    }

    /// Returns the bytes that are queued or being delivered.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records whether the lane's inputs are waiting because of `reason`, and wakes the lane if
    /// necessary.
    pub fn press(&self, reason: BackpressureReason, waits: bool) {
        if self.backpressure.set(reason, waits) {
            self.changed.notify_one();
        }
    }

    /// Returns the bytes that have left the queue since the lane was created.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Returns the shortest delivery time; `None` before the first delivery.
    pub fn round_trip(&self) -> Option<Duration> {
        let us = self.round_trip_us.load(Ordering::Relaxed);
        (us < u64::MAX).then(|| Duration::from_micros(us))
    }

    fn has_delivered(&self, since: Instant) {
        self.round_trip_us.fetch_min(since.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// Returns the reason why the lane is not making progress, or `None` if it is.
    pub fn error(&self) -> Option<String> {
        self.lock().error.as_ref().map(|error| error.text.clone())
    }

    /// Returns how long every attempt has failed; `None` if the last attempt succeeded.
    pub fn failing_for(&self) -> Option<Duration> {
        self.lock().error.as_ref().map(|error| error.since.elapsed())
    }

    /// Returns the total time during which payloads were in flight, that is, sent but not settled.
    pub fn in_flight(&self) -> Duration {
        let state = self.lock();
        state.in_flight + state.sent_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the failure that is preventing deliveries, if any.
    pub fn failure(&self) -> Option<FailureSnapshot> {
        self.lock().error.as_ref().map(|error| FailureSnapshot {
            kind: error.kind,
            code: error.code,
            message: error.text.clone(),
            seconds: error.since.elapsed().as_secs_f64(),
            span_seconds: (error.last - error.since).as_secs_f64(),
            attempts: error.attempts,
        })
    }

    fn take_sent(&self) -> Option<Sent> {
        self.lock().pop_sent()
    }

    fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    fn has_sent(&self) -> bool {
        !self.lock().sent.is_empty()
    }

    /// Records that a payload is being passed to the sink, which can take a long time.
    fn begin_flight(&self) {
        self.lock().sent_since.get_or_insert_with(Instant::now);
    }

    /// Records that the sink has taken the payload.
    fn end_flight(&self) {
        let mut state = self.lock();
        if state.sent.is_empty() {
            state.end_flight();
        }
    }

    /// Records a failure in the traces of all payloads in flight, because it is not known which one
    /// failed.
    fn trace_failure(&self, error: &DeliverError) {
        let state = self.lock();
        let traces = state.sent.iter().filter_map(|sent| sent.payload.trace());
        for traced in traces {
            traced.failed(error);
        }
    }

    /// Records a failure and the pause after it; returns whether to log the failure.
    fn fail(&self, cause: &DeliverError, pause: Duration) -> bool {
        let text = cause.to_string();
        let kind = cause.kind;
        let code = cause.code;
        let error = &mut self.lock().error;
        let now = Instant::now();
        let mut since = now;
        let mut attempts = 1;
        let mut logged = None;
        if let Some(before) = error {
            since = before.since;
            attempts = before.attempts.saturating_add(1);
            let is_repeated = before.text == text && now < before.logged + ERROR_REPEAT;
            logged = is_repeated.then_some(before.logged);
        }
        *error = Some(LastError {
            text,
            kind,
            code,
            logged: logged.unwrap_or(now),
            since,
            last: now,
            next: now + pause,
            attempts,
        });
        logged.is_none()
    }

    /// Returns how many attempts have failed since the last success.
    fn failed_attempts(&self) -> u32 {
        self.lock().error.as_ref().map_or(0, |error| error.attempts)
    }

    /// Makes the lane deliver its queue, sync, and end.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Syncs as soon as the queue is empty, without waiting for the interval.
    pub fn flush(&self) {
        self.flushing.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits until the lane is asked to end.
    async fn closing(&self) {
        while !self.closed.load(Ordering::Acquire) {
            self.changed.notified().await;
        }
    }

    /// Returns whether a request to close the lane must end the pauses. Returns true only once.
    fn ends_pauses(&self) -> bool {
        self.is_closed() && !self.has_ended_pauses.swap(true, Ordering::Relaxed)
    }

    /// Takes the pending requests, which apply once the lane's queue is empty.
    fn take_request(&self) -> Request {
        let ends = self.closed.load(Ordering::Acquire);
        Request { ends, flushes: self.flushing.swap(false, Ordering::AcqRel) || ends }
    }

    fn next(&self) -> Option<Payload> {
        self.lock().queue.pop_front()
    }

    fn leave(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.left.fetch_add(bytes, Ordering::Relaxed);
        self.backpressure.set(BackpressureReason::Drops, false);
        (self.on_available)();
    }
}

/// Requests to a lane that apply once its queue is empty.
struct Request {
    /// The lane must end.
    ends: bool,
    /// The lane must send its pending payloads.
    flushes: bool,
}

/// The reason why driving a lane ended.
enum End {
    Closed,
    /// The lane has taken payloads that a reload has marked as stale.
    TakenBack,
}

/// The reason why a pause between two attempts ended.
#[derive(PartialEq)]
enum Paused {
    Fully,
    /// The lane must end.
    UntilStop,
}

/// An error: payloads that a lane has taken are stale, and will be reread.
#[derive(Debug, PartialEq)]
struct Stale;

/// The resources that a lane's driver needs.
pub(crate) struct LaneDriver {
    /// The kind of the component: a sink or a merge transform.
    pub kind: Kind,
    pub sink_id: Arc<str>,
    pub lane: LaneIndex,
    pub sink: Arc<dyn Sink>,
    pub queue: Arc<LaneQueue>,
    pub counters: Arc<Counters>,
    /// See [`LaneCx::state_bytes`].
    pub state_bytes: u64,
    pub store: Arc<Store>,
    pub clock: EngineClock,
    /// Takes the events that the sink creates.
    pub feed: Arc<Feed>,
    pub pressure: Arc<MemoryPressure>,
    /// Lanes that may write to the same place, and must end before this lane begins.
    pub after: Vec<Arc<LaneQueue>>,
}

/// Runs a future whose samples in a profile use the component as their root.
async fn entered<F: Future>(counters: Arc<Counters>, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        let _entered = counters.enter();
        future.as_mut().poll(cx)
    })
    .await
}

impl LaneDriver {
    /// Drives the lane until it is closed and empty. A panic in the sink ends only the attempt. The
    /// lane is then reopened, the payload in delivery is abandoned, and accepted payloads are
    /// returned.
    pub async fn run(self) {
        let driver = Arc::new(self);
        driver.queue.wait_for(&driver.after).await;
        LaneDriver::drive_on(driver.clone()).await;
        driver.give_back();
        driver.queue.end();
    }

    async fn drive_on(driver: Arc<LaneDriver>) {
        let mut backoff = Backoff::default();
        while !driver.queue.is_let_go() {
            let sent = driver.counters.snapshot().sent_events;
            let failed = match tokio::spawn(entered(
                driver.counters.clone(),
                driver.clone().drive(),
            ))
            .await
            {
                Ok(End::Closed) => return,
                Ok(End::TakenBack) => {
                    driver.give_back();
                    continue;
                }
                Err(failed) => failed,
            };
            if !failed.is_panic() {
                return;
            }
            driver.counters.error("panic");
            log::error!(
                "{} {}: panic while delivering; the lane is reopened",
                driver.kind,
                driver.sink_id
            );
            driver.give_back();
            driver.recount();
            if driver.counters.snapshot().sent_events > sent {
                backoff = Backoff::default();
            }
            tokio::time::sleep(backoff.next(fastrand::u32(..)).min(PANIC_PAUSE_MAX)).await;
        }
    }

    async fn drive(self: Arc<Self>) -> End {
        let Some(mut lane) = self.open().await else { return End::Closed };
        self.start(&mut *lane).await;
        let mut sync_due: Option<Instant> = None;
        while !self.queue.is_let_go() {
            if self.queue.ends_pauses() {
                lane.end_pauses();
            }
            self.settle_sent(&mut *lane);
            let due = lane.wants_sync() || sync_due.is_some_and(|due| due <= Instant::now());
            let has_capacity = !due && !lane.is_full() && !self.feed.is_full();
            if has_capacity && let Some(payload) = self.queue.next() {
                if self.deliver(&mut *lane, payload).await == Some(Delivery::Taken) {
                    sync_due = sync_due.or_else(|| Some(Instant::now() + lane.sync_interval()));
                }
                continue;
            }
            let Request { ends, flushes } = self.queue.take_request();
            if flushes {
                lane.flush();
            }
            let next_tick = lane.tick().map(|after| Instant::now() + after.max(TICK_MIN));
            if lane.wants_sync() || sync_due.is_some() && (due || flushes) {
                if self.sync(&mut *lane).await == Err(Stale) {
                    return End::TakenBack;
                }
                sync_due = None;
            } else if ends && !self.queue.has_sent() && self.queue.is_empty() {
                if let Some(state) = lane.close() {
                    self.store.note_lane(&self.sink_id, self.lane.get(), state);
                }
                return End::Closed;
            } else {
                let wake = [sync_due, next_tick, self.feed_look()].into_iter().flatten().min();
                self.idle(&mut *lane, wake).await;
            }
        }
        End::Closed
    }

    /// Opens the lane; returns `None` if the lane is let go first.
    async fn open(&self) -> Option<Box<dyn Lane>> {
        let state = self.state().await?;
        let lane = self.lane.get();
        let store = self.store.clone();
        let id = self.sink_id.clone();
        let keep = Arc::new(move |state| store.keep_lane(&id, lane, state));
        let store = self.store.clone();
        let id = self.sink_id.clone();
        let is_committed = Arc::new(move || store.has_committed_lane(&id, lane));
        let clock = self.clock;
        self.queue.lock().first_sent = 0;
        Some(self.sink.lane(LaneCx {
            sink: self.sink_id.clone(),
            lane,
            state,
            counters: self.counters.clone(),
            state_bytes: self.state_bytes,
            keep,
            is_committed,
            now: Arc::new(move || clock.now()),
            folder: Some(self.store.snapshot_dir(&self.sink_id)),
            feed: self.feed.clone(),
            pressure: self.pressure.clone(),
            backpressure: self.queue.backpressure.clone(),
        }))
    }

    /// Waits until the endpoint is reachable, or until the lane is closed with an empty queue.
    async fn start(&self, lane: &mut dyn Lane) {
        let mut backoff = Backoff::default();
        while let Err(error) = lane.start().await {
            match self.pause_unless_ended(&error, &mut backoff).await {
                Some(Paused::Fully) => {}
                Some(Paused::UntilStop) => lane.end_pauses(),
                None => return,
            }
        }
        self.queue.started.store(true, Ordering::Relaxed);
        self.recovered();
    }

    async fn idle(&self, lane: &mut dyn Lane, until: Option<Instant>) {
        let due = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            () = self.queue.changed.notified() => Ok(()),
            () = due => Ok(()),
            () = self.queue.letting_go() => Ok(()),
            result = lane.progress(), if self.queue.has_sent() => result,
        };
        if let Err(error) = result {
            self.pause(lane, &error, &mut Backoff::default()).await;
        }
    }

    /// Settles the payloads for which the lane has outcomes.
    fn settle_sent(&self, lane: &mut dyn Lane) {
        for refused in lane.refused() {
            self.pass_on(refused);
        }
        for Settled { outcome, refused } in lane.settled() {
            let Some(Sent { payload, since, returns }) = self.queue.take_sent() else { return };
            self.queue.has_delivered(since);
            if let Some(traced) = payload.trace()
                && refused > 0
            {
                traced.refused(refused);
            }
            if payload.events > refused {
                self.counters.sent(payload.events - refused, payload.bytes);
                self.recovered();
            }
            self.queue.leave(payload.queue_bytes());
            payload.settle(if returns { Outcome::Returned } else { outcome });
        }
    }

    /// Passes on the events that the encoder rejected; returns the payload if it must be delivered.
    fn accept(&self, mut payload: Payload) -> Option<Payload> {
        for event in payload.take_refused() {
            self.feed.push(event);
        }
        if payload.is_empty() {
            self.queue.leave(payload.queue_bytes());
            payload.settle(Outcome::Delivered);
            return None;
        }
        if self.counts_once() && !payload.take_once() {
            self.queue.leave(payload.queue_bytes());
            payload.settle(Outcome::Returned);
            return None;
        }
        Some(payload)
    }

    /// Delivers one payload, retrying for as long as a retry can help.
    async fn deliver(&self, lane: &mut dyn Lane, payload: Payload) -> Option<Delivery> {
        self.queue.begin_flight();
        let delivery = self.try_until_delivered(lane, payload).await;
        self.queue.end_flight();
        delivery
    }

    async fn try_until_delivered(&self, lane: &mut dyn Lane, payload: Payload) -> Option<Delivery> {
        let payload = self.accept(payload)?;
        let mut backoff = Backoff::default();
        let begun = Instant::now();
        let busy_since = std::time::Instant::now();
        if let Some(traced) = payload.trace() {
            traced.sent();
        }
        loop {
            let result = lane.deliver(&payload).await;
            if let (Some(traced), Err(error)) = (payload.trace(), &result) {
                traced.failed(error);
            }
            match result {
                Ok(delivery) => {
                    self.delivered(payload, delivery, begun);
                    self.counters.busy(busy_since.elapsed());
                    return Some(delivery);
                }
                Err(error) if error.retry => {
                    self.pause(lane, &error, &mut backoff).await;
                    self.settle_sent(lane);
                    if self.queue.is_let_go() {
                        self.queue.leave(payload.queue_bytes());
                        payload.settle(Outcome::Returned);
                        return None;
                    }
                }
                Err(error) => {
                    self.counters.error(error.kind);
                    self.counters.dropped(error.kind, payload.events);
                    log::error!(
                        "{} {}: {} events rejected: {error}",
                        self.kind,
                        self.sink_id,
                        payload.events
                    );
                    self.queue.leave(payload.queue_bytes());
                    payload.settle(Outcome::Rejected);
                    return None;
                }
            }
        }
    }

    fn delivered(&self, mut payload: Payload, delivery: Delivery, since: Instant) {
        if delivery == Delivery::Sent {
            payload.parts = Vec::new();
            payload.routing = None;
            return self.queue.lock().push_sent(Sent { payload, since, returns: false });
        }
        self.queue.has_delivered(since);
        self.counters.sent(payload.events, payload.bytes);
        self.queue.leave(payload.queue_bytes());
        let holds = payload.take_holds();
        if delivery == Delivery::Taken {
            self.queue.lock().taken.extend(holds);
        } else {
            for hold in holds {
                hold.settle(Outcome::Delivered);
            }
        }
        self.recovered();
    }

    fn recovered(&self) {
        if self.queue.lock().error.take().is_some() {
            log::info!("{} {}: delivering again", self.kind, self.sink_id);
        }
    }

    /// Pauses before the lane's next attempt.
    async fn pause(&self, lane: &mut dyn Lane, error: &DeliverError, backoff: &mut Backoff) {
        if self.wait(error, backoff).await == Paused::UntilStop {
            lane.end_pauses();
        }
    }

    /// Waits after a failure. Shutdown ends the wait and resets the backoff, because the endpoint
    /// may be back, and data that cannot be reread is lost unless it is sent in time.
    async fn wait(&self, error: &DeliverError, backoff: &mut Backoff) -> Paused {
        let pause = error.retry_after.unwrap_or_else(|| backoff.next(fastrand::u32(..)));
        self.counters.error(error.kind);
        self.counters.waited("retry", pause);
        self.queue.trace_failure(error);
        let is_new = self.queue.fail(error, pause);
        let attempts = self.queue.failed_attempts();
        record::retry(self.counters.subject(), error.kind, error.code, attempts, pause);
        if is_new {
            log::warn!("{} {}: {error}; retrying", self.kind, self.sink_id);
        }
        let has_ended_pauses = self.queue.has_ended_pauses.load(Ordering::Relaxed);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.queue.letting_go() => {}
            () = self.queue.closing(), if !has_ended_pauses => {}
        }
        if !self.queue.ends_pauses() {
            return Paused::Fully;
        }
        *backoff = Backoff::default();
        Paused::UntilStop
    }

    /// Syncs, retrying until it succeeds, then settles the accepted payloads.
    ///
    /// # Errors
    ///
    /// Returns an error if a merge transform has counted events that a reload has marked as stale.
    /// In that case, the lane must be reopened from its previous state.
    async fn sync(&self, lane: &mut dyn Lane) -> Result<(), Stale> {
        let mut backoff = Backoff::default();
        let state = loop {
            match lane.sync().await {
                Ok(state) => break state,
                Err(_) if self.queue.is_let_go() => return Ok(()),
                Err(error) => self.pause(lane, &error, &mut backoff).await,
            }
        };
        let settling = self.store.settling();
        if self.counts_once() && self.queue.lock().taken.iter().any(Hold::is_stale) {
            return Err(Stale);
        }
        let taken = std::mem::take(&mut self.queue.lock().taken);
        if let Some(state) = state {
            self.store.note_lane(&self.sink_id, self.lane.get(), state);
        }
        for hold in taken {
            hold.settle(Outcome::Delivered);
        }
        drop(settling);
        self.store.synced();
        self.recovered();
        Ok(())
    }

    /// Returns whether an event that is taken twice would count twice, as in a merge transform.
    fn counts_once(&self) -> bool {
        self.feed.is_of_results()
    }
}
