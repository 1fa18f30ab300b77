//! Handles partitions that the group assigns.

use super::super::config::Start;
use super::super::partition::{KnownOffsets, Memory, Partition, Phase, Starts, State, origin_id};
use super::{AssignedPartition, Member, REQUEST_TIMEOUT};
use millstream_kafka::{ClientError, ErrorCode, Place, TopicPartition};
use millstream_model::{Origin, OriginId, OriginRecord};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

impl Member {
    /// Opens partitions and starts to read them.
    ///
    /// # Errors
    /// Returns an error if a broker or the store cannot be queried. Nothing has changed in this
    /// case.
    pub(super) fn assign(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let ids = self.origin_ids(partitions)?;
        let mut known = self.known(partitions, &ids)?;
        for (known, _) in known.iter_mut().zip(partitions).filter(|(_, at)| self.is_recreated(at)) {
            known.group = None;
        }
        // Hold the lock until the partitions are listed, so that a reload does not miss any of
        // them.
        let shared = self.shared.clone();
        let mut assigned = shared.assigned.lock();
        for (known, id) in known.iter_mut().zip(&ids) {
            known.add(assigned.settled.get(id));
        }
        let starts: Vec<Starts> =
            known.iter().map(|offsets| offsets.starts(&assigned.sinks)).collect();
        self.keep(&ids, &known, &starts)?;
        for ((at, known), starts) in partitions.iter().zip(&known).zip(&starts) {
            log::debug!("assigned {at:?}: {known:?}, {starts:?}");
        }
        for (((at, id), known), starts) in partitions.iter().zip(ids).zip(known).zip(starts) {
            assigned.partitions.push(self.open(at, id, &known, starts));
        }
        drop(assigned);
        // An eager assignment replaces the previous one, so it must contain all partitions.
        let is_new =
            |at: &TopicPartition| !self.consumer.is_cooperative() || partitions.contains(at);
        let to = self.owned.iter().filter(|(at, _)| is_new(at));
        let to: Vec<_> = to.map(|(at, owned)| (at.clone(), owned.position)).collect();
        // If this fails because the group has changed, the group revokes the partitions next.
        self.consumer.assign(&to).unwrap_or_else(|error| self.shared.report(&error));
        self.recreated.retain(|topic| partitions.iter().all(|at| at.topic != *topic));
        Ok(())
    }

    fn is_recreated(&self, at: &TopicPartition) -> bool {
        self.recreated.contains(&at.topic)
    }

    /// Opens a partition.
    fn open(
        &mut self,
        at: &TopicPartition,
        id: OriginId,
        known: &KnownOffsets,
        starts: Starts,
    ) -> Arc<Partition> {
        let open = &self.shared.open;
        let name = format!("{}/{}", at.topic, at.partition);
        let origin = Arc::new(Origin::new(id, name).of_records());
        open.ledger.open(&origin, starts.sinks.iter().copied());
        open.ledger.note_end(id, known.end);
        let Starts { base, sinks, lost, .. } = starts;
        if lost > 0 {
            open.counters.dropped("expired", lost);
            let (id, name) = (&open.info.id, &origin.name);
            log::warn!("source {id}: {name}: {lost} records were deleted before they were read");
        }
        let state = State { next: base, starts: sinks, phase: Phase::Open, was_at_end: false };
        let partition = Partition { at: at.clone(), origin, state: Mutex::new(state) };
        let partition = Arc::new(partition);
        self.offsets.begin(at, known.group, base);
        let owned = AssignedPartition { partition: partition.clone(), position: base };
        self.owned.insert(at.clone(), owned);
        partition
    }

