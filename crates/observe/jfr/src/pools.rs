//! Constant pools, which contain the values to which the events of a chunk refer.

use crate::keys::key;
use crate::metadata::TypeId;
use crate::{text, varint};

/// Maximum size of an entry in bytes, excluding its text: key, encoding, length, number.
pub const ENTRY_BYTES_MAX: usize = 24;

/// The pool entries to which a chunk's events refer.
#[derive(Debug, Default)]
pub struct Used {
    ids: Vec<u32>,
    /// For each entry number, whether the entry is used.
    marks: Vec<bool>,
    /// Maximum size of the pool in bytes.
    bytes_max: usize,
}

impl Used {
    /// Returns whether the pool contains an entry.
    #[inline]
    pub fn has(&self, id: u32) -> bool {
        self.marks.get(id as usize) == Some(&true)
    }

    /// Adds an entry that the pool does not contain yet. `bytes_max` is the maximum size of the
    /// entry.
    #[cold]
    pub fn add(&mut self, id: u32, bytes_max: usize) {
        let index = id as usize;
        self.marks.resize(self.marks.len().max(index + 1), false);
        self.marks[index] = true;
        self.ids.push(id);
        self.bytes_max += bytes_max;
    }

    /// Returns whether the pool contains no entries.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the maximum size of the pool in bytes.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Removes all entries, for the next chunk.
    pub fn clear(&mut self) {
        self.bytes_max = 0;
        for id in self.ids.drain(..) {
            self.marks[id as usize] = false;
        }
    }
}

/// Appends the number of pools that are not empty.
pub fn push_count<'p>(out: &mut Vec<u8>, pools: impl IntoIterator<Item = &'p Used>) {
    let count = pools.into_iter().filter(|used| !used.is_empty()).count();
    varint::push(out, count as u64);
}

/// Appends a pool of values of one type. An empty pool is omitted, because the JDK's parser rejects
/// it.
pub fn push_pool(
    out: &mut Vec<u8>,
    id: TypeId,
    used: &Used,
    push_entry: impl Fn(&mut Vec<u8>, u32),
) {
    if used.is_empty() {
        return;
    }
    varint::push(out, u64::from(id.0));
    varint::push(out, used.ids.len() as u64);
    for id in &used.ids {
        varint::push(out, key(*id));
        push_entry(out, *id);
    }
}

/// Appends the entry for a thread: its name and id in the operating system. The Java name and id
/// are left empty.
pub fn push_thread(out: &mut Vec<u8>, name: &str, os_id: u32) {
    text::push(out, name);
    varint::push(out, u64::from(os_id));
    text::push_none(out);
    varint::push(out, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_each_entry_once_and_none_without_entries() {
        let (mut used, empty) = (Used::default(), Used::default());
        used.add(7, 10);
        assert!(used.has(7) && !used.has(6) && !used.has(8));
        let mut out = Vec::new();
        push_count(&mut out, [&used, &empty]);
        push_pool(&mut out, TypeId(9), &used, |out, id| out.push(id as u8));
        push_pool(&mut out, TypeId(5), &empty, |_, _| panic!("no entry"));
        assert_eq!(out, [1, 9, 1, 8, 7]);
        assert_eq!(used.bytes_max(), 10);
        used.clear();
        assert!(used.is_empty() && !used.has(7) && used.bytes_max() == 0);
    }
}
