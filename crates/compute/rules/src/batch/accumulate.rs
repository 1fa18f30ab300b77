//! Aggregates the rows of a task by window and group.

use super::columns::Columns;
use super::keys::KeyColumns;
use super::{Batch, BatchRows, TaskCounts};
use crate::partial::{NO_KEYS, Partial, Section};
use crate::plan::{FieldId, InputPlan, Plan, Shape};
use millstream_groups::{Accumulator, Side, hash};

/// Maximum bytes of a sample; each of many groups may keep a hundred samples.
const SAMPLE_BYTES_MAX: usize = 1024;

/// Marks a key without a group.
const NONE: u32 = u32::MAX;

/// Buffers for one task at a time. Their memory is kept from batch to batch.
#[derive(Default)]
pub struct Accumulation {
    /// Rows of the current window, if the rows of a task are in several windows.
    window_rows: Vec<u32>,
    windows: Vec<i64>,
    /// Key of each row, later the group of each row.
    groups: Vec<u32>,
    /// Group of each key.
    slots: Vec<u32>,
    /// Key of each group.
    keys: Vec<u32>,
    /// Number of rows of each group.
    events: Vec<u32>,
    words: Vec<u64>,
    sides: Vec<Side>,
    numbers: Vec<f64>,
    counts: Vec<(usize, TaskCounts)>,
}

impl Accumulation {
    /// Adds the rows of a task to a partial result.
    pub fn add(
        &mut self,
        (plan, task): (&Plan, usize),
        (batch, rows): (&Batch<'_, '_>, &BatchRows<'_, '_>),
        list: &[u32],
        (columns, keys, partial): (&mut Columns, &mut KeyColumns, &mut Partial),
    ) {
        let Some(window_ns) = plan.shape_of(task).window_ns else {
            return self.add_window(
                (plan, task, None),
                (batch, rows),
                list,
                (columns, keys, partial),
            );
        };
        let start = |row: &u32| window_start(rows.times[*row as usize], window_ns);
        let mut windows = std::mem::take(&mut self.windows);
        windows.clear();
        windows.extend(list.iter().map(start));
        windows.sort_unstable();
        windows.dedup();
        let mut of_window = std::mem::take(&mut self.window_rows);
        for window in &windows {
            of_window.clear();
            of_window.extend(list.iter().copied().filter(|row| start(row) == *window));
            let at = (plan, task, Some(*window));
            self.add_window(at, (batch, rows), &of_window, (columns, keys, partial));
        }
        (self.windows, self.window_rows) = (windows, of_window);
    }

    fn add_window(
        &mut self,
        (plan, task, window): (&Plan, usize, Option<i64>),
        (batch, rows): (&Batch<'_, '_>, &BatchRows<'_, '_>),
        list: &[u32],
        (columns, keys, partial): (&mut Columns, &mut KeyColumns, &mut Partial),
    ) {
        let shape = plan.shape_of(task);
        self.groups.clear();
        self.keys.clear();
        let column = match shape.keys {
            Some(of_keys) => {
                let groups = &mut self.groups;
                let column = keys.of_rows((plan, of_keys), (batch, columns), list, groups);
                self.number_groups(keys.keys_of(column));
                column
            }
            None => {
                self.groups.resize(list.len(), 0);
                self.keys.push(0);
                NO_KEYS
            }
        };
        self.add_inputs(shape, (batch, rows), list, columns, task);
        let section = Section { task: task as u32, window, column };
        self.events.clear();
        self.events.resize(self.keys.len(), 0);
        self.groups.iter().for_each(|group| self.events[*group as usize] += 1);
        partial.push(&section, (&self.keys, &self.events), &self.words, &self.sides);
        self.sides.clear();
    }

