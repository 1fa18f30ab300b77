//! Reading topics back, with three clients that know nothing of each other: librdkafka, kcat and
//! Kafka's own in Java.

use super::{Kafka, Listener};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

/// Longest time without a record before the end of a topic.
const PATIENCE: Duration = Duration::from_secs(30);

/// First offset and end of each partition.
type Ends = HashMap<i32, (i64, i64)>;

/// A record as it lies in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Partition it is in.
    pub partition: i32,
    /// Its place there.
    pub offset: i64,
    /// Its key; none is not the same as an empty one.
    pub key: Option<Vec<u8>>,
    /// Its headers in their order; a name may occur twice.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its value; empty if it has none.
    pub payload: Vec<u8>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl Record {
    /// The value as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).expect("a payload of text")
    }

    /// Value of the first header with a name, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(of, _)| of == name)?;
        Some(std::str::from_utf8(value).expect("a header of text"))
    }

    fn of(message: &BorrowedMessage<'_>) -> Record {
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
    /// Everything in a topic up to its present end, by partition and offset.
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
        let mut heard = Instant::now();
        while !ends.is_empty() {
            assert!(
                heard.elapsed() < PATIENCE,
                "no end of topic {topic}: {} records",
                records.len()
            );
            let Some(event) = consumer.poll(Duration::from_millis(100)) else { continue };
            heard = Instant::now();
            match event {
                Ok(message) => {
                    let (partition, next) = (message.partition(), message.offset() + 1);
                    records.push(Record::of(&message));
                    ends.retain(|of, (_, end)| *of != partition || next < *end);
                }
                // Offsets may lie before the end that hold no record: marks of transactions.
                Err(KafkaError::PartitionEOF(partition)) => drop(ends.remove(&partition)),
                Err(error) => panic!("topic {topic}: {error}"),
            }
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }

    /// Number of offsets in a topic, without reading it: the number of records unless transactions
    /// were used or old records went.
    pub fn count(&self, topic: &str) -> u64 {
        let ends = self.ends(topic);
        let count = ends.values().map(|(first, end)| end - first).sum::<i64>();
        u64::try_from(count).expect("an end behind the beginning")
    }

    /// Values of the first `count` records by Kafka's console consumer, which is Java and unpacks
    /// with Java's codecs. Fails if there are fewer.
    pub fn java_consumer(&self, topic: &str, count: usize) -> Vec<String> {
        let number = count.to_string();
        let mut args = vec!["--topic", topic, "--from-beginning", "--max-messages", &number];
        args.extend(["--timeout-ms", "20000"]);
        let text = self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &args);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "records that Kafka's own consumer reads from {topic}");
        lines
    }

    fn consumer(&self) -> BaseConsumer {
        let mut client = self.client(Listener::Plaintext);
        client.set("enable.partition.eof", "true").set("check.crcs", "true");
        // librdkafka wants the name of a group, though none is joined.
        client.set("group.id", "millstream-tests").set("enable.auto.commit", "false");
        client.set("fetch.wait.max.ms", "10").set("fetch.message.max.bytes", "8388608");
        client.set("queued.min.messages", "1000000");
        client.set_log_level(RDKafkaLogLevel::Error);
        client.create().expect("a consumer")
    }

    /// First offset and end of each partition. A leader that is just taking over is waited for.
    pub(super) fn ends(&self, topic: &str) -> Ends {
        let begun = Instant::now();
        loop {
            match self.try_ends(topic) {
                Ok(ends) if !ends.is_empty() => return ends,
                ends if begun.elapsed() > PATIENCE => {
                    panic!("topic {topic} cannot be read: {ends:?}")
                }
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn try_ends(&self, topic: &str) -> KafkaResult<Ends> {
        let client = self.admin.inner();
        let metadata = client.fetch_metadata(Some(topic), PATIENCE)?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        let ends =
            |partition| Ok((partition, client.fetch_watermarks(topic, partition, PATIENCE)?));
        partitions.map(|partition| ends(partition.id())).collect()
    }
}
