//! The lane of an aggregate: adds batches up, ends windows, and saves what changed.

use super::definition::Definition;
use super::encoder::KeyMap;
use super::result::{OVERFLOW, Outcome};
use super::snapshot::{Change, Frame, Place, Saved, Segments};
use super::totals::Totals;
use crate::util::period::Periods;
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Feed, Lane, LaneCx, Now, Payload, Results,
};
use std::sync::Arc;
use std::time::Duration;

/// Pause before the next look at whether a snapshot is committed.
const COMMIT_LOOK: Duration = Duration::from_millis(10);

/// The lane.
pub struct AggregateLane {
    id: Arc<str>,
    definition: Arc<Definition>,
    groups_max: usize,
    now: Arc<dyn Fn() -> Now + Send + Sync>,
    is_committed: Arc<dyn Fn() -> bool + Send + Sync>,
    feed: Arc<Feed>,
    counters: Arc<Counters>,
    /// `None` in a unit test of a configuration, and while a thread writes.
    segments: Option<Segments>,
    periods: Periods,
    groups: KeyMap<Arc<[u8]>, Group>,
    /// Keys of the groups that changed since the last snapshot.
    changed: Vec<Arc<[u8]>>,
    results: Results<Outcome>,
    /// End of the window that the snapshot is of.
    saved_window: Option<i64>,
    /// Whether the next snapshot says everything, not only what changed.
    is_whole: bool,
    /// Whether a window ended since the last snapshot.
    has_ended: bool,
    /// Whether older segments may be left.
    has_old_segments: bool,
}

struct Group {
    totals: Totals,
    is_changed: bool,
}

impl AggregateLane {
    /// Opens the lane with what the last committed snapshot says. A window that has ended since, or
    /// began under other options, ends at once.
    pub fn open(definition: Arc<Definition>, groups_max: usize, cx: LaneCx) -> AggregateLane {
        let place = cx.state.as_ref().and_then(|state| serde_json::from_slice(state).ok());
        let opened = cx.folder.as_ref().map(|folder| Segments::open(folder, place));
        let (segments, saved) = opened
            .map_or((None, Ok(Saved::default())), |(segments, saved)| (Some(segments), saved));
        let saved = saved.unwrap_or_else(|error| {
            cx.counters.error("snapshot");
            log::error!("transform {}: its snapshot is lost: {error}; open windows and waiting results are gone", cx.sink);
            let first = segments.as_ref().map_or(0, Segments::next);
            Saved { first, ..Saved::default() }
        });
        AggregateLane::new(definition, groups_max, cx, (segments, saved))
    }

    fn new(
        definition: Arc<Definition>,
        groups_max: usize,
        cx: LaneCx,
        (segments, saved): (Option<Segments>, Saved),
    ) -> AggregateLane {
        let results = Results::open(&cx, saved.results, saved.first);
        let mut lane = AggregateLane {
            periods: Periods::new(Duration::from_secs(definition.window_s), (cx.now)()),
            id: cx.sink,
            definition,
            groups_max,
            now: cx.now,
            is_committed: cx.is_committed,
            feed: cx.feed,
            counters: cx.counters,
            segments,
            groups: KeyMap::default(),
            changed: Vec::new(),
            is_whole: results.first() != saved.first,
            results,
            saved_window: None,
            has_ended: false,
            has_old_segments: false,
        };
        if let Some((definition, end_ns)) = saved.window {
            lane.take_up(&definition, end_ns, saved.groups);
        }
        lane
    }

    /// Continues a window of the snapshot, or ends it if it is over or of other options.
    fn take_up(&mut self, definition: &Definition, end_ns: i64, groups: Vec<(Box<[u8]>, Totals)>) {
        let groups = groups.into_iter().map(|(key, totals)| (Arc::from(key), totals));
        self.groups =
            groups.map(|(key, totals)| (key, Group { totals, is_changed: false })).collect();
        if *definition == *self.definition && end_ns == self.periods.boundary_ns() {
            self.saved_window = Some(end_ns);
            return;
        }
        self.end_groups(definition, end_ns);
    }

    /// Turns the groups into results.
    fn end_groups(&mut self, definition: &Definition, end_ns: i64) {
        let mut groups: Vec<(Arc<[u8]>, Group)> = self.groups.drain().collect();
        groups.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (key, group) in &groups {
            let results = Outcome::of_group((&self.id, definition), end_ns, (key, &group.totals));
            results.into_iter().for_each(|result| self.results.push(result));
        }
        self.changed.clear();
        self.has_ended = true;
    }

