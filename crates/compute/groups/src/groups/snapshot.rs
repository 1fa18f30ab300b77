//! Snapshots of a table, complete or incremental, encoded as log entries.
//!
//! A log entry has the following parts. Numbers are LEB128, words are little endian, and each
//! string is preceded by its length.
//!
//! 1. The number of key columns, the number of accumulators, and a code for each accumulator.
//! 2. If there is one key column: one plus the group number for events that lack the field, or 0.
//! 3. For each key column: the number of earlier strings, the number of added strings, and the
//!    added strings.
//! 4. The number of earlier groups and the number of added groups. If there are several key
//!    columns, the key ids of each added group.
//! 5. The number of changed groups. For each of them, the distance from the previous changed group
//!    (counted from 0), and for each accumulator its words, or a byte that is 0 if there are no
//!    values, or 1 followed by the side.
//!
//! A log begins with a complete entry. It is applied to an empty table, one entry after another.
//! The writer of the log adds a version and a checksum.

use super::Groups;
use crate::dictionary::{ABSENT, Probe};
use crate::index::NONE;
use crate::side::Side;
use millstream_encodings::binary::{
    array, byte_string, number, number_to, push_bytes, push_number, word,
};

/// The part of a table that is already in snapshots.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// Number of strings in each column.
    texts: Vec<usize>,
    groups: usize,
}

impl Written {
    /// Creates the state for a table that has no snapshots yet.
    pub(super) fn new(keys: usize) -> Written {
        Written { texts: vec![0; keys], groups: 0 }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.texts.capacity() * size_of::<usize>()
    }
}

impl Groups {
    /// Appends the changes since the last snapshot, which must be in the same log.
    pub fn write_changes(&mut self, out: &mut Vec<u8>) {
        self.write_added(&self.written, out);
        let mut changed = 0;
        self.rows.changed(|_| changed += 1);
        push_number(out, changed);
        let mut next = 0;
        self.rows.changed(|group| {
            push_number(out, (group - next) as u64);
            self.write_group(group as u32, out);
            next = group + 1;
        });
        self.forget_changes();
    }

    /// Appends a complete entry, which starts a new log.
    pub fn write_all(&mut self, out: &mut Vec<u8>) {
        self.write_added(&Written::new(self.keys()), out);
        push_number(out, self.len() as u64);
        for group in 0..self.len() {
            push_number(out, 0);
            self.write_group(group as u32, out);
        }
        self.forget_changes();
    }

    /// Writes the parts that precede the changed groups.
    fn write_added(&self, from: &Written, out: &mut Vec<u8>) {
        self.codes().for_each(|code| push_number(out, code));
        if self.keys() == 1 {
            push_number(out, u64::from(self.absent.wrapping_add(1)));
        }
        for (dictionary, before) in self.dictionaries.iter().zip(&from.texts) {
            push_number(out, *before as u64);
            push_number(out, (dictionary.len() - before) as u64);
            let ids = *before as u32 + 1..=dictionary.len() as u32;
            ids.filter_map(|id| dictionary.text(id)).for_each(|text| push_bytes(out, text));
        }
        push_number(out, from.groups as u64);
        push_number(out, (self.len() - from.groups) as u64);
        if self.keys() > 1 {
            for group in from.groups..self.len() {
                let ids = (0..self.keys()).filter_map(|column| self.id(group as u32, column));
                ids.for_each(|id| push_number(out, u64::from(id)));
            }
        }
    }

    /// Returns the numbers that identify the columns and accumulators of a table.
    fn codes(&self) -> impl Iterator<Item = u64> {
        let accumulators = self.layout.accumulators();
        let counts = [self.keys() as u64, accumulators.len() as u64];
        counts
            .into_iter()
            .chain(accumulators.iter().map(|accumulator| u64::from(accumulator.code())))
    }

