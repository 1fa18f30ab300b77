//! The lane of windows: merges partial results, ends windows, and saves changes.

use super::Windows;
use super::delay::Delays;
use super::encoder::split;
use super::result::{Group, Outcome, WindowResults};
use super::snapshot::{Frame, Saved};
use super::stats::Stats;
use super::tasks::{EndedWindow, Tasks};
use crate::util::segments::{Place, Segments};
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, EngineTime, Feed, Lane, LaneCx, MemoryPressure,
    Now, Payload, Results,
};
use millstream_recorder::schema::EventKind;
use millstream_recorder::{record, recorder};
use millstream_rules::{FrequentKeys, PartialReader, Plan};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Pause before the next check whether the snapshot is committed.
const COMMIT_LOOK: Duration = Duration::from_millis(10);

/// Pause before the next results are produced, so that events can be merged in between.
pub const EMIT_PAUSE: Duration = Duration::from_millis(1);

/// Number of groups whose results are produced at a time, so that events and other tasks do not
/// wait for a large window. Producing them takes a few milliseconds.
const GROUPS_AT_ONCE: u64 = 2_000;

/// Bounds of the limit on unsettled results. At the limit, no more results are produced, because
/// groups take less memory than their results and are already in the snapshot. Results do not count
/// toward `memory`.
const RESULTS_MAX: RangeInclusive<usize> = 10_000..=131_072;

/// Number of bytes of `memory` per unsettled result that is allowed. A sink that settles once a
/// second, such as `file`, receives at most the maximum number of unsettled results per second.
const RESULT_BYTES: usize = 512;

/// Maximum time between two checks for windows to end, if events arrive continuously.
const END_INTERVAL: Duration = Duration::from_millis(50);

/// Minimum memory in bytes of a window that may end early because the process has little memory
/// left.
const EARLY_BYTES_MIN: usize = 1 << 20;

/// Minimum pause between two windows that end early for this reason.
const EARLY_PAUSE: Duration = Duration::from_secs(5);

/// The lane of a `rules` or `aggregate` transform.
pub struct WindowLane {
    id: Arc<str>,
    plan: Arc<Plan>,
    stats: Arc<Stats>,
    tasks: Tasks,
    now: Arc<dyn Fn() -> Now + Send + Sync>,
    is_committed: Arc<dyn Fn() -> bool + Send + Sync>,
    feed: Arc<Feed>,
    counters: Arc<Counters>,
    /// The snapshot; `None` in a unit test of a configuration, and while a thread writes it.
    segments: Option<Segments>,
    results: Results<Outcome>,
    /// Number of unsettled results at which no more results are produced.
    results_max: usize,
    /// Windows whose results are not all in the feed.
    delays: Delays,
    /// Time of the next check for windows to end.
    next_end: EngineTime,
    pressure: Arc<MemoryPressure>,
    /// Time when the next window may end early.
    next_early: EngineTime,
    /// Whether the next snapshot contains the whole state, not only the changes.
    is_whole: bool,
    /// Whether older segments may exist.
    has_old_segments: bool,
}

impl WindowLane {
    /// Opens the lane with the state in the last committed snapshot.
    pub fn open(windows: &Windows, cx: LaneCx) -> WindowLane {
        let (segments, mut saved) = open_segments(&cx);
        let results = Results::open(&cx, std::mem::take(&mut saved.results), saved.first);
        let now = (cx.now)();
        let frequent = FrequentKeys::new(&windows.plan);
        let memory_bytes_max = windows.memory_bytes_max as usize;
        let results_max = results_max(memory_bytes_max);
        cx.feed.limit(results_max, (results_max * RESULT_BYTES) as u64);
        cx.counters.emit_delay();
        WindowLane {
            id: cx.sink,
            plan: windows.plan.clone(),
            stats: windows.stats.clone(),
            tasks: Tasks::open(
                &windows.definitions,
                frequent,
                memory_bytes_max,
                cx.pressure.clone(),
                &mut saved,
                now,
            ),
            now: cx.now,
            is_committed: cx.is_committed,
            feed: cx.feed,
            counters: cx.counters,
            segments,
            is_whole: results.first() != saved.first,
            results,
            results_max,
            delays: Delays::default(),
            next_end: now.since_start,
            pressure: cx.pressure,
            next_early: now.since_start,
            has_old_segments: false,
        }
    }

