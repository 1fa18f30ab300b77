//! Keeps a child running.

use super::ending::Ended;
use super::hold::Holds;
use super::life::{LOOK, Life};
use super::settings::ProcessOptions;
use crate::buffer::Pool;
use crate::error::{CallError, ControlError, StartError};
use parking_lot::{Condvar, Mutex, RwLock};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Minimum and maximum pause before a start. The first start after an exit has no pause.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// If a child lived at least this long, the next child starts without a pause.
const LIVED: Duration = Duration::from_secs(60);

/// Maximum time for a child to exit after its last use.
pub const END_TIME: Duration = Duration::from_secs(3);

/// Time between two attempts to register an operator that a child rejected. By then, for example, a
/// missing jar may be back.
pub const REGISTER_AGAIN: Duration = Duration::from_secs(10);

/// Number of consecutive starts that may fail before a component that waits for the first child is
/// rejected. The first limit is for kills from outside, the second for other reasons, which rarely
/// disappear.
const KILLED_STARTS_MAX: u64 = 8;
const FAILED_STARTS_MAX: u64 = 1;

/// An operator or a collector, which every child of a process runs.
pub trait Component: Send + Sync {
    /// Registers the component in a child unless it is already registered there.
    fn settle(&self, life: &Arc<Life>);

    /// Resumes calling a collector, after the last hold has been removed.
    fn resume(&self) {}
}

/// State that is shared by a process's operators and users. The process runs as long as this state
/// exists.
pub struct Inner {
    state: Arc<State>,
}

/// The supervisor's state. Unlike [`Inner`], it does not keep the process running.
pub struct State {
    pub name: String,
    /// Log target for the messages, because the log limits the number of similar messages per
    /// target.
    log_target: String,
    options: ProcessOptions,
    pool: Arc<Pool>,
    /// Calls share this lock. A call that must run alone, because a child exited during it, locks
    /// it exclusively.
    pub gate: RwLock<()>,
    /// Holds, with which calls that must run alone prevent collectors from being called.
    pub holds: Holds,
    phase: Mutex<Phase>,
    changed: Condvar,
    operators: Mutex<Vec<Weak<dyn Component>>>,
    collectors: Mutex<Vec<Weak<dyn Component>>>,
}

#[derive(Default)]
struct Phase {
    life: Option<Arc<Life>>,
    /// Reason why the last child exited or failed to start.
    error: Option<Ended>,
    /// Number of failed starts plus the number of children that exited.
    failures: u64,
    /// Number of successful starts after the first one.
    restarts: u64,
    /// Whether the process is no longer used.
    is_ended: bool,
}

impl Phase {
    /// Returns whether too many starts have failed since there were `begun` failures.
    fn gives_up_since(&self, begun: u64) -> bool {
        let is_killed = self.error.as_ref().is_some_and(|ended| ended.is_by_kill);
        let most = if is_killed { KILLED_STARTS_MAX } else { FAILED_STARTS_MAX };
        self.failures >= begun + most
    }
}

/// The state of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessState {
    /// Name of the process.
    pub name: String,
    /// Process id, while the process is running.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u64,
    /// Reason why the process is not running.
    pub error: Option<String>,
}

impl Inner {
    /// Starts a process, and waits for its first child.
    ///
    /// # Errors
    /// Returns an error if the process cannot start.
    pub fn start(name: &str, options: &ProcessOptions) -> Result<Arc<Inner>, StartError> {
        let failed = |reason| StartError::Process { name: name.to_owned(), reason };
        let state = Arc::new(State {
            name: name.to_owned(),
            log_target: format!("{}::{name}", module_path!()),
            options: options.clone(),
            pool: Pool::new(options.jvm.threads),
            gate: RwLock::new(()),
            holds: Holds::default(),
            phase: Mutex::default(),
            changed: Condvar::new(),
            operators: Mutex::default(),
            collectors: Mutex::default(),
        });
        let inner = Arc::new(Inner { state: Arc::clone(&state) });
        let supervised = Arc::clone(&state);
        let thread = thread::Builder::new().name(format!("jvm-{name}"));
        thread.spawn(move || supervised.supervise()).map_err(|error| failed(error.to_string()))?;
        state.first().map_err(failed)?;
        Ok(inner)
    }

