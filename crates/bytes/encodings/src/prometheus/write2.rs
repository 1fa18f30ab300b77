//! Remote write 2.0: `io.prometheus.write.v2.Request`, which deduplicates strings with a symbol
//! table.

use super::accumulator::{Collector, Point};
use super::distribution::Histogram;
use super::protobuf::{
    push_bytes, push_int, push_tag, push_varint, take_bytes, take_varint, varint_len,
};
use super::write1::{push_histogram, push_sample, sample_len};
use crate::metric::Kind;
use hashbrown::HashTable;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// An uncompressed request that is being built.
pub struct WriteRequest2 {
    body: Vec<u8>,
    symbols: Symbols,
    refs: Vec<u8>,
    value_buf: Vec<u8>,
}

/// Deduplicated strings and their indexes in the symbol table.
struct Symbols {
    text: Vec<u8>,
    ranges: Vec<Range<u32>>,
    table: HashTable<u32>,
    /// Seed for the hashes in `table`.
    seed: u64,
}

impl Symbols {
    /// Creates a table that contains the empty string, which the protocol requires as the first
    /// symbol.
    fn new(seed: u64) -> Symbols {
        Symbols {
            text: Vec::new(),
            ranges: std::iter::once(0..0).collect(),
            table: HashTable::new(),
            seed,
        }
    }

    fn intern(&mut self, symbol: &[u8]) -> u32 {
        if symbol.is_empty() {
            return 0;
        }
        let Symbols { text, ranges, table, seed } = self;
        let get = |index: u32| {
            let range: &Range<u32> = &ranges[index as usize];
            &text[range.start as usize..range.end as usize]
        };
        let hash_of = |symbol| xxh3_64_with_seed(symbol, *seed);
        let hash = hash_of(symbol);
        if let Some(index) = table.find(hash, |index| get(*index) == symbol) {
            return *index;
        }
        let index = ranges.len() as u32;
        table.insert_unique(hash, index, |index| hash_of(get(*index)));
        ranges.push(text.len() as u32..(text.len() + symbol.len()) as u32);
        text.extend_from_slice(symbol);
        index
    }

    fn push(&self, out: &mut Vec<u8>) {
        let text = |range: &Range<u32>| &self.text[range.start as usize..range.end as usize];
        self.ranges.iter().for_each(|range| push_bytes(4, text(range), out));
    }

    /// Returns the approximate size of the table in bytes. Each string has a tag and a length of
    /// one or two bytes.
    fn bytes(&self) -> usize {
        self.text.len() + 3 * self.ranges.len()
    }
}

impl WriteRequest2 {
    /// Creates a request without series. `seed` seeds the hashes of the symbols and must be secret.
    pub fn new(seed: u64) -> WriteRequest2 {
        let (body, refs, value_buf) = (Vec::new(), Vec::new(), Vec::new());
        WriteRequest2 { body, symbols: Symbols::new(seed), refs, value_buf }
    }

    /// Returns the approximate size of the request so far in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len() + self.symbols.bytes()
    }

    /// Returns the symbol table and the series, which follow the table in the request. Starts the
    /// next request.
    pub fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        let mut table = Vec::with_capacity(self.symbols.bytes());
        self.symbols.push(&mut table);
        self.symbols = Symbols::new(self.symbols.seed);
        let capacity = self.body.len();
        (table, std::mem::replace(&mut self.body, Vec::with_capacity(capacity)))
    }

    /// Returns the length of the series so far in bytes, excluding the symbol table.
    pub fn series_bytes(&self) -> usize {
        self.body.len()
    }

    /// Appends a series whose encoded samples are in `value_buf`.
    fn push_series(&mut self, labels: &[u8], point: &Point, histogram: bool) {
        self.refs.clear();
        for (name, value) in pairs(labels) {
            push_varint(u64::from(self.symbols.intern(name)), &mut self.refs);
            push_varint(u64::from(self.symbols.intern(value)), &mut self.refs);
        }
        let created_len =
            if point.created_ms > 0 { 1 + varint_len(point.created_ms as u64) } else { 0 };
        let field_len = |len: usize| 1 + varint_len(len as u64) + len;
        // The metadata contains only the type, which takes two bytes.
        let len = field_len(self.refs.len()) + self.value_buf.len() + field_len(2) + created_len;
        let out = &mut self.body;
        push_tag(5, super::protobuf::BYTES, out);
        push_varint(len as u64, out);
        push_bytes(1, &self.refs, out);
        out.extend_from_slice(&self.value_buf);
        push_bytes(5, &[1 << 3, metric_type(point.kind, histogram)], out);
        if created_len > 0 {
            push_int(6, point.created_ms, out);
        }
    }
}

/// Parses label names and values that are encoded as in version 1.
fn pairs(labels: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = labels;
    std::iter::from_fn(move || {
        let (_, mut label) = take_bytes(&mut rest)?;
        let (_, name) = take_bytes(&mut label)?;
        Some((name, take_bytes(&mut label).map_or(&b""[..], |(_, value)| value)))
    })
}

