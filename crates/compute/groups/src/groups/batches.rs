//! Operations on many rows at once, which overlap the cache misses of a block of rows.

use super::Groups;
use crate::dictionary::Probe;
use crate::hashing::hash_ids;
use crate::index::NONE;
use crate::limits::BLOCK_ROWS;
use std::ops::Range;

/// Number of rows between prefetching a group and merging into it.
const MERGE_AHEAD_ROWS: usize = 16;

/// One value for each row of a block.
type Block<T> = [T; BLOCK_ROWS];

impl Groups {
    /// Interns the strings of a key column. `None` is an event that lacks the field. Writes the ids
    /// to the column of `ids`, in which the ids of a row are adjacent. An id is [`NONE`] where
    /// [`Groups::intern`] would return `None`.
    pub fn intern_many(&mut self, column: usize, texts: &[Option<&[u8]>], ids: &mut [u32]) {
        let keys = self.keys();
        if column >= keys {
            return;
        }
        let mut probes = [Probe::default(); BLOCK_ROWS];
        for (texts, ids) in texts.chunks(BLOCK_ROWS).zip(ids.chunks_mut(BLOCK_ROWS * keys)) {
            for (text, probe) in texts.iter().zip(&mut probes) {
                *probe = self.dictionaries[column].probe(*text);
            }
            self.intern_block(column, texts, &probes, ids);
        }
    }

    /// Interns the strings of a block. `Dictionary::probe` has prefetched their index entries.
    #[inline]
    fn intern_block(
        &mut self,
        column: usize,
        texts: &[Option<&[u8]>],
        probes: &[Probe],
        ids: &mut [u32],
    ) {
        let (dictionary, keys) = (&self.dictionaries[column], self.keys());
        let rows = ids.chunks_exact_mut(keys).zip(texts.iter().zip(probes));
        let mut unknown = false;
        for (row, (text, probe)) in rows {
            let id = dictionary.first(*probe, || *text);
            row[column] = id;
            unknown |= id == NONE;
        }
        if unknown {
            self.intern_unknown(column, texts, probes, ids);
        }
    }

    /// Interns the strings of a block that the lookup of the first matching entry did not find.
    #[cold]
    fn intern_unknown(
        &mut self,
        column: usize,
        texts: &[Option<&[u8]>],
        probes: &[Probe],
        ids: &mut [u32],
    ) {
        let rows = ids.chunks_exact_mut(self.keys()).zip(texts.iter().zip(probes));
        for (row, (text, probe)) in rows.filter(|(row, _)| row[column] == NONE) {
            let id = text.and_then(|text| self.intern_probe(column, *probe, text));
            row[column] = id.unwrap_or(NONE);
        }
    }

    /// Adds groups for rows of adjacent key ids, and writes the group numbers to `groups`. A group
    /// is [`NONE`] where [`Groups::add`] would return `None`.
    pub fn add_many(&mut self, ids: &[u32], groups: &mut [u32]) {
        if self.keys() < 2 {
            return self.add_each(ids, groups);
        }
        let keys = self.keys();
        let mut hashes: Block<u32> = [0; BLOCK_ROWS];
        let blocks = ids.chunks(BLOCK_ROWS * keys).zip(groups.chunks_mut(BLOCK_ROWS));
        for (ids, groups) in blocks {
            self.prefetch_index(ids, &mut hashes);
            self.prefetch_rows(&hashes, groups);
            self.add_block(ids, groups);
        }
    }

    /// Adds groups one by one, in a table without a hash index.
    fn add_each(&mut self, ids: &[u32], groups: &mut [u32]) {
        for (at, group) in groups.iter_mut().enumerate() {
            let ids = if self.keys() == 0 { Some(&[][..]) } else { ids.get(at..=at) };
            *group = ids.and_then(|ids| self.add(ids)).unwrap_or(NONE);
        }
    }

    /// Hashes rows of key ids, and prefetches the index entries.
    #[inline]
    fn prefetch_index(&self, ids: &[u32], hashes: &mut Block<u32>) {
        for (ids, hash) in ids.chunks_exact(self.keys()).zip(hashes) {
            *hash = hash_ids(ids);
            self.index.prefetch(*hash);
        }
    }

    /// Sets each row's group to the first group that has the row's hash, or [`NONE`]. Prefetches
    /// the group.
    #[inline]
    fn prefetch_rows(&self, hashes: &Block<u32>, groups: &mut [u32]) {
        for (hash, group) in hashes.iter().zip(groups) {
            *group = self.index.first(*hash);
            self.rows.prefetch(*group as usize);
        }
    }

    /// Sets the group of each row. Tries the prefetched group first.
    #[inline]
    fn add_block(&mut self, ids: &[u32], groups: &mut [u32]) {
        let mut unknown = false;
        for (ids, group) in ids.chunks_exact(self.keys()).zip(groups.iter_mut()) {
            if !self.rows.has_ids(*group as usize, ids) {
                *group = NONE;
                unknown = true;
            }
        }
        if unknown {
            self.add_unknown(ids, groups);
        }
    }

