//! Traffic between clients and a real broker is recorded.

use bytes::Bytes;
use millstream_kafka::{Consumer, Key, Place, Producer, Record, Run, Shipment, TopicPartition};
use millstream_recorder::schema::EventKind;
use millstream_testkit::{RecordedSum, recorded, start_recording};
use millstream_testkit_servers::kafka::Kafka;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

const RECORDS: u32 = 1000;
const RECORD_BYTES: u32 = 1000;
const PAYLOAD: u64 = RECORDS as u64 * RECORD_BYTES as u64;

/// Maximum bytes that the protocol adds to the payloads.
const OVERHEAD: u64 = 200_000;

fn settings(broker: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
    // Make the library emit statistics more often than by default.
    let all = [("bootstrap.servers", broker), ("statistics.interval.ms", "50")];
    let all = all.iter().chain(more);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn shipment(topic: &str) -> Arc<Shipment> {
    let bytes: Vec<u8> = (0..PAYLOAD).map(|_| fastrand::u8(..)).collect();
    let records = (0..RECORDS).map(|n| Record { start: n * RECORD_BYTES, len: RECORD_BYTES });
    let run = Run {
        topic: topic.into(),
        origin: 1,
        part: 0,
        key: Key::None,
        headers: Arc::default(),
        id_header: None,
        events: 1,
        records: records.collect(),
    };
    Arc::new(Shipment { parts: vec![Bytes::from(bytes)], runs: vec![run] })
}

/// Waits until this many bytes have been recorded in events of this kind. Calls `work` while it
/// waits.
fn wait_for(kind: EventKind, bytes: u64, mut work: impl FnMut()) -> BTreeMap<String, RecordedSum> {
    let begun = Instant::now();
    loop {
        let sums = recorded(kind);
        if sums.values().map(|sum| sum.bytes).sum::<u64>() >= bytes {
            return sums;
        }
        assert!(begun.elapsed() < PATIENCE, "{kind:?}: {sums:?}");
        work();
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks that clients exchanged data only with the broker, and not much more than the payloads.
fn assert_payload(sums: &BTreeMap<String, RecordedSum>, broker: &str) {
    let (host, port) = broker.rsplit_once(':').unwrap();
    let peer = format!("{host},{host},{port}");
    assert_eq!(sums.keys().collect::<Vec<_>>(), [&peer], "{sums:?}");
    assert!(sums[&peer].bytes < PAYLOAD + OVERHEAD, "{sums:?}");
}

#[test]
fn the_bytes_of_each_broker_are_recorded() {
    let _test = start_recording();
    let kafka = Kafka::shared();
    kafka.create_topic("recorded", 1);
    let broker = kafka.bootstrap();
    let (receipts, received) = channel();
    let send = move |receipt| drop(receipts.send(receipt));
    let producer = Producer::open(&settings(&broker, &[]), None, send).unwrap();
    producer.send(&shipment("recorded"), 0, None, |_, _| 0);
    assert!(received.recv_timeout(PATIENCE).unwrap().failures.is_empty());
    let sent = wait_for(EventKind::SocketWrite, PAYLOAD, || ());
    assert_payload(&sent, &broker);
    let answered: u64 = recorded(EventKind::SocketRead).values().map(|sum| sum.bytes).sum();
    assert!((1..OVERHEAD).contains(&answered), "{answered}");
    drop(producer);

    let of_group = settings(&broker, &[("group.id", "recorded"), ("auto.offset.reset", "error")]);
    let consumer = Consumer::open(&of_group, None).unwrap();
    let at = TopicPartition { topic: "recorded".into(), partition: 0 };
    let end = consumer.find(std::slice::from_ref(&at), Place::End, PATIENCE).unwrap();
    assert_eq!(end, [Some(u64::from(RECORDS))]);
    consumer.assign(&[(at, 0)]).unwrap();
    let mut fetched = 0;
    let reads = wait_for(EventKind::SocketRead, PAYLOAD, || {
        drop(consumer.serve(Duration::ZERO));
        fetched += consumer.fetch(1000, Duration::ZERO).len();
    });
    assert_payload(&reads, &broker);
    assert!(fetched > 0);
    consumer.close();
}
