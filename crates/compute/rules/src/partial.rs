//! Partial results: the contribution of one batch to each task, window and group.
//!
//! The format is little endian. It has no version, because it is used only for messages within a
//! process. It consists of:
//!
//! - one section per task and window: the task (`u32`), whether it has a window (`u8`), the start
//!   of the window in nanoseconds since 1970 (`i64`), the key column or [`NO_KEYS`] (`u32`), the
//!   number of groups (`u32`), the key of each group (`u32`), the number of events in each group
//!   (`u32`), the words of each group (`u64`), the number of sides (`u32`), and the sides, to which
//!   words refer by a number counted from 1;
//! - the number of dictionaries (`u32`), and for each dictionary the number of strings (`u32`), the
//!   ends of the strings (`u32`), and the strings;
//! - the number of key columns (`u32`), and for each column the index of its list of key fields in
//!   the plan (`u32`), the number of fields (`u32`), the dictionary of each field (`u32`), the
//!   number of keys (`u32`), and, if there is more than one field, the string numbers of each key
//!   (`u32`), counted from 1, with 0 for a missing value. If there is only one field, a key is its
//!   string number;
//! - the position of the number of dictionaries (`u32`).

use crate::frequent::{self, FrequentKeys, KeyGroups};
use crate::plan::Plan;
use millstream_groups::{Groups, NONE, Side};
use std::sync::Arc;

/// The key column of a task that has no keys.
pub(crate) const NO_KEYS: u32 = u32::MAX;

/// Minimum number of groups to merge all at once. Tests use only a few groups.
const MANY: usize = if cfg!(test) { 4 } else { 32 };

/// Maximum share of other keys in a key column, as a denominator. Above this share, the column's
/// keys are not numbered as frequent keys.
const RARE_PART: usize = 4;

/// Result of merging a partial result.
#[derive(Clone, Copy, Debug)]
pub struct Merged {
    /// Number of events that had no space for their group.
    pub overflows: u64,
    /// Whether the tables might have grown.
    pub may_have_grown: bool,
}

/// Where the partial results of a task are merged.
#[derive(Debug)]
pub struct MergeTarget<'g> {
    /// The groups of the window.
    pub groups: &'g mut Groups,
    /// A table with a single group, without keys. The group receives the events that have no space
    /// for their own group.
    pub overflow: &'g mut Groups,
    /// Maps frequent keys to groups.
    pub of_keys: &'g mut KeyGroups,
    /// Whether groups and samples may be added. Otherwise, events of new groups go to `overflow`.
    pub may_add: bool,
}

/// Partial results that are being written.
#[derive(Debug, Default)]
pub struct Partial {
    pub(crate) bytes: Vec<u8>,
}

/// The fixed fields of a section.
pub(crate) struct Section {
    pub task: u32,
    pub window: Option<i64>,
    pub column: u32,
}

/// For each group in a section, its key and its event count.
#[derive(Clone, Copy)]
pub(crate) struct KeyEvents<'k> {
    pub keys: &'k [u32],
    pub events: &'k [u32],
}

impl Partial {
    /// Creates partial results that are written to `bytes`, which must be empty.
    pub fn new(bytes: Vec<u8>) -> Partial {
        Partial { bytes }
    }

    /// Returns the encoded partial results.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn push(
        &mut self,
        section: &Section,
        groups: KeyEvents<'_>,
        words: &[u64],
        sides: &[Side],
    ) {
        let out = &mut self.bytes;
        out.extend_from_slice(&section.task.to_le_bytes());
        out.push(u8::from(section.window.is_some()));
        out.extend_from_slice(&section.window.unwrap_or_default().to_le_bytes());
        push_numbers(&[section.column, groups.keys.len() as u32], out);
        push_numbers(groups.keys, out);
        push_numbers(groups.events, out);
        push_all(words, u64::to_le_bytes, out);
        push_numbers(&[sides.len() as u32], out);
        sides.iter().for_each(|side| side.write(out));
    }
}

