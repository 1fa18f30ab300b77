//! The series: deltas added up, labels made once, what is idle forgotten.
//!
//! A series is found by the hash of its name and tags as they arrived, so labels are made, and
//! texts looked at, only when it is new. Names that come to the same labels are one series.

use super::distribution::{Histogram, saturating};
use super::form::{Form, split_block};
use super::labels::{LabelRules, LabelSet};
use super::rows::{Row, Rows};
use super::{Distributions, Refusal};
use crate::metric::Kind;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How far ahead of the clock a value may be. One that is years ahead would keep its series from
/// going on.
const AHEAD_MS_MAX: i64 = 10 * 60 * 1000;

/// What an accumulator does.
#[derive(Clone, Debug)]
pub struct Options {
    /// What becomes of names and tags.
    pub rules: LabelRules,
    /// How distributions are emitted.
    pub distributions: Distributions,
    /// Seconds after which a series without values is forgotten.
    pub expire_seconds: u32,
    /// Most series that are known at a time; several names that come to the same labels count each.
    pub series_max: usize,
    /// Whether a new sum begins with a 0 at the beginning of its first period: its increase is
    /// right from the start, also behind a restart.
    pub starts_at_zero: bool,
    /// Of the hashes of labels and texts, a secret: with a known one, somebody could send series
    /// that all fall into one place of a table, and each of them would take longer than the one
    /// before.
    pub seed: u64,
}

/// One number of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The number.
    pub value: f64,
    /// Its time, in milliseconds since 1970: later than that of the number before.
    pub time_ms: i64,
    /// When the sum began, in milliseconds since 1970; 0 if it is none, or nobody knows.
    pub created_ms: i64,
    /// What it measures; of a part of a summary [`Kind::Distribution`].
    pub kind: Kind,
}

/// Takes samples, with the labels as the [`Form`] wrote them.
pub trait Collector {
    /// Whether it wants to be told.
    const LISTENS: bool = true;
    /// A number of a series with these labels: a block of [`RemoteForm`](super::RemoteForm).
    fn number(&mut self, labels: &[u8], point: &Point);
    /// A histogram; the number of the point is unused.
    fn histogram(&mut self, labels: &[u8], histogram: &Histogram, point: &Point);
}

/// Takes nothing: the accumulator is asked later.
pub struct Nobody;

impl Collector for Nobody {
    const LISTENS: bool = false;
    fn number(&mut self, _: &[u8], _: &Point) {}
    fn histogram(&mut self, _: &[u8], _: &Histogram, _: &Point) {}
}

/// A series as it arrives.
struct Known {
    key: [u64; 2],
    entry: u32,
    /// When it was emitted last, by [`Accumulator::clock`].
    seen: u32,
}

/// Where the entry is that gives something out with these labels. The hash is kept: a table that
/// grows would have to read all labels again.
struct Labelled {
    hash: u32,
    entry: u32,
}

/// A series as it is emitted.
pub(super) struct Entry {
    /// As the form wrote them; empty where the place is free.
    pub labels: Box<[u8]>,
    /// The last value, or the sum.
    pub value: f64,
    last_ms: i64,
    created_ms: i64,
    pub kind: Kind,
    is_sum: bool,
    is_new: bool,
    is_refused: bool,
    /// In seconds since 1970.
    pub seen: u32,
    pub distribution: Option<Box<Distribution>>,
}

/// What a distribution keeps.
#[derive(Default)]
pub(super) struct Distribution {
    /// Values and sum of all periods; buckets where histograms are emitted.
    pub total: Histogram,
    /// The quantiles of the last period.
    pub quantiles: Vec<f64>,
    is_native: bool,
}

impl Distribution {
    /// Adds what [`Distributions`] made of a period.
    fn add(&mut self, numbers: &[f64]) {
        if self.is_native {
            return self.total.add(numbers);
        }
        let [count, sum, quantiles @ ..] = numbers else { return };
        self.total.count = saturating(self.total.count + count);
        self.total.sum = saturating(self.total.sum + sum);
        self.quantiles.clear();
        self.quantiles.extend_from_slice(quantiles);
    }
}

