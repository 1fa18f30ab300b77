//! Keys of rows. A number identifies each distinct value, and each distinct list of values.

use super::BatchColumns;
use super::extract::Source;
use crate::bits::Bits;
use crate::partial::{Partial, push_numbers};
use crate::plan::{FieldId, Plan};
use hashbrown::HashTable;
use millstream_groups::hash;

/// Value number of a missing value. All other values are numbered from 1.
pub const ABSENT: u32 = 0;

/// Distinct strings, numbered in order of first occurrence.
#[derive(Default)]
pub struct Dictionary {
    table: HashTable<u32>,
    hashes: Vec<u64>,
    /// End offset of each string in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Dictionary {
    fn clear(&mut self) {
        self.table.clear();
        self.hashes.clear();
        self.ends.clear();
        self.bytes.clear();
    }

    /// Returns the string's number, counted from 1. Adds the string if it is new.
    #[inline]
    fn number(&mut self, text: &[u8]) -> u32 {
        let of_text = hash(text);
        let Dictionary { table, hashes, ends, bytes } = self;
        let is_it = |at: &u32| {
            let at = *at as usize;
            let start = at.checked_sub(1).map_or(0, |before| ends[before] as usize);
            hashes[at] == of_text && bytes[start..ends[at] as usize] == *text
        };
        if let Some(at) = table.find(of_text, is_it) {
            return at + 1;
        }
        let at = ends.len() as u32;
        bytes.extend_from_slice(text);
        ends.push(bytes.len() as u32);
        hashes.push(of_text);
        table.insert_unique(of_text, at, |at| hashes[*at as usize]);
        at + 1
    }
}

/// The distinct keys of one or more tasks. If the key has only one field, the key is the number of
/// the field's value.
#[derive(Default)]
pub struct KeyColumn {
    /// Index of the key field list in the plan.
    list: u32,
    /// Index of each field's dictionary.
    pub dictionaries: Vec<u32>,
    /// The value numbers of all keys, concatenated. Unused if the key has only one field.
    pub keys: Vec<u32>,
    table: HashTable<u32>,
}

impl KeyColumn {
    /// Returns the index of the key with these value numbers. Adds the key if it is new.
    #[inline]
    fn number(&mut self, key: &[u32]) -> u32 {
        let KeyColumn { keys, table, .. } = self;
        let width = key.len();
        let of_key = hash_numbers(key);
        let is_it = |at: &u32| keys[*at as usize * width..][..width] == *key;
        if let Some(at) = table.find(of_key, is_it) {
            return *at;
        }
        let at = (keys.len() / width) as u32;
        keys.extend_from_slice(key);
        table.insert_unique(of_key, at, |at| hash_numbers(&keys[*at as usize * width..][..width]));
        at
    }
}

/// Hashes a sequence of numbers.
#[inline(always)]
fn hash_numbers(numbers: &[u32]) -> u64 {
    let mix = |hash: u64, number: &u32| {
        let product = u128::from(hash ^ u64::from(*number)) * 0x9E37_79B9_7F4A_7C15;
        (product >> 64) as u64 ^ product as u64
    };
    numbers.iter().fold(0x243F_6A88_85A3_08D3, mix)
}

/// The keys of the rows in a batch. The memory is reused from batch to batch.
#[derive(Default)]
pub struct KeyColumns {
    batch: u64,
    /// Dictionaries. The ones in use come first.
    dictionaries: Vec<Dictionary>,
    dictionaries_used: usize,
    columns: Vec<KeyColumn>,
    columns_used: usize,
    shared: Vec<SharedKeys>,
    /// For each field, the value numbers of the rows.
    numbers: Vec<Vec<u32>>,
    unknown: Vec<u32>,
    found: Vec<u32>,
}

/// Keys of rows, for tasks that share a list of key fields.
#[derive(Default)]
struct SharedKeys {
    batch: u64,
    column: u32,
    rows: Vec<u32>,
    known: Bits,
}

impl KeyColumns {
    /// Prepares for a new batch.
    pub fn begin(&mut self, plan: &Plan) {
        self.batch += 1;
        self.dictionaries_used = 0;
        self.columns_used = 0;
        self.shared.resize_with(plan.shared_keys, SharedKeys::default);
    }

    /// Appends the key of each row to `out`. Returns the index of the column that contains the
    /// keys.
    pub fn of_rows(
        &mut self,
        plan: &Plan,
        keys: usize,
        of_batch: &mut BatchColumns<'_, '_, '_>,
        rows: &[u32],
        out: &mut Vec<u32>,
    ) -> u32 {
        let fields = &plan.keys[keys].fields;
        let Some(index) = plan.keys[keys].shared else {
            let column = self.add_column(keys, fields.len());
            self.number_rows(column, fields, of_batch, rows, out);
            return column;
        };
        self.ensure(plan, keys, of_batch, rows);
        let shared = &self.shared[index];
        out.extend(rows.iter().map(|row| shared.rows[*row as usize]));
        shared.column
    }

