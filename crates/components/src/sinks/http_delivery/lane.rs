//! The lane of a request-based sink: batches payloads, packs requests, sends them in order, and
//! settles payloads oldest first.
//!
//! One batch is in flight while the next is packed. A request stays at the head of the queue until
//! it is delivered or permanently rejected, which preserves the order.

use super::dispatcher::{Attempt, RequestIds};
use super::lane_loop::{LaneState, RequestFlow};
use super::pack_task::{Job, JobResult, run};
use super::response_class::{ResponseClass, explain, kind, reason, refusal, response_class};
use super::shares::{Numbering, Settlement, Shares};
use super::{EventSet, Packer, Record, Refusal, RefusedEvent, Request, Settings};
use millstream_model::{DeliverError, LaneCx};
use millstream_transport::http::Response;
use millstream_transport::{HeaderMap, Pause};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::time::Instant;

/// Maximum number of batches that are packed or being packed: one in flight, and the next.
const BATCHES_MAX: usize = 2;

/// Sends payloads as requests, in order, and retries each until it is delivered or permanently
/// rejected.
pub struct RequestLane<P> {
    state: LaneState<P, JobResult>,
    batches: VecDeque<Batch>,
    numbering: Numbering,
    settlement: Settlement,
    /// Headers of responses that the packer has not seen yet.
    responses: Vec<HeaderMap>,
}

/// Payloads, and pieces of payloads, that are packed together.
struct Batch {
    shares: Shares,
    bytes: u64,
    /// Requests still to be sent; `None` while the batch is being packed.
    requests: Option<VecDeque<QueuedRequest>>,
    /// The repair of the first request, which has left the queue.
    repair: Option<Repair>,
}

/// A request and its id, which stays the same across retries.
struct QueuedRequest {
    id: String,
    request: Request,
    /// Whether an attempt ended without a response from the endpoint, so that the request may have
    /// been accepted.
    in_doubt: bool,
}

impl QueuedRequest {
    fn new(ids: &mut RequestIds, request: Request, in_doubt: bool) -> QueuedRequest {
        QueuedRequest { id: ids.next(), request, in_doubt }
    }
}

/// The work of the packer on a request that the endpoint rejected.
enum Repair {
    /// The repair waits for the packer.
    Waiting(QueuedRequest, Cause),
    /// The repair runs on the packer.
    Running { id: String, events: EventSet, in_doubt: bool, cause: Cause },
}

/// The reason for a repair.
enum Cause {
    /// The content was rejected, so the request is split. `is_read` says whether a component reads
    /// rejected events.
    Content { refusal: Refusal, is_read: bool },
    /// The format was rejected by this endpoint with this response, so the request is converted.
    Format { endpoint: usize, text: String },
}

impl<P: Packer> RequestLane<P> {
    /// Creates a lane with a packer.
    pub fn new(settings: Arc<Settings>, packer: P, cx: LaneCx) -> RequestLane<P> {
        RequestLane {
            state: LaneState::new(settings, packer, cx),
            batches: VecDeque::new(),
            numbering: Numbering::default(),
            settlement: Settlement::default(),
            responses: Vec::new(),
        }
    }

    /// Settles batches that have no requests left.
    fn settle(&mut self) {
        let is_done = |batch: &Batch| {
            batch.repair.is_none()
                && batch.requests.as_ref().is_some_and(|requests| requests.is_empty())
        };
        while self.batches.front().is_some_and(is_done) {
            let Some(batch) = self.batches.pop_front() else { return };
            self.settlement.end(batch.shares, &mut self.state.done);
        }
    }

    /// If the packer is idle, passes it the headers of successful responses, and then the rejected
    /// request, if there is one.
    fn repair(&mut self) {
        let Some(packer) = self.state.pack_task.idle() else { return };
        for headers in self.responses.drain(..) {
            packer.on_success(&|name| headers.get(name)?.to_str().ok().map(str::to_owned));
        }
        let Some(batch) = self.batches.front_mut() else { return };
        let (queued, cause) = match batch.repair.take() {
            Some(Repair::Waiting(queued, cause)) => (queued, cause),
            other => return batch.repair = other,
        };
        let QueuedRequest { id, request, in_doubt } = queued;
        let events = request.events.clone();
        let job = match &cause {
            Cause::Content { refusal, is_read } => Job::Split(request, refusal.clone(), *is_read),
            Cause::Format { .. } => Job::Convert(request),
        };
        batch.repair = Some(Repair::Running { id, events, in_doubt, cause });
        self.state.pack_task.begin(|packer| run(packer, job));
    }

