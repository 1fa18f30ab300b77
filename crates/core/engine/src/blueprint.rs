//! From a blueprint, the components and their inputs, to a built topology.

mod graph;
mod kept;
mod memory;
mod parts;

use crate::buffer::{Buffer, WhenFull};
use crate::clock::Clock;
use crate::core::{
    CapacityWait, Core, Fed, IsKept, Node, Op, SinkSlot, SourceSlot, chain_expansion,
};
use crate::current::Current;
use crate::cut::{Cut, CutLimits, CutSet};
use crate::disk_buffer::DiskBuffer;
use crate::error::EngineError;
use crate::feed_source::FeedSource;
use crate::governor::{Governor, MemoryHost, MemoryState};
use crate::lane::{LaneDriver, LaneQueue};
use crate::limits::{CALLS_AHEAD, CUTS_MAX, TICKETS_ON_THE_WAY};
use crate::offload::{OffloadPool, OffloadQueue};
use crate::pace::{CpuCeiling, Pace, Rate};
use crate::release::Release;
use crate::scheduler::Scheduler;
use crate::stage::SerialStage;
use graph::Graph;
pub(crate) use kept::SinkPlaces;
use memory::{cut_bytes, grant_bytes, spare_state_bytes};
use millstream_model::tap::{Side, Taps};
use millstream_model::{
    BlockPool, BuildError, Feed, Grant, InternalLogs, InternalMetrics, Kind, Ledger, Sink,
    SinkIndex, SinkSet, Source, SourceInfo, SourceOpen, Transform,
};
use millstream_store::Store;
use parking_lot::Mutex;
use parts::FeedPart;
pub(crate) use parts::Parts;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use tokio::time::Instant;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Worker threads.
    pub threads: usize,
    /// Most threads of the pool for offload transforms, which start when there is work.
    pub offload_threads: usize,
    /// `limits.memory` in bytes; data in flight gets a part of it.
    pub memory_bytes: u64,
    /// The part of it that a runtime inside the process may take, such as a JVM.
    pub reserved_bytes: u64,
    /// Measures the memory in use, so that it is governed; `None` in simulations.
    pub memory_host: Option<MemoryHost>,
    /// Most cores that the process uses, more than zero; unlimited if `None`.
    pub cpu: Option<f64>,
    /// Most bytes queued for one sink, if less than its share of the memory.
    pub sink_bytes_max: u64,
    /// Whether to read the existing data, deliver it, and exit.
    pub until_eof: bool,
    /// Source of wall-clock time.
    pub clock: Clock,
    /// The agent's own metrics, for sources that emit them.
    pub internal_metrics: InternalMetrics,
    /// Where listeners get samples of the events.
    pub taps: Taps,
    /// The agent's own log records, for the sources that emit them.
    pub internal_logs: InternalLogs,
}

/// An output of a component: its id, and 0 for the main output or the index of a side output.
pub type Input = (String, usize);

/// Opens a source.
pub type OpenSource = Box<dyn FnOnce(SourceOpen) -> Result<Box<dyn Source>, BuildError> + Send>;

/// A source of a blueprint.
pub struct SourcePart {
    /// What its events share, including the component id.
    pub info: SourceInfo,
    /// Component type.
    pub type_name: &'static str,
    /// Its priority and rate limit.
    pub pace: Pace,
    /// Most bytes that it holds in addition to its blocks.
    pub queue_bytes: u64,
    /// Opens it.
    pub open: OpenSource,
}

/// A transform of a blueprint.
pub struct TransformPart {
    /// Component id.
    pub id: String,
    /// Component type.
    pub type_name: &'static str,
    /// The outputs it reads.
    pub inputs: Vec<Input>,
    /// The transform itself.
    pub transform: Transform,
}

