//! The built topology, and what its threads share.
//!
//! A batch goes one way through it: [`Polling`] reads it and makes it a ticket, a worker runs the
//! chain over the [`Nodes`], and [`Flow`] gives the result to the lanes and to the transforms where
//! it waits. [`Status`] shows what is on its way.

mod commits;
mod cpu_limit;
mod flow;
mod node;
mod nodes;
mod polling;
mod resources;
mod sink_slot;
mod source_slot;
mod sources;
mod status;
mod waits;

pub(crate) use cpu_limit::CpuLimit;
pub(crate) use flow::{FinishedCall, Flow};
pub(crate) use node::{Node, Op};
pub(crate) use nodes::Nodes;
pub(crate) use polling::Polling;
pub(crate) use resources::Resources;
pub(crate) use sink_slot::{NewSink, SinkSlot};
pub(crate) use source_slot::{
    Fed, Feeder, IsKept, Leave, OpenedSource, SourcePlace, SourceSlot, Wiring,
};
pub(crate) use sources::Sources;
pub(crate) use status::Status;
pub(crate) use waits::CapacityWait;

use crate::feed_source;
use crate::removed::ComponentKey;
use millstream_model::{Counters, Kind};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How often transforms are let go.
const LET_GO_POLL: Duration = Duration::from_millis(50);

/// A topology that runs. A reload replaces it.
pub(crate) struct Core {
    /// Number of topologies before this one.
    generation: u64,
    resources: Arc<Resources>,
    nodes: Arc<Nodes>,
    sources: Arc<Sources>,
    polling: Polling,
    flow: Flow,
}

impl Core {
    /// Creates a topology without components, which the first one follows.
    pub fn empty(resources: Resources) -> Core {
        let resources = Arc::new(resources);
        Core::new(0, resources, Nodes::new(Vec::new()), Vec::new(), CpuLimit::default())
    }

    /// Creates the topology that follows `self`, with these components and most cores for the
    /// process.
    pub fn next(&self, nodes: Nodes, sources: Vec<SourceSlot>, cpu_cores: Option<f64>) -> Core {
        let cpu = self.polling.cpu().renewed(cpu_cores);
        Core::new(self.generation + 1, self.resources.clone(), nodes, sources, cpu)
    }

    fn new(
        generation: u64,
        resources: Arc<Resources>,
        nodes: Nodes,
        sources: Vec<SourceSlot>,
        cpu: CpuLimit,
    ) -> Core {
        let nodes = Arc::new(nodes);
        let sources = Arc::new(Sources::new(sources, resources.scheduler.clone()));
        Core {
            generation,
            polling: Polling::new(nodes.clone(), sources.clone(), resources.clone(), cpu),
            flow: Flow::new(nodes.clone(), sources.clone(), resources.clone()),
            resources,
            nodes,
            sources,
        }
    }

    /// Returns the number of topologies before this one.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns what all topologies share.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Returns the transforms and sinks.
    pub fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    /// Returns the sources.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns what polls the sources.
    pub fn polling(&self) -> &Polling {
        &self.polling
    }

    /// Returns what takes batches behind the chain.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns a view of what is on its way.
    pub fn status(&self) -> Status<'_> {
        Status::new(&self.nodes, &self.sources, &self.resources, self.polling.cpu().cores())
    }

    /// Returns the counters of each component.
    pub fn counters(&self) -> impl Iterator<Item = (ComponentKey, &Arc<Counters>)> {
        let sources = self.sources.iter();
        let sources = sources.map(|slot| ((Kind::Source, slot.id.clone()), &slot.counters));
        let nodes = self.nodes.iter().map(|node| ((node.kind, node.id.clone()), &node.counters));
        sources.chain(nodes)
    }

    /// Closes a sampling interval of all components, and logs what is full for long.
    pub fn sample(&self, interval: Duration) {
        for node in self.nodes.iter() {
            node.counters.sample(interval);
        }
        for source in self.sources.iter() {
            source.sample(interval);
        }
        for (_, disk) in self.nodes.disks() {
            disk.sample(interval);
        }
        let status = self.status();
        status.watch_sinks();
        self.polling.sample_blocked(self.resources.engine_time());
        status.watch_cuts();
    }

    /// Settles the refused events that were delivered after their sources had ended.
    pub fn settle_refused(&self) {
        for slot in self.sources.iter() {
            if let Some(fed) = &slot.fed
                && !fed.feed.is_of_results()
            {
                feed_source::settle_refused(&fed.feed, &slot.ledger, slot.wiring.downstream);
            }
        }
    }

    /// Lets go of the offload transforms that `goes` selects by id, repeatedly after some time,
    /// because batches that wait for a call follow. While tickets wait at other offload transforms,
    /// the reload may be rejected, so no transform is let go. Never returns.
    pub async fn let_go_later(&self, time: Duration, goes: impl Fn(&str) -> bool) -> Infallible {
        tokio::time::sleep(time).await;
        loop {
            if self.status().waits_only_at(&goes) {
                self.nodes.let_go(&goes);
            }
            tokio::time::sleep(LET_GO_POLL).await;
        }
    }
}
