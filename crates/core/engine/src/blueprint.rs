//! The blueprint of a topology, and the construction of the topology from it.

mod assembly;
mod graph;
mod memory;
mod parts;
mod place;
mod wiring;

pub(crate) use parts::Parts;
pub(crate) use place::SinkPlace;

use crate::buffer::Buffer;
use crate::clock::{Clock, EngineClock};
use crate::core::{Core, IsKept, Resources};
use crate::current::Current;
use crate::error::EngineError;
use crate::governor::{Governor, MemoryHost, MemoryState};
use crate::lane::LaneDriver;
use crate::offload::OffloadPool;
use crate::pace::Pace;
use crate::removed::{RemovedCounters, RemovedSources};
use crate::scheduler::Scheduler;
use assembly::{Assembly, PlacedSink};
use graph::Graph;
use memory::{MemoryShares, grant_bytes};
use millstream_model::tap::Taps;
use millstream_model::{
    BlockPool, BuildError, Grant, InternalLogs, InternalMetrics, Sink, Source, SourceInfo,
    SourceOpen, Transform,
};
use millstream_store::Store;
use std::sync::{Arc, Weak};

/// Settings for an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of worker threads.
    pub threads: usize,
    /// Maximum number of threads in the pool for offload transforms. Threads start when there is
    /// work.
    pub offload_threads: usize,
    /// `limits.memory` in bytes. Data in flight gets a fixed share of this memory.
    pub memory_bytes: u64,
    /// The part of `memory_bytes` that a runtime inside the process may take, such as a JVM.
    pub reserved_bytes: u64,
    /// Measures the memory in use for the governor; `None` in simulations.
    pub memory_host: Option<MemoryHost>,
    /// Maximum number of cores that the process uses, more than zero; unlimited if `None`.
    pub cpu: Option<f64>,
    /// Maximum bytes queued for one sink, if lower than the sink's share.
    pub sink_bytes_max: u64,
    /// Whether to read the existing data, deliver it, and exit.
    pub until_eof: bool,
    /// Source of wall-clock time.
    pub clock: Clock,
    /// The agent's own metrics, for sources that emit them.
    pub internal_metrics: InternalMetrics,
    /// The points where listeners receive samples of the events.
    pub taps: Taps,
    /// The agent's own log records, for the sources that emit them.
    pub internal_logs: InternalLogs,
}

/// An input of a component, as the output that it reads: the id of the upstream component, and 0
/// for its main output or the index of a side output.
pub type Input = (String, usize);

/// Opens a source when the topology is built.
pub type OpenSource = Box<dyn FnOnce(SourceOpen) -> Result<Box<dyn Source>, BuildError> + Send>;

/// A source in a blueprint.
pub struct SourcePart {
    /// Properties that the source's events share, including the component id.
    pub info: SourceInfo,
    /// Component type.
    pub type_name: &'static str,
    /// Priority and rate limit.
    pub pace: Pace,
    /// Maximum bytes that the source keeps in addition to its blocks.
    pub queue_bytes: u64,
    /// Opens the source.
    pub open: OpenSource,
}

/// A transform in a blueprint.
pub struct TransformPart {
    /// Component id.
    pub id: String,
    /// Component type.
    pub type_name: &'static str,
    /// The outputs that the component reads.
    pub inputs: Vec<Input>,
    /// The transform, or the factory for its instances.
    pub transform: Transform,
}

/// A sink in a blueprint.
pub struct SinkPart {
    /// Component id.
    pub id: String,
    /// Component type.
    pub type_name: &'static str,
    /// The outputs that the component reads.
    pub inputs: Vec<Input>,
    /// The buffer in front of the sink.
    pub buffer: Buffer,
    /// The sink itself.
    pub sink: Arc<dyn Sink>,
}

/// The components and their inputs. Ids are unique.
#[derive(Default)]
pub struct Blueprint {
    /// Sources, in any order.
    pub sources: Vec<SourcePart>,
    /// Transforms, in any order.
    pub transforms: Vec<TransformPart>,
    /// Sinks, in any order.
    pub sinks: Vec<SinkPart>,
}

/// A topology with open sources that has not been started.
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

    /// Opens every source, and builds the topology. `store` contains the state from before the
    /// restart.
    pub fn build(self, settings: &Settings, store: Arc<Store>) -> Result<Built, EngineError> {
        let parts = Parts::of(self);
        parts.check(settings)?;
        let least_bytes = parts.grant_bytes_min(settings);
        let places = SinkPlace::first(parts.sinks.len());
        let empty = Core::empty(resources(settings, store.clone()));
        let assembled = parts.assemble(&empty, settings, places, &|_, _| false)?;
        let Assembled { core, drivers } = assembled;
        core.sources().wire();
        let Resources { memory, grant, threads, .. } = core.resources();
        let govern = |host| Governor::new(host, memory.clone(), grant.clone(), least_bytes);
        let governor = settings.memory_host.clone().map(govern);
        let threads = *threads;
        let current = Arc::new(Current::new(core));
        let keeper = Arc::downgrade(&current);
        store.on_keep(move || keeper.upgrade().map_or(Ok(()), |current| current.commit()));
        Ok(Built { current, drivers, governor, threads })
    }
}

/// Creates the resources that all of an engine's topologies share.
fn resources(settings: &Settings, store: Arc<Store>) -> Resources {
    let grant = Grant::new(grant_bytes(settings));
    let scheduler = Arc::new(Scheduler::default());
    let for_room = Arc::downgrade(&scheduler);
    grant.on_available(move || wake_for_room(&for_room));
    Resources {
        clock: EngineClock::start(settings.clock),
        until_eof: settings.until_eof,
        memory: MemoryState::new(settings.memory_bytes),
        grant,
        pool: BlockPool::new(),
        store,
        scheduler,
        offload: OffloadPool::new(settings.offload_threads),
        threads: settings.threads.max(1),
        removed: RemovedSources::default(),
        removed_counters: RemovedCounters::default(),
    }
}

/// A topology that has been assembled but is not running yet.
pub(crate) struct Assembled {
    pub core: Core,
    /// Drivers for the lanes of new sinks.
    pub drivers: Vec<LaneDriver>,
}

impl Parts {
    /// Assembles the topology that follows `old`. The new topology shares the components that are
    /// `kept`; `old` does not change. `places` contains the place of each sink, in the order of the
    /// sinks.
    pub(crate) fn assemble(
        self,
        old: &Core,
        settings: &Settings,
        places: Vec<SinkPlace>,
        kept: &IsKept<'_>,
    ) -> Result<Assembled, EngineError> {
        let graph = Graph::new(&self)?;
        let shares = MemoryShares::new(&self, settings, old.resources().grant.bytes_max());
        let assembly = Assembly { old, settings, graph: &graph, shares, kept };
        let kinds: Vec<_> = self.sinks.iter().map(|sink| self.kind_of(&sink.id)).collect();
        let mut sinks = Vec::new();
        for ((part, kind), place) in self.sinks.into_iter().zip(kinds).zip(places) {
            sinks.push(PlacedSink { kind, part, place });
        }
        let mut drivers = Vec::new();
        let nodes = assembly.nodes(self.transforms, sinks, &mut drivers)?;
        let sources = assembly.sources(self.sources, self.feeds, &nodes)?;
        Ok(Assembled { core: old.next(nodes, sources, settings.cpu), drivers })
    }
}

/// Polls the sources that are waiting for capacity.
pub(crate) fn wake_for_room(scheduler: &Weak<Scheduler>) {
    if let Some(scheduler) = scheduler.upgrade() {
        scheduler.wake_for_room();
    }
}