    /// Ends the window, whether due or not.
    fn end_window(&mut self, now: Now) {
        let end_ns = self.periods.end(now).end_ns;
        if !self.groups.is_empty() {
            self.end_groups(&self.definition.clone(), end_ns);
        }
    }

    /// Adds the groups of a batch.
    fn add(&mut self, mut bytes: &[u8]) {
        let fields = self.definition.fields().len();
        while let Some((key, totals)) = Totals::read(&mut bytes, fields) {
            self.add_group(key, &totals);
        }
    }

    fn add_group(&mut self, key: &[u8], totals: &Totals) {
        let is_over = self.groups.len() >= self.groups_max && !self.groups.contains_key(key);
        let key = if is_over { OVERFLOW } else { key };
        if is_over {
            self.counters.noted("overflow", totals.events);
        }
        let Some(group) = self.groups.get_mut(key) else {
            let key: Arc<[u8]> = key.into();
            self.changed.push(key.clone());
            self.groups.insert(key, Group { totals: totals.clone(), is_changed: true });
            return;
        };
        group.totals.merge(totals);
        if !std::mem::replace(&mut group.is_changed, true) {
            let (key, _) = self.groups.get_key_value(key).expect("it was there");
            self.changed.push(key.clone());
        }
    }

    /// Returns the next frame of the snapshot: what changed, or everything.
    fn frame(&mut self, is_whole: bool) -> Frame {
        let mut frame = Frame::default();
        if self.has_ended && !is_whole {
            frame.push(&Change::Ended);
        }
        let boundary_ns = self.periods.boundary_ns();
        if is_whole || self.saved_window != Some(boundary_ns) {
            frame.push(&Change::Window(&self.definition, boundary_ns));
        }
        let put = |key: &Arc<[u8]>| {
            let group = self.groups.get(key)?;
            frame.push(&Change::Group(key, &group.totals));
            Some(())
        };
        match is_whole {
            true => self.groups.keys().filter_map(put).count(),
            false => self.changed.iter().filter_map(put).count(),
        };
        let (first, all) = self.results.unsettled();
        frame.push(&Change::Settled(first));
        if is_whole {
            all.iter().for_each(|result| frame.push(&Change::Result(result)));
        } else {
            self.results.unsaved().for_each(|result| frame.push(&Change::Result(result)));
        }
        frame
    }

    /// Takes note that a frame is durable.
    fn saved(&mut self) {
        for key in std::mem::take(&mut self.changed) {
            self.groups.get_mut(&key).into_iter().for_each(|group| group.is_changed = false);
        }
        self.saved_window = Some(self.periods.boundary_ns());
        (self.has_ended, self.is_whole) = (false, false);
        self.results.saved();
    }

    async fn save(&mut self) -> Result<Option<Vec<u8>>, DeliverError> {
        let Some(mut segments) = self.segments.take() else {
            self.saved();
            return Ok(None);
        };
        let begins = self.is_whole || segments.begins_segment();
        let frame = self.frame(begins);
        let next = self.results.next();
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
        self.has_old_segments |= begins;
        self.saved();
        let state = serde_json::to_vec(&place);
        state.map(Some).map_err(|error| DeliverError::retry("snapshot", error.to_string()))
    }

    /// Removes older segments once nothing committed refers to them.
    fn remove_old_segments(&mut self) {
        if self.has_old_segments && (self.is_committed)() {
            self.segments.iter().for_each(Segments::remove_others);
            self.has_old_segments = false;
        }
    }
}

impl Lane for AggregateLane {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        let now = (self.now)();
        if self.periods.left(now).is_zero() {
            self.end_window(now);
        }
        payload.parts.iter().for_each(|part| self.add(part));
        Box::pin(async { Ok(Delivery::Taken) })
    }

    fn tick(&mut self) -> Option<Duration> {
        let (now, has_ended) = ((self.now)(), self.feed.has_input_ended());
        if has_ended || self.periods.left(now).is_zero() {
            self.end_window(now);
        }
        let has_all = self.results.pass_on(|_, result| result.event());
        if has_ended && has_all {
            self.feed.finish();
        }
        self.remove_old_segments();
        let left = self.periods.left(now);
        Some(if has_all { left } else { left.min(COMMIT_LOOK) })
    }

    fn wants_sync(&self) -> bool {
        self.results.are_unsaved()
    }

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(self.save())
    }
}
