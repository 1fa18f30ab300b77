//! Splits one block into two.

use super::decode::{Block, ReadMetric, ReadValue, Sketch, blocks};
use super::encode::{BlockEncoder, Shared};
use crate::metric::{Metric, SketchText, Value};
use millstream_columns::push_json_string;
use std::io::Write;

/// Splits the metrics of a block into two blocks with equally many metrics. Returns `None` if the
/// block is invalid or has fewer than two metrics.
///
/// When an endpoint rejects a block, retries halve it to find the metrics that the endpoint
/// accepts.
pub fn split(block: &[u8]) -> Option<[Vec<u8>; 2]> {
    let block = blocks(block).next()?.ok()?;
    let rows = block.metrics().len();
    let (first, second) = (0..rows / 2, rows / 2..rows);
    (rows > 1).then(|| [encode_rows(&block, first), encode_rows(&block, second)])
}

fn encode_rows(block: &Block<'_>, rows: std::ops::Range<usize>) -> Vec<u8> {
    // The seed need not be secret. If a client chose tags that collide, the first encoding was
    // already slow.
    let (mut encoder, mut out) = (BlockEncoder::new(0), Vec::new());
    let (mut tags, mut sketch) = (Vec::new(), Vec::new());
    for metric in block.metrics().skip(rows.start).take(rows.len()) {
        object(&metric, &mut tags);
        let value = match metric.value {
            ReadValue::Number(number) => Value::Number(*number),
            ReadValue::Sketch(values) => {
                sketch_object(values, &mut sketch);
                let Some(sketch) = SketchText::parse(&sketch) else { continue };
                Value::Sketch(sketch)
            }
        };
        let ReadMetric { kind, temporality, time_ns, interval, .. } = metric;
        let name = metric.name.as_bytes();
        // The tags of a decoded block are always valid.
        let _ = encoder.push(&Metric {
            name,
            tags: &tags,
            kind,
            temporality,
            value,
            time_ns,
            interval,
        });
    }
    encoder.finish(&Shared { meta: &block.meta, attributes: &block.attributes }, &mut out);
    out
}

/// Encodes the tags of a metric as a JSON object. Keys may repeat, which [`crate::metric::tags`]
/// accepts.
fn object(metric: &ReadMetric<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.push(b'{');
    for (key, value) in metric.tags() {
        if out.len() > 1 {
            out.push(b',');
        }
        push_json_string(key.as_bytes(), out);
        out.push(b':');
        push_json_string(value.as_bytes(), out);
    }
    out.push(b'}');
}

fn sketch_object(sketch: &Sketch, out: &mut Vec<u8>) {
    let Sketch { count, sum, min, max, points } = sketch;
    out.clear();
    // Writing to memory never fails.
    let _ =
        write!(out, r#"{{"count":{count:?},"sum":{sum:?},"min":{min:?},"max":{max:?},"values":["#);
    let mut push = |numbers: &mut dyn Iterator<Item = f64>, end: &str| {
        for (index, number) in numbers.enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{number:?}");
        }
        out.extend_from_slice(end.as_bytes());
    };
    push(&mut points.iter().map(|(value, _)| *value), "],\"weights\":[");
    push(&mut points.iter().map(|(_, weight)| *weight), "]}");
}
