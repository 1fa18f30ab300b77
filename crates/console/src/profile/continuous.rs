//! Continuous profiling: the agent samples its threads at a low rate, and keeps the last minutes.
//!
//! The samples are collected in slices, so that old slices can be removed. A profile that a client
//! starts pauses continuous profiling, because a process has one profile at a time.

use crate::reply::{Reply, as_json, error};
use hyper::StatusCode;
use millstream_model::Interval;
use millstream_profiler::{Event, RawProfile, Session, Settings};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Time between two samples of a thread: 19 per second of its CPU time. At this rate, work that
/// repeats every 10 or 100 ms does not stay in phase with the samples.
const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 19);

/// Duration of a slice.
const SLICE: Duration = Duration::from_secs(10);

/// Maximum total size of all slices in bytes: about ten minutes of a busy agent with a hundred
/// threads.
const SLICES_BYTES_MAX: usize = 16 << 20;

/// Size in bytes of the buffer, which holds half a second of samples.
const BUFFER_BYTES: usize = 512 << 10;

/// Number of threads above which the session is restarted, because a session keeps the names of
/// threads that have exited.
const THREADS_MAX: usize = 4096;

/// The state of continuous profiling.
#[derive(Default)]
struct Continuous {
    session: Option<Session>,
    /// Error from the last attempt to start.
    failed: Option<String>,
    slices: Slices,
}

/// Setting from the configuration. Its lock is held only briefly.
struct Setting {
    /// How long samples are kept; `None` if continuous profiling is off.
    keep: Option<Duration>,
    /// Whether the task is running.
    has_task: bool,
}

static SETTING: Mutex<Setting> = Mutex::new(Setting { keep: None, has_task: false });

/// Continuous profiling. The lock is held while the profiler's thread responds, which may wait for
/// a JVM, so threads that deliver payloads must not take it.
static CONTINUOUS: LazyLock<Mutex<Continuous>> = LazyLock::new(Mutex::default);

/// Wakes the task after a change of the setting.
static CHANGED: Notify = Notify::const_new();

/// Samples of the last minutes, oldest first.
#[derive(Default)]
struct Slices {
    slices: VecDeque<Slice>,
    bytes: usize,
}

struct Slice {
    ended: Instant,
    bytes: usize,
    profile: RawProfile,
}

impl Slices {
    /// Adds a slice. A slice without samples keeps only its times, so that the slices of a quiet
    /// agent do not displace slices with samples.
    fn push(&mut self, mut profile: RawProfile, now: Instant) {
        if profile.stacks.is_empty() {
            (profile.threads, profile.modules) = (Vec::new(), Vec::new());
            profile.components = Vec::new();
        }
        let bytes = bytes(&profile);
        self.bytes += bytes;
        self.slices.push_back(Slice { ended: now, bytes, profile });
    }

    /// Removes slices that ended more than `keep` ago, and the oldest slices while all of them
    /// exceed `bytes_max`.
    fn trim(&mut self, now: Instant, keep: Duration, bytes_max: usize) {
        let is_old = |slice: &Slice| now.saturating_duration_since(slice.ended) > keep;
        while self.bytes > bytes_max || self.slices.front().is_some_and(is_old) {
            let Some(oldest) = self.slices.pop_front() else { return };
            self.bytes -= oldest.bytes;
        }
    }

    fn last(&self, now: Instant, time: Duration) -> impl Iterator<Item = RawProfile> {
        let is_within = move |slice: &&Slice| now.saturating_duration_since(slice.ended) < time;
        self.slices.iter().filter(is_within).map(|slice| slice.profile.clone())
    }
}

/// Returns the approximate memory of a profile in bytes.
fn bytes(profile: &RawProfile) -> usize {
    let stacks = profile.stacks.iter().map(|stack| size_of_val(stack) + 8 * stack.addresses.len());
    let threads = profile.threads.iter().map(|thread| size_of_val(thread) + thread.name.len());
    let modules = profile.modules.iter().map(|module| size_of_val(module) + module.path.len());
    let methods = profile.methods.iter().map(|method| size_of_val(method) + method.name.len());
    let components = profile.components.iter().map(|id| size_of_val(id) + id.len());
    stacks.chain(threads).chain(modules).chain(components).chain(methods).sum()
}

/// Turns continuous profiling on or off. Samples are kept for `keep`; `None` turns it off.
///
/// Must be called within a Tokio runtime.
pub fn keep_profiles(keep: Option<Duration>) {
    let mut setting = SETTING.lock();
    if setting.keep.is_some() != keep.is_some() {
        log::info!("continuous profiling is {}", if keep.is_some() { "on" } else { "off" });
    }
    setting.keep = keep;
    let starts = keep.is_some() && !std::mem::replace(&mut setting.has_task, keep.is_some());
    drop(setting);
    match starts {
        true => drop(tokio::spawn(run())),
        false => CHANGED.notify_one(),
    }
}

/// Collects a slice at regular intervals, until continuous profiling is off.
async fn run() {
    while tokio::task::spawn_blocking(|| CONTINUOUS.lock().step()).await.unwrap_or(false) {
        tokio::select! {
            () = tokio::time::sleep(SLICE) => {}
            () = CHANGED.notified() => {}
        }
    }
}

