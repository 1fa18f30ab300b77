//! Writes records, and reads and moves the offsets of groups.

use super::{Kafka, Listener};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A record to write.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// Partition; chosen by the client if `None`.
    pub partition: Option<i32>,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Timestamp in milliseconds since 1970; now if `None`.
    pub timestamp: Option<i64>,
    /// Headers.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Written {
    /// Creates a record with this text as its value.
    pub fn text(text: impl Into<String>) -> Written {
        Written { payload: Some(text.into().into_bytes()), ..Written::default() }
    }

    /// Sets the partition.
    pub fn to(self, partition: i32) -> Written {
        Written { partition: Some(partition), ..self }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Written {
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }
}

impl Kafka {
    /// Writes records to a topic and waits until the broker has stored them.
    pub fn write(&self, topic: &str, records: impl IntoIterator<Item = Written>) {
        let mut client = self.client(Listener::Plaintext);
        client.set("linger.ms", "2").set("enable.idempotence", "true");
        let producer: BaseProducer = client.create().expect("a producer");
        for record in records {
            let mut next = BaseRecord::<[u8], [u8]>::to(topic);
            next.partition = record.partition;
            next.key = record.key.as_deref();
            next.payload = record.payload.as_deref();
            next.timestamp = record.timestamp;
            next.headers = (!record.headers.is_empty()).then(|| {
                record.headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
                    all.insert(Header { key, value: Some(value) })
                })
            });
            while let Err((error, again)) = producer.send(next) {
                let code = error.rdkafka_error_code();
                assert_eq!(code, Some(rdkafka::types::RDKafkaErrorCode::QueueFull), "{error}");
                producer.poll(Duration::from_millis(10));
                next = again;
            }
        }
        producer.flush(TIMEOUT).expect("the broker has the records");
    }

    /// Returns the offsets that a group has committed for the partitions of a topic.
    pub fn committed(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let wanted = self.all_partitions(topic, Offset::Invalid);
        let offsets = self.of_group(group).committed_offsets(wanted, TIMEOUT).expect("offsets");
        let offset = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            Some((element.partition(), element.offset().to_raw().filter(|offset| *offset >= 0)?))
        };
        offsets.elements().iter().filter_map(offset).collect()
    }

    /// Sets the offset of a group without members to `offset` in every partition of a topic.
    pub fn reset(&self, group: &str, topic: &str, offset: i64) {
        let wanted = self.all_partitions(topic, Offset::Offset(offset));
        self.of_group(group).commit(&wanted, CommitMode::Sync).expect("the group is moved");
    }

    fn of_group(&self, group: &str) -> BaseConsumer {
        let mut client = self.client(Listener::Plaintext);
        client.set("group.id", group).set("enable.auto.commit", "false");
        client.create().expect("a consumer")
    }

    fn all_partitions(&self, topic: &str, offset: Offset) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in self.ends(topic).keys() {
            list.add_partition_offset(topic, *partition, offset).expect("a partition");
        }
        list
    }
}