    /// Passes the next batch to the packer, if the batch is due and the queue has capacity.
    fn pack(&mut self, now: Instant) -> Option<Instant> {
        let waits_for_more = self.batches.is_empty() && !self.state.batcher.is_empty();
        let stalled = self.state.stall.since(waits_for_more, now);
        if self.state.pack_task.idle().is_none() || self.batches.len() >= BATCHES_MAX {
            return None;
        }
        let due = self.state.batcher.due(stalled)?;
        if due > now {
            return Some(due);
        }
        let payloads = self.state.batcher.take(now, P::cut);
        self.batches.push_back(Batch {
            shares: self.numbering.shares(&payloads),
            bytes: payloads.iter().map(|payload| payload.bytes).sum(),
            requests: None,
            repair: None,
        });
        self.state.pack_task.begin(|packer| run(packer, Job::Pack(payloads)));
        None
    }

    /// Sends the oldest request, if no request is in flight.
    fn send(&mut self, now: Instant) -> Option<Instant> {
        let batch = self.batches.front().filter(|batch| batch.repair.is_none())?;
        let queued = batch.requests.as_ref()?.front()?;
        if self.state.dispatcher.in_flight() > 0 {
            return None;
        }
        self.state.dispatcher.send(&queued.request, &queued.id, 0, || None, now).err()
    }

    fn packed(&mut self, requests: Vec<Request>, refused: Vec<RefusedEvent>) {
        let Some(batch) = self.batches.back_mut() else { return };
        let refused = refused.into_iter().filter_map(|refused| batch.shares.refused(refused));
        self.state.refused.extend(refused);
        let queued = requests
            .into_iter()
            .map(|request| QueuedRequest::new(&mut self.state.ids, request, false));
        batch.requests = Some(queued.collect());
    }

    /// Replaces a rejected request with smaller requests.
    fn split(&mut self, smaller: Vec<Request>, refused: Vec<RefusedEvent>) {
        let Some(batch) = self.batches.front_mut() else { return };
        let Some(Repair::Running { in_doubt, .. }) = batch.repair.take() else { return };
        let refused = refused.into_iter().filter_map(|refused| batch.shares.refused(refused));
        self.state.refused.extend(refused);
        let Some(requests) = &mut batch.requests else { return };
        let queued = smaller
            .into_iter()
            .rev()
            .map(|request| QueuedRequest::new(&mut self.state.ids, request, in_doubt));
        queued.for_each(|queued| requests.push_front(queued));
    }

    /// Ends a rejected request that cannot be split. Passes its event on if a component reads
    /// rejected events, otherwise drops it.
    fn refuse(&mut self, record: Record) {
        let Some(batch) = self.batches.front_mut() else { return };
        let Some(Repair::Running { events, cause, .. }) = batch.repair.take() else { return };
        let Cause::Content { refusal: Refusal { reason, is_duplicate }, is_read } = cause else {
            return;
        };
        if is_duplicate {
            self.state.counters.noted("refused_as_duplicate", events.len());
            return batch.shares.deliver(&events);
        }
        if !is_read {
            return self.state.counters.dropped("refused", events.len());
        }
        let refused = |event| {
            let reason = reason.clone().into();
            batch.shares.refused(RefusedEvent { event, reason, record: record.clone() })
        };
        self.state.refused.extend(events.iter().filter_map(refused));
    }

