//! Runs librdkafka alone: reads a topic in batches, and optionally writes the records to another
//! topic.

use rdkafka::bindings as c;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::io;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of messages per call.
const BATCH: usize = 1000;
/// Maximum number of records in the queue of the producer.
const QUEUE: &str = "500000";

/// Reads a topic from its beginning to its end with librdkafka alone, for `topics`.
#[derive(clap::Args)]
pub struct Consume {
    /// Address of the broker
    brokers: String,
    /// Name of the topic
    topic: String,
    /// Topic to write the records to
    #[arg(long)]
    to: Option<String>,
}

/// A queue of the client.
struct Queue(*mut c::rd_kafka_queue_t);

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue was returned by librdkafka and is destroyed once.
        unsafe { c::rd_kafka_queue_destroy(self.0) }
    }
}

impl Consume {
    /// Reads the topic, and prints the number of records and bytes.
    pub fn run(&self) -> io::Result<()> {
        let (records, bytes) = self.read().map_err(io::Error::other)?;
        println!("records={records} bytes={bytes}");
        Ok(())
    }

    fn read(&self) -> Result<(u64, u64), rdkafka::error::KafkaError> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("group.id", "bare");
        config.set("enable.auto.commit", "false").set("queued.max.messages.kbytes", "65536");
        let consumer: BaseConsumer = config.create()?;
        let metadata = consumer.fetch_metadata(Some(&self.topic), TIMEOUT)?;
        let (mut wanted, mut total) = (TopicPartitionList::new(), 0);
        for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
            let (begin, end) = consumer.fetch_watermarks(&self.topic, partition.id(), TIMEOUT)?;
            total += (end - begin) as u64;
            wanted.add_partition_offset(&self.topic, partition.id(), Offset::Beginning)?;
        }
        consumer.assign(&wanted)?;
        let copy = self.to.as_deref().map(|topic| Copy::new(&self.brokers, topic)).transpose()?;
        // SAFETY: the client is alive.
        let queue =
            Queue(unsafe { c::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) });
        let (mut records, mut bytes) = (0, 0);
        while records < total {
            take(&queue, |partition, payload| {
                // Reads every byte by a search for a byte that JSON cannot contain.
                bytes += payload.len() as u64 + u64::from(memchr::memchr(0, payload).is_some());
                records += 1;
                copy.iter().for_each(|copy| copy.send(partition, payload));
            });
        }
        copy.map_or(Ok(()), |copy| copy.producer.flush(TIMEOUT))?;
        Ok((records, bytes))
    }
}

/// Passes the messages of one call to `handle`, each with its partition.
fn take(queue: &Queue, mut handle: impl FnMut(i32, &[u8])) {
    let mut messages = [std::ptr::null_mut(); BATCH];
    // SAFETY: the queue is alive, and the array has room for the given number of messages.
    let count =
        unsafe { c::rd_kafka_consume_batch_queue(queue.0, 20, messages.as_mut_ptr(), BATCH) };
    for message in &messages[..count.max(0) as usize] {
        // SAFETY: librdkafka returned the message, which lives until it is destroyed below, once.
        unsafe {
            let of = &**message;
            if of.err == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && !of.payload.is_null()
            {
                handle(of.partition, std::slice::from_raw_parts(of.payload.cast(), of.len));
            }
            c::rd_kafka_message_destroy(*message);
        }
    }
}

/// Writes records to a topic.
struct Copy<'a> {
    producer: BaseProducer,
    topic: &'a str,
}

impl<'a> Copy<'a> {
    fn new(brokers: &str, topic: &'a str) -> Result<Copy<'a>, rdkafka::error::KafkaError> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("linger.ms", "50");
        config.set("queue.buffering.max.messages", QUEUE).set("enable.idempotence", "true");
        Ok(Copy { producer: config.create()?, topic })
    }

    fn send(&self, partition: i32, payload: &[u8]) {
        let mut record = BaseRecord::<(), [u8]>::to(self.topic).payload(payload);
        record.partition = Some(partition);
        while let Err((_, back)) = self.producer.send(record) {
            // The queue of the producer is full.
            self.producer.poll(Duration::from_millis(10));
            record = back;
        }
        self.producer.poll(Duration::ZERO);
    }
}