/// A sink of a blueprint.
pub struct SinkPart {
    /// Component id.
    pub id: String,
    /// Component type.
    pub type_name: &'static str,
    /// The outputs it reads.
    pub inputs: Vec<Input>,
    /// The buffer before it.
    pub buffer: Buffer,
    /// The sink itself.
    pub sink: Arc<dyn Sink>,
}

/// The components and their inputs. Ids are unique.
#[derive(Default)]
pub struct Blueprint {
    /// Sources.
    pub sources: Vec<SourcePart>,
    /// Transforms, in any order.
    pub transforms: Vec<TransformPart>,
    /// Sinks.
    pub sinks: Vec<SinkPart>,
}

/// A topology whose sources are open, before it starts.
pub struct Built {
    pub(crate) current: Arc<Current>,
    pub(crate) drivers: Vec<LaneDriver>,
    pub(crate) governor: Option<Governor>,
    pub(crate) threads: usize,
}

impl Blueprint {
    /// Checks the blueprint against these settings without opening anything.
    pub fn check(self, settings: &Settings) -> Result<(), EngineError> {
        Parts::of(self).check(settings)
    }

    /// Opens every source. `store` holds what was saved before the restart.
    pub fn build(self, settings: &Settings, store: Arc<Store>) -> Result<Built, EngineError> {
        let parts = Parts::of(self);
        parts.check(settings)?;
        let least_bytes = parts.grant_bytes_min(settings);
        let grant = Grant::new(grant_bytes(settings));
        let scheduler = Arc::new(Scheduler::default());
        let for_room = Arc::downgrade(&scheduler);
        grant.on_available(move || wake_for_room(&for_room));
        let core = Core {
            pressing: Mutex::default(),
            generation: 0,
            clock: settings.clock,
            started: Instant::now(),
            until_eof: settings.until_eof,
            memory: MemoryState::new(settings.memory_bytes),
            grant,
            pool: BlockPool::new(),
            store,
            scheduler,
            offload: OffloadPool::new(settings.offload_threads),
            threads: settings.threads.max(1),
            cpu: None,
            ceiling: None,
            sources: Vec::new(),
            removed: Arc::default(),
            removed_counters: Arc::default(),
            nodes: Vec::new(),
        };
        let places = SinkPlaces::first(&parts.sinks);
        let (core, drivers) = parts.assemble(&core, settings, &places, &|_, _| false)?;
        core.wire();
        let store = core.store.clone();
        let governor = settings
            .memory_host
            .clone()
            .map(|host| Governor::new(host, core.memory.clone(), core.grant.clone(), least_bytes));
        let current = Arc::new(Current::new(core));
        let keeper = Arc::downgrade(&current);
        store.on_keep(move || keeper.upgrade().map_or(Ok(()), |current| current.commit()));
        let threads = current.core().threads;
        Ok(Built { current, drivers, governor, threads })
    }
}

impl Parts {
    /// Assembles the core that follows `old`. It shares the components that are `kept`; also
    /// returns the lanes of the new sinks. `old` stays as it is.
    pub(crate) fn assemble(
        self,
        old: &Core,
        settings: &Settings,
        places: &SinkPlaces,
        kept: &IsKept<'_>,
    ) -> Result<(Core, Vec<LaneDriver>), EngineError> {
        let graph = Graph::new(&self)?;
        let mut drivers = Vec::new();
        let shared = self.shared(old, settings, places, kept);
        let kinds: Vec<Kind> = self.sinks.iter().map(|sink| self.kind_of(&sink.id)).collect();
        let sinks = kinds.into_iter().zip(self.sinks);
        let nodes = nodes(&graph, self.transforms, sinks, &shared, &mut drivers)?;
        let feeds = self.feeds.into_iter().map(|part| source_of_feed(part, &nodes));
        let parts = self.sources.into_iter().map(|part| (part, None)).chain(feeds);
        let sources = sources(&graph, parts, &nodes, &shared)?;
        let core = Core {
            pressing: Mutex::default(),
            generation: old.generation + 1,
            clock: old.clock,
            started: old.started,
            until_eof: old.until_eof,
            memory: old.memory.clone(),
            grant: old.grant.clone(),
            pool: old.pool.clone(),
            store: old.store.clone(),
            scheduler: old.scheduler.clone(),
            offload: old.offload.clone(),
            threads: old.threads,
            cpu: settings.cpu,
            ceiling: if settings.cpu == old.cpu {
                old.ceiling.clone()
            } else {
                ceiling(settings.cpu)
            },
            sources,
            removed: old.removed.clone(),
            removed_counters: old.removed_counters.clone(),
            nodes,
        };
        Ok((core, drivers))
    }

