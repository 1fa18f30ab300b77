//! The constant pools of a chunk, as far as they were read.

use super::ReadError;
use super::input::Input;
use super::layout::{Layout, skip_all};
use super::types::Types;
use std::collections::HashMap;

/// Maximum total size, in bytes, of pool entries to keep per chunk. By default, the JVM ends a
/// chunk at 12 MB, including its pools.
pub const POOL_BYTES_MAX: usize = 32 << 20;

/// Maximum number of pool entries to keep per chunk.
pub const POOL_ENTRIES_MAX: usize = 1 << 19;

/// Reads the distance in bytes from a checkpoint event back to the previous one in the same chunk.
/// Returns `None` if the event is the chunk's first one.
///
/// # Errors
/// Returns an error if the bytes do not start with a checkpoint event.
pub fn checkpoint_delta(event: &[u8]) -> Result<Option<u64>, ReadError> {
    let mut input = Input(event);
    begin(&mut input).map(|delta| Some(delta).filter(|delta| *delta != 0))
}

/// Reads a checkpoint event up to its distance to the previous one. Returns the distance without
/// its sign.
fn begin(input: &mut Input<'_>) -> Result<u64, ReadError> {
    input.size()?;
    if input.varint()? != super::CHECKPOINT {
        return Err(ReadError::Invalid("position of constant pools"));
    }
    input.varint()?;
    input.varint()?;
    Ok(input.varint()?.cast_signed().unsigned_abs())
}

/// The constant pools of a chunk.
#[derive(Debug, Default)]
pub struct Pools {
    /// The bytes of all entries, concatenated.
    bytes: Vec<u8>,
    pools: HashMap<u64, Pool>,
    entries: usize,
}

#[derive(Debug, Default)]
struct Pool {
    /// Keys and the positions of their values.
    entries: Vec<(u64, u32)>,
    /// Whether `entries` has been sorted by key.
    is_sorted: bool,
}

impl Pools {
    /// Adds the entries of a checkpoint event whose types are `wanted`.
    ///
    /// # Errors
    /// Returns an error if the event is not a checkpoint, contains values of an unknown type, or
    /// exceeds a limit.
    pub fn add(
        &mut self,
        types: &Types,
        event: &[u8],
        wanted: impl Fn(u64) -> bool,
    ) -> Result<(), ReadError> {
        let mut input = Input(event);
        begin(&mut input)?;
        // Skips the checkpoint type.
        input.byte()?;
        for _ in 0..input.size()? {
            let type_id = input.varint()?;
            let layout =
                types.layout(type_id).ok_or(ReadError::Invalid("type of a constant pool"))?;
            match wanted(type_id) {
                true => self.add_pool(&mut input, type_id, layout)?,
                false => skip_pool(&mut input, layout)?,
            }
        }
        self.sort();
        Ok(())
    }

    fn add_pool(
        &mut self,
        input: &mut Input<'_>,
        type_id: u64,
        layout: &Layout,
    ) -> Result<(), ReadError> {
        let pool = self.pools.entry(type_id).or_default();
        pool.is_sorted = false;
        for _ in 0..input.size()? {
            let key = input.varint()?;
            let value = input.0;
            skip_all(input, layout)?;
            let value = &value[..value.len() - input.0.len()];
            self.entries += 1;
            let bytes = self.bytes.len() + value.len();
            if bytes > POOL_BYTES_MAX || self.entries > POOL_ENTRIES_MAX {
                return Err(ReadError::TooLarge("constant pools of a chunk"));
            }
            pool.entries.push((key, self.bytes.len() as u32));
            self.bytes.extend_from_slice(value);
        }
        Ok(())
    }

    /// Sorts the pools that have new entries. If two entries have the same key, the newer one is
    /// kept.
    fn sort(&mut self) {
        for pool in self.pools.values_mut().filter(|pool| !pool.is_sorted) {
            pool.entries.sort_unstable_by_key(|(key, at)| (*key, std::cmp::Reverse(*at)));
            pool.entries.dedup_by_key(|(key, _)| *key);
            pool.is_sorted = true;
        }
    }

    /// Returns the bytes starting at a value; `None` if the pool has no such key.
    pub(super) fn get(&self, type_id: u64, key: u64) -> Option<&[u8]> {
        let entries = &self.pools.get(&type_id)?.entries;
        let index = entries.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.bytes.get(entries[index].1 as usize..)
    }

    /// Returns the memory that the pools take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.entries * size_of::<(u64, u32)>()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.pools.values().map(|pool| pool.entries.len()).sum()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn skip_pool(input: &mut Input<'_>, layout: &Layout) -> Result<(), ReadError> {
    for _ in 0..input.size()? {
        input.varint()?;
        skip_all(input, layout)?;
    }
    Ok(())
}
