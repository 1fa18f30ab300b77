//! The open requests of an unordered lane. The queue determines the next request to send, and when
//! each batch ends. Its behavior depends only on the times passed in.

use super::{Failure, Judgement};
use crate::sinks::http_delivery::dispatcher::RequestIds;
use crate::sinks::http_delivery::shares::{Numbering, Settlement, Shares};
use crate::sinks::http_delivery::{EncodedPayload, EventSet, RefusedEvent, Request};
use millstream_model::{Backoff, Refused, Settled};
use std::collections::{HashMap, VecDeque};
use tokio::time::Instant;

/// The unsettled batches of a lane, and their open requests.
#[derive(Default)]
pub struct Queue {
    /// Batches that are not settled, oldest first.
    batches: VecDeque<OpenBatch>,
    /// Number of the oldest batch.
    first: u64,
    numbering: Numbering,
    settlement: Settlement,
    /// Requests that wait to be sent or for their pause to end.
    waiting: VecDeque<QueuedRequest>,
    in_flight: HashMap<u64, QueuedRequest>,
    /// Number of the last request that was sent.
    last: u64,
}

/// A batch that is not settled.
struct OpenBatch {
    shares: Shares,
    /// Number of events, and number of bytes before compression.
    size: (u64, u64),
    /// Number of requests and repairs that have not ended; `None` while the batch is being packed.
    open: Option<usize>,
}

/// A request and its history.
pub struct QueuedRequest {
    /// Id in a header, the same for each attempt.
    pub id: String,
    /// Batch number.
    batch: u64,
    /// The request.
    pub request: Request,
    /// Backoff of the request, which the requests that replace it inherit.
    backoff: Backoff,
    /// End of the current pause.
    not_before: Option<Instant>,
}

/// Work for the packer on some events of a request.
pub struct Repair {
    /// Batch number.
    pub batch: u64,
    /// The request that the endpoint did not accept as a whole.
    pub request: Request,
    /// The work to do.
    pub action: Action,
    backoff: Backoff,
}

/// The work of a repair.
pub enum Action {
    /// Splits the request. Its content or size was rejected for this reason.
    Split(String),
    /// Resends some events after a pause, and passes on rejected ones.
    Divide(Division),
}

/// The events of a request that the endpoint did not accept, by position.
pub struct Division {
    /// Events to resend, with the end of their pause.
    pub again: Vec<(Vec<u32>, Instant)>,
    /// Rejected events with the reason, if a component reads them.
    pub refused: Vec<(u32, String)>,
}

/// The pauses before events are resent.
#[derive(Clone, Copy)]
pub struct Pauses {
    /// Current time.
    pub now: Instant,
    /// When the pause ends for events that need a change by an operator.
    pub blocked_until: Instant,
    /// Random number that determines the jitter of the other pauses.
    pub random: u32,
}

impl Queue {
    /// Returns the number of unsettled batches.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Opens a batch of these payloads, which must be packed next. Returns the batch number.
    pub fn open(&mut self, payloads: &[EncodedPayload]) -> u64 {
        let events = payloads.iter().map(|payload| payload.events).sum();
        let bytes = payloads.iter().map(|payload| payload.bytes).sum();
        let shares = self.numbering.shares(payloads);
        self.batches.push_back(OpenBatch { shares, size: (events, bytes), open: None });
        self.first + self.batches.len() as u64 - 1
    }

