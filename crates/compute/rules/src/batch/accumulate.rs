//! Aggregates the rows of a task by window and group.

use super::keys::KeyColumns;
use super::{BatchColumns, BatchRows, TaskCounts};
use crate::partial::{KeyEvents, NO_KEYS, Partial, Section};
use crate::plan::{FieldId, InputPlan, Plan, Shape};
use millstream_groups::{Accumulator, Side, hash};

/// Maximum size of a sample in bytes. The limit is low because each of many groups can keep a
/// hundred samples.
const SAMPLE_BYTES_MAX: usize = 1024;

/// Marks a key that has no group yet.
const NONE: u32 = u32::MAX;

/// The matching rows of a task.
#[derive(Clone, Copy)]
pub struct TaskRows<'t, 'r, 'b> {
    pub plan: &'t Plan,
    /// Index of the task in the plan.
    pub task: usize,
    pub rows: &'t BatchRows<'r, 'b>,
    /// Indexes of the matching rows in ascending order.
    pub list: &'t [u32],
}

impl TaskRows<'_, '_, '_> {
    /// Returns the time of a row in nanoseconds since 1970, or 0 if no task needs times.
    fn time(&self, row: u32) -> i64 {
        self.rows.times.get(row as usize).copied().unwrap_or_default()
    }
}

/// The columns that a task reads, and the partial results that receive its groups.
pub struct Target<'t, 'c, 'p, 'b> {
    pub fields: &'t mut BatchColumns<'c, 'p, 'b>,
    pub keys: &'t mut KeyColumns,
    pub partial: &'t mut Partial,
}

/// Position of an input's word within each group.
#[derive(Clone, Copy)]
struct Word {
    /// Number of words per group.
    width: usize,
    /// Index of the word within its group.
    offset: usize,
}

impl Word {
    /// Returns the index of a group's word among the words of all groups.
    #[inline(always)]
    fn of_group(self, group: u32) -> usize {
        group as usize * self.width + self.offset
    }
}

/// Buffers for one task at a time. They are reused from batch to batch.
#[derive(Default)]
pub struct Accumulation {
    /// Rows of the current window, if the rows of the task are in several windows.
    window_rows: Vec<u32>,
    windows: Vec<i64>,
    /// The key of each row, and later the group of each row.
    groups: Vec<u32>,
    /// Group of each key.
    slots: Vec<u32>,
    /// Key of each group.
    keys: Vec<u32>,
    /// Number of rows in each group.
    events: Vec<u32>,
    words: Vec<u64>,
    sides: Vec<Side>,
    numbers: Vec<f64>,
    counts: Vec<(usize, TaskCounts)>,
}

impl Accumulation {
    /// Adds the matching rows of a task to the partial results.
    pub fn add(&mut self, of_task: &TaskRows<'_, '_, '_>, target: &mut Target<'_, '_, '_, '_>) {
        let Some(window_ns) = of_task.plan.shape_of(of_task.task).window_ns else {
            return self.add_window(None, of_task, target);
        };
        let start = |row: &u32| window_start(of_task.rows.times[*row as usize], window_ns);
        let mut windows = std::mem::take(&mut self.windows);
        windows.clear();
        windows.extend(of_task.list.iter().map(start));
        windows.sort_unstable();
        windows.dedup();
        let mut list = std::mem::take(&mut self.window_rows);
        for window in &windows {
            list.clear();
            list.extend(of_task.list.iter().copied().filter(|row| start(row) == *window));
            self.add_window(Some(*window), &TaskRows { list: &list, ..*of_task }, target);
        }
        self.windows = windows;
        self.window_rows = list;
    }

    fn add_window(
        &mut self,
        window: Option<i64>,
        of_task: &TaskRows<'_, '_, '_>,
        target: &mut Target<'_, '_, '_, '_>,
    ) {
        let Target { fields, keys, partial } = target;
        let TaskRows { plan, task, list, .. } = *of_task;
        let shape = plan.shape_of(task);
        self.groups.clear();
        self.keys.clear();
        let column = match shape.keys {
            Some(of_keys) => {
                let column = keys.of_rows(plan, of_keys, fields, list, &mut self.groups);
                self.number_groups(keys.keys_of(column));
                column
            }
            None => {
                self.groups.resize(list.len(), 0);
                self.keys.push(0);
                NO_KEYS
            }
        };
        self.add_inputs(shape, of_task, fields);
        let section = Section { task: task as u32, window, column };
        self.events.clear();
        self.events.resize(self.keys.len(), 0);
        for group in &self.groups {
            self.events[*group as usize] += 1;
        }
        let keys = KeyEvents { keys: &self.keys, events: &self.events };
        partial.push(&section, keys, &self.words, &self.sides);
        self.sides.clear();
    }

    /// Replaces the key of each row with its group. Groups are numbered in row order.
    fn number_groups(&mut self, keys: usize) {
        if self.slots.len() < keys {
            self.slots.resize(keys, NONE);
        }
        for group in &mut self.groups {
            let slot = &mut self.slots[*group as usize];
            if *slot == NONE {
                *slot = self.keys.len() as u32;
                self.keys.push(*group);
            }
            *group = *slot;
        }
        self.keys.iter().for_each(|key| self.slots[*key as usize] = NONE);
    }

