use super::*;
use crate::metric::{Kind, Metric, SketchText, Temporality, Value};
use millstream_columns::push_json_string;
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

/// A metric that owns its data.
#[derive(Clone, Debug)]
struct OwnedMetric {
    name: String,
    tags: Vec<(String, String)>,
    object: Vec<u8>,
    kind: Kind,
    temporality: Temporality,
    number: f64,
    /// A distribution as a JSON object.
    sketch: Option<String>,
    time_ns: i64,
    interval: f64,
}

impl OwnedMetric {
    fn metric(&self) -> Metric<'_> {
        let value = match &self.sketch {
            Some(object) => Value::Sketch(SketchText::parse(object.as_bytes()).unwrap()),
            None => Value::Number(self.number),
        };
        let OwnedMetric { kind, temporality, time_ns, interval, .. } = *self;
        Metric {
            name: self.name.as_bytes(),
            tags: &self.object,
            kind,
            temporality,
            value,
            time_ns,
            interval,
        }
    }

    fn assert_same(&self, read: &ReadMetric<'_>) {
        let tags: Vec<(String, String)> =
            read.tags().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        assert_eq!((&self.name[..], &self.tags), (read.name, &tags));
        assert_eq!((self.kind, self.temporality), (read.kind, read.temporality));
        assert_eq!((self.time_ns, self.interval), (read.time_ns, read.interval));
        match (self.metric().value, read.value) {
            (Value::Number(number), ReadValue::Number(read)) => assert_eq!(number, *read),
            (Value::Sketch(sketch), ReadValue::Sketch(read)) => {
                assert_eq!(
                    [sketch.count, sketch.sum, sketch.min, sketch.max],
                    [read.count, read.sum, read.min, read.max]
                );
                assert_eq!(sketch.points().collect::<Vec<_>>(), read.points);
            }
            (value, read) => panic!("{value:?} became {read:?}"),
        }
    }
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![-200i64..200, any::<i64>().prop_map(|number| number >> 10),]
        .prop_map(|number| number as f64)
        .boxed()
        .prop_union(any::<f64>().prop_filter("finite", |number| number.is_finite()).boxed())
        .or((-1000i32..1000).prop_map(|number| f64::from(number) / 8.0).boxed())
}

fn sketch() -> impl Strategy<Value = String> {
    let points = prop::collection::btree_map(-1_000_000i64..1_000_000, 1u32..4, 0..40);
    (points, number()).prop_map(|(points, sum)| {
        let values: Vec<String> = points.keys().map(|value| format!("{:?}", *value as f64 / 64.0)).collect();
        let weights: Vec<String> =
            points.values().map(|weight| format!("{:?}", f64::from(*weight) / 2.0)).collect();
        let (values, weights) = (values.join(","), weights.join(","));
        format!(
            r#"{{"count":{},"sum":{sum:?},"min":-1,"max":2.5,"values":[{values}],"weights":[{weights}]}}"#,
            points.len()
        )
    })
}

fn object(tags: &[(String, String)]) -> Vec<u8> {
    let mut object = vec![b'{'];
    for (key, value) in tags {
        if object.len() > 1 {
            object.push(b',');
        }
        push_json_string(key.as_bytes(), &mut object);
        object.push(b':');
        match value.as_str() {
            "" => object.extend_from_slice(b"true"),
            value => push_json_string(value.as_bytes(), &mut object),
        }
    }
    object.push(b'}');
    object
}

