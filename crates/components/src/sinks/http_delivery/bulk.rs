//! The lane of a sink whose events need no order and whose endpoint answers for each of them:
//! several requests are in flight, what was not taken is sent again without the rest, and payloads
//! are settled oldest first.
//!
//! How many requests are in flight follows the endpoint, see [`Concurrency`]. An answer counts only
//! if it is whole: otherwise the request is in doubt, and is sent again as it was.

mod concurrency;
mod jobs;
mod queue;

use super::batcher::Batcher;
use super::dispatcher::{Attempt, Dispatcher, RequestIds};
use super::pack_task::PackTask;
use super::response_class::{ResponseClass, explain, kind, reason, refusal, response_class};
use super::stall::Stall;
use super::{Packer, Record, Request, Settings};
use concurrency::Concurrency;
use jobs::{Packed, RefusedEvent};
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Feed, Lane, LaneCx, Payload, Refused, Settled,
};
use millstream_transport::Pause;
use millstream_transport::http::{BodyReader, Response};
use queue::{Action, Pauses, Queue, QueuedRequest, Repair};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep_until};

/// Batches that are not settled, per request that may be in flight. The oldest may wait for one
/// event while others are delivered.
const BATCHES_PER_REQUEST: usize = 8;

/// Interval between warnings about refused events.
const WARN_INTERVAL: Duration = Duration::from_secs(30);

/// A packer for an endpoint that answers for each event.
pub trait BulkPacker: Packer {
    /// Creates the reader of the answer to a request.
    fn answer(request: &Request) -> Box<dyn Answer>;

    /// Returns how to fix it if the `body` of a refusal means that the endpoint cannot read the
    /// request at all, whatever its events are.
    fn unreadable(_request: &Request, _body: &[u8]) -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }

    /// Builds a request of some events of another, by their positions in it, ascending. Runs on a
    /// blocking thread.
    fn select(&mut self, request: &Request, positions: &[u32]) -> Request;

    /// Returns an event of a request, by its position. Called only if a component reads what is
    /// refused. Runs on a blocking thread.
    fn record_at(&mut self, request: &Request, position: u32) -> Record;
}

/// Reads the answer to a request, and judges each event.
pub trait Answer: BodyReader {
    /// Returns the events that the endpoint did not take, ascending. Called after the body of
    /// a response with a status of success; `is_complete` says whether all of it was read.
    ///
    /// # Errors
    ///
    /// What is wrong, if this is not the whole answer to the request.
    fn judge(self: Box<Self>, is_complete: bool) -> Result<Vec<Failure>, UnusableAnswer>;
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableAnswer {
    /// It is longer than the agent reads: the next attempt can hardly have a shorter one.
    pub is_too_long: bool,
    /// What is wrong.
    pub text: String,
}

impl UnusableAnswer {
    /// The connection ended before the answer did.
    pub fn ended_early() -> UnusableAnswer {
        "the response ended early".to_owned().into()
    }
}

impl From<String> for UnusableAnswer {
    fn from(text: String) -> UnusableAnswer {
        UnusableAnswer { is_too_long: false, text }
    }
}

/// An event that the endpoint did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its position in the request.
    pub position: u32,
    /// What happens to it.
    pub judgement: Judgement,
    /// Why.
    pub reason: String,
}

/// What happens to an event that the endpoint did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The endpoint is overloaded: the event is sent again.
    Later,
    /// An operator must change something first: the event is sent again, rarely.
    Blocked,
    /// The endpoint will never take it.
    Refused,
}

/// Sends payloads as requests, several at once and in any order, until each event is delivered or
/// refused.
pub struct BulkLane<P> {
    settings: Arc<Settings>,
    /// Name of the sink.
    sink: Arc<str>,
    counters: Arc<Counters>,
    /// Says whether a component reads what is refused.
    feed: Arc<Feed>,
    batcher: Batcher,
    stall: Stall,
    pack_task: PackTask<P, Packed>,
    queue: Queue,
    repairs: VecDeque<Repair>,
    dispatcher: Dispatcher,
    concurrency: Concurrency,
    ids: RequestIds,
    done: Vec<Settled>,
    /// Refused events that the engine has not taken yet.
    refused: Vec<Refused>,
    /// When a refusal was last logged.
    warned_at: Option<Instant>,
}

