//! Brokers for scenarios: a real Kafka, or a broker that accepts records and discards them.

use crate::measure::progress;
use crate::sinkhole::Sinkhole;
use millstream_testkit_servers::kafka::{Kafka, KafkaOptions};
use std::io;

/// Brokers that start on first use and run until they are dropped.
pub struct Brokers {
    core: usize,
    kafka: Option<Kafka>,
    sinkhole: Option<Sinkhole>,
    topics: usize,
}

/// A topic of one run.
pub struct Topic {
    /// Name of the topic's broker.
    broker: String,
    /// Address of the broker.
    pub address: String,
    /// Name of the topic, unique per run.
    pub name: String,
}

impl Brokers {
    /// Creates brokers for `core` without starting them.
    pub fn new(core: usize) -> Self {
        Brokers { core, kafka: None, sinkhole: None, topics: 0 }
    }

    /// Returns whether the broker has not been started yet.
    pub fn is_cold(&self, broker: &str) -> bool {
        match broker {
            "kafka" => self.kafka.is_none(),
            _ => self.sinkhole.is_none(),
        }
    }

    /// Creates a fresh topic.
    pub fn topic(&mut self, broker: &str, partitions: usize) -> io::Result<Topic> {
        self.topics += 1;
        let name = format!("bench-{}", self.topics);
        let address = match broker {
            "kafka" => {
                let kafka = match &mut self.kafka {
                    Some(kafka) => kafka,
                    none => none.insert(start_kafka(self.core)?),
                };
                kafka.create_topic(&name, partitions as i32);
                kafka.bootstrap()
            }
            "sinkhole" => {
                let sinkhole = match &mut self.sinkhole {
                    Some(sinkhole) => sinkhole,
                    none => none.insert(Sinkhole::start()?),
                };
                sinkhole.create_topic(&name, partitions);
                sinkhole.address()
            }
            other => {
                return Err(io::Error::other(format!("`broker: {other}`: `kafka` or `sinkhole`")));
            }
        };
        Ok(Topic { broker: broker.to_owned(), address, name })
    }

    /// Deletes a topic and returns its number of records.
    pub fn take(&self, topic: &Topic) -> u64 {
        match (topic.broker.as_str(), &self.kafka, &self.sinkhole) {
            ("kafka", Some(kafka), _) => {
                let records = kafka.count(&topic.name);
                kafka.delete_topic(&topic.name);
                records
            }
            (_, _, Some(sinkhole)) => sinkhole.take(&topic.name),
            _ => 0,
        }
    }
}

/// Starts Kafka. The test kit panics without a Kafka installation; here the peer is reported as
/// missing.
fn start_kafka(core: usize) -> io::Result<Kafka> {
    progress("starting Kafka");
    let mut options = KafkaOptions::bench(&core.to_string());
    // The broker's data is in memory, which the next run needs. Deleted data is therefore removed
    // soon.
    options.properties.push("log.segment.delete.delay.ms=100".to_owned());
    std::panic::catch_unwind(|| Kafka::with(options))
        .map_err(|_| io::Error::other("Kafka did not start"))
}