    /// Merges the partial results of a batch.
    fn merge(&mut self, part: &[u8], now: Now) {
        let Some((partial, origins)) = split(part) else { return };
        for (origin, latest_ns) in origins {
            self.tasks.note_origin(origin, latest_ns, now);
        }
        let Some(reader) = PartialReader::new(partial) else { return };
        self.tasks.merge(&self.plan, reader, &self.counters, now);
    }

    /// Ends the windows that are due, and produces some of their results.
    fn end_windows(&mut self, now: Now, has_input_ended: bool) {
        self.next_end = now.since_start + END_INTERVAL;
        self.tasks.end_due(now, has_input_ended);
        if self.pressure.is_high() {
            self.end_early(now);
        }
        self.tasks.note_groups(&self.stats);
        let (_, waiting) = self.results.unsettled();
        let mut left = if waiting.len() < self.results_max { GROUPS_AT_ONCE } else { 0 };
        let timer = recorder::start(EventKind::Flush);
        while left > 0
            && let Some(ended) = self.tasks.first_ended()
        {
            left -= emit(&self.id, ended, left, &mut self.results);
            if ended.emitted == ended.len() {
                let (late, groups) = (ended.delay.until(now), ended.len() as usize);
                record::flush(timer, self.counters.subject(), late, groups);
                self.delays.push(self.results.next(), ended.delay);
                self.tasks.drop_ended();
            }
        }
    }

    /// Ends the largest window while the process has little memory. Does so only if the sinks have
    /// settled all previous results, because otherwise this would not free memory.
    fn end_early(&mut self, now: Now) {
        let are_settled = self.results.next() == self.results.first();
        if now.since_start < self.next_early || self.tasks.has_ended() || !are_settled {
            return;
        }
        self.next_early = now.since_start + EARLY_PAUSE;
        self.tasks.end_largest(EARLY_BYTES_MIN, &self.counters, now);
    }

    /// Returns whether more results will be produced without waiting for the sinks.
    fn makes_more(&self) -> bool {
        let waiting = self.results.next() - self.results.first();
        self.tasks.has_ended() && waiting < self.results_max as u64
    }

    /// Returns the next frame of the snapshot: the changes, or the whole state.
    fn frame(&mut self, is_whole: bool) -> Vec<u8> {
        let mut frame = Frame::default();
        self.tasks.write(is_whole, &mut frame);
        let (first, all) = self.results.unsettled();
        frame.settled(first);
        if is_whole {
            all.iter().for_each(|result| frame.result(result));
        } else {
            self.results.unsaved().for_each(|result| frame.result(result));
        }
        frame.0
    }

    async fn save(&mut self) -> Result<Option<Vec<u8>>, DeliverError> {
        let Some(mut segments) = self.segments.take() else {
            drop(self.frame(false));
            self.results.saved();
            return Ok(None);
        };
        let begins = self.is_whole || segments.begins_segment();
        let frame = self.frame(begins);
        // Writing the frame has marked all changes as saved. If this frame is lost, the next one
        // must contain the whole state.
        self.is_whole = true;
        let next = self.results.next();
        let (timer, bytes) = (recorder::start(EventKind::Snapshot), frame.len());
        let append = move || (segments.append(&frame, begins, next), segments);
        let (appended, segments) = match tokio::task::spawn_blocking(append).await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime shuts down.
            Err(_) => return std::future::pending().await,
        };
        self.segments = Some(segments);
        let failed =
            |error| DeliverError::retry("snapshot", format!("cannot write the snapshot: {error}"));
        let place: Place = appended.map_err(failed)?;
        record::snapshot(timer, self.counters.subject(), bytes);
        self.has_old_segments |= begins;
        self.is_whole = false;
        self.results.saved();
        let state = serde_json::to_vec(&place);
        state.map(Some).map_err(|error| DeliverError::retry("snapshot", error.to_string()))
    }

    /// Records the delay of windows whose results are now all in the feed.
    fn note_delays(&mut self) {
        let now = (self.now)();
        while let Some(delay) = self.delays.take(self.results.passed()) {
            self.stats.note_delay(&delay, now, &self.counters);
        }
    }

    /// Removes older segments when no committed state refers to them.
    fn remove_old_segments(&mut self) {
        if self.has_old_segments && (self.is_committed)() {
            self.segments.iter().for_each(Segments::remove_others);
            self.has_old_segments = false;
        }
    }
}