    pub fn state(&self) -> &Arc<State> {
        &self.state
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let life = {
            let mut phase = self.state.phase.lock();
            phase.is_ended = true;
            phase.life.take()
        };
        self.state.changed.notify_all();
        let Some(life) = life else { return };
        // Let another thread wait for the exit. The supervisor reaps the child.
        let ended = thread::Builder::new().name("jvm-end".to_owned());
        let other = Arc::clone(&life);
        if ended.spawn(move || other.end(END_TIME)).is_err() {
            life.end(Duration::ZERO);
        }
    }
}

impl State {
    /// Returns the state of the process for its users.
    pub fn process_state(&self) -> ProcessState {
        let phase = self.phase.lock();
        let life = phase.life.as_ref().filter(|life| !life.is_over());
        ProcessState {
            name: self.name.clone(),
            pid: life.map(|life| life.pid()),
            restarts: phase.restarts,
            error: phase.error.as_ref().filter(|_| life.is_none()).map(Ended::to_string),
        }
    }

    /// Returns whether the process has these options.
    pub fn has_options(&self, options: &ProcessOptions) -> bool {
        self.options == *options
    }

    /// Returns the running child.
    pub fn current(&self) -> Option<Arc<Life>> {
        self.phase.lock().life.clone().filter(|life| !life.is_over())
    }

    /// Returns the error for a call for which no child is running.
    pub fn ended(&self) -> CallError {
        let ended = self.phase.lock().error.as_ref().map(Ended::to_string);
        let reason = ended.map_or(String::new(), |reason| format!(": {reason}"));
        CallError::ProcessEnded(format!("process {} does not run{reason}", self.name))
    }

    /// Waits for a child; returns `None` once `enough` returns true. Calls `enough` at regular
    /// intervals.
    pub fn life(&self, enough: impl Fn() -> bool) -> Option<Arc<Life>> {
        self.wait_for_life(|_| enough())
    }

    fn wait_for_life(&self, has_enough: impl Fn(&Phase) -> bool) -> Option<Arc<Life>> {
        let mut phase = self.phase.lock();
        loop {
            if let Some(life) = phase.life.as_ref().filter(|life| !life.is_over()) {
                return Some(Arc::clone(life));
            }
            if has_enough(&phase) {
                return None;
            }
            self.changed.wait_for(&mut phase, LOOK);
        }
    }

    /// Returns the child for a first registration. Waits for a start that is in progress, and,
    /// after a kill from outside, also for the next starts, because these may succeed. After that,
    /// the reason for the failure is known.
    ///
    /// # Errors
    /// Returns the reason why no child is running.
    pub fn first_life(&self) -> Result<Arc<Life>, ControlError> {
        // Do not count a child that was running and has exited in the meantime as a failed start.
        let begun = self.phase.lock().failures + 1;
        let gone = || ControlError::Process(self.ended().to_string());
        self.wait_for_life(|phase| phase.gives_up_since(begun)).ok_or_else(gone)
    }

    /// Registers an operator in each new child, until the operator is dropped.
    pub fn add_operator(&self, operator: &Arc<dyn Component>) {
        add(&self.operators, operator);
    }

    /// Registers a collector in each child, starting with the next one, until the collector is
    /// dropped.
    pub fn add_collector(&self, collector: &Arc<dyn Component>) {
        add(&self.collectors, collector);
    }