    /// Divides the memory, and returns what every part is built with.
    fn shared<'a>(
        &self,
        old: &'a Core,
        settings: &'a Settings,
        places: &'a SinkPlaces,
        kept: &'a IsKept<'a>,
    ) -> Shared<'a> {
        let grant_bytes = old.grant.bytes_max();
        let cut_bytes = cut_bytes(grant_bytes, &self.transforms);
        Shared {
            state_bytes: spare_state_bytes(&self.sinks, settings),
            old,
            internal_metrics: &settings.internal_metrics,
            taps: &settings.taps,
            internal_logs: &settings.internal_logs,
            share: grant_bytes / (2 * self.sinks.len().max(1) as u64),
            source_cut_bytes: cut_bytes / (self.sources.len() + self.feeds.len()).max(1) as u64,
            cut_bytes,
            share_max: settings.sink_bytes_max,
            places,
            kept,
        }
    }
}

fn ceiling(cpu: Option<f64>) -> Option<Arc<Mutex<CpuCeiling>>> {
    cpu.map(|cores| Arc::new(Mutex::new(CpuCeiling::new(cores))))
}

struct Shared<'a> {
    old: &'a Core,
    internal_metrics: &'a InternalMetrics,
    taps: &'a Taps,
    internal_logs: &'a InternalLogs,
    /// Bytes for a sink's state beyond what it needs.
    state_bytes: u64,
    /// Bytes available for the queue of one sink.
    share: u64,
    /// Bytes that tickets of one source may keep at one cut.
    source_cut_bytes: u64,
    /// Bytes that tickets of all sources may keep at one cut.
    cut_bytes: u64,
    /// Most of them that a sink gets unless its buffer asks for more.
    share_max: u64,
    places: &'a SinkPlaces,
    kept: &'a IsKept<'a>,
}

pub(crate) fn wake_for_room(scheduler: &Weak<Scheduler>) {
    if let Some(scheduler) = scheduler.upgrade() {
        scheduler.wake_for_room();
    }
}

/// Builds the nodes of the topology: transforms in data-flow order, then sinks.
fn nodes(
    graph: &Graph,
    transforms: Vec<TransformPart>,
    sinks: impl Iterator<Item = (Kind, SinkPart)>,
    shared: &Shared<'_>,
    drivers: &mut Vec<LaneDriver>,
) -> Result<Vec<Node>, EngineError> {
    let mut parts: Vec<Option<TransformPart>> = transforms.into_iter().map(Some).collect();
    let mut nodes = Vec::new();
    for part in graph.order.iter().filter_map(|i| parts[*i].take()) {
        let outputs = graph.outputs(&part.id);
        nodes.push(match shared.kept_node(Kind::Transform, &part.id) {
            Some(kept) => Node { outputs, downstream: SinkSet::EMPTY, ..kept },
            None => shared.with_counters(transform_node(outputs, part, shared)),
        });
    }
    for (index, part) in sinks.enumerate() {
        nodes.push(sink_node(index, part, shared, drivers)?);
    }
    for index in (0..nodes.len()).rev() {
        let behind = nodes[index].outputs.iter().flatten().map(|reader| nodes[*reader].downstream);
        nodes[index].downstream =
            behind.fold(nodes[index].downstream, |all, downstream| all | downstream);
    }
    Ok(nodes)
}

