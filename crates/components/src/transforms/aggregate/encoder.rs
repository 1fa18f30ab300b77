//! The worker's part: adds the events of a batch up, so that the lane gets one entry per group.

use super::definition::Definition;
use super::totals::Totals;
use crate::util::template::Field;
use millstream_model::{
    Batch, Column, ComponentError, EncodeCx, Encoder, Number as FieldNumber, Payload, Segment,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use xxhash_rust::xxh3::xxh3_64;

/// Hashes the bytes of a key.
#[derive(Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= xxh3_64(bytes);
    }

    // The length of a slice, which its hash covers.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map by the bytes of a key.
pub type KeyMap<K, V> = HashMap<K, V, BuildHasherDefault<KeyHasher>>;

/// Marks a field that an event does not have.
const ABSENT: u32 = u32::MAX;

/// A field that is read from every event.
struct Input {
    field: Field,
    name: String,
}

impl Input {
    fn new(name: &str) -> Input {
        Input { field: Field::named(name), name: name.to_owned() }
    }

    /// Returns the field's column in a batch, if its values are in one.
    fn column<'b>(&self, batch: &'b Batch) -> Option<&'b Column> {
        let is_named = matches!(self.field, Field::Named(_));
        batch.fields.get(&self.name).filter(|_| is_named)
    }

    /// Returns the value of a row, given the column. Rows without a value there may have it
    /// elsewhere.
    #[inline]
    fn value<'b>(
        &self,
        column: Option<&'b Column>,
        (batch, segment, row): (&'b Batch, &'b Segment, usize),
    ) -> Option<Cow<'b, [u8]>> {
        let value = column.and_then(|column| batch.value(column, row).plain());
        value.or_else(|| self.field.of(batch, segment, row))
    }
}

/// Adds up the events of batches.
pub struct GroupEncoder {
    group_by: Vec<Input>,
    fields: Vec<Input>,
    /// Index in `totals`, by key.
    groups: KeyMap<Box<[u8]>, usize>,
    totals: Vec<Totals>,
    key: Vec<u8>,
    last_key: Vec<u8>,
}

/// Fields of events that cannot be used.
#[derive(Default)]
struct Faults {
    /// There, but no numbers.
    invalid: u64,
    missing: u64,
}

/// The columns of a batch that are read, in the order of the inputs.
struct InputColumns<'b> {
    group_by: Vec<Option<&'b Column>>,
    fields: Vec<Option<&'b Column>>,
}

impl GroupEncoder {
    /// Creates an encoder for a definition.
    pub fn new(definition: &Definition) -> GroupEncoder {
        GroupEncoder {
            group_by: definition.group_by.iter().map(|name| Input::new(name)).collect(),
            fields: definition.fields().into_iter().map(Input::new).collect(),
            groups: KeyMap::default(),
            totals: Vec::new(),
            key: Vec::new(),
            last_key: Vec::new(),
        }
    }

    fn columns<'b>(&self, batch: &'b Batch) -> InputColumns<'b> {
        let of = |inputs: &[Input]| inputs.iter().map(|input| input.column(batch)).collect();
        InputColumns { group_by: of(&self.group_by), fields: of(&self.fields) }
    }

    /// Adds an event, and counts the fields that are missing or no numbers.
    fn add(
        &mut self,
        at: (&Batch, &Segment, usize),
        columns: &InputColumns<'_>,
        group: &mut usize,
        faults: &mut Faults,
    ) {
        self.key.clear();
        for (input, column) in self.group_by.iter().zip(&columns.group_by) {
            let value = input.value(*column, at);
            faults.missing += u64::from(value.is_none());
            push_value(value.as_deref(), &mut self.key);
        }
        if self.totals.is_empty() || self.key != self.last_key {
            *group = self.group();
            self.last_key.clone_from(&self.key);
        }
        let totals = &mut self.totals[*group];
        totals.events += 1;
        let inputs = self.fields.iter().zip(&columns.fields);
        for ((input, column), number) in inputs.zip(&mut totals.numbers) {
            let Some(text) = input.value(*column, at) else {
                faults.missing += 1;
                continue;
            };
            match FieldNumber::parse(&text).map(FieldNumber::as_f64).filter(|n| n.is_finite()) {
                Some(value) => number.add(value),
                None => faults.invalid += 1,
            }
        }
    }

    /// Returns the index of the group of `key`.
    fn group(&mut self) -> usize {
        if let Some(group) = self.groups.get(&self.key[..]) {
            return *group;
        }
        let group = self.totals.len();
        self.groups.insert(self.key.as_slice().into(), group);
        self.totals.push(Totals::new(self.fields.len()));
        group
    }
}

/// Appends a value to a key.
fn push_value(value: Option<&[u8]>, key: &mut Vec<u8>) {
    let length = value.map_or(ABSENT, |value| value.len() as u32);
    key.extend_from_slice(&length.to_le_bytes());
    key.extend_from_slice(value.unwrap_or_default());
}

/// Returns the values of a key, in order.
pub fn values(mut key: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(super::totals::array(&mut key)?);
        if length == ABSENT {
            return Some(None);
        }
        let (value, rest) = key.split_at_checked(length as usize)?;
        key = rest;
        Some(Some(value))
    })
}

impl Encoder for GroupEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let (columns, mut group, mut faults) = (self.columns(batch), 0, Faults::default());
        for segment in batch.segments.iter() {
            let runs = batch.runs(segment.first_row, segment.first_row + segment.rows);
            for row in runs.flat_map(|(begin, end)| begin..end) {
                self.add((batch, segment, row), &columns, &mut group, &mut faults);
            }
        }
        cx.counters.noted("not_a_number", faults.invalid);
        cx.counters.noted("missing_field", faults.missing);
        let mut buffer = cx.pool.buffer();
        for (key, group) in self.groups.drain() {
            self.totals[group].write(&key, &mut buffer);
        }
        self.totals.clear();
        payload.push(cx.freeze(buffer));
        Ok(())
    }
}
