//! Rejected records without a broker: the tests act as the client.

use super::*;
use crate::sinks::kafka::KafkaSink;
use crate::sinks::kafka::encoder::KafkaEncoder;
use bytes::Bytes;
use millstream_kafka::{Key, Record};
use millstream_model::{
    Batch, BlockPool, Cell, CellKind, Column, EncodeCx, Encoder, Grant, Ledger, Sink,
};
use millstream_testkit::{Rows, batch, damaged, reread, stored, written_routing};
use serde_json::{Value, json};

/// A lane with the topics `logs-x` and `logs-y`.
struct Rig {
    lane: KafkaLane,
    encoder: KafkaEncoder,
    counters: Arc<Counters>,
    sink: KafkaSink,
}

impl Rig {
    fn with(codec: &str, has_reader: bool) -> Rig {
        Rig::of(codec, json!({}), has_reader)
    }

    fn of(codec: &str, more: Value, has_reader: bool) -> Rig {
        let mut options = json!({
            "brokers": ["127.0.0.1:1"], "topic": "logs-{{ app }}", "topics_max": 2,
            // The lane accepts payloads for half of this time, which is longer than a test ever
            // waits for a CPU.
            "options": { "linger.ms": 600_000 },
            "encoding": { "codec": codec, "metadata": [] }
        });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let config: Arc<KafkaConfig> = Arc::new(serde_json::from_value(options).unwrap());
        let (counters, feed) = (Arc::<Counters>::default(), Feed::of_refused());
        if has_reader {
            feed.attach(0, Arc::new(|| ()));
        }
        let cx = LaneCx { feed, ..LaneCx::outside("out", 0, counters.clone()) };
        let mut lane = KafkaLane::new(config.clone(), cx);
        for topic in ["logs-x", "logs-y"] {
            lane.topics.insert(topic.into(), (1, Instant::now()));
        }
        let encoder = KafkaEncoder::new(config.clone());
        Rig { lane, encoder, counters, sink: KafkaSink { config } }
    }

    /// Encodes a batch and delivers it to the lane.
    async fn deliver(&mut self, batch: &Batch) {
        let payload = self.encode(batch, None);
        assert_eq!(self.lane.deliver(&payload).await.unwrap(), Delivery::Sent);
    }

    fn encode(
        &mut self,
        batch: &Batch,
        refused: Option<&mut Vec<(usize, &'static str)>>,
    ) -> Payload {
        let (pool, grant) = (BlockPool::new(), Grant::new(1 << 30));
        let mut permit = grant.try_take(1 << 20).unwrap();
        let mut payload = Payload::new(batch.events() as u64);
        let counters = &self.counters;
        let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters, refused };
        self.encoder.encode(batch, &mut payload, &mut cx).unwrap();
        payload
    }

    /// Reports a payload. The broker rejects these records of the payload: (run, record).
    fn report(&self, tag: u64, refused: &[(u32, u32)]) {
        let failure = |(run, record): &(u32, u32)| Failure {
            record: RecordId { run: *run, record: *record },
            code: ErrorCode::MessageSizeTooLarge,
            rejected_by_client: true,
        };
        self.lane.receipts.put(Receipt { tag, failures: refused.iter().map(failure).collect() });
    }

    /// Returns the payload, index and record of the events that were rejected since the last call.
    fn refused(&mut self) -> Vec<(u64, u32, String)> {
        let describe = |refused: Refused| {
            let record = String::from_utf8(refused.record.to_vec()).unwrap();
            (refused.payload, refused.event, record)
        };
        self.lane.refused().into_iter().map(describe).collect()
    }

    /// Returns the number of rejected events in each payload settled since the last call.
    fn settled(&mut self) -> Vec<u64> {
        let check = |settled: Settled| {
            let is_refused = settled.outcome == Outcome::Rejected;
            assert_eq!(is_refused, settled.refused > 0);
            settled.refused
        };
        self.lane.settled().into_iter().map(check).collect()
    }
}

