//! Decodes blocks into metrics. The input is untrusted, so its length bounds all allocations.

use super::read::Reader;
use super::{VERSION, key};
use crate::metric::{Kind, Temporality};

/// Reason why a block is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub(super) &'static str);

/// An iterator over consecutive blocks.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    reader: Reader<'a>,
}

/// Returns the blocks in a body, frame or record. The iterator ends after an error.
pub fn blocks(body: &[u8]) -> Blocks<'_> {
    Blocks { reader: Reader::new(body) }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let block = self.reader.skip().and_then(Block::read);
        if block.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(block)
    }
}

/// The values of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// Number of samples: 0 or more, possibly fractional.
    pub count: f64,
    /// Sum of the samples.
    pub sum: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// Values in ascending order, each with its weight, which is always above 0.
    pub points: Vec<(f64, f64)>,
}

/// The value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadValue {
    /// A finite number.
    Number(f64),
    /// The values of a distribution.
    Sketch(Sketch),
}

/// A metric in a block.
#[derive(Clone, Debug)]
pub struct ReadMetric<'b> {
    /// Name of the metric.
    pub name: &'b str,
    /// The type.
    pub kind: Kind,
    /// The period that the value covers.
    pub temporality: Temporality,
    /// A number or a distribution.
    pub value: &'b ReadValue,
    /// End of the period, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Length of the period in seconds, or 0 if it is unknown.
    pub interval: f64,
    tags: &'b [(&'b str, &'b str)],
}

impl<'b> ReadMetric<'b> {
    /// Returns the keys and values of the tags in source order. The value is empty for a tag
    /// without a value. A key with several values appears once per value.
    pub fn tags(&self) -> impl Iterator<Item = (&'b str, &'b str)> + use<'b> {
        self.tags.iter().copied()
    }
}

/// A decoded and validated block.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// The origin of the metrics, such as `host` and `source`, as pairs of key and value.
    pub meta: Vec<(&'a str, &'a str)>,
    /// Constant fields of every event, as pairs of key and value.
    pub attributes: Vec<(&'a str, &'a str)>,
    /// The tags of all tag sets, concatenated.
    tags: Vec<(&'a str, &'a str)>,
    /// For each tag set, its end offset in `tags`.
    tag_ends: Vec<usize>,
    names: Vec<&'a str>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    name: u32,
    tagset: u32,
    kind: u32,
    time_ns: i64,
    interval: f64,
    value: ReadValue,
}

/// The encoded members of a block, by key.
struct Members<'a>([(&'static str, Option<&'a [u8]>); 15]);

impl<'a> Members<'a> {
    fn read(block: &'a [u8]) -> Result<Members<'a>, DecodeError> {
        let keys = [
            key::VERSION,
            key::ROWS,
            key::META,
            key::ATTRIBUTES,
            key::NAMES,
            key::KEYS,
            key::VALUES,
            key::KEYSETS,
            key::TAGSETS,
            key::NAME,
            key::TAGS,
            key::TYPE,
            key::TIME,
            key::INTERVAL,
            key::VALUE,
        ];
        let (mut members, mut reader) = (keys.map(|key| (key, None)), Reader::new(block));
        for _ in 0..reader.map()? {
            let (name, value) = (reader.string()?, reader.skip()?);
            // Ignore unknown members, which a later version of the format might add.
            if let Some((_, member)) = members.iter_mut().find(|(key, _)| *key == name)
                && member.replace(value).is_some()
            {
                return Err(DecodeError("duplicate member"));
            }
        }
        Ok(Members(members))
    }

    fn find(&self, name: &str) -> Option<Reader<'a>> {
        let (_, value) = self.0.iter().find(|(key, _)| *key == name)?;
        value.map(Reader::new)
    }

    fn get(&self, name: &str) -> Result<Reader<'a>, DecodeError> {
        self.find(name).ok_or(DecodeError("missing member"))
    }

    fn pairs(&self, name: &str) -> Result<Vec<(&'a str, &'a str)>, DecodeError> {
        let Some(mut reader) = self.find(name) else { return Ok(Vec::new()) };
        (0..reader.map()?).map(|_| Ok((reader.string()?, reader.string()?))).collect()
    }
}

/// Reads an array and its elements.
fn elements<'a, T>(
    reader: &mut Reader<'a>,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    (0..reader.array()?).map(|_| element(reader)).collect()
}

/// Reads a column: an array of `rows` elements, or one element that applies to every row.
fn column<'a, T: Clone>(
    mut reader: Reader<'a>,
    rows: usize,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    if !reader.is_array() {
        return Ok(vec![element(&mut reader)?; rows]);
    }
    let column = elements(&mut reader, element)?;
    if column.len() == rows { Ok(column) } else { Err(DecodeError("wrong column length")) }
}

/// Reads a column whose array is delta-encoded. The sums wrap at 64 bits.
fn delta_column(reader: Reader<'_>, rows: usize) -> Result<Vec<i64>, DecodeError> {
    let is_constant = !reader.is_array();
    let mut sums = column(reader, rows, Reader::integer)?;
    if !is_constant {
        let mut sum = 0i64;
        for number in &mut sums {
            sum = sum.wrapping_add(*number);
            *number = sum;
        }
    }
    Ok(sums)
}

