//! Decodes remote write requests with an independent Protocol Buffers implementation.

use millstream_encodings::metric::{Kind, Metric, SketchText, Temporality, Value};
use millstream_encodings::prometheus::{
    Accumulator, Body, Distributions, LabelRules, NameEscaping, Options, RemoteWriteLabels,
    RequestBuilder, RowPlace, RowsBuilder, Version,
};
use prost::Message;

#[derive(PartialEq, Message)]
struct Request1 {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<Series1>,
}

#[derive(PartialEq, Message)]
struct Series1 {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    histograms: Vec<Histogram>,
}

#[derive(PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

#[derive(PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    count_int: Option<u64>,
    #[prost(double, optional, tag = "2")]
    count_float: Option<f64>,
    #[prost(double, tag = "3")]
    sum: f64,
    #[prost(sint32, tag = "4")]
    schema: i32,
    #[prost(double, tag = "5")]
    zero_threshold: f64,
    #[prost(uint64, optional, tag = "6")]
    zero_count_int: Option<u64>,
    #[prost(double, optional, tag = "7")]
    zero_count_float: Option<f64>,
    #[prost(message, repeated, tag = "8")]
    negative_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "9")]
    negative_deltas: Vec<i64>,
    #[prost(double, repeated, tag = "10")]
    negative_counts: Vec<f64>,
    #[prost(message, repeated, tag = "11")]
    positive_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "12")]
    positive_deltas: Vec<i64>,
    #[prost(double, repeated, tag = "13")]
    positive_counts: Vec<f64>,
    #[prost(int64, tag = "15")]
    timestamp: i64,
}

#[derive(PartialEq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

#[derive(PartialEq, Message)]
struct Request2 {
    #[prost(string, repeated, tag = "4")]
    symbols: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    timeseries: Vec<Series2>,
}

#[derive(PartialEq, Message)]
struct Series2 {
    #[prost(uint32, repeated, tag = "1")]
    labels_refs: Vec<u32>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    histograms: Vec<Histogram>,
    #[prost(message, optional, tag = "5")]
    metadata: Option<Metadata>,
    #[prost(int64, tag = "6")]
    created_timestamp: i64,
}

#[derive(PartialEq, Message)]
struct Metadata {
    #[prost(int32, tag = "1")]
    kind: i32,
}

const END_MS: i64 = 1_800_000_000_000;

