//! The run queue, from which workers take sources to poll and tickets to resume.

use crate::index::SourceIndex;
use crate::limits::{FOLLOWER_LOOK, ROOM_RETRY};
use crate::pace::{Priority, pick};
use crate::ticket::Step;
use millstream_model::EngineTime;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;

/// A worker's work.
pub(crate) enum Job {
    /// Poll a source.
    Poll(SourceIndex),
    /// Run a ticket's step after a serial or offload transform.
    Resume(Step),
}

/// Determines when a source is polled relative to other sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollOrder {
    pub priority: Priority,
    /// Whether polls of the source are never delayed.
    pub is_live: bool,
}

/// Reason why a worker woke up.
pub(crate) enum Woken {
    Job(Job),
    /// A reload has replaced the topology. Idle workers must not keep the old topology either.
    Renewed,
}

/// The result of a request for a job.
pub(crate) enum Next {
    Job(Job),
    /// There is no job before this time, or before a wake-up if there is no time.
    Idle(Option<EngineTime>),
    Stopped,
}

/// When to poll a source again, according to its last poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Now,
    At(EngineTime),
    Room,
    Ended,
}

#[derive(Clone, Copy, PartialEq)]
enum PollState {
    Queued,
    Polling { woken: bool },
    Waiting { until: EngineTime, for_room: bool },
    Ended,
}

#[derive(Default)]
struct State {
    /// Number of topologies so far.
    generation: u64,
    ready: VecDeque<Job>,
    states: Vec<PollState>,
    orders: Vec<PollOrder>,
    /// Number of polls so far.
    turn: u64,
    paused: bool,
    /// The only sources to poll, while they emit the data that they keep back; all sources if
    /// `None`.
    closing: Option<Vec<bool>>,
    /// Time before which no source is polled.
    held_until: EngineTime,
    stopped: bool,
    /// When the leading worker wakes up; `None` if no worker is leading.
    leader_until: Option<EngineTime>,
}

/// The run queue.
#[derive(Default)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    changed: Condvar,
}

