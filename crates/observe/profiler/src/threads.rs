//! The threads of the process, and the clocks or timers that signal them.

use crate::clocks::{Clocks, TaskClock};
use crate::handler;
use crate::profile::ThreadName;
use crate::settings::{Event, Settings};
use crate::timer::Timer;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

/// Number of rounds after which a thread has its final name. At first, a thread has its creator's
/// name.
const NAMING_ROUNDS: u32 = 3;

/// The clock or timer that signals a thread. Dropping it stops the signals.
enum Signal {
    Clock { _clock: TaskClock },
    Timer { _timer: Timer },
}

/// A running thread.
struct Running {
    /// Index of the thread in the name list.
    index: u32,
    rounds: u32,
    /// Signals the thread when a sample is due. `None` if there is no clock or timer.
    _signal: Option<Signal>,
}

/// The threads found so far.
pub(crate) struct Threads {
    settings: Settings,
    /// Profile number.
    number: u32,
    clocks: Arc<Clocks>,
    running: HashMap<u32, Running>,
    pub names: Vec<ThreadName>,
    pub without_clock: u64,
    pub without_timer: u64,
}

impl Threads {
    /// Creates the list with only the main thread, which has index 0 and is not signaled yet.
    pub fn new(settings: Settings, number: u32, clocks: Arc<Clocks>) -> Threads {
        Threads {
            settings,
            number,
            clocks,
            running: HashMap::new(),
            names: vec![ThreadName { tid: std::process::id(), name: String::new() }],
            without_clock: 0,
            without_timer: 0,
        }
    }

    /// Returns the running threads that [`Threads::watch`] has not seen yet. Removes threads that
    /// have exited, and rereads the names of recent threads.
    pub fn find(&mut self) -> io::Result<Vec<u32>> {
        let tids = running()?;
        self.running.retain(|tid, _| tids.binary_search(tid).is_ok());
        for (tid, thread) in &mut self.running {
            thread.rounds += 1;
            if thread.rounds <= NAMING_ROUNDS {
                self.names[thread.index as usize].set(*tid);
            }
        }
        Ok(tids.into_iter().filter(|tid| !self.running.contains_key(tid)).collect())
    }

    /// Starts signals for threads that [`Threads::find`] returned. The handler's tables must
    /// already contain the memory of their stacks.
    pub fn watch(&mut self, tids: &[u32]) {
        for &tid in tids {
            let index = match tid == self.names[0].tid {
                true => 0,
                false => {
                    self.names.push(ThreadName { tid, name: String::new() });
                    self.names.len() as u32 - 1
                }
            };
            self.names[index as usize].set(tid);
            let signal = self.signal(tid, index);
            self.running.insert(tid, Running { index, rounds: 0, _signal: signal });
        }
    }

    /// Returns the index of a thread that has taken a sample. If the thread is not known yet, it is
    /// added.
    pub fn index(&mut self, tid: u32) -> u32 {
        if !self.running.contains_key(&tid) {
            self.watch(&[tid]);
        }
        self.running.get(&tid).map_or(0, |thread| thread.index)
    }

    /// Starts a clock, or a timer if wall time is sampled or the clock cannot be started. Sampling
    /// allocations needs neither.
    fn signal(&mut self, tid: u32, index: u32) -> Option<Signal> {
        if self.settings.event == Event::Alloc {
            return None;
        }
        if self.settings.event == Event::Cpu {
            if let Ok(clock) = TaskClock::start(&self.clocks, tid, index) {
                return Some(Signal::Clock { _clock: clock });
            }
            self.without_clock += 1;
        }
        self.timer(tid, index).map(|timer| Signal::Timer { _timer: timer })
    }

    fn timer(&mut self, tid: u32, index: u32) -> Option<Timer> {
        let interval = self.settings.interval;
        // A random first interval prevents threads that start together from always being sampled
        // together.
        let first = Duration::from_nanos(fastrand::u64(1..=interval.as_nanos() as u64));
        let value = handler::value(self.number, index);
        let started = Timer::start(self.settings.event, tid, value, first, interval);
        // Any other error means that the thread has exited.
        let is_refused =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM));
        self.without_timer += u64::from(started.as_ref().err().is_some_and(is_refused));
        started.ok()
    }

    /// Rereads the names of the running threads. Returns the number of threads that block the
    /// signal.
    pub fn look(&mut self) -> u64 {
        for (tid, thread) in &self.running {
            self.names[thread.index as usize].set(*tid);
        }
        self.running.keys().filter(|tid| blocks_signal(**tid)).count() as u64
    }

    /// Stops the signals to all threads.
    pub fn end(&mut self) {
        self.running.clear();
    }
}

impl ThreadName {
    /// Rereads the name of a thread. A thread that has exited keeps its last name.
    fn set(&mut self, tid: u32) {
        if let Ok(name) = fs::read_to_string(format!("/proc/self/task/{tid}/comm")) {
            name.trim_end_matches('\n').clone_into(&mut self.name);
        }
    }
}

/// Returns the system ids of the running threads in ascending order.
fn running() -> io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc/self/task")?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut tids: Vec<u32> = entries.filter_map(|entry| number(entry.ok()?)).collect();
    tids.sort_unstable();
    Ok(tids)
}

/// Returns whether a thread blocks SIGPROF.
fn blocks_signal(tid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default() >> (libc::SIGPROF - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::{blocks_signal, running};
    use rustix::thread::gettid;
    use std::thread;

    #[test]
    fn this_thread_runs_and_blocks_no_signal() {
        let tid = gettid().as_raw_pid() as u32;
        assert!(running().unwrap().contains(&tid));
        assert!(!blocks_signal(tid));
    }

    #[test]
    fn a_blocked_signal_is_seen() {
        let block = || {
            // SAFETY: all zeros are a valid set, and the calls change only this thread's mask.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&mut set, libc::SIGPROF);
                libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                gettid().as_raw_pid() as u32
            }
        };
        assert!(thread::spawn(move || blocks_signal(block())).join().unwrap());
    }
}