/// Adds a counter, a gauge and a distribution to a request.
fn fill(
    distributions: Distributions,
    sketch: &str,
    starts_at_zero: bool,
    request: &mut RequestBuilder,
) {
    let rules = LabelRules {
        constant: vec![("cluster".into(), "x".into())],
        host_label: Some("host".into()),
        counter_suffix: true,
        escaping: NameEscaping::Underscores,
        value_bytes_max: usize::MAX,
    };
    let options = Options {
        rules,
        distributions: distributions.clone(),
        expire_seconds: 600,
        series_max: 100,
        starts_at_zero,
        seed: 1,
    };
    let mut rows = RowsBuilder::new(&distributions, 1, "web-1", Vec::new());
    let number = Value::Number(2.5);
    let sketch = Value::Sketch(SketchText::parse(sketch.as_bytes()).unwrap());
    for (name, kind, value) in [
        ("a.b", Kind::Counter, number),
        ("g", Kind::Gauge, number),
        ("d", Kind::Distribution, sketch),
    ] {
        let (name, tags, temporality) =
            (name.as_bytes(), &br#"{"Env":"prod"}"#[..], Temporality::Delta);
        rows.push(&Metric {
            name,
            tags,
            kind,
            temporality,
            value,
            time_ns: END_MS * 1_000_000,
            interval: 10.0,
        });
    }
    let (rows, text) = rows.finish();
    let mut accumulator = Accumulator::new(options, RemoteWriteLabels::new(&distributions));
    for row in rows.rows() {
        let place = RowPlace { rows: &rows, row, text: &text };
        accumulator.add(place, END_MS, request).unwrap();
        request.end_event();
    }
}

fn bytes(body: &Body) -> Vec<u8> {
    body.parts().concat()
}

const INTEGRAL: &str =
    r#"{"count":6,"sum":9,"min":-1,"max":4,"values":[-1,0,1,1.01,2,4],"weights":[1,1,1,1,1,1]}"#;
const SAMPLED: &str = r#"{"count":2.5,"sum":5,"min":2,"max":2,"values":[2],"weights":[2.5]}"#;

fn labels_of(series: &Series1) -> String {
    let labels: Vec<_> =
        series.labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect();
    labels.join(" ")
}

fn version_1(distributions: Distributions, sketch: &str, starts_at_zero: bool) -> Request1 {
    let mut request = RequestBuilder::new(Version::One, 1);
    fill(distributions, sketch, starts_at_zero, &mut request);
    let body = request.take();
    assert_eq!((body.events(), request.bytes(), request.events()), (3, 0, 0));
    Request1::decode(&bytes(&body)[..]).unwrap()
}

#[test]
fn version_1_has_sorted_labels_and_samples() {
    let request = version_1(Distributions::Summary(vec![0.5]), INTEGRAL, true);
    let found: Vec<_> = request
        .timeseries
        .iter()
        .map(|series| {
            (labels_of(series), series.samples[0].value, series.samples[0].timestamp - END_MS)
        })
        .collect();
    let row = |name: &str, more: &str, value, time| {
        (format!("Env=prod __name__={name} cluster=x host=web-1{more}"), value, time)
    };
    assert_eq!(
        found,
        [
            row("a_b_total", "", 0.0, -9999),
            row("a_b_total", "", 2.5, 0),
            row("g", "", 2.5, 0),
            row("d_sum", "", 0.0, -9999),
            row("d_count", "", 0.0, -9999),
            row("d", " quantile=0.5", 1.0, 0),
            row("d_sum", "", 9.0, 0),
            row("d_count", "", 6.0, 0),
        ]
    );
}

#[test]
fn a_histogram_has_spans_and_deltas() {
    let request = version_1(Distributions::Native, INTEGRAL, false);
    let histogram = &request.timeseries[2].histograms[0];
    assert_eq!((histogram.count_int, histogram.zero_count_int), (Some(6), Some(1)));
    assert_eq!((histogram.sum, histogram.schema, histogram.timestamp), (9.0, 5, END_MS));
    assert!(histogram.zero_threshold > 0.0);
    let spans =
        |spans: &[Span]| spans.iter().map(|span| (span.offset, span.length)).collect::<Vec<_>>();
    assert_eq!(spans(&histogram.negative_spans), [(0, 1)]);
    assert_eq!(histogram.negative_deltas, [1]);
    // 1 is in bucket 0, 1.01 is in bucket 1, 2 is in bucket 32, and 4 is in bucket 64.
    assert_eq!(spans(&histogram.positive_spans), [(0, 2), (30, 1), (31, 1)]);
    assert_eq!(histogram.positive_deltas, [1, 0, 0, 0]);
}

#[test]
fn a_histogram_of_sampled_values_has_floats() {
    let request = version_1(Distributions::Native, SAMPLED, false);
    let histogram = &request.timeseries[2].histograms[0];
    assert_eq!((histogram.count_float, histogram.zero_count_float), (Some(2.5), Some(0.0)));
    assert_eq!((histogram.count_int, histogram.positive_counts.as_slice()), (None, &[2.5][..]));
}

fn version_2(distributions: Distributions) -> Body {
    let mut request = RequestBuilder::new(Version::Two, 1);
    fill(distributions, INTEGRAL, true, &mut request);
    request.take()
}

#[test]
fn version_2_deduplicates_strings_and_has_types() {
    let request = Request2::decode(&bytes(&version_2(Distributions::Native))[..]).unwrap();
    assert_eq!(request.symbols[0], "");
    let mut symbols = request.symbols.clone();
    symbols.sort();
    symbols.dedup();
    assert_eq!(symbols.len(), request.symbols.len());
    let kinds: Vec<_> =
        request.timeseries.iter().map(|series| series.metadata.as_ref().unwrap().kind).collect();
    assert_eq!(kinds, [1, 1, 2, 3, 3]);
    let created: Vec<_> =
        request.timeseries.iter().map(|series| series.created_timestamp).collect();
    assert_eq!(created, [END_MS - 9999, END_MS - 9999, 0, END_MS - 9999, END_MS - 9999]);
    let labels: Vec<_> = request.timeseries[1]
        .labels_refs
        .iter()
        .map(|index| &request.symbols[*index as usize][..])
        .collect();
    assert_eq!(labels, ["Env", "prod", "__name__", "a_b_total", "cluster", "x", "host", "web-1"]);
    assert_eq!(request.timeseries[1].samples[0].value, 2.5);
    assert_eq!(request.timeseries[4].histograms[0].count_int, Some(6));
}

#[test]
fn version_2_converts_to_version_1() {
    for distributions in [Distributions::Native, Distributions::Summary(vec![0.5, 1.0])] {
        let converted = version_2(distributions.clone()).to_version_1().unwrap();
        let expected = version_1(distributions, INTEGRAL, true);
        assert_eq!(Request1::decode(&bytes(&converted)[..]).unwrap(), expected);
        assert!(converted.to_version_1().is_none() && converted.version == Version::One);
        let [first, second] = converted.split().unwrap();
        assert_eq!((first.events(), second.events()), (1, 2));
        Request1::decode(&bytes(&second)[..]).unwrap();
    }
}

#[test]
fn a_split_keeps_all_series_and_never_divides_an_event() {
    let whole = version_2(Distributions::Summary(vec![0.5]));
    let [first, rest] = whole.split().unwrap();
    let [second, third] = rest.split().unwrap();
    assert!([&first, &second, &third].iter().all(|body| body.split().is_none()));
    let mut halves =
        [first, second, third].map(|body| Request2::decode(&bytes(&body)[..]).unwrap());
    assert_eq!(halves.each_ref().map(|half| half.timeseries.len()), [2, 1, 5]);
    let mut whole = Request2::decode(&bytes(&whole)[..]).unwrap();
    let expected = take_series(&mut whole);
    let series: Vec<_> = halves.iter_mut().flat_map(take_series).collect();
    assert_eq!(series, expected);
}

/// Removes the series from a request and returns them with the strings of their labels.
fn take_series(request: &mut Request2) -> Vec<(Vec<String>, Series2)> {
    let with_labels = |mut series: Series2| {
        let refs = std::mem::take(&mut series.labels_refs);
        (refs.iter().map(|index| request.symbols[*index as usize].clone()).collect(), series)
    };
    std::mem::take(&mut request.timeseries).into_iter().map(with_labels).collect()
}

#[test]
fn a_split_keeps_only_the_symbols_in_use() {
    let whole = version_2(Distributions::Native);
    let [table, _] = whole.parts();
    let [counter, rest] = whole.split().unwrap();
    let [gauge, _] = rest.split().unwrap();
    // An endpoint might reject the whole table but accept the smaller tables.
    assert!([&counter, &gauge].iter().all(|half| half.parts()[0].len() < table.len()));
    let symbols = |body: &Body| Request2::decode(&bytes(body)[..]).unwrap().symbols;
    assert_eq!(
        symbols(&gauge),
        ["", "Env", "prod", "__name__", "g", "cluster", "x", "host", "web-1"]
    );
    assert!(symbols(&counter).contains(&"a_b_total".to_owned()));
}

#[test]
fn a_probe_is_empty() {
    let request = Request2::decode(&bytes(&Body::probe())[..]).unwrap();
    assert_eq!((request.symbols, request.timeseries.len()), (vec![String::new()], 0));
}

#[test]
fn a_builder_is_reusable() {
    let mut request = RequestBuilder::new(Version::Two, 1);
    fill(Distributions::Native, INTEGRAL, true, &mut request);
    let (size, first) = (request.bytes(), bytes(&request.take()));
    assert!(size >= first.len() && size < first.len() + 100, "{size} {}", first.len());
    fill(Distributions::Native, INTEGRAL, true, &mut request);
    assert_eq!(bytes(&request.take()), first);
}
