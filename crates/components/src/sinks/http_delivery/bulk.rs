//! The lane for a sink whose events need no order and whose endpoint returns a result for each
//! event. Several requests are in flight, events that were not accepted are resent without the
//! accepted events, and payloads are settled oldest first.
//!
//! The number of requests in flight adapts to the endpoint (see [`Concurrency`]). A response counts
//! only if it is complete. Otherwise the request is in doubt, and the same request is resent.

mod concurrency;
mod jobs;
mod queue;

use super::dispatcher::Attempt;
use super::lane_loop::{LaneState, RequestFlow};
use super::response_class::{ResponseClass, explain, kind, reason, refusal, response_class};
use super::{Packer, Record, Request, Settings};
use concurrency::Concurrency;
use jobs::Packed;
use millstream_model::{DeliverError, LaneCx};
use millstream_transport::Pause;
use millstream_transport::http::{BodyReader, Response};
use queue::{Action, Pauses, Queue, QueuedRequest, Repair};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Maximum number of unsettled batches for each request that may be in flight. Several are needed,
/// because the oldest batch may wait for one event while the events of later batches are delivered.
const BATCHES_PER_REQUEST: usize = 8;

/// A packer for an endpoint that returns a result for each event.
pub trait BulkPacker: Packer {
    /// Creates a reader for the response to a request.
    fn answer(request: &Request) -> Box<dyn Answer>;

    /// Returns advice if the `body` of a rejection means that the endpoint cannot read the request
    /// at all, whatever its events are.
    fn unreadable(_request: &Request, _body: &[u8]) -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }

    /// Builds a request from some events of another request, selected by their ascending positions.
    /// Runs on a blocking thread.
    fn select(&mut self, request: &Request, positions: &[u32]) -> Request;

    /// Returns an event of a request by its position. Called only if a component reads rejected
    /// events. Runs on a blocking thread.
    fn record_at(&mut self, request: &Request, position: u32) -> Record;
}

/// Reads the response to a request, and judges each event.
pub trait Answer: BodyReader {
    /// Returns the events that the endpoint did not accept, in ascending order. Called after the
    /// body of a response with a success status. `is_complete` says whether the whole body was
    /// read.
    ///
    /// # Errors
    ///
    /// Returns an error if this is not a complete response to the request.
    fn judge(self: Box<Self>, is_complete: bool) -> Result<Vec<Failure>, UnusableAnswer>;
}

/// The reason why a response does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableAnswer {
    /// Whether the response exceeds the agent's size limit. A retry is unlikely to get a shorter
    /// one.
    pub is_too_long: bool,
    /// Description of the error.
    pub text: String,
}

impl UnusableAnswer {
    /// Returns the error for a connection that closed before the response was complete.
    pub fn ended_early() -> UnusableAnswer {
        "the response ended early".to_owned().into()
    }
}

impl From<String> for UnusableAnswer {
    fn from(text: String) -> UnusableAnswer {
        UnusableAnswer { is_too_long: false, text }
    }
}

/// An event that the endpoint did not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Position of the event in the request.
    pub position: u32,
    /// The judgement of the event.
    pub judgement: Judgement,
    /// The reason.
    pub reason: String,
}

/// The judgement of an event that the endpoint did not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The endpoint is overloaded. The event is resent.
    Later,
    /// An operator must change something first. The event is resent at long intervals.
    Blocked,
    /// The endpoint will never accept the event.
    Refused,
}

/// Sends payloads as requests, several at once and in any order, until each event is delivered or
/// rejected.
pub struct BulkLane<P> {
    state: LaneState<P, Packed>,
    queue: Queue,
    repairs: VecDeque<Repair>,
    concurrency: Concurrency,
}

impl<P: BulkPacker> BulkLane<P> {
    /// Creates a lane with a packer, and at most `settings.request.concurrency` requests in flight.
    pub fn new(settings: Arc<Settings>, packer: P, cx: LaneCx) -> BulkLane<P> {
        BulkLane {
            concurrency: Concurrency::new(settings.request.concurrency),
            state: LaneState::new(settings, packer, cx),
            queue: Queue::default(),
            repairs: VecDeque::new(),
        }
    }

    /// Hands the next repair to the packer, if the packer is idle.
    fn repair(&mut self) {
        if self.state.pack_task.idle().is_none() {
            return;
        }
        let Some(repair) = self.repairs.pop_front() else { return };
        let is_read = self.state.feed.keeps_refused();
        self.state.pack_task.begin(move |packer| jobs::repair(packer, repair, is_read));
    }