/// The series of one endpoint.
pub struct Accumulator<F> {
    options: Options,
    form: F,
    known: HashTable<Known>,
    by_labels: HashTable<Labelled>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    set: LabelSet,
    room: Vec<u8>,
    /// Seconds that count for series that are idle: those of an outage, in which nothing is added,
    /// do not.
    clock: u32,
    /// Wall clock of the last tick, in seconds since 1970; 0 before the first.
    ticked: u32,
    swept: u32,
    /// The latest time of what was forgotten, in milliseconds since 1970: what comes back goes on
    /// behind it.
    forgotten_ms: i64,
}

impl<F: Form> Accumulator<F> {
    /// No series yet.
    pub fn new(options: Options, form: F) -> Accumulator<F> {
        Accumulator {
            options,
            form,
            known: HashTable::new(),
            by_labels: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            set: LabelSet::default(),
            room: Vec::new(),
            clock: 0,
            ticked: 0,
            swept: 0,
            forgotten_ms: i64::MIN,
        }
    }

    /// Series that are known.
    pub fn series(&self) -> usize {
        self.known.len()
    }

    /// Values of labels that were cut since this was asked last.
    pub fn take_cut(&mut self) -> u64 {
        self.set.take_cut()
    }

    /// Adds a row, whose texts are in `text`, and hands what its series is now to `to`. `now_ms` is
    /// the wall clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// The row does not become a sample.
    #[inline]
    pub fn add<C: Collector>(
        &mut self,
        (rows, row, text): (&Rows, &Row, &[u8]),
        now_ms: i64,
        to: &mut C,
    ) -> Result<(), Refusal> {
        if row.time_ms > now_ms.saturating_add(AHEAD_MS_MAX) {
            return Err(Refusal::Future);
        }
        let (seen, starts_at_zero) = ((now_ms / 1000) as u32, self.options.starts_at_zero);
        let mut apply = |entry: &mut Entry| {
            entry.forget_time_ahead::<C>(now_ms);
            entry.apply(row, rows.numbers(row), seen, starts_at_zero, to)
        };
        if let Some(known) = self.known.find_mut(row.key[0], |known| known.key == row.key) {
            apply(&mut self.entries[known.entry as usize])?;
            // What is refused is forgotten at last, and may come back as what it is then.
            known.seen = self.clock;
            return Ok(());
        }
        let index = self.learn((rows, row, text))?.0;
        apply(&mut self.entries[index as usize])
    }

    /// Makes a series known; gives its entry, and whether that is new.
    #[cold]
    pub(super) fn learn(
        &mut self,
        (rows, row, text): (&Rows, &Row, &[u8]),
    ) -> Result<(u32, bool), Refusal> {
        if self.known.len() >= self.options.series_max {
            return Err(Refusal::TooManySeries);
        }
        let (name, tags) = rows.texts(row, text);
        self.set.read(&self.options.rules, (name, tags, row.kind), rows.host())?;
        self.room.clear();
        self.form.render(&self.set, row.kind, &mut self.room);
        let (index, is_new) = self.entry_of(row)?;
        let known = Known { key: row.key, entry: index, seen: self.clock };
        self.known.insert_unique(row.key[0], known, |known| known.key[0]);
        Ok((index, is_new))
    }

    /// The entry with the labels in `room`, and whether that is new. No label is that of two
    /// entries.
    fn entry_of(&mut self, row: &Row) -> Result<(u32, bool), Refusal> {
        let mut holders = F::blocks(&self.room).map(|block| self.holder(block));
        let first = holders.next().flatten();
        if let Some(index) = first {
            let entry = &self.entries[index as usize];
            let is_it = *entry.labels == *self.room && entry.fits(row);
            return if is_it { Ok((index, false)) } else { Err(Refusal::TypeConflict) };
        }
        if holders.any(|holder| holder.is_some()) {
            return Err(Refusal::TypeConflict);
        }
        let is_native = self.options.distributions == Distributions::Native;
        let entry = Entry::new(row, &self.room, is_native, self.forgotten_ms);
        let entry = place(&mut self.entries, &mut self.free, entry);
        for block in F::blocks(&self.room) {
            let hash = self.hash(block);
            self.by_labels
                .insert_unique(spread(hash), Labelled { hash, entry }, |of| spread(of.hash));
        }
        Ok((entry, true))
    }

