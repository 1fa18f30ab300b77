//! A running profile. Its thread finds threads and objects, and aggregates samples.

use crate::buffer::{Buffer, Sample};
use crate::clocks::Clocks;
use crate::component;
use crate::handler::{Active, Sampler};
use crate::maps::Maps;
use crate::modules::Modules;
use crate::profile::{RawProfile, Stack};
use crate::runtime::{self, MethodAddress, Runtime, RuntimeMethod};
use crate::settings::{Event, Settings, StartError};
use crate::stack::Tables;
use crate::threads::Threads;
use crate::timer;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Number of intervals between two rounds. A new thread is not sampled until the next round, and
/// the buffer must have room for one round of samples.
const ROUND_INTERVALS: u32 = 10;

/// Minimum time between two rounds.
const ROUND_MIN: Duration = Duration::from_millis(100);

/// Maximum time between two rounds.
const ROUND_MAX: Duration = Duration::from_secs(1);

/// Maximum total size of distinct stacks in bytes. An hour-long profile can have many of them.
const STACKS_BYTES_MAX: usize = 16 << 20;

/// Whether a profile is running in this process.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// Number of profiles started so far.
static PROFILES: AtomicU32 = AtomicU32::new(0);

/// Starts a profile of all threads in this process.
///
/// Before the first sample, the unwind information of all loaded objects is read. This takes tens
/// of milliseconds of CPU time, and a few megabytes of memory until the profile ends.
pub fn start(settings: Settings) -> Result<Session, StartError> {
    settings.check()?;
    if settings.event == Event::Alloc && runtime::runtime().is_none() {
        return Err(StartError::NoRuntime);
    }
    let claim = Claim::new()?;
    let collector = Collector::new(settings, claim)?;
    let (requests, received) = mpsc::channel();
    let thread = thread::Builder::new().name("profiler".to_owned());
    let thread = thread.spawn(move || collector.run(&received));
    let thread = thread.map_err(StartError::system("start a thread"))?;
    Ok(Session { requests: Some(requests), thread: Some(thread) })
}

/// A running profile. Dropping it ends the profile.
#[derive(Debug)]
pub struct Session {
    /// Sends requests for the samples so far. Dropping the sender ends the thread.
    requests: Option<Sender<Sender<RawProfile>>>,
    thread: Option<JoinHandle<RawProfile>>,
}

impl Session {
    /// Returns the samples since the start or the last call, and continues sampling. Returns `None`
    /// if the session's thread has panicked.
    pub fn take(&self) -> Option<RawProfile> {
        let (reply, profile) = mpsc::channel();
        self.requests.as_ref()?.send(reply).ok()?;
        profile.recv().ok()
    }

    /// Ends the profile and returns its samples.
    pub fn stop(mut self) -> RawProfile {
        match self.end() {
            Some(Ok(profile)) => profile,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => unreachable!("only this and the end of the session take the thread"),
        }
    }

    fn end(&mut self) -> Option<thread::Result<RawProfile>> {
        drop(self.requests.take());
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Ignore the result, because a panic has already been reported and the profile is not
        // needed.
        _ = self.end();
    }
}

/// The exclusive right to profile the process.
struct Claim;

impl Claim {
    fn new() -> Result<Claim, StartError> {
        match IS_RUNNING.swap(true, Ordering::SeqCst) {
            true => Err(StartError::Running),
            false => Ok(Claim),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        IS_RUNNING.store(false, Ordering::SeqCst);
    }
}

/// Identifies samples with the same thread, component and stack.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    thread: u32,
    component: u32,
    is_truncated: bool,
    addresses: Box<[u64]>,
}

/// Counts the samples of each distinct stack, in bounded memory.
#[derive(Default)]
struct Stacks {
    counts: HashMap<Key, u64>,
    bytes: usize,
    /// Number of samples that were lost because there was no space for their stack.
    lost: u64,
}

