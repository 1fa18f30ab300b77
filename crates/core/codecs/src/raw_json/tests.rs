//! Encodes lines, and parses them with an independent parser.

use super::*;
use millstream_model::{BlockPool, Cell, CellKind, Column, Counters, Grant, Ledger, SourceInfo};
use millstream_testkit::{Rows, batch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Builds a batch of the lines in `text`, with an attribute `env`.
fn small(text: &[u8]) -> Batch {
    let rows = Rows { name: "/var/log/a.log", text };
    let mut batch = batch(&[rows], 10_000, &Grant::new(1 << 30), &Ledger::new());
    let attributes = [("env".to_owned(), "prod".to_owned())].into();
    batch.source = Arc::new(SourceInfo { attributes, ..(*batch.source).clone() });
    batch
}

fn encode(batch: &Batch, encoding: Value) -> (Vec<String>, Counters) {
    let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
    let mut encoding: Encoding = serde_json::from_value(encoding).unwrap();
    encoding.timestamp_key = "@timestamp".to_owned();
    let mut permit = grant.try_take(1 << 20).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    RawJsonEncoder::new(&encoding).encode(batch, &mut payload, &mut cx).unwrap();
    let text = String::from_utf8(payload.parts.concat()).unwrap();
    (text.lines().map(str::to_owned).collect(), counters)
}

#[test]
fn an_object_passes_as_it_is_with_added_members_before_its_own() {
    let batch = small(b"{\"a\": 1.50,\t\"b\":[{}]}\n {} \nplain\n{\"a\":1} x\n");
    let (lines, _) = encode(&batch, json!({ "metadata": ["offset"] }));
    let time = "\"@timestamp\":\"2026-11-21T20:29:46.123Z\"";
    let added = |offset: u64| format!("{{{time},\"meta\":{{\"offset\":{offset}}},\"env\":\"prod\"");
    let wrapped = |message: &str, offset: u64| {
        format!(
            "{{{time},\"message\":\"{message}\",\"meta\":{{\"offset\":{offset}}},\"env\":\"prod\"}}"
        )
    };
    let expected = [
        added(0) + ",\"a\": 1.50,\t\"b\":[{}]}",
        added(22) + "}",
        wrapped("plain", 27),
        wrapped("{\\\"a\\\":1} x", 33),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn members_of_the_object_replace_added_ones_of_their_names() {
    let text = b"{\"\\u0040timestamp\":1,\"env\":{\"x\":2}}\n{\"meta\":3,\"color\":4}\n{\"a\":5}\n";
    let mut batch = small(text);
    let cells = vec![Cell::own(CellKind::Text, 0, 4); 3];
    batch.fields.set(Column::new("color".into(), cells, &b"blue"[..]));
    let (lines, counters) = encode(&batch, json!({ "metadata": ["offset"] }));
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let time = "2026-11-21T20:29:46.123Z";
    let expected = [
        json!({ "color": "blue", "meta": { "offset": 0 }, "@timestamp": 1, "env": { "x": 2 } }),
        json!({ "@timestamp": time, "env": "prod", "meta": 3, "color": 4 }),
        json!({ "@timestamp": time, "color": "blue", "meta": { "offset": 57 }, "env": "prod", "a": 5 }),
    ];
    assert_eq!(events, expected);
    assert!(lines.iter().all(|line| line.matches("env").count() == 1), "{lines:?}");
    assert_eq!(counters.snapshot().noted_events["name_clash"], 2);
}

#[test]
fn a_hidden_message_and_invalid_text_are_encoded_as_json() {
    let mut batch = small(b"{\"a\":1}\n{\"a\":\"\xFF\"}\n");
    batch.shown = Some(BooleanBuffer::from(vec![false, true]));
    let (lines, _) = encode(&batch, json!({ "metadata": [] }));
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&events[0]["a"], &events[0]["message"]), (&Value::Null, &Value::Null));
    assert_eq!(events[1]["message"], "{\"a\":\"\u{FFFD}\"}");
}

/// Generates objects with whitespace, line breaks and escapes in many places.
fn object() -> impl Strategy<Value = String> {
    let space = prop::sample::select(vec!["", " ", "\r", "\t "]);
    let name = "(@timestamp|env|meta|message|[a-c]{0,2}|\\\\u0041|\\\\\"\\\\n)";
    let value =
        prop::sample::select(vec!["1", "-0.5e3", "\"}{,\\\\\"", "[1, {\"x\":[]}]", "{}", "null"]);
    let member = (space.clone(), name, space.clone(), value, space);
    prop::collection::vec(member, 0..6).prop_map(|members| {
        let text = |(a, name, b, value, c): (&str, String, &str, &str, &str)| {
            format!("{a}\"{name}\"{b}:{c}{value}{b}")
        };
        format!("{{{}}}", members.into_iter().map(text).collect::<Vec<_>>().join(","))
    })
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// Every line produces one valid object on one line.
    #[test]
    fn each_line_becomes_one_object(
        lines in prop::collection::vec(prop_oneof![
            object(),
            (object(), 0usize..40).prop_map(|(text, cut)| text.chars().take(cut).collect()),
            "[ -~é]{0,20}",
        ], 1..6),
    ) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let batch = small(text.as_bytes());
        let (encoded, _) = encode(&batch, json!({ "metadata": ["id"] }));
        prop_assert_eq!(encoded.len(), batch.rows());
        for (row, line) in encoded.iter().enumerate() {
            let event: Map<String, Value> = serde_json::from_str(line).unwrap();
            let own = std::str::from_utf8(batch.text(row)).unwrap();
            match serde_json::from_str::<Map<String, Value>>(own) {
                Ok(own) => {
                    prop_assert!(own.iter().all(|(name, value)| event[name] == *value));
                    prop_assert!(event.contains_key("@timestamp") && event.contains_key("env"));
                }
                Err(_) => prop_assert_eq!(event["message"].as_str(), Some(own)),
            }
        }
    }
}
