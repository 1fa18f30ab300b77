//! The threads of offload transforms.

use crate::chain::at_cut;
use crate::core::{Core, Node, Op};
use crate::current::Current;
use crate::running::{Running, spawn};
use crate::stage::OffloadQueue;
use millstream_model::Offload;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The queue and the thread function of every offload node.
pub(crate) fn offloads(core: &Core) -> Vec<(usize, Arc<dyn Offload>, Arc<OffloadQueue>)> {
    let offload = |(index, node): (usize, &Node)| match &node.op {
        Op::Offload(offload, queue) => Some((index, offload.clone(), queue.clone())),
        _ => None,
    };
    core.nodes.iter().enumerate().filter_map(offload).collect()
}

/// The threads of one offload transform, wherever it is in the topology.
pub(crate) fn start_offload(
    current: &Arc<Current>,
    offload: &Arc<dyn Offload>,
    queue: &Arc<OffloadQueue>,
) -> Vec<JoinHandle<()>> {
    let start = |number| {
        let (current, offload, queue) = (current.clone(), offload.clone(), queue.clone());
        let scheduler = current.core().scheduler.clone();
        spawn(&format!("offload-{number}"), move || {
            queue.serve(&scheduler, |ticket| {
                let core = current.core();
                let node =
                    offloads(&core).into_iter().find(|(_, _, other)| Arc::ptr_eq(other, &queue));
                // A node with tickets is in the topology.
                let Some((node, ..)) = node else { return ticket };
                at_cut(&core, node, ticket, |b, out| offload.apply(b, out))
            });
        })
    };
    (0..offload.threads().max(1)).map(start).collect()
}

impl Running {
    /// Starts threads for offload transforms that are new in `next`, and ends those only in `old`.
    pub(crate) fn change_offloads(&mut self, old: &Core, next: &Core) {
        let (before, now) = (offloads(old), offloads(next));
        let has = |list: &[(usize, _, Arc<OffloadQueue>)], queue: &Arc<OffloadQueue>| {
            list.iter().any(|(_, _, other)| Arc::ptr_eq(other, queue))
        };
        before
            .iter()
            .filter(|(_, _, queue)| !has(&now, queue))
            .for_each(|(_, _, queue)| queue.stop());
        for (_, offload, queue) in now.iter().filter(|(_, _, queue)| !has(&before, queue)) {
            self.threads.extend(start_offload(&self.current, offload, queue));
        }
    }
}
