//! Commits offsets to Kafka.

use super::super::partition::Memory;
use super::{AssignedPartition, Member};
use millstream_kafka::{ClientError, ErrorCode, TopicPartition};
use millstream_model::SinkIndex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The committed offsets, and the offsets of the commit in flight.
pub struct Offsets {
    interval: Duration,
    due_at: Instant,
    /// By partition: the offset where reading began, and the offset that the group has committed.
    committed: HashMap<TopicPartition, (u64, Option<u64>)>,
    /// Offsets of the commit in flight.
    asked: Vec<(TopicPartition, u64)>,
    /// Whether the last commit failed.
    has_failed: bool,
}

impl Offsets {
    pub fn new(interval: Duration, now: Instant) -> Offsets {
        let (committed, asked) = (HashMap::new(), Vec::new());
        Offsets { interval, due_at: now + interval, committed, asked, has_failed: false }
    }

    /// Adds an assigned partition, which is read starting at `start`, with the offset that the
    /// group has committed.
    pub fn begin(&mut self, at: &TopicPartition, group: Option<u64>, start: u64) {
        self.committed.insert(at.clone(), (start, group));
    }

    /// Removes a partition.
    pub fn end(&mut self, at: &TopicPartition) {
        self.committed.remove(at);
    }

    /// Returns the offset that the group has committed for a partition.
    pub fn group(&self, at: &TopicPartition) -> Option<u64> {
        self.committed.get(at).and_then(|(_, group)| *group)
    }

    /// Returns whether a commit is in flight.
    pub fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }
}

impl Member {
    /// Starts a commit if the interval has passed.
    pub(super) fn commit_due(&mut self, now: Instant) {
        if now >= self.offsets.due_at {
            self.offsets.due_at = now + self.offsets.interval;
            self.commit_settled();
        }
    }

    /// Starts a commit of the offsets that every sink has settled and the store has committed. Only
    /// one commit is in flight at a time.
    pub(super) fn commit_settled(&mut self) {
        if self.offsets.is_waiting() {
            return;
        }
        let due = |(at, (_, group)): (&TopicPartition, &(u64, Option<u64>))| {
            let durable = self.durable(at).filter(|durable| Some(*durable) > *group)?;
            Some((at.clone(), durable))
        };
        let due: Vec<_> = self.offsets.committed.iter().filter_map(due).collect();
        if due.is_empty() {
            return;
        }
        match self.consumer.commit(&due) {
            Ok(()) => self.offsets.asked = due,
            Err(error) => self.commit_failed(&error),
        }
    }

    /// Returns the smallest offset that all sinks have settled durably, so that no earlier record
    /// is repeated after a crash; `None` if this offset is not known.
    pub(super) fn durable(&self, at: &TopicPartition) -> Option<u64> {
        let owned = self.owned.get(at)?;
        let open = &self.shared.open;
        let id = owned.partition.origin.id;
        let starts = owned.partition.state.lock().starts.clone();
        let settled = |sink: SinkIndex| open.ledger.checkpoint(id, sink);
        let (_, group) = *self.offsets.committed.get(at)?;
        // Query the store only if there may be an offset to commit.
        let least = starts.iter().filter_map(|(sink, _)| settled(*sink)).min()?;
        if Some(least) <= group {
            return Some(least);
        }
        let committed = open.store.committed(id).ok()?;
        let sinks = self.shared.assigned.lock().sinks.clone();
        let durable = |(sink, start): &(SinkIndex, u64)| {
            let id = sinks.iter().find(|(index, _)| index == sink).map(|(_, id)| id);
            let own = committed.iter().find(|(sink, _)| Some(sink) == id).map_or(0, |(_, at)| *at);
            Some(own.max(*start).min(settled(*sink)?))
        };
        starts.iter().map(durable).min().flatten()
    }

    /// Handles the response to a commit.
    pub(super) fn committed(&mut self, answer: Result<(), ClientError>) {
        let asked = std::mem::take(&mut self.offsets.asked);
        match answer {
            Ok(()) => {
                self.offsets.has_failed = false;
                asked.iter().for_each(|(at, offset)| self.note_committed(at, *offset));
            }
            // The commit failed because the group is rebalancing. The next commit uses the new
            // generation.
            Err(error) if is_transient(error.code) => log::debug!("commit: {}", error.message),
            Err(error) => self.commit_failed(&error),
        }
    }

    fn note_committed(&mut self, at: &TopicPartition, offset: u64) {
        let (Some(owned), Some((start, group))) =
            (self.owned.get(at), self.offsets.committed.get_mut(at))
        else {
            return;
        };
        *group = Some(offset);
        let memory = Memory { start: *start, committed: Some(offset) };
        self.shared.open.store.note(owned.partition.origin.id, memory.to_bytes());
    }

    /// Saves the committed offsets in the store. At shutdown, no later save of the checkpoints
    /// includes them.
    pub(super) fn keep_committed(&self) {
        let descriptor = |(at, owned): (&TopicPartition, &AssignedPartition)| {
            let (start, committed) = *self.offsets.committed.get(at)?;
            Some((owned.partition.origin.id, Memory { start, committed }.to_bytes()))
        };
        let all: Vec<_> = self.owned.iter().filter_map(descriptor).collect();
        if !all.is_empty()
            && let Err(error) = self.shared.open.store.keep(&all)
        {
            log::warn!("source {}: cannot save offsets: {error}", self.shared.open.info.id);
        }
    }

    fn commit_failed(&mut self, error: &ClientError) {
        let open = &self.shared.open;
        open.counters.error("commit");
        if !self.offsets.has_failed {
            log::warn!(
                "source {}: cannot commit offsets of group {}: {}; retrying",
                open.info.id,
                self.shared.config.group,
                error.message
            );
        }
        self.offsets.has_failed = true;
    }
}

fn is_transient(code: ErrorCode) -> bool {
    use ErrorCode::{IllegalGeneration, NoOffset, RebalanceInProgress};
    matches!(code, IllegalGeneration | NoOffset | RebalanceInProgress)
}