pub(crate) fn push_numbers(numbers: &[u32], out: &mut Vec<u8>) {
    push_all(numbers, u32::to_le_bytes, out);
}

/// Appends numbers that take `N` bytes each.
fn push_all<T: Copy, const N: usize>(
    numbers: &[T],
    to_bytes: impl Fn(T) -> [u8; N],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.resize(start + numbers.len() * N, 0);
    let places = out[start..].as_chunks_mut::<N>().0;
    places.iter_mut().zip(numbers).for_each(|(place, number)| *place = to_bytes(*number));
}

/// Reads partial results.
#[derive(Debug)]
pub struct PartialReader<'b> {
    sections: &'b [u8],
    dictionaries: Vec<Dictionary<'b>>,
    columns: Vec<KeyColumn<'b>>,
}

#[derive(Debug)]
struct Dictionary<'b> {
    ends: &'b [[u8; 4]],
    bytes: &'b [u8],
}

#[derive(Debug)]
struct KeyColumn<'b> {
    /// Index of the key field list in [`Plan::keys`].
    list: usize,
    dictionaries: Vec<u32>,
    keys: &'b [[u8; 4]],
    /// For each key, its number as a frequent key. Empty if too few keys are frequent.
    numbers: Vec<u32>,
    /// Generation of `numbers`.
    generation: u32,
}

/// The partial result of one task in one window.
#[derive(Debug)]
pub struct TaskPartial<'b> {
    /// Index of the task in the plan.
    pub task: usize,
    /// Start of the window, if the task's windows follow event time.
    pub window: Option<i64>,
    column: Option<usize>,
    keys: &'b [[u8; 4]],
    events: &'b [[u8; 4]],
    words: &'b [[u8; 8]],
    sides: Arc<[Side]>,
}

/// Buffers for merging that calls reuse.
#[derive(Debug, Default)]
pub struct MergeBuffers {
    ids: Vec<u32>,
    words: Vec<u64>,
    groups: Vec<u32>,
}

impl<'b> PartialReader<'b> {
    /// Reads the dictionaries and key columns of partial results. Returns `None` if the bytes are
    /// invalid.
    pub fn new(bytes: &'b [u8]) -> Option<PartialReader<'b>> {
        let (rest, start) = bytes.split_last_chunk::<4>()?;
        let (sections, mut rest) = rest.split_at_checked(u32::from_le_bytes(*start) as usize)?;
        let rest = &mut rest;
        let dictionaries: Option<Vec<Dictionary<'_>>> =
            (0..number(rest)?).map(|_| Dictionary::read(rest)).collect();
        let columns: Option<Vec<KeyColumn<'_>>> =
            (0..number(rest)?).map(|_| KeyColumn::read(rest)).collect();
        let (dictionaries, columns) = (dictionaries?, columns?);
        Some(PartialReader { sections, dictionaries, columns })
    }

    /// Looks up the numbers of frequent keys, for lists of key fields that many tasks share.
    pub fn number_keys(&mut self, frequent: &mut FrequentKeys) {
        let PartialReader { dictionaries, columns, .. } = self;
        for column in columns {
            column.number_keys(dictionaries, frequent);
        }
    }

    /// Returns the next section, in evaluation order, or `None` after the last one or if the
    /// section is invalid.
    pub fn next(&mut self, plan: &Plan) -> Option<TaskPartial<'b>> {
        let rest = &mut self.sections;
        let task = number(rest)? as usize;
        let [has_window] = take::<1>(rest)?;
        let window = i64::from_le_bytes(take(rest)?);
        let (column, groups) = (number(rest)?, number(rest)? as usize);
        let (keys, events) = (array(rest, groups)?, array(rest, groups)?);
        let words = array(rest, groups.checked_mul(plan.tasks.get(task)?.layout.words())?)?;
        let sides = match number(rest)? {
            0 => Arc::default(),
            sides => (0..sides).map(|_| Side::read(rest)).collect::<Option<Vec<Side>>>()?.into(),
        };
        let window = (has_window == 1).then_some(window);
        let column = (column != NO_KEYS).then_some(column as usize);
        Some(TaskPartial { task, window, column, keys, events, words, sides })
    }
}