    /// Passes the next batch to the packer, if the batch is due, no other request waits to be sent,
    /// and the number of unsettled batches is below its limit. Returns the time when the batch is
    /// due if it must wait.
    fn pack(&mut self, now: Instant) -> Option<Instant> {
        let batches_max = self.state.settings.request.concurrency * BATCHES_PER_REQUEST;
        let is_busy = self.state.pack_task.idle().is_none() || self.queue.has_ready(now);
        let is_free = !is_busy && self.state.dispatcher.in_flight() < self.concurrency.limit();
        let stalled = self.state.stall.since(is_free && !self.state.batcher.is_empty(), now);
        if is_busy || self.queue.batches() >= batches_max {
            return None;
        }
        let due = self.state.batcher.due(stalled)?;
        if due > now {
            return Some(due);
        }
        let payloads = self.state.batcher.take(now, P::cut);
        let number = self.queue.open(&payloads);
        self.state.pack_task.begin(move |packer| jobs::pack(packer, payloads, number));
        None
    }

    /// Sends the requests that may be sent now. Returns the time to retry if the rate limit or the
    /// health of the endpoints prevents this.
    fn send(&mut self, now: Instant) -> Option<Instant> {
        while self.queue.has_ready(now)
            && self.state.dispatcher.in_flight() < self.concurrency.limit()
        {
            let sent = self.queue.send(now, |queued, number| {
                let answer = || Some(P::answer(&queued.request));
                self.state.dispatcher.send(&queued.request, &queued.id, number, answer, now)
            });
            if let Err(until) = sent {
                return Some(until);
            }
        }
        None
    }

    /// Requeues a request, and marks its endpoint as failed unless the endpoint has failed since
    /// the request was sent. Returns the error for the engine, which does not wait because other
    /// requests are in flight.
    fn failed(&mut self, ended: EndedAttempt, why: Why, pause: Pause) -> DeliverError {
        let EndedAttempt { queued, endpoint, started, now } = ended;
        self.queue.put_back(queued);
        if !self.state.dispatcher.has_failed_since(endpoint, started) {
            let pause = self.state.dispatcher.mark_failed(endpoint, pause, now);
            self.state.counters.waited("retry", pause);
        }
        self.error(endpoint, why.kind, &why.text)
    }

    fn error(&self, endpoint: usize, kind: &'static str, text: &str) -> DeliverError {
        let message = format!("{}: {text}", self.state.settings.targets[endpoint]);
        DeliverError { retry_after: Some(Duration::ZERO), ..DeliverError::retry(kind, message) }
    }

    /// Handles a response with a success status. Only a complete response counts.
    fn answered(
        &mut self,
        ended: EndedAttempt,
        response: &Response,
        answer: Option<Box<dyn Answer>>,
    ) -> Result<(), DeliverError> {
        let judged = match answer {
            Some(answer) => answer.judge(response.is_complete),
            None => Err(UnusableAnswer::ended_early()),
        };
        let failures = match judged {
            Ok(failures) => failures,
            Err(unusable) => return Err(self.unusable(ended, unusable)),
        };
        if !self.state.dispatcher.has_failed_since(ended.endpoint, ended.started) {
            self.state.dispatcher.mark_healthy(ended.endpoint);
        }
        self.state.batcher.grow(ended.now);
        self.state.counters.accepted(ended.queued.events().saturating_sub(failures.len() as u64));
        let error = self.note(&ended, &failures);
        let EndedAttempt { queued, now, .. } = ended;
        let pauses =
            Pauses { now, blocked_until: now + self.state.slow_retry(), random: fastrand::u32(..) };
        let is_read = self.state.feed.keeps_refused();
        self.repairs.extend(self.queue.judged(queued, failures, is_read, pauses));
        error
    }

    /// Requeues a request whose response does not count. If the response was too long, the request
    /// is resent only rarely, because the endpoint may have accepted the events and would only
    /// repeat the response.
    fn unusable(&mut self, ended: EndedAttempt, unusable: UnusableAnswer) -> DeliverError {
        self.concurrency.overloaded(ended.started, ended.now);
        let (kind, pause) = match unusable.is_too_long {
            true => ("answer_too_long", Pause::Fixed(self.state.slow_retry())),
            false => ("incomplete_answer", Pause::Backoff),
        };
        self.failed(ended, Why { kind, text: unusable.text }, pause)
    }

    /// Counts the failures in a response, and adapts to them. Returns the error for the engine if
    /// events are resent.
    fn note(&mut self, ended: &EndedAttempt, failures: &[Failure]) -> Result<(), DeliverError> {
        let judged = |judgement| failures.iter().filter(move |item| item.judgement == judgement);
        let events = ended.queued.events();
        if let Some(first) = judged(Judgement::Refused).next() {
            let count = judged(Judgement::Refused).count() as u64;
            let is_read = self.state.feed.keeps_refused();
            self.state.counters.error("refused");
            if !is_read {
                self.state.counters.dropped("refused", count);
            }
            let text = refused_text(count, is_read);
            self.state.warn_refusal(ended.endpoint, &text, &first.reason, ended.now);
        }
        if judged(Judgement::Later).next().is_some() {
            self.concurrency.overloaded(ended.started, ended.now);
        } else {
            let is_large = events >= self.state.settings.batch.events / 2
                || self.queue.bytes(&ended.queued) >= self.state.batcher.limit() / 2;
            self.concurrency.responded(ended.now - ended.started, is_large);
        }
        let again = [(Judgement::Blocked, "blocked"), (Judgement::Later, "throttled")];
        for (judgement, kind) in again {
            if let Some(first) = judged(judgement).next() {
                let count = judged(judgement).count();
                let text = format!("{count} of {events} events are resent: {}", first.reason);
                return Err(self.error(ended.endpoint, kind, &text));
            }
        }
        Ok(())
    }

