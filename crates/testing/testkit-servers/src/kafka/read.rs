//! Reads topics with three independent clients: librdkafka, kcat and Kafka's Java client.

use super::{Kafka, Listener};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time to wait for a record before the end of a topic.
const TIMEOUT: Duration = Duration::from_secs(30);

/// First offset and end offset of each partition.
type Ends = HashMap<i32, (i64, i64)>;

/// A record of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Partition.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: i64,
    /// Key; `None` differs from an empty key.
    pub key: Option<Vec<u8>>,
    /// Headers in order; names may repeat.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Value; empty if the record has none.
    pub payload: Vec<u8>,
    /// Timestamp in milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl Record {
    /// Returns the value as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).expect("a payload of text")
    }

    /// Returns the value of the first header with a name as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        Some(std::str::from_utf8(value).expect("a header of text"))
    }

    fn from_message(message: &BorrowedMessage<'_>) -> Record {
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        Record {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            headers: headers
                .map(|h| (h.key.to_owned(), h.value.unwrap_or_default().to_vec()))
                .collect(),
            payload: message.payload().unwrap_or_default().to_vec(),
            timestamp: message.timestamp().to_millis(),
        }
    }
}

impl Kafka {
    /// Reads all records of a topic up to its current end, by partition and offset.
    pub fn read(&self, topic: &str) -> Vec<Record> {
        let mut ends = self.ends(topic);
        ends.retain(|_, (first, end)| first < end);
        let mut wanted = TopicPartitionList::new();
        for (partition, (first, _)) in &ends {
            wanted
                .add_partition_offset(topic, *partition, Offset::Offset(*first))
                .expect("a partition");
        }
        let consumer = self.consumer();
        consumer.assign(&wanted).expect("partitions are assigned");
        let mut records = Vec::new();
        let mut last_event = Instant::now();
        while !ends.is_empty() {
            assert!(
                last_event.elapsed() < TIMEOUT,
                "no end of topic {topic}: {} records",
                records.len()
            );
            let Some(event) = consumer.poll(Duration::from_millis(100)) else { continue };
            last_event = Instant::now();
            match event {
                Ok(message) => {
                    let (partition, next) = (message.partition(), message.offset() + 1);
                    records.push(Record::from_message(&message));
                    ends.retain(|other, (_, end)| *other != partition || next < *end);
                }
                // The last offsets may hold transaction markers instead of records.
                Err(KafkaError::PartitionEOF(partition)) => drop(ends.remove(&partition)),
                Err(error) => panic!("topic {topic}: {error}"),
            }
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }

    /// Returns the number of offsets in a topic without reading it. It equals the number of records
    /// unless there are transactions or compacted records.
    pub fn count(&self, topic: &str) -> u64 {
        let ends = self.ends(topic);
        let count = ends.values().map(|(first, end)| end - first).sum::<i64>();
        u64::try_from(count).expect("an end after the beginning")
    }

    /// Reads the values of the first `count` records with Kafka's console consumer, which uses the
    /// Java client and its codecs. Panics if there are fewer.
    pub fn java_consumer(&self, topic: &str, count: usize) -> Vec<String> {
        let number = count.to_string();
        let mut args = vec!["--topic", topic, "--from-beginning", "--max-messages", &number];
        args.extend(["--timeout-ms", "20000"]);
        let text = self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &args);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "records that Kafka's console consumer reads from {topic}");
        lines
    }

    fn consumer(&self) -> BaseConsumer {
        let mut client = self.client(Listener::Plaintext);
        client.set("enable.partition.eof", "true").set("check.crcs", "true");
        // librdkafka requires a group id even without joining a group.
        client.set("group.id", "millstream-tests").set("enable.auto.commit", "false");
        client.set("fetch.wait.max.ms", "10").set("fetch.message.max.bytes", "8388608");
        client.set("queued.min.messages", "1000000");
        client.set_log_level(RDKafkaLogLevel::Error);
        client.create().expect("a consumer")
    }

    /// Returns the first and end offset of each partition. Waits for the election of leaders.
    pub(super) fn ends(&self, topic: &str) -> Ends {
        let started = Instant::now();
        loop {
            match self.try_ends(topic) {
                Ok(ends) if !ends.is_empty() => return ends,
                ends if started.elapsed() > TIMEOUT => {
                    panic!("topic {topic} cannot be read: {ends:?}")
                }
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn try_ends(&self, topic: &str) -> KafkaResult<Ends> {
        let client = self.admin.inner();
        let metadata = client.fetch_metadata(Some(topic), TIMEOUT)?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        let ends = |partition| Ok((partition, client.fetch_watermarks(topic, partition, TIMEOUT)?));
        partitions.map(|partition| ends(partition.id())).collect()
    }
}
