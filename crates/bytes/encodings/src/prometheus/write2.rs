//! Remote write 2.0: `io.prometheus.write.v2.Request`, in which each text stands once.

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

/// A request under construction, not compressed.
pub struct WriteRequest2 {
    body: Vec<u8>,
    symbols: Symbols,
    refs: Vec<u8>,
    room: Vec<u8>,
}

/// Texts, each with its place in the table.
struct Symbols {
    text: Vec<u8>,
    places: Vec<Range<u32>>,
    found: HashTable<u32>,
    /// Of the hashes in `found`.
    seed: u64,
}

impl Symbols {
    /// The table begins with the empty text, by the protocol.
    fn new(seed: u64) -> Symbols {
        Symbols {
            text: Vec::new(),
            places: std::iter::once(0..0).collect(),
            found: HashTable::new(),
            seed,
        }
    }

    fn of(&mut self, symbol: &[u8]) -> u32 {
        if symbol.is_empty() {
            return 0;
        }
        let Symbols { text, places, found, seed } = self;
        let of = |index: u32| {
            let place: &Range<u32> = &places[index as usize];
            &text[place.start as usize..place.end as usize]
        };
        let hash_of = |symbol| xxh3_64_with_seed(symbol, *seed);
        let hash = hash_of(symbol);
        if let Some(index) = found.find(hash, |index| of(*index) == symbol) {
            return *index;
        }
        let index = places.len() as u32;
        found.insert_unique(hash, index, |index| hash_of(of(*index)));
        places.push(text.len() as u32..(text.len() + symbol.len()) as u32);
        text.extend_from_slice(symbol);
        index
    }

    fn push(&self, out: &mut Vec<u8>) {
        let text = |place: &Range<u32>| &self.text[place.start as usize..place.end as usize];
        self.places.iter().for_each(|place| push_bytes(4, text(place), out));
    }

    /// Bytes of the table: a tag and a length, of one or two bytes, with each text.
    fn bytes(&self) -> usize {
        self.text.len() + 3 * self.places.len()
    }
}

impl WriteRequest2 {
    /// No series yet. `seed` is that of the hashes of texts, a secret.
    pub fn new(seed: u64) -> WriteRequest2 {
        let (body, refs, room) = (Vec::new(), Vec::new(), Vec::new());
        WriteRequest2 { body, symbols: Symbols::new(seed), refs, room }
    }

    /// About as many bytes as it has so far.
    pub fn bytes(&self) -> usize {
        self.body.len() + self.symbols.bytes()
    }

    /// The table of texts, and the series, which follow it in the request; the next one begins.
    pub fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        let mut table = Vec::with_capacity(self.symbols.bytes());
        self.symbols.push(&mut table);
        self.symbols = Symbols::new(self.symbols.seed);
        let capacity = self.body.len();
        (table, std::mem::replace(&mut self.body, Vec::with_capacity(capacity)))
    }

    /// Bytes of the series so far, without the table.
    pub fn series_bytes(&self) -> usize {
        self.body.len()
    }

    /// Appends a series whose value is in `room`, behind its tag and its length.
    fn push_series(&mut self, labels: &[u8], point: &Point, histogram: bool) {
        self.refs.clear();
        for (name, value) in pairs(labels) {
            push_varint(u64::from(self.symbols.of(name)), &mut self.refs);
            push_varint(u64::from(self.symbols.of(value)), &mut self.refs);
        }
        let created_len =
            if point.created_ms > 0 { 1 + varint_len(point.created_ms as u64) } else { 0 };
        let field_len = |len: usize| 1 + varint_len(len as u64) + len;
        // The metadata are a type: two bytes.
        let len = field_len(self.refs.len()) + self.room.len() + field_len(2) + created_len;
        let out = &mut self.body;
        push_tag(5, super::protobuf::BYTES, out);
        push_varint(len as u64, out);
        push_bytes(1, &self.refs, out);
        out.extend_from_slice(&self.room);
        push_bytes(5, &[1 << 3, metric_type(point.kind, histogram)], out);
        if created_len > 0 {
            push_int(6, point.created_ms, out);
        }
    }
}