    /// The entry that gives something out with these labels.
    fn holder(&self, block: &[u8]) -> Option<u32> {
        let hash = self.hash(block);
        let has =
            |entry: u32| F::blocks(&self.entries[entry as usize].labels).any(|own| own == block);
        let found = self.by_labels.find(spread(hash), |of| of.hash == hash && has(of.entry));
        found.map(|of| of.entry)
    }

    fn hash(&self, block: &[u8]) -> u32 {
        xxh3_64_with_seed(block, self.options.seed) as u32
    }

    /// Has the clock go on, at most by an eighth of the time after which series are forgotten: what
    /// is added behind an outage comes late, not never.
    fn tick(&mut self, now_ms: i64) {
        let now = (now_ms / 1000) as u32;
        let passed = if self.ticked == 0 { 0 } else { now.saturating_sub(self.ticked) };
        self.ticked = now;
        self.clock = self.clock.saturating_add(passed.min(self.options.expire_seconds.div_ceil(8)));
    }

    /// Forgets series that have been idle for too long, if it is time to look for them; to be
    /// called before rows are added. `now_ms` is the wall clock. Whether any was forgotten.
    pub fn sweep(&mut self, now_ms: i64) -> bool {
        self.tick(now_ms);
        let (clock, expire) = (self.clock, self.options.expire_seconds);
        if clock - self.swept < expire.div_ceil(8) {
            return false;
        }
        self.swept = clock;
        let before = self.known.len();
        self.known.retain(|known| clock - known.seen <= expire);
        if self.known.len() == before {
            return false;
        }
        let mut is_used = vec![false; self.entries.len()];
        self.known.iter().for_each(|known| is_used[known.entry as usize] = true);
        self.by_labels.retain(|of| is_used[of.entry as usize]);
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if !is_used[index] && !entry.labels.is_empty() {
                self.forgotten_ms = self.forgotten_ms.max(entry.last_ms.min(now_ms));
                (entry.labels, entry.distribution) = (Box::default(), None);
                self.free.push(index as u32);
            }
        }
        true
    }

    /// Every entry; those with empty labels are free.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the series of a row is known.
    #[inline]
    pub(super) fn is_known(&self, row: &Row) -> bool {
        self.known.find(row.key[0], |known| known.key == row.key).is_some()
    }

    /// Has every row of an entry refused: its type is not that of the metric.
    pub(super) fn refuse(&mut self, index: u32) {
        self.entries[index as usize].is_refused = true;
    }

    /// Whether an entry was seen within the time after which it is forgotten.
    pub(super) fn is_alive(&self, entry: &Entry, now_ms: i64) -> bool {
        let idle = ((now_ms / 1000) as u32).saturating_sub(entry.seen);
        !entry.labels.is_empty() && idle <= self.options.expire_seconds
    }
}

/// The table takes its places from the low bits of a hash, and its marks from the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Puts an entry into a place that is free.
fn place(entries: &mut Vec<Entry>, free: &mut Vec<u32>, entry: Entry) -> u32 {
    if let Some(index) = free.pop() {
        entries[index as usize] = entry;
        return index;
    }
    entries.push(entry);
    entries.len() as u32 - 1
}

impl Entry {
    /// `forgotten_ms` is a time before which a sum may have been emitted already.
    fn new(row: &Row, labels: &[u8], is_native: bool, forgotten_ms: i64) -> Entry {
        let is_sum = row.kind == Kind::Distribution || (row.kind == Kind::Counter && row.is_delta);
        // A millisecond later than the last value of a series of the same name that ended with the
        // period before.
        let begin = row.time_ms - i64::from(row.interval_ms) + 1;
        Entry {
            labels: labels.into(),
            value: 0.0,
            last_ms: if is_sum { forgotten_ms } else { i64::MIN },
            created_ms: if is_sum && row.interval_ms > 0 {
                begin.max(forgotten_ms.saturating_add(1))
            } else {
                0
            },
            kind: row.kind,
            is_sum,
            is_new: true,
            is_refused: false,
            seen: 0,
            distribution: (row.kind == Kind::Distribution)
                .then(|| Box::new(Distribution { is_native, ..Distribution::default() })),
        }
    }