/// Opens the segments of a lane if it has a folder. Returns the segments, and the state in the last
/// committed snapshot.
fn open_segments(cx: &LaneCx) -> (Option<Segments>, Saved) {
    let place: Option<Place> =
        cx.state.as_ref().and_then(|state| serde_json::from_slice(state).ok());
    let mut saved = Saved::default();
    let Some(folder) = &cx.folder else { return (None, saved) };
    let (segments, read) = Segments::open(folder, place, &mut |body| saved.apply(body));
    if let Err(error) = read {
        cx.counters.error("snapshot");
        log::error!(
            "transform {}: its snapshot cannot be read: {error}; the open windows and waiting \
             results in it are lost",
            cx.sink
        );
        saved = Saved { first: segments.next(), ..Saved::default() };
    }
    (Some(segments), saved)
}

/// Returns the number of unsettled results at which no more results are produced, for this much
/// memory.
pub fn results_max(memory_bytes_max: usize) -> usize {
    (memory_bytes_max / RESULT_BYTES).clamp(*RESULTS_MAX.start(), *RESULTS_MAX.end())
}

/// Produces the results of up to `groups_max` groups in a window, and returns the number of these
/// groups.
fn emit(id: &str, ended: &mut EndedWindow, groups_max: u64, results: &mut Results<Outcome>) -> u64 {
    let definition = &ended.definition;
    let inputs = definition.inputs();
    let task = if definition.name.is_empty() { id } else { &definition.name };
    let of_window = WindowResults {
        task,
        definition,
        inputs: &inputs,
        end_ns: ended.window.end_ns,
        completeness: ended.completeness,
    };
    let until = ended.emitted.saturating_add(groups_max).min(ended.len());
    let within = ended.window.groups.len() as u64;
    for at in ended.emitted..until {
        let group = match at.checked_sub(within) {
            None => Group { groups: &ended.window.groups, group: at as u32, is_overflow: false },
            Some(at) => {
                Group { groups: &ended.window.overflow, group: at as u32, is_overflow: true }
            }
        };
        of_window.of_group(group, |result| results.push(result));
    }
    let emitted = until - ended.emitted;
    ended.emitted = until;
    emitted
}

impl Lane for WindowLane {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        let now = (self.now)();
        if now.since_start >= self.next_end || self.tasks.has_period_ended(now) {
            self.end_windows(now, false);
        }
        payload.parts.iter().for_each(|part| self.merge(part, now));
        Box::pin(async { Ok(Delivery::Taken) })
    }

    fn tick(&mut self) -> Option<Duration> {
        let (now, has_ended) = ((self.now)(), self.feed.has_input_ended());
        self.end_windows(now, has_ended);
        let has_all = self.results.pass_on(|_, result| result.event());
        self.note_delays();
        let has_ended_windows = self.tasks.has_ended();
        if has_ended && has_all && !has_ended_windows {
            self.feed.finish();
        }
        self.remove_old_segments();
        let left = self.tasks.left(now);
        let pause = match !has_all || has_ended_windows {
            true if self.makes_more() => Some(EMIT_PAUSE),
            true => Some(COMMIT_LOOK),
            false => None,
        };
        // Memory may become short while no events arrive.
        let early = self.tasks.has_open().then_some(EARLY_PAUSE);
        left.into_iter().chain(pause).chain(early).min()
    }

    fn wants_sync(&self) -> bool {
        // Thousands of tasks may end windows at the same time; one snapshot contains the results of
        // all of them.
        self.results.are_unsaved() && !self.makes_more()
    }

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(self.save())
    }
}