impl Continuous {
    /// Collects a slice, and starts sampling if it is not running. Returns whether continuous
    /// profiling is on.
    fn step(&mut self) -> bool {
        let keep = {
            let mut setting = SETTING.lock();
            setting.has_task = setting.keep.is_some();
            setting.keep
        };
        let Some(keep) = keep else {
            *self = Continuous::default();
            return false;
        };
        self.take();
        self.slices.trim(Instant::now(), keep, SLICES_BYTES_MAX);
        if self.session.is_none() && !super::is_running() {
            self.start();
        }
        true
    }

    fn start(&mut self) {
        let settings =
            Settings { event: Event::Cpu, interval: INTERVAL, buffer_bytes: BUFFER_BYTES };
        let failed = match millstream_profiler::start(settings) {
            Ok(session) => {
                self.session = Some(session);
                None
            }
            Err(failed) => Some(failed.to_string()),
        };
        if let Some(failed) = failed.as_ref().filter(|failed| self.failed.as_ref() != Some(failed))
        {
            log::warn!("cannot start continuous profiling: {failed}; retrying");
        }
        self.failed = failed;
    }

    /// Collects the samples since the last slice.
    fn take(&mut self) {
        let Some(session) = &self.session else { return };
        let profile = session.take();
        let is_full = profile.as_ref().is_none_or(|profile| profile.threads.len() > THREADS_MAX);
        profile.into_iter().for_each(|profile| self.slices.push(profile, Instant::now()));
        if is_full {
            self.session = None;
        }
    }
}

/// Stops sampling in favor of a client's profile, which is already running. Blocks for a few
/// milliseconds.
pub fn pause() {
    let mut continuous = CONTINUOUS.lock();
    if let Some(session) = continuous.session.take() {
        continuous.slices.push(session.stop(), Instant::now());
    }
}

/// Resumes sampling unless a client's profile is running.
pub fn resume() {
    CHANGED.notify_one();
}

/// The stored samples of continuous profiling.
#[derive(Serialize)]
pub struct StoredSamples {
    /// Maximum time that samples are kept, in seconds.
    keep_seconds: f64,
    /// Time covered by the samples, in seconds.
    sampled_seconds: f64,
    /// Memory of the samples in bytes.
    bytes: usize,
    /// Reason why no samples are collected; `null` if they are.
    error: Option<String>,
}

/// Returns the state of the stored samples; `None` if continuous profiling is off or another thread
/// holds the lock to collect samples.
pub fn kept() -> Option<StoredSamples> {
    let keep = SETTING.lock().keep?;
    let continuous = CONTINUOUS.try_lock()?;
    let sampled_ns: u64 =
        continuous.slices.slices.iter().map(|slice| slice.profile.duration_ns).sum();
    Some(StoredSamples {
        keep_seconds: keep.as_secs_f64(),
        sampled_seconds: Duration::from_nanos(sampled_ns).as_secs_f64(),
        bytes: continuous.slices.bytes,
        error: continuous.failed.clone(),
    })
}

/// Returns the samples from the period of length `last` before now.
pub async fn last(last: &str) -> Reply {
    let time: Interval = match last.parse() {
        Ok(time) => time,
        Err(failed) => return error(StatusCode::BAD_REQUEST, &format!("last: {failed}")),
    };
    match tokio::task::spawn_blocking(move || merged(time.0)).await {
        Ok(reply) => reply,
        Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, &failed.to_string()),
    }
}

fn merged(time: Duration) -> Reply {
    if SETTING.lock().keep.is_none() {
        let message = "continuous profiling is off: set profiler.continuous to true";
        return error(StatusCode::CONFLICT, message);
    }
    let mut continuous = CONTINUOUS.lock();
    continuous.take();
    let slices: Vec<RawProfile> = continuous.slices.last(Instant::now(), time).collect();
    let failed = continuous.failed.clone();
    drop(continuous);
    match millstream_profiler::merge(slices) {
        Some(profile) => as_json(StatusCode::OK, &profile),
        None => {
            let reason = failed.unwrap_or_else(|| "it has just started".to_owned());
            error(StatusCode::CONFLICT, &format!("continuous profiling has no samples: {reason}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_profiler::Stack;

    fn profile(stacks: u64) -> RawProfile {
        let stack = |address| Stack {
            thread: 0,
            component: 0,
            count: 1,
            addresses: vec![address],
            is_truncated: false,
        };
        RawProfile {
            pid: 1,
            event: Event::Cpu,
            interval_ns: 1,
            duration_ns: SLICE.as_nanos() as u64,
            cpu_ns: 0,
            threads: Vec::new(),
            components: Vec::new(),
            modules: Vec::new(),
            methods: Vec::new(),
            stacks: (0..stacks).map(stack).collect(),
            lost: 0,
            threads_sampled_at_ticks: 0,
            threads_without_timer: 0,
            threads_with_blocked_signal: 0,
        }
    }

    #[test]
    fn the_oldest_slices_are_forgotten_by_age_and_by_size() {
        let (begun, mut slices) = (Instant::now(), Slices::default());
        let at = |slice: u32| begun + SLICE * slice;
        (1..=10).for_each(|slice| slices.push(profile(2), at(slice)));
        let bytes = slices.bytes / 10;
        assert_eq!(slices.last(at(10), SLICE * 3).count(), 3);
        slices.trim(at(10), SLICE * 4, usize::MAX);
        assert_eq!((slices.slices.len(), slices.bytes), (5, 5 * bytes));
        slices.trim(at(10), SLICE * 4, 2 * bytes);
        assert_eq!((slices.slices.len(), slices.bytes), (2, 2 * bytes));
        slices.trim(at(100), SLICE, usize::MAX);
        assert_eq!((slices.slices.len(), slices.bytes), (0, 0));
    }
}
