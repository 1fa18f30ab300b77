//! A partition that is assigned to the source, and the positions where its sinks start.

use millstream_kafka::TopicPartition;
use millstream_model::{Origin, OriginId, SinkIndex, SinkSet};
use parking_lot::Mutex;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// A partition, from its assignment until it is revoked.
pub struct Partition {
    /// Topic and partition number.
    pub at: TopicPartition,
    /// Origin of the partition.
    pub origin: Arc<Origin>,
    /// Progress of reading.
    pub state: Mutex<State>,
}

/// The progress of reading a partition.
pub struct State {
    /// Offset of the next record to issue.
    pub next: u64,
    /// Offset of the first record for each sink.
    pub starts: Vec<(SinkIndex, u64)>,
    /// Whether records are still issued.
    pub phase: Phase,
    /// Whether the end of the partition has been reached at least once.
    pub was_at_end: bool,
}

/// The phase of a partition, which determines whether its records are issued and settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The partition is being read.
    Open,
    /// The partition is being revoked. No more records are issued, but records that were already
    /// issued are settled.
    Draining,
    /// The member no longer owns the partition.
    Closed,
}

impl State {
    /// Returns the sinks that receive the next record, and the next offset at which another sink
    /// starts to receive records.
    pub fn turn(&self) -> (SinkSet, Option<u64>) {
        let now = self.starts.iter().filter(|(_, start)| *start <= self.next);
        let later = self.starts.iter().map(|(_, start)| *start).filter(|start| *start > self.next);
        (now.map(|(sink, _)| *sink).collect(), later.min())
    }

    /// Keeps the sinks in `kept`, and adds the sinks in `new`, each with the offset of its first
    /// record.
    pub fn set_sinks(&mut self, kept: SinkSet, new: impl IntoIterator<Item = (SinkIndex, u64)>) {
        self.starts.retain(|(sink, _)| kept.contains(*sink));
        self.starts.extend(new);
    }
}

/// The state of a partition that the agent saves in its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Offset where reading began.
    pub start: u64,
    /// Offset that was last committed to Kafka.
    pub committed: Option<u64>,
}

/// Length of an encoded [`Memory`] in bytes.
const DESCRIPTOR_BYTES: usize = 17;

impl Memory {
    /// Encodes the state as the descriptor of the origin.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.start.to_be_bytes().to_vec();
        bytes.push(u8::from(self.committed.is_some()));
        bytes.extend_from_slice(&self.committed.unwrap_or(0).to_be_bytes());
        bytes
    }

    /// Decodes a descriptor.
    pub fn from_bytes(bytes: &[u8]) -> Option<Memory> {
        let bytes: &[u8; DESCRIPTOR_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_be_bytes).ok();
        let committed = if bytes[8] == 1 { number(9) } else { None };
        Some(Memory { start: number(0)?, committed })
    }
}

/// The offsets that are known when a partition is assigned.
#[derive(Clone, Debug, Default)]
pub struct KnownOffsets {
    /// Offset that the group has committed.
    pub group: Option<u64>,
    /// State that the agent has saved, with the checkpoints of the sinks.
    pub own: Option<(Memory, Vec<(String, u64)>)>,
    /// Offset according to `read_from`.
    pub read_from: u64,
    /// Offset of the first record.
    pub first: u64,
    /// Offset after the last record.
    pub end: u64,
}

/// Where reading of a partition starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starts {
    /// Offset of the first record to read.
    pub base: u64,
    /// Offset of the first record for each sink.
    pub sinks: Vec<(SinkIndex, u64)>,
    /// Number of records that were deleted before they were read.
    pub lost: u64,
    /// Whether the checkpoints of the sinks are void because an operator moved the group back.
    pub was_reset: bool,
}

impl KnownOffsets {
    /// Updates the checkpoints with offsets that the sinks have settled but that the store may not
    /// contain yet.
    pub fn add(&mut self, settled: Option<&Vec<(String, u64)>>) {
        let Some((_, checkpoints)) = &mut self.own else { return };
        for (sink, offset) in settled.into_iter().flatten() {
            match checkpoints.iter_mut().find(|(id, _)| id == sink) {
                Some((_, checkpoint)) => *checkpoint = (*checkpoint).max(*offset),
                None => checkpoints.push((sink.clone(), *offset)),
            }
        }
    }

    /// Returns the start positions. A sink that is ahead of the group continues at its checkpoint.
    pub fn starts(&self, sinks: &[(SinkIndex, String)]) -> Starts {
        let memory = self.own.as_ref().map(|(memory, _)| *memory);
        let resumed = memory.map(|memory| memory.committed.unwrap_or(memory.start));
        let resumed = self.group.or(resumed);
        let wanted = resumed.unwrap_or(self.read_from);
        let was_reset = self.group < memory.and_then(|memory| memory.committed);
        let was_reset = self.group.is_some() && was_reset;
        // If the offset is beyond the end, the records were truncated, and other records may have
        // received their offsets.
        let base = if wanted > self.end { self.first } else { wanted.max(self.first) };
        let is_known = !was_reset && wanted <= self.end;
        let checkpoints =
            self.own.as_ref().filter(|_| is_known).map(|(_, positions)| &positions[..]);
        let checkpoint = |id: &str| {
            let found = checkpoints.unwrap_or_default().iter().find(|(sink, _)| sink == id);
            found.map_or(base, |(_, offset)| (*offset).clamp(base, self.end.max(base)))
        };
        let sinks: Vec<_> = sinks.iter().map(|(sink, id)| (*sink, checkpoint(id))).collect();
        let base = sinks.iter().map(|(_, start)| *start).min().unwrap_or(base);
        let lost = resumed.map_or(0, |resumed| self.first.saturating_sub(resumed));
        Starts { base, sinks, lost, was_reset }
    }
}

