//! Who does what next: ready sources and resumed tickets, taken by any worker.

use crate::limits::{FOLLOWER_LOOK, ROOM_RETRY};
use crate::ticket::Ticket;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Work for a worker.
pub(crate) enum Job {
    /// Poll a source.
    Poll(usize),
    /// Go on with a ticket behind a serial or offload transform.
    Resume(Box<Ticket>),
}

/// Answer to "what next?".
pub(crate) enum Next {
    Job(Job),
    /// Nothing before this time (since start), or before something is woken.
    Idle(Option<Duration>),
    Stopped,
}

/// What a poll said about when to poll again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Now,
    At(Duration),
    Room,
    Ended,
}

#[derive(Clone, Copy, PartialEq)]
enum Standing {
    Queued,
    Polling { woken: bool },
    Waiting { until: Duration, for_room: bool },
    Ended,
}

struct State {
    ready: VecDeque<Job>,
    sources: Vec<Standing>,
    paused: bool,
    stopped: bool,
    /// Until when the leading worker sleeps; `None` if no worker sleeps.
    leader_until: Option<Duration>,
}

/// The run queue.
pub(crate) struct Scheduler {
    state: Mutex<State>,
    changed: Condvar,
}

impl Scheduler {
    /// All sources ready.
    pub fn new(sources: usize) -> Scheduler {
        let ready = (0..sources).map(Job::Poll).collect();
        let sources = vec![Standing::Queued; sources];
        let state = State { ready, sources, paused: false, stopped: false, leader_until: None };
        Scheduler { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next job at time `now`, without waiting.
    #[cfg(test)]
    pub fn next(&self, now: Duration) -> Next {
        self.lock().next(now)
    }

    /// Waits for the next job; `None` when stopped. `now` reads the engine's clock.
    ///
    /// Of the workers that wait, one leads: it wakes for the next timer. The others sleep on, so
    /// that an idle agent wakes one thread per tick and not all of them.
    pub fn wait(&self, now: impl Fn() -> Duration) -> Option<Job> {
        let mut state = self.lock();
        loop {
            let time = now();
            let until = match state.next(time) {
                Next::Job(job) => return Some(job),
                Next::Stopped => return None,
                Next::Idle(until) => until.unwrap_or(Duration::MAX),
            };
            let leads = state.leader_until.is_none();
            let pause = if leads { until.saturating_sub(time) } else { FOLLOWER_LOOK };
            if leads {
                state.leader_until = Some(until);
            }
            let waited = self.changed.wait_timeout(state, pause);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            if leads {
                state.leader_until = None;
            }
        }
    }

    /// Says when to poll a source again, after a poll at `now`.
    pub fn polled(&self, source: usize, again: Again, now: Duration) {
        let mut state = self.lock();
        let woken = matches!(state.sources[source], Standing::Polling { woken: true });
        state.sources[source] = match again {
            Again::Ended if !woken => Standing::Ended,
            Again::At(until) if !woken => Standing::Waiting { until, for_room: false },
            Again::Room if !woken => Standing::Waiting { until: now + ROOM_RETRY, for_room: true },
            _ => Standing::Queued,
        };
        match state.sources[source] {
            Standing::Queued => {
                state.ready.push_back(Job::Poll(source));
                self.changed.notify_one();
            }
            // The leader may sleep for longer than this source.
            Standing::Waiting { until, .. } if state.leader_until.is_some_and(|leader| until < leader) => {
                self.changed.notify_all();
            }
            _ => {}
        }
    }

    /// Puts a ticket back into the run queue, before any new poll.
    pub fn resume(&self, ticket: Box<Ticket>) {
        self.lock().ready.push_front(Job::Resume(ticket));
        self.changed.notify_one();
    }

    /// Polls a source soon, even if it waits or has ended.
    pub fn wake(&self, source: usize) {
        self.lock().wake(source);
        self.changed.notify_one();
    }

    /// Polls every source that waits for room.
    pub fn wake_for_room(&self) {
        let mut state = self.lock();
        for source in 0..state.sources.len() {
            if matches!(state.sources[source], Standing::Waiting { for_room: true, .. }) {
                state.wake(source);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Stops (or allows again) polling; tickets that are out run on.
    pub fn pause(&self, paused: bool) {
        self.lock().paused = paused;
        self.changed.notify_all();
    }

    /// Whether a source is being polled this moment.
    pub fn is_polling(&self) -> bool {
        self.lock().sources.iter().any(|s| matches!(s, Standing::Polling { .. }))
    }

    /// Whether every source has ended.
    pub fn all_ended(&self) -> bool {
        self.lock().sources.iter().all(|s| *s == Standing::Ended)
    }

    /// Sends all workers home.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

impl State {
    fn next(&mut self, now: Duration) -> Next {
        if self.stopped {
            return Next::Stopped;
        }
        for source in 0..self.sources.len() {
            if matches!(self.sources[source], Standing::Waiting { until, .. } if until <= now) {
                self.wake(source);
            }
        }
        let paused = self.paused;
        let takes = |job: &Job| !paused || matches!(job, Job::Resume(_));
        let Some(index) = self.ready.iter().position(takes) else { return Next::Idle(self.next_timer()) };
        match self.ready.remove(index) {
            Some(Job::Poll(source)) => {
                self.sources[source] = Standing::Polling { woken: false };
                Next::Job(Job::Poll(source))
            }
            Some(job) => Next::Job(job),
            None => Next::Idle(self.next_timer()),
        }
    }

    fn next_timer(&self) -> Option<Duration> {
        let until = |s: &Standing| match s {
            Standing::Waiting { until, .. } if !self.paused => Some(*until),
            _ => None,
        };
        self.sources.iter().filter_map(until).min()
    }

    fn wake(&mut self, source: usize) {
        match self.sources[source] {
            Standing::Polling { .. } => self.sources[source] = Standing::Polling { woken: true },
            Standing::Waiting { .. } | Standing::Ended => {
                self.sources[source] = Standing::Queued;
                self.ready.push_back(Job::Poll(source));
            }
            Standing::Queued => {}
        }
    }
}