impl<'b> TaskPartial<'b> {
    /// Returns the total number of events.
    pub fn events(&self) -> u64 {
        self.events.iter().map(|events| u64::from(u32::from_le_bytes(*events))).sum()
    }

    /// Splits the result into parts of up to `groups_max` groups, so that the caller can check
    /// memory between the parts.
    pub fn parts(&self, groups_max: usize) -> impl Iterator<Item = TaskPartial<'b>> + '_ {
        let width = self.words.len() / self.keys.len().max(1);
        let keys = self.keys.chunks(groups_max).zip(self.events.chunks(groups_max));
        let words = (0..).map(move |part| {
            let begin = (part * groups_max * width).min(self.words.len());
            &self.words[begin..(begin + groups_max * width).min(self.words.len())]
        });
        keys.zip(words).map(|((keys, events), words)| TaskPartial {
            keys,
            events,
            words,
            sides: self.sides.clone(),
            ..*self
        })
    }

    /// Merges the result into the groups of its task and window.
    pub fn merge(
        &self,
        reader: &PartialReader<'_>,
        target: MergeTarget<'_>,
        buffers: &mut MergeBuffers,
    ) -> Merged {
        let MergeTarget { groups, overflow, of_keys, may_add } = target;
        buffers.words.clear();
        buffers.words.extend(self.words.iter().map(|word| u64::from_le_bytes(*word)));
        buffers.groups.clear();
        let column = self.column.and_then(|column| reader.columns.get(column));
        let mut are_known = column.is_none() && !groups.is_empty();
        let are_many = self.keys.len() >= MANY && column.is_some() && may_add;
        if let Some(column) = column.filter(|column| !column.numbers.is_empty()) {
            let of_numbers = of_keys.of(column.generation);
            let numbers = &column.numbers;
            are_known = self.find_frequent(reader, groups, may_add, numbers, of_numbers, buffers);
            groups.merge_many(&buffers.groups, &buffers.words);
        } else if !are_many || self.merge_many(reader, groups, buffers).is_none() {
            for key in self.keys.iter().map(|key| u32::from_le_bytes(*key)) {
                let found = self.find(key, reader, groups, may_add, &mut buffers.ids);
                buffers.groups.push(found.unwrap_or(NONE));
            }
            groups.merge_many(&buffers.groups, &buffers.words);
        }
        if are_known && self.sides.is_empty() {
            return Merged { overflows: 0, may_have_grown: false };
        }
        let overflows = self.merge_rest(groups, overflow, may_add, buffers);
        Merged { overflows, may_have_grown: true }
    }

    /// Finds the groups for keys that are mostly frequent. Returns whether all groups were already
    /// known. `numbers` contains each key's number, and `of_numbers` contains the group for each
    /// number.
    fn find_frequent(
        &self,
        reader: &PartialReader<'_>,
        groups: &mut Groups,
        may_add: bool,
        numbers: &[u32],
        of_numbers: &mut Vec<u32>,
        buffers: &mut MergeBuffers,
    ) -> bool {
        let mut are_known = true;
        for key in self.keys.iter().map(|key| u32::from_le_bytes(*key)) {
            let number = numbers.get(key as usize).copied().unwrap_or(NONE);
            let mut group = of_numbers.get(number as usize).copied().unwrap_or(NONE);
            if group == NONE {
                are_known = false;
                let found = self.find(key, reader, groups, may_add, &mut buffers.ids);
                group = found.unwrap_or(NONE);
                if number != NONE && group != NONE {
                    frequent::set(of_numbers, number, group);
                }
            }
            buffers.groups.push(group);
        }
        are_known
    }

