//! The lane of a request-based sink: batches payloads, packs requests, sends them in order, and
//! settles payloads oldest first.
//!
//! One batch is in flight while the next is packed. A request stays first in line until it is
//! delivered or refused for good, so order holds.

use super::batcher::Batcher;
use super::dispatcher::{Attempt, Dispatcher};
use super::pack_task::{Job, Made, PackTask};
use super::response_class::{ResponseClass, explain, kind, refusal, response_class};
use super::{EncodedPayload, Packer, PayloadMetadata, Request, Settings};
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Lane, LaneCx, Now, Outcome, Payload, Settled,
};
use millstream_transport::http::Answer;
use millstream_transport::{HeaderMap, Pause};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep_until};

/// Batches that are packed or being packed: one on its way, and the next.
const BATCHES_MAX: usize = 2;

/// How often refused events are shown in the log.
const SAY_AGAIN: Duration = Duration::from_secs(30);

/// Sends payloads as requests, in order, and retries each until it is delivered or refused for
/// good.
pub struct RequestLane<P> {
    settings: Arc<Settings>,
    /// Name of the sink.
    sink: Arc<str>,
    counters: Arc<Counters>,
    batcher: Batcher,
    pack_task: PackTask<P>,
    batches: VecDeque<Batch>,
    /// Refused events of the oldest payload that were in batches before.
    refused_before: u64,
    dispatcher: Dispatcher,
    ids: Ids,
    done: Vec<Settled>,
    /// Headers of answers that the packer has not seen.
    answers: Vec<HeaderMap>,
    said: Option<Instant>,
}

/// Payloads, and pieces of them, that are packed together.
struct Batch {
    /// The payloads, or pieces of them.
    shares: Vec<Share>,
    bytes: u64,
    /// What is left to be sent; `None` while it is packed.
    requests: Option<VecDeque<Numbered>>,
    /// The first request was refused, or is not known in this form: what the packer makes of it
    /// comes in its place.
    repair: Option<Repair>,
    /// Events that were dropped and counted.
    refused: u64,
}

/// What a batch has of one payload.
struct Share {
    events: u64,
    /// Another piece of the payload follows in a later batch, which settles it.
    continues: bool,
}

/// A request with the id that it keeps however often it is sent.
struct Numbered {
    id: String,
    request: Request,
    /// An attempt ended without the endpoint's word: it may have taken the request.
    in_doubt: bool,
}

enum Repair {
    /// To be given to the packer. The endpoint may have the events already, and says so.
    Split(Numbered, bool),
    Convert(Numbered, Complaint),
    /// With the packer.
    AtWork {
        id: String,
        events: u64,
        in_doubt: bool,
        is_there: bool,
        complaint: Option<Complaint>,
    },
}

/// What an endpoint said about the form of a request.
struct Complaint {
    endpoint: usize,
    text: String,
}

/// Ids of requests: unlike any other, also after a restart.
struct Ids {
    run: u64,
    last: u64,
}

impl Ids {
    fn new() -> Ids {
        Ids { run: fastrand::u64(..), last: 0 }
    }

    fn number(&mut self, request: Request, in_doubt: bool) -> Numbered {
        self.last += 1;
        Numbered { id: format!("{:016x}-{}", self.run, self.last), request, in_doubt }
    }
}

impl Share {
    fn of(taken: &EncodedPayload) -> Share {
        Share { events: taken.events, continues: taken.continues }
    }
}

impl<P: Packer> RequestLane<P> {
    /// A lane with a packer of its own.
    pub fn new(settings: Arc<Settings>, packer: P, cx: LaneCx) -> RequestLane<P> {
        RequestLane {
            batcher: Batcher::new(settings.batch),
            pack_task: PackTask::new(packer),
            batches: VecDeque::new(),
            refused_before: 0,
            dispatcher: Dispatcher::new(settings.clone(), cx.lane),
            ids: Ids::new(),
            done: Vec::new(),
            answers: Vec::new(),
            said: None,
            sink: cx.sink,
            counters: cx.counters,
            settings,
        }
    }

