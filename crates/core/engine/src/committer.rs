//! The thread that commits checkpoints and samples counters.

use crate::current::Current;
use crate::limits::COMMIT_INTERVAL;
use millstream_recorder::recorder;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Commits checkpoints once per interval and soon after each sync, and samples utilization.
#[derive(Default)]
pub(crate) struct Committer {
    state: Mutex<CommitterState>,
    wake: Condvar,
}

#[derive(Default)]
struct CommitterState {
    stopped: bool,
    wanted: bool,
}

impl Committer {
    /// Runs the thread's loop.
    pub fn run(&self, current: &Current) {
        let mut sampled = Instant::now();
        while !self.wait() {
            if let Err(error) = current.commit() {
                log::error!("cannot write checkpoints: {error}; retrying");
            }
            let core = current.core();
            let elapsed = sampled.elapsed();
            if elapsed >= COMMIT_INTERVAL {
                sampled = Instant::now();
                if let Err(error) = recorder::keep_time() {
                    log::warn!("the recorder uses only a small part of its file: {error}");
                }
                core.sample(elapsed);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, CommitterState> {
        self.state.lock()
    }

    /// Waits for the next interval or a sync; returns whether the thread must exit.
    fn wait(&self) -> bool {
        let idle = |state: &mut CommitterState| !state.stopped && !state.wanted;
        let mut state = self.lock();
        self.wake.wait_while_for(&mut state, idle, COMMIT_INTERVAL);
        state.wanted = false;
        state.stopped
    }

    /// Makes the thread commit without waiting for the next interval.
    pub fn commit_soon(&self) {
        self.lock().wanted = true;
        self.wake.notify_all();
    }

    /// Tells the thread to exit.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }
}