    /// Returns the ids of the partitions' origins.
    fn origin_ids(&mut self, partitions: &[TopicPartition]) -> Result<Vec<OriginId>, ClientError> {
        if self.cluster.is_none() {
            self.cluster = self.consumer.cluster_id(REQUEST_TIMEOUT);
        }
        let message = "no broker returned the id of the cluster".to_owned();
        let cluster = self.cluster.as_deref();
        let cluster = cluster.ok_or(ClientError { code: ErrorCode::OperationTimedOut, message })?;
        let mut topics: Vec<Arc<str>> = partitions.iter().map(|at| at.topic.clone()).collect();
        topics.sort_unstable();
        topics.dedup();
        // Request the ids for each assignment, because a recreated topic has a new id.
        let states = if topics.is_empty() {
            Vec::new()
        } else {
            self.consumer.describe(&topics, REQUEST_TIMEOUT)?
        };
        self.topic_ids.extend(topics.into_iter().zip(states.iter().map(|state| state.id)));
        let id = |at: &TopicPartition| {
            origin_id(cluster, self.topic_ids.get(&at.topic).copied().flatten(), at)
        };
        Ok(partitions.iter().map(id).collect())
    }

    /// Returns the known offsets of partitions, from the brokers and the store.
    fn known(
        &self,
        partitions: &[TopicPartition],
        ids: &[OriginId],
    ) -> Result<Vec<KnownOffsets>, ClientError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let consumer = &self.consumer;
        let group = consumer.committed(partitions, REQUEST_TIMEOUT)?;
        let first = consumer.find(partitions, Place::First, REQUEST_TIMEOUT)?;
        let end = consumer.find(partitions, Place::End, REQUEST_TIMEOUT)?;
        let start = self.shared.config.read_from.start();
        let start = start.unwrap_or(Start::At(Place::First));
        let timed = match start {
            Start::At(place @ Place::Time(_)) => {
                consumer.find(partitions, place, REQUEST_TIMEOUT)?
            }
            _ => Vec::new(),
        };
        let (records, _) = self.shared.open.store.origins().map_err(store_error)?;
        let records: HashMap<OriginId, OriginRecord> =
            records.into_iter().map(|record| (record.id, record)).collect();
        let own = |id: &OriginId| {
            let record = records.get(id)?;
            Some((Memory::from_bytes(&record.descriptor)?, record.checkpoints.clone()))
        };
        let known = |index: usize| {
            let (first, end) = (first[index].unwrap_or(0), end[index].unwrap_or(0));
            let read_from = match start {
                Start::At(Place::First) => first,
                Start::At(Place::End) => end,
                Start::At(Place::Time(_)) => timed[index].unwrap_or(end),
                Start::Offset(offset) => offset.clamp(first, end.max(first)),
            };
            KnownOffsets { group: group[index], own: own(&ids[index]), read_from, first, end }
        };
        Ok((0..partitions.len()).map(known).collect())
    }

    /// Saves the position where reading of each new partition begins before its first record is
    /// sent. Removes checkpoints that are void.
    fn keep(
        &self,
        ids: &[OriginId],
        known: &[KnownOffsets],
        starts: &[Starts],
    ) -> Result<(), ClientError> {
        let store = &self.shared.open.store;
        let all = || ids.iter().zip(known).zip(starts);
        let reset = all().filter(|(_, starts)| starts.was_reset).map(|((id, _), _)| *id);
        let reset: Vec<OriginId> = reset.collect();
        if !reset.is_empty() {
            store.forget(&reset).map_err(store_error)?;
        }
        let is_new =
            |known: &KnownOffsets, starts: &Starts| known.own.is_none() || starts.was_reset;
        let new = all().filter(|((_, known), starts)| is_new(known, starts));
        let descriptor = |start| Memory { start, committed: None }.to_bytes();
        let new = new.map(|((id, _), starts)| (*id, descriptor(starts.base)));
        let new: Vec<(OriginId, Vec<u8>)> = new.collect();
        if new.is_empty() { Ok(()) } else { store.keep(&new).map_err(store_error) }
    }
}

fn store_error(error: std::io::Error) -> ClientError {
    ClientError { code: ErrorCode::Fail, message: format!("the checkpoint store: {error}") }
}
