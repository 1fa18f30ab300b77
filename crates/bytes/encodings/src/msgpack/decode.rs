//! From blocks to metrics. The bytes may be anything: what is allocated is bounded by their number.

use super::read::Reader;
use super::{VERSION, key};
use crate::metric::{Kind, Temporality};
use std::fmt;

/// Why bytes are no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError(pub(super) &'static str);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DecodeError {}

/// Blocks that stand one after the other.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    reader: Reader<'a>,
}

/// The blocks of a body, frame or record. After an error there are no more.
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
    /// How many values it stands for.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Values, rising, each with its weight, which is above 0.
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

/// A metric of a block.
#[derive(Clone, Debug)]
pub struct ReadMetric<'b> {
    /// Its name.
    pub name: &'b str,
    /// What it measures.
    pub kind: Kind,
    /// What time its value is of.
    pub temporality: Temporality,
    /// The value.
    pub value: &'b ReadValue,
    /// End of the period, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Length of the period in seconds; 0 if it is not known.
    pub interval: f64,
    tags: &'b [(&'b str, &'b str)],
}

impl<'b> ReadMetric<'b> {
    /// Keys and values of its tags, in the order in which they were written; an empty value is
    /// none. A key with several values comes several times.
    pub fn tags(&self) -> impl Iterator<Item = (&'b str, &'b str)> + use<'b> {
        self.tags.iter().copied()
    }
}

/// A block that was read, all of which is valid.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// Where its metrics come from, such as `host` and `source`.
    pub meta: Vec<(&'a str, &'a str)>,
    /// Constant fields of every event.
    pub attributes: Vec<(&'a str, &'a str)>,
    /// Tags of all sets, one set after the other.
    tags: Vec<(&'a str, &'a str)>,
    /// By tag set, where its tags end.
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

/// What a block has, before it is looked at: the bytes of each member by its key.
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
            let (name, value) = (reader.text()?, reader.skip()?);
            // What is not known is of a later version, and may be left out.
            if let Some((_, member)) = members.iter_mut().find(|(key, _)| *key == name)
                && member.replace(value).is_some()
            {
                return Err(DecodeError("a member that is there twice"));
            }
        }
        Ok(Members(members))
    }

    fn find(&self, name: &str) -> Option<Reader<'a>> {
        let (_, value) = self.0.iter().find(|(key, _)| *key == name)?;
        value.map(Reader::new)
    }

    fn get(&self, name: &str) -> Result<Reader<'a>, DecodeError> {
        self.find(name).ok_or(DecodeError("a member is missing"))
    }

    fn pairs(&self, name: &str) -> Result<Vec<(&'a str, &'a str)>, DecodeError> {
        let Some(mut reader) = self.find(name) else { return Ok(Vec::new()) };
        (0..reader.map()?).map(|_| Ok((reader.text()?, reader.text()?))).collect()
    }
}

/// The elements of an array.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    (0..reader.array()?).map(|_| element(reader)).collect()
}

/// A number for each of `rows` rows, or one that holds for all.
fn column<'a, T: Clone>(
    mut reader: Reader<'a>,
    rows: usize,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    if !reader.is_array() {
        return Ok(vec![element(&mut reader)?; rows]);
    }
    let column = list(&mut reader, element)?;
    if column.len() == rows { Ok(column) } else { Err(DecodeError("a column of another length")) }
}