impl<P: BulkPacker> BulkLane<P> {
    /// Creates a lane with its own packer, and at most `settings.request.concurrency` requests in
    /// flight.
    pub fn new(settings: Arc<Settings>, packer: P, cx: LaneCx) -> BulkLane<P> {
        BulkLane {
            batcher: Batcher::new(settings.batch),
            stall: Stall::new(cx.backpressure),
            pack_task: PackTask::new(packer),
            queue: Queue::default(),
            repairs: VecDeque::new(),
            dispatcher: Dispatcher::new(settings.clone(), cx.lane, cx.counters.flights()),
            concurrency: Concurrency::new(settings.request.concurrency),
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

    /// Does all work that needs no waiting. Returns when more work is due, if time alone triggers
    /// it.
    fn advance(&mut self, now: Instant) -> Option<Instant> {
        self.queue.settle(&mut self.done);
        self.repair();
        // A batch is packed once no other waits to be sent.
        let sent = self.send(now);
        let packed = self.pack(now);
        [packed, sent, self.queue.next_at(now)].into_iter().flatten().min()
    }

    /// Hands the packer the next repair, if it is idle.
    fn repair(&mut self) {
        if self.pack_task.idle().is_none() {
            return;
        }
        let Some((request, action, repaired)) = self.repairs.pop_front().map(Repair::begin) else {
            return;
        };
        let is_read = self.feed.keeps_refused();
        self.pack_task
            .begin(move |packer| jobs::repair(packer, request, action, repaired, is_read));
    }

    /// Hands the packer the next batch, if it is due and no other waits to be sent.
    fn pack(&mut self, now: Instant) -> Option<Instant> {
        let batches_max = self.settings.request.concurrency * BATCHES_PER_REQUEST;
        let is_busy = self.pack_task.idle().is_none() || self.queue.has_ready(now);
        let is_free = !is_busy && self.dispatcher.in_flight() < self.concurrency.limit();
        let stalled = self.stall.since(is_free && !self.batcher.is_empty(), now);
        if is_busy || self.queue.batches() >= batches_max {
            return None;
        }
        let due = self.batcher.due(stalled)?;
        if due > now {
            return Some(due);
        }
        let payloads = self.batcher.take(now, P::cut);
        let number = self.queue.open(&payloads);
        self.pack_task.begin(move |packer| jobs::pack(packer, payloads, number));
        None
    }

    /// Sends what may be sent now.
    fn send(&mut self, now: Instant) -> Option<Instant> {
        while self.queue.has_ready(now) && self.dispatcher.in_flight() < self.concurrency.limit() {
            let sent = self.queue.send(now, |queued, number| {
                let answer = || Some(P::answer(&queued.request));
                self.dispatcher.send((&queued.request, &queued.id, number), answer, now)
            });
            if let Err(until) = sent {
                return Some(until);
            }
        }
        None
    }

    /// Applies a result of the packer.
    fn on_packed(&mut self, packed: Packed) {
        match packed {
            Packed::Batch(number, requests, refused) => {
                let refused = self.queue.packed(number, requests, refused, &mut self.ids);
                self.refused.extend(refused);
            }
            Packed::Repaired { repaired, requests, refused, dropped } => {
                self.counters.dropped("refused", dropped);
                for RefusedEvent { event, reason, record } in refused {
                    self.refused.extend(self.queue.refused(repaired.batch, event, reason, record));
                }
                self.queue.repaired(repaired, requests, &mut self.ids);
            }
        }
    }

    /// Handles the end of an attempt. The engine notes an error.
    fn on_response(&mut self, attempt: Attempt, now: Instant) -> Result<(), DeliverError> {
        let Some(queued) = self.queue.take(attempt.number) else { return Ok(()) };
        let Attempt { endpoint, started, result, answer, .. } = attempt;
        let sent = Sent { endpoint, started };
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                self.concurrency.overloaded(started, now);
                let failure = (error.kind, error.message);
                return Err(self.failed(queued, sent, failure, Pause::Backoff, now));
            }
        };
        let failure = || (kind(response.status), explain(&response));
        match response_class(&response, SystemTime::now()) {
            ResponseClass::Delivered => self.answered(queued, sent, &response, answer, now),
            ResponseClass::Later(wait) => {
                self.concurrency.overloaded(started, now);
                let failed = self.failed(queued, sent, failure(), wait, now);
                Err(failed.with_status(response.status))
            }
            ResponseClass::Misconfigured | ResponseClass::UnsupportedFormat => {
                let pause = Pause::Fixed(self.slow_retry());
                let failed = self.failed(queued, sent, failure(), pause, now);
                Err(failed.with_status(response.status))
            }
            ResponseClass::Refused { too_large } => {
                if let Some(advice) = P::unreadable(&queued.request, &response.body) {
                    let (kind, text) = failure();
                    let (pause, text) =
                        (Pause::Fixed(self.slow_retry()), format!("{text}; {advice}"));
                    return Err(self.failed(queued, sent, (kind, text), pause, now));
                }
                self.on_refusal(queued, sent, &response, too_large, now);
                Ok(())
            }
        }
    }

