//! Rows, which encoder threads build from metrics so that the accumulator only has to look them up
//! and add them.

use super::distribution::Distributions;
use crate::metric::{Kind, Metric, Temporality, Value};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// One metric, excluding its strings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Hash of name, tags, kind and temporality, which identifies the series. The seed is secret.
    /// Among a million series, two collide with a probability of 10⁻²⁷.
    pub key: [u64; 2],
    /// The value if the metric is a number. Unused for distributions.
    pub value: f64,
    /// End of the period, in milliseconds since 1970.
    pub time_ms: i64,
    /// Length of the period in milliseconds, or 0 if it is unknown.
    pub interval_ms: u32,
    /// Offset of the name in the text. The tags follow the name.
    pub(super) text_at: u32,
    pub(super) name_len: u32,
    pub(super) tags_len: u32,
    /// Range of the distribution's numbers in `Rows`.
    pub(super) numbers_at: u32,
    pub(super) numbers_len: u32,
    /// The type.
    pub kind: Kind,
    /// Whether the value is a delta, which must be added to a sum.
    pub is_delta: bool,
}

/// A row with its batch and its strings.
#[derive(Clone, Copy, Debug)]
pub struct RowPlace<'r> {
    /// The rows of the batch.
    pub rows: &'r Rows,
    /// The row, which can be a copy of one of `rows`.
    pub row: &'r Row,
    /// The buffer that contains the strings of `row`.
    pub text: &'r [u8],
}

/// The rows of one batch. Their strings are in a separate text buffer.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) numbers: Vec<f64>,
    pub(super) host: Arc<str>,
}

impl Rows {
    /// Returns the rows in source order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the name and tags of a row. `text` is the text buffer of the batch.
    pub fn strings<'a>(&self, row: &Row, text: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let (name, rest) = text[row.text_at as usize..].split_at(row.name_len as usize);
        (name, &rest[..row.tags_len as usize])
    }

    /// Returns the numbers that [`Distributions::push`] computed for a distribution.
    pub(super) fn numbers(&self, row: &Row) -> &[f64] {
        &self.numbers[row.numbers_at as usize..][..row.numbers_len as usize]
    }

    /// Returns the name of the host from which the metrics come.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the number of allocated bytes.
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
    /// Creates a builder that appends strings to `text`. All builders for one accumulator must use
    /// the same `seed`.
    pub fn new(
        distributions: &'a Distributions,
        seed: u64,
        host: &str,
        text: Vec<u8>,
    ) -> RowsBuilder<'a> {
        RowsBuilder {
            distributions,
            seed: seed_of_host(host, seed),
            rows: Rows { host: host.into(), ..Rows::default() },
            text,
        }
    }

    /// Reserves capacity for `rows` additional metrics.
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
        let (strings, name_len) = (&self.text[text_at..], metric.name.len() as u32);
        self.rows.rows.push(Row {
            key: key(strings, name_len, kind, is_delta, self.seed),
            value,
            time_ms: metric.time_ns.div_euclid(1_000_000),
            interval_ms: (metric.interval * 1e3).round() as u32,
            text_at: text_at as u32,
            name_len,
            tags_len: metric.tags.len() as u32,
            numbers_at: numbers_at as u32,
            numbers_len: (self.rows.numbers.len() - numbers_at) as u32,
            kind,
            is_delta,
        });
    }

    /// Returns the rows and their text buffer.
    pub fn finish(self) -> (Rows, Vec<u8>) {
        (self.rows, self.text)
    }
}

/// Returns the seed for the keys of a host, so that series of different hosts have different keys.
pub(super) fn seed_of_host(host: &str, seed: u64) -> u64 {
    xxh3_128_with_seed(host.as_bytes(), seed) as u64
}

/// Returns the key of a series. `strings` is the concatenation of its name and tags.
pub(super) fn key(
    strings: &[u8],
    name_len: u32,
    kind: Kind,
    is_delta: bool,
    seed: u64,
) -> [u64; 2] {
    let key = xxh3_128_with_seed(strings, seed);
    // Combines the temporality, the kind, and the name's length, which marks the start of the tags.
    let identity = u64::from(name_len) << 3 | (kind as u64) << 1 | u64::from(is_delta);
    [key as u64 ^ identity.wrapping_mul(0x9E37_79B9_7F4A_7C15), (key >> 64) as u64]
}

/// Returns the effective kind. A sketch is always a distribution, regardless of its event's type,
/// and a number never is.
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
    fn a_row_has_the_values_of_its_metric() {
        let mut rows = RowsBuilder::new(&Distributions::Native, 1, "web-1", b"before".to_vec());
        rows.push(&metric("a", "{}", Kind::Counter));
        rows.push(&metric("bc", r#"{"x":"y"}"#, Kind::Counter));
        let (rows, text) = rows.finish();
        let row = &rows.rows()[1];
        assert_eq!(rows.strings(row, &text), (&b"bc"[..], &br#"{"x":"y"}"#[..]));
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