/// Returns the number of a type in `Metadata.MetricType`.
fn metric_type(kind: Kind, histogram: bool) -> u8 {
    match kind {
        Kind::Counter => 1,
        Kind::Gauge => 2,
        Kind::Distribution if histogram => 3,
        Kind::Distribution => 5,
    }
}

impl Collector for WriteRequest2 {
    fn number(&mut self, labels: &[u8], point: &Point) {
        self.value_buf.clear();
        debug_assert!(sample_len(point) < 128);
        push_sample(point, &mut self.value_buf);
        self.push_series(labels, point, false);
    }

    fn histogram(&mut self, labels: &[u8], histogram: &Histogram, point: &Point) {
        let mut value = Vec::new();
        push_histogram(histogram, point.time_ms, &mut value);
        self.value_buf.clear();
        push_bytes(3, &value, &mut self.value_buf);
        self.push_series(labels, point, true);
    }
}

/// Parses a symbol table. Returns `None` if the table is invalid.
pub(super) fn symbols(mut table: &[u8]) -> Option<Vec<&[u8]>> {
    let mut symbols = Vec::new();
    while !table.is_empty() {
        symbols.push(take_bytes(&mut table)?.1);
    }
    Some(symbols)
}

/// Re-encodes version 2 series in version 1, which drops types and creation timestamps. Returns
/// `None` if the series are invalid.
pub(super) fn push_version_1(
    mut series: &[u8],
    symbols: &[&[u8]],
    out: &mut Vec<u8>,
) -> Option<()> {
    while !series.is_empty() {
        let (_, one) = take_bytes(&mut series)?;
        push_bytes(1, &series_to_version_1(one, symbols)?, out);
    }
    Some(())
}

fn series_to_version_1(series: &[u8], symbols: &[&[u8]]) -> Option<Vec<u8>> {
    let (mut rest, mut out, mut label) = (series, Vec::new(), Vec::new());
    // The fields after the metadata are integers, which version 1 does not support.
    while let Some((field, value)) = take_bytes(&mut rest) {
        match field {
            1 => {
                let mut refs = value;
                while !refs.is_empty() {
                    label.clear();
                    for part in [1, 2] {
                        push_bytes(
                            part,
                            symbols.get(take_varint(&mut refs)? as usize)?,
                            &mut label,
                        );
                    }
                    push_bytes(1, &label, &mut out);
                }
            }
            2 => push_bytes(2, value, &mut out),
            3 => push_bytes(4, value, &mut out),
            _ => {}
        }
    }
    Some(out)
}

/// Renumbers the symbols of a table so that only used symbols are kept.
pub(super) struct UsedSymbols<'a> {
    symbols: Vec<&'a [u8]>,
    /// The new index of each symbol, or 0 if it is unused. Every table has the empty string at
    /// index 0.
    indexes: Vec<u32>,
    used: u32,
    table: Vec<u8>,
}

impl<'a> UsedSymbols<'a> {
    /// Creates a table in which no symbol is used yet.
    pub fn new(symbols: Vec<&'a [u8]>) -> UsedSymbols<'a> {
        let (indexes, mut table) = (vec![0; symbols.len()], Vec::new());
        push_bytes(4, b"", &mut table);
        UsedSymbols { symbols, indexes, used: 1, table }
    }

    /// Appends series with renumbered symbols. Returns `None` if the series are invalid.
    pub fn push_series(&mut self, mut series: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (mut refs, mut one) = (Vec::new(), Vec::new());
        while !series.is_empty() {
            // The labels are in the first field.
            let (_, mut rest) = take_bytes(&mut series)?;
            let (_, mut before) = take_bytes(&mut rest)?;
            refs.clear();
            while !before.is_empty() {
                push_varint(
                    u64::from(self.new_index(take_varint(&mut before)? as usize)?),
                    &mut refs,
                );
            }
            one.clear();
            push_bytes(1, &refs, &mut one);
            one.extend_from_slice(rest);
            push_bytes(5, &one, out);
        }
        Some(())
    }

    fn new_index(&mut self, before: usize) -> Option<u32> {
        let (symbol, index) = (self.symbols.get(before)?, self.indexes.get_mut(before)?);
        if *index == 0 && before > 0 {
            *index = self.used;
            self.used += 1;
            push_bytes(4, symbol, &mut self.table);
        }
        Some(*index)
    }

    /// Returns the table, which contains only used symbols.
    pub fn into_table(self) -> Vec<u8> {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_changes_the_table_layout_but_not_the_output() {
        let texts: Vec<String> = (0..200).map(|number| format!("text {}", number % 100)).collect();
        let filled = |seed| {
            let mut symbols = Symbols::new(seed);
            let indexes: Vec<u32> =
                texts.iter().map(|text| symbols.intern(text.as_bytes())).collect();
            let mut encoded = Vec::new();
            symbols.push(&mut encoded);
            (symbols.table.iter().copied().collect::<Vec<_>>(), indexes, encoded)
        };
        let (one, other) = (filled(1), filled(2));
        assert_ne!(one.0, other.0);
        assert_eq!((one.1, one.2), (other.1, other.2));
    }
}
