//! The thread that is the member of the consumer group. It handles rebalances, offsets, lag and
//! records.
//!
//! The thread never waits for the sinks. While its inbox is full, it takes no records, but
//! continues to serve the group.

mod assign;
mod offsets;
mod recreated;
mod revoke;

use super::inbox::{Chunk, Part, record_bytes};
use super::partition::Partition;
use super::shared::{Reported, Shared};
use crate::util::kafka::{error_type, token_file};
use millstream_kafka::{ClientError, Consumer, ErrorCode, Event, Fetched, Place, TopicPartition};
use millstream_model::{Backoff, BuildError};
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use offsets::Offsets;
use revoke::Revoking;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time that the thread waits for records, which is also the maximum delay until it notices
/// other events.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of records in a chunk.
const CHUNK_RECORDS: usize = 1024;

/// Maximum time for a request to the brokers before it is repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which the lag is updated.
const LAG_INTERVAL: Duration = Duration::from_secs(1);

/// Time that the group may take to assign partitions before this is logged.
const SILENT_WAIT: Duration = Duration::from_secs(5);

/// Maximum time that the thread spends on the last commit at shutdown.
const LAST_COMMIT: Duration = Duration::from_secs(3);

/// A partition, with state that only this thread needs.
struct AssignedPartition {
    partition: Arc<Partition>,
    /// Offset after the last record that was fetched.
    position: u64,
}

/// The member of the group.
struct Member {
    shared: Arc<Shared>,
    /// Subject under which rebalances are recorded.
    subject: Subject,
    consumer: Consumer,
    owned: HashMap<TopicPartition, AssignedPartition>,
    /// Rebalance events that are not handled yet, each with a timer that started when the event
    /// arrived.
    pending: VecDeque<(Event, Timer)>,
    revoking: Option<Revoking>,
    offsets: Offsets,
    cluster: Option<String>,
    topic_ids: HashMap<Arc<str>, Option<[u8; 16]>>,
    /// Topics that were recreated. The group's committed offsets belong to the previous topics.
    recreated: HashSet<Arc<str>>,
    topics_at: Instant,
    /// Time at which to log that the group has not assigned any partitions; `None` after an
    /// assignment or after the message was logged.
    waits_at: Option<Instant>,
    backoff: Backoff,
    retry_at: Instant,
    lag_at: Instant,
}

/// Starts the thread.
///
/// # Errors
/// Returns an error if the settings contradict each other or the thread cannot be started.
pub fn start(shared: &Arc<Shared>) -> Result<JoinHandle<()>, BuildError> {
    let config = &shared.config;
    let settings = super::settings::of(config, shared.open.until_eof);
    let consumer = Consumer::open(&settings, token_file(config.sasl.as_ref()))
        .map_err(|error| BuildError::Producer(error.0))?;
    let topics: Vec<&str> = config.topics.iter().map(String::as_str).collect();
    consumer.subscribe(&topics).map_err(BuildError::Producer)?;
    let now = Instant::now();
    let mut member = Member {
        shared: shared.clone(),
        subject: Subject::component_with(&shared.open.info.id, &config.group),
        consumer,
        owned: HashMap::new(),
        pending: VecDeque::new(),
        revoking: None,
        offsets: Offsets::new(config.commit_interval.0, now),
        cluster: None,
        topic_ids: HashMap::new(),
        recreated: HashSet::new(),
        topics_at: now,
        waits_at: Some(now + SILENT_WAIT),
        backoff: Backoff::default(),
        retry_at: now,
        lag_at: now,
    };
    let run = move || {
        while !member.shared.is_stopping() {
            member.step();
        }
        member.end();
    };
    std::thread::Builder::new().name("kafka-group".into()).spawn(run).map_err(BuildError::Thread)
}

impl Member {
    fn step(&mut self) {
        self.serve();
        let now = Instant::now();
        self.advance_revoke(now);
        self.answer(now);
        let is_settled = self.pending.is_empty() && self.revoking.is_none();
        if !is_settled {
            self.shared.is_settled.store(false, Ordering::Release);
        }
        self.check_topics(now);
        self.commit_due(now);
        self.say_waiting(now);
        if now >= self.lag_at {
            self.lag_at = now + LAG_INTERVAL;
            self.note_lag();
        }
        if self.shared.inbox.wait_for_room(PAUSE) {
            let fetched = self.consumer.fetch(CHUNK_RECORDS, PAUSE);
            if !fetched.is_empty() {
                self.pass_on(fetched);
            }
        }
    }

