//! Counters of one component, updated once per batch.

use crate::flights::Flights;
use crate::histogram::{Histogram, HistogramSnapshot};
use crate::secrets;
use millstream_profiler::{Component, Entered};
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum number of characters kept from the last error.
const LAST_ERROR_CHARS_MAX: usize = 400;

/// Counters of one component, updated by every thread without waiting. Drops and waits are also
/// recorded as events.
#[derive(Default)]
pub struct Counters {
    /// The component as it appears in recorded events.
    subject: OnceLock<Subject>,
    /// The component as it appears in profiles.
    component: Component,
    received_events: AtomicU64,
    received_bytes: AtomicU64,
    sent_events: AtomicU64,
    sent_bytes: AtomicU64,
    busy_ns: AtomicU64,
    worker_ns: AtomicU64,
    sampled_busy_ns: AtomicU64,
    utilization_ppm: AtomicU64,
    rebalances: AtomicU64,
    series: AtomicU64,
    has_series: AtomicBool,
    waits: Mutex<BTreeMap<&'static str, Duration>>,
    dropped: Mutex<BTreeMap<&'static str, u64>>,
    dropped_on_error: Mutex<BTreeMap<&'static str, u64>>,
    dropped_bytes: Mutex<BTreeMap<&'static str, u64>>,
    held: Mutex<Option<HeldFiles>>,
    finished_files: AtomicU64,
    errors: Mutex<BTreeMap<&'static str, u64>>,
    noted: Mutex<BTreeMap<&'static str, u64>>,
    last_error: Mutex<Option<String>>,
    accepted_events: AtomicU64,
    flights: Arc<Flights>,
    emit_delay: OnceLock<Histogram>,
}

/// Deleted files that a source keeps open or linked because they are not settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HeldFiles {
    /// Number of files.
    pub files: u64,
    /// Size of the files on disk, in bytes.
    pub bytes: u64,
    /// Size on disk, in bytes, of the copies of files that are also held open.
    pub copied_bytes: u64,
    /// Limit on the size on disk, in bytes.
    pub bytes_max: u64,
}

/// Values of all counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct CountersSnapshot {
    /// Events that the component received.
    pub received_events: u64,
    /// Bytes of the received events.
    pub received_bytes: u64,
    /// Events that the component sent.
    pub sent_events: u64,
    /// Bytes of the sent events.
    pub sent_bytes: u64,
    /// Busy time of all threads, in seconds.
    pub busy_seconds: f64,
    /// Busy time of workers, in seconds: reading, transforming and encoding. The remaining busy
    /// time is spent in deliveries, receivers and operator calls, and may be mostly waiting.
    pub worker_seconds: f64,
    /// Busy time as a share of the last sampling interval, summed over threads.
    pub utilization_ratio: f64,
    /// Series that a metric source holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<u64>,
    /// Number of times that a consumer group assigned partitions to a source or revoked partitions.
    #[serde(skip_serializing_if = "is_zero")]
    pub rebalances: u64,
    /// Time spent waiting, in seconds, by cause.
    pub wait_seconds: BTreeMap<&'static str, f64>,
    /// Events dropped, by reason.
    pub dropped_events: BTreeMap<&'static str, u64>,
    /// Events that `on_error: drop` dropped, by reason. `dropped_events` includes them.
    #[serde(skip)]
    pub dropped_on_error: BTreeMap<&'static str, u64>,
    /// Bytes dropped, by reason, where known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped_bytes: BTreeMap<&'static str, u64>,
    /// The deleted files that a source currently holds; `None` for components that never hold
    /// files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldFiles>,
    /// Number of files that a source has finished. These files are not among its open origins.
    #[serde(skip_serializing_if = "is_zero")]
    pub finished_files: u64,
    /// Errors, by type.
    pub errors: BTreeMap<&'static str, u64>,
    /// Events that passed with a change (truncated, bytes replaced), by kind of change.
    pub noted_events: BTreeMap<&'static str, u64>,
    /// Events that the sink's endpoint has accepted in requests; some of these events may belong to
    /// batches that are not settled. 0 for sinks that do not count accepted events.
    #[serde(skip_serializing_if = "is_zero")]
    pub accepted_events: u64,
    /// Reason for the last rejection or failure; `None` before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Time from the end of each window until its results are emitted; `None` for components
    /// without windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emit_delay: Option<HistogramSnapshot>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn add<T: std::ops::AddAssign + Default>(
    map: &Mutex<BTreeMap<&'static str, T>>,
    key: &'static str,
    n: T,
) {
    let mut map = map.lock();
    *map.entry(key).or_default() += n;
}