/// Builds a batch of gauges with the value 7, from two files. Each line of the files is the text
/// and the name of a gauge, and `apps` contains a letter for the `app` field of each line.
fn events(one: &str, other: &str, apps: &str) -> Batch {
    let parts =
        [Rows { name: "f", text: one.as_bytes() }, Rows { name: "g", text: other.as_bytes() }];
    let mut batch = batch(&parts, usize::MAX, &Grant::new(1 << 30), &Ledger::new());
    let rows = batch.rows();
    let letters = (0..rows).map(|row| Cell::own(CellKind::Text, row, 1)).collect();
    batch.fields.set(Column::new("app".into(), letters, apps.to_owned()));
    let names = batch.message.cells().to_vec();
    batch.fields.set(Column::new("name".into(), names, ""));
    let same = |kind, len| vec![Cell::own(kind, 0, len); rows];
    batch.fields.set(Column::new("type".into(), same(CellKind::Text, 5), "gauge"));
    batch.fields.set(Column::new("value".into(), same(CellKind::Int, 1), "7"));
    batch
}

fn found(expected: &[(u64, u32, &str)]) -> Vec<(u64, u32, String)> {
    expected.iter().map(|(payload, event, text)| (*payload, *event, (*text).to_owned())).collect()
}

#[tokio::test]
async fn a_refused_record_is_attributed_to_its_payload_and_event() {
    let mut rig = Rig::with("text", true);
    let mut batch = events("a\nb\nc\nd\n", "e\nf\n", "xxyxyy");
    // The runs are ab, c, d, ef; without the first row they are b, c, d, ef.
    rig.deliver(&batch).await;
    batch.select_range(1, 6);
    rig.deliver(&batch).await;
    rig.deliver(&batch).await;
    rig.report(1, &[(0, 0), (3, 1)]);
    assert_eq!(rig.settled(), [0; 0], "what is refused comes first");
    assert_eq!(rig.refused(), found(&[(1, 0, "b"), (1, 4, "f")]));
    assert_eq!(rig.settled(), [0; 0], "an older payload is in flight");
    rig.report(0, &[(0, 1), (1, 0), (3, 1)]);
    assert_eq!(rig.refused(), found(&[(0, 1, "b"), (0, 2, "c"), (0, 5, "f")]));
    assert_eq!(rig.settled(), [3, 2]);
    rig.report(2, &[(2, 0)]);
    assert_eq!(rig.refused(), found(&[(2, 2, "d")]));
    assert_eq!((rig.settled(), rig.refused()), (vec![1], Vec::new()));
    assert!(rig.counters.snapshot().dropped_events.is_empty(), "nothing is lost");
}

#[tokio::test]
async fn a_refused_record_is_dropped_if_nobody_reads_it() {
    let mut rig = Rig::with("text", false);
    rig.deliver(&events("a\nb\n", "c\n", "xyz")).await;
    rig.report(0, &[(0, 0)]);
    assert_eq!((rig.refused(), rig.settled()), (Vec::new(), vec![2]));
    let dropped = rig.counters.snapshot().dropped_events;
    assert_eq!(dropped, [("too_large", 1), ("too_many_topics", 1)].into());
}

#[tokio::test]
async fn events_for_too_many_topics_are_passed_on() {
    let mut rig = Rig::with("text", true);
    rig.deliver(&events("a\nb\nc\n", "d\n", "xzxz")).await;
    let refused = rig.lane.refused();
    assert!(refused.iter().all(|refused| refused.reason == "more than 2 topics"));
    assert_eq!(refused.iter().map(|refused| refused.event).collect::<Vec<_>>(), [1, 3]);
    rig.report(0, &[]);
    assert_eq!((rig.refused(), rig.settled()), (Vec::new(), vec![2]));
    assert!(rig.counters.snapshot().dropped_events.is_empty());
}

