//! The thread pool for offload transforms.
//!
//! All offload transforms share one pool. Each transform has a queue, and the queues take turns. A
//! transform without a call in progress always gets a thread. A call that exceeds its transform's
//! deadline is *abandoned*: the pool hands its batches back, ignores its later result, and lets
//! another thread take its place. Abandoned calls count against the transform's concurrency, so
//! that a transform that hangs occupies a bounded number of threads. Once all of its calls are
//! hanging, the batches in its queue are also handed back at the deadline. A transform may limit
//! the number of hanging calls; at this limit, its batches are handed back immediately.

use crate::ticket::Arrival;
use millstream_model::{Batch, EngineTime, Offload};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a thread above the maximum waits for work before it exits. A new thread may be
/// expensive for a transform, so a thread stays while calls follow each other.
const SURPLUS_TIME: Duration = Duration::from_secs(10);

/// An offload transform in the pool, identified by its address.
pub(crate) struct OffloadQueue {
    pub transform: Arc<dyn Offload>,
}

/// The threads that run offload transforms, and the work that is waiting for them.
pub(crate) struct OffloadPool {
    threads_max: usize,
    state: Mutex<Pool>,
    changed: Condvar,
    /// Starts a thread.
    start: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct Pool {
    members: Vec<Member>,
    /// Index of the member whose turn is next.
    turn: usize,
    calls: HashMap<CallId, Call>,
    calls_begun: u64,
    /// Number of threads, excluding abandoned calls.
    threads: usize,
    /// Number of threads that are waiting for work.
    idle: usize,
    /// Number of threads in a call, excluding abandoned calls.
    busy: usize,
    stopped: bool,
}

/// A transform and the batches that wait for it.
struct Member {
    queue: Arc<OffloadQueue>,
    waiting: VecDeque<Waiting>,
    /// Number of calls in progress, including abandoned calls.
    running: usize,
    abandoned: usize,
    /// When the pool last abandoned one of the transform's calls.
    abandoned_at: EngineTime,
}

/// Batches that wait for a call.
struct Waiting {
    since: EngineTime,
    arrival: Arrival,
}

/// A call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallId(u64);

struct Call {
    queue: Arc<OffloadQueue>,
    /// `None` once the call is abandoned.
    arrivals: Option<Vec<Arrival>>,
    deadline: Option<EngineTime>,
}

/// A call to make.
pub(crate) struct Due {
    /// Id of the call, for [`OffloadPool::finish`].
    pub id: CallId,
    /// The transform to call.
    pub queue: Arc<OffloadQueue>,
    /// The batches to pass to the transform.
    pub batches: Vec<Batch>,
}

impl OffloadPool {
    /// Creates a pool of up to `threads_max` threads, which start when there is work.
    pub fn new(threads_max: usize) -> Arc<OffloadPool> {
        Arc::new(OffloadPool {
            threads_max: threads_max.max(1),
            state: Mutex::default(),
            changed: Condvar::new(),
            start: OnceLock::new(),
        })
    }

    /// Queues a ticket's batches for a transform.
    pub fn push(&self, queue: &Arc<OffloadQueue>, arrival: Arrival, now: EngineTime) {
        let mut state = self.state.lock();
        state.member(queue).waiting.push_back(Waiting { since: now, arrival });
        self.employ(&mut state);
    }

    /// Wakes or starts a thread if a call is due.
    fn employ(&self, state: &mut Pool) {
        if !state.has_due(self.threads_max) {
            return;
        }
        let Some(start) = self.start.get() else { return };
        // If the pool is at its maximum, a thread between two calls will take the work soon.
        if state.idle == 0 && (state.threads < self.threads_max || state.threads == state.busy) {
            state.threads += 1;
            start();
        }
        self.changed.notify_one();
    }

    /// Sets the function that starts a thread. The pool calls it when there is work.
    pub fn on_work(&self, start: impl Fn() + Send + Sync + 'static) {
        _ = self.start.set(Box::new(start));
    }

