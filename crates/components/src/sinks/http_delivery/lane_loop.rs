//! State common to both kinds of request lanes, and the loop in which the engine drives a lane.

use super::batcher::{Batcher, wait_until};
use super::dispatcher::{Attempt, Dispatcher, RequestIds};
use super::pack_task::PackTask;
use super::stall::Stall;
use super::{Packer, Settings};
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Feed, Lane, LaneCx, Payload, Refused, Settled,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Interval between warnings about rejected events.
const WARN_INTERVAL: Duration = Duration::from_secs(30);

/// State of a lane with packer `P`, whose jobs return `R`.
pub struct LaneState<P, R> {
    pub settings: Arc<Settings>,
    /// Sink name.
    pub sink: Arc<str>,
    pub counters: Arc<Counters>,
    /// The feed of rejected events, which tells whether a component reads them.
    pub feed: Arc<Feed>,
    pub batcher: Batcher,
    pub stall: Stall,
    pub pack_task: PackTask<P, R>,
    pub dispatcher: Dispatcher,
    pub ids: RequestIds,
    /// Settled payloads that the engine has not taken yet.
    pub done: Vec<Settled>,
    /// Rejected events that the engine has not taken yet.
    pub refused: Vec<Refused>,
    /// Time when a rejection was last logged.
    warned_at: Option<Instant>,
}

impl<P: Packer, R: Send + 'static> LaneState<P, R> {
    /// Creates the state of a lane without payloads.
    pub fn new(settings: Arc<Settings>, packer: P, cx: LaneCx) -> LaneState<P, R> {
        LaneState {
            batcher: Batcher::new(settings.batch),
            stall: Stall::new(cx.backpressure),
            pack_task: PackTask::new(packer),
            dispatcher: Dispatcher::new(settings.clone(), cx.lane, cx.counters.flights()),
            ids: RequestIds::new(),
            done: Vec::new(),
            refused: Vec::new(),
            warned_at: None,
            sink: cx.sink,
            counters: cx.counters,
            feed: cx.feed,
            settings,
        }
    }

    /// Stores `why`, the reason for a rejection, as the last error. Logs the reason together with
    /// `text`, which says what happens to the events, unless a rejection was logged within
    /// [`WARN_INTERVAL`].
    pub fn warn_refusal(&mut self, endpoint: usize, text: &str, why: &str, now: Instant) {
        let answer = format!("{}: {why}", self.settings.targets[endpoint]);
        self.counters.set_last_error(&answer);
        if self.warned_at.is_some_and(|at| now < at + WARN_INTERVAL) {
            return;
        }
        self.warned_at = Some(now);
        log::warn!(
            "sink {}: {text}: {answer}; further rejections are not logged for {} s",
            self.sink,
            WARN_INTERVAL.as_secs()
        );
    }

    /// Returns the pause before a retry that needs an operator's change first: jittered between
    /// half of the maximum and the maximum.
    pub fn slow_retry(&self) -> Duration {
        let half = self.settings.slow_retry / 2;
        half + half.mul_f64(fastrand::f64())
    }
}

/// How a lane packs, sends and settles its requests.
pub trait RequestFlow: Send {
    /// Packs payloads into requests.
    type Packer: Packer;
    /// Result of a packer job.
    type Packed: Send + 'static;

    /// Returns the state common to all lanes.
    fn state(&self) -> &LaneState<Self::Packer, Self::Packed>;

    /// Returns the state common to all lanes, mutably.
    fn state_mut(&mut self) -> &mut LaneState<Self::Packer, Self::Packed>;

    /// Does all work that does not need to wait. Returns the time when more work is due, if time
    /// alone triggers it.
    fn advance(&mut self, now: Instant) -> Option<Instant>;

    /// Applies the result of a packer job.
    fn on_packed(&mut self, packed: Self::Packed, now: Instant) -> Result<(), DeliverError>;

    /// Handles the end of an attempt to send a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the attempt failed or some events are resent. The engine logs the error,
    /// and waits before the next call for as long as the error says.
    fn on_response(&mut self, attempt: Attempt, now: Instant) -> Result<(), DeliverError>;
}

/// A lane that sends requests.
pub struct LaneLoop<F> {
    flow: F,
}

impl<F: RequestFlow> LaneLoop<F> {
    /// Creates a lane that runs this flow.
    pub fn new(flow: F) -> LaneLoop<F> {
        LaneLoop { flow }
    }

    /// Advances until payloads are settled, events are rejected, or a full lane has capacity again.
    async fn run(&mut self) -> Result<(), DeliverError> {
        let was_full = self.is_full();
        loop {
            let next = self.flow.advance(Instant::now());
            let state = self.flow.state_mut();
            let has_news = !state.done.is_empty() || !state.refused.is_empty();
            if has_news || (was_full && !state.batcher.is_full()) {
                return Ok(());
            }
            // All branches are cancel safe.
            tokio::select! {
                packed = state.pack_task.wait() => self.flow.on_packed(packed, Instant::now())?,
                attempt = state.dispatcher.response() => self.flow.on_response(attempt, Instant::now())?,
                () = wait_until(next) => {}
            }
        }
    }
}

impl<F: RequestFlow> Lane for LaneLoop<F> {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            let now = Instant::now();
            self.flow.state_mut().batcher.take_in(payload, now);
            self.flow.advance(now);
            Ok(Delivery::Sent)
        })
    }

    fn is_full(&self) -> bool {
        self.flow.state().batcher.is_full()
    }

    fn flush(&mut self) {
        self.flow.state_mut().batcher.flush(Instant::now());
    }

    fn end_pauses(&mut self) {
        self.flow.state_mut().dispatcher.end_pauses();
    }

    fn refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.flow.state_mut().refused)
    }

    fn settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.flow.state_mut().done)
    }

    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(self.run())
    }
}