    /// Does everything that can be done without waiting. When there is more to do, if time alone
    /// brings it.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        self.settle();
        self.repair();
        let packed = self.pack(now);
        let sent = self.send(now);
        [packed, sent].into_iter().flatten().min()
    }

    /// Settles the batches of which nothing is left.
    fn settle(&mut self) {
        let is_done = |batch: &Batch| {
            batch.repair.is_none()
                && batch.requests.as_ref().is_some_and(|requests| requests.is_empty())
        };
        while self.batches.front().is_some_and(is_done) {
            let Some(mut batch) = self.batches.pop_front() else { return };
            for share in batch.shares {
                // Which payload a refused event came from is not known: in sum it is right.
                let of_share = batch.refused.min(share.events);
                batch.refused -= of_share;
                self.refused_before += of_share;
                if share.continues {
                    continue;
                }
                let refused = std::mem::take(&mut self.refused_before);
                let outcome = if refused > 0 { Outcome::Rejected } else { Outcome::Delivered };
                self.done.push(Settled { outcome, refused });
            }
        }
    }

    /// Gives the packer a request that was refused, if it has nothing else to do.
    fn repair(&mut self) {
        let Some(packer) = self.pack_task.idle() else { return };
        for headers in self.answers.drain(..) {
            packer.answered(&|name| headers.get(name)?.to_str().ok().map(str::to_owned));
        }
        let Some(batch) = self.batches.front_mut() else { return };
        let (numbered, is_there, complaint) = match batch.repair.take() {
            Some(Repair::Split(numbered, is_there)) => (numbered, is_there, None),
            Some(Repair::Convert(numbered, complaint)) => (numbered, false, Some(complaint)),
            other => return batch.repair = other,
        };
        let Numbered { id, request, in_doubt } = numbered;
        let events = request.events;
        let job = if complaint.is_some() { Job::Convert(request) } else { Job::Split(request) };
        batch.repair = Some(Repair::AtWork { id, events, in_doubt, is_there, complaint });
        self.pack_task.begin(job);
    }

    /// Gives the packer the next batch, if it is due and there is room for it.
    fn pack(&mut self, now: Instant) -> Option<Instant> {
        if self.pack_task.idle().is_none() || self.batches.len() >= BATCHES_MAX {
            return None;
        }
        let due = self.batcher.due().filter(|due| *due > now);
        if due.is_some() || self.batcher.due().is_none() {
            return due;
        }
        let taken = self.batcher.take(now, P::cut);
        self.batches.push_back(Batch {
            shares: taken.iter().map(Share::of).collect(),
            bytes: taken.iter().map(|taken| taken.bytes).sum(),
            requests: None,
            repair: None,
            refused: 0,
        });
        self.pack_task.begin(Job::Pack(taken));
        None
    }

    /// Sends the oldest request, if none is on its way.
    fn send(&mut self, now: Instant) -> Option<Instant> {
        let batch = self.batches.front().filter(|batch| batch.repair.is_none())?;
        let numbered = batch.requests.as_ref()?.front()?;
        if self.dispatcher.has_request_in_flight() {
            return None;
        }
        self.dispatcher.send(&numbered.request, &numbered.id, now).err()
    }

    /// The packer has done its work.
    fn made(&mut self, made: Made, now: Instant) -> Result<(), DeliverError> {
        match made {
            Made::Packed(requests) => {
                let packed = requests.iter().map(|request| request.events).sum();
                let numbered =
                    requests.into_iter().map(|request| self.ids.number(request, false)).collect();
                let Some(batch) = self.batches.back_mut() else { return Ok(()) };
                batch.refused = batch
                    .shares
                    .iter()
                    .map(|share| share.events)
                    .sum::<u64>()
                    .saturating_sub(packed);
                batch.requests = Some(numbered);
            }
            Made::Split(smaller) => self.split(smaller),
            Made::Converted(request, other) => return self.converted(request, other, now),
        }
        Ok(())
    }

    /// Smaller requests take the place of the one that was refused; if there can be none its events
    /// are dropped. What is missing in them the packer has counted.
    fn split(&mut self, smaller: Option<Vec<Request>>) {
        let Some(batch) = self.batches.front_mut() else { return };
        let Some(Repair::AtWork { events, in_doubt, is_there, .. }) = batch.repair.take() else {
            return;
        };
        let Some(smaller) = smaller else {
            if is_there {
                return;
            }
            batch.refused += events;
            return self.counters.dropped("refused", events);
        };
        let left = smaller.iter().map(|request| request.events).sum();
        batch.refused += events.saturating_sub(left);
        let Some(requests) = &mut batch.requests else { return };
        let numbered = smaller.into_iter().rev().map(|request| self.ids.number(request, in_doubt));
        numbered.for_each(|numbered| requests.push_front(numbered));
    }

    /// A request in another form takes the place of the first; without one that is sent again,
    /// slowly.
    fn converted(
        &mut self,
        request: Request,
        other: bool,
        now: Instant,
    ) -> Result<(), DeliverError> {
        let Some(batch) = self.batches.front_mut() else { return Ok(()) };
        let Some(Repair::AtWork { id, in_doubt, complaint, .. }) = batch.repair.take() else {
            return Ok(());
        };
        if let Some(requests) = &mut batch.requests {
            requests.push_front(Numbered { id, request, in_doubt });
        }
        match complaint.filter(|_| !other) {
            Some(Complaint { endpoint, text }) => {
                Err(self.failed(endpoint, "refused", &text, self.slow(), now))
            }
            None => Ok(()),
        }
    }

    /// Handles the end of an attempt. The engine logs an error and waits before the next call.
    fn on_response(&mut self, attempt: Attempt, now: Instant) -> Result<(), DeliverError> {
        let Attempt { endpoint, result } = attempt;
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                self.doubt();
                return Err(self.failed(endpoint, error.kind, &error.message, Pause::Backoff, now));
            }
        };
        if self.is_question() && !is_general(answer.status) {
            self.unanswered(endpoint);
            return Ok(());
        }
        let (kind, text) = (kind(answer.status), || explain(&answer));
        match response_class(&answer, SystemTime::now()) {
            ResponseClass::Delivered => self.delivered(endpoint, answer, now),
            ResponseClass::Later(wait) => {
                if answer.status != 429 {
                    self.doubt();
                }
                return Err(self.failed(endpoint, kind, &text(), wait, now));
            }
            ResponseClass::Misconfigured => {
                return Err(self.failed(endpoint, kind, &text(), self.slow(), now));
            }
            ResponseClass::Refused { too_large } => self.refused(endpoint, &answer, too_large, now),
            ResponseClass::OtherForm => self.other_form(endpoint, text()),
        }
        Ok(())
    }

    /// Whether the first request has no events: only its answer is of use.
    fn is_question(&self) -> bool {
        let requests = self.batches.front().and_then(|batch| batch.requests.as_ref());
        requests.and_then(VecDeque::front).is_some_and(|first| first.request.events == 0)
    }

    /// A question that the endpoint does not know is not asked again.
    fn unanswered(&mut self, endpoint: usize) {
        self.dispatcher.well(endpoint);
        if let Some(requests) = self.batches.front_mut().and_then(|batch| batch.requests.as_mut()) {
            requests.pop_front();
        }
    }

    fn delivered(&mut self, endpoint: usize, answer: Answer, now: Instant) {
        self.dispatcher.well(endpoint);
        self.batcher.grow(now);
        self.answers.push(answer.headers);
        if let Some(requests) = self.batches.front_mut().and_then(|batch| batch.requests.as_mut()) {
            requests.pop_front();
        }
    }

    /// The first request may have been taken: a server in between may answer for one that has it.
    fn doubt(&mut self) {
        let first = self.batches.front_mut().and_then(|batch| batch.requests.as_mut()?.front_mut());
        first.into_iter().for_each(|numbered| numbered.in_doubt = true);
    }

    /// The error for the engine: what it says, and how long until the next attempt.
    fn failed(
        &mut self,
        endpoint: usize,
        kind: &'static str,
        text: &str,
        pause: Pause,
        now: Instant,
    ) -> DeliverError {
        let wait = self.dispatcher.failed(endpoint, pause, now);
        let message = format!("{}: {text}", self.settings.targets[endpoint]);
        DeliverError { retry_after: Some(wait), ..DeliverError::retry(kind, message) }
    }

    fn refused(&mut self, endpoint: usize, answer: &Answer, too_large: bool, now: Instant) {
        self.dispatcher.well(endpoint);
        self.counters.error("refused");
        let Some(batch) = self.batches.front_mut() else { return };
        let Some(numbered) = batch.requests.as_mut().and_then(VecDeque::pop_front) else { return };
        if too_large {
            self.batcher.shrink(batch.bytes, now);
        }
        if self.said.is_none_or(|said| now >= said + SAY_AGAIN) {
            self.said = Some(now);
            log::warn!(
                "sink {}: {}: {} {}; more of this is only counted for {} s",
                self.sink,
                refusal(numbered.request.events),
                self.settings.targets[endpoint],
                explain(answer),
                SAY_AGAIN.as_secs()
            );
        }
        let is_there = numbered.in_doubt && P::has_already(&answer.body);
        batch.repair = Some(Repair::Split(numbered, is_there));
    }

    /// A pause for what does not mend itself: between half of the longest one and all of it.
    fn slow(&self) -> Pause {
        let half = self.settings.slow / 2;
        Pause::Fixed(half + half.mul_f64(fastrand::f64()))
    }

    fn other_form(&mut self, endpoint: usize, text: String) {
        let Some(batch) = self.batches.front_mut() else { return };
        let Some(numbered) = batch.requests.as_mut().and_then(VecDeque::pop_front) else { return };
        batch.repair = Some(Repair::Convert(numbered, Complaint { endpoint, text }));
    }
}