    /// Waits for the next call; `None` once the pool has stopped, or has not needed the thread for
    /// some time. `now` reads the engine's clock.
    pub fn wait_for_call(&self, now: impl Fn() -> EngineTime) -> Option<Due> {
        let mut state = self.state.lock();
        let mut has_waited = false;
        loop {
            let due = if state.stopped { None } else { state.take(now(), self.threads_max) };
            if due.is_some() {
                self.employ(&mut state);
                return due;
            }
            let is_surplus = state.threads > self.threads_max;
            if state.stopped || is_surplus && has_waited {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            if is_surplus {
                has_waited = self.changed.wait_for(&mut state, SURPLUS_TIME).timed_out();
            } else {
                self.changed.wait(&mut state);
            }
            state.idle -= 1;
        }
    }

    /// Takes the next call, without waiting.
    #[cfg(test)]
    pub fn take(&self, now: EngineTime) -> Option<Due> {
        self.state.lock().take(now, usize::MAX)
    }

    /// Ends a call; returns the call's tickets. Returns `None` if the call was abandoned, so that
    /// its output must be ignored.
    pub fn finish(&self, id: CallId) -> Option<Vec<Arrival>> {
        let mut state = self.state.lock();
        let call = state.calls.remove(&id)?;
        let member = state.member(&call.queue);
        member.running -= 1;
        if call.arrivals.is_none() {
            member.abandoned -= 1;
            state.threads += 1;
        } else {
            state.busy -= 1;
        }
        state.forget_idle_members();
        self.employ(&mut state);
        call.arrivals
    }

    /// Abandons the calls that have exceeded their deadline, and returns the batches to hand back.
    pub fn expire(&self, now: EngineTime) -> Vec<(Arc<OffloadQueue>, Arrival)> {
        let mut state = self.state.lock();
        let back = state.expire(now);
        state.forget_idle_members();
        self.employ(&mut state);
        back
    }

    /// Returns a message that says how many of a transform's calls are hanging, and the
    /// consequence. Returns `None` if no call is hanging.
    pub fn hanging(&self, queue: &Arc<OffloadQueue>) -> Option<String> {
        let state = self.state.lock();
        let member = state.members.iter().find(|member| Arc::ptr_eq(&member.queue, queue))?;
        let calls = member.abandoned;
        let all = queue.transform.concurrency();
        let consequence = if member.has_given_up() { ", so no more calls are made" } else { "" };
        let message =
            format!("{calls} of {all} calls exceeded their deadline and are hanging{consequence}");
        (calls > 0).then_some(message)
    }

    /// Returns the number of hanging calls in a transform.
    pub fn hanging_calls(&self, queue: &Arc<OffloadQueue>) -> u64 {
        let state = self.state.lock();
        let member = state.members.iter().find(|member| Arc::ptr_eq(&member.queue, queue));
        member.map_or(0, |member| member.abandoned as u64)
    }

    /// Stops all threads. A thread in a call exits after the call.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Returns whether all threads have exited, except threads in abandoned calls.
    pub fn has_ended(&self) -> bool {
        self.state.lock().threads == 0
    }
}

impl Pool {
    fn member(&mut self, queue: &Arc<OffloadQueue>) -> &mut Member {
        let index = self.members.iter().position(|member| Arc::ptr_eq(&member.queue, queue));
        let index = index.unwrap_or_else(|| {
            self.members.push(Member {
                queue: queue.clone(),
                waiting: VecDeque::new(),
                running: 0,
                abandoned: 0,
                abandoned_at: EngineTime::ZERO,
            });
            self.members.len() - 1
        });
        &mut self.members[index]
    }

    /// Drops transforms that a reload has removed.
    fn forget_idle_members(&mut self) {
        self.members.retain(|m| m.running > 0 || Arc::strong_count(&m.queue) > 1);
    }

    /// Returns whether a call is due. If `threads_max` threads are busy, only a transform without a
    /// call in progress may be called, because hanging calls without a deadline must not prevent
    /// other transforms from meeting their deadlines.
    fn has_due(&self, threads_max: usize) -> bool {
        self.members.iter().any(|member| self.is_due(member, threads_max))
    }

    fn is_due(&self, member: &Member, threads_max: usize) -> bool {
        member.may_run() && (self.busy < threads_max || member.running == 0)
    }

