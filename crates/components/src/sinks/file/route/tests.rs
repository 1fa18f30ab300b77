//! Rows grouped by name: complete and in order.

use super::*;
use crate::component::SinkComponent;
use crate::sinks::file::FileConfig;
use crate::util::template::Use;
use arrow_buffer::BooleanBuffer;
use millstream_model::{BlockPool, Delivery, Grant, LaneCx, Ledger, Sink};
use millstream_testkit::{Rows, batch, damaged, reread, stored, written_routing};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn encoder(codec: Codec, template: &str) -> RoutingEncoder {
    let template = Template::parse(template, Use::Path).unwrap();
    RoutingEncoder::new(&Encoding { codec, ..Encoding::default() }, &template)
}

fn payload(encoder: &mut dyn Encoder, batch: &Batch, counters: &Counters) -> Payload {
    let (pool, grant) = (BlockPool::new(), Grant::new(1 << 30));
    let mut permit = grant.try_take(1 << 24).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters, refused: None };
    encoder.encode(batch, &mut payload, &mut cx).unwrap();
    payload
}

/// Returns the text of each name, and the number of missing fields.
fn routed(encoder: &mut RoutingEncoder, batch: &Batch) -> (BTreeMap<String, String>, u64) {
    let counters = Counters::default();
    let payload = payload(encoder, batch, &counters);
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

/// Creates a sink for text whose path is below a folder.
fn sink(folder: &Path, path: &str, compression: &str) -> Arc<dyn Sink> {
    let path = format!("{}/{path}", folder.display());
    let options =
        json!({ "path": path, "compression": compression, "encoding": { "codec": "text" } });
    serde_json::from_value::<FileConfig>(options).unwrap().build().unwrap()
}

/// Delivers a payload. Returns the files in the folder by name, and removes them.
async fn written(sink: &dyn Sink, payload: &Payload, folder: &Path) -> BTreeMap<String, String> {
    let mut lane = sink.lane(LaneCx::outside("out", 0, Arc::default()));
    assert_eq!(lane.deliver(payload).await.unwrap(), Delivery::Taken);
    lane.sync().await.unwrap();
    lane.close();
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let text = fs::read_to_string(entry.path()).unwrap();
        fs::remove_file(entry.path()).unwrap();
        found.insert(entry.file_name().into_string().unwrap(), text);
    }
    found
}

#[tokio::test]
async fn a_payload_from_disk_goes_to_the_files_that_it_was_encoded_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (batch, counters) = (of(&[("a", "x\ny\nx\n"), ("b", "y\n\n")]), Counters::default());
    let files = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
        all.iter().map(|(name, text)| (format!("{name}.log"), (*text).to_owned())).collect()
    };
    let all = "x\ny\nx\ny\n\n";
    for (path, other, expected) in [
        (
            "{{ message }}.log",
            "{{ file }}.log",
            &[("%", "\n"), ("x", "x\nx\n"), ("y", "y\ny\n")][..],
        ),
        ("one.log", "other.log", &[("one", all)]),
        ("one.log", "%F.log", &[("one", all)]),
    ] {
        let (one, other) = (sink(folder, path, "none"), sink(folder, other, "none"));
        let payload = payload(&mut *one.encoder(), &batch, &counters);
        assert_eq!(written(&*one, &payload, folder).await, files(expected));
        assert_eq!(one.payload_format(), other.payload_format());
        let read = reread(&payload, &*other).unwrap();
        assert_eq!(written_routing(&read), written_routing(&payload));
        assert_eq!(written(&*other, &read, folder).await, files(expected), "{path}");
    }
}

#[test]
fn payloads_are_not_delivered_by_a_sink_that_writes_files_differently() {
    let folder = tempfile::tempdir().unwrap();
    let format = |path, compression| sink(folder.path(), path, compression).payload_format();
    let formats = [
        format("a.log", "none"),
        format("a.log", "gzip"),
        format("{{ file }}", "none"),
        format("{{ file }}", "gzip"),
    ];
    let distinct: std::collections::BTreeSet<&String> = formats.iter().collect();
    assert_eq!(distinct.len(), 4, "{formats:?}");
    assert_eq!(format("b.log", "none"), formats[0]);
}

#[test]
fn damaged_routes_are_refused_or_all_parts_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let sink = sink(folder.path(), "{{ message }}.log", "none");
    let original = payload(&mut *sink.encoder(), &of(&[("a", "x\ny\n")]), &Counters::default());
    let (bytes, mut whole) = (written_routing(&original).unwrap(), stored(&original));
    for damaged in damaged(&bytes) {
        whole.routing = match sink.read_routing(&damaged, &whole) {
            Ok(routing) => routing,
            Err(_) => continue,
        };
        assert_eq!(damaged.len(), bytes.len(), "neither less nor more is all");
        let routes = &whole.routing_as::<Routes>().unwrap().0;
        assert_eq!(routes.iter().map(|route| route.parts).sum::<usize>(), whole.parts.len());
        assert!(routes.iter().all(|route| is_path(&route.name)));
    }
    assert!(is_path("a") && !is_path("") && !is_path("a/") && !is_path("a\0"));
}
