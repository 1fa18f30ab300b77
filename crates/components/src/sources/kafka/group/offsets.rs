//! Commits of offsets to Kafka.

use super::super::partition::Memory;
use super::Member;
use millstream_kafka::{ClientError, ErrorCode, TopicPartition};
use millstream_model::SinkIndex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What was committed, and what is on its way.
pub struct Offsets {
    interval: Duration,
    due_at: Instant,
    /// By partition: where reading began, and what the group has.
    committed: HashMap<TopicPartition, (u64, Option<u64>)>,
    /// What is on its way.
    asked: Vec<(TopicPartition, u64)>,
    /// Whether the last commit failed.
    has_failed: bool,
}

impl Offsets {
    pub fn new(interval: Duration, now: Instant) -> Offsets {
        let (committed, asked) = (HashMap::new(), Vec::new());
        Offsets { interval, due_at: now + interval, committed, asked, has_failed: false }
    }

    /// Notes what the group has of an assigned partition, which is read from `start` on.
    pub fn begin(&mut self, at: &TopicPartition, group: Option<u64>, start: u64) {
        self.committed.insert(at.clone(), (start, group));
    }

    /// Forgets a partition.
    pub fn end(&mut self, at: &TopicPartition) {
        self.committed.remove(at);
    }

    /// Whether a commit is on its way.
    pub fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }
}

impl Member {
    /// Commits at the interval.
    pub(super) fn commit_due(&mut self, now: Instant) {
        if now >= self.offsets.due_at {
            self.offsets.due_at = now + self.offsets.interval;
            self.commit_settled();
        }
    }

    /// Starts a commit of what every sink has settled, and the store has committed. One is on its
    /// way at a time.
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

    /// Returns the offset before which a crash takes nothing back: the smallest one of the sinks.
    pub(super) fn durable(&self, at: &TopicPartition) -> Option<u64> {
        let owned = self.owned.get(at)?;
        let open = &self.shared.open;
        let id = owned.partition.origin.id;
        let starts = owned.partition.state.lock().starts.clone();
        let settled = |sink: SinkIndex| open.ledger.checkpoint(id, sink);
        let (_, group) = *self.offsets.committed.get(at)?;
        // The store is asked only if there may be something to commit.
        let least = starts.iter().filter_map(|(sink, _)| settled(*sink)).min()?;
        if Some(least) <= group {
            return Some(least);
        }
        let committed = open.store.committed(id).ok()?;
        let sinks = self.shared.assigned.lock().sinks.clone();
        let durable = |(sink, start): &(SinkIndex, u64)| {
            let id = sinks.iter().find(|(index, _)| index == sink).map(|(_, id)| id);
            let own = committed.iter().find(|(of, _)| Some(of) == id).map_or(0, |(_, at)| *at);
            Some(own.max(*start).min(settled(*sink)?))
        };
        starts.iter().map(durable).min().flatten()
    }

    /// Handles the answer to a commit.
    pub(super) fn committed(&mut self, answer: Result<(), ClientError>) {
        let asked = std::mem::take(&mut self.offsets.asked);
        match answer {
            Ok(()) => {
                self.offsets.has_failed = false;
                for (at, offset) in asked {
                    self.note_committed(&at, offset);
                }
            }
            Err(error) if error.code == ErrorCode::NoOffset => {}
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

    fn commit_failed(&mut self, error: &ClientError) {
        let open = &self.shared.open;
        open.counters.error("commit");
        if !self.offsets.has_failed {
            log::warn!(
                "source {}: cannot commit offsets of group {}: {}; trying again",
                open.info.id,
                self.shared.config.group,
                error.message
            );
        }
        self.offsets.has_failed = true;
    }
}
