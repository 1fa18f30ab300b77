use super::config::ElasticsearchConfig;
use crate::codec::bulk::TOO_MANY_INDEXES;
use crate::component::SinkComponent;
use millstream_model::{
    Batch, BlockPool, Cell, CellKind, Column, Counters, EncodeCx, Grant, Ledger, Payload,
};
use millstream_testkit::{Rows, batch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use serde_json::{Value, json};

fn small(text: &[u8]) -> Batch {
    let rows = Rows { name: "/var/log/a.log", text };
    batch(&[rows], 10_000, &Grant::new(1 << 30), &Ledger::new())
}

/// Encodes a batch; returns the lines, the events, the rejected rows and the dropped events.
fn encode_for(
    batch: &Batch,
    options: Value,
    is_read: bool,
) -> (Vec<u8>, u64, Vec<(usize, &'static str)>, u64) {
    let mut all = json!({ "endpoints": ["http://h:9200"] });
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let config: ElasticsearchConfig = serde_json::from_value(all).unwrap();
    let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
    let mut permit = grant.try_take(1 << 24).unwrap();
    let (mut payload, mut refused) = (Payload::new(batch.events() as u64), Vec::new());
    let mut cx = EncodeCx {
        pool: &pool,
        permit: &mut permit,
        counters: &counters,
        refused: is_read.then_some(&mut refused),
    };
    config.build().unwrap().encoder().encode(batch, &mut payload, &mut cx).unwrap();
    let dropped = counters.snapshot().dropped_events.values().sum();
    (payload.parts.concat(), payload.events, refused, dropped)
}

/// Encodes a batch; returns the actions and the documents.
fn encode(batch: &Batch, options: Value) -> Vec<(Value, Value)> {
    let text = String::from_utf8(encode_for(batch, options, false).0).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// Adds a column of strings. An empty string is absent.
fn with_column(batch: &mut Batch, name: &str, values: &[&str]) {
    let (mut bytes, mut cells) = (Vec::new(), Vec::new());
    for value in values {
        let cell = Cell::own(CellKind::Text, bytes.len(), value.len());
        cells.push(if value.is_empty() { Cell::ABSENT } else { cell });
        bytes.extend_from_slice(value.as_bytes());
    }
    batch.fields.set(Column::new(name.into(), cells, bytes));
}

#[test]
fn an_event_is_an_action_and_a_document() {
    let batch = small(b"one\ntwo\n");
    let (text, events, ..) = encode_for(
        &batch,
        json!({ "index": "logs-%Y.%m.%d", "encoding": { "metadata": [] } }),
        false,
    );
    let event = |id: &str, message: &str| {
        format!(
            "{{\"create\":{{\"_index\":\"logs-2026.11.21\",\"_id\":\"a000000000000001-{id}\"}}}}\n\
             {{\"@timestamp\":\"2026-11-21T20:29:46.123Z\",\"message\":\"{message}\"}}\n"
        )
    };
    assert_eq!(String::from_utf8(text).unwrap(), event("0", "one") + &event("4", "two"));
    assert_eq!(events, 2);
}

#[test]
fn index_id_routing_and_pipeline_come_from_fields_of_each_event() {
    let mut batch = small(b"1\n2\n3\n4\n");
    with_column(&mut batch, "app", &["Web", "Web", "a/b \"c\"", ""]);
    with_column(&mut batch, "key", &["k\"1\"\n", "", &"x".repeat(600), "k4"]);
    let options = json!({
        "index": "logs-{{ app }}", "op_type": "index", "id": "{{ key }}",
        "routing": "{{ key }}", "pipeline": "p-{{ app }}",
    });
    let actions: Vec<Value> =
        encode(&batch, options).into_iter().map(|(mut action, _)| action["index"].take()).collect();
    let long = "x".repeat(600);
    assert_eq!(
        actions[0],
        json!({ "_index": "logs-web", "_id": "k\"1\"\n", "routing": "k\"1\"\n", "pipeline": "p-Web" })
    );
    assert_eq!(
        actions[1],
        json!({ "_index": "logs-web", "_id": "a000000000000001-2", "pipeline": "p-Web" })
    );
    assert_eq!(actions[2]["_index"], "logs-a_2fb_20_22c_22");
    assert_eq!(
        (actions[2]["_id"].as_str().unwrap().len(), &actions[2]["routing"]),
        (32, &json!(long))
    );
    assert_eq!(actions[3], json!({ "_index": "logs-none", "_id": "k4", "routing": "k4" }));
}

#[test]
fn the_server_chooses_ids_on_request() {
    let options = json!({ "data_stream": { "namespace": "test" }, "id": "" });
    let (action, _) = encode(&small(b"1\n"), options).pop().unwrap();
    assert_eq!(action, json!({ "create": { "_index": "logs-generic-test" } }));
}

#[test]
fn events_for_too_many_indexes_are_refused() {
    let mut batch = small(b"1\n2\n3\n4\n5\n");
    with_column(&mut batch, "app", &["a", "b", "c", "a", "c"]);
    let options = json!({ "index": "logs-{{ app }}", "indexes_max": 2 });
    let (text, events, refused, dropped) = encode_for(&batch, options.clone(), true);
    let reason = TOO_MANY_INDEXES;
    assert_eq!((events, refused, dropped), (3, vec![(2, reason), (4, reason)], 0));
    let ids: Vec<_> = String::from_utf8(text).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), 6);
    let (_, events, _, dropped) = encode_for(&batch, options, false);
    assert_eq!((events, dropped), (3, 2));
}

/// Cases of each property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// Each event becomes two lines of JSON, an action and a document, whatever bytes it contains.
    #[test]
    fn no_event_breaks_the_body(
        lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
        field in prop::collection::vec("\\PC{0,8}|[\\x00-\\x1f\"\\\\]{1,8}", 8),
        raw in any::<bool>(),
    ) {
        let text: Vec<u8> = lines.iter().flat_map(|line| [&line[..], b"\n"].concat()).collect();
        let mut batch = small(&text);
        let values: Vec<&str> = (0..batch.rows()).map(|row| field[row % 8].as_str()).collect();
        with_column(&mut batch, "f", &values);
        let codec = if raw { "raw_json" } else { "json" };
        let options = json!({
            "index": "logs-{{ f }}", "id": "{{ f }}", "routing": "{{ message }}", "pipeline": "{{ f }}",
            "encoding": { "codec": codec },
        });
        let events = encode(&batch, options);
        prop_assert_eq!(events.len(), batch.rows());
        for (action, document) in events {
            let index = action["create"]["_index"].as_str().unwrap();
            let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
            prop_assert!(index.starts_with("logs-") && index.chars().all(is_legal) && index.len() <= 255);
            prop_assert!(!action["create"]["_id"].as_str().unwrap().is_empty());
            prop_assert!(document.is_object());
        }
    }
}