fn owned_metric() -> impl Strategy<Value = OwnedMetric> {
    let tags = prop::collection::vec(("[a-c]{1,2}|.{0,3}", "[a-z]{0,2}|.{0,40}"), 0..5);
    let kinds = (0..3usize, 0..3usize);
    let time = prop_oneof![Just(1_700_000_000_000_000_000i64), any::<i64>()];
    let interval = prop_oneof![Just(10.0), 0.0..100.0f64];
    ("[a-d]|.{1,300}", tags, kinds, number(), sketch(), time, interval).prop_map(
        |(name, tags, (kind, temporality), number, sketch, time_ns, interval)| {
            let kind = [Kind::Counter, Kind::Gauge, Kind::Distribution][kind];
            let temporality =
                [Temporality::None, Temporality::Delta, Temporality::Cumulative][temporality];
            let sketch = (kind == Kind::Distribution).then_some(sketch);
            OwnedMetric {
                name,
                object: object(&tags),
                tags,
                kind,
                temporality,
                number,
                sketch,
                time_ns,
                interval,
            }
        },
    )
}

const META: &[(&str, &str)] = &[("host", "a\"ü"), ("source", "s")];

fn encode(encoder: &mut BlockEncoder, metrics: &[OwnedMetric]) -> Vec<u8> {
    metrics.iter().for_each(|metric| encoder.push(&metric.metric()).unwrap());
    let (bytes, mut out) = (encoder.bytes(), Vec::new());
    encoder.finish(&Shared { meta: META, attributes: &[] }, &mut out);
    let shared: usize = META.iter().map(|(key, value)| 10 + key.len() + value.len()).sum();
    assert!(out.len() <= bytes + shared, "expected at most {} bytes, got {}", bytes, out.len());
    out
}

fn assert_same(block: &Block<'_>, metrics: &[OwnedMetric]) {
    assert_eq!(block.metrics().len(), metrics.len());
    assert_eq!(block.meta, META);
    metrics.iter().zip(block.metrics()).for_each(|(own, read)| own.assert_same(&read));
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn encoded_metrics_round_trip(
        first in prop::collection::vec(owned_metric(), 1..40),
        second in prop::collection::vec(owned_metric(), 1..40),
    ) {
        let mut encoder = BlockEncoder::new(1);
        let mut body = encode(&mut encoder, &first);
        body.extend(encode(&mut encoder, &second));
        let read: Vec<Block<'_>> = blocks(&body).map(Result::unwrap).collect();
        prop_assert_eq!(read.len(), 2);
        assert_same(&read[0], &first);
        assert_same(&read[1], &second);
    }

    #[test]
    fn split_blocks_contain_the_same_metrics(metrics in prop::collection::vec(owned_metric(), 2..20)) {
        let block = encode(&mut BlockEncoder::new(1), &metrics);
        let [first, second] = split(&block).unwrap();
        let half = metrics.len() / 2;
        assert_same(&blocks(&first).next().unwrap().unwrap(), &metrics[..half]);
        assert_same(&blocks(&second).next().unwrap().unwrap(), &metrics[half..]);
    }

    #[test]
    fn mutated_and_truncated_blocks_never_panic(
        metrics in prop::collection::vec(owned_metric(), 1..6),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut block = encode(&mut BlockEncoder::new(1), &metrics);
        let cut = at.index(block.len());
        prop_assert!(cut == 0 || blocks(&block[..cut]).next().unwrap().is_err());
        block[cut] = byte;
        blocks(&block).filter_map(Result::ok).for_each(|block| block.metrics().for_each(drop));
    }
}

fn metric(name: &'static str, tags: &'static str, number: f64) -> Metric<'static> {
    Metric {
        name: name.as_bytes(),
        tags: tags.as_bytes(),
        kind: Kind::Gauge,
        temporality: Temporality::None,
        value: Value::Number(number),
        time_ns: 2_000_000_000,
        interval: 10.0,
    }
}

