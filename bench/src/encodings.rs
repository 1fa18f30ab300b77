//! Measures the encoders of metrics, compared with JSON of the same events, and the compressed size
//! of their output.

use crate::measure::{Samples, progress};
use crate::report::{Report, Table};
use crate::scan::ns_per_item;
use fastrand::Rng;
use millstream_encodings::metric::{Kind, Metric, Temporality, Value};
use millstream_encodings::msgpack::{BlockEncoder, Shared};
use std::hint::black_box;
use std::io;

/// Number of series in one period.
const SERIES: usize = 30_000;
/// Series per batch: as many as fit into one of the agent's blocks of 256 KiB, with tags as text.
const BATCH: usize = 1500;
const TAGS: usize = 5;
const NAMES: u64 = 50;
const REPETITIONS: usize = 9;
const ZSTD_LEVEL: i32 = 3;
const META: &[(&str, &str)] = &[("host", "web-0001"), ("source", "dogs")];

/// Encodes all series into one buffer per batch.
type Encode<'a> = Box<dyn FnMut(&mut Vec<Vec<u8>>) + 'a>;

/// Measures and reports the encoders.
pub fn run(report: &mut Report) -> io::Result<()> {
    let mut table = Table::new(
        "encodings",
        "Metrics to bytes, per series",
        &["load", "encoder", "ns", "bytes", "bytes after zstd"],
    );
    for (load, values) in
        [("tag values of 20 each", 20), ("of 1,000", 1000), ("every one different", u64::MAX)]
    {
        progress(&format!("encodings: {load}"));
        let series = series(values);
        let metrics: Vec<Metric<'_>> = series.iter().map(Series::metric).collect();
        // Add encoders of additional formats to this list.
        let encoders: [(&str, Encode<'_>); 2] =
            [("json", Box::new(|out| json(&series, out))), ("msgpack", msgpack(&metrics))];
        for (name, encode) in encoders {
            table.row([vec![load.to_owned(), name.to_owned()], measure(encode)?].concat());
        }
    }
    table.note(format!(
        "{SERIES} series of {NAMES} names with {TAGS} tags, keys of 6 bytes and values of 12, in batches of {BATCH}; half \
         of the values are counts, half have a fraction. JSON is put together of the same texts as codec json does, with \
         meta of host and source. Compressed batch by batch, zstd {ZSTD_LEVEL}."
    ));
    report.add(table)
}

/// Returns the ns and bytes per series, before and after compression.
fn measure(mut encode: Encode<'_>) -> io::Result<Vec<String>> {
    let (mut samples, mut out) = (Samples::default(), Vec::new());
    for _ in 0..REPETITIONS {
        samples.push(ns_per_item(SERIES, || {
            encode(&mut out);
            black_box(&out);
        }));
    }
    let bytes: usize = out.iter().map(Vec::len).sum();
    let packed: Result<Vec<Vec<u8>>, io::Error> =
        out.iter().map(|batch| zstd::bulk::compress(batch, ZSTD_LEVEL)).collect();
    let packed: usize = packed?.iter().map(Vec::len).sum();
    let per_series = |bytes: usize| format!("{:.1}", bytes as f64 / SERIES as f64);
    Ok(vec![format!("{:.0}", samples.median()), per_series(bytes), per_series(packed)])
}

/// One series and its value, with the fields of its event.
struct Series {
    name: String,
    tags: String,
    number: f64,
    /// The number as JSON.
    text: String,
    kind: Kind,
    temporality: Temporality,
}

impl Series {
    fn metric(&self) -> Metric<'_> {
        Metric {
            name: self.name.as_bytes(),
            tags: self.tags.as_bytes(),
            kind: self.kind,
            temporality: self.temporality,
            value: Value::Number(self.number),
            time_ns: 1_795_292_980_000_000_000,
            interval: 10.0,
        }
    }
}

/// Creates series in whose tags each key has up to `values` distinct values.
fn series(values: u64) -> Vec<Series> {
    let mut random = Rng::with_seed(5);
    let mut one = |_| {
        let name = format!("app.requests.of-{:04}", random.u64(..NAMES));
        let value = |tag: usize, random: &mut Rng| {
            format!("\"key-{tag:02}\":\"value-{:06x}\"", random.u64(..values.min(1 << 24)))
        };
        let tags: Vec<String> = (0..TAGS).map(|tag| value(tag, &mut random)).collect();
        let is_count = random.u64(..2) == 0;
        let whole = random.u64(..100_000) as f64;
        let number = if is_count { whole } else { whole / 1000.0 };
        let (kind, temporality) = match is_count {
            true => (Kind::Counter, Temporality::Delta),
            false => (Kind::Gauge, Temporality::None),
        };
        let tags = format!("{{{}}}", tags.join(","));
        Series { name, tags, number, text: format!("{number}"), kind, temporality }
    };
    (0..SERIES).map(&mut one).collect()
}

/// Returns one empty buffer per batch.
fn buffers(out: &mut Vec<Vec<u8>>) -> impl Iterator<Item = &mut Vec<u8>> {
    out.resize(SERIES / BATCH, Vec::new());
    out.iter_mut().map(cleared)
}

fn cleared(buffer: &mut Vec<u8>) -> &mut Vec<u8> {
    buffer.clear();
    buffer
}

fn json(series: &[Series], out: &mut Vec<Vec<u8>>) {
    for (batch, out) in series.chunks(BATCH).zip(buffers(out)) {
        for series in batch {
            let metric = series.metric();
            out.extend_from_slice(b"{\"timestamp\":\"2026-11-21T20:29:40.000Z\",\"name\":\"");
            millstream_scan::escape_json(metric.name, out);
            out.extend_from_slice(b"\",\"tags\":");
            out.extend_from_slice(metric.tags);
            out.extend_from_slice(match metric.kind {
                Kind::Counter => b",\"type\":\"counter\",\"value\":",
                _ => b",\"type\":\"gauge\",\"value\":",
            });
            out.extend_from_slice(series.text.as_bytes());
            if metric.temporality == Temporality::Delta {
                out.extend_from_slice(b",\"temporality\":\"delta\"");
            }
            out.extend_from_slice(
                b",\"interval\":10,\"meta\":{\"host\":\"web-0001\",\"source\":\"dogs\"}}\n",
            );
        }
    }
}

fn msgpack<'a>(metrics: &'a [Metric<'a>]) -> Encode<'a> {
    let mut encoder = BlockEncoder::new(7);
    Box::new(move |out| {
        for (batch, out) in metrics.chunks(BATCH).zip(buffers(out)) {
            let added = batch.iter().filter(|metric| encoder.push(metric).is_ok()).count();
            assert_eq!(added, batch.len());
            encoder.finish(&Shared { meta: META, attributes: &[] }, out);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_encodings::msgpack::blocks;

    #[test]
    fn every_metric_is_in_a_block_and_in_a_line() {
        let series = series(20);
        let metrics: Vec<Metric<'_>> = series.iter().map(Series::metric).collect();
        let (mut lines, mut packed) = (Vec::new(), Vec::new());
        json(&series, &mut lines);
        msgpack(&metrics)(&mut packed);
        let lines = lines.concat();
        assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), SERIES);
        let packed = packed.concat();
        let read = blocks(&packed).flat_map(|block| {
            block.unwrap().metrics().map(|metric| metric.name.to_owned()).collect::<Vec<_>>()
        });
        assert!(read.eq(series.iter().map(|series| series.name.clone())));
    }
}