impl<'a> Block<'a> {
    fn read(bytes: &'a [u8]) -> Result<Block<'a>, DecodeError> {
        let members = Members::read(bytes)?;
        if members.get(key::VERSION)?.integer()? != VERSION.into() {
            return Err(DecodeError("unsupported version"));
        }
        let mut block = Block {
            meta: members.pairs(key::META)?,
            attributes: members.pairs(key::ATTRIBUTES)?,
            tags: Vec::new(),
            tag_ends: Vec::new(),
            names: elements(&mut members.get(key::NAMES)?, Reader::string)?,
            rows: Vec::new(),
        };
        block.read_tags(&members)?;
        block.read_rows(&members)?;
        Ok(block)
    }

    fn read_tags(&mut self, members: &Members<'a>) -> Result<(), DecodeError> {
        let keys = elements(&mut members.get(key::KEYS)?, Reader::string)?;
        let values =
            elements(&mut members.get(key::VALUES)?, |reader| elements(reader, Reader::string))?;
        if values.len() != keys.len() {
            return Err(DecodeError("keys and values differ in length"));
        }
        let keysets = elements(&mut members.get(key::KEYSETS)?, |reader| {
            elements(reader, |reader| reader.index(keys.len()))
        })?;
        let mut reader = members.get(key::TAGSETS)?;
        let mut used = vec![0; keys.len()];
        for _ in 0..reader.array()? {
            let len = reader.array()?;
            let keyset = &keysets[reader.index(keysets.len())? as usize];
            if len != 1 + keyset.len() {
                return Err(DecodeError("tag set and key set differ in length"));
            }
            for key in keyset {
                let (key, values, used) =
                    (keys[*key as usize], &values[*key as usize], &mut used[*key as usize]);
                // An index plus 1, or 0 for the key's next value in order of first use.
                let index = match reader.index(values.len() + 1)? as usize {
                    0 => {
                        *used += 1;
                        *used - 1
                    }
                    index => index - 1,
                };
                let value = values.get(index).ok_or(DecodeError("index out of range"))?;
                self.tags.push((key, value));
            }
            self.tag_ends.push(self.tags.len());
        }
        Ok(())
    }

    fn read_rows(&mut self, members: &Members<'a>) -> Result<(), DecodeError> {
        // `value` has one element per row, so a few bytes cannot claim an arbitrary number of rows.
        let values = elements(&mut members.get(key::VALUE)?, value)?;
        let rows = values.len();
        if members.get(key::ROWS)?.integer()? != rows as i64 {
            return Err(DecodeError("rows and values differ in length"));
        }
        let mut names =
            column(members.get(key::NAME)?, rows, |r| r.index(self.names.len()))?.into_iter();
        let mut tagsets = delta_column(members.get(key::TAGS)?, rows)?.into_iter();
        let mut kinds =
            column(members.get(key::TYPE)?, rows, |reader| reader.index(9))?.into_iter();
        let mut times = delta_column(members.get(key::TIME)?, rows)?.into_iter();
        let mut intervals = column(members.get(key::INTERVAL)?, rows, interval)?.into_iter();
        let all =
            (&mut names).zip(&mut tagsets).zip(&mut kinds).zip(&mut times).zip(&mut intervals);
        for (value, ((((name, tagset), kind), time_ns), interval)) in values.into_iter().zip(all) {
            if !(0..self.tag_ends.len() as i64).contains(&tagset) {
                return Err(DecodeError("index out of range"));
            }
            if (kind % 3 == 2) != matches!(value, ReadValue::Sketch(_)) {
                return Err(DecodeError("value does not match its type"));
            }
            self.rows.push(Row { name, tagset: tagset as u32, kind, time_ns, interval, value });
        }
        Ok(())
    }

    /// Returns the metrics in the order in which they were encoded.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = ReadMetric<'_>> {
        self.rows.iter().map(|row| {
            let end = self.tag_ends[row.tagset as usize];
            let begin =
                row.tagset.checked_sub(1).map_or(0, |before| self.tag_ends[before as usize]);
            ReadMetric {
                name: self.names[row.name as usize],
                kind: [Kind::Counter, Kind::Gauge, Kind::Distribution][row.kind as usize % 3],
                temporality: [Temporality::None, Temporality::Delta, Temporality::Cumulative]
                    [row.kind as usize / 3],
                value: &row.value,
                time_ns: row.time_ns,
                interval: row.interval,
                tags: &self.tags[begin..end],
            }
        })
    }
}

fn interval(reader: &mut Reader<'_>) -> Result<f64, DecodeError> {
    let seconds = reader.number()?;
    if seconds >= 0.0 { Ok(seconds) } else { Err(DecodeError("negative interval")) }
}

fn value(reader: &mut Reader<'_>) -> Result<ReadValue, DecodeError> {
    if !reader.is_array() {
        return reader.number().map(ReadValue::Number);
    }
    if reader.array()? != 6 {
        return Err(DecodeError("distribution does not have six parts"));
    }
    let [count, sum, min, max] =
        [reader.number()?, reader.number()?, reader.number()?, reader.number()?];
    let values = elements(reader, Reader::number)?;
    let weights = match reader.is_array() {
        true => elements(reader, Reader::number)?,
        false => vec![reader.number()?; values.len()],
    };
    let is_valid = count >= 0.0
        && min <= max
        && weights.len() == values.len()
        && values.is_sorted_by(|a, b| a < b)
        && weights.iter().all(|weight| *weight > 0.0);
    if !is_valid {
        return Err(DecodeError(
            "distribution with values out of order, or invalid weights or limits",
        ));
    }
    let points = values.into_iter().zip(weights).collect();
    Ok(ReadValue::Sketch(Sketch { count, sum, min, max, points }))
}