    /// Handles the events that the client reports.
    fn serve(&mut self) {
        let throttled = self.consumer.take_throttled();
        if !throttled.is_zero() {
            self.shared.open.counters.waited("broker_quota", throttled);
        }
        for event in self.consumer.serve(Duration::ZERO) {
            match event {
                Event::Assign(_) => self.wait_for_answer(event),
                Event::Revoke { ref partitions, is_lost } => {
                    log::debug!("revoked: {partitions:?}, lost: {is_lost}");
                    self.wait_for_answer(event);
                }
                Event::Committed(answer) => self.committed(answer),
                // Ignored, because other connections may still be in progress, and the individual
                // broker errors are reported separately.
                Event::Error(error) if error.code == ErrorCode::AllBrokersDown => {}
                Event::Error(error) => self.shared.report(&error),
            }
        }
    }

    fn wait_for_answer(&mut self, event: Event) {
        self.pending.push_back((event, recorder::start(EventKind::Rebalance)));
    }

    /// Handles the next rebalance event, unless a revocation is in progress or a failed assignment
    /// must wait.
    fn answer(&mut self, now: Instant) {
        if self.revoking.is_some() || now < self.retry_at {
            return;
        }
        match self.pending.pop_front() {
            Some((Event::Assign(partitions), begun)) => match self.assign(&partitions) {
                Ok(()) => {
                    record::rebalance(begun, &self.subject, partitions.len(), 0);
                    self.shared.open.counters.rebalanced();
                    self.waits_at = None;
                    self.backoff.reset();
                    self.shared.recovered(|error| self.is_over(error, &[]));
                    let is_last = self.pending.is_empty();
                    self.shared.is_settled.store(is_last, Ordering::Release);
                    (self.shared.open.wake)();
                }
                Err(error) => {
                    self.shared.report(&error);
                    self.retry_at = now + self.backoff.next(fastrand::u32(..));
                    self.pending.push_front((Event::Assign(partitions), begun));
                }
            },
            Some((Event::Revoke { partitions, is_lost }, begun)) => {
                self.shared.open.counters.rebalanced();
                self.revoke(partitions, is_lost, begun, now);
            }
            _ => {}
        }
    }

    /// Logs once that the group is taking a long time to assign partitions.
    fn say_waiting(&mut self, now: Instant) {
        if self.waits_at.is_some_and(|at| now >= at) {
            self.waits_at = None;
            log::info!(
                "source {}: waiting for group {} to assign partitions; if a member was killed, the \
                 group waits for `session.timeout.ms` (45 s by default) unless `group.instance.id` \
                 is set",
                self.shared.open.info.id,
                self.shared.config.group
            );
        }
    }

    /// Passes records to the source.
    fn pass_on(&mut self, fetched: Fetched) {
        let (mut parts, mut bytes, mut first) = (VecDeque::new(), 0, 0);
        let key = |index: usize| {
            let record = fetched.get(index);
            (record.topic_key(), record.partition(), record.error().is_some())
        };
        while first < fetched.len() {
            let group = key(first);
            let run = (first + 1..fetched.len()).take_while(|next| key(*next) == group).count();
            let end = first + 1 + run;
            if group.2 {
                (first..end).for_each(|index| parts.extend(self.error(&fetched, index)));
            } else {
                bytes += (first..end).map(|index| record_bytes(&fetched, index)).sum::<u64>();
                parts.extend(self.records(&fetched, first..end));
            }
            first = end;
        }
        if !parts.is_empty() {
            self.shared.recovered(|error| self.is_over(error, parts.make_contiguous()));
            self.shared.inbox.push(Chunk { fetched, parts, bytes });
            (self.shared.open.wake)();
        }
    }

    /// Returns whether an error has ended, now that partitions are assigned and `records` have
    /// arrived. An error of a partition ends only with records of the same topic, or if the member
    /// no longer owns partitions of the topic.
    fn is_over(&self, error: &Reported, records: &[Part]) -> bool {
        let is_owned = |topic: &String| self.owned.keys().any(|at| *at.topic == **topic);
        match &error.topic {
            // Another member now reads these partitions, so the error no longer concerns this
            // agent.
            Some(topic) if !is_owned(topic) => true,
            Some(topic) => records.iter().any(|part| *part.partition().at.topic == **topic),
            None if error_type::concerns_topic(error.code) => {
                self.shared.config.plain_topics().all(is_owned)
            }
            None => true,
        }
    }

