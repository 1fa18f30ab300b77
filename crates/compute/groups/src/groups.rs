//! The table of groups.

mod batches;
mod snapshot;

use crate::accumulators::Layout;
use crate::chunks::List;
use crate::dictionary::{ABSENT, Dictionary, Probe};
use crate::hashing::hash_ids;
use crate::index::{Hashes, Index, NONE};
use crate::limits::KEYS_MAX;
use crate::rows::Rows;
use crate::side::Side;
use snapshot::Written;
use std::sync::Arc;

/// A table of groups: the distinct combinations of key fields, each with the words of a [`Layout`].
///
/// Groups are numbered in order of first occurrence and are never removed. Each window has a
/// separate table, which is dropped as a whole.
#[derive(Clone, Debug)]
pub struct Groups {
    layout: Arc<Layout>,
    dictionaries: Vec<Dictionary>,
    /// Maps hashes of key ids to groups. Empty if there are fewer than two key columns.
    index: Index<Hashes>,
    rows: Rows,
    /// If there is one key column, the group for events that lack the field, otherwise [`NONE`].
    absent: u32,
    sides: List<Side>,
    /// Number of bytes that the sides have allocated.
    side_bytes: usize,
    groups_max: usize,
    written: Written,
}

impl Groups {
    /// Creates an empty table with `keys` key columns, at most [`KEYS_MAX`]. Additional columns are
    /// ignored. A table that has `groups_max` groups adds neither groups nor strings.
    pub fn new(layout: Arc<Layout>, keys: usize, groups_max: usize) -> Groups {
        let keys = keys.min(KEYS_MAX);
        Groups {
            rows: Rows::new(layout.clone(), if keys > 1 { keys } else { 0 }),
            layout,
            dictionaries: vec![Dictionary::default(); keys],
            index: Index::default(),
            absent: NONE,
            sides: List::default(),
            side_bytes: 0,
            groups_max: groups_max.min(NONE as usize),
            written: Written::new(keys),
        }
    }

    /// Returns the layout of a group's words.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Returns the number of key columns.
    pub fn keys(&self) -> usize {
        self.dictionaries.len()
    }

    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the table has no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the table has the maximum number of groups, so that no group can be added.
    pub fn is_full(&self) -> bool {
        self.len() >= self.groups_max
    }

    /// Removes all groups and frees the memory.
    pub fn clear(&mut self) {
        *self = Groups::new(self.layout.clone(), self.keys(), self.groups_max);
    }

    /// Returns the id of a string in a key column, or `None` if the string is unknown.
    #[inline]
    pub fn find(&self, column: usize, text: &[u8]) -> Option<u32> {
        self.dictionaries.get(column)?.find(Probe::new(text), text)
    }

    /// Finds or adds a string in a key column, and returns its id. Returns `None` if the string is
    /// new and the table or the dictionary is full, or if the column does not exist. If there is
    /// only one key column, each string becomes a group.
    pub fn intern(&mut self, column: usize, text: &[u8]) -> Option<u32> {
        self.intern_probe(column, Probe::new(text), text)
    }

    fn intern_probe(&mut self, column: usize, probe: Probe, text: &[u8]) -> Option<u32> {
        let dictionary = self.dictionaries.get(column)?;
        if let Some(id) = dictionary.find(probe, text) {
            return Some(id);
        }
        // Without a limit on strings, the strings of rejected groups would accumulate.
        if self.is_full() || dictionary.len() >= self.groups_max {
            return None;
        }
        self.add_text(column, probe, text)
    }

    /// Adds a string that is new in the column, and returns its id. Returns `None` if there is no
    /// space, or if the column does not exist.
    fn add_text(&mut self, column: usize, probe: Probe, text: &[u8]) -> Option<u32> {
        let id = self.dictionaries.get_mut(column)?.add(probe, text)?;
        if self.keys() == 1 {
            self.rows.push(&[], Vec::new);
        }
        Some(id)
    }

    /// Returns the group with these key ids, one per column, or `None` if it does not exist.
    #[inline]
    pub fn find_group(&self, ids: &[u32]) -> Option<u32> {
        match ids {
            _ if ids.len() != self.keys() => None,
            [] => (!self.is_empty()).then_some(0),
            [id] => self.group_of(*id),
            _ => self.index.find(hash_ids(ids), |row| self.rows.has_ids(row as usize, ids)),
        }
    }

    /// Returns the group for an id, in a table with one key column. Returns `None` if the id has no
    /// group.
    #[inline(always)]
    fn group_of(&self, id: u32) -> Option<u32> {
        if id == ABSENT {
            return Some(self.absent).filter(|group| *group != NONE);
        }
        // Strings that occurred after the group without the field have group numbers that are
        // higher by one.
        let group = (id - 1) + u32::from(id > self.absent);
        ((group as usize) < self.len() && id != NONE).then_some(group)
    }