/// The same of numbers that are written as differences. Sums wrap in 64 bits.
fn sums(reader: Reader<'_>, rows: usize) -> Result<Vec<i64>, DecodeError> {
    let is_same = !reader.is_array();
    let mut sums = column(reader, rows, Reader::whole)?;
    if !is_same {
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
        if members.get(key::VERSION)?.whole()? != VERSION.into() {
            return Err(DecodeError("a version that is not known"));
        }
        let mut block = Block {
            meta: members.pairs(key::META)?,
            attributes: members.pairs(key::ATTRIBUTES)?,
            tags: Vec::new(),
            tag_ends: Vec::new(),
            names: list(&mut members.get(key::NAMES)?, Reader::text)?,
            rows: Vec::new(),
        };
        block.read_tags(&members)?;
        block.read_rows(&members)?;
        Ok(block)
    }

    fn read_tags(&mut self, members: &Members<'a>) -> Result<(), DecodeError> {
        let keys = list(&mut members.get(key::KEYS)?, Reader::text)?;
        let values = list(&mut members.get(key::VALUES)?, |reader| list(reader, Reader::text))?;
        if values.len() != keys.len() {
            return Err(DecodeError("values of another number of keys"));
        }
        let keysets = list(&mut members.get(key::KEYSETS)?, |reader| {
            list(reader, |reader| reader.index(keys.len()))
        })?;
        let mut reader = members.get(key::TAGSETS)?;
        let mut used = vec![0; keys.len()];
        for _ in 0..reader.array()? {
            let len = reader.array()?;
            let keyset = &keysets[reader.index(keysets.len())? as usize];
            if len != 1 + keyset.len() {
                return Err(DecodeError("a tag set with more or fewer values than keys"));
            }
            for key in keyset {
                let (key, values, used) =
                    (keys[*key as usize], &values[*key as usize], &mut used[*key as usize]);
                // One more than an index, or 0 for the next value that no set before had.
                let index = match reader.index(values.len() + 1)? as usize {
                    0 => {
                        *used += 1;
                        *used - 1
                    }
                    index => index - 1,
                };
                let value = values.get(index).ok_or(DecodeError("an index beyond its list"))?;
                self.tags.push((key, value));
            }
            self.tag_ends.push(self.tags.len());
        }
        Ok(())
    }

    fn read_rows(&mut self, members: &Members<'a>) -> Result<(), DecodeError> {
        // An element per row: without it a few bytes could stand for any number of rows.
        let values = list(&mut members.get(key::VALUE)?, value)?;
        let rows = values.len();
        if members.get(key::ROWS)?.whole()? != rows as i64 {
            return Err(DecodeError("not as many values as rows"));
        }
        let mut names =
            column(members.get(key::NAME)?, rows, |r| r.index(self.names.len()))?.into_iter();
        let mut tagsets = sums(members.get(key::TAGS)?, rows)?.into_iter();
        let mut kinds =
            column(members.get(key::TYPE)?, rows, |reader| reader.index(9))?.into_iter();
        let mut times = sums(members.get(key::TIME)?, rows)?.into_iter();
        let mut intervals = column(members.get(key::INTERVAL)?, rows, interval)?.into_iter();
        let all =
            (&mut names).zip(&mut tagsets).zip(&mut kinds).zip(&mut times).zip(&mut intervals);
        for (value, ((((name, tagset), kind), time_ns), interval)) in values.into_iter().zip(all) {
            if !(0..self.tag_ends.len() as i64).contains(&tagset) {
                return Err(DecodeError("an index beyond its list"));
            }
            if (kind % 3 == 2) != matches!(value, ReadValue::Sketch(_)) {
                return Err(DecodeError("a value that does not go with its type"));
            }
            self.rows.push(Row { name, tagset: tagset as u32, kind, time_ns, interval, value });
        }
        Ok(())
    }

    /// Its metrics, in the order in which they were written.
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
    if seconds >= 0.0 { Ok(seconds) } else { Err(DecodeError("an interval below 0")) }
}

fn value(reader: &mut Reader<'_>) -> Result<ReadValue, DecodeError> {
    if !reader.is_array() {
        return reader.number().map(ReadValue::Number);
    }
    if reader.array()? != 6 {
        return Err(DecodeError("a distribution without its six parts"));
    }
    let [count, sum, min, max] =
        [reader.number()?, reader.number()?, reader.number()?, reader.number()?];
    let values = list(reader, Reader::number)?;
    let weights = match reader.is_array() {
        true => list(reader, Reader::number)?,
        false => vec![reader.number()?; values.len()],
    };
    let is_whole = count >= 0.0
        && min <= max
        && weights.len() == values.len()
        && values.is_sorted_by(|a, b| a < b)
        && weights.iter().all(|weight| *weight > 0.0);
    if !is_whole {
        return Err(DecodeError(
            "values of a distribution that do not rise, or weights or limits that do not fit",
        ));
    }
    let points = values.into_iter().zip(weights).collect();
    Ok(ReadValue::Sketch(Sketch { count, sum, min, max, points }))
}