    /// Handles a whole request that the endpoint rejected because of the content or size.
    fn on_refusal(&mut self, ended: EndedAttempt, response: &Response, too_large: bool) {
        let EndedAttempt { queued, endpoint, now, .. } = ended;
        self.state.dispatcher.mark_healthy(endpoint);
        self.state.counters.error("refused");
        if too_large {
            self.state.batcher.shrink(self.queue.bytes(&queued), now);
        }
        let text = refusal(queued.events(), self.state.feed.keeps_refused());
        self.state.warn_refusal(endpoint, &text, &explain(response), now);
        self.repairs.push_back(queued.repair(Action::Split(reason(response))));
    }
}

/// Why a request failed.
struct Why {
    /// The kind under which the failure is counted.
    kind: &'static str,
    text: String,
}

/// A request whose attempt has ended, with the endpoint and the times of the attempt.
struct EndedAttempt {
    queued: QueuedRequest,
    endpoint: usize,
    started: Instant,
    now: Instant,
}

/// Describes the outcome of events that were rejected individually.
fn refused_text(events: u64, is_read: bool) -> String {
    let end = match is_read {
        true => "passed on to the output `rejected`",
        false => "dropped and counted as `refused`",
    };
    match events {
        1 => format!("the endpoint rejected an event; it is {end}"),
        _ => format!("the endpoint rejected {events} events; they are {end}"),
    }
}

impl<P: BulkPacker> RequestFlow for BulkLane<P> {
    type Packer = P;
    type Packed = Packed;

    fn state(&self) -> &LaneState<P, Packed> {
        &self.state
    }

    fn state_mut(&mut self) -> &mut LaneState<P, Packed> {
        &mut self.state
    }

    fn advance(&mut self, now: Instant) -> Option<Instant> {
        self.queue.settle(&mut self.state.done);
        self.repair();
        // A batch is packed only when no other batch waits to be sent.
        let sent = self.send(now);
        let packed = self.pack(now);
        [packed, sent, self.queue.next_at(now)].into_iter().flatten().min()
    }

    fn on_packed(&mut self, packed: Packed, _: Instant) -> Result<(), DeliverError> {
        match packed {
            Packed::Batch(number, requests, refused) => {
                let refused = self.queue.packed(number, requests, refused, &mut self.state.ids);
                self.state.refused.extend(refused);
            }
            Packed::Repaired { repaired, requests, refused, dropped } => {
                self.state.counters.dropped("refused", dropped);
                for refused in refused {
                    self.state.refused.extend(self.queue.refused(repaired.batch, refused));
                }
                self.queue.repaired(repaired, requests, &mut self.state.ids);
            }
        }
        Ok(())
    }

    fn on_response(&mut self, attempt: Attempt, now: Instant) -> Result<(), DeliverError> {
        let Some(queued) = self.queue.take(attempt.number) else { return Ok(()) };
        let Attempt { endpoint, started, result, answer, .. } = attempt;
        let ended = EndedAttempt { queued, endpoint, started, now };
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                self.concurrency.overloaded(started, now);
                let why = Why { kind: error.kind, text: error.message };
                return Err(self.failed(ended, why, Pause::Backoff));
            }
        };
        let why = || Why { kind: kind(response.status), text: explain(&response) };
        match response_class(&response, SystemTime::now()) {
            ResponseClass::Delivered => self.answered(ended, &response, answer),
            ResponseClass::Later(wait) => {
                self.concurrency.overloaded(started, now);
                let failed = self.failed(ended, why(), wait);
                Err(failed.with_status(response.status))
            }
            ResponseClass::Misconfigured | ResponseClass::UnsupportedFormat => {
                let pause = Pause::Fixed(self.state.slow_retry());
                let failed = self.failed(ended, why(), pause);
                Err(failed.with_status(response.status))
            }
            ResponseClass::Refused { too_large } => {
                if let Some(advice) = P::unreadable(&ended.queued.request, &response.body) {
                    let pause = Pause::Fixed(self.state.slow_retry());
                    let mut why = why();
                    why.text.push_str(&format!("; {advice}"));
                    return Err(self.failed(ended, why, pause));
                }
                self.on_refusal(ended, &response, too_large);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
