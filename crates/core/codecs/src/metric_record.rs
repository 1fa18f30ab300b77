//! Rejected metrics as JSON objects, rebuilt from the form in which sinks store them.
//!
//! The objects contain the members of a metric event, so a metric sink can read them again: `name`,
//! `tags`, `type`, `value`, `temporality` and `interval`, as far as they are known.

use millstream_encodings::metric::{Kind, Temporality};
use millstream_encodings::msgpack::{ReadMetric, ReadValue, Sketch, blocks};
use millstream_encodings::prometheus::{Row, Rows};
use millstream_scan::escape_json;
use std::io::Write;

/// Largest number up to which every integer is exact in 64-bit floating point.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns the metrics in a block, each as a JSON object; `None` if `block` is not a valid block.
pub fn of_block(block: &[u8]) -> Option<Vec<Vec<u8>>> {
    let block = blocks(block).next()?.ok()?;
    Some(block.metrics().map(|metric| of_metric(&metric)).collect())
}

fn of_metric(metric: &ReadMetric<'_>) -> Vec<u8> {
    let mut object = Object::new(metric.name.as_bytes());
    object.name("tags");
    push_tags(metric, &mut object.0);
    object.kind(metric.kind, metric.temporality);
    object.name("value");
    match metric.value {
        ReadValue::Number(number) => push_number(*number, &mut object.0),
        ReadValue::Sketch(sketch) => push_sketch(sketch, &mut object.0),
    }
    object.interval(metric.interval);
    object.finish()
}

/// Returns the metric in a row as a JSON object; `text` is the text of all rows. The object of a
/// distribution has no value, because the row contains only numbers computed from the distribution.
pub fn of_row(rows: &Rows, row: &Row, text: &[u8]) -> Vec<u8> {
    let (name, tags) = rows.strings(row, text);
    let mut object = Object::new(name);
    object.name("tags");
    object.0.extend_from_slice(tags);
    let temporality = match (row.is_delta, row.kind) {
        (true, _) => Temporality::Delta,
        // A metric sink treats a counter without a temporality as cumulative.
        (false, Kind::Counter) => Temporality::Cumulative,
        (false, _) => Temporality::None,
    };
    object.kind(row.kind, temporality);
    if row.kind != Kind::Distribution {
        object.name("value");
        push_number(row.value, &mut object.0);
    }
    object.interval(f64::from(row.interval_ms) / 1e3);
    object.finish()
}

/// A JSON object under construction.
struct Object(Vec<u8>);

impl Object {
    /// Creates an object with the metric's name.
    fn new(name: &[u8]) -> Object {
        let mut object = Object(br#"{"name":"#.to_vec());
        push_string(name, &mut object.0);
        object
    }

    fn name(&mut self, name: &str) {
        self.0.push(b',');
        push_string(name.as_bytes(), &mut self.0);
        self.0.push(b':');
    }

    fn kind(&mut self, kind: Kind, temporality: Temporality) {
        self.name("type");
        push_string(type_name(kind), &mut self.0);
        let temporality: &[u8] = match temporality {
            Temporality::Delta => b"delta",
            Temporality::Cumulative => b"cumulative",
            Temporality::None => return,
        };
        self.name("temporality");
        push_string(temporality, &mut self.0);
    }

    /// Adds the length of the metric's period in seconds, unless it is unknown.
    fn interval(&mut self, seconds: f64) {
        if seconds > 0.0 {
            self.name("interval");
            push_number(seconds, &mut self.0);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

fn type_name(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Counter => b"counter",
        Kind::Gauge => b"gauge",
        Kind::Distribution => b"distribution",
    }
}

fn push_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    escape_json(text, out);
    out.push(b'"');
}

/// Appends a finite number, without a fraction if it is an integer.
fn push_number(number: f64, out: &mut Vec<u8>) {
    // Writing to memory never fails.
    let _ = match number.fract() == 0.0 && number.abs() <= INTEGER_MAX {
        true => write!(out, "{}", number as i64),
        false => write!(out, "{number:?}"),
    };
}

fn push_numbers(numbers: impl Iterator<Item = f64>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, number) in numbers.enumerate() {
        out.extend((index > 0).then_some(b','));
        push_number(number, out);
    }
    out.push(b']');
}

/// Appends the tags as an object: `true` for a tag without a value, and an array for a tag with
/// several values.
fn push_tags(metric: &ReadMetric<'_>, out: &mut Vec<u8>) {
    let tags: Vec<(&str, &str)> = metric.tags().collect();
    out.push(b'{');
    for (index, alike) in tags.chunk_by(|one, other| one.0 == other.0).enumerate() {
        out.extend((index > 0).then_some(b','));
        push_string(alike[0].0.as_bytes(), out);
        out.push(b':');
        match alike {
            [(_, value)] => push_tag(value, out),
            _ => push_values(alike, out),
        }
    }
    out.push(b'}');
}

fn push_values(tags: &[(&str, &str)], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, (_, value)) in tags.iter().enumerate() {
        out.extend((index > 0).then_some(b','));
        push_tag(value, out);
    }
    out.push(b']');
}