    /// Finds or adds the groups of a block that the lookup of the first matching entry did not
    /// find.
    #[cold]
    fn add_unknown(&mut self, ids: &[u32], groups: &mut [u32]) {
        let rows = ids.chunks_exact(self.keys()).zip(groups);
        for (ids, group) in rows.filter(|(_, group)| **group == NONE) {
            *group = self.add(ids).unwrap_or(NONE);
        }
    }

    /// Merges rows of adjacent words, each into its group. Rows whose group does not exist, such as
    /// [`NONE`], are ignored.
    pub fn merge_many(&mut self, groups: &[u32], words: &[u64]) {
        let of_row = self.layout.words();
        if of_row == 0 {
            return;
        }
        for (at, (group, words)) in groups.iter().zip(words.chunks_exact(of_row)).enumerate() {
            if let Some(ahead) = groups.get(at + MERGE_AHEAD_ROWS) {
                self.rows.prefetch(*ahead as usize);
            }
            self.rows.merge(*group as usize, words);
        }
    }

    /// Interns, adds and merges. The result is the same as with [`Groups::intern_many`] for each
    /// key column, [`Groups::add_many`] and [`Groups::merge_many`], but this method is faster.
    /// `columns` contains the strings of each key column, and `words` contains the adjacent words
    /// of each row. Sets the group of each row, or [`NONE`]. The shortest of the columns and of
    /// `groups` limits the number of rows.
    ///
    /// While the method looks up one block of rows in the dictionaries, the groups of the previous
    /// block are read from memory.
    pub fn merge_rows(&mut self, columns: &[&[Option<&[u8]>]], words: &[u64], groups: &mut [u32]) {
        let rows = columns.iter().map(|texts| texts.len()).fold(groups.len(), usize::min);
        let columns = &columns[..columns.len().min(self.keys())];
        let groups = &mut groups[..rows];
        if self.keys() < 2 {
            return self.merge_plainly(columns, words, groups);
        }
        let mut blocks = [Pending::new(self.keys()), Pending::new(self.keys())];
        let mut now = 0..0;
        for from in (0..rows + BLOCK_ROWS).step_by(BLOCK_ROWS) {
            let next = from.min(rows)..(from + BLOCK_ROWS).min(rows);
            let [of_next, of_now] = &mut blocks;
            self.probe_columns(columns, next.clone(), of_next);
            self.prefetch_rows(&of_now.hashes, &mut groups[now.clone()]);
            self.intern_columns(columns, next.clone(), of_next);
            self.add_block(&of_now.ids[..now.len() * self.keys()], &mut groups[now.clone()]);
            self.merge_block(words, now, groups);
            blocks.swap(0, 1);
            now = next;
        }
    }

    /// Runs the steps of [`Groups::merge_rows`] one after another.
    fn merge_plainly(&mut self, columns: &[&[Option<&[u8]>]], words: &[u64], groups: &mut [u32]) {
        let mut ids = vec![0; groups.len() * self.keys()];
        for (column, texts) in columns.iter().enumerate() {
            self.intern_many(column, texts, &mut ids);
        }
        self.add_many(&ids, groups);
        self.merge_many(groups, words);
    }

    /// Prepares the lookups in the key columns of a block.
    #[inline]
    fn probe_columns(&self, columns: &[&[Option<&[u8]>]], rows: Range<usize>, block: &mut Pending) {
        let probes = block.probes.chunks_exact_mut(BLOCK_ROWS);
        for ((texts, dictionary), probes) in columns.iter().zip(&self.dictionaries).zip(probes) {
            for (text, probe) in texts[rows.clone()].iter().zip(probes) {
                *probe = dictionary.probe(*text);
            }
        }
    }

    /// Looks up a block in the dictionaries, and prepares the lookups of its groups.
    #[inline]
    fn intern_columns(
        &mut self,
        columns: &[&[Option<&[u8]>]],
        rows: Range<usize>,
        block: &mut Pending,
    ) {
        let Pending { probes, ids, hashes } = block;
        let ids = &mut ids[..rows.len() * self.keys()];
        let probes = probes.chunks_exact(BLOCK_ROWS);
        for (column, (texts, probes)) in columns.iter().zip(probes).enumerate() {
            self.intern_block(column, &texts[rows.clone()], probes, ids);
        }
        self.prefetch_index(ids, hashes);
    }

    #[inline]
    fn merge_block(&mut self, words: &[u64], rows: Range<usize>, groups: &[u32]) {
        let of_row = self.layout.words();
        for row in rows {
            let words = words.get(row * of_row..(row + 1) * of_row).unwrap_or_default();
            self.rows.merge(groups[row] as usize, words);
        }
    }
}

/// A block that is being looked up in the dictionaries.
struct Pending {
    /// One block of probes for each key column.
    probes: Vec<Probe>,
    /// The adjacent key ids of each row.
    ids: Vec<u32>,
    hashes: Block<u32>,
}

impl Pending {
    fn new(keys: usize) -> Pending {
        Pending {
            probes: vec![Probe::default(); keys * BLOCK_ROWS],
            ids: vec![0; keys * BLOCK_ROWS],
            hashes: [0; BLOCK_ROWS],
        }
    }
}