    fn records(&mut self, fetched: &Fetched, run: std::ops::Range<usize>) -> Option<Part> {
        let owned = self.owned_by(fetched, run.start)?;
        owned.position = fetched.get(run.end - 1).offset() + 1;
        Some(Part::Records(owned.partition.clone(), run))
    }

    fn owned_by(&mut self, fetched: &Fetched, index: usize) -> Option<&mut AssignedPartition> {
        let record = fetched.get(index);
        let at = TopicPartition { topic: record.topic().into(), partition: record.partition() };
        self.owned.get_mut(&at)
    }

    /// Handles an error that a partition reports instead of a record.
    fn error(&mut self, fetched: &Fetched, index: usize) -> Option<Part> {
        let record = fetched.get(index);
        let code = record.error()?;
        match code {
            ErrorCode::PartitionEOF => {
                let owned = self.owned_by(fetched, index)?;
                owned.position = owned.position.max(record.offset());
                Some(Part::End(owned.partition.clone(), record.offset()))
            }
            ErrorCode::AutoOffsetReset | ErrorCode::OffsetOutOfRange => {
                let at = self.owned_by(fetched, index)?.partition.at.clone();
                self.reposition(&at)
            }
            code => {
                let topic = record.topic();
                let message = format!("topic {topic}, partition {}: {code}", record.partition());
                self.shared.report_about(Some(topic), &ClientError { code, message });
                None
            }
        }
    }

    /// Resumes a partition whose position the client has lost: at the same record, or if that
    /// record was deleted or truncated, at the nearest offset that exists. Returns the records that
    /// were lost, if any.
    fn reposition(&mut self, at: &TopicPartition) -> Option<Part> {
        let find = |place| {
            let found = self.consumer.find(std::slice::from_ref(at), place, REQUEST_TIMEOUT);
            found.map(|found| found[0].unwrap_or(0))
        };
        let position = self.owned.get(at)?.position;
        let to = match (find(Place::First), find(Place::End)) {
            (Ok(first), Ok(end)) => position.clamp(first, end.max(first)),
            (Err(error), _) | (_, Err(error)) => {
                self.shared.report(&error);
                position
            }
        };
        let owned = self.owned.get_mut(at)?;
        owned.position = to;
        let partition = owned.partition.clone();
        if let Err(error) = self.restart(at, to) {
            self.shared.report(&error);
        }
        if to == position {
            return None;
        }
        let (id, name) = (&self.shared.open.info.id, &partition.origin.name);
        let why = if to > position { "was deleted" } else { "was truncated by the broker" };
        log::warn!("source {id}: {name}: record {position} {why}; reading continues at {to}");
        (to > position).then_some(Part::Lost(partition, to))
    }

    /// Restarts reading of a partition at another offset.
    fn restart(&self, at: &TopicPartition, offset: u64) -> Result<(), ClientError> {
        if self.consumer.is_cooperative() {
            self.consumer.unassign(std::slice::from_ref(at))?;
            return self.consumer.assign(&[(at.clone(), offset)]);
        }
        let positions = self.owned.iter().map(|(at, owned)| (at.clone(), owned.position));
        self.consumer.assign(&positions.collect::<Vec<_>>())
    }

    /// Updates the known end offset of each partition, from which the lag is computed.
    fn note_lag(&self) {
        for (at, owned) in &self.owned {
            // Restarting a partition can stop the forwarding of its records.
            self.consumer.forward(at);
            let Some(end) = self.consumer.known_end(at) else { continue };
            let Partition { origin, .. } = &*owned.partition;
            self.shared.open.ledger.note_end(origin.id, end);
            origin.state.size.fetch_max(end, Ordering::Relaxed);
        }
    }

    /// Commits the settled offsets, and leaves the group.
    fn end(mut self) {
        let deadline = Instant::now() + LAST_COMMIT;
        while Instant::now() < deadline {
            // This does nothing while an earlier commit is in flight, or if there is nothing to
            // commit.
            self.commit_settled();
            if !self.offsets.is_waiting() {
                break;
            }
            for event in self.consumer.serve(PAUSE) {
                if let Event::Committed(answer) = event {
                    self.committed(answer);
                }
            }
        }
        self.keep_committed();
        self.shared.inbox.clear();
        self.consumer.close();
    }
}
