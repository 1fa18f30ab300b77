//! The brokers that scenarios name: a real Kafka, or one that takes records and forgets them.

use crate::measure::progress;
use crate::sinkhole::Sinkhole;
use millstream_testkit_servers::kafka::{Kafka, KafkaOptions};
use std::io;

/// Started when they are first needed, and kept warm until the end.
pub struct Brokers {
    core: usize,
    kafka: Option<Kafka>,
    sinkhole: Option<Sinkhole>,
    topics: usize,
}

/// A topic of one run.
pub struct Topic {
    /// The broker it is on.
    broker: String,
    /// Address of that broker.
    pub address: String,
    /// Its name, which no other run has.
    pub name: String,
}

impl Brokers {
    /// Brokers for `core`; none is started yet.
    pub fn new(core: usize) -> Self {
        Brokers { core, kafka: None, sinkhole: None, topics: 0 }
    }

    /// Whether this broker has not been used.
    pub fn is_cold(&self, broker: &str) -> bool {
        match broker {
            "kafka" => self.kafka.is_none(),
            _ => self.sinkhole.is_none(),
        }
    }

    /// A fresh topic.
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

    /// The records in a topic, which is removed.
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

/// The test kit panics where there is no Kafka to be had; here that is one more peer that is
/// missing.
fn start_kafka(core: usize) -> io::Result<Kafka> {
    progress("starting Kafka");
    let mut options = KafkaOptions::bench(&core.to_string());
    // Its data is in memory, and the next run needs that.
    options.properties.push("log.segment.delete.delay.ms=100".to_owned());
    std::panic::catch_unwind(|| Kafka::with(options))
        .map_err(|_| io::Error::other("Kafka did not start"))
}