    /// Takes the next call that is due.
    fn take(&mut self, now: EngineTime, threads_max: usize) -> Option<Due> {
        let count = self.members.len();
        let is_due = |at: &usize| self.is_due(&self.members[*at], threads_max);
        let at = (0..count).map(|i| (self.turn + i) % count).find(is_due)?;
        self.turn = (at + 1) % count;
        let member = &mut self.members[at];
        member.running += 1;
        let transform = &member.queue.transform;
        let take = transform.tickets_max().clamp(1, member.waiting.len());
        let arrivals: Vec<Arrival> =
            member.waiting.drain(..take).map(|waiting| waiting.arrival).collect();
        let batches = arrivals.iter().flat_map(|a| a.batches.iter().cloned()).collect();
        let queue = member.queue.clone();
        let deadline = transform.deadline().map(|d| now + d);
        let id = CallId(self.calls_begun);
        self.calls_begun += 1;
        let call = Call { queue: queue.clone(), arrivals: Some(arrivals), deadline };
        self.calls.insert(id, call);
        self.busy += 1;
        Some(Due { id, queue, batches })
    }

    fn expire(&mut self, now: EngineTime) -> Vec<(Arc<OffloadQueue>, Arrival)> {
        let mut back = Vec::new();
        let is_late = |call: &&mut Call| call.deadline.is_some_and(|deadline| deadline <= now);
        for call in self.calls.values_mut().filter(is_late) {
            let Some(arrivals) = call.arrivals.take() else { continue };
            back.extend(arrivals.into_iter().map(|arrival| (call.queue.clone(), arrival)));
            self.threads = self.threads.saturating_sub(1);
            self.busy -= 1;
            let mut members = self.members.iter_mut();
            let member = members.find(|member| Arc::ptr_eq(&member.queue, &call.queue));
            if let Some(member) = member {
                member.abandoned += 1;
                member.abandoned_at = now;
            }
        }
        for member in &mut self.members {
            let late = member.take_late(now);
            back.extend(late.into_iter().map(|arrival| (member.queue.clone(), arrival)));
        }
        back
    }
}

impl Member {
    fn may_run(&self) -> bool {
        let is_free = self.running < self.queue.transform.concurrency().max(1);
        !self.waiting.is_empty() && is_free && !self.has_given_up()
    }

    /// Returns whether so many calls are hanging that the pool makes no more calls.
    fn has_given_up(&self) -> bool {
        self.queue.transform.hanging_max().is_some_and(|max| self.abandoned >= max)
    }

    /// Takes the batches that will not be passed to a call, or that have waited for longer than the
    /// deadline while every call is hanging.
    fn take_late(&mut self, now: EngineTime) -> Vec<Arrival> {
        if self.has_given_up() {
            return self.waiting.drain(..).map(|waiting| waiting.arrival).collect();
        }
        let Some(deadline) = self.queue.transform.deadline() else { return Vec::new() };
        if self.abandoned < self.queue.transform.concurrency().max(1) {
            return Vec::new();
        }
        let is_late = |waiting: &&Waiting| waiting.since.max(self.abandoned_at) + deadline <= now;
        let late = self.waiting.iter().take_while(is_late).count();
        self.waiting.drain(..late).map(|waiting| waiting.arrival).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{ComponentError, Now, Outputs};

    struct Nothing;

    impl Offload for Nothing {
        fn concurrency(&self) -> usize {
            1
        }

        fn output_bytes_max(&self) -> u64 {
            0
        }

        fn apply(&self, _: Now, _: Vec<Batch>, _: &mut [Outputs]) -> Result<(), ComponentError> {
            Ok(())
        }
    }

    #[test]
    fn a_transform_that_a_reload_has_removed_is_dropped_without_another_call() {
        let pool = OffloadPool::new(1);
        let queue = Arc::new(OffloadQueue { transform: Arc::new(Nothing) });
        let weak = Arc::downgrade(&queue);
        pool.state.lock().member(&queue);
        pool.expire(EngineTime::ZERO);
        assert_eq!(pool.state.lock().members.len(), 1);
        drop(queue);
        pool.expire(EngineTime::ZERO);
        assert!(weak.upgrade().is_none());
    }
}