    /// Finds or adds the group with these key ids, one per column. Returns `None` if the group is
    /// new and the table is full or an id is unknown.
    pub fn add(&mut self, ids: &[u32]) -> Option<u32> {
        if let Some(group) = self.find_group(ids) {
            return Some(group);
        }
        if self.is_full() { None } else { self.add_group(ids) }
    }

    /// Adds a new group. Returns `None` if the ids are invalid or there are too many groups.
    fn add_group(&mut self, ids: &[u32]) -> Option<u32> {
        let is_known = |(id, dictionary): (&u32, &Dictionary)| *id as usize <= dictionary.len();
        if ids.len() != self.keys() || !ids.iter().zip(&self.dictionaries).all(is_known) {
            return None;
        }
        let group = u32::try_from(self.len()).ok().filter(|group| *group < NONE)?;
        match ids {
            [] => {
                self.rows.push(&[], Vec::new);
            }
            [id] => {
                self.absent = (*id == ABSENT).then_some(group)?;
                self.rows.push(&[], Vec::new);
            }
            _ => {
                let dictionaries = &self.dictionaries;
                let ids_max =
                    || dictionaries.iter().map(|dictionary| dictionary.len() as u32).collect();
                self.rows.push(ids, ids_max);
                self.index.insert(hash_ids(ids), group);
            }
        }
        Some(group)
    }

    /// Returns the key id of a group in a column, or `None` if the group or column does not exist.
    #[inline]
    pub fn id(&self, group: u32, column: usize) -> Option<u32> {
        if group as usize >= self.len() || column >= self.keys() {
            return None;
        }
        match self.keys() {
            1 if group == self.absent => Some(ABSENT),
            1 => Some(group + u32::from(group < self.absent)),
            _ => self.rows.id(group as usize, column),
        }
    }

    /// Returns the key string of a group in a column, or `None` if the group's events lack the
    /// field.
    #[inline]
    pub fn key(&self, group: u32, column: usize) -> Option<&[u8]> {
        self.text(column, self.id(group, column)?)
    }

    /// Returns the string with an id in a column, or `None` if the id is unknown.
    #[inline]
    pub fn text(&self, column: usize, id: u32) -> Option<&[u8]> {
        self.dictionaries.get(column)?.text(id)
    }

    /// Returns the words of a group. Empty if the group does not exist.
    #[inline]
    pub fn words(&self, group: u32) -> &[u64] {
        self.rows.words(group as usize)
    }

    /// Returns the words of a group as mutable, and marks the group as changed. The caller must not
    /// change references to sides.
    #[inline]
    pub fn words_mut(&mut self, group: u32) -> &mut [u64] {
        self.rows.words_mut(group as usize)
    }

    /// Merges words in the layout of the table into a group. References to sides are ignored.
    #[inline]
    pub fn merge(&mut self, group: u32, words: &[u64]) {
        self.rows.merge(group as usize, words);
    }

    /// Returns the side of a group's accumulator, given the accumulator's index in the layout.
    /// Returns `None` if the accumulator has no values or does not use a side.
    pub fn side(&self, group: u32, accumulator: usize) -> Option<&Side> {
        if !self.layout.accumulators().get(accumulator)?.is_side() {
            return None;
        }
        let reference = *self.words(group).get(self.layout.offsets()[accumulator])?;
        self.sides.get((reference as usize).checked_sub(1)?)
    }

    /// Calls `change` with the side of a group's accumulator, which is created if necessary.
    /// Returns `None` if the group does not exist or the accumulator does not use a side.
    pub fn change_side<T>(
        &mut self,
        group: u32,
        accumulator: usize,
        change: impl FnOnce(&mut Side) -> T,
    ) -> Option<T> {
        let fresh = Side::new(*self.layout.accumulators().get(accumulator)?)?;
        let offset = *self.layout.offsets().get(accumulator)?;
        let reference = self.rows.words_mut(group as usize).get_mut(offset)?;
        if *reference == 0 {
            self.side_bytes += fresh.memory_bytes();
            self.sides.push(fresh);
            *reference = self.sides.len() as u64;
        }
        let side = self.sides.get_mut((*reference as usize).checked_sub(1)?)?;
        let before = side.memory_bytes();
        let result = change(side);
        self.side_bytes = self.side_bytes + side.memory_bytes() - before;
        Some(result)
    }

    /// Merges a side into the side of a group's accumulator.
    pub fn merge_side(&mut self, group: u32, accumulator: usize, side: &Side) {
        self.change_side(group, accumulator, |into| into.merge(side));
    }

    /// Returns the number of bytes that the table has allocated, excluding the layout.
    pub fn memory_bytes(&self) -> usize {
        let dictionaries: usize = self.dictionaries.iter().map(Dictionary::memory_bytes).sum();
        dictionaries
            + self.dictionaries.capacity() * size_of::<Dictionary>()
            + self.index.memory_bytes()
            + self.rows.memory_bytes()
            + self.sides.memory_bytes()
            + self.side_bytes
            + self.written.memory_bytes()
    }
}
