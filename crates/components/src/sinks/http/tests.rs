//! Tests that bodies contain what an endpoint expects.

use super::packer::Framing;
use super::*;
use crate::component::SinkComponent;
use crate::sinks::http_delivery::{Capacity, EncodedPayload, EventSet, Packer, Record, Request};
use millstream_compression::Algorithm;
use millstream_model::{BlockPool, Cell, CellKind, Column, Counters, Grant, Ledger};
use millstream_testkit::{Rows, batch, damaged, reread, stored, written_routing};
use std::io::Read;

fn format(framing: Framing) -> BodyFormat {
    BodyFormat {
        framing,
        line_ends: true,
        is_json: false,
        compression: Algorithm::None,
        level: None,
        bytes_max: 1 << 20,
        events_max: 1000,
    }
}

/// Encodes a payload as the lane passes it to the packer.
fn encoded(codec: &str, text: &str) -> EncodedPayload {
    let rows = [Rows { name: "f", text: text.as_bytes() }];
    encoded_batch(codec, &batch(&rows, usize::MAX, &Grant::new(1 << 30), &Ledger::new()))
}

fn encoded_batch(codec: &str, batch: &Batch) -> EncodedPayload {
    taken(&payload(codec, batch))
}

/// Returns a payload as the lane passes it to the packer.
fn taken(payload: &Payload) -> EncodedPayload {
    let metadata = payload.routing_as::<PayloadMetadata>();
    EncodedPayload {
        parts: payload.parts.clone(),
        events: payload.events,
        bytes: payload.bytes,
        routing: metadata.and_then(|metadata| metadata.routing.clone()),
        units_before: 0,
        continues: false,
    }
}

fn payload(codec: &str, batch: &Batch) -> Payload {
    let encoding: Encoding =
        serde_json::from_value(serde_json::json!({ "codec": codec, "metadata": [] })).unwrap();
    let inner = match encoding.codec {
        Codec::Text => Inner::Text(encoding.encoder()),
        Codec::Msgpack => Inner::Blocks(Box::new(MetricBlocks::new(&encoding))),
        Codec::Json | Codec::RawJson => Inner::Lines(encoding.encoder()),
    };
    let mut encoder = HttpEncoder { inner, spread: Jitter::Auto };
    let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
    let mut permit = grant.try_take(1 << 20).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    encoder.encode(batch, &mut payload, &mut cx).unwrap();
    payload
}

fn body(request: &Request) -> String {
    String::from_utf8(request.body.concat()).unwrap()
}

fn bodies(requests: &[Request]) -> Vec<(String, u64)> {
    requests.iter().map(|request| (body(request), request.events.len())).collect()
}

#[test]
fn each_framing_separates_events() {
    let pack = |framing, codec, texts: [&str; 2]| {
        let requests =
            HttpPacker::new(format(framing)).pack(texts.map(|text| encoded(codec, text)).into());
        assert_eq!((requests.len(), requests[0].events.len()), (1, 3));
        body(&requests[0])
    };
    let text = ["one\n\n", "three\n"];
    assert_eq!(pack(Framing::Newline, "text", text), "one\n\nthree\n");
    assert_eq!(pack(Framing::Length, "text", text), "\0\0\0\x03one\0\0\0\0\0\0\0\x05three");
    assert_eq!(pack(Framing::None, "text", text), "onethree");
    let lines = pack(Framing::Newline, "json", text);
    let message =
        |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["message"].clone();
    assert_eq!(lines.lines().map(message).collect::<Vec<_>>(), ["one", "", "three"]);
    let array: Vec<serde_json::Value> =
        serde_json::from_str(&pack(Framing::JsonArray, "json", text)).unwrap();
    assert_eq!(
        array.iter().map(|event| &event["message"]).collect::<Vec<_>>(),
        ["one", "", "three"]
    );
}

