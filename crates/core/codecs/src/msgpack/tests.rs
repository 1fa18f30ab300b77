//! Decodes encoded blocks with an independent decoder, and compares them with the JSON of the same
//! events.

use super::*;
use crate::Codec;
use millstream_encodings::msgpack::blocks;
use millstream_model::{
    BlockPool, CellKind, Column, ColumnBuilder, Counters, Grant, Ledger, Selection, SourceInfo,
};
use millstream_testkit::{Rows, batch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A field: name, kind, text.
type Field = (&'static str, CellKind, String);

fn events(rows: &[Vec<Field>], times: Vec<i64>) -> Batch {
    let text = "x\n".repeat(rows.len());
    let part = Rows { name: "", text: text.as_bytes() };
    let mut batch = batch(&[part], 100, &Grant::new(1 << 30), &Ledger::new());
    let mut columns: BTreeMap<&str, ColumnBuilder> = BTreeMap::new();
    for (row, fields) in rows.iter().enumerate() {
        for (name, kind, text) in fields {
            let column = columns.entry(name).or_insert_with(|| ColumnBuilder::new(rows.len()));
            let cell = column.push(*kind, text.as_bytes());
            column.set(row, cell);
        }
    }
    let columns: Vec<Column> =
        columns.into_iter().map(|(name, column)| column.finish(name.into())).collect();
    batch.fields = columns.into();
    batch.time = Some(times.into());
    batch.shown = Some(Selection::new_unset(rows.len()));
    let attributes = [("env".to_owned(), "a \"ü\"".to_owned())].into();
    batch.source = Arc::new(SourceInfo { attributes, ..(*batch.source).clone() });
    batch
}

fn encode(codec: Codec, batch: &Batch) -> (Payload, Counters) {
    encode_for(None, codec, batch)
}

/// Encodes a batch. `refused` receives the rejected rows; if it is `None`, no component reads them.
fn encode_for(
    refused: Option<&mut Vec<(usize, &'static str)>>,
    codec: Codec,
    batch: &Batch,
) -> (Payload, Counters) {
    let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
    let metadata = vec![Metadata::Host, Metadata::Source];
    let encoding = Encoding { codec, metadata, ..Encoding::default() };
    let declared = encoding.payload_bytes_max(batch.block.len() as u64, batch.rows() as u64);
    let mut permit = grant.try_take(declared).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused };
    encoding.encoder().encode(batch, &mut payload, &mut cx).unwrap();
    (payload, counters)
}

/// Decodes blocks and the JSON of the same events, and compares their printed form, in which 1 and
/// 1.0 differ.
const COMPARE: &str = r#"
import datetime, json, os, sys
import metrics_msgpack
body, lines = open(os.path.join(sys.argv[1], "body"), "rb").read(), open(os.path.join(sys.argv[1], "lines"), "rb")
def stamped(event):
    since = datetime.timedelta(milliseconds=event.pop("time_ns") // 1000000)
    time = datetime.datetime(1970, 1, 1) + since
    return {"timestamp": time.isoformat(timespec="milliseconds") + "Z", **event}
show = lambda event: json.dumps(event, sort_keys=True)
read = [show(stamped(event)) for event in metrics_msgpack.events(body)]
wanted = [show(json.loads(line)) for line in lines]
assert len(read) == len(wanted), (len(read), len(wanted))
for one, other in zip(read, wanted):
    assert one == other, "\n" + one + "\n" + other
print(len(read))
"#;

/// Panics if Python finds different events in the blocks and in the lines; returns their number.
fn compare(body: &[u8], lines: &[u8]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("body"), body).unwrap();
    std::fs::write(folder.path().join("lines"), lines).unwrap();
    let formats = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats");
    let mut python = Command::new("python3");
    python.args(["-B", "-", folder.path().to_str().unwrap()]).env("PYTHONPATH", formats);
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(COMPARE.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Formats a number as metric sources do.
fn number(number: f64) -> (CellKind, String) {
    match number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 {
        true => (CellKind::Int, (number as i64).to_string()),
        false => (CellKind::Float, format!("{number:?}")),
    }
}

fn numbers() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-200i64..70_000).prop_map(|number| number as f64),
        any::<i64>().prop_map(|number| (number >> 11) as f64),
        any::<i64>().prop_map(|number| number as f64),
        (-1000i32..1000).prop_map(|number| f64::from(number) / 8.0),
        any::<f64>().prop_filter("finite", |number| number.is_finite()),
    ]
}

fn tags() -> impl Strategy<Value = String> {
    let value = prop_oneof![Just("true".to_owned()), ".{1,30}".prop_map(|text| string(&text))];
    let one = prop::collection::vec(value, 1..4).prop_map(|values| match &values[..] {
        [only] => only.clone(),
        values => format!("[{}]", values.join(",")),
    });
    prop::collection::btree_map("[a-c]|.{0,6}", one, 0..6).prop_map(|tags| {
        let tags: Vec<String> =
            tags.iter().map(|(key, value)| format!("{}:{value}", string(key))).collect();
        format!("{{{}}}", tags.join(","))
    })
}

fn sketches() -> impl Strategy<Value = String> {
    let points = prop::collection::vec((numbers(), 1u32..4), 0..100);
    (points, numbers(), any::<bool>()).prop_map(|(mut points, sum, is_even)| {
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points.dedup_by(|(a, _), (b, _)| a == b);
        let list = |numbers: Vec<f64>| {
            let texts: Vec<String> = numbers.into_iter().map(|value| number(value).1).collect();
            format!("[{}]", texts.join(","))
        };
        let weight = |weight: u32| if is_even { 1.0 } else { f64::from(weight) / 2.0 };
        let values = list(points.iter().map(|(value, _)| *value).collect());
        let weights = list(points.iter().map(|(_, count)| weight(*count)).collect());
        let (count, sum) = (points.len(), number(sum).1);
        format!(r#"{{"count":{count},"sum":{sum},"min":-1,"max":2.5,"values":{values},"weights":{weights}}}"#)
    })
}

fn event() -> impl Strategy<Value = Vec<Field>> {
    let value = prop_oneof![
        4 => numbers().prop_map(|value| (false, number(value))),
        1 => sketches().prop_map(|sketch| (true, (CellKind::Object, sketch))),
    ];
    let interval = prop_oneof![Just(10.0), 0.001..100.0f64];
    ("[a-d]|.{1,40}", tags(), value, 0..3usize, interval).prop_map(
        |(name, tags, (is_sketch, value), kind, interval)| {
            let (kind, temporality) = match kind {
                _ if is_sketch => ("distribution", Some("delta")),
                0 => ("counter", Some("delta")),
                1 => ("counter", Some("cumulative")),
                _ => ("gauge", None),
            };
            let interval = number(interval);
            let text = |name, text: &str| (name, CellKind::Text, text.to_owned());
            let mut fields = vec![text("name", &name), ("tags", CellKind::Object, tags)];
            fields.extend([text("type", kind), ("value", value.0, value.1)]);
            fields.extend(temporality.map(|temporality| text("temporality", temporality)));
            fields.push(("interval", interval.0, interval.1));
            fields
        },
    )
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 24, long: 500 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn python_reads_the_same_events_in_blocks_as_in_json(
        rows in prop::collection::vec((event(), prop_oneof![Just(1_795_292_980_000_000_000), 0..i64::MAX]), 1..60),
    ) {
        let (rows, times): (Vec<Vec<Field>>, Vec<i64>) = rows.into_iter().unzip();
        let batch = events(&rows, times);
        let (body, _) = encode(Codec::Msgpack, &batch);
        let (lines, _) = encode(Codec::Json, &batch);
        prop_assert_eq!(compare(&body.parts.concat(), &lines.parts.concat()), rows.len());
    }
}

fn counter(name: &str, value: &str) -> Vec<Field> {
    let text = |name, text: &str| (name, CellKind::Text, text.to_owned());
    vec![text("name", name), text("type", "counter"), ("value", CellKind::Int, value.to_owned())]
}

#[test]
fn events_that_are_not_metrics_are_skipped_and_counted() {
    let log = vec![("level", CellKind::Text, "info".to_owned())];
    let batch = events(&[counter("a", "1"), log.clone(), counter("b", "2"), log], vec![0; 4]);
    let (payload, counters) = encode(Codec::Msgpack, &batch);
    assert_eq!((payload.parts.len(), payload.events), (1, 2));
    assert_eq!(counters.snapshot().dropped_events, [(NOT_A_METRIC, 2)].into());
    let block = blocks(&payload.parts[0]).next().unwrap().unwrap();
    assert_eq!(
        block.metrics().map(|metric| metric.name.to_owned()).collect::<Vec<_>>(),
        ["a", "b"]
    );
    let (payload, counters) = encode(Codec::Msgpack, &events(&[vec![]], vec![0]));
    assert!(payload.is_empty() && payload.events == 0);
    assert_eq!(counters.snapshot().dropped_events, [(NOT_A_METRIC, 1)].into());
}

#[test]
fn events_that_are_not_metrics_are_passed_on_if_someone_reads_them() {
    let log = vec![("level", CellKind::Text, "info".to_owned())];
    let check = vec![("type", CellKind::Text, "service_check".to_owned())];
    let mut bad = counter("a", "1");
    bad.push(("tags", CellKind::Object, r#"{"bad":{}}"#.to_owned()));
    let rows = [log.clone(), counter("a", "1"), check, counter("b", "2"), bad];
    let mut refused = Vec::new();
    let (payload, counters) =
        encode_for(Some(&mut refused), Codec::Msgpack, &events(&rows, vec![0; 5]));
    let expected = [(0, NOT_A_METRIC), (2, "event_not_supported"), (4, NOT_A_METRIC)];
    assert_eq!((&refused[..], payload.parts.len(), payload.events), (&expected[..], 1, 2));
    assert!(counters.snapshot().dropped_events.is_empty());
    refused.clear();
    let batch = events(&[log.clone(), log], vec![0; 2]);
    let (payload, counters) = encode_for(Some(&mut refused), Codec::Msgpack, &batch);
    assert_eq!((refused.len(), payload.parts.len(), payload.events), (2, 0, 0));
    assert!(counters.snapshot().dropped_events.is_empty());
}

/// A batch that contains only metrics with invalid tags leaves no data in the encoder.
#[test]
fn tags_of_rejected_metrics_do_not_accumulate() {
    let encoding = Encoding { codec: Codec::Msgpack, ..Encoding::default() };
    let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
    let mut permit = grant.try_take(1 << 20).unwrap();
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    let mut encoder = MetricBlocks::new(&encoding);
    let empty = encoder.encoder.bytes();
    for number in 0..9 {
        let mut metric = counter("a", "1");
        metric.push(("tags", CellKind::Object, format!(r#"{{"key{number}":"value","bad":{{}}}}"#)));
        encoder.append(&events(&[metric], vec![0]), &mut Payload::new(1), &mut cx);
        assert_eq!(encoder.encoder.bytes(), empty, "after {number}");
    }
    assert_eq!(counters.snapshot().dropped_events, [(NOT_A_METRIC, 9)].into());
}

/// Each part is a block of limited size. Together, the blocks contain every metric once.
#[test]
fn a_full_block_is_followed_by_another() {
    let name = |row: usize| format!("{}{row:06}", "x".repeat(1000));
    let rows: Vec<Vec<Field>> = (0..2000).map(|row| counter(&name(row), "1")).collect();
    let (payload, _) = encode(Codec::Msgpack, &events(&rows, vec![5; 2000]));
    assert!(
        payload.parts.len() > 2 && payload.parts.iter().all(|part| part.len() < BLOCK_BYTES + 2048)
    );
    let mut row = 0;
    for part in &payload.parts {
        let mut found = blocks(part);
        for metric in found.next().unwrap().unwrap().metrics() {
            assert_eq!(metric.name, name(row));
            row += 1;
        }
        assert!(found.next().is_none());
    }
    assert_eq!(row, 2000);
}

#[test]
fn line_based_sinks_reject_it() {
    let encoding: Encoding = serde_json::from_value(json!({ "codec": "msgpack" })).unwrap();
    assert_eq!(encoding.check(), []);
    let errors = encoding.check_lines();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].pointer, "/encoding/codec");
    assert!(errors[0].to_string().contains("; use `json` or `text`"));
    assert_eq!(Encoding::default().check_lines(), []);
}
