//! Taps: listeners that get samples or traces of the events at one point in the topology.
//!
//! A tap never slows the data down. Without a tap, a point costs one relaxed load per batch. With a
//! tap, a worker copies a bounded number of events per second, and only if the listener has room
//! for them.

use crate::batch::{Batch, EventSample};
use crate::side::TapSide;
use crate::trace::{SamplePoint, TRACED_ROWS_MAX, Trace, TraceListener};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Maximum number of events that a tap copies per second: more than a person can read, but little
/// work for a worker.
pub const EVENTS_PER_SECOND: f64 = 1000.0;

/// Maximum bytes that a tap copies per second.
pub const BYTES_PER_SECOND: f64 = 4.0 * 1024.0 * 1024.0;

/// Number of events that must accrue before a tap that has used up its allowance copies again. A
/// few larger samples cost less than many samples of one event, each of which wakes the client.
const EVENTS_SAVED: f64 = 50.0;

/// Maximum number of events that a tap copies from one batch, so that no batch takes a long time.
pub const ROWS_MAX: usize = 500;

/// Receives a tap's samples.
pub trait Listener: Send + Sync {
    /// Takes the sample that `copy` creates, if there is room; never waits. Returns the bytes
    /// taken; `None` if there is no room, in which case `copy` was not called.
    fn offer(&self, copy: &mut dyn FnMut() -> EventSample) -> Option<usize>;
}

/// A point in the topology where taps listen.
#[derive(Default)]
pub struct TapPoint {
    is_tapped: AtomicBool,
    taps: RwLock<Vec<Arc<Tap>>>,
    /// Whether traces begin at this point.
    is_traced: AtomicBool,
    tracers: RwLock<Vec<Arc<Tracer>>>,
    /// Number of batches offered to tracers. It selects the tracer that is tried first.
    offered: AtomicUsize,
}

/// One listener at a point.
struct Tap {
    output: usize,
    /// Events that passed the point.
    passed: AtomicU64,
    allowance: Mutex<Allowance>,
    listener: Box<dyn Listener>,
}

/// Receives traces of the batches that a source issues.
struct Tracer {
    /// Where the events are copied.
    at: SamplePoint,
    allowance: Mutex<Allowance>,
    listener: Arc<dyn TraceListener>,
}

/// The events and bytes that a tap may currently copy.
struct Allowance {
    events: f64,
    bytes: f64,
    at: Instant,
    /// Whether the allowance was used up, and must first accrue to [`EVENTS_SAVED`].
    is_saving: bool,
}

impl Allowance {
    fn full(at: Instant) -> Allowance {
        let (events, bytes) = (EVENTS_PER_SECOND, BYTES_PER_SECOND);
        Allowance { events, bytes, at, is_saving: false }
    }

    /// Adds the allowance accrued until `now`; returns how many events may be copied.
    fn refill(&mut self, now: Instant) -> usize {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.events = (self.events + seconds * EVENTS_PER_SECOND).min(EVENTS_PER_SECOND);
        self.bytes = (self.bytes + seconds * BYTES_PER_SECOND).min(BYTES_PER_SECOND);
        self.is_saving &= self.events < EVENTS_SAVED;
        if self.is_saving || self.bytes <= 0.0 { 0 } else { (self.events as usize).min(ROWS_MAX) }
    }

    fn take(&mut self, events: usize, bytes: usize) {
        self.events -= events as f64;
        self.bytes -= bytes as f64;
        // The remaining allowance is too small for another copy of this size.
        self.is_saving |= self.events < (events as f64).clamp(1.0, EVENTS_SAVED);
    }
}

impl TapPoint {
    /// Offers a batch to the taps at an output, if there are any.
    #[inline]
    pub fn offer(&self, output: usize, batch: &Batch) {
        if self.is_tapped.load(Ordering::Relaxed) {
            self.offer_to_taps(output, batch);
        }
    }

    #[cold]
    fn offer_to_taps(&self, output: usize, batch: &Batch) {
        // A worker does not wait for the lock, so a tap that is being added misses this batch.
        let Some(taps) = self.taps.try_read() else { return };
        taps.iter().filter(|tap| tap.output == output).for_each(|tap| tap.offer(batch));
    }

    /// Returns the trace of a batch that a source issues, or `None` if no tracer wants one.
    #[inline]
    pub fn trace(&self, source: &Arc<str>, batch: &Batch, now_ns: i64) -> Option<Arc<Trace>> {
        self.is_traced.load(Ordering::Relaxed).then(|| self.begin_trace(source, batch, now_ns))?
    }

    #[cold]
    fn begin_trace(&self, source: &Arc<str>, batch: &Batch, now_ns: i64) -> Option<Arc<Trace>> {
        let tracers = self.tracers.try_read()?;
        let first = self.offered.fetch_add(1, Ordering::Relaxed) % tracers.len().max(1);
        let (before, after) = tracers.split_at(first);
        after.iter().chain(before).find_map(|tracer| tracer.begin(source, batch, now_ns))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Tap>>)) {
        let mut taps = self.taps.write();
        change(&mut taps);
        self.is_tapped.store(!taps.is_empty(), Ordering::Relaxed);
    }

    fn change_tracers(&self, change: impl FnOnce(&mut Vec<Arc<Tracer>>)) {
        let mut tracers = self.tracers.write();
        change(&mut tracers);
        self.is_traced.store(!tracers.is_empty(), Ordering::Relaxed);
    }
}