fn transform_node(outputs: Vec<Vec<usize>>, part: TransformPart, shared: &Shared<'_>) -> Node {
    let op = match part.transform {
        Transform::Map(make) => Op::Map(make),
        Transform::Serial(serial) => Op::Serial(SerialStage::new(serial)),
        Transform::Offload(transform) => Op::Offload(Arc::new(OffloadQueue { transform })),
        Transform::Merge(_) => unreachable!("Parts::of has made it a sink"),
    };
    Node {
        outputs,
        tap: shared.taps.point(Side::Output, &part.id),
        id: part.id.into(),
        type_name: part.type_name,
        kind: Kind::Transform,
        op,
        downstream: SinkSet::EMPTY,
        counters: Arc::default(),
        load: Arc::default(),
    }
}

fn sink_node(
    index: usize,
    (kind, part): (Kind, SinkPart),
    shared: &Shared<'_>,
    drivers: &mut Vec<LaneDriver>,
) -> Result<Node, EngineError> {
    let (place, after) = (shared.places.indices[index], shared.places.after[index].clone());
    let share = part.buffer.share(shared.share, shared.share_max);
    let (id, counters) = shared.named(kind, &part.id, part.type_name);
    let disk = shared.disk_buffer(index, (kind, &id), &part, &counters)?;
    if let Some(kept) = shared.kept_node(kind, &part.id) {
        return Ok(kept.with_buffer(share, part.buffer, disk));
    }
    part.buffer.announce(&counters);
    let feed = if kind == Kind::Sink { Feed::of_refused() } else { Feed::of_results() };
    let driver = |lane| LaneDriver {
        kind,
        sink_id: id.clone(),
        lane,
        sink: part.sink.clone(),
        queue: lane_queue(shared, disk.as_ref()),
        counters: counters.clone(),
        state_bytes: part.sink.state_bytes_min() + shared.state_bytes,
        store: shared.old.store.clone(),
        clock: (shared.old.clock, shared.old.started),
        feed: feed.clone(),
        pressure: shared.old.memory.pressure(),
        after: after.clone(),
    };
    let first = drivers.len();
    drivers.extend((0..part.sink.lanes().max(1)).map(driver));
    let lanes = drivers[first..].iter().map(|driver| driver.queue.clone()).collect();
    let slot = SinkSlot::new(place, (part.sink, feed), lanes, (share, part.buffer));
    Ok(Node {
        tap: shared.taps.point(Side::Input, &id),
        id,
        type_name: part.type_name,
        kind,
        op: Op::Sink(SinkSlot::with_disk(slot, disk, after)),
        outputs: Vec::new(),
        downstream: SinkSet::one(place),
        counters,
        load: Arc::default(),
    })
}

/// Returns a queue that wakes the sources, and the disk buffer, when it has capacity.
fn lane_queue(shared: &Shared<'_>, disk: Option<&Arc<DiskBuffer>>) -> Arc<LaneQueue> {
    let scheduler = Arc::downgrade(&shared.old.scheduler);
    let disk = disk.map(Arc::downgrade);
    LaneQueue::new(move || {
        wake_for_room(&scheduler);
        disk.iter().filter_map(Weak::upgrade).for_each(|disk| disk.on_left());
    })
}

/// Returns the source of a feed, whose sink is among the nodes.
fn source_of_feed(part: FeedPart, nodes: &[Node]) -> (SourcePart, Option<Fed>) {
    let FeedPart { info, type_name, feeder } = part;
    let fed = nodes.iter().find_map(|node| match &node.op {
        Op::Sink(slot) if (node.kind, &node.id) == (feeder.kind, &feeder.id) => {
            Some(Fed { feeder: feeder.clone(), sink: slot.index, feed: slot.feed.clone() })
        }
        _ => None,
    });
    let feed = fed.as_ref().map(|fed| fed.feed.clone()).unwrap_or_else(Feed::of_refused);
    let open = Box::new(move |open| FeedSource::open(open, feed));
    (SourcePart { info, type_name, pace: Pace::default(), queue_bytes: 0, open }, fed)
}

