//! Rows grouped by name: complete and in order.

use super::*;
use crate::util::template::Use;
use arrow_buffer::BooleanBuffer;
use millstream_model::{BlockPool, Grant, Ledger};
use millstream_testkit::{Rows, batch};
use serde_json::Value;
use std::collections::BTreeMap;

fn encoder(codec: Codec, template: &str) -> RoutingEncoder {
    let template = Template::parse(template, Use::Path).unwrap();
    RoutingEncoder::new(&Encoding { codec, ..Encoding::default() }, &template)
}

/// Returns the text of each name, and the number of missing fields.
fn routed(encoder: &mut RoutingEncoder, batch: &Batch) -> (BTreeMap<String, String>, u64) {
    let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
    let mut permit = grant.try_take(1 << 24).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    encoder.encode(batch, &mut payload, &mut cx).unwrap();
    let routes = &payload.routing_as::<Routes>().unwrap().0;
    let (mut found, mut parts) = (BTreeMap::new(), payload.parts.iter());
    for route in routes.iter() {
        let text: Vec<u8> =
            parts.by_ref().take(route.parts).flat_map(|part| part.to_vec()).collect();
        assert!(found.insert(route.name.to_string(), String::from_utf8(text).unwrap()).is_none());
    }
    assert!(parts.next().is_none(), "every part has its route");
    (found, counters.snapshot().noted_events.get("missing_field").copied().unwrap_or_default())
}

fn of(parts: &[(&str, &str)]) -> Batch {
    let rows: Vec<Rows<'_>> =
        parts.iter().map(|(name, text)| Rows { name, text: text.as_bytes() }).collect();
    batch(&rows, usize::MAX, &Grant::new(1 << 30), &Ledger::new())
}

#[test]
fn rows_are_grouped_by_name_in_order() {
    let batch = of(&[("a", "x\ny\nx\n"), ("b", "y\nz\n\n")]);
    let (text, _) = routed(&mut encoder(Codec::Text, "/o/{{ message }}"), &batch);
    let expected = [("/o/%", "\n"), ("/o/x", "x\nx\n"), ("/o/y", "y\ny\n"), ("/o/z", "z\n")];
    assert_eq!(text, expected.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
    let (text, _) = routed(&mut encoder(Codec::Text, "/o/{{ file }}.log"), &batch);
    let expected = [("/o/a.log", "x\ny\nx\n"), ("/o/b.log", "y\nz\n\n")];
    assert_eq!(text, expected.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
}

#[test]
fn only_selected_json_events_are_encoded_and_each_is_complete() {
    let mut batch = of(&[("a", "x\ny \"q\"\nx\n"), ("b", "y\nz\n")]);
    batch.select(BooleanBuffer::collect_bool(5, |row| row != 0));
    let (found, _) = routed(&mut encoder(Codec::Json, "/o/{{ message }}"), &batch);
    assert_eq!(found.len(), 4);
    for (name, text) in found {
        let event: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(name, format!("/o/{}", event["message"].as_str().unwrap()));
    }
}

/// With a single name, the codec's output is emitted unchanged.
#[test]
fn a_single_name_needs_no_copy_and_missing_fields_are_counted() {
    let line = format!("{}\n", "x".repeat(99)).repeat(2000);
    let batch = of(&[("a", &line), ("b", "1\n2\n")]);
    let (found, missing) = routed(&mut encoder(Codec::Text, "/o/{{ app }}-%Y"), &batch);
    assert_eq!((found.len(), missing), (1, 2002));
    assert_eq!(found["/o/none-2026"], line.clone() + "1\n2\n");
    let (found, missing) = routed(&mut encoder(Codec::Text, "/o/{{ previous_offset }}"), &batch);
    assert_eq!((found.len(), missing), (2000, 2), "the offset 1000 is in both files");
}

#[test]
fn slices_of_the_block_are_split_too() {
    let line = format!("{}\n{}\n", "x".repeat(99), "y".repeat(49)).repeat(2000);
    let (found, _) = routed(&mut encoder(Codec::Text, "/o/{{ message }}"), &of(&[("a", &line)]));
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[&format!("/o/{}", "y".repeat(49))],
        format!("{}\n", "y".repeat(49)).repeat(2000)
    );
}