    /// Looks up, adds and merges many groups at a time, so that their cache misses overlap. Returns
    /// `None` if the keys are invalid.
    fn merge_many(
        &self,
        reader: &PartialReader<'_>,
        groups: &mut Groups,
        buffers: &mut MergeBuffers,
    ) -> Option<()> {
        let column = reader.columns.get(self.column?)?;
        let width = column.dictionaries.len();
        let mut texts: Vec<Vec<Option<&[u8]>>> = Vec::with_capacity(width);
        for (at, dictionary) in column.dictionaries.iter().enumerate() {
            let dictionary = reader.dictionaries.get(*dictionary as usize)?;
            let text = |key: &[u8; 4]| {
                let number = column.number(u32::from_le_bytes(*key), at)?;
                dictionary.string(number.checked_sub(1)? as usize)
            };
            texts.push(self.keys.iter().map(text).collect());
        }
        let columns: Vec<&[Option<&[u8]>]> = texts.iter().map(Vec::as_slice).collect();
        buffers.groups.resize(self.keys.len(), NONE);
        groups.merge_rows(&columns, &buffers.words, &mut buffers.groups);
        Some(())
    }

    /// Merges the groups' sides, and the groups for which there is no space. Returns the number of
    /// events in these groups.
    fn merge_rest(
        &self,
        groups: &mut Groups,
        overflow: &mut Groups,
        may_add: bool,
        buffers: &MergeBuffers,
    ) -> u64 {
        let width = groups.layout().words();
        let mut overflows = 0;
        for (at, group) in buffers.groups.iter().enumerate() {
            let words = &buffers.words[at * width..][..width];
            if *group != NONE {
                self.merge_sides(groups, *group, may_add, words);
                continue;
            }
            overflows += u64::from(u32::from_le_bytes(self.events[at]));
            if let Some(group) = overflow.add(&[]) {
                overflow.merge(group, words);
                self.merge_sides(overflow, group, may_add, words);
            }
        }
        overflows
    }

    /// Finds the group for a key, and adds a missing group if `may_add`. Returns `None` if the
    /// group is missing and cannot be added.
    fn find(
        &self,
        key: u32,
        reader: &PartialReader<'_>,
        groups: &mut Groups,
        may_add: bool,
        ids: &mut Vec<u32>,
    ) -> Option<u32> {
        ids.clear();
        if let Some(column) = self.column {
            let column = reader.columns.get(column)?;
            for at in 0..column.dictionaries.len() {
                ids.push(match column.text(key, at, &reader.dictionaries)? {
                    None => millstream_groups::ABSENT,
                    Some(text) if may_add => groups.intern(at, text)?,
                    Some(text) => groups.find(at, text)?,
                });
            }
        }
        if may_add { groups.add(ids) } else { groups.find_group(ids) }
    }

    fn merge_sides(&self, groups: &mut Groups, group: u32, may_add: bool, words: &[u64]) {
        if self.sides.is_empty() {
            return;
        }
        let layout = groups.layout().clone();
        for (at, accumulator) in layout.accumulators().iter().enumerate() {
            let reference = words[layout.offsets()[at]];
            let side = (reference as usize).checked_sub(1).filter(|_| accumulator.is_side());
            let is_kept = |side: &&Side| may_add || !matches!(side, Side::Samples(_));
            if let Some(side) = side.and_then(|side| self.sides.get(side)).filter(is_kept) {
                groups.merge_side(group, at, side);
            }
        }
    }
}

impl<'b> Dictionary<'b> {
    fn read(rest: &mut &'b [u8]) -> Option<Dictionary<'b>> {
        let strings = number(rest)? as usize;
        let ends = array(rest, strings)?;
        let len = ends.last().map_or(0, |end| u32::from_le_bytes(*end) as usize);
        let (bytes, behind) = rest.split_at_checked(len)?;
        *rest = behind;
        Some(Dictionary { ends, bytes })
    }

    /// Returns the string at an index, if it exists.
    fn string(&self, index: usize) -> Option<&'b [u8]> {
        let end = |index: usize| self.ends.get(index).map(|end| u32::from_le_bytes(*end) as usize);
        let start = index.checked_sub(1).map_or(Some(0), end)?;
        self.bytes.get(start..end(index)?)
    }
}