impl Stacks {
    fn add(&mut self, sample: &Sample<'_>, bytes_max: usize) {
        let weight = u64::from(sample.weight);
        let key = Key {
            thread: sample.thread,
            component: sample.component,
            is_truncated: sample.is_truncated,
            addresses: sample.addresses.into(),
        };
        if let Some(count) = self.counts.get_mut(&key) {
            *count += weight;
            return;
        }
        let bytes = size_of::<(Key, u64)>() + size_of_val(&*key.addresses);
        if self.bytes + bytes > bytes_max {
            self.lost += weight;
            return;
        }
        self.bytes += bytes;
        self.counts.insert(key, weight);
    }
}

/// State of the profile's thread. The fields are dropped in order: the sampler before the clocks,
/// because handlers read the clocks' memory, and the claim last.
struct Collector {
    active: Active,
    threads: Threads,
    settings: Settings,
    modules: Modules,
    stacks: Stacks,
    begun: Instant,
    cpu_before: Duration,
    /// The runtime, once it is prepared for this profile.
    runtime: Option<&'static dyn Runtime>,
    _claim: Claim,
}

impl Collector {
    /// Starts sampling, and starts the clocks or timers of all running threads.
    fn new(settings: Settings, claim: Claim) -> Result<Collector, StartError> {
        let number = PROFILES.fetch_add(1, Ordering::Relaxed);
        let clocks = Arc::new(Clocks::new(settings.interval));
        let mut modules = Modules::default();
        let mut threads = Threads::new(settings, number, Arc::clone(&clocks));
        let failed = StartError::system("read /proc/self/task");
        let found = threads.find().map_err(failed)?;
        let maps = Maps::read().map_err(StartError::system("read /proc/self/maps"))?;
        modules.update(&maps);
        let buffer = Buffer::new(settings.buffer_bytes);
        let sampler =
            Box::new(Sampler::new(number, settings.event, buffer, clocks, tables(&modules, maps)));
        let active = Active::start(sampler)?;
        let (begun, cpu_before) = (Instant::now(), timer::process_cpu_time());
        threads.watch(&found);
        let stacks = Stacks::default();
        Ok(Collector {
            threads,
            active,
            settings,
            modules,
            stacks,
            begun,
            cpu_before,
            runtime: None,
            _claim: claim,
        })
    }

    fn run(mut self, requests: &Receiver<Sender<RawProfile>>) -> RawProfile {
        let round = (self.settings.interval * ROUND_INTERVALS).clamp(ROUND_MIN, ROUND_MAX);
        loop {
            self.discover();
            self.begin_runtime();
            match requests.recv_timeout(round) {
                // The requester might no longer be waiting.
                Ok(reply) => {
                    let blocked = self.threads.look();
                    _ = reply.send(self.take(blocked));
                }
                Err(RecvTimeoutError::Timeout) => self.drain(),
                Err(RecvTimeoutError::Disconnected) => {
                    let blocked = self.threads.look();
                    // End sampling first, because handlers read the clocks' memory.
                    self.active.end();
                    self.threads.end();
                    let profile = self.take(blocked);
                    self.runtime.iter().for_each(|runtime| runtime.end());
                    return profile;
                }
            }
        }
    }

    /// Prepares the runtime, which can be set after the profile starts.
    fn begin_runtime(&mut self) {
        if self.runtime.is_none()
            && let Some(runtime) = runtime::runtime()
        {
            runtime.begin(self.settings.event);
            self.runtime = Some(runtime);
        }
    }

    /// Finds new threads and objects. Updates the tables before a new thread takes its first
    /// sample.
    fn discover(&mut self) {
        // Data that cannot be read in this round is read in the next one.
        let Ok(found) = self.threads.find() else { return };
        if found.is_empty() && !self.modules.has_changed() {
            return;
        }
        let Ok(maps) = Maps::read() else { return };
        self.modules.update(&maps);
        self.active.sampler().set_tables(tables(&self.modules, maps));
        self.threads.watch(&found);
    }