impl Scheduler {
    /// Replaces the sources, which are all ready to be polled. No ticket may be running.
    pub fn rewire(&self, sources: Vec<PollOrder>) {
        let mut state = self.lock();
        state.generation += 1;
        state.ready = (0..sources.len()).map(SourceIndex::new).map(Job::Poll).collect();
        state.states = vec![PollState::Queued; sources.len()];
        state.orders = sources;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the next job at `now`, without waiting.
    #[cfg(test)]
    pub fn next(&self, now: EngineTime) -> Next {
        self.lock().next(now)
    }

    /// Waits for the next job; `None` if the scheduler is stopped. `now` reads the engine's clock.
    /// `known` is the generation of the topology that the worker uses.
    ///
    /// One of the waiting workers leads, and wakes up for the next timer. The other workers keep
    /// sleeping, so that an idle agent wakes one thread per tick instead of all threads.
    pub fn wait(&self, known: &mut u64, now: impl Fn() -> EngineTime) -> Option<Woken> {
        let mut state = self.lock();
        loop {
            if state.is_renewed(known) {
                return Some(Woken::Renewed);
            }
            let time = now();
            let until = match state.next(time) {
                Next::Job(job) => {
                    // The end of a hold has woken one worker, and there is work for another.
                    if state.held_until > EngineTime::ZERO && !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(Woken::Job(job));
                }
                Next::Stopped => return None,
                Next::Idle(until) => until.unwrap_or(EngineTime::MAX),
            };
            let leads = state.leader_until.is_none();
            let pause = if leads { until - time } else { FOLLOWER_LOOK };
            if leads {
                state.leader_until = Some(until);
            }
            self.changed.wait_for(&mut state, pause);
            if leads {
                state.leader_until = None;
            }
        }
    }

    /// Schedules a source's next poll, after a poll at `now`.
    pub fn polled(&self, source: SourceIndex, again: Again, now: EngineTime) {
        let mut state = self.lock();
        let woken = matches!(state.states[source.get()], PollState::Polling { woken: true });
        state.states[source.get()] = match again {
            Again::Ended if !woken => PollState::Ended,
            Again::At(until) if !woken => PollState::Waiting { until, for_room: false },
            Again::Room if !woken => PollState::Waiting { until: now + ROOM_RETRY, for_room: true },
            _ => PollState::Queued,
        };
        match state.states[source.get()] {
            PollState::Queued => {
                state.ready.push_back(Job::Poll(source));
                self.changed.notify_one();
            }
            // The leader might otherwise sleep past this source's time.
            PollState::Waiting { until, .. }
                if state.leader_until.is_some_and(|leader| until < leader) =>
            {
                self.changed.notify_all();
            }
            _ => {}
        }
    }

    /// Puts a ticket's next step into the run queue, ahead of new polls.
    pub fn resume(&self, step: Step) {
        self.lock().ready.push_front(Job::Resume(step));
        self.changed.notify_one();
    }

    /// Polls a source soon, even if it is waiting or has ended.
    pub fn wake(&self, source: SourceIndex) {
        self.lock().wake(source);
        self.changed.notify_one();
    }

    /// Polls every source that is waiting for capacity.
    pub fn wake_for_room(&self) {
        let mut state = self.lock();
        for source in 0..state.states.len() {
            if matches!(state.states[source], PollState::Waiting { for_room: true, .. }) {
                state.wake(SourceIndex::new(source));
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Stops or resumes polling; running tickets continue.
    pub fn pause(&self, paused: bool) {
        let mut state = self.lock();
        state.paused = paused;
        if !paused {
            state.closing = None;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Polls only the sources in `closing` until the next [`Scheduler::pause`] is lifted.
    pub fn close(&self, closing: Vec<bool>) {
        let mut state = self.lock();
        for (source, closes) in closing.iter().enumerate() {
            if *closes {
                state.wake(SourceIndex::new(source));
            }
        }
        state.closing = Some(closing);
        // An earlier barrier may have been abandoned.
        state.paused = false;
        drop(state);
        self.changed.notify_all();
    }

    /// Returns whether only closing sources are polled.
    pub fn is_closing(&self) -> bool {
        self.lock().closing.is_some()
    }

    /// Returns whether the sources passed to [`Scheduler::close`] have ended.
    pub fn have_closed(&self) -> bool {
        let state = self.lock();
        let closing =
            state.closing.iter().flatten().zip(&state.states).filter(|(closes, _)| **closes);
        closing.into_iter().all(|(_, state)| *state == PollState::Ended)
    }

    /// Suspends polling until the time `until`; running tickets continue.
    pub fn hold(&self, until: EngineTime) {
        self.lock().held_until = until;
    }

    /// Returns whether any source is being polled.
    pub fn is_polling(&self) -> bool {
        self.lock().states.iter().any(|s| matches!(s, PollState::Polling { .. }))
    }

    /// Returns whether a source has ended.
    pub fn has_ended(&self, source: SourceIndex) -> bool {
        self.lock().states.get(source.get()).is_none_or(|state| *state == PollState::Ended)
    }

    /// Returns whether every source has ended.
    pub fn all_ended(&self) -> bool {
        self.lock().states.iter().all(|s| *s == PollState::Ended)
    }

    /// Tells all workers to exit.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

impl State {
    /// Returns whether a reload has finished since the worker saw the generation `known`. Sets
    /// `known` to the new generation.
    fn is_renewed(&self, known: &mut u64) -> bool {
        let is_renewed = !self.paused && *known != self.generation;
        if is_renewed {
            *known = self.generation;
        }
        is_renewed
    }

    fn next(&mut self, now: EngineTime) -> Next {
        if self.stopped {
            return Next::Stopped;
        }
        for source in 0..self.states.len() {
            if matches!(self.states[source], PollState::Waiting { until, .. } if until <= now) {
                self.wake(SourceIndex::new(source));
            }
        }
        match self.pick(now).and_then(|index| self.ready.remove(index)) {
            Some(Job::Poll(source)) => {
                self.states[source.get()] = PollState::Polling { woken: false };
                Next::Job(Job::Poll(source))
            }
            Some(job) => Next::Job(job),
            None => Next::Idle(self.next_timer()),
        }
    }

    /// Returns the index of the next job. Tickets, which are at the front, come before polls.
    fn pick(&mut self, now: EngineTime) -> Option<usize> {
        if let Some(Job::Resume(_)) = self.ready.front() {
            return Some(0);
        }
        if self.paused || self.ready.is_empty() {
            return None;
        }
        // Closing sources are not subject to the hold.
        let is_held = now < self.held_until && self.closing.is_none();
        let priority = |job: &Job| match job {
            Job::Poll(source) => self.orders[source.get()].priority,
            Job::Resume(_) => Priority::High,
        };
        self.turn += 1;
        let mut may_run = self.ready.iter().enumerate().filter(|(_, job)| match job {
            Job::Poll(source) => {
                self.may_poll(*source) && (!is_held || self.orders[source.get()].is_live)
            }
            Job::Resume(_) => true,
        });
        let picked = pick(may_run.clone().map(|(_, job)| priority(job)), self.turn)?;
        may_run.nth(picked).map(|(index, _)| index)
    }

    fn may_poll(&self, source: SourceIndex) -> bool {
        self.closing.as_ref().is_none_or(|closing| closing[source.get()])
    }

    fn next_timer(&self) -> Option<EngineTime> {
        let until = |(source, state): (usize, &PollState)| match state {
            PollState::Waiting { until, .. }
                if !self.paused && self.may_poll(SourceIndex::new(source)) =>
            {
                Some(*until)
            }
            _ => None,
        };
        let may_run = |job: &Job| matches!(job, Job::Poll(source) if self.may_poll(*source));
        let is_held = !self.paused && self.ready.iter().any(may_run);
        let timers = self.states.iter().enumerate().filter_map(until);
        timers.chain(is_held.then_some(self.held_until)).min()
    }

    fn wake(&mut self, source: SourceIndex) {
        // A source that was removed has no valid index.
        let Some(state) = self.states.get_mut(source.get()) else { return };
        match *state {
            PollState::Polling { .. } => *state = PollState::Polling { woken: true },
            PollState::Waiting { .. } | PollState::Ended => {
                *state = PollState::Queued;
                self.ready.push_back(Job::Poll(source));
            }
            PollState::Queued => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{High, Low, Normal};

    fn at(ms: u64) -> EngineTime {
        EngineTime::at(std::time::Duration::from_millis(ms))
    }

    fn wired(priorities: &[Priority]) -> Scheduler {
        let scheduler = Scheduler::default();
        let order = |priority: &Priority| PollOrder { priority: *priority, is_live: false };
        scheduler.rewire(priorities.iter().map(order).collect());
        scheduler
    }

    fn again(scheduler: &Scheduler, source: usize, again: Again, now: EngineTime) {
        scheduler.polled(SourceIndex::new(source), again, now);
    }

    /// Returns the source that is polled next, if any.
    fn polled(scheduler: &Scheduler, now: EngineTime) -> Option<usize> {
        match scheduler.next(now) {
            Next::Job(Job::Poll(source)) => Some(source.get()),
            _ => None,
        }
    }

    #[test]
    fn higher_priorities_run_first_and_lower_ones_do_not_starve() {
        let scheduler = wired(&[Low, High, Normal]);
        let mut polls = [0; 3];
        for _ in 0..1600 {
            let source = polled(&scheduler, EngineTime::ZERO).unwrap();
            polls[source] += 1;
            again(&scheduler, source, Again::Now, EngineTime::ZERO);
        }
        assert!(polls[1] >= 1450 && polls[0] >= 45 && polls[2] >= 45, "{polls:?}");
        // While the source is waiting, it does not delay other sources.
        while polled(&scheduler, EngineTime::ZERO) != Some(1) {}
        again(&scheduler, 1, Again::At(at(10)), EngineTime::ZERO);
        for source in [0, 2] {
            again(&scheduler, source, Again::Now, EngineTime::ZERO);
        }
        let before = polled(&scheduler, EngineTime::ZERO).unwrap();
        assert!(before != 1);
        again(&scheduler, before, Again::Now, EngineTime::ZERO);
        assert_eq!((0..2).filter(|_| polled(&scheduler, at(10)) == Some(1)).count(), 1);
    }

    #[test]
    fn a_hold_delays_polls_but_not_a_stop() {
        let scheduler = wired(&[Normal; 2]);
        scheduler.hold(at(20));
        assert!(matches!(scheduler.next(at(5)), Next::Idle(Some(until)) if until == at(20)));
        assert_eq!(polled(&scheduler, at(20)), Some(0));
        // A new hold replaces the previous one, even if it ends earlier.
        scheduler.hold(at(60));
        assert_eq!(polled(&scheduler, at(30)), None);
        scheduler.hold(at(30));
        assert_eq!(polled(&scheduler, at(30)), Some(1));
        scheduler.hold(EngineTime::MAX);
        scheduler.pause(true);
        again(&scheduler, 0, Again::Now, at(30));
        assert!(matches!(scheduler.next(at(30)), Next::Idle(None)));
        scheduler.stop();
        assert!(matches!(scheduler.next(at(30)), Next::Stopped));
    }

    #[test]
    fn sources_wait_while_others_close() {
        let scheduler = wired(&[Normal; 3]);
        for source in 0..3 {
            assert_eq!(polled(&scheduler, EngineTime::ZERO), Some(source));
        }
        again(&scheduler, 0, Again::At(at(1)), EngineTime::ZERO);
        again(&scheduler, 1, Again::At(at(1000)), EngineTime::ZERO);
        again(&scheduler, 2, Again::Ended, EngineTime::ZERO);
        scheduler.close(vec![false, true, true]);
        assert_eq!(polled(&scheduler, at(5)), Some(1));
        assert_eq!(polled(&scheduler, at(5)), Some(2));
        again(&scheduler, 1, Again::At(at(10)), at(5));
        again(&scheduler, 2, Again::Ended, at(5));
        assert!(matches!(scheduler.next(at(5)), Next::Idle(Some(until)) if until == at(10)));
        assert!(!scheduler.have_closed());
        assert_eq!(polled(&scheduler, at(10)), Some(1));
        again(&scheduler, 1, Again::Ended, at(10));
        assert!(scheduler.have_closed());
        assert!(matches!(scheduler.next(at(10)), Next::Idle(None)));
        scheduler.pause(true);
        scheduler.pause(false);
        assert_eq!(polled(&scheduler, at(10)), Some(0));
    }

    #[test]
    fn live_and_closing_sources_are_not_delayed() {
        let scheduler = Scheduler::default();
        let order = |is_live| PollOrder { priority: Normal, is_live };
        scheduler.rewire(vec![order(false), order(true)]);
        scheduler.hold(EngineTime::MAX);
        assert_eq!(polled(&scheduler, at(1)), Some(1));
        assert_eq!(polled(&scheduler, at(1)), None);
        scheduler.close(vec![true, false]);
        assert_eq!(polled(&scheduler, at(1)), Some(0));
    }
}