fn sources(
    graph: &Graph,
    parts: impl Iterator<Item = (SourcePart, Option<Fed>)>,
    nodes: &[Node],
    shared: &Shared<'_>,
) -> Result<Vec<SourceSlot>, EngineError> {
    let slot = |(index, (part, fed))| source_slot(graph, index, (part, fed), nodes, shared);
    parts.enumerate().map(slot).collect()
}

fn source_slot(
    graph: &Graph,
    index: usize,
    (part, fed): (SourcePart, Option<Fed>),
    nodes: &[Node],
    shared: &Shared<'_>,
) -> Result<SourceSlot, EngineError> {
    let roots = graph.of(&part.info.id, 0);
    let downstream = roots.iter().fold(SinkSet::EMPTY, |all, node| all | nodes[*node].downstream);
    let (cuts, expansion) = (cuts(&roots, nodes, shared), chain_expansion(downstream, nodes));
    check_cuts(&part.info.id, cuts.len())?;
    if let Some(kept) = shared.kept_source(&part.info.id, fed.as_ref()) {
        return Ok(kept.rewired(part.pace, roots, cuts, downstream, expansion));
    }
    let (place, open_tickets) = (Arc::new(AtomicUsize::new(index)), Arc::default());
    let open = source_open(&place, (part.info, part.type_name), downstream, nodes, shared);
    let source = (part.open)(open.clone()).map_err(|error| not_opened(&open.info.id, error))?;
    Ok(SourceSlot {
        id: open.info.id.as_str().into(),
        type_name: part.type_name,
        fed,
        cuts,
        expansion,
        pace: part.pace,
        aside: Arc::new(shared.old.grant.set_aside(part.queue_bytes)),
        rate: rate(part.pace),
        pause: Mutex::default(),
        wait: CapacityWait::default(),
        tap: shared.taps.point(Side::Output, &open.info.id),
        is_live: source.is_live(),
        can_wait: source.can_wait(),
        reads_again: source.reads_again(),
        overflows: source.overflows(),
        info: open.info,
        source: Arc::new(Mutex::new(source)),
        place,
        roots,
        downstream,
        ledger: open.ledger,
        counters: open.counters,
        unreadable: open.unreadable,
        release: Mutex::new(Release::new(downstream)),
        open_tickets,
    })
}

fn not_opened(source_id: &str, error: BuildError) -> EngineError {
    EngineError::Source { id: source_id.to_owned(), error }
}

/// Refuses a source whose batches pass too many cuts.
fn check_cuts(source_id: &str, cuts: usize) -> Result<(), EngineError> {
    let source_id = source_id.to_owned();
    let is_few = cuts <= CUTS_MAX;
    if is_few { Ok(()) } else { Err(EngineError::TooManyCuts { source_id, cuts }) }
}

/// Creates the rate limiter of a source with this pace.
pub(crate) fn rate(pace: Pace) -> Option<Arc<Mutex<Rate>>> {
    pace.rate_limit.map(|rate| Arc::new(Mutex::new(Rate::new(rate))))
}

/// Returns the sinks in `downstream` with their ids.
pub(crate) fn sinks_of(downstream: SinkSet, nodes: &[Node]) -> Vec<(SinkIndex, String)> {
    let sink = |node: &Node| match &node.op {
        Op::Sink(slot) if downstream.contains(slot.index) => {
            Some((slot.index, node.id.to_string()))
        }
        _ => None,
    };
    nodes.iter().filter_map(sink).collect()
}