    fn batch(&mut self, number: u64) -> Option<&mut OpenBatch> {
        self.batches.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// Queues the requests of a packed batch. Returns the events that the packer rejected.
    pub fn packed(
        &mut self,
        number: u64,
        requests: Vec<Request>,
        refused: Vec<RefusedEvent>,
        ids: &mut RequestIds,
    ) -> Vec<Refused> {
        let count = requests.len();
        for request in requests {
            let backoff = Backoff::default();
            let id = ids.next();
            let queued = QueuedRequest { id, batch: number, request, backoff, not_before: None };
            self.waiting.push_back(queued);
        }
        let Some(batch) = self.batch(number) else { return Vec::new() };
        batch.open = Some(count);
        refused.into_iter().filter_map(|refused| batch.shares.refused(refused)).collect()
    }

    /// Returns whether a waiting request could be sent now.
    pub fn has_ready(&self, now: Instant) -> bool {
        self.waiting.iter().any(|queued| queued.is_ready(now))
    }

    /// Returns the time when the next pause of a request ends.
    pub fn next_at(&self, now: Instant) -> Option<Instant> {
        self.waiting.iter().filter_map(|queued| queued.not_before.filter(|at| *at > now)).min()
    }

    /// Passes the oldest request that could be sent to `send`, with its number. If `send` succeeds,
    /// the request is in flight.
    ///
    /// # Errors
    ///
    /// Returns the error from `send`.
    pub fn send<E>(
        &mut self,
        now: Instant,
        send: impl FnOnce(&QueuedRequest, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(index) = self.waiting.iter().position(|queued| queued.is_ready(now)) else {
            return Ok(());
        };
        send(&self.waiting[index], self.last + 1)?;
        if let Some(queued) = self.waiting.remove(index) {
            self.last += 1;
            self.in_flight.insert(self.last, queued);
        }
        Ok(())
    }

    /// Returns the approximate size of a request in bytes before compression: its share of the
    /// batch.
    pub fn bytes(&mut self, queued: &QueuedRequest) -> u64 {
        let (events, bytes) = self.batch(queued.batch).map_or((0, 0), |batch| batch.size);
        bytes * queued.events() / events.max(1)
    }

    /// Removes a request that is no longer in flight.
    pub fn take(&mut self, number: u64) -> Option<QueuedRequest> {
        self.in_flight.remove(&number)
    }

    /// Requeues a request ahead of all other requests.
    pub fn put_back(&mut self, queued: QueuedRequest) {
        self.waiting.push_front(queued);
    }

    /// Ends a request that the endpoint accepted, except for the `failures`. Returns the remaining
    /// work. Rejected events are dropped unless a component reads them (`is_read`).
    pub fn judged(
        &mut self,
        mut queued: QueuedRequest,
        failures: Vec<Failure>,
        is_read: bool,
        pauses: Pauses,
    ) -> Option<Repair> {
        self.deliver(queued.batch, &queued.request.events, &failures);
        let (mut later, mut blocked, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for Failure { position, judgement, reason } in failures {
            match judgement {
                Judgement::Later => later.push(position),
                Judgement::Blocked => blocked.push(position),
                Judgement::Refused if is_read => refused.push((position, reason)),
                Judgement::Refused => {}
            }
        }
        let mut again = Vec::new();
        if !later.is_empty() {
            again.push((later, pauses.now + queued.backoff.next(pauses.random)));
        }
        if !blocked.is_empty() {
            again.push((blocked, pauses.blocked_until));
        }
        if again.is_empty() && refused.is_empty() {
            self.close(queued.batch);
            return None;
        }
        Some(queued.repair(Action::Divide(Division { again, refused })))
    }

    /// Records that the endpoint accepted the events of a request, except for the failures.
    fn deliver(&mut self, number: u64, events: &EventSet, failures: &[Failure]) {
        let Some(batch) = self.batch(number) else { return };
        if failures.is_empty() {
            return batch.shares.deliver(events);
        }
        let mut failed = failures.iter().map(|failure| failure.position).peekable();
        let mut delivered = EventSet::default();
        for (position, event) in (0..).zip(events.iter()) {
            if failed.next_if_eq(&position).is_none() {
                delivered.push(event);
            }
        }
        batch.shares.deliver(&delivered);
    }

    /// Replaces a repaired request with other requests, each with the end of its pause.
    pub fn repaired(
        &mut self,
        repair: Repaired,
        requests: Vec<(Request, Option<Instant>)>,
        ids: &mut RequestIds,
    ) {
        let Repaired { batch: number, backoff } = repair;
        if let Some(open) = self.batch(number).and_then(|batch| batch.open.as_mut()) {
            *open += requests.len();
        }
        for (request, not_before) in requests.into_iter().rev() {
            let (id, backoff) = (ids.next(), backoff.clone());
            let queued = QueuedRequest { id, batch: number, request, backoff, not_before };
            self.waiting.push_front(queued);
        }
        self.close(number);
    }

    /// Returns a rejected event in the form that the engine expects.
    pub fn refused(&mut self, batch: u64, refused: RefusedEvent) -> Option<Refused> {
        self.batch(batch)?.shares.refused(refused)
    }

    /// Records that one request or repair of a batch has ended.
    fn close(&mut self, number: u64) {
        if let Some(open) = self.batch(number).and_then(|batch| batch.open.as_mut()) {
            *open -= 1;
        }
    }

    /// Settles the oldest batches that are done.
    pub fn settle(&mut self, done: &mut Vec<Settled>) {
        while self.batches.front().is_some_and(|batch| batch.open == Some(0)) {
            let Some(batch) = self.batches.pop_front() else { return };
            self.first += 1;
            self.settlement.end(batch.shares, done);
        }
    }
}

/// A repair that is done.
pub struct Repaired {
    /// Batch number.
    pub batch: u64,
    backoff: Backoff,
}

impl Repair {
    /// Returns the request and the action for the packer, and the rest of the repair.
    pub fn begin(self) -> (Request, Action, Repaired) {
        (self.request, self.action, Repaired { batch: self.batch, backoff: self.backoff })
    }
}

impl QueuedRequest {
    fn is_ready(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|not_before| not_before <= now)
    }

    /// Turns the request into a repair.
    pub fn repair(self, action: Action) -> Repair {
        let QueuedRequest { batch, request, backoff, .. } = self;
        Repair { batch, request, action, backoff }
    }

    /// Returns the number of events.
    pub fn events(&self) -> u64 {
        self.request.events.len()
    }
}

#[cfg(test)]
mod tests;
