//! Log lines about sinks and transforms that have been full for a long time.

use super::Status;
use crate::core::{Node, SinkSlot};
use crate::limits::FULL_AFTER;

impl Status<'_> {
    /// Logs once when a sink becomes full, and once when it has capacity again.
    pub fn watch_sinks(self) {
        let now = self.resources.engine_time();
        for (node, slot) in self.nodes.sinks() {
            let is_full = self.blocked_for(slot, now).is_some_and(|blocked| blocked >= FULL_AFTER);
            if !slot.report_full(is_full) {
                continue;
            }
            if is_full {
                log_full(node, slot);
            } else {
                log::info!("{} {}: the queue has capacity again", node.kind, node.id);
            }
        }
    }

    /// Logs once when events have waited at a transform for a long time, and once when they no
    /// longer do.
    pub fn watch_cuts(self) {
        let now = self.resources.engine_time();
        for (index, node) in self.nodes.indexed() {
            let mut cuts = self.sources.cuts_at(index);
            let waits = cuts.any(|cut| cut.full_for(now).is_some_and(|full| full >= FULL_AFTER));
            if !node.load.report(waits) {
                continue;
            }
            let id = &node.id;
            let seconds = FULL_AFTER.as_secs();
            if waits {
                log::warn!(
                    "transform {id}: events have waited here for {seconds} s; sources that can \
                     reread continue for sinks that are not downstream"
                );
            } else {
                log::info!("transform {id}: events no longer wait here");
            }
        }
    }
}

fn log_full(node: &Node, slot: &SinkSlot) {
    let kind = node.kind;
    let id = &node.id;
    let seconds = FULL_AFTER.as_secs();
    if slot.disk.is_some() {
        log::warn!(
            "sink {id}: the disk buffer has been full for {seconds} s; sources that cannot reread \
             do not receive events"
        );
    } else {
        log::warn!(
            "{kind} {id}: the queue has been full for {seconds} s; sources that can reread \
             continue without this {kind}, and other sources wait"
        );
    }
}