/// Names and values of labels in the form of version 1.
fn pairs(labels: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = labels;
    std::iter::from_fn(move || {
        let (_, mut label) = take_bytes(&mut rest)?;
        let (_, name) = take_bytes(&mut label)?;
        Some((name, take_bytes(&mut label).map_or(&b""[..], |(_, value)| value)))
    })
}

/// `Metadata.MetricType`.
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
        self.room.clear();
        debug_assert!(sample_len(point) < 128);
        push_sample(point, &mut self.room);
        self.push_series(labels, point, false);
    }

    fn histogram(&mut self, labels: &[u8], histogram: &Histogram, point: &Point) {
        let mut value = Vec::new();
        push_histogram(histogram, point.time_ms, &mut value);
        self.room.clear();
        push_bytes(3, &value, &mut self.room);
        self.push_series(labels, point, true);
    }
}

/// The texts of a table, by their place. `None` if it is none.
pub(super) fn symbols(mut table: &[u8]) -> Option<Vec<&[u8]>> {
    let mut symbols = Vec::new();
    while !table.is_empty() {
        symbols.push(take_bytes(&mut table)?.1);
    }
    Some(symbols)
}

/// Appends series of version 2 as version 1 has them, without types and creation times. `None` if
/// they are none.
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
    // What follows the metadata are integers: nothing that version 1 has.
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

/// Numbers the texts of a table anew, so that only those that are used stay.
pub(super) struct UsedTexts<'a> {
    texts: Vec<&'a [u8]>,
    /// The new place of each; 0 while it is not used. The empty text is at 0 in every table.
    places: Vec<u32>,
    used: u32,
    table: Vec<u8>,
}

impl<'a> UsedTexts<'a> {
    /// None of these is used yet.
    pub fn new(texts: Vec<&'a [u8]>) -> UsedTexts<'a> {
        let (places, mut table) = (vec![0; texts.len()], Vec::new());
        push_bytes(4, b"", &mut table);
        UsedTexts { texts, places, used: 1, table }
    }

    /// Appends series with the new numbers. `None` if they are none.
    pub fn push_series(&mut self, mut series: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (mut refs, mut one) = (Vec::new(), Vec::new());
        while !series.is_empty() {
            // The labels are its first field.
            let (_, mut rest) = take_bytes(&mut series)?;
            let (_, mut before) = take_bytes(&mut rest)?;
            refs.clear();
            while !before.is_empty() {
                push_varint(u64::from(self.place(take_varint(&mut before)? as usize)?), &mut refs);
            }
            one.clear();
            push_bytes(1, &refs, &mut one);
            one.extend_from_slice(rest);
            push_bytes(5, &one, out);
        }
        Some(())
    }

    fn place(&mut self, before: usize) -> Option<u32> {
        let (text, place) = (self.texts.get(before)?, self.places.get_mut(before)?);
        if *place == 0 && before > 0 {
            *place = self.used;
            self.used += 1;
            push_bytes(4, text, &mut self.table);
        }
        Some(*place)
    }

    /// The table of those that are used.
    pub fn into_table(self) -> Vec<u8> {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_changes_where_texts_are_found_and_nothing_that_is_sent() {
        let texts: Vec<String> = (0..200).map(|number| format!("text {}", number % 100)).collect();
        let filled = |seed| {
            let mut symbols = Symbols::new(seed);
            let places: Vec<u32> = texts.iter().map(|text| symbols.of(text.as_bytes())).collect();
            let mut table = Vec::new();
            symbols.push(&mut table);
            (symbols.found.iter().copied().collect::<Vec<_>>(), places, table)
        };
        let (one, other) = (filled(1), filled(2));
        assert_ne!(one.0, other.0);
        assert_eq!((one.1, one.2), (other.1, other.2));
    }
}