    /// Whether a row can be one of this series.
    fn fits(&self, row: &Row) -> bool {
        self.kind == row.kind && (row.kind != Kind::Counter || self.is_sum == row.is_delta)
    }

    /// Lets a value follow one whose time has not come yet: the clock was set back. Only where
    /// nobody is told the times; a back end would refuse an earlier one.
    #[inline]
    fn forget_time_ahead<C: Collector>(&mut self, now_ms: i64) {
        if !C::LISTENS && !self.is_sum && self.last_ms > now_ms {
            self.last_ms = i64::MIN;
        }
    }

    /// Whether a row says what is not known yet.
    #[inline]
    fn is_news(&self, row: &Row) -> Result<bool, Refusal> {
        if self.is_refused {
            return Err(Refusal::TypeConflict);
        }
        if self.is_sum && row.value < 0.0 {
            return Err(Refusal::Negative);
        }
        if self.is_sum || row.time_ms > self.last_ms {
            return Ok(true);
        }
        // Two values of one time no back-end takes.
        let is_same = row.time_ms == self.last_ms && row.value == self.value;
        if is_same { Ok(false) } else { Err(Refusal::OutOfOrder) }
    }

    #[inline]
    fn apply(
        &mut self,
        row: &Row,
        numbers: &[f64],
        seen: u32,
        starts_at_zero: bool,
        to: &mut impl Collector,
    ) -> Result<(), Refusal> {
        let is_news = self.is_news(row)?;
        self.seen = seen;
        if !is_news {
            return Ok(());
        }
        let mut point =
            Point { value: 0.0, time_ms: 0, created_ms: self.created_ms, kind: self.kind };
        let is_new = std::mem::replace(&mut self.is_new, false);
        if is_new && starts_at_zero && self.created_ms > 0 && self.created_ms < row.time_ms {
            (point.time_ms, self.last_ms) = (self.created_ms, self.created_ms);
            self.tell(&point, to);
        }
        // A sum is of now, whatever the time of what it grew by.
        point.time_ms = row.time_ms.max(self.last_ms.saturating_add(1));
        self.last_ms = point.time_ms;
        match &mut self.distribution {
            Some(distribution) => distribution.add(numbers),
            None if self.is_sum => self.value = saturating(self.value + row.value),
            None => self.value = row.value,
        }
        point.value = self.value;
        self.tell(&point, to);
        Ok(())
    }

    /// Hands on what the series is now.
    #[inline]
    fn tell<C: Collector>(&self, point: &Point, to: &mut C) {
        if !C::LISTENS {
            return;
        }
        match &self.distribution {
            Some(distribution) => tell_distribution(&self.labels, distribution, point, to),
            None => split_block(&self.labels)
                .into_iter()
                .for_each(|(labels, _)| to.number(labels, point)),
        }
    }
}

fn tell_distribution(mut blocks: &[u8], of: &Distribution, point: &Point, to: &mut impl Collector) {
    let mut quantiles = of.quantiles.iter();
    while let Some((labels, rest)) = split_block(blocks) {
        let value = match remaining(rest) {
            0 if of.is_native => return to.histogram(labels, &of.total, point),
            0 => Some(of.total.count),
            1 => Some(of.total.sum),
            // Before the first period there are none.
            _ => quantiles.next().copied(),
        };
        value.into_iter().for_each(|value| to.number(labels, &Point { value, ..*point }));
        blocks = rest;
    }
}

/// Blocks that follow: 0, 1, or more.
fn remaining(blocks: &[u8]) -> usize {
    split_block(blocks).map_or(0, |(_, rest)| if rest.is_empty() { 1 } else { 2 })
}

#[cfg(test)]
mod tests;