fn read<T: Copy, U>(
    map: &Mutex<BTreeMap<&'static str, T>>,
    to: impl Fn(T) -> U,
) -> BTreeMap<&'static str, U> {
    let map = map.lock();
    map.iter().map(|(k, v)| (*k, to(*v))).collect()
}

impl Counters {
    /// Returns the counters for the component `id`.
    pub fn of(id: &str) -> Counters {
        let (subject, component) = (Subject::component(id).into(), Component::named(id));
        Counters { subject, component, ..Counters::default() }
    }

    /// Makes the component the root of the calling thread's samples in a profile, until the result is
    /// dropped.
    #[inline]
    pub fn enter(&self) -> Entered {
        self.component.enter()
    }

    /// Returns the component as it appears in recorded events.
    pub fn subject(&self) -> &Subject {
        self.subject.get_or_init(|| Subject::component(""))
    }

    /// Records that the component has processed a batch, as an event of the recorder.
    #[inline]
    pub fn record_stage(&self, timer: Timer, events: u64, bytes: u64) {
        record::batch_stage(timer, self.subject(), events as usize, bytes as usize);
    }

    /// Counts events and bytes received.
    pub fn received(&self, events: u64, bytes: u64) {
        self.received_events.fetch_add(events, Relaxed);
        self.received_bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the bytes received so far.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Relaxed)
    }

    /// Counts events and bytes sent.
    pub fn sent(&self, events: u64, bytes: u64) {
        self.sent_events.fetch_add(events, Relaxed);
        self.sent_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts busy time.
    pub fn busy(&self, time: Duration) {
        self.busy_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Counts busy time of a worker.
    pub fn worked(&self, time: Duration) {
        self.busy(time);
        self.worker_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Closes a sampling interval. Utilization is the busy share of the interval, summed over
    /// threads, so two busy threads give 2. Only one thread may call this.
    pub fn sample(&self, interval: Duration) {
        let busy = self.busy_ns.load(Relaxed);
        let spent = busy.saturating_sub(self.sampled_busy_ns.swap(busy, Relaxed));
        let ppm = spent as u128 * 1_000_000 / interval.as_nanos().max(1);
        self.utilization_ppm.store(ppm as u64, Relaxed);
    }

    /// Counts time spent waiting, by cause (`retry`, `cpu`, `rate_limit`).
    pub fn waited(&self, what: &'static str, time: Duration) {
        add(&self.waits, what, time);
    }

    /// Counts a wait that ends now, and that a limit of `limit` per second has caused.
    pub fn throttled(&self, what: &'static str, time: Duration, limit: f64) {
        self.waited(what, time);
        let timer = recorder::start(EventKind::Throttle).earlier(time);
        record::throttle(timer, self.subject(), what, limit);
    }

    /// Counts events dropped for `reason`.
    pub fn dropped(&self, reason: &'static str, events: u64) {
        if events > 0 {
            add(&self.dropped, reason, events);
            record::dropped(self.subject(), reason, events as usize);
        }
    }

    /// Counts events that failed for `reason` and that the `on_error` option drops.
    pub fn dropped_on_error(&self, reason: &'static str, events: u64) {
        self.dropped(reason, events);
        if events > 0 {
            add(&self.dropped_on_error, reason, events);
        }
    }

    /// Counts bytes dropped for `reason`, in addition to their events.
    pub fn dropped_bytes(&self, reason: &'static str, bytes: u64) {
        if bytes > 0 {
            add(&self.dropped_bytes, reason, bytes);
        }
    }

    /// Sets the number and size of the deleted files that a source holds.
    pub fn set_held(&self, held: HeldFiles) {
        *self.held.lock() = Some(held);
    }

    /// Sets the number of files that a source has finished. These files are not among its open
    /// origins.
    pub fn set_finished_files(&self, files: u64) {
        self.finished_files.store(files, Relaxed);
    }

    /// Registers drop reasons with a count of 0, so that alerts see the first increase.
    pub fn register_drop_reasons(&self, reasons: &[&'static str]) {
        reasons.iter().for_each(|reason| add(&self.dropped, reason, 0));
    }

    /// Sets the number of series that a source holds.
    pub fn set_series(&self, series: u64) {
        self.series.store(series, Relaxed);
        self.has_series.store(true, Relaxed);
    }

    /// Counts an assignment or a revocation of partitions by a consumer group.
    pub fn rebalanced(&self) {
        self.rebalances.fetch_add(1, Relaxed);
    }

    /// Counts an error.
    pub fn error(&self, kind: &'static str) {
        add(&self.errors, kind, 1);
    }

    /// Adds `errors` to the error count for a kind.
    pub fn errors(&self, kind: &'static str, errors: u64) {
        if errors > 0 {
            add(&self.errors, kind, errors);
        }
    }

    /// Counts events that an endpoint has accepted.
    pub fn accepted(&self, events: u64) {
        self.accepted_events.fetch_add(events, Relaxed);
    }

    /// Returns the tracker of the time that requests spend at the endpoint. It stays unused unless
    /// the sink counts its requests.
    pub fn flights(&self) -> &Arc<Flights> {
        &self.flights
    }

    /// Stores the reason for a rejection or failure, replacing the previous reason. The text is
    /// reduced to one line of at most 400 characters, without control characters or secrets.
    pub fn set_last_error(&self, text: &str) {
        let text = secrets::mask(text);
        let line = text.chars().map(|char| if char.is_control() { ' ' } else { char });
        let line = line.take(LAST_ERROR_CHARS_MAX).collect();
        *self.last_error.lock() = Some(line);
    }

    /// Counts events that passed with a change (`truncated`, `invalid_utf8`).
    pub fn noted(&self, what: &'static str, events: u64) {
        if events > 0 {
            add(&self.noted, what, events);
        }
    }

    /// Returns the histogram of the time from the end of a window until its results are emitted.
    /// The first call makes the histogram visible.
    pub fn emit_delay(&self) -> &Histogram {
        self.emit_delay.get_or_init(Histogram::default)
    }

    /// Returns the values of all counters.
    pub fn snapshot(&self) -> CountersSnapshot {
        CountersSnapshot {
            received_events: self.received_events.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            sent_events: self.sent_events.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            busy_seconds: self.busy_ns.load(Relaxed) as f64 / 1e9,
            worker_seconds: self.worker_ns.load(Relaxed) as f64 / 1e9,
            utilization_ratio: self.utilization_ppm.load(Relaxed) as f64 / 1e6,
            series: self.has_series.load(Relaxed).then(|| self.series.load(Relaxed)),
            rebalances: self.rebalances.load(Relaxed),
            wait_seconds: read(&self.waits, |t: Duration| t.as_secs_f64()),
            dropped_events: read(&self.dropped, |n| n),
            dropped_on_error: read(&self.dropped_on_error, |n| n),
            dropped_bytes: read(&self.dropped_bytes, |n| n),
            held: *self.held.lock(),
            finished_files: self.finished_files.load(Relaxed),
            errors: read(&self.errors, |n| n),
            noted_events: read(&self.noted, |n| n),
            last_error: self.last_error.lock().clone(),
            accepted_events: self.accepted_events.load(Relaxed),
            emit_delay: self.emit_delay.get().map(Histogram::snapshot),
        }
    }
}
