//! The dictionary of a key column, which maps texts to dense ids.

use crate::chunks::{List, Texts};
use crate::hashing::{TextKey, index_hash, is_long, key};
use crate::index::{Index, Keys, NONE};

/// Id of a row without the field.
pub const ABSENT: u32 = 0;

/// Texts with their ids, which begin at 1.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    index: Index<Keys>,
    texts: Texts,
    /// The position of each text, in the order of ids.
    positions: List<u32>,
}

/// A text, its key and the hash of the key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    /// Key of the text; [`NO_KEY`] for a row without the field.
    key: TextKey,
    hash: u32,
}

/// A key that texts never have.
const NO_KEY: TextKey = [0; 2];

impl Probe {
    /// Creates the probe of a text.
    #[inline(always)]
    pub fn new(text: &[u8]) -> Probe {
        let key = key(text);
        Probe { key, hash: index_hash(key) }
    }
}

impl Dictionary {
    /// Returns the number of texts, which is the largest id.
    #[inline]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns the text of an id, or `None` if the id is unknown.
    #[inline]
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.get(*self.positions.get((id as usize).checked_sub(1)?)?)
    }

    /// Returns the id of a text.
    #[inline]
    pub fn find(&self, probe: Probe, text: &[u8]) -> Option<u32> {
        let is_it = |id| !is_long(probe.key) || self.text(id) == Some(text);
        self.index.find(probe.hash, probe.key, is_it)
    }

    /// Adds a new text; returns `None` if there is no space for its id or its bytes.
    pub fn add(&mut self, probe: Probe, text: &[u8]) -> Option<u32> {
        let id = u32::try_from(self.len() + 1).ok().filter(|id| *id < NONE)?;
        let position = self.texts.push(text)?;
        self.positions.push(position);
        self.index.insert(probe.key, id);
        Some(id)
    }

    /// Prepares the look-up of a text, and prefetches the memory that the look-up reads.
    #[inline(always)]
    pub fn probe(&self, text: Option<&[u8]>) -> Probe {
        let probe = text.map_or(Probe::default(), Probe::new);
        self.index.prefetch(probe.hash);
        probe
    }

    /// Returns the id of a text, or [`ABSENT`] without a text. Returns [`NONE`] if the text is
    /// unknown, or if it is long and not in its first place.
    #[inline(always)]
    pub fn first<'t>(&self, probe: Probe, text: impl FnOnce() -> Option<&'t [u8]>) -> u32 {
        let id = self.index.first(probe.hash, probe.key);
        if is_long(probe.key) {
            return if id != 0 && self.text(id) == text() { id } else { NONE };
        }
        if id == 0 && probe.key != NO_KEY { NONE } else { id }
    }

    /// Returns the bytes that the dictionary has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.texts.memory_bytes() + self.positions.memory_bytes()
    }
}
