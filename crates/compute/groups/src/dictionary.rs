//! The dictionary of a key column, which maps strings to dense ids.

use crate::chunks::{List, Texts};
use crate::hashing::{TextKey, index_hash, is_long, key};
use crate::index::{Index, Keys, NONE};

/// The id for a row that lacks the field.
pub const ABSENT: u32 = 0;

/// Strings and their ids, which start at 1.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    index: Index<Keys>,
    texts: Texts,
    /// The position of each string, in id order.
    positions: List<u32>,
}

/// The key of a string and the key's hash, for looking up the string.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    /// Key of the string, or [`NO_KEY`] for a row that lacks the field.
    key: TextKey,
    hash: u32,
}

/// A key that no string has.
const NO_KEY: TextKey = [0; 2];

impl Probe {
    /// Creates a probe for a string.
    #[inline(always)]
    pub fn new(text: &[u8]) -> Probe {
        let key = key(text);
        Probe { key, hash: index_hash(key) }
    }
}

impl Dictionary {
    /// Returns the number of strings, which is also the largest id.
    #[inline]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns the string with an id, or `None` if the id is unknown.
    #[inline]
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.get(*self.positions.get((id as usize).checked_sub(1)?)?)
    }

    /// Returns the id of a string, or `None` if the string is unknown.
    #[inline]
    pub fn find(&self, probe: Probe, text: &[u8]) -> Option<u32> {
        let is_it = |id| !is_long(probe.key) || self.text(id) == Some(text);
        self.index.find(probe.hash, probe.key, is_it)
    }

    /// Adds a new string and returns its id. Returns `None` if there is no space for the id or the
    /// bytes.
    pub fn add(&mut self, probe: Probe, text: &[u8]) -> Option<u32> {
        let id = u32::try_from(self.len() + 1).ok().filter(|id| *id < NONE)?;
        let position = self.texts.push(text)?;
        self.positions.push(position);
        self.index.insert(probe.key, id);
        Some(id)
    }

    /// Prepares the lookup of a string and prefetches the memory that the lookup reads.
    #[inline(always)]
    pub fn probe(&self, text: Option<&[u8]>) -> Probe {
        let probe = text.map_or(Probe::default(), Probe::new);
        self.index.prefetch(probe.hash);
        probe
    }

    /// Returns the id of a string, or [`ABSENT`] if there is no string. Returns [`NONE`] if the
    /// string is unknown, or if it is long and not at the first matching entry.
    #[inline(always)]
    pub fn first<'t>(&self, probe: Probe, text: impl FnOnce() -> Option<&'t [u8]>) -> u32 {
        let id = self.index.first(probe.hash, probe.key);
        if is_long(probe.key) {
            return if id != 0 && self.text(id) == text() { id } else { NONE };
        }
        if id == 0 && probe.key != NO_KEY { NONE } else { id }
    }

    /// Returns the number of bytes that the dictionary has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.texts.memory_bytes() + self.positions.memory_bytes()
    }
}