#[test]
fn multi_line_json_is_one_event_of_an_array() {
    let rows = [Rows { name: "f", text: b"a\nb\n" }];
    let mut batch = batch(&rows, usize::MAX, &Grant::new(1 << 30), &Ledger::new());
    let object: &[u8] = b"{\n\"k\": 1\n}";
    let cells = vec![Cell::own(CellKind::Object, 0, object.len()); 2];
    batch.fields.set(Column::new("object".into(), cells, object));
    let requests =
        HttpPacker::new(format(Framing::JsonArray)).pack(vec![encoded_batch("json", &batch)]);
    let array: Vec<serde_json::Value> = serde_json::from_str(&body(&requests[0])).unwrap();
    assert_eq!(array.iter().map(|event| &event["object"]["k"]).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_body_respects_the_limits_and_a_large_event_is_sent_alone() {
    let small = BodyFormat { bytes_max: 12, events_max: 3, ..format(Framing::Newline) };
    let requests =
        HttpPacker::new(small).pack(vec![encoded("text", "a\nb\nc\nd\ne\n0123456789abcdef\nf\n")]);
    assert_eq!(
        requests.iter().map(body).collect::<String>(),
        "a\nb\nc\nd\ne\n0123456789abcdef\nf\n"
    );
    assert!(requests.iter().all(|request| request.events.len() <= 3));
    let over: Vec<String> = requests.iter().map(body).filter(|body| body.len() > 12).collect();
    assert_eq!(over, ["0123456789abcdef\n"]);
}

/// Cuts and packs one payload as the lane does, into bodies with this `capacity`.
fn cut_up(format: BodyFormat, mut payload: EncodedPayload, capacity: Capacity) -> Vec<Request> {
    let mut packer = HttpPacker::new(format);
    let mut requests = Vec::new();
    while let Some((first, rest)) = HttpPacker::cut(&payload, capacity) {
        assert!(
            first.continues
                && first.bytes == first.parts.iter().map(|part| part.len() as u64).sum::<u64>()
        );
        requests.extend(packer.pack(vec![first]));
        payload = rest;
    }
    assert!(!payload.continues);
    requests.extend(packer.pack(vec![payload]));
    requests
}

#[test]
fn a_payload_is_cut_into_full_bodies() {
    let three = Capacity { bytes: 1 << 20, events: 3, is_empty: true };
    let text = "a\n\nb\nc\nd\ne\nf\n";
    let bodies_of = |framing, codec| bodies(&cut_up(format(framing), encoded(codec, text), three));
    let lines = [("a\n\nb\n".to_owned(), 3), ("c\nd\ne\n".to_owned(), 3), ("f\n".to_owned(), 1)];
    assert_eq!(bodies_of(Framing::Newline, "text"), lines);
    let texts = [("ab".to_owned(), 3), ("cde".to_owned(), 3), ("f".to_owned(), 1)];
    assert_eq!(bodies_of(Framing::None, "text"), texts);
    let json = bodies_of(Framing::JsonArray, "json");
    let messages = |(body, events): &(String, u64)| {
        let array: Vec<serde_json::Value> = serde_json::from_str(body).unwrap();
        assert_eq!(array.len() as u64, *events);
        array.iter().map(|event| event["message"].as_str().unwrap().to_owned()).collect::<String>()
    };
    assert_eq!(json.iter().map(messages).collect::<Vec<_>>(), ["ab", "cde", "f"]);
}

#[test]
fn a_payload_is_cut_by_bytes_unless_nothing_fits() {
    let payload = || encoded("text", "0123456789\na\nb\nc\n");
    let capacity = |bytes, is_empty| Capacity { bytes, events: 100, is_empty };
    let full = bodies(&cut_up(format(Framing::Newline), payload(), capacity(4, true)));
    assert_eq!(full, [("0123456789\n".to_owned(), 1), ("a\nb\n".into(), 2), ("c\n".into(), 1)]);
    assert!(
        HttpPacker::cut(&payload(), capacity(4, false)).is_none(),
        "the long line waits for the next batch"
    );
}

#[test]
fn a_refused_body_is_halved_down_to_the_single_event() {
    let mut packer = HttpPacker::new(format(Framing::Newline));
    let whole = packer.pack(vec![encoded("text", "a\nb\n"), encoded("text", "c\n")]);
    let halves = packer.split(whole.into_iter().next().unwrap()).unwrap();
    assert_eq!(bodies(&halves), [("a\n".to_owned(), 1), ("b\nc\n".to_owned(), 2)]);
    let mut halves = halves.into_iter();
    assert!(packer.split(halves.next().unwrap()).is_none());
    assert_eq!(
        bodies(&packer.split(halves.next().unwrap()).unwrap()),
        [("b\n".into(), 1), ("c\n".into(), 1)]
    );
    let mut json = HttpPacker::new(format(Framing::JsonArray));
    let whole = json.pack(vec![encoded("json", "a\nb\n")]);
    let halves = json.split(whole.into_iter().next().unwrap()).unwrap();
    assert!(halves.iter().all(|half| body(half).starts_with("[{") && body(half).ends_with("}]")));
}

/// Builds a batch of the gauges `a`, `b` and `c`, which are also its lines.
fn gauges() -> Batch {
    let rows = [Rows { name: "f", text: b"a\nb\nc\n" }];
    let mut batch = batch(&rows, usize::MAX, &Grant::new(1 << 30), &Ledger::new());
    let names = [0, 2, 4].map(|at| Cell::new(CellKind::Text, at, 1));
    batch.fields.set(Column::new("name".into(), names.to_vec(), ""));
    let kinds = vec![Cell::own(CellKind::Text, 0, 5); 3];
    batch.fields.set(Column::new("type".into(), kinds, "gauge"));
    batch.fields.set(Column::new("value".into(), vec![Cell::own(CellKind::Int, 0, 1); 3], "7"));
    batch
}

#[test]
fn a_refused_block_is_halved_down_to_the_single_metric() {
    let batch = gauges();
    let blocks = BodyFormat { line_ends: false, ..format(Framing::None) };
    let mut packer = HttpPacker::new(blocks);
    let (mut left, mut alone) = (packer.pack(vec![encoded_batch("msgpack", &batch)]), Vec::new());
    assert_eq!((left.len(), left[0].events.len()), (1, 3));
    while let Some(request) = left.pop() {
        let (body, record) = (request.body.concat(), packer.record(&request));
        let events = request.events.clone();
        match packer.split(request) {
            Some(halves) => left.extend(halves.into_iter().rev()),
            None => alone.push((body, events, record)),
        }
    }
    let name = |(index, (body, events, record)): (u32, &(Vec<u8>, EventSet, Record))| {
        let block = millstream_encodings::msgpack::blocks(body).next().unwrap().unwrap();
        assert_eq!((block.metrics().len(), events), (1, &EventSet::of(index..index + 1)));
        let name = block.metrics().next().unwrap().name.to_owned();
        let metric: serde_json::Value = serde_json::from_slice(&record.bytes).unwrap();
        let expected = serde_json::json!({ "name": name, "tags": {}, "type": "gauge", "value": 7 });
        assert_eq!((metric, record.is_json), (expected, true));
        name
    };
    assert_eq!((0..).zip(&alone).map(name).collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// Halves rejected bodies down to single events; returns the index and the record of each.
fn singles(packer: &mut HttpPacker, mut left: Vec<Request>) -> Vec<(u32, Record)> {
    let mut alone = Vec::new();
    left.reverse();
    while let Some(request) = left.pop() {
        let (record, first) = (packer.record(&request), request.events.iter().next().unwrap());
        match packer.split(request) {
            Some(halves) => left.extend(halves.into_iter().rev()),
            None => alone.push((first, record)),
        }
    }
    alone
}

#[test]
fn a_refused_event_is_known_as_it_was_encoded() {
    let line = |(index, text): (u32, &str)| {
        (index, Record { bytes: text.to_owned().into(), is_json: false })
    };
    for framing in [Framing::Newline, Framing::Length, Framing::None] {
        let mut packer = HttpPacker::new(BodyFormat { events_max: 2, ..format(framing) });
        let bodies = packer.pack(vec![encoded("text", "a\n\nb\n"), encoded("text", "c\n")]);
        let sets: Vec<EventSet> = bodies.iter().map(|body| body.events.clone()).collect();
        assert_eq!(sets, [EventSet::of(0..2), EventSet::of(2..4)]);
        let expected = [(0, "a"), (1, ""), (2, "b"), (3, "c")].map(line);
        assert_eq!(singles(&mut packer, bodies), expected);
    }
    let mut packer = HttpPacker::new(BodyFormat { is_json: true, ..format(Framing::JsonArray) });
    let bodies = packer.pack(vec![encoded("json", "a\nb\n")]);
    for ((index, record), text) in singles(&mut packer, bodies).into_iter().zip(["a", "b"]) {
        let event: serde_json::Value = serde_json::from_slice(&record.bytes).unwrap();
        assert_eq!((event["message"].as_str(), record.is_json), (Some(text), true));
        assert_eq!(index, u32::from(text == "b"));
        assert!(record.bytes.starts_with(b"{") && record.bytes.ends_with(b"}"));
    }
}

#[test]
fn a_compressed_body_has_its_header_and_reads_back() {
    let zstd = BodyFormat { compression: Algorithm::Zstd, ..format(Framing::Newline) };
    let requests =
        HttpPacker::new(zstd).pack(vec![encoded("text", "a\nb\n"), encoded("text", "c\n")]);
    assert_eq!(requests[0].headers, [("content-encoding", "zstd".to_owned())]);
    let mut text = String::new();
    zstd::stream::Decoder::new(&requests[0].body.concat()[..])
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "a\nb\nc\n");
}

fn sink(codec: &str) -> Arc<dyn Sink> {
    let options = serde_json::json!({ "uri": "http://h/", "encoding": { "codec": codec } });
    let config: HttpConfig = serde_json::from_value(options).unwrap();
    config.build().unwrap()
}

/// The framings of each codec.
const FRAMINGS: [(&str, &[Framing]); 4] = [
    ("json", &[Framing::Newline, Framing::JsonArray, Framing::Length, Framing::None]),
    ("raw_json", &[Framing::Newline, Framing::JsonArray, Framing::Length, Framing::None]),
    ("text", &[Framing::Newline, Framing::Length, Framing::None]),
    ("msgpack", &[Framing::Length, Framing::None]),
];

#[test]
fn the_bodies_of_a_payload_from_disk_are_those_of_the_original() {
    let three = Capacity { bytes: 1 << 20, events: 2, is_empty: true };
    for (codec, framings) in FRAMINGS {
        let original = payload(codec, &gauges());
        let read = reread(&original, &*sink(codec)).unwrap();
        for framing in framings {
            let format = BodyFormat { line_ends: codec != "msgpack", ..format(*framing) };
            let bodies = |payload| {
                let requests = cut_up(format, taken(payload), three);
                requests
                    .iter()
                    .map(|request| (request.body.concat(), request.events.len()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(bodies(&read), bodies(&original), "{codec} {framing:?}");
        }
    }
}

#[test]
fn payloads_of_codecs_that_cannot_share_a_body_differ_in_their_format() {
    let formats = FRAMINGS.map(|(codec, _)| sink(codec).payload_format());
    assert_eq!(formats, ["http/1 json", "http/1 json", "http/1 text", "http/1 msgpack"]);
}

#[test]
fn damaged_units_are_refused_or_all_of_the_payload() {
    for codec in ["text", "msgpack"] {
        let (original, sink) = (payload(codec, &gauges()), sink(codec));
        let (bytes, mut whole) = (written_routing(&original).unwrap(), stored(&original));
        for damaged in damaged(&bytes) {
            whole.routing = match sink.read_routing(&damaged, &whole) {
                Ok(routing) => routing,
                Err(_) => continue,
            };
            assert!(damaged.len() == bytes.len(), "neither less nor more is all");
            let format = BodyFormat { line_ends: codec == "text", ..format(Framing::None) };
            let one = Capacity { bytes: 1, events: 1, is_empty: true };
            let requests = cut_up(format, taken(&whole), one);
            let events: u64 = requests.iter().map(|request| request.events.len()).sum();
            assert_eq!(events, whole.events);
        }
        assert!(sink.read_routing(b"", &whole).is_err(), "{codec} has units");
    }
    let whole = stored(&payload("json", &gauges()));
    assert!(sink("json").read_routing(b"", &whole).unwrap().is_none());
    assert!(sink("json").read_routing(b"\0", &whole).is_err());
}