    fn drain(&mut self) {
        let (stacks, threads) = (&mut self.stacks, &mut self.threads);
        let is_alloc = self.settings.event == Event::Alloc;
        self.active.sampler().buffer.drain(|sample| {
            // Handlers get the index from their clock or timer. An allocating thread has only its
            // system id.
            let thread = if is_alloc { threads.index(sample.thread) } else { sample.thread };
            stacks.add(&Sample { thread, ..*sample }, STACKS_BYTES_MAX);
        });
    }

    /// Returns the samples since the start or the last call. `blocked` is the number of threads
    /// that block the signal.
    fn take(&mut self, blocked: u64) -> RawProfile {
        let (now, cpu_now) = (Instant::now(), timer::process_cpu_time());
        let begun = std::mem::replace(&mut self.begun, now);
        let cpu_before = std::mem::replace(&mut self.cpu_before, cpu_now);
        self.drain();
        // Samples can contain addresses in objects that were loaded since the last round.
        if let Ok(maps) = Maps::read() {
            self.modules.update(&maps);
        }
        let stacks = std::mem::take(&mut self.stacks);
        let methods = self.methods(&stacks);
        RawProfile {
            pid: std::process::id(),
            event: self.settings.event,
            interval_ns: match self.settings.event {
                Event::Alloc => 0,
                Event::Cpu | Event::Wall => self.settings.interval.as_nanos() as u64,
            },
            duration_ns: (now - begun).as_nanos() as u64,
            cpu_ns: cpu_now.saturating_sub(cpu_before).as_nanos() as u64,
            stacks: stacks.counts.into_iter().map(|(key, count)| stack(key, count)).collect(),
            threads: self.threads.names.clone(),
            components: component::names(),
            modules: self.modules.all.clone(),
            methods,
            lost: self.active.sampler().buffer.take_lost() + stacks.lost,
            threads_sampled_at_ticks: self.threads.without_clock,
            threads_without_timer: self.threads.without_timer,
            threads_with_blocked_signal: blocked,
        }
    }
}

impl Collector {
    /// Describes the methods that occur in stacks.
    fn methods(&self, stacks: &Stacks) -> Vec<RuntimeMethod> {
        let Some(runtime) = self.runtime else { return Vec::new() };
        let addresses = stacks.counts.keys().flat_map(|key| key.addresses.iter());
        let methods: BTreeSet<MethodAddress> =
            addresses.filter_map(|address| MethodAddress::of(*address)).collect();
        match methods.is_empty() {
            true => Vec::new(),
            false => runtime.describe(&methods.into_iter().collect::<Vec<_>>()),
        }
    }
}

fn stack(key: Key, count: u64) -> Stack {
    Stack {
        thread: key.thread,
        component: key.component,
        count,
        addresses: key.addresses.into_vec(),
        is_truncated: key.is_truncated,
    }
}

fn tables(modules: &Modules, maps: Maps) -> Tables {
    Tables { code: modules.code.clone(), memory: maps.memory, main_stack: maps.main_stack }
}

#[cfg(test)]
mod tests {
    use super::{Sample, Stacks};

    #[test]
    fn stacks_take_bounded_memory_and_the_rest_is_counted_as_lost() {
        let mut stacks = Stacks::default();
        let mut add = |address: u64| {
            let addresses = &[address, 2][..];
            let sample =
                Sample { thread: 1, component: 0, weight: 2, is_truncated: false, addresses };
            stacks.add(&sample, 1000);
        };
        (0..100).for_each(&mut add);
        (0..100).for_each(&mut add);
        let kept: u64 = stacks.counts.values().sum();
        assert!((2..100).contains(&stacks.counts.len()) && stacks.bytes <= 1000);
        assert_eq!((kept, kept + stacks.lost), (4 * stacks.counts.len() as u64, 400));
    }
}
