//! Ending a lane before the agent stops, because a reload removes the sink, the lane panics, or the
//! lane never opens.

use super::{LaneDriver, LaneQueue, LastError, Paused};
use millstream_model::{Backoff, DeliverError, Outcome, Payload};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

/// Error kind of an endpoint that asks for fewer requests.
const THROTTLED: &str = "throttled";

/// Progress towards a lane's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    Runs,
    /// The lane no longer retries, and returns its payloads.
    LetGo,
    /// The lane has no payloads left; another sink may now write to the same place.
    Ended,
}

impl LaneQueue {
    /// Ends the lane without delivering its payloads, which are returned. If a call to the sink is
    /// in progress, the lane waits for it, because a late write would land between the writes of a
    /// successor.
    pub fn let_go(&self) {
        self.phase.send_if_modified(|phase| {
            let runs = *phase == Phase::Runs;
            *phase = if runs { Phase::LetGo } else { *phase };
            runs
        });
        self.close();
    }

    pub(super) fn is_let_go(&self) -> bool {
        *self.phase.borrow() >= Phase::LetGo
    }

    pub(super) async fn letting_go(&self) {
        // The wait fails only if there is no sender, and `self` owns one.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= Phase::LetGo).await;
    }

    /// Returns whether the lane has ended.
    pub fn has_ended(&self) -> bool {
        *self.phase.borrow() == Phase::Ended
    }

    /// Waits until the lane has ended.
    pub async fn ended(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Ended).await;
    }

    /// Returns whether the lane appears able to deliver: the endpoint was reached, and the last
    /// attempt did not fail.
    pub fn gets_on(&self) -> bool {
        self.started.load(Ordering::Relaxed) && self.lock().error.is_none()
    }

    /// Returns whether the lane is asked to end.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns whether the lane has something to deliver.
    pub fn owes(&self) -> bool {
        self.bytes() > 0 || !self.lock().taken.is_empty()
    }

    /// Returns whether the last attempt failed and no other attempt is expected to succeed before
    /// `deadline`. An endpoint that asks for fewer requests can succeed if its pause ends before
    /// the deadline.
    pub fn is_failing(&self, deadline: Instant) -> bool {
        let fails = |error: &LastError| error.kind != THROTTLED || error.next >= deadline;
        self.lock().error.as_ref().is_some_and(fails)
    }

    /// Marks the lane as ended.
    pub(super) fn end(&self) {
        self.phase.send_replace(Phase::Ended);
    }

    /// Waits until the lanes in `before` have ended, or this lane is asked to end.
    pub(super) async fn wait_for(&self, before: &[Arc<LaneQueue>]) {
        for lane in before {
            tokio::select! {
                () = lane.ended() => {}
                () = self.letting_go() => {}
            }
        }
    }
}

impl LaneDriver {
    /// Settles as returned the payloads in flight and the accepted payloads, whose outcome is
    /// unknown after a panic. A lane that is let go also returns the payloads in its queue.
    pub(super) fn give_back(&self) {
        let (taken, back) = {
            let mut state = self.queue.lock();
            let sent = state.take_all_sent().into_iter();
            let mut back: Vec<_> = sent.map(|sent| sent.payload).collect();
            if self.queue.is_let_go() {
                back.extend(std::mem::take(&mut state.queue));
            }
            (std::mem::take(&mut state.taken), back)
        };
        for hold in taken {
            hold.settle(Outcome::Returned);
        }
        for payload in back {
            payload.settle(Outcome::Returned);
        }
    }

    /// Recounts the bytes in the queue, because a panic has dropped the payload in delivery.
    pub(super) fn recount(&self) {
        let queued = self.queue.lock().queue.iter().map(Payload::queue_bytes).sum();
        self.queue.bytes.store(queued, Ordering::Relaxed);
        (self.queue.on_available)();
    }
}

impl LaneDriver {
    /// Reads the saved state, and retries until that succeeds. Without the state, a sink cannot
    /// tell which part of its output is unsettled. Returns `None` if the lane is let go first, or
    /// is closed with an empty queue.
    pub(super) async fn state(&self) -> Option<Option<Vec<u8>>> {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.store.lane(&self.sink_id, self.lane.get()) {
                Ok(state) => return Some(state),
                Err(error) => format!("cannot read its saved state: {error}"),
            };
            self.pause_unless_ended(&DeliverError::retry("checkpoint", error), &mut backoff)
                .await?;
        }
    }

    /// Pauses before the next attempt; `None` if the lane is let go, or is closed with an empty
    /// queue.
    pub(super) async fn pause_unless_ended(
        &self,
        error: &DeliverError,
        backoff: &mut Backoff,
    ) -> Option<Paused> {
        let is_idle = self.queue.is_closed() && self.queue.lock().queue.is_empty();
        if is_idle || self.queue.is_let_go() {
            return None;
        }
        Some(self.wait(error, backoff).await)
    }
}
