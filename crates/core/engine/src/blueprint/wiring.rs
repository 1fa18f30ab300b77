//! Builds a topology's sources, and connects them to the nodes.

use super::SourcePart;
use super::assembly::Assembly;
use super::parts::FeedPart;
use crate::buffer::WhenFull;
use crate::core::{Fed, Node, Nodes, Op, OpenedSource, SourcePlace, SourceSlot, Wiring};
use crate::cut::{Cut, CutLimits, CutSet, NewCut};
use crate::error::EngineError;
use crate::feed_source::FeedSource;
use crate::index::{CutIndex, NodeIndex, SourceIndex};
use crate::limits::{CALLS_AHEAD, CUTS_MAX, TICKETS_ON_THE_WAY};
use crate::pace::Pace;
use crate::scheduler::Scheduler;
use millstream_model::TapSide;
use millstream_model::{Feed, Kind, Ledger, SinkIndex, SinkSet, SourceInfo, SourceOpen, Wake};
use std::sync::Arc;

/// A source to open, with the sink that feeds it.
struct SourceToOpen {
    part: SourcePart,
    /// The sink that feeds the source, if there is one.
    fed: Option<Fed>,
}

impl Assembly<'_> {
    /// Opens a blueprint's sources, and the sources for the events that sinks create.
    pub fn sources(
        &self,
        parts: Vec<SourcePart>,
        feeds: Vec<FeedPart>,
        nodes: &Nodes,
    ) -> Result<Vec<SourceSlot>, EngineError> {
        let feeds = feeds.into_iter().map(|part| source_of_feed(part, nodes));
        let sources = parts.into_iter().map(|part| SourceToOpen { part, fed: None }).chain(feeds);
        let slot = |(index, source)| self.source_slot(SourceIndex::new(index), source, nodes);
        sources.enumerate().map(slot).collect()
    }

    fn source_slot(
        &self,
        index: SourceIndex,
        source: SourceToOpen,
        nodes: &Nodes,
    ) -> Result<SourceSlot, EngineError> {
        let SourceToOpen { part, fed } = source;
        let SourcePart { info, type_name, pace, queue_bytes, open } = part;
        let wiring = self.wiring(&info.id, nodes)?;
        if let Some(kept) = self.kept_source(&info.id, fed.as_ref()) {
            return Ok(kept.rewired(pace, wiring));
        }
        let place = Arc::new(SourcePlace::new(index));
        let wake = waker(&self.old.resources().scheduler, place.clone());
        let sinks = nodes.sink_ids(wiring.downstream);
        let opened_with = self.source_open(info, type_name, sinks, wake);
        let source = open(opened_with.clone())
            .map_err(|error| EngineError::Source { id: opened_with.info.id.clone(), error })?;
        let opened = OpenedSource {
            type_name,
            pace,
            fed,
            source,
            place,
            aside: self.old.resources().grant.set_aside(queue_bytes),
            tap: self.settings.taps.point(TapSide::Output, &opened_with.info.id),
            open: opened_with,
        };
        Ok(SourceSlot::new(opened, wiring))
    }

    /// Connects a source to the nodes.
    ///
    /// # Errors
    ///
    /// Returns an error if the source's batches pass too many cuts.
    fn wiring(&self, source_id: &str, nodes: &Nodes) -> Result<Wiring, EngineError> {
        let roots = self.graph.readers(source_id, 0);
        let downstream = nodes.downstream(&roots);
        let cuts = self.cuts(&roots, nodes);
        if cuts.len() > CUTS_MAX {
            let source_id = source_id.to_owned();
            return Err(EngineError::TooManyCuts { source_id, cuts: cuts.len() });
        }
        Ok(Wiring { roots, cuts, downstream, expansion: nodes.expansion(downstream) })
    }

    /// Collects the resources that a source needs to open.
    fn source_open(
        &self,
        info: SourceInfo,
        type_name: &'static str,
        sinks: Vec<(SinkIndex, String)>,
        wake: Wake,
    ) -> SourceOpen {
        let resources = self.old.resources();
        let ledger = Ledger::new();
        let wake_again = wake.clone();
        ledger.on_reread(move || wake_again());
        SourceOpen {
            sinks,
            store: resources.store.of_source(&info.id),
            held_dir: resources.store.held_dir(&info.id),
            counters: self.counters(Kind::Source, &info.id, type_name),
            info: Arc::new(info),
            ledger,
            unreadable: Arc::default(),
            wake,
            internal_metrics: self.settings.internal_metrics.clone(),
            internal_logs: self.settings.internal_logs.clone(),
            pressure: resources.memory.pressure(),
            until_eof: resources.until_eof,
        }
    }

    /// Returns the serial and offload nodes reachable from `roots`, in data-flow order.
    fn cuts(&self, roots: &[NodeIndex], nodes: &Nodes) -> Vec<Cut> {
        let reached = nodes.reachable(roots);
        let mut cuts: Vec<Cut> = Vec::new();
        for (index, node) in nodes.indexed() {
            if !node.is_cut() || !reached.contains(index) {
                continue;
            }
            let mut upstream = CutSet::default();
            // The caller rejects cuts beyond the limit.
            for (before, cut) in cuts.iter().take(CUTS_MAX).enumerate() {
                if nodes.reachable(&[cut.node]).contains(index) {
                    upstream.add(CutIndex::new(before));
                }
            }
            cuts.push(Cut::new(NewCut {
                node: index,
                downstream: node.downstream,
                upstream,
                sheds: sheds(node.downstream, nodes),
                limits: self.cut_limits(node),
                total: node.load.clone(),
            }));
        }
        cuts
    }

    /// Returns the limits on the tickets at a cut.
    fn cut_limits(&self, node: &Node) -> CutLimits {
        let tickets = match &node.op {
            Op::Offload(queue) => {
                let transform = &queue.transform;
                let calls = transform.concurrency().max(1) * transform.tickets_max().max(1);
                (CALLS_AHEAD * calls) as u64 + TICKETS_ON_THE_WAY
            }
            Op::Map(_) | Op::Serial(_) | Op::Sink(_) => u64::MAX,
        };
        let source_bytes = self.shares.source_cut_bytes;
        let bytes = self.shares.cut_bytes;
        CutLimits { source_bytes, bytes, tickets }
    }
}