impl<'b> KeyColumn<'b> {
    /// Returns the string number of a key's field.
    #[inline]
    fn number(&self, key: u32, field: usize) -> Option<u32> {
        match self.dictionaries.len() {
            1 => Some(key),
            width => self
                .keys
                .get(key as usize * width + field)
                .map(|number| u32::from_le_bytes(*number)),
        }
    }

    /// Returns the text of a key's field, or `Some(None)` if the events lack the field.
    #[inline]
    fn text(
        &self,
        key: u32,
        field: usize,
        dictionaries: &[Dictionary<'b>],
    ) -> Option<Option<&'b [u8]>> {
        let Some(index) = self.number(key, field)?.checked_sub(1) else { return Some(None) };
        let dictionary = dictionaries.get(*self.dictionaries.get(field)? as usize)?;
        dictionary.string(index as usize).map(Some)
    }

    /// Returns the number of keys in the column.
    fn len(&self, dictionaries: &[Dictionary<'b>]) -> usize {
        match self.dictionaries[..] {
            [] => 0,
            // Plus one, for events that lack the field.
            [one] => {
                dictionaries.get(one as usize).map_or(0, |dictionary| dictionary.ends.len() + 1)
            }
            _ => self.keys.len() / self.dictionaries.len(),
        }
    }

    /// Numbers the column's keys as frequent keys, if most of them are frequent.
    fn number_keys(&mut self, dictionaries: &[Dictionary<'b>], frequent: &mut FrequentKeys) {
        let Some((known, generation)) = frequent.of(self.list) else { return };
        let keys = self.len(dictionaries) as u32;
        let mut ids = Vec::new();
        let number = |key| self.number_key(key, dictionaries, known, &mut ids);
        let numbers: Vec<u32> = (0..keys).map(number).map(|found| found.unwrap_or(NONE)).collect();
        let others = numbers.iter().filter(|number| **number == NONE).count();
        if others > numbers.len() / RARE_PART {
            frequent.note_poor(self.list);
            return;
        }
        self.numbers = numbers;
        self.generation = generation;
    }

    /// Returns the key's number as a frequent key, or `None` if the key is not frequent.
    fn number_key(
        &self,
        key: u32,
        dictionaries: &[Dictionary<'b>],
        known: &mut Groups,
        ids: &mut Vec<u32>,
    ) -> Option<u32> {
        ids.clear();
        for at in 0..self.dictionaries.len() {
            ids.push(match self.text(key, at, dictionaries)? {
                None => millstream_groups::ABSENT,
                Some(text) if text.len() > frequent::TEXT_BYTES_MAX => return None,
                Some(text) => known.intern(at, text)?,
            });
        }
        known.add(ids)
    }

    fn read(rest: &mut &'b [u8]) -> Option<KeyColumn<'b>> {
        let list = number(rest)? as usize;
        let fields = number(rest)? as usize;
        let dictionaries: &[[u8; 4]] = array(rest, fields)?;
        let dictionaries = dictionaries.iter().map(|at| u32::from_le_bytes(*at)).collect();
        let keys = number(rest)? as usize;
        let keys = array(rest, keys.checked_mul(fields)?)?;
        Some(KeyColumn { list, dictionaries, keys, numbers: Vec::new(), generation: 0 })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

/// Takes `len` numbers of `N` bytes each.
fn array<'b, const N: usize>(rest: &mut &'b [u8], len: usize) -> Option<&'b [[u8; N]]> {
    let (taken, behind) = rest.split_at_checked(len.checked_mul(N)?)?;
    *rest = behind;
    Some(taken.as_chunks::<N>().0)
}

/// Returns whether partial results contain any section.
pub fn has_sections(bytes: &[u8]) -> bool {
    bytes.last_chunk::<4>().is_some_and(|start| u32::from_le_bytes(*start) > 0)
}