/// The format's documentation shows these bytes.
#[test]
fn the_encoding_matches_the_documentation() {
    let mut encoder = BlockEncoder::new(1);
    encoder.push(&metric("cpu", r#"{"host":"a"}"#, 0.5)).unwrap();
    encoder.push(&metric("cpu", r#"{"host":"b"}"#, 300.0)).unwrap();
    let mut block = Vec::new();
    encoder.finish(&Shared { meta: &[("source", "s")], attributes: &[] }, &mut block);
    let expected = b"\x8E\xA1v\x01\xA4rows\x02\xA4meta\x81\xA6source\xA1s\xA5names\x91\xA3cpu\
        \xA4keys\x91\xA4host\xA6values\x91\x92\xA1a\xA1b\xA7keysets\x91\x91\x00\
        \xA7tagsets\x92\x92\x00\x00\x92\x00\x00\xA4name\x00\xA4tags\x92\x00\x01\xA4type\x01\
        \xA4time\xCE\x77\x35\x94\x00\xA8interval\x0A\xA5value\x92\xCA\x3F\x00\x00\x00\xCD\x01\x2C";
    assert_eq!(block, expected, "{:X?}", String::from_utf8_lossy(&block));
}

#[test]
fn invalid_tags_are_rejected_without_adding_a_metric() {
    let mut encoder = BlockEncoder::new(1);
    assert!(encoder.push(&metric("a", r#"{"x":"1","y":{}}"#, 1.0)).is_err());
    let mut out = Vec::new();
    encoder.finish(&Shared::default(), &mut out);
    assert_eq!(out, []);
    encoder.push(&metric("b", r#"{"x":"2"}"#, 1.0)).unwrap();
    assert!(encoder.push(&metric("a", r#"[]"#, 1.0)).is_err());
    encoder.finish(&Shared::default(), &mut out);
    let block = blocks(&out).next().unwrap().unwrap();
    assert_eq!(block.metrics().map(|metric| metric.name).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn unknown_members_are_ignored_and_other_versions_are_rejected() {
    let mut encoder = BlockEncoder::new(1);
    encoder.push(&metric("a", "{}", 1.0)).unwrap();
    let mut block = Vec::new();
    encoder.finish(&Shared::default(), &mut block);
    let mut later = block.clone();
    later[0] += 1;
    later.extend_from_slice(b"\xA4more\x81\xA1x\x93\xC0\xC3\xD4\x01\x02");
    assert_eq!(blocks(&later).next().unwrap().unwrap().metrics().len(), 1);
    let mut other = block;
    other[3] = 2;
    assert_eq!(blocks(&other).next().unwrap().unwrap_err(), DecodeError("unsupported version"));
}

#[test]
fn a_distribution_with_min_above_max_is_rejected() {
    let mut encoder = BlockEncoder::new(1);
    let sketch = br#"{"count":1,"sum":1,"min":1,"max":2.5,"values":[1],"weights":[1]}"#;
    let value = Value::Sketch(SketchText::parse(sketch).unwrap());
    encoder.push(&Metric { kind: Kind::Distribution, value, ..metric("a", "{}", 1.0) }).unwrap();
    let mut block = Vec::new();
    encoder.finish(&Shared::default(), &mut block);
    assert!(blocks(&block).next().unwrap().is_ok());
    let float = |value: f32| [&[0xCA][..], &value.to_be_bytes()].concat();
    let at = block.windows(5).position(|bytes| bytes == float(2.5)).unwrap();
    block.splice(at..at + 5, float(-2.5));
    assert!(blocks(&block).next().unwrap().is_err());
}

#[test]
fn a_few_bytes_cannot_claim_many_rows() {
    let mut encoder = BlockEncoder::new(1);
    encoder.push(&metric("a", "{}", 1.0)).unwrap();
    let mut block = Vec::new();
    encoder.finish(&Shared::default(), &mut block);
    let rows = block.windows(5).position(|bytes| bytes == b"rows\x01").unwrap() + 4;
    block.splice(rows..=rows, *b"\xCE\xFF\xFF\xFF\xFF");
    assert!(blocks(&block).next().unwrap().is_err());
    let bomb = [0xDF, 0xFF, 0xFF, 0xFF, 0xFF].repeat(1000);
    assert!(blocks(&bomb).next().unwrap().is_err());
}
