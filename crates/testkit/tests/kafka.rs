//! The Kafka harness itself: what it starts, stops and reads back is what other tests lean on.

use millstream_testkit::kafka::{Kafka, Listener};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Sends numbered lines and waits until the broker has them all.
fn produce(client: &ClientConfig, topic: &str, count: usize) {
    let producer: BaseProducer = client.create().expect("a producer");
    for i in 0..count {
        let (key, line) = (format!("k{i}"), format!("line {i} of {topic}"));
        producer.send(BaseRecord::to(topic).key(&key).payload(&line)).expect("room in the queue");
    }
    producer.flush(PATIENCE).expect("everything is sent");
}

#[test]
fn three_clients_read_back_every_codec() {
    let kafka = Kafka::shared();
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        kafka.create_topic(codec, 1);
        let mut client = kafka.client(Listener::Plaintext);
        produce(client.set("compression.type", codec), codec, 100);
        let want: Vec<String> = (0..100).map(|i| format!("line {i} of {codec}")).collect();
        let records = kafka.read(codec);
        assert_eq!(records.iter().map(|record| record.text()).collect::<Vec<_>>(), want);
        assert_eq!(records[7].key.as_deref(), Some(&b"k7"[..]));
        assert!(records.iter().enumerate().all(|(i, record)| record.offset == i as i64));
        let by_kcat = kafka.kcat(&["-C", "-t", codec, "-e", "-q"]);
        assert_eq!(by_kcat.lines().collect::<Vec<_>>(), want);
        assert_eq!(kafka.java_consumer(codec, 100), want);
    }
}
