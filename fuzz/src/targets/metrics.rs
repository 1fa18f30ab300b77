//! Encoded metrics: blocks compared with their halves, and tags and sketches compared with another
//! JSON parser.

use millstream_encodings::metric::{Scratch, SketchText, tags};
use millstream_encodings::msgpack::{Block, ReadValue, blocks, split};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

pub const BLOCK_WORDS: &[&[u8]] = &[
    b"\xA1v\x01",
    b"\xA4rows\x01",
    b"\xA4meta\x81\xA4host\xA1a",
    b"\xAAattributes\x80",
    b"\xA5names\x91\xA1a",
    b"\xA4keys\x91\xA1k",
    b"\xA6values\x91\x92\xA1x\xA0",
    b"\xA7keysets\x91\x91\x00",
    b"\xA7tagsets\x92\x92\x00\x00\x92\x00\x01",
    b"\xA4name\x00",
    b"\xA4tags\x00",
    b"\xA4type\x02",
    b"\xA4time\xCF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    b"\xA8interval\x0A",
    b"\xA5value\x91\xCA\x3F\x00\x00\x00",
    b"\x96\x01\x02\x02\x02\x91\x02\x01",
    b"\x92\x01\x00",
    b"\xD3\x80\x00\x00\x00\x00\x00\x00\x00",
    b"\xCB\x7F\xF0\x00\x00\x00\x00\x00\x00",
    b"\xDC\x00\x02",
    b"\xDD\xFF\xFF\xFF\xFF",
    b"\xDF\xFF\xFF\xFF\xFF",
    b"\xC7\x01\x05a",
    b"\xC0",
];

pub const TAG_WORDS: &[&[u8]] = &[
    b"{\"a\":\"b\"}",
    b",\"c\":true",
    b"[\"x\",true]",
    b"\\\"",
    b"\\u00e9",
    b"\\ud83d\\ude00",
    b"null",
    b"-1.5e3",
    b"\"count\":1",
    b"\"sum\":2",
    b"\"min\":1",
    b"\"max\":2",
    b"\"values\":[1,2]",
    b"\"weights\":[1,1]",
    b"1e999",
    b" ",
    b"{}",
    b"[[]]",
];

/// Returns the metrics of a block as text. A half can contain 0 instead of the block's -0, because
/// blocks encode both as the integer 0.
fn show(block: &Block<'_>) -> Vec<String> {
    let show = |metric: millstream_encodings::msgpack::ReadMetric<'_>| {
        let tags: Vec<(&str, &str)> = metric.tags().collect();
        let text = format!("{metric:?}").replace("-0.0)", "0.0)").replace("-0.0,", "0.0,");
        format!("{text} {tags:?}")
    };
    block.metrics().map(show).collect()
}

/// Checks that a block has at most as many metrics as the input has bytes, and that each metric is
/// in one of the block's halves.
pub fn metrics_msgpack(input: &[u8]) {
    for block in blocks(input).map_while(Result::ok) {
        assert!(block.metrics().len() <= input.len());
        for metric in block.metrics() {
            assert!(metric.interval >= 0.0 && metric.interval.is_finite());
            match metric.value {
                ReadValue::Number(number) => assert!(number.is_finite()),
                ReadValue::Sketch(sketch) => {
                    assert!(sketch.points.is_sorted_by(|(a, _), (b, _)| a < b));
                    assert!(sketch.points.iter().all(|(_, weight)| *weight > 0.0));
                }
            }
        }
    }
    let Some(halves) = split(input) else { return };
    let whole = blocks(input).next().expect("a block that was split").expect("a valid one");
    let read = |half| blocks(half).next().expect("a half").expect("a valid half");
    let parts: Vec<String> = halves.iter().flat_map(|half| show(&read(half))).collect();
    assert_eq!(parts, show(&whole));
    assert!(halves.iter().all(|half| read(half).meta == whole.meta));
}

/// Checks that the tags of an object equal those that another parser finds, and that invalid input
/// is never read past its end.
pub fn metric_tags(input: &[u8]) {
    let mut found = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let answer =
        tags(input, &mut Scratch::default(), |key, value| found.push((text(key), text(value))));
    let sketch = SketchText::parse(input);
    if let Some(sketch) = sketch {
        assert!(sketch.points().all(|(value, weight)| value.is_finite() && weight > 0.0));
    }
    let Ok(Members(members)) = serde_json::from_slice(input) else { return };
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(true) => Some(String::new()),
        _ => None,
    };
    let mut wanted = Vec::new();
    for (key, value) in &members {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            let Some(value) = one(value) else { return };
            wanted.push((key.clone(), value));
        }
    }
    assert!(answer.is_ok(), "tags are refused");
    assert_eq!(found, wanted);
}

/// Members of an object in order, including duplicate names.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members, M::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}