    fn add_inputs(
        &mut self,
        shape: &Shape,
        of_task: &TaskRows<'_, '_, '_>,
        fields: &mut BatchColumns<'_, '_, '_>,
    ) {
        let width = shape.fresh.len();
        self.words.clear();
        (0..self.keys.len()).for_each(|_| self.words.extend_from_slice(&shape.fresh));
        let mut numbers_of = None;
        for input in &shape.inputs {
            let InputPlan { accumulator, offset, field } = *input;
            let word = Word { width, offset };
            let Some(field) = field else {
                self.each(word, |count, _| *count += 1);
                continue;
            };
            if input.reads_numbers() && numbers_of != Some(field) {
                self.numbers.clear();
                fields.columns.numbers(fields.batch, field, of_task.list, &mut self.numbers);
                numbers_of = Some(field);
                self.count_faults(of_task, fields, field);
            }
            match accumulator {
                Accumulator::Last => self.last(word, of_task),
                _ if accumulator.is_side() => {
                    self.side(accumulator, word, of_task, fields, field);
                }
                _ => self.number(accumulator, word),
            }
        }
    }

    /// Calls `add` for each row, with the word of the row's group and the row index.
    #[inline(always)]
    fn each(&mut self, word: Word, mut add: impl FnMut(&mut u64, usize)) {
        for (at, group) in self.groups.iter().enumerate() {
            add(&mut self.words[word.of_group(*group)], at);
        }
    }

    fn number(&mut self, accumulator: Accumulator, word: Word) {
        let numbers = std::mem::take(&mut self.numbers);
        match accumulator {
            Accumulator::Count => self.each(word, |count, at| {
                *count += u64::from(!numbers[at].is_nan());
            }),
            Accumulator::Sum => self.each(word, |word, at| {
                let value = numbers[at];
                let sum = f64::from_bits(*word);
                let sum = if sum.is_nan() { value } else { sum + value };
                if !value.is_nan() {
                    *word = sum.to_bits();
                }
            }),
            // If one of the two values is NaN, the minimum or maximum is the other value.
            Accumulator::Min => self.each(word, |word, at| {
                *word = f64::from_bits(*word).min(numbers[at]).to_bits();
            }),
            _ => self.each(word, |word, at| {
                *word = f64::from_bits(*word).max(numbers[at]).to_bits();
            }),
        }
        self.numbers = numbers;
    }

    fn last(&mut self, word: Word, of_task: &TaskRows<'_, '_, '_>) {
        for (at, group) in self.groups.iter().enumerate() {
            if self.numbers[at].is_nan() {
                continue;
            }
            let row = of_task.list[at];
            let words = &mut self.words[word.of_group(*group)..][..4];
            let (origin, offset) = (of_task.rows.place)(row);
            let time = of_task.time(row);
            let held = (words[1] as i64, words[2], words[3]);
            if f64::from_bits(words[0]).is_nan() || held < (time, origin, offset) {
                words.copy_from_slice(&[self.numbers[at].to_bits(), time as u64, origin, offset]);
            }
        }
    }

    /// Adds values to a group's side data, such as a sketch or a counter of distinct values.
    fn side(
        &mut self,
        accumulator: Accumulator,
        word: Word,
        of_task: &TaskRows<'_, '_, '_>,
        fields: &mut BatchColumns<'_, '_, '_>,
        field: FieldId,
    ) {
        fields.ensure(field, of_task.list);
        let source = fields.source(field);
        let reads_number = accumulator == Accumulator::Quantiles;
        for (at, row) in of_task.list.iter().enumerate() {
            if reads_number && self.numbers[at].is_nan() {
                continue;
            }
            let word = &mut self.words[word.of_group(self.groups[at])];
            if *word == 0 {
                self.sides.extend(Side::new(accumulator));
                *word = self.sides.len() as u64;
            }
            let side = &mut self.sides[*word as usize - 1];
            let text = || source.plain(*row);
            match side {
                Side::Quantiles(sketch) => sketch.add(self.numbers[at], 1.0),
                Side::Distinct(distinct) => {
                    if let Some(text) = text() {
                        distinct.add(hash(&text));
                    }
                }
                Side::Top(top) => {
                    if let Some(text) = text() {
                        top.add(&text, 1);
                    }
                }
                Side::Samples(samples) => {
                    let (origin, offset) = (of_task.rows.place)(*row);
                    if let Some(text) = text() {
                        samples.add(of_task.time(*row), origin, offset, start_of(&text));
                    }
                }
            }
        }
    }

    /// Counts values that are missing or not numbers.
    fn count_faults(
        &mut self,
        of_task: &TaskRows<'_, '_, '_>,
        fields: &BatchColumns<'_, '_, '_>,
        field: FieldId,
    ) {
        if !self.numbers.iter().any(|number| number.is_nan()) {
            return;
        }
        let mut counts = TaskCounts::default();
        let source = fields.source(field);
        for (row, number) in of_task.list.iter().zip(&self.numbers) {
            if number.is_nan() {
                let is_there = source.plain(*row).is_some();
                counts.not_numbers += u64::from(is_there);
                counts.missing += u64::from(!is_there);
            }
        }
        self.counts.push((of_task.task, counts));
    }

    /// Takes the counts of each task.
    pub fn take_counts(&mut self) -> impl Iterator<Item = (usize, TaskCounts)> + '_ {
        self.counts.drain(..)
    }
}

/// Returns the longest allowed prefix of a sample that ends at a character boundary.
fn start_of(text: &[u8]) -> &[u8] {
    if text.len() <= SAMPLE_BYTES_MAX {
        return text;
    }
    // A character takes up to four bytes.
    let is_first = |at: &usize| text[*at] & 0xC0 != 0x80;
    let end = (SAMPLE_BYTES_MAX - 3..=SAMPLE_BYTES_MAX).rev().find(is_first);
    &text[..end.unwrap_or(SAMPLE_BYTES_MAX)]
}

/// Returns the start of the window that contains a time.
fn window_start(time_ns: i64, window_ns: i64) -> i64 {
    time_ns.div_euclid(window_ns).saturating_mul(window_ns)
}
