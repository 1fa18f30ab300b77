//! The worker's part: adds the events of a batch up, so that the lane gets one entry per group.

use super::definition::Definition;
use super::totals::Totals;
use crate::util::template::Field;
use millstream_model::{
    Batch, ComponentError, EncodeCx, Encoder, Number as FieldNumber, Payload, Segment,
};
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

/// Adds up the events of batches.
pub struct GroupEncoder {
    group_by: Vec<Field>,
    fields: Vec<Field>,
    /// Index in `totals`, by key.
    groups: KeyMap<Box<[u8]>, usize>,
    totals: Vec<Totals>,
    key: Vec<u8>,
    last_key: Vec<u8>,
}

impl GroupEncoder {
    /// Creates an encoder for a definition.
    pub fn new(definition: &Definition) -> GroupEncoder {
        GroupEncoder {
            group_by: definition.group_by.iter().map(|name| Field::named(name)).collect(),
            fields: definition.fields().into_iter().map(Field::named).collect(),
            groups: KeyMap::default(),
            totals: Vec::new(),
            key: Vec::new(),
            last_key: Vec::new(),
        }
    }

    /// Adds an event; returns how many of its fields are there but no numbers.
    fn add(&mut self, batch: &Batch, segment: &Segment, row: usize, group: &mut usize) -> u64 {
        self.key.clear();
        for field in &self.group_by {
            push_value(field.of(batch, segment, row).as_deref(), &mut self.key);
        }
        if self.totals.is_empty() || self.key != self.last_key {
            *group = self.group();
            self.last_key.clone_from(&self.key);
        }
        let totals = &mut self.totals[*group];
        totals.events += 1;
        let mut invalid = 0;
        for (field, number) in self.fields.iter().zip(&mut totals.numbers) {
            let Some(text) = field.of(batch, segment, row) else { continue };
            match FieldNumber::parse(&text).map(FieldNumber::as_f64).filter(|n| n.is_finite()) {
                Some(value) => number.add(value),
                None => invalid += 1,
            }
        }
        invalid
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
        let (mut group, mut invalid) = (0, 0);
        for segment in batch.segments.iter() {
            let runs = batch.runs(segment.first_row, segment.first_row + segment.rows);
            for row in runs.flat_map(|(begin, end)| begin..end) {
                invalid += self.add(batch, segment, row, &mut group);
            }
        }
        cx.counters.noted("not_a_number", invalid);
        let mut buffer = cx.pool.buffer();
        for (key, group) in self.groups.drain() {
            self.totals[group].write(&key, &mut buffer);
        }
        self.totals.clear();
        payload.push(cx.freeze(buffer));
        Ok(())
    }
}
