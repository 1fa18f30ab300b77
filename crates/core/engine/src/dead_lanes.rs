//! Lanes that cannot deliver, during shutdown, or after a reload that replaced their sink.

use crate::core::{Core, SinkSlot};
use crate::lane::LaneQueue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between checks of the lanes.
const LOOK: Duration = Duration::from_millis(50);

/// How long all remaining lanes must have been failing without a delivery. A single failed request
/// may have been one of several.
const DEAD_AFTER: Duration = Duration::from_secs(1);

/// Ends the lanes that cannot deliver, so that shutdown does not wait for a dead endpoint.
///
/// A lane is ended if all its data is in a disk buffer. It is also ended if its sources can reread
/// the data and no other lane can deliver. As long as another lane delivers, the dead endpoint has
/// time to recover.
pub(crate) struct DeadLanes<'a> {
    core: &'a Core,
    /// Time at which the shutdown gives up.
    deadline: tokio::time::Instant,
    looked: Instant,
    failing: Failing,
}

impl DeadLanes<'_> {
    /// Watches a topology's lanes until shutdown gives up.
    pub(crate) fn new(core: &Core, deadline: tokio::time::Instant) -> DeadLanes<'_> {
        DeadLanes { core, deadline, looked: Instant::now(), failing: Failing::default() }
    }

    /// Ends the dead lanes among the closed lanes.
    pub(crate) fn end(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        for (_, slot) in self.core.nodes().sinks() {
            if slot.disk.as_ref().is_some_and(|disk| disk.is_durable()) {
                for lane in closed(slot).filter(|lane| !lane.gets_on()) {
                    lane.let_go();
                }
            }
        }
        if self.note_failing() {
            let dead = self.core.nodes().sinks().flat_map(|(_, slot)| closed(slot));
            for lane in dead.filter(|lane| lane.is_failing(self.deadline)) {
                lane.let_go();
            }
        }
    }

    /// Records whether all remaining lanes are failing; returns whether this has lasted for
    /// [`DEAD_AFTER`].
    fn note_failing(&mut self) -> bool {
        let mut owing =
            self.core.nodes().sinks().filter(|(_, slot)| owing(slot).next().is_some()).peekable();
        let is_failing = owing.peek().is_some() && owing.all(|(_, slot)| self.is_failing(slot));
        self.failing.note(is_failing, self.core.status().progress())
    }

    /// Returns whether all of a sink's lanes with undelivered data are failing, and all of this
    /// data can be reread. Data in a disk buffer, or from sources that a reload has removed, does
    /// not count as rereadable.
    fn is_failing(&self, slot: &SinkSlot) -> bool {
        let mut sources = self.core.sources().iter();
        slot.disk.is_none()
            && self.core.resources().removed.unsettled().is_empty()
            && owing(slot).all(|lane| lane.is_failing(self.deadline))
            && sources.all(|source| {
                source.traits.reads_again || source.ledger.progress(slot.index).unsettled == 0
            })
    }
}

/// Waits until all remaining closed lanes have been failing for [`DEAD_AFTER`] without a delivery.
/// Lanes that can still deliver have `drain` to do so.
pub(crate) async fn until_dead(lanes: &[Arc<LaneQueue>], drain: Duration) {
    let deadline = tokio::time::Instant::now() + drain;
    let mut failing = Failing::default();
    loop {
        tokio::time::sleep(LOOK).await;
        let mut left = lanes.iter().filter(|lane| !lane.has_ended());
        let is_failing = left.all(|lane| lane.is_failing(deadline));
        if failing.note(is_failing, lanes.iter().map(|lane| lane.bytes()).sum()) {
            return;
        }
    }
}

/// The progress at the time when everything began to fail, and that time; `None` while something
/// works.
#[derive(Default)]
struct Failing(Option<(u64, Instant)>);

impl Failing {
    /// Records whether everything is failing. Returns whether this has lasted for [`DEAD_AFTER`]
    /// without any change in `progress`.
    fn note(&mut self, is_failing: bool, progress: u64) -> bool {
        if !is_failing {
            self.0 = None;
            return false;
        }
        let began = self.0.filter(|(before, _)| *before == progress);
        let (_, since) = *self.0.insert(began.unwrap_or((progress, Instant::now())));
        since.elapsed() >= DEAD_AFTER
    }
}

fn closed(slot: &SinkSlot) -> impl Iterator<Item = &Arc<LaneQueue>> {
    slot.lanes.iter().filter(|lane| lane.is_closed() && !lane.has_ended())
}

fn owing(slot: &SinkSlot) -> impl Iterator<Item = &Arc<LaneQueue>> {
    slot.lanes.iter().filter(|lane| lane.owes() && !lane.has_ended())
}
