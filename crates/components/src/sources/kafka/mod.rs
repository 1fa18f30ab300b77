//! The `kafka` source reads records from topics as a member of a consumer group.
//!
//! One thread is the group member: it handles rebalances, commits offsets and fetches records. A
//! poll copies fetched records into blocks. An offset is committed to Kafka after every sink has
//! settled all records before it and the store has committed these checkpoints.

mod config;
mod fill;
mod group;
mod ids;
mod inbox;
mod partition;
mod reading;
mod rereads;
mod settings;
mod shared;

pub use config::KafkaConfig;

use crate::component::{Component, SourceComponent};
use crate::util::kafka::{check_brokers, check_security, files};
use fill::{Extras, Layout};
use inbox::Chunk;
use millstream_model::{
    BuildError, Leftover, OptionError, Polled, Remainder, SinkIndex, SinkSet, Source, SourceCx,
    SourceOpen,
};
use reading::Again;
use rereads::Rereader;
use shared::Shared;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause between two polls of the source unless it is woken.
const PAUSE: Duration = Duration::from_secs(1);

/// Time to wait at the end of the input for partitions that the group may still assign.
const ASSIGNMENT_WAIT: Duration = Duration::from_secs(10);

/// Maximum time to wait for the member thread at shutdown.
const STOP_WAIT: Duration = Duration::from_secs(6);

/// Factor by which a full fetch queue may exceed its limit, because of a response in flight and the
/// memory that librdkafka uses per record.
const QUEUE_FACTOR: u64 = 2;

impl Component for KafkaConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = check_brokers(&self.brokers);
        errors.extend(self.check_topics());
        errors.extend(self.read_from.start().err());
        let own = |name: &&String| matches!(name.as_str(), "message" | "timestamp" | "");
        errors.extend(self.fields.keys().filter(own).map(|name| {
            let message = format!("{name:?} is reserved; use another name for the field");
            OptionError::new("/fields", message)
        }));
        if !((1 << 20)..=(1 << 30)).contains(&self.fetch_queue.0) {
            errors.push(OptionError::new("/fetch_queue", "out of range; use 1MiB to 1GiB"));
        }
        errors.extend(check_security(self.tls.as_ref(), self.sasl.as_ref()));
        errors.extend(settings::check_options(&self.options));
        errors
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        files(self.tls.as_ref(), self.sasl.as_ref())
    }
}

impl SourceComponent for KafkaConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        Ok(Box::new(KafkaSource::start(self, open)?))
    }

    fn queue_bytes(&self) -> u64 {
        self.fetch_queue.0 * QUEUE_FACTOR
    }
}

/// A running `kafka` source.
struct KafkaSource {
    shared: Arc<Shared>,
    layout: Layout,
    /// The chunk that is being read.
    chunk: Option<Chunk>,
    extras: Extras,
    again: Again,
    rereader: Rereader,
    member: Option<JoinHandle<()>>,
    started: Instant,
    has_ended: bool,
}

impl KafkaSource {
    fn start(config: &KafkaConfig, open: SourceOpen) -> Result<KafkaSource, BuildError> {
        let shared = Shared::new(config.clone(), open);
        let member = Some(group::start(&shared)?);
        Ok(KafkaSource {
            shared,
            layout: Layout::new(config),
            chunk: None,
            extras: Extras::default(),
            again: Again::default(),
            rereader: Rereader::default(),
            member,
            started: Instant::now(),
            has_ended: false,
        })
    }

    /// Returns whether every assigned partition was read to its end, and nothing must be reread.
    fn is_at_end(&self) -> bool {
        let is_settled = self.shared.is_settled.load(Ordering::Acquire);
        if !is_settled || self.chunk.is_some() || !self.shared.inbox.is_empty() {
            return false;
        }
        let partitions = self.shared.partitions();
        let is_assigned = !partitions.is_empty() || self.started.elapsed() >= ASSIGNMENT_WAIT;
        is_assigned
            && self.again.is_idle()
            && partitions.iter().all(|partition| partition.state.lock().was_at_end)
    }

    /// Tells the threads to stop, and drops queued records. The member thread commits the settled
    /// offsets before it exits.
    fn stop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.chunk = None;
        self.again = Again::default();
        self.shared.inbox.clear();
        self.shared.rereads.clear();
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        if self.has_ended {
            return Polled::Ended;
        }
        self.take_rereads(cx);
        if let Some(polled) = self.read_again(cx) {
            return polled;
        }
        let polled = self.read(cx);
        if let (Polled::Wait(_), true) = (&polled, cx.until_eof)
            && self.is_at_end()
        {
            self.has_ended = true;
            return Polled::Ended;
        }
        polled
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn set_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        let open = &self.shared.open;
        let mut assigned = self.shared.assigned.lock();
        let (stay, come): (Vec<_>, Vec<_>) =
            sinks.iter().cloned().partition(|sink| assigned.sinks.contains(sink));
        let kept: SinkSet = stay.iter().map(|(sink, _)| *sink).collect();
        for partition in &assigned.partitions {
            let mut state = partition.state.lock();
            let id = partition.origin.id;
            let known = if come.is_empty() { Ok(Vec::new()) } else { open.store.committed(id) };
            let known = known.unwrap_or_default();
            let start = |(sink, name): &(SinkIndex, String)| {
                let own = known.iter().find(|(sink, _)| sink == name).map_or(0, |(_, at)| *at);
                (*sink, own.max(state.next))
            };
            let new: Vec<_> = come.iter().map(start).collect();
            new.iter().for_each(|(sink, at)| open.ledger.join(id, *sink, *at));
            state.set_sinks(kept, new);
        }
        assigned.sinks = sinks.to_vec();
        drop(assigned);
        self.again.keep_sinks(kept);
    }

    fn leave(&mut self) -> Option<Leftover> {
        let mut waiting = Remainder::default();
        for partition in self.shared.partitions() {
            let owed = self.shared.open.ledger.owed(partition.origin.id);
            waiting.events += owed.map_or(0, |owed| owed.in_flight);
        }
        self.stop();
        let begun = Instant::now();
        while let Some(member) = &self.member
            && !member.is_finished()
            && begun.elapsed() < STOP_WAIT
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(Leftover { waiting, lost: Remainder::default() })
    }
}

impl Drop for KafkaSource {
    /// Does not wait for the threads, because leaving the group can take some time.
    fn drop(&mut self) {
        self.stop();
    }
}
