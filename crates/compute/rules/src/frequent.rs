//! Frequent keys. Their groups are found without looking up text.
//!
//! Thousands of tasks group by the same few keys, and a batch contains only a few rows for each
//! task. Each frequent key has a number, and each task's table maps these numbers to its groups.
//! The text of a key is therefore looked up once per batch instead of once per task.

use crate::plan::Plan;
use millstream_groups::{Groups, Layout, NONE};
use std::sync::Arc;

/// Maximum number of numbered keys per key field list. Each table takes four bytes per key.
const KEYS_MAX: usize = if cfg!(test) { 3 } else { 1024 };

/// Maximum length of the text in a frequent key, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 64;

/// Maximum number of batches with too many other keys. After that, the keys are renumbered, because
/// the frequent keys have changed.
const POOR_BATCHES_MAX: u32 = if cfg!(test) { 0 } else { 256 };

/// The numbers of frequent keys, for each list of key fields that many tasks share.
#[derive(Debug, Default)]
pub struct FrequentKeys {
    lists: Vec<Option<KeyNumbers>>,
    /// Incremented when the keys of a list are renumbered.
    generation: u32,
}

/// The numbering of the frequent keys for one key field list.
#[derive(Debug)]
pub(crate) struct KeyNumbers {
    /// The keys, stored as groups without accumulators.
    pub keys: Groups,
    generation: u32,
    poor_batches: u32,
}

/// Maps the numbers of frequent keys to the groups in a table.
#[derive(Debug, Default)]
pub struct KeyGroups {
    generation: u32,
    groups: Vec<u32>,
}

impl FrequentKeys {
    /// Prepares numbers for the keys in a plan.
    pub fn new(plan: &Plan) -> FrequentKeys {
        let layout = Arc::new(Layout::new(&[]));
        let numbers = |fields: usize| KeyNumbers {
            keys: Groups::new(layout.clone(), fields, KEYS_MAX),
            generation: 1,
            poor_batches: 0,
        };
        let lists =
            plan.keys.iter().map(|key| key.has_many_tasks.then(|| numbers(key.fields.len())));
        FrequentKeys { lists: lists.collect(), generation: 1 }
    }

    /// Returns the numbered keys for a list of key fields, and their generation. Restarts the
    /// numbering first if too many batches had too many other keys. Returns `None` if the list is
    /// not shared by many tasks.
    pub(crate) fn of(&mut self, list: usize) -> Option<(&mut Groups, u32)> {
        let of_list = self.lists.get_mut(list)?.as_mut()?;
        if of_list.poor_batches > POOR_BATCHES_MAX {
            self.generation += 1;
            of_list.keys.clear();
            (of_list.generation, of_list.poor_batches) = (self.generation, 0);
        }
        Some((&mut of_list.keys, of_list.generation))
    }

    /// Records that too many keys in a batch were not in the list of frequent keys.
    pub(crate) fn note_poor(&mut self, list: usize) {
        if let Some(Some(list)) = self.lists.get_mut(list) {
            list.poor_batches += 1;
        }
    }

    /// Returns the number of bytes allocated for keys.
    pub fn memory_bytes(&self) -> usize {
        self.lists.iter().flatten().map(|list| list.keys.memory_bytes()).sum()
    }
}

impl KeyGroups {
    /// Returns the groups by key number. Clears them first if they are from another generation.
    #[inline(always)]
    pub(crate) fn of(&mut self, generation: u32) -> &mut Vec<u32> {
        if self.generation != generation {
            self.generation = generation;
            self.groups.clear();
        }
        &mut self.groups
    }

    /// Returns the number of bytes allocated for the list.
    pub fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<u32>()
    }
}

/// Sets the group of a numbered key.
#[cold]
pub(crate) fn set(groups: &mut Vec<u32>, number: u32, group: u32) {
    let number = number as usize;
    if groups.len() <= number {
        groups.resize(number + 1, NONE);
    }
    groups[number] = group;
}
