//! State that the source and its threads share.

use super::config::KafkaConfig;
use super::inbox::Inbox;
use super::partition::{Partition, Phase};
use crate::util::kafka::error_type;
use millstream_kafka::{ClientError, ErrorCode};
use millstream_model::{OriginId, SinkIndex, SourceOpen};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// State that the source and its threads share.
pub struct Shared {
    /// The options.
    pub config: KafkaConfig,
    /// The parts of the engine that the source uses.
    pub open: SourceOpen,
    /// The sinks with their ids, and the currently assigned partitions.
    pub assigned: Mutex<Assigned>,
    /// Records for the source.
    pub inbox: Inbox,
    /// Reread records.
    pub rereads: Inbox,
    /// Whether the threads must stop.
    pub is_stopping: AtomicBool,
    /// Whether the group has assigned partitions, and no more rebalances are pending.
    pub is_settled: AtomicBool,
    /// The last reported error; `None` after the error has ended.
    reported: Mutex<Option<Reported>>,
}

/// An error that was reported and has not ended.
#[derive(PartialEq)]
pub struct Reported {
    /// Code of the error.
    pub code: ErrorCode,
    /// Topic of the partition with the error, if it is known.
    pub topic: Option<String>,
    what: String,
}

/// The sinks and the assigned partitions, under one lock.
pub struct Assigned {
    /// The sinks, with their ids.
    pub sinks: Vec<(SinkIndex, String)>,
    /// The partitions.
    pub partitions: Vec<Arc<Partition>>,
    /// Offsets that the sinks had settled in revoked partitions. The store may not contain them
    /// yet.
    pub settled: HashMap<OriginId, Vec<(String, u64)>>,
}

impl Shared {
    /// Creates the state of a source that has no partition yet.
    pub fn new(config: KafkaConfig, open: SourceOpen) -> Arc<Shared> {
        let (sinks, settled) = (open.sinks.clone(), HashMap::new());
        let assigned = Assigned { sinks, partitions: Vec::new(), settled };
        Arc::new(Shared {
            config,
            open,
            assigned: Mutex::new(assigned),
            inbox: Inbox::default(),
            rereads: Inbox::default(),
            is_stopping: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            reported: Mutex::default(),
        })
    }

    /// Returns whether the threads must stop.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Returns the currently assigned partitions.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        self.assigned.lock().partitions.clone()
    }

    /// Returns the partition with this origin.
    pub fn partition(&self, origin: OriginId) -> Option<Arc<Partition>> {
        self.assigned.lock().partitions.iter().find(|p| p.origin.id == origin).cloned()
    }

    /// Removes partitions that the member no longer owns. From now on, acknowledgements no longer
    /// settle their offsets.
    pub fn remove(&self, gone: &[Arc<Partition>]) {
        let mut assigned = self.assigned.lock();
        for partition in gone {
            partition.state.lock().phase = Phase::Closed;
            let id = partition.origin.id;
            let settled = |(sink, name): &(SinkIndex, String)| {
                Some((name.clone(), self.open.ledger.checkpoint(id, *sink)?))
            };
            let settled = assigned.sinks.iter().filter_map(settled).collect();
            assigned.settled.insert(id, settled);
            self.open.ledger.revoke(id);
        }
        let is_gone = |partition: &Arc<Partition>| gone.iter().any(|p| Arc::ptr_eq(p, partition));
        assigned.partitions.retain(|partition| !is_gone(partition));
    }

    /// Counts an error, logs it if it differs from the previous one, and shows it in the API.
    pub fn report(&self, error: &ClientError) {
        self.report_about(None, error);
    }

    /// Reports a partition error for `topic`, like [`Shared::report`].
    pub fn report_about(&self, topic: Option<&str>, error: &ClientError) {
        let kind = error_type::of(error.code);
        self.open.counters.error(kind);
        let what = format!("{}: {}", group_or_topic(self, error.code), error.message);
        let (code, topic) = (error.code, topic.map(str::to_owned));
        let told = Some(Reported { code, topic, what: what.clone() });
        self.open.unreadable.note_error(&self.config.group, kind, &what);
        let mut reported = self.reported.lock();
        if *reported != told {
            let id = &self.open.info.id;
            log::error!("source {id}: {what}; {}", advice(error.code));
            *reported = told;
        }
    }

    /// Returns whether a reported error has not ended.
    pub fn is_failing(&self) -> bool {
        self.reported.lock().is_some()
    }

    /// Ends the reported error and logs that reading works again, if `is_over` returns true for the
    /// error.
    pub fn recovered(&self, is_over: impl FnOnce(&Reported) -> bool) {
        let mut reported = self.reported.lock();
        if reported.take_if(|error| is_over(error)).is_some() {
            self.open.unreadable.clear(&self.config.group);
            log::info!(
                "source {}: group {} is being read again",
                self.open.info.id,
                self.config.group
            );
        }
    }
}

fn group_or_topic(shared: &Shared, code: ErrorCode) -> String {
    let config = &shared.config;
    match code {
        code if error_type::concerns_topic(code) => {
            format!("cannot read topic {}", config.topics.join(", "))
        }
        ErrorCode::GroupAuthorizationFailed => format!("cannot join group {}", config.group),
        _ => format!("cannot reach Kafka at {}", config.brokers.join(", ")),
    }
}

fn advice(code: ErrorCode) -> &'static str {
    match error_type::of(code) {
        "unknown_topic" => "create the topic, or correct `topics`; retrying",
        "authentication" => "check `sasl`; retrying",
        "authorization" => "allow the user to read the topics and the group; retrying",
        "tls" => "check `tls` and the broker's listener; retrying",
        _ => "retrying",
    }
}