/// Returns the source that passes on a sink's events. If the sink is missing from the nodes, the
/// source has no events.
fn source_of_feed(part: FeedPart, nodes: &Nodes) -> SourceToOpen {
    let FeedPart { info, type_name, feeder } = part;
    let mut sinks = nodes.sinks();
    let sink = sinks.find(|(node, _)| node.kind == feeder.kind && node.id == feeder.id);
    let fed = sink.map(|(_, slot)| Fed { feeder, sink: slot.index, feed: slot.feed.clone() });
    let feed = fed.as_ref().map_or_else(Feed::of_refused, |fed| fed.feed.clone());
    let open = Box::new(move |open| FeedSource::open(open, feed));
    let part = SourcePart { info, type_name, pace: Pace::default(), queue_bytes: 0, open };
    SourceToOpen { part, fed }
}

/// Returns a function that wakes a source.
fn waker(scheduler: &Arc<Scheduler>, place: Arc<SourcePlace>) -> Wake {
    let scheduler = Arc::downgrade(scheduler);
    Arc::new(move || {
        if let Some(scheduler) = scheduler.upgrade() {
            scheduler.wake(place.get());
        }
    })
}

/// Returns whether there are sinks in `downstream` and all of them drop events when they are full.
fn sheds(downstream: SinkSet, nodes: &Nodes) -> bool {
    let mut slots = nodes.slots_of(downstream).peekable();
    slots.peek().is_some() && slots.all(|slot| slot.buffer.when_full != WhenFull::Block)
}