#[tokio::test]
async fn a_record_is_passed_on_as_it_was_encoded_with_the_error() {
    let mut rig = Rig::with("json", true);
    rig.deliver(&events("a\nb\n", "", "xx")).await;
    rig.report(0, &[(0, 1)]);
    let refused = rig.lane.refused().remove(0);
    let event: Value = serde_json::from_slice(&refused.record).unwrap();
    assert_eq!((&event["name"], &event["app"], refused.is_json), (&"b".into(), &"x".into(), true));
    assert!(refused.reason.contains("Message size too large"), "{}", refused.reason);
}

#[tokio::test]
async fn every_metric_of_a_refused_block_is_an_event() {
    let mut rig = Rig::with("msgpack", true);
    rig.deliver(&events("a\nb\nc\nd\n", "e\n", "xyyxx")).await;
    rig.report(0, &[(1, 0), (3, 0)]);
    let metric = |refused: Refused| {
        let metric: Value = serde_json::from_slice(&refused.record).unwrap();
        let name = metric["name"].as_str().unwrap().to_owned();
        let expected = json!({ "name": name, "tags": {}, "type": "gauge", "value": 7 });
        assert_eq!((metric, refused.is_json), (expected, true));
        (refused.payload, refused.event, name)
    };
    let refused: Vec<_> = rig.lane.refused().into_iter().map(metric).collect();
    assert_eq!(refused, found(&[(0, 1, "b"), (0, 2, "c"), (0, 4, "e")]));
    assert_eq!(rig.settled(), [3]);
}

#[test]
fn the_reason_why_brokers_are_down_stays_the_last_error() {
    let mut lane = Rig::with("text", false).lane;
    let all_down = || (ErrorCode::AllBrokersDown, "2/2 brokers are down".to_owned());
    lane.note_last_error(all_down());
    assert_eq!(lane.last_error, Some(all_down()));
    let login = (ErrorCode::Authentication, "SASL authentication error".to_owned());
    lane.note_last_error(login.clone());
    lane.note_last_error(all_down());
    assert_eq!(lane.last_error, Some(login));
}

#[test]
fn the_encoder_passes_events_that_are_not_metrics_on_in_order() {
    let mut rig = Rig::with("msgpack", true);
    let mut batch = events("a\nb\nc\n", "d\ne\n", "xyxyx");
    let value = |row: usize| match row {
        0 | 2 | 4 => Cell::ABSENT,
        _ => Cell::own(CellKind::Int, 0, 1),
    };
    batch.fields.set(Column::new("value".into(), (0..5).map(value).collect(), "7"));
    let mut refused = Vec::new();
    let payload = rig.encode(&batch, Some(&mut refused));
    assert_eq!(refused, [0, 2, 4].map(|row| (row, "not_a_metric")));
    assert_eq!((payload.events, payload.parts.len()), (2, 2));
    batch.select_range(2, 3);
    let payload = rig.encode(&batch, Some(&mut refused));
    assert_eq!((payload.events, payload.parts.len(), refused.len()), (0, 0, 4));
    assert!(rig.counters.snapshot().dropped_events.is_empty());
}

#[test]
fn the_events_of_a_block_that_cannot_be_decoded_are_empty() {
    let block = Bytes::from_static(b"no block");
    let run = |part, events| Run {
        topic: "t".into(),
        origin: 0,
        part,
        key: Key::None,
        headers: Arc::new([]),
        id_header: None,
        events,
        records: vec![Record { start: 0, len: 8 }],
    };
    let parts = vec![block.clone(), block];
    let shipment = Shipment { parts, runs: vec![run(0, 5), run(1, 2)] };
    let id = RecordId { run: 1, record: 0 };
    let sent = SentShipment { number: 3, shipment: &shipment, codec: Codec::Msgpack };
    let refused = of_record(sent, id, "why");
    let (reason, record) = ("why".to_owned(), Bytes::new());
    let event_refused = |event| Refused {
        payload: 3,
        event,
        reason: reason.clone(),
        record: record.clone(),
        is_json: false,
    };
    assert_eq!(refused, [event_refused(5), event_refused(6)]);
}