    /// Queues a request again, and marks its endpoint as failed unless it has failed meanwhile.
    /// Returns the error for the engine, which does not wait: others are in flight.
    fn failed(
        &mut self,
        queued: QueuedRequest,
        sent: Sent,
        (kind, text): (&'static str, String),
        pause: Pause,
        now: Instant,
    ) -> DeliverError {
        self.queue.put_back(queued);
        if !self.dispatcher.has_failed_since(sent.endpoint, sent.started) {
            let pause = self.dispatcher.mark_failed(sent.endpoint, pause, now);
            self.counters.waited("retry", pause);
        }
        self.error(sent, kind, &text)
    }

    fn error(&self, sent: Sent, kind: &'static str, text: &str) -> DeliverError {
        let message = format!("{}: {text}", self.settings.targets[sent.endpoint]);
        DeliverError { retry_after: Some(Duration::ZERO), ..DeliverError::retry(kind, message) }
    }

    /// Handles a response with a status of success: only a whole answer counts.
    fn answered(
        &mut self,
        queued: QueuedRequest,
        sent: Sent,
        response: &Response,
        answer: Option<Box<dyn Answer>>,
        now: Instant,
    ) -> Result<(), DeliverError> {
        let judged = match answer {
            Some(answer) => answer.judge(response.is_complete),
            None => Err(UnusableAnswer::ended_early()),
        };
        let failures = match judged {
            Ok(failures) => failures,
            Err(unusable) => return Err(self.unusable(queued, sent, unusable, now)),
        };
        if !self.dispatcher.has_failed_since(sent.endpoint, sent.started) {
            self.dispatcher.mark_healthy(sent.endpoint);
        }
        self.batcher.grow(now);
        self.counters.accepted(queued.events().saturating_sub(failures.len() as u64));
        let error = self.note(&queued, sent, &failures, now);
        let pauses =
            Pauses { now, blocked_until: now + self.slow_retry(), random: fastrand::u32(..) };
        let is_read = self.feed.keeps_refused();
        self.repairs.extend(self.queue.judged(queued, failures, is_read, pauses));
        error
    }

    /// Queues a request again whose answer does not count. After an answer that is too long it is
    /// sent again rarely: the endpoint may have the events, and would only repeat itself.
    fn unusable(
        &mut self,
        queued: QueuedRequest,
        sent: Sent,
        unusable: UnusableAnswer,
        now: Instant,
    ) -> DeliverError {
        self.concurrency.overloaded(sent.started, now);
        let (kind, pause) = match unusable.is_too_long {
            true => ("answer_too_long", Pause::Fixed(self.slow_retry())),
            false => ("incomplete_answer", Pause::Backoff),
        };
        self.failed(queued, sent, (kind, unusable.text), pause, now)
    }

    /// Counts the failures of an answer, and adapts to it. Returns the error for the engine if
    /// events are sent again.
    fn note(
        &mut self,
        queued: &QueuedRequest,
        sent: Sent,
        failures: &[Failure],
        now: Instant,
    ) -> Result<(), DeliverError> {
        let of = |judgement| failures.iter().filter(move |of| of.judgement == judgement);
        let events = queued.events();
        if let Some(first) = of(Judgement::Refused).next() {
            let (count, is_read) =
                (of(Judgement::Refused).count() as u64, self.feed.keeps_refused());
            self.counters.error("refused");
            if !is_read {
                self.counters.dropped("refused", count);
            }
            self.warn(sent, &refused_text(count, is_read), &first.reason, now);
        }
        if of(Judgement::Later).next().is_some() {
            self.concurrency.overloaded(sent.started, now);
        } else {
            let is_large = events >= self.settings.batch.events / 2
                || self.queue.bytes(queued) >= self.batcher.limit() / 2;
            self.concurrency.responded(now - sent.started, is_large);
        }
        let again = [(Judgement::Blocked, "blocked"), (Judgement::Later, "throttled")];
        for (judgement, kind) in again {
            if let Some(first) = of(judgement).next() {
                let count = of(judgement).count();
                let text = format!("{count} of {events} events are sent again: {}", first.reason);
                return Err(self.error(sent, kind, &text));
            }
        }
        Ok(())
    }

    /// Handles the refusal of a whole request, for its content or size.
    fn on_refusal(
        &mut self,
        queued: QueuedRequest,
        sent: Sent,
        response: &Response,
        too_large: bool,
        now: Instant,
    ) {
        self.dispatcher.mark_healthy(sent.endpoint);
        self.counters.error("refused");
        if too_large {
            self.batcher.shrink(self.queue.bytes(&queued), now);
        }
        let text = refusal(queued.events(), self.feed.keeps_refused());
        self.warn(sent, &text, &explain(response), now);
        self.repairs.push_back(queued.repair(Action::Split(reason(response))));
    }

    /// Keeps why events were refused, and logs it unless a refusal was logged recently.
    fn warn(&mut self, sent: Sent, text: &str, why: &str, now: Instant) {
        let endpoint = &self.settings.targets[sent.endpoint];
        self.counters.set_last_error(&format!("{endpoint}: {why}"));
        if self.warned_at.is_some_and(|at| now < at + WARN_INTERVAL) {
            return;
        }
        self.warned_at = Some(now);
        log::warn!(
            "sink {}: {endpoint}: {text}: {why}; further refusals are not logged for {} s",
            self.sink,
            WARN_INTERVAL.as_secs()
        );
    }

    /// Returns the pause before a retry that needs an operator's change first: jittered between
    /// half of the maximum and the maximum.
    fn slow_retry(&self) -> Duration {
        let half = self.settings.slow_retry / 2;
        half + half.mul_f64(fastrand::f64())
    }
}

/// Where and when a request was sent.
#[derive(Clone, Copy)]
struct Sent {
    endpoint: usize,
    started: Instant,
}

/// Describes what happens to events that were refused one by one.
fn refused_text(events: u64, is_read: bool) -> String {
    let end = match is_read {
        true => "passed on to the output `rejected`",
        false => "dropped and counted as refused",
    };
    match events {
        1 => format!("the endpoint refused an event; it is {end}"),
        _ => format!("the endpoint refused {events} events; they are {end}"),
    }
}

impl<P: BulkPacker> Lane for BulkLane<P> {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            let now = Instant::now();
            self.batcher.take_in(payload, now);
            self.advance(now);
            Ok(Delivery::Sent)
        })
    }

    fn is_full(&self) -> bool {
        self.batcher.is_full()
    }

    fn flush(&mut self) {
        self.batcher.flush(Instant::now());
    }

    fn end_pauses(&mut self) {
        self.dispatcher.end_pauses();
    }

    fn refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    fn settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.done)
    }

    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            let was_full = self.is_full();
            loop {
                let next = self.advance(Instant::now());
                let has_news = !self.done.is_empty() || !self.refused.is_empty();
                if has_news || (was_full && !self.is_full()) {
                    return Ok(());
                }
                let time = async {
                    match next {
                        Some(next) => sleep_until(next).await,
                        None => std::future::pending().await,
                    }
                };
                // All branches are cancel safe.
                tokio::select! {
                    packed = self.pack_task.wait() => self.on_packed(packed),
                    attempt = self.dispatcher.response() => self.on_response(attempt, Instant::now())?,
                    () = time => {}
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
