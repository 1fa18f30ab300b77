//! Handles partitions that the group revokes.

use super::super::partition::{Partition, Phase};
use super::Member;
use millstream_kafka::TopicPartition;
use millstream_recorder::record;
use millstream_recorder::recorder::Timer;
use std::sync::Arc;
use std::time::Instant;

/// A revocation in progress, which waits until its partitions are drained.
pub struct Revoking {
    partitions: Vec<TopicPartition>,
    /// Timer that started when the revocation arrived.
    begun: Timer,
    deadline: Instant,
    /// Whether the last commit was started.
    is_committing: bool,
}

impl Member {
    /// Starts to drain partitions. If the assignment was lost, gives the partitions up immediately,
    /// because another member may already own them.
    pub(super) fn revoke(
        &mut self,
        partitions: Vec<TopicPartition>,
        is_lost: bool,
        begun: Timer,
        now: Instant,
    ) {
        for partition in self.partitions(&partitions) {
            partition.state.lock().phase = Phase::Draining;
        }
        if is_lost {
            self.shared.open.counters.error("lost_assignment");
            log::warn!(
                "source {}: group {} revoked partitions because this member did not poll in time",
                self.shared.open.info.id,
                self.shared.config.group
            );
            return self.give_up(&partitions, begun);
        }
        let deadline = now + self.shared.config.revoke_timeout.0;
        self.revoking = Some(Revoking { partitions, begun, deadline, is_committing: false });
        self.advance_revoke(now);
    }

    /// Continues the revocation: once all partitions are drained or the deadline has passed,
    /// commits their offsets, and then gives the partitions up.
    pub(super) fn advance_revoke(&mut self, now: Instant) {
        let Some(Revoking { partitions, begun, deadline, is_committing }) = &mut self.revoking
        else {
            return;
        };
        let is_late = now >= *deadline;
        if !*is_committing {
            let partitions = partitions.clone();
            if !is_late && !partitions.iter().all(|at| self.is_drained(at)) {
                return;
            }
            self.commit_settled();
            if let Some(revoking) = &mut self.revoking {
                revoking.is_committing = true;
            }
        } else if is_late || !self.offsets.is_waiting() {
            let (partitions, begun) = (partitions.clone(), *begun);
            // If the commit failed, for example because its generation has just ended, commit
            // again.
            if !is_late && partitions.iter().any(|at| self.has_to_commit(at)) {
                return self.commit_settled();
            }
            self.revoking = None;
            self.give_up(&partitions, begun);
        }
    }

    /// Returns whether all issued records of a partition are settled durably and no commit is in
    /// flight.
    fn is_drained(&self, at: &TopicPartition) -> bool {
        let Some(owned) = self.owned.get(at) else { return true };
        let id = owned.partition.origin.id;
        let is_settled = self.shared.open.ledger.owed(id).is_none_or(|owed| owed.in_flight == 0);
        let next = owned.partition.state.lock().next;
        is_settled && !self.offsets.is_waiting() && self.durable(at).is_none_or(|at| at >= next)
    }

    fn has_to_commit(&self, at: &TopicPartition) -> bool {
        self.durable(at).is_some_and(|durable| Some(durable) > self.offsets.group(at))
    }

    fn give_up(&mut self, partitions: &[TopicPartition], begun: Timer) {
        self.disown(partitions);
        if let Err(error) = self.consumer.unassign(partitions) {
            self.shared.report(&error);
        }
        record::rebalance(begun, &self.subject, 0, partitions.len());
        (self.shared.open.wake)();
    }

    /// Closes partitions that the member no longer owns.
    pub(super) fn disown(&mut self, partitions: &[TopicPartition]) {
        let gone = self.partitions(partitions);
        self.shared.remove(&gone);
        for at in partitions {
            self.owned.remove(at);
            self.offsets.end(at);
        }
    }

    fn partitions(&self, partitions: &[TopicPartition]) -> Vec<Arc<Partition>> {
        partitions.iter().filter_map(|at| Some(self.owned.get(at)?.partition.clone())).collect()
    }
}