    /// Replaces a request with its converted form. If there is none, the original is retried
    /// slowly.
    fn converted(
        &mut self,
        request: Request,
        other: bool,
        now: Instant,
    ) -> Result<(), DeliverError> {
        let Some(batch) = self.batches.front_mut() else { return Ok(()) };
        let Some(Repair::Running { id, in_doubt, cause, .. }) = batch.repair.take() else {
            return Ok(());
        };
        if let Some(requests) = &mut batch.requests {
            requests.push_front(QueuedRequest { id, request, in_doubt });
        }
        match cause {
            Cause::Format { endpoint, text } if !other => {
                let pause = Pause::Fixed(self.state.slow_retry());
                Err(self.failed(endpoint, "refused", &text, pause, now))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the first request is a probe: it has no events and only its response
    /// matters.
    fn is_probe(&self) -> bool {
        let requests = self.batches.front().and_then(|batch| batch.requests.as_ref());
        requests.and_then(VecDeque::front).is_some_and(|first| first.request.events.is_empty())
    }

    /// Drops a probe that the endpoint does not support.
    fn drop_probe(&mut self, endpoint: usize) {
        self.state.dispatcher.mark_healthy(endpoint);
        if let Some(requests) = self.batches.front_mut().and_then(|batch| batch.requests.as_mut()) {
            requests.pop_front();
        }
    }

    fn delivered(&mut self, endpoint: usize, response: Response, now: Instant) {
        self.state.dispatcher.mark_healthy(endpoint);
        self.state.batcher.grow(now);
        self.responses.push(response.headers);
        let Some(batch) = self.batches.front_mut() else { return };
        let Some(queued) = batch.requests.as_mut().and_then(VecDeque::pop_front) else { return };
        self.state.counters.accepted(queued.request.events.len());
        batch.shares.deliver(&queued.request.events);
    }

    /// Marks the first request as possibly accepted. A proxy may have sent the response although
    /// the endpoint has accepted the request.
    fn mark_in_doubt(&mut self) {
        let first = self.batches.front_mut().and_then(|batch| batch.requests.as_mut()?.front_mut());
        first.into_iter().for_each(|queued| queued.in_doubt = true);
    }

    /// Builds the error for the engine, with the time until the next attempt.
    fn failed(
        &mut self,
        endpoint: usize,
        kind: &'static str,
        text: &str,
        pause: Pause,
        now: Instant,
    ) -> DeliverError {
        let wait = self.state.dispatcher.mark_failed(endpoint, pause, now);
        let message = format!("{}: {text}", self.state.settings.targets[endpoint]);
        DeliverError { retry_after: Some(wait), ..DeliverError::retry(kind, message) }
    }

    fn on_refusal(&mut self, endpoint: usize, response: &Response, too_large: bool, now: Instant) {
        self.state.dispatcher.mark_healthy(endpoint);
        self.state.counters.error("refused");
        let is_read = self.state.feed.keeps_refused();
        let Some(batch) = self.batches.front_mut() else { return };
        let Some(queued) = batch.requests.as_mut().and_then(VecDeque::pop_front) else { return };
        if too_large {
            self.state.batcher.shrink(batch.bytes, now);
        }
        let text = refusal(queued.request.events.len(), is_read);
        self.state.warn_refusal(endpoint, &text, &explain(response), now);
        let is_duplicate = queued.in_doubt && P::is_duplicate(&response.body);
        let refusal = Refusal { reason: reason(response), is_duplicate };
        let cause = Cause::Content { refusal, is_read };
        batch.repair = Some(Repair::Waiting(queued, cause));
    }

    fn unsupported_format(&mut self, endpoint: usize, text: String) {
        let Some(batch) = self.batches.front_mut() else { return };
        let Some(queued) = batch.requests.as_mut().and_then(VecDeque::pop_front) else { return };
        batch.repair = Some(Repair::Waiting(queued, Cause::Format { endpoint, text }));
    }
}

/// Returns whether any request would currently get this status, including success.
fn is_general(status: u16) -> bool {
    matches!(status, 200..=299 | 401 | 403 | 404 | 407 | 408 | 429 | 502..=504)
}

impl<P: Packer> RequestFlow for RequestLane<P> {
    type Packer = P;
    type Packed = JobResult;

    fn state(&self) -> &LaneState<P, JobResult> {
        &self.state
    }

    fn state_mut(&mut self) -> &mut LaneState<P, JobResult> {
        &mut self.state
    }

    fn advance(&mut self, now: Instant) -> Option<Instant> {
        self.settle();
        self.repair();
        let packed = self.pack(now);
        let sent = self.send(now);
        [packed, sent].into_iter().flatten().min()
    }

    fn on_packed(&mut self, packed: JobResult, now: Instant) -> Result<(), DeliverError> {
        match packed {
            JobResult::Packed(requests, refused) => self.packed(requests, refused),
            JobResult::Split(smaller, refused) => self.split(smaller, refused),
            JobResult::Single(record) => self.refuse(record),
            JobResult::Converted(request, other) => return self.converted(request, other, now),
        }
        Ok(())
    }

    fn on_response(&mut self, attempt: Attempt, now: Instant) -> Result<(), DeliverError> {
        let Attempt { endpoint, result, .. } = attempt;
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                self.mark_in_doubt();
                return Err(self.failed(endpoint, error.kind, &error.message, Pause::Backoff, now));
            }
        };
        if self.is_probe() && !is_general(response.status) {
            self.drop_probe(endpoint);
            return Ok(());
        }
        let (kind, text) = (kind(response.status), || explain(&response));
        match response_class(&response, SystemTime::now()) {
            ResponseClass::Delivered => self.delivered(endpoint, response, now),
            ResponseClass::Later(wait) => {
                if response.status != 429 {
                    self.mark_in_doubt();
                }
                let failed = self.failed(endpoint, kind, &text(), wait, now);
                return Err(failed.with_status(response.status));
            }
            ResponseClass::Misconfigured => {
                let pause = Pause::Fixed(self.state.slow_retry());
                let failed = self.failed(endpoint, kind, &text(), pause, now);
                return Err(failed.with_status(response.status));
            }
            ResponseClass::Refused { too_large } => {
                self.on_refusal(endpoint, &response, too_large, now)
            }
            ResponseClass::UnsupportedFormat => self.unsupported_format(endpoint, text()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