fn push_tag(value: &str, out: &mut Vec<u8>) {
    match value {
        "" => out.extend_from_slice(b"true"),
        value => push_string(value.as_bytes(), out),
    }
}

fn push_sketch(sketch: &Sketch, out: &mut Vec<u8>) {
    let Sketch { count, sum, min, max, points } = sketch;
    for (name, number) in
        [("{\"count\":", count), (",\"sum\":", sum), (",\"min\":", min), (",\"max\":", max)]
    {
        out.extend_from_slice(name.as_bytes());
        push_number(*number, out);
    }
    out.extend_from_slice(b",\"values\":");
    push_numbers(points.iter().map(|(value, _)| *value), out);
    out.extend_from_slice(b",\"weights\":");
    push_numbers(points.iter().map(|(_, weight)| *weight), out);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_encodings::metric::{Metric, SketchText, Value};
    use millstream_encodings::msgpack::{BlockEncoder, Shared};
    use millstream_encodings::prometheus::{Distributions, RowsBuilder};
    use serde_json::json;

    const TAGS: &[u8] = br#"{"a":["x","y"],"b":"q\"z","c":true}"#;
    const SKETCH: &[u8] =
        br#"{"count":3,"sum":7.5,"min":1,"max":5,"values":[1,5],"weights":[2,0.5]}"#;

    fn metrics() -> [Metric<'static>; 3] {
        let counter = Metric {
            name: "m\u{fc}\"".as_bytes(),
            tags: TAGS,
            kind: Kind::Counter,
            temporality: Temporality::Delta,
            value: Value::Number(3.0),
            time_ns: 1,
            interval: 10.0,
        };
        let (kind, temporality) = (Kind::Gauge, Temporality::None);
        let value = Value::Number(-1.5e300);
        let gauge = Metric { tags: b"{}", kind, temporality, value, interval: 0.0, ..counter };
        let (kind, value) = (Kind::Distribution, Value::Sketch(SketchText::parse(SKETCH).unwrap()));
        [counter, gauge, Metric { kind, value, ..counter }]
    }

    fn parsed(object: Vec<u8>) -> serde_json::Value {
        serde_json::from_slice(&object).unwrap()
    }

    /// Returns the objects expected for the test's metrics; `sketch` is the value of the
    /// distribution.
    fn expected(sketch: Option<serde_json::Value>) -> [serde_json::Value; 3] {
        let tags = json!({ "a": ["x", "y"], "b": "q\"z", "c": true });
        let mut distribution = json!({
            "name": "m\u{fc}\"", "tags": tags, "type": "distribution", "temporality": "delta",
            "interval": 10
        });
        sketch.into_iter().for_each(|sketch| distribution["value"] = sketch);
        let counter = json!({
            "name": "m\u{fc}\"", "tags": tags, "type": "counter", "temporality": "delta",
            "value": 3, "interval": 10
        });
        let gauge = json!({ "name": "m\u{fc}\"", "tags": {}, "type": "gauge", "value": -1.5e300 });
        [counter, gauge, distribution]
    }

    #[test]
    fn a_metric_of_a_block_is_an_object_with_all_its_members() {
        let (mut encoder, mut block) = (BlockEncoder::new(1), Vec::new());
        metrics().iter().for_each(|metric| encoder.push(metric).unwrap());
        encoder.finish(&Shared::default(), &mut block);
        let found: Vec<_> = of_block(&block).unwrap().into_iter().map(parsed).collect();
        assert_eq!(found, expected(Some(serde_json::from_slice(SKETCH).unwrap())));
        assert_eq!((of_block(b"not a block"), of_block(b"")), (None, None));
    }

    #[test]
    fn a_metric_of_a_row_has_no_sketch() {
        let mut rows = RowsBuilder::new(&Distributions::Native, 1, "web-1", Vec::new());
        metrics().iter().for_each(|metric| rows.push(metric));
        let (rows, text) = rows.finish();
        let found = rows.rows().iter().map(|row| parsed(of_row(&rows, row, &text)));
        assert_eq!(found.collect::<Vec<_>>(), expected(None));
    }
}