    fn write_group(&self, group: u32, out: &mut Vec<u8>) {
        let words = self.words(group);
        for (at, accumulator) in self.layout.accumulators().iter().enumerate() {
            if accumulator.is_side() {
                let side = self.side(group, at);
                out.push(side.is_some().into());
                side.into_iter().for_each(|side| side.write(out));
                continue;
            }
            let words = words.iter().skip(self.layout.offsets()[at]).take(accumulator.words());
            words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
    }

    fn forget_changes(&mut self) {
        let texts = self.dictionaries.iter().map(|dictionary| dictionary.len()).collect();
        self.written = Written { texts, groups: self.len() };
        self.rows.forget_changes();
    }

    /// Takes a log entry from the front of `bytes` and applies it: a complete entry to an empty
    /// table, or an incremental entry to a table with all earlier entries. Returns `None` if the
    /// entry is damaged, or if it belongs to a table with other columns or accumulators. In that
    /// case, the table must be cleared. The maximum number of groups is not enforced.
    pub fn apply(&mut self, bytes: &mut &[u8]) -> Option<()> {
        for code in self.codes() {
            (number(bytes)? == code).then_some(())?;
        }
        let absent = if self.keys() == 1 { self.read_absent(bytes)? } else { NONE };
        for column in 0..self.keys() {
            self.read_texts(column, absent, bytes)?;
        }
        (number_to(bytes, usize::MAX)? == self.written.groups).then_some(())?;
        let len = self.written.groups.checked_add(number_to(bytes, NONE as usize)?)?;
        match self.keys() {
            1 => self.read_absent_group(absent)?,
            _ => self.read_groups(len, bytes)?,
        }
        (len == self.len()).then_some(())?;
        self.read_changes(bytes)?;
        self.forget_changes();
        Some(())
    }

    /// Reads the group for events that lack the field, or [`NONE`]. Returns `None` if the number is
    /// invalid or contradicts the table.
    fn read_absent(&self, bytes: &mut &[u8]) -> Option<u32> {
        let absent = (number_to(bytes, NONE as usize)? as u32).wrapping_sub(1);
        let is_new = self.absent == NONE && absent as usize >= self.len();
        (absent == self.absent || is_new).then_some(absent)
    }

    fn read_texts(&mut self, column: usize, absent: u32, bytes: &mut &[u8]) -> Option<()> {
        let before = self.dictionaries.get(column)?.len();
        (number_to(bytes, before)? == before).then_some(())?;
        for _ in 0..number(bytes)? {
            let text = byte_string(bytes)?;
            if self.keys() == 1 && absent as usize == self.len() {
                self.add_group(&[ABSENT])?;
            }
            match self.find(column, text) {
                Some(_) => return None,
                None => self.add_text(column, Probe::new(text), text)?,
            };
        }
        Some(())
    }

    /// Adds the group for events that lack the field, if it follows all strings.
    fn read_absent_group(&mut self, absent: u32) -> Option<()> {
        if absent as usize == self.len() {
            self.add_group(&[ABSENT])?;
        }
        (self.absent == absent).then_some(())
    }

    fn read_groups(&mut self, len: usize, bytes: &mut &[u8]) -> Option<()> {
        let mut ids = vec![0; self.keys()];
        while self.len() < len {
            for id in &mut ids {
                *id = number_to(bytes, NONE as usize)? as u32;
            }
            match self.find_group(&ids) {
                Some(_) => return None,
                None => self.add_group(&ids)?,
            };
        }
        Some(())
    }

    fn read_changes(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let mut next = 0;
        for _ in 0..number_to(bytes, self.len())? {
            let group = number_to(bytes, self.len())? + next;
            (group < self.len()).then_some(())?;
            self.read_group(group as u32, bytes)?;
            next = group + 1;
        }
        Some(())
    }

    fn read_group(&mut self, group: u32, bytes: &mut &[u8]) -> Option<()> {
        let layout = self.layout.clone();
        for (at, accumulator) in layout.accumulators().iter().enumerate() {
            if accumulator.is_side() {
                self.read_side(group, at, bytes)?;
                continue;
            }
            let from = layout.offsets()[at];
            for to in self.words_mut(group).get_mut(from..from + accumulator.words())? {
                *to = word(bytes)?;
            }
        }
        Some(())
    }

    fn read_side(&mut self, group: u32, accumulator: usize, bytes: &mut &[u8]) -> Option<()> {
        match array(bytes)? {
            // A side always has values after it is created.
            [0] => self.side(group, accumulator).is_none().then_some(()),
            [1] => {
                let side = Side::read(bytes)?;
                let kind = *self.layout.accumulators().get(accumulator)?;
                side.is_of(kind).then_some(())?;
                self.change_side(group, accumulator, |into| *into = side)
            }
            _ => None,
        }
    }
}