/// Whether an answer is a success, or one that any request would get now.
fn is_general(status: u16) -> bool {
    matches!(status, 200..=299 | 401 | 403 | 404 | 407 | 408 | 429 | 502..=504)
}

impl<P: Packer> Lane for RequestLane<P> {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            let now = Instant::now();
            let metadata = payload
                .routing
                .as_ref()
                .and_then(|routing| routing.downcast_ref::<PayloadMetadata>());
            let taken = EncodedPayload {
                parts: payload.parts.clone(),
                events: payload.events,
                bytes: payload.bytes,
                routing: metadata.and_then(|metadata| metadata.routing.clone()),
                units_before: 0,
                continues: false,
            };
            let hold = metadata.and_then(|metadata| metadata.hold);
            let unix_ns = || Now::read(Duration::ZERO).unix_ns;
            self.batcher.push(taken, hold.map(|hold| now + hold.left(unix_ns())), now);
            self.turn(now);
            Ok(Delivery::Sent)
        })
    }

    fn is_full(&self) -> bool {
        self.batcher.is_full()
    }

    fn flush(&mut self) {
        self.batcher.flush(Instant::now());
    }

    fn settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.done)
    }

    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            let was_full = self.is_full();
            loop {
                let next = self.turn(Instant::now());
                if !self.done.is_empty() || (was_full && !self.is_full()) {
                    return Ok(());
                }
                let time = async {
                    match next {
                        Some(next) => sleep_until(next).await,
                        None => std::future::pending().await,
                    }
                };
                // Each of them can be dropped and waited for anew.
                tokio::select! {
                    made = self.pack_task.wait() => self.made(made, Instant::now())?,
                    attempt = self.dispatcher.response() => self.on_response(attempt, Instant::now())?,
                    () = time => {}
                }
            }
        })
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
