//! The built topology, and the state that its threads share.
//!
//! A batch moves through the topology in one direction: [`Polling`] reads the batch and turns it
//! into a ticket, a worker runs the chain over the [`Nodes`], and [`Flow`] passes the result to the
//! lanes and to the transforms where it waits. [`Status`] shows the work in progress.

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

/// Interval between attempts to let go of transforms.
const LET_GO_POLL: Duration = Duration::from_millis(50);

/// A running topology. A reload replaces it.
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
    /// Creates a topology without components, the predecessor of the first real topology.
    pub fn empty(resources: Resources) -> Core {
        let resources = Arc::new(resources);
        Core::new(0, resources, Nodes::new(Vec::new()), Vec::new(), CpuLimit::default())
    }

    /// Creates the topology that follows `self`, with these components. `cpu_cores` is the maximum
    /// number of cores for the process.
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

    /// Returns the resources that all topologies share.
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

    /// Returns the part of the core that polls the sources.
    pub fn polling(&self) -> &Polling {
        &self.polling
    }

    /// Returns the part of the core that takes batches after the chain.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns a view of the work in progress.
    pub fn status(&self) -> Status<'_> {
        Status::new(&self.nodes, &self.sources, &self.resources, self.polling.cpu().cores())
    }

    /// Returns each component's counters.
    pub fn counters(&self) -> impl Iterator<Item = (ComponentKey, &Arc<Counters>)> {
        let sources = self.sources.iter();
        let sources = sources.map(|slot| ((Kind::Source, slot.id.clone()), &slot.counters));
        let nodes = self.nodes.iter().map(|node| ((node.kind, node.id.clone()), &node.counters));
        sources.chain(nodes)
    }

    /// Closes a sampling interval for all components, and logs components that have been full for a
    /// long time.
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

    /// Settles the rejected events that were delivered after their sources had ended.
    pub fn settle_refused(&self) {
        for slot in self.sources.iter() {
            if let Some(fed) = &slot.fed
                && !fed.feed.is_of_results()
            {
                feed_source::settle_refused(&fed.feed, &slot.ledger, slot.wiring.downstream);
            }
        }
    }

    /// After `time`, repeatedly lets go of the offload transforms whose ids `goes` selects, because
    /// more batches that wait for a call may arrive. While tickets are waiting at other offload
    /// transforms, the reload may still be rejected, so no transform is let go. Never returns.
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