/// Builds what the source at this index is opened with.
fn source_open(
    place: &Arc<AtomicUsize>,
    (info, type_name): (SourceInfo, &'static str),
    downstream: SinkSet,
    nodes: &[Node],
    shared: &Shared<'_>,
) -> SourceOpen {
    let (ledger, wake) = (Ledger::new(), waker(&shared.old.scheduler, place.clone()));
    let wake_again = wake.clone();
    ledger.on_reread(move || wake_again());
    SourceOpen {
        sinks: sinks_of(downstream, nodes),
        store: shared.old.store.of_source(&info.id),
        held_dir: shared.old.store.held_dir(&info.id),
        counters: shared.counters(Kind::Source, &info.id, type_name),
        info: Arc::new(info),
        ledger,
        unreadable: Arc::default(),
        wake,
        internal_metrics: shared.internal_metrics.clone(),
        internal_logs: shared.internal_logs.clone(),
        pressure: shared.old.memory.pressure(),
        until_eof: shared.old.until_eof,
    }
}

fn waker(scheduler: &Arc<Scheduler>, place: Arc<AtomicUsize>) -> millstream_model::Wake {
    let scheduler = Arc::downgrade(scheduler);
    Arc::new(move || {
        if let Some(scheduler) = scheduler.upgrade() {
            scheduler.wake(place.load(Ordering::Relaxed));
        }
    })
}

/// Returns the serial and offload nodes reachable from `roots`, in data-flow order.
fn cuts(roots: &[usize], nodes: &[Node], shared: &Shared<'_>) -> Vec<Cut> {
    let reached = reachable(roots, nodes);
    let is_cut = |index: &usize| matches!(nodes[*index].op, Op::Serial(_) | Op::Offload(_));
    let mut cuts: Vec<Cut> = Vec::new();
    // Bits beyond the limit are refused by the caller.
    for node in (0..nodes.len()).filter(|index| reached[*index]).filter(is_cut) {
        let mut upstream = CutSet::default();
        let before = cuts.iter().take(CUTS_MAX).enumerate();
        before
            .filter(|(_, cut)| reachable(&[cut.node], nodes)[node])
            .for_each(|(index, _)| upstream.add(index));
        let downstream = nodes[node].downstream;
        let limits = cut_limits(&nodes[node], shared);
        let load = nodes[node].load.clone();
        let mut cut = Cut::new(node, (downstream, upstream), limits, load);
        cut.sheds = sheds(downstream, nodes);
        cuts.push(cut);
    }
    cuts
}

/// Returns what may wait at a cut.
fn cut_limits(node: &Node, shared: &Shared<'_>) -> CutLimits {
    let tickets = match &node.op {
        Op::Offload(queue) => {
            let calls = queue.transform.concurrency().max(1) * queue.transform.tickets_max().max(1);
            (CALLS_AHEAD * calls) as u64 + TICKETS_ON_THE_WAY
        }
        _ => u64::MAX,
    };
    CutLimits { source_bytes: shared.source_cut_bytes, bytes: shared.cut_bytes, tickets }
}

/// Returns which nodes are reachable from `roots`, themselves included.
fn reachable(roots: &[usize], nodes: &[Node]) -> Vec<bool> {
    let mut reached = vec![false; nodes.len()];
    roots.iter().for_each(|node| reached[*node] = true);
    for index in 0..nodes.len() {
        if reached[index] {
            nodes[index].outputs.iter().flatten().for_each(|reader| reached[*reader] = true);
        }
    }
    reached
}

/// Whether every sink in `downstream` drops events when it is full.
fn sheds(downstream: SinkSet, nodes: &[Node]) -> bool {
    let sinks = nodes.iter().filter_map(|node| match &node.op {
        Op::Sink(slot) if downstream.contains(slot.index) => Some(slot.buffer.when_full),
        _ => None,
    });
    let mut policies = sinks.peekable();
    policies.peek().is_some() && policies.all(|policy| policy != WhenFull::Block)
}