    /// Prevents collectors from being called in new children as long as the result lives.
    pub fn hold_collectors(&self) -> Hold<'_> {
        self.holds.add();
        Hold(self)
    }

    /// Registers all collectors in a child, and starts calling them, unless this has already been
    /// done.
    fn settle_collectors(&self, life: &Arc<Life>) {
        used(&self.collectors).iter().for_each(|collector| collector.settle(life));
    }

    /// Wakes the threads that are waiting for a child.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits for the first successful start; returns the reason if the start fails.
    fn first(&self) -> Result<(), String> {
        match self.wait_for_life(|phase| phase.gives_up_since(0)) {
            Some(_) => Ok(()),
            None => Err(self.phase.lock().error.as_ref().map(Ended::to_string).unwrap_or_default()),
        }
    }

    /// Runs the process's thread, which starts children as long as the process is used.
    fn supervise(&self) {
        let (mut number, mut short_lives) = (0, 0);
        // Time since which no child is running.
        let mut down = Instant::now();
        while self.pause(pause(short_lives)) {
            number += 1;
            let begin = Instant::now();
            let ended = match Life::start(&self.name, number, &self.options, &self.pool) {
                Ok(life) => {
                    let ended = self.live(Arc::new(life), down);
                    short_lives = if begin.elapsed() >= LIVED { 1 } else { short_lives + 1 };
                    down = Instant::now();
                    ended
                }
                Err(ended) => {
                    // Increase the pause at once, because the reason rarely disappears quickly.
                    short_lives = (short_lives + 1).max(2);
                    log::error!(target: &self.log_target, "jvm process {} did not start: {ended}", self.name);
                    ended
                }
            };
            let mut phase = self.phase.lock();
            (phase.life, phase.error) = (None, Some(ended));
            phase.failures += 1;
            drop(phase);
            self.changed.notify_all();
        }
    }

    /// Makes a child available to callers until it exits; returns how it exited. No child has been
    /// running since `down`.
    fn live(&self, life: Arc<Life>, down: Instant) -> Ended {
        let is_restart = life.number > 1;
        used(&self.operators).iter().for_each(|operator| operator.settle(&life));
        self.settle_collectors(&life);
        if is_restart {
            let (name, pid, time) = (&self.name, life.pid(), down.elapsed());
            log::info!(target: &self.log_target, "jvm process {name} is running again after {time:.1?}, as process {pid}");
        }
        {
            let mut phase = self.phase.lock();
            if !phase.is_ended {
                phase.life = Some(Arc::clone(&life));
            }
            phase.restarts += u64::from(is_restart);
            if phase.is_ended {
                life.end(Duration::ZERO);
            }
        }
        self.changed.notify_all();
        while !life.ends_within(REGISTER_AGAIN) {
            self.settle_collectors(&life);
        }
        let ended = life.wait();
        if !self.phase.lock().is_ended {
            let name = &self.name;
            log::error!(
                target: &self.log_target,
                "jvm process {name} has exited: {ended}; its components continue in the next \
                 process"
            );
        }
        ended
    }

    /// Waits for `time`; returns whether the process is still used.
    fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut phase = self.phase.lock();
        while !phase.is_ended && Instant::now() < until {
            self.changed.wait_until(&mut phase, until);
        }
        !phase.is_ended
    }
}

/// Prevents collectors from being called. They are called again after the last hold is dropped.
pub struct Hold<'a>(&'a State);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if self.0.holds.remove() {
            used(&self.0.collectors).iter().for_each(|collector| collector.resume());
        }
    }
}

/// Adds an item, and removes items that are no longer used.
fn add<T: ?Sized>(to: &Mutex<Vec<Weak<T>>>, one: &Arc<T>) {
    let mut to = to.lock();
    to.retain(|one| one.strong_count() > 0);
    to.push(Arc::downgrade(one));
}

/// Returns the items that are still used, and removes all other items.
fn used<T: ?Sized>(all: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    let mut all = all.lock();
    all.retain(|one| one.strong_count() > 0);
    all.iter().filter_map(Weak::upgrade).collect()
}

/// Returns the pause before a start after this many short-lived children.
fn pause(short_lives: u32) -> Duration {
    match short_lives.checked_sub(2) {
        None => Duration::ZERO,
        Some(doublings) => PAUSE_MIN.saturating_mul(1 << doublings.min(10)).min(PAUSE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_longer_used_is_forgotten() {
        let (all, kept) = (Mutex::default(), Arc::new(0));
        add(&all, &kept);
        (1..100).for_each(|number| add(&all, &Arc::new(number)));
        assert!(all.lock().len() <= 2);
        assert_eq!(used(&all), [kept]);
        assert_eq!(all.lock().len(), 1);
    }

    #[test]
    fn the_first_start_is_at_once_and_later_ones_are_rarer() {
        let pauses: Vec<u64> = (0..12).map(|count| pause(count).as_millis() as u64).collect();
        assert_eq!(pauses, [0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
    }
}
