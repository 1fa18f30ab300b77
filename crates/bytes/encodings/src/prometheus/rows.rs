//! What the threads that encode make of metrics: rows that the accumulator only has to look up and
//! add.

use super::distribution::Distributions;
use crate::metric::{Kind, Metric, Temporality, Value};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// One metric, without its texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Hash of name, tags, kind and temporality. Two series with the same are taken for one: of a
    /// million series that happens with a chance of 10⁻²⁷, and the seed is secret.
    pub key: [u64; 2],
    /// What a number says; unused with a distribution.
    pub value: f64,
    /// End of the period, in milliseconds since 1970.
    pub time_ms: i64,
    /// Length of the period in milliseconds; 0 if it is not known.
    pub interval_ms: u32,
    /// Where name and tags begin in the text, one behind the other.
    text_at: u32,
    name_len: u32,
    tags_len: u32,
    /// Where the numbers of a distribution lie.
    numbers_at: u32,
    numbers_len: u32,
    /// What it measures.
    pub kind: Kind,
    /// Whether the value is of the period alone, and to be added.
    pub is_delta: bool,
}

/// The rows of one batch. Their texts lie in a buffer of their own.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    numbers: Vec<f64>,
    host: Arc<str>,
}

impl Rows {
    /// The rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Name and tags of a row, out of the text of these rows.
    pub fn texts<'a>(&self, row: &Row, text: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let (name, rest) = text[row.text_at as usize..].split_at(row.name_len as usize);
        (name, &rest[..row.tags_len as usize])
    }

    /// What the values of a distribution come to, as [`Distributions`] says.
    pub(super) fn numbers(&self, row: &Row) -> &[f64] {
        &self.numbers[row.numbers_at as usize..][..row.numbers_len as usize]
    }

    /// Name of the host that they come from.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Bytes that they take.
    pub fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.numbers.capacity() * size_of::<f64>()
    }
}

/// Collects the rows of a batch.
pub struct RowsBuilder<'a> {
    distributions: &'a Distributions,
    seed: u64,
    rows: Rows,
    text: Vec<u8>,
}

impl<'a> RowsBuilder<'a> {
    /// No rows yet. `text` takes the texts; `seed` is that of every other builder whose rows meet
    /// the same accumulator.
    pub fn new(
        distributions: &'a Distributions,
        seed: u64,
        host: &str,
        text: Vec<u8>,
    ) -> RowsBuilder<'a> {
        // Series of different hosts are different series.
        let seed = xxh3_128_with_seed(host.as_bytes(), seed) as u64;
        RowsBuilder {
            distributions,
            seed,
            rows: Rows { host: host.into(), ..Rows::default() },
            text,
        }
    }

    /// Makes room for as many metrics.
    pub fn reserve(&mut self, rows: usize) {
        self.rows.rows.reserve_exact(rows);
    }

    /// Adds a metric.
    pub fn push(&mut self, metric: &Metric<'_>) {
        let text_at = self.text.len();
        self.text.extend_from_slice(metric.name);
        self.text.extend_from_slice(metric.tags);
        let numbers_at = self.rows.numbers.len();
        let value = match &metric.value {
            Value::Number(value) => *value,
            Value::Sketch(sketch) => {
                self.distributions.push(sketch, &mut self.rows.numbers);
                0.0
            }
        };
        let (kind, is_delta) = (kind(metric), metric.temporality == Temporality::Delta);
        let key = xxh3_128_with_seed(&self.text[text_at..], self.seed);
        // Whether it is added, the kind, and where the name ends: it may end in what tags begin
        // with.
        let more = (metric.name.len() as u64) << 3 | (kind as u64) << 1 | u64::from(is_delta);
        self.rows.rows.push(Row {
            key: [key as u64 ^ more.wrapping_mul(0x9E37_79B9_7F4A_7C15), (key >> 64) as u64],
            value,
            time_ms: metric.time_ns.div_euclid(1_000_000),
            interval_ms: (metric.interval * 1e3).round() as u32,
            text_at: text_at as u32,
            name_len: metric.name.len() as u32,
            tags_len: metric.tags.len() as u32,
            numbers_at: numbers_at as u32,
            numbers_len: (self.rows.numbers.len() - numbers_at) as u32,
            kind,
            is_delta,
        });
    }

    /// The rows, and their text.
    pub fn finish(self) -> (Rows, Vec<u8>) {
        (self.rows, self.text)
    }
}

/// A sketch is a distribution whatever its event calls it, and a number is none.
fn kind(metric: &Metric<'_>) -> Kind {
    match (&metric.value, metric.kind) {
        (Value::Sketch(_), _) => Kind::Distribution,
        (_, Kind::Distribution) => Kind::Gauge,
        (_, kind) => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric<'a>(name: &'a str, tags: &'a str, kind: Kind) -> Metric<'a> {
        Metric {
            name: name.as_bytes(),
            tags: tags.as_bytes(),
            kind,
            temporality: Temporality::Delta,
            value: Value::Number(2.0),
            time_ns: 1_999_999_999,
            interval: 10.0,
        }
    }

    fn keys(host: &str, metrics: &[Metric<'_>]) -> Vec<[u64; 2]> {
        let mut rows = RowsBuilder::new(&Distributions::Native, 1, host, Vec::new());
        metrics.iter().for_each(|metric| rows.push(metric));
        rows.finish().0.rows().iter().map(|row| row.key).collect()
    }

    #[test]
    fn a_row_says_what_its_metric_said() {
        let mut rows = RowsBuilder::new(&Distributions::Native, 1, "web-1", b"before".to_vec());
        rows.push(&metric("a", "{}", Kind::Counter));
        rows.push(&metric("bc", r#"{"x":"y"}"#, Kind::Counter));
        let (rows, text) = rows.finish();
        let row = &rows.rows()[1];
        assert_eq!(rows.texts(row, &text), (&b"bc"[..], &br#"{"x":"y"}"#[..]));
        assert_eq!(
            (row.value, row.time_ms, row.interval_ms, row.is_delta),
            (2.0, 1999, 10_000, true)
        );
        assert_eq!(rows.host(), "web-1");
    }

    #[test]
    fn series_differ_by_host_name_tags_and_kind() {
        let metrics = [
            metric("a", "{}", Kind::Counter),
            metric("a", "{}", Kind::Gauge),
            metric("b", "{}", Kind::Counter),
            metric("a{", "}", Kind::Counter),
        ];
        let (here, there) = (keys("x", &metrics), keys("y", &metrics));
        assert_eq!(here, keys("x", &metrics));
        let all: std::collections::BTreeSet<_> = here.iter().chain(&there).collect();
        assert_eq!(all.len(), 8);
    }
}