    /// If several tasks share the key fields, computes the keys of rows that have none yet.
    pub fn ensure(
        &mut self,
        plan: &Plan,
        keys: usize,
        of_batch: &mut BatchColumns<'_, '_, '_>,
        rows: &[u32],
    ) {
        let fields = &plan.keys[keys].fields;
        let Some(index) = plan.keys[keys].shared else { return };
        let rows_max = of_batch.batch.input.rows;
        let mut shared = std::mem::take(&mut self.shared[index]);
        if shared.batch != self.batch {
            shared.batch = self.batch;
            shared.column = self.add_column(keys, fields.len());
            shared.known.reset(rows_max);
            shared.rows.resize(rows_max, 0);
        }
        let mut unknown = std::mem::take(&mut self.unknown);
        unknown.clear();
        unknown.extend(rows.iter().copied().filter(|row| shared.known.add(*row)));
        if !unknown.is_empty() {
            let mut found = std::mem::take(&mut self.found);
            found.clear();
            self.number_rows(shared.column, fields, of_batch, &unknown, &mut found);
            for (row, key) in unknown.iter().zip(&found) {
                shared.rows[*row as usize] = *key;
            }
            self.found = found;
        }
        self.shared[index] = shared;
        self.unknown = unknown;
    }

    /// Returns the number of keys in a column so far.
    pub fn keys_of(&self, column: u32) -> usize {
        let KeyColumn { dictionaries, keys, .. } = &self.columns[column as usize];
        match dictionaries[..] {
            // Plus one, because 0 represents a missing value.
            [one] => self.dictionaries[one as usize].ends.len() + 1,
            _ => keys.len() / dictionaries.len(),
        }
    }

    /// Appends the dictionaries and key columns of the batch.
    pub fn write(&self, partial: &mut Partial) {
        let out = &mut partial.bytes;
        let start = out.len() as u32;
        push_numbers(&[self.dictionaries_used as u32], out);
        for dictionary in &self.dictionaries[..self.dictionaries_used] {
            push_numbers(&[dictionary.ends.len() as u32], out);
            push_numbers(&dictionary.ends, out);
            out.extend_from_slice(&dictionary.bytes);
        }
        push_numbers(&[self.columns_used as u32], out);
        for column in &self.columns[..self.columns_used] {
            push_numbers(&[column.list, column.dictionaries.len() as u32], out);
            push_numbers(&column.dictionaries, out);
            let keys = column.keys.len() / column.dictionaries.len();
            push_numbers(&[keys as u32], out);
            push_numbers(&column.keys, out);
        }
        push_numbers(&[start], out);
    }

    /// Adds a key column with an empty dictionary for each field. Returns the index of the column.
    fn add_column(&mut self, list: usize, fields: usize) -> u32 {
        let first = self.dictionaries_used;
        self.dictionaries_used += fields;
        if self.dictionaries.len() < self.dictionaries_used {
            self.dictionaries.resize_with(self.dictionaries_used, Dictionary::default);
        }
        self.dictionaries[first..first + fields].iter_mut().for_each(Dictionary::clear);
        let at = self.columns_used;
        self.columns_used += 1;
        if self.columns.len() < self.columns_used {
            self.columns.push(KeyColumn::default());
        }
        let column = &mut self.columns[at];
        column.list = list as u32;
        column.dictionaries.clear();
        column.dictionaries.extend(first as u32..(first + fields) as u32);
        column.keys.clear();
        column.table.clear();
        at as u32
    }

    fn number_rows(
        &mut self,
        column: u32,
        fields: &[FieldId],
        of_batch: &mut BatchColumns<'_, '_, '_>,
        rows: &[u32],
        out: &mut Vec<u32>,
    ) {
        let column = &mut self.columns[column as usize];
        if let [field] = fields {
            of_batch.ensure(*field, rows);
            let dictionary = &mut self.dictionaries[column.dictionaries[0] as usize];
            return number_values(of_batch.source(*field), rows, dictionary, out);
        }
        self.numbers.resize_with(self.numbers.len().max(fields.len()), Vec::new);
        for (at, field) in fields.iter().enumerate() {
            of_batch.ensure(*field, rows);
            let dictionary = &mut self.dictionaries[column.dictionaries[at] as usize];
            self.numbers[at].clear();
            number_values(of_batch.source(*field), rows, dictionary, &mut self.numbers[at]);
        }
        let mut key = [0; KEYS_MAX];
        for row in 0..rows.len() {
            for (number, of_field) in key.iter_mut().zip(&self.numbers[..fields.len()]) {
                *number = of_field[row];
            }
            out.push(column.number(&key[..fields.len()]));
        }
    }
}

/// Maximum number of fields in a key.
pub const KEYS_MAX: usize = 16;

/// Appends the value number of each row.
fn number_values(
    source: Source<'_>,
    rows: &[u32],
    dictionary: &mut Dictionary,
    out: &mut Vec<u32>,
) {
    out.extend(
        rows.iter().map(|row| source.plain(*row).map_or(ABSENT, |text| dictionary.number(&text))),
    );
}