    /// Replaces the key of each row by its group, numbered in the order of the rows.
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
        (batch, rows): (&Batch<'_, '_>, &BatchRows<'_, '_>),
        list: &[u32],
        columns: &mut Columns,
        task: usize,
    ) {
        let width = shape.fresh.len();
        self.words.clear();
        (0..self.keys.len()).for_each(|_| self.words.extend_from_slice(&shape.fresh));
        let mut numbers_of = None;
        for input in &shape.inputs {
            let InputPlan { accumulator, offset, field } = *input;
            let Some(field) = field else {
                self.each(width, offset, |count, _| *count += 1);
                continue;
            };
            if input.reads_numbers() && numbers_of != Some(field) {
                self.numbers.clear();
                columns.numbers(batch, field, list, &mut self.numbers);
                numbers_of = Some(field);
                self.count_faults((batch, columns), field, list, task);
            }
            match accumulator {
                Accumulator::Last => self.last(width, offset, rows, list),
                _ if accumulator.is_side() => {
                    let at = (accumulator, width, offset);
                    self.side(at, (batch, rows), list, columns, field);
                }
                _ => self.number(accumulator, width, offset),
            }
        }
    }

    /// Calls `add` with the word of each row's group and the index of the row.
    #[inline(always)]
    fn each(&mut self, width: usize, offset: usize, mut add: impl FnMut(&mut u64, usize)) {
        for (at, group) in self.groups.iter().enumerate() {
            add(&mut self.words[*group as usize * width + offset], at);
        }
    }

    fn number(&mut self, accumulator: Accumulator, width: usize, offset: usize) {
        let numbers = std::mem::take(&mut self.numbers);
        match accumulator {
            Accumulator::Count => self.each(width, offset, |count, at| {
                *count += u64::from(!numbers[at].is_nan());
            }),
            Accumulator::Sum => self.each(width, offset, |word, at| {
                let (sum, value) = (f64::from_bits(*word), numbers[at]);
                let sum = if sum.is_nan() { value } else { sum + value };
                if !value.is_nan() {
                    *word = sum.to_bits();
                }
            }),
            // The minimum or maximum of NaN and a number is the number.
            Accumulator::Min => self.each(width, offset, |word, at| {
                *word = f64::from_bits(*word).min(numbers[at]).to_bits();
            }),
            _ => self.each(width, offset, |word, at| {
                *word = f64::from_bits(*word).max(numbers[at]).to_bits();
            }),
        }
        self.numbers = numbers;
    }

    fn last(&mut self, width: usize, offset: usize, rows: &BatchRows<'_, '_>, list: &[u32]) {
        for (at, group) in self.groups.iter().enumerate() {
            if self.numbers[at].is_nan() {
                continue;
            }
            let (row, words) = (list[at], &mut self.words[*group as usize * width + offset..][..4]);
            let (origin, offset) = (rows.place)(row);
            let time = rows.times.get(row as usize).copied().unwrap_or_default();
            let held = (words[1] as i64, words[2], words[3]);
            if f64::from_bits(words[0]).is_nan() || held < (time, origin, offset) {
                words.copy_from_slice(&[self.numbers[at].to_bits(), time as u64, origin, offset]);
            }
        }
    }

    /// Adds values to a side, such as a sketch or a counter of distinct values.
    fn side(
        &mut self,
        (accumulator, width, offset): (Accumulator, usize, usize),
        (batch, rows): (&Batch<'_, '_>, &BatchRows<'_, '_>),
        list: &[u32],
        columns: &mut Columns,
        field: FieldId,
    ) {
        columns.ensure(batch, field, list);
        let view = columns.view(batch, field);
        let reads_number = accumulator == Accumulator::Quantiles;
        for (at, row) in list.iter().enumerate() {
            if reads_number && self.numbers[at].is_nan() {
                continue;
            }
            let word = &mut self.words[self.groups[at] as usize * width + offset];
            if *word == 0 {
                self.sides.extend(Side::new(accumulator));
                *word = self.sides.len() as u64;
            }
            let side = &mut self.sides[*word as usize - 1];
            let text = || view.value(batch.input.block, *row as usize).plain();
            match side {
                Side::Quantiles(sketch) => sketch.add(self.numbers[at], 1.0),
                Side::Distinct(distinct) => {
                    text().into_iter().for_each(|text| distinct.add(hash(&text)))
                }
                Side::Top(top) => text().into_iter().for_each(|text| top.add(&text, 1)),
                Side::Samples(samples) => {
                    let (origin, offset) = (rows.place)(*row);
                    let time = rows.times.get(*row as usize).copied().unwrap_or_default();
                    let add = |text: std::borrow::Cow<'_, [u8]>| {
                        samples.add(time, origin, offset, start_of(&text));
                    };
                    text().into_iter().for_each(add);
                }
            }
        }
    }

    /// Counts the values that are missing or not numbers.
    fn count_faults(
        &mut self,
        (batch, columns): (&Batch<'_, '_>, &Columns),
        field: FieldId,
        list: &[u32],
        task: usize,
    ) {
        if !self.numbers.iter().any(|number| number.is_nan()) {
            return;
        }
        let mut counts = TaskCounts::default();
        let view = columns.view(batch, field);
        for (row, number) in list.iter().zip(&self.numbers) {
            if number.is_nan() {
                let is_there = view.value(batch.input.block, *row as usize).plain().is_some();
                counts.not_numbers += u64::from(is_there);
                counts.missing += u64::from(!is_there);
            }
        }
        self.counts.push((task, counts));
    }

    /// Takes the counts of each task.
    pub fn take_counts(&mut self) -> impl Iterator<Item = (usize, TaskCounts)> + '_ {
        self.counts.drain(..)
    }
}

/// Returns the first bytes of a sample, ending at a character boundary.
fn start_of(text: &[u8]) -> &[u8] {
    if text.len() <= SAMPLE_BYTES_MAX {
        return text;
    }
    // A character has up to four bytes.
    let is_first = |at: &usize| text[*at] & 0xC0 != 0x80;
    let end = (SAMPLE_BYTES_MAX - 3..=SAMPLE_BYTES_MAX).rev().find(is_first);
    &text[..end.unwrap_or(SAMPLE_BYTES_MAX)]
}

/// Returns the start of the window that contains a time.
fn window_start(time_ns: i64, window_ns: i64) -> i64 {
    time_ns.div_euclid(window_ns).saturating_mul(window_ns)
}