/// Returns the id of a partition's origin, which is the same on every agent.
pub fn origin_id(cluster: &str, topic_id: Option<[u8; 16]>, at: &TopicPartition) -> OriginId {
    let mut hash = Xxh3::new();
    hash.update(&(cluster.len() as u32).to_be_bytes());
    hash.update(cluster.as_bytes());
    match topic_id {
        Some(id) => hash.update(&id),
        None => hash.update(at.topic.as_bytes()),
    }
    hash.update(&at.partition.to_be_bytes());
    OriginId(hash.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(index: usize) -> SinkIndex {
        SinkIndex::new(index)
    }

    fn sinks() -> Vec<(SinkIndex, String)> {
        vec![(sink(0), "a".to_owned()), (sink(1), "b".to_owned())]
    }

    fn known(
        group: Option<u64>,
        committed: Option<u64>,
        positions: &[(&str, u64)],
    ) -> KnownOffsets {
        let positions = positions.iter().map(|(id, at)| ((*id).to_owned(), *at)).collect();
        let own = Some((Memory { start: 10, committed }, positions));
        KnownOffsets { group, own, read_from: 500, first: 0, end: 1000 }
    }

    /// Returns the starts of both sinks.
    fn starts(known: &KnownOffsets) -> (u64, u64) {
        let starts = known.starts(&sinks());
        assert_eq!(starts.base, starts.sinks[0].1.min(starts.sinks[1].1));
        (starts.sinks[0].1, starts.sinks[1].1)
    }

    #[test]
    fn a_new_partition_starts_where_it_is_told() {
        let new = KnownOffsets { own: None, ..known(None, None, &[]) };
        assert_eq!(starts(&new), (500, 500));
        assert_eq!(starts(&KnownOffsets { group: Some(7), ..new }), (7, 7));
    }

    #[test]
    fn a_sink_that_is_ahead_continues_at_its_checkpoint() {
        assert_eq!(starts(&known(Some(100), Some(100), &[("a", 100), ("b", 300)])), (100, 300));
        // Another member read the partition in the meantime.
        assert_eq!(starts(&known(Some(200), Some(100), &[("a", 100), ("b", 300)])), (200, 300));
        assert_eq!(starts(&known(Some(400), Some(100), &[("a", 100), ("b", 300)])), (400, 400));
        // A new sink starts at the offset of the group.
        assert_eq!(starts(&known(Some(100), Some(100), &[("b", 300)])), (100, 300));
        // All sinks are ahead, so no earlier record is read.
        assert_eq!(starts(&known(Some(100), Some(100), &[("a", 200), ("b", 300)])), (200, 300));
    }

    #[test]
    fn without_an_offset_of_the_group_reading_resumes_where_it_was() {
        assert_eq!(starts(&known(None, None, &[("b", 300)])), (10, 300));
        assert_eq!(starts(&known(None, Some(90), &[("a", 120), ("b", 300)])), (120, 300));
    }

    #[test]
    fn a_group_that_was_moved_back_is_read_again_by_all() {
        let back = known(Some(50), Some(100), &[("a", 100), ("b", 300)]);
        assert_eq!(starts(&back), (50, 50));
        assert!(back.starts(&sinks()).was_reset);
    }

    #[test]
    fn deleted_and_truncated_records_are_not_waited_for() {
        let mut known = known(Some(100), Some(100), &[("a", 100), ("b", 300)]);
        (known.first, known.end) = (250, 1000);
        assert_eq!((starts(&known), known.starts(&sinks()).lost), ((250, 300), 150));
        (known.first, known.end) = (20, 60);
        assert_eq!((starts(&known), known.starts(&sinks()).lost), ((20, 20), 0));
    }

    #[test]
    fn the_sinks_of_a_record_change_where_one_of_them_starts() {
        let all = |sinks: &[usize]| sinks.iter().copied().map(sink).collect::<SinkSet>();
        let starts = vec![(sink(0), 10), (sink(1), 30), (sink(2), 30)];
        let mut state = State { next: 10, starts, phase: Phase::Open, was_at_end: false };
        assert_eq!(state.turn(), (all(&[0]), Some(30)));
        state.next = 30;
        assert_eq!(state.turn(), (all(&[0, 1, 2]), None));
        state.set_sinks(all(&[1]), [(sink(3), 40)]);
        assert_eq!(state.turn(), (all(&[1]), Some(40)));
    }

    #[test]
    fn descriptors_and_ids_are_stable() {
        for committed in [None, Some(7)] {
            let memory = Memory { start: u64::MAX, committed };
            assert_eq!(Memory::from_bytes(&memory.to_bytes()), Some(memory));
        }
        assert_eq!(Memory::from_bytes(b"other"), None);
        let at = |topic: &str, partition| TopicPartition { topic: topic.into(), partition };
        let id = origin_id("cluster", Some([7; 16]), &at("a", 0));
        assert_eq!(id, origin_id("cluster", Some([7; 16]), &at("renamed", 0)));
        assert_ne!(id, origin_id("cluster", Some([7; 16]), &at("a", 1)));
        assert_ne!(id, origin_id("cluster", None, &at("a", 0)));
    }
}