impl Tracer {
    fn begin(&self, source: &Arc<str>, batch: &Batch, now_ns: i64) -> Option<Arc<Trace>> {
        let events = batch.events();
        // The lock is taken while another worker begins a trace.
        let mut allowance = self.allowance.try_lock()?;
        let few = allowance.refill(Instant::now()).min(events).min(TRACED_ROWS_MAX);
        if few == 0 {
            return None;
        }
        let sample_bytes = self.listener.room()?;
        let rows = evenly(batch, few, events);
        let trace = Trace::begin(source, batch, self.at.clone(), sample_bytes, rows, now_ns);
        // A trace of one event takes as much of the allowance as a trace of many.
        allowance.take(TRACED_ROWS_MAX, 0);
        self.listener.begin(&trace);
        Some(trace)
    }
}

impl Tap {
    fn offer(&self, batch: &Batch) {
        let events = batch.events();
        self.passed.fetch_add(events as u64, Ordering::Relaxed);
        // The lock is taken while another worker copies a batch.
        let Some(mut allowance) = self.allowance.try_lock() else { return };
        let few = allowance.refill(Instant::now()).min(events);
        if few == 0 {
            return;
        }
        let mut copied = 0;
        let mut copy = || {
            let sample = batch.sample(&evenly(batch, few, events));
            copied = sample.batch.rows();
            sample
        };
        if let Some(bytes) = self.listener.offer(&mut copy) {
            allowance.take(copied, bytes);
        }
    }
}

/// Returns `few` of the `events` selected rows, evenly spread.
fn evenly(batch: &Batch, few: usize, events: usize) -> Vec<usize> {
    let mut rows = Vec::with_capacity(few);
    let mut seen = 0;
    for (begin, end) in batch.runs(0, batch.rows()) {
        // The next row has rank `rows * events / few` among the selected ones.
        while rows.len() < few && rows.len() * events / few < seen + end - begin {
            rows.push(begin + rows.len() * events / few - seen);
        }
        seen += end - begin;
    }
    rows
}

/// All tap points in a topology, by component. Clones share the points.
#[derive(Clone, Default)]
pub struct Taps(Arc<Mutex<Points>>);

type Points = HashMap<(TapSide, Arc<str>), Arc<TapPoint>>;

impl Taps {
    /// Returns the point at a side of a component. The same point is returned as long as it is in
    /// use.
    pub fn point(&self, side: TapSide, id: &str) -> Arc<TapPoint> {
        let mut points = self.0.lock();
        points.retain(|_, point| Arc::strong_count(point) > 1);
        points.entry((side, id.into())).or_default().clone()
    }

    /// Sends samples of an output to `listener` until the returned value is dropped.
    pub fn listen(
        &self,
        side: TapSide,
        id: &str,
        output: usize,
        listener: Box<dyn Listener>,
    ) -> Listening {
        let point = self.point(side, id);
        let (passed, allowance) = (AtomicU64::new(0), Mutex::new(Allowance::full(Instant::now())));
        let tap = Arc::new(Tap { output, passed, allowance, listener });
        point.change(|taps| taps.push(tap.clone()));
        Listening { point, tap }
    }
}

impl Taps {
    /// Sends `listener` a trace of each batch that any of the components in `ids` issues as a
    /// source, with a copy of the events at the point `at`, until the returned value is dropped.
    pub fn trace(
        &self,
        ids: &[String],
        at: &SamplePoint,
        listener: &Arc<dyn TraceListener>,
    ) -> Tracing {
        let points = ids.iter().map(|id| self.point(TapSide::Output, id));
        let add = |point: Arc<TapPoint>| {
            let allowance = Mutex::new(Allowance::full(Instant::now()));
            let (at, listener) = (at.clone(), listener.clone());
            let tracer = Arc::new(Tracer { at, allowance, listener });
            point.change_tracers(|tracers| tracers.push(tracer.clone()));
            (point, tracer)
        };
        Tracing(points.map(add).collect())
    }
}

/// Tracers at several sources. They stop when this value is dropped.
pub struct Tracing(Vec<(Arc<TapPoint>, Arc<Tracer>)>);

impl Drop for Tracing {
    fn drop(&mut self) {
        for (point, tracer) in &self.0 {
            point.change_tracers(|tracers| tracers.retain(|other| !Arc::ptr_eq(other, tracer)));
        }
    }
}

impl std::fmt::Debug for Taps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Taps")
    }
}

/// A tap that listens until this value is dropped.
pub struct Listening {
    point: Arc<TapPoint>,
    tap: Arc<Tap>,
}

impl Listening {
    /// Returns the number of events that passed the point since the tap began to listen.
    pub fn passed(&self) -> u64 {
        self.tap.passed.load(Ordering::Relaxed)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.point.change(|taps| taps.retain(|tap| !Arc::ptr_eq(tap, &self.tap)));
    }
}

#[cfg(test)]
mod tests;