/// Returns every record of a payload with its destination, as the client receives it.
fn shown(payload: &Payload) -> Vec<String> {
    let EncodedShipment { shipment, codec, .. } = payload.routing_as().unwrap();
    let of_run = |(number, run): (u32, &Run)| {
        let record = |index: usize| {
            let id = RecordId { run: number, record: index as u32 };
            let header =
                run.id_header.as_ref().map(|header| (header.name.clone(), header.id(index)));
            format!(
                "{codec:?} {} {:x} {} {:?} {:?} {header:?} {:?}",
                run.topic,
                run.origin,
                run.events,
                run.key.get(index),
                run.headers,
                shipment.payload(id),
            )
        };
        (0..run.records.len()).map(record).collect::<Vec<_>>()
    };
    (0..).zip(&shipment.runs).flat_map(of_run).collect()
}

/// Creates lanes of sinks whose records have keys, headers and ids, or none of these.
fn rigs() -> Vec<Rig> {
    let all = json!({ "key": "{{ message }}", "headers": { "app": "a {{ app }}", "b": "" } });
    let same = json!({ "key": "k", "id_header": "" });
    let rigs = |codec| [Rig::of(codec, all.clone(), true), Rig::of(codec, same.clone(), true)];
    let blocks = Rig::of("msgpack", json!({ "key": "{{ name }}" }), true);
    ["text", "json"].into_iter().flat_map(rigs).chain([blocks]).collect()
}

#[test]
fn records_are_read_from_disk_as_they_were_encoded() {
    for mut rig in rigs() {
        let payload = rig.encode(&events("a\nb\n\nd\n", "e\nf\n", "xxyxyy"), None);
        let other = Rig::of("text", json!({ "topic": "another" }), false);
        let read = reread(&payload, &other.sink).unwrap();
        assert_eq!(shown(&read), shown(&payload));
        assert_eq!(written_routing(&read), written_routing(&payload));
        assert_eq!(rig.sink.payload_format(), other.sink.payload_format());
    }
}

/// A lane with another codec determines the events of a record by the codec with which they were
/// encoded.
#[tokio::test]
async fn refused_records_from_disk_are_attributed_as_they_were_encoded() {
    for codec in ["text", "json", "msgpack"] {
        let mut rig = Rig::with(codec, true);
        let payload = rig.encode(&events("a\nb\n", "c\n", "xxy"), None);
        let mut refused = Vec::new();
        for codec in ["text", "json", "msgpack"] {
            let mut other = Rig::with(codec, true);
            let read = reread(&payload, &other.sink).unwrap();
            assert_eq!(other.lane.deliver(&read).await.unwrap(), Delivery::Sent);
            other.report(0, &[(0, 0), (1, 0)]);
            refused.push(other.lane.refused());
        }
        assert_eq!(refused[0].len(), if codec == "msgpack" { 3 } else { 2 });
        assert!(refused[1..].iter().all(|other| *other == refused[0]), "{codec}: {refused:?}");
    }
}

#[test]
fn damaged_records_are_refused_or_within_the_payload() {
    for mut rig in rigs() {
        let payload = rig.encode(&events("a\nbc\n", "d\n", "xyy"), None);
        let (bytes, mut whole) = (written_routing(&payload).unwrap(), stored(&payload));
        let beginnings = bytes.len();
        for (number, damaged) in damaged(&bytes).enumerate() {
            whole.routing = match rig.sink.read_routing(&damaged, &whole) {
                Ok(routing) => routing,
                Err(_) => continue,
            };
            assert!(number >= beginnings, "the first {number} bytes are not all");
            let shipment = &whole.routing_as::<EncodedShipment>().unwrap().shipment;
            assert!(shown(&whole).len() == shipment.records() && shipment.records() <= bytes.len());
            let ids = (0..).zip(&shipment.runs).flat_map(|(run, entry)| {
                (0..entry.records.len() as u32).map(move |record| RecordId { run, record })
            });
            for id in ids {
                let sent = SentShipment { number: 0, shipment, codec: Codec::Msgpack };
                assert!(of_record(sent, id, "why").len() <= 3);
            }
        }
    }
}
