//! One block as two.

use super::decode::{Block, ReadMetric, ReadValue, Sketch, blocks};
use super::encode::{BlockEncoder, Shared};
use crate::metric::{Metric, SketchText, Value};
use millstream_columns::push_json_string;
use std::io::Write;

/// The first and the second half of the metrics of a block, as blocks; `None` if it has fewer than
/// two, or is none.
///
/// For one that an endpoint refuses: what it takes of it is found by halving.
pub fn split(block: &[u8]) -> Option<[Vec<u8>; 2]> {
    let block = blocks(block).next()?.ok()?;
    let rows = block.metrics().len();
    let (first, second) = (0..rows / 2, rows / 2..rows);
    (rows > 1).then(|| [part(&block, first), part(&block, second)])
}

fn part(block: &Block<'_>, rows: std::ops::Range<usize>) -> Vec<u8> {
    // Whoever chose the tags to be slow here has been so once before.
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
        // What was read of a block are tags.
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

/// The tags of a metric as an object. A key may come twice in it, which [`crate::metric::tags`]
/// does not mind.
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
    // Writing to memory does not fail.
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
