//! The state of all series of an endpoint: sums deltas, builds labels once, and expires idle
//! series.
//!
//! The accumulator finds a series by the hash of its raw name and tags, so it builds labels only
//! for a new series. Different names that map to the same exposed name are a conflict.

use super::distribution::{Histogram, saturating};
use super::form::{LabelFormat, split_block};
use super::labels::{LabelRules, LabelSet};
use super::overflow::{OVERFLOW_SERIES_MAX, is_overflow};
use super::rows::{Row, RowPlace};
use super::sources::SourceNames;
use super::{Distributions, NameConflict, RejectReason};
use crate::metric::Kind;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Maximum time that a value may be ahead of the clock, in milliseconds. A value from years ahead
/// would block every later value of its series.
const AHEAD_MS_MAX: i64 = 10 * 60 * 1000;

/// Expiry time in seconds that disables expiry: 136 years.
pub const EXPIRE_NEVER: u32 = u32::MAX;

/// Configuration of an accumulator.
#[derive(Clone, Debug)]
pub struct Options {
    /// How names and tags are converted to labels.
    pub rules: LabelRules,
    /// How distributions are emitted.
    pub distributions: Distributions,
    /// Seconds without values after which a series expires, or [`EXPIRE_NEVER`].
    pub expire_seconds: u32,
    /// Maximum number of series. Each raw name and tag set counts, even if several map to the same
    /// labels. Overflow series do not count.
    pub series_max: usize,
    /// Whether a new sum starts with a 0 at the start of its first period, so that back ends
    /// compute the correct increase even for the first value and after a restart.
    pub starts_at_zero: bool,
    /// Seed for the hashes of labels and strings. The seed must be secret. If a client knew the
    /// seed, it could send series whose hashes all collide, so that each insertion is slower than
    /// the previous one.
    pub seed: u64,
}

/// One sample of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Value of the series at this time.
    pub value: f64,
    /// Time in milliseconds since 1970. Always later than the time of the previous sample.
    pub time_ms: i64,
    /// Start of the sum in milliseconds since 1970, or 0 if the value is not a sum or the start is
    /// unknown.
    pub created_ms: i64,
    /// The type. It is [`Kind::Distribution`] for all series of a summary.
    pub kind: Kind,
}

/// A receiver of samples. Labels are passed as the [`LabelFormat`] renders them.
pub trait Collector {
    /// Whether the collector uses the samples.
    const COLLECTS: bool = true;
    /// Adds a sample. `labels` is one block of [`RemoteWriteLabels`](super::RemoteWriteLabels).
    fn number(&mut self, labels: &[u8], point: &Point);
    /// Adds a histogram. The value of `point` is unused.
    fn histogram(&mut self, labels: &[u8], histogram: &Histogram, point: &Point);
}

/// A collector that discards all samples, for an accumulator whose state is read later.
pub struct NullCollector;

impl Collector for NullCollector {
    const COLLECTS: bool = false;
    fn number(&mut self, _: &[u8], _: &Point) {}
    fn histogram(&mut self, _: &[u8], _: &Histogram, _: &Point) {}
}

/// A raw series, identified by the hash of its name and tags.
struct RawSeries {
    key: [u64; 2],
    entry: u32,
    /// Time of the last update, according to [`Accumulator::clock`].
    seen: u32,
}

/// Maps labels to the entry that emits them. The hash is stored so that growing the table does not
/// read all labels.
struct LabelOwner {
    hash: u32,
    entry: u32,
}

/// The state of a series.
pub(super) struct Entry {
    /// Labels as the label format renders them. Empty if the slot is free.
    pub labels: Box<[u8]>,
    /// The last value, or the sum.
    pub value: f64,
    last_ms: i64,
    created_ms: i64,
    pub kind: Kind,
    is_sum: bool,
    is_new: bool,
    is_rejected: bool,
    /// Time of the last update in seconds since 1970.
    pub seen: u32,
    /// Id of the source name that owns the entry's exposed name.
    owner: u32,
    /// [`LabelSet::renamed_keys`] for the entry's tags.
    renamed_keys: u32,
    pub distribution: Option<Box<Distribution>>,
}

/// The state of a distribution.
#[derive(Default)]
pub(super) struct Distribution {
    /// Count and sum of all periods. Histograms also include the buckets.
    pub total: Histogram,
    /// The quantiles of the last period.
    pub quantiles: Vec<f64>,
    is_native: bool,
}

impl Distribution {
    /// Adds the numbers that [`Distributions::push`] computed for a period.
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

/// All series of one endpoint.
pub struct Accumulator<F> {
    options: Options,
    label_format: F,
    known: HashTable<RawSeries>,
    /// Keys of the overflow series, which do not count toward the limit.
    overflow: Vec<[u64; 2]>,
    by_labels: HashTable<LabelOwner>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    names: SourceNames,
    set: LabelSet,
    label_buf: Vec<u8>,
    /// Seconds of operation. This clock determines when series expire. It advances very little
    /// during an outage, when no rows are added.
    clock: u32,
    /// Wall clock time of the last tick in seconds since 1970, or 0 before the first tick.
    ticked: u32,
    swept: u32,
    /// The latest time of any expired series, in milliseconds since 1970. If the series of a sum
    /// returns, the sum continues after this time.
    expired_ms: i64,
    /// Whether new series are registered.
    may_grow: bool,
}

impl<F: LabelFormat> Accumulator<F> {
    /// Creates an accumulator without series.
    pub fn new(options: Options, label_format: F) -> Accumulator<F> {
        Accumulator {
            options,
            label_format,
            known: HashTable::new(),
            overflow: Vec::new(),
            by_labels: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            names: SourceNames::default(),
            set: LabelSet::default(),
            label_buf: Vec::new(),
            clock: 0,
            ticked: 0,
            swept: 0,
            expired_ms: i64::MIN,
            may_grow: true,
        }
    }

    /// Sets whether new series are registered. Otherwise, they are rejected.
    pub fn set_may_grow(&mut self, may_grow: bool) {
        self.may_grow = may_grow;
    }

    /// Returns the number of series.
    pub fn series(&self) -> usize {
        self.known.len()
    }

    /// Returns the number of label values truncated since the last call.
    pub fn take_cut(&mut self) -> u64 {
        self.set.take_cut()
    }

    /// Returns the number of tags joined to the label of a different tag since the last call.
    pub fn take_joined(&mut self) -> u64 {
        self.set.take_joined()
    }

    /// Returns the name conflicts found since the last call.
    pub fn take_conflicts(&mut self) -> Vec<NameConflict> {
        self.names.take_conflicts()
    }

    /// Adds a row and passes the new state of its series to `to`. `now_ms` is the wall clock time
    /// in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns the reason why the row is rejected.
    #[inline]
    pub fn add<C: Collector>(
        &mut self,
        place: RowPlace<'_>,
        now_ms: i64,
        to: &mut C,
    ) -> Result<(), RejectReason> {
        let RowPlace { rows, row, .. } = place;
        if row.time_ms > now_ms.saturating_add(AHEAD_MS_MAX) {
            return Err(RejectReason::Future);
        }
        let seen = (now_ms / 1000) as u32;
        let starts_at_zero = self.options.starts_at_zero;
        let mut apply = |entry: &mut Entry| {
            entry.reset_future_time::<C>(now_ms);
            entry.apply(row, rows.numbers(row), seen, starts_at_zero, to)
        };
        if let Some(known) = self.known.find_mut(row.key[0], |known| known.key == row.key) {
            apply(&mut self.entries[known.entry as usize])?;
            // A rejected row does not refresh its series. The series can therefore expire and
            // return with another type.
            known.seen = self.clock;
            return Ok(());
        }
        let index = self.register(place)?.0;
        apply(&mut self.entries[index as usize])
    }

    /// Registers a new raw series. Returns its entry and whether the entry is new.
    #[cold]
    pub(super) fn register(&mut self, place: RowPlace<'_>) -> Result<(u32, bool), RejectReason> {
        let RowPlace { rows, row, text } = place;
        let (name, tags) = rows.strings(row, text);
        let is_summary = self.label_format.has_sum_and_count(row.kind);
        self.set.begin(&self.options.rules, name, row.kind);
        self.names.check(name, self.set.family(), is_summary)?;
        let is_exempt = is_overflow(name) && self.overflow.len() < OVERFLOW_SERIES_MAX;
        if !is_exempt {
            self.check_limits()?;
        }
        self.set.build(&self.options.rules, tags, row.kind, rows.host())?;
        self.label_buf.clear();
        self.label_format.render(&self.set, row.kind, &mut self.label_buf);
        let (index, is_new) = self.find_or_insert(row, name)?;
        if is_new {
            self.entries[index as usize].owner =
                self.names.own(name, self.set.family(), is_summary);
        }
        let known = RawSeries { key: row.key, entry: index, seen: self.clock };
        self.known.insert_unique(row.key[0], known, |known| known.key[0]);
        if is_exempt {
            self.overflow.push(row.key);
        }
        Ok((index, is_new))
    }

    /// Checks whether the limits allow another series.
    fn check_limits(&self) -> Result<(), RejectReason> {
        if self.known.len() - self.overflow.len() >= self.options.series_max {
            return Err(RejectReason::TooManySeries);
        }
        if !self.may_grow {
            return Err(RejectReason::MemoryPressure);
        }
        Ok(())
    }

    /// Finds or adds the entry for the labels in `label_buf`. Returns whether the entry is new. Two
    /// entries never share labels.
    fn find_or_insert(&mut self, row: &Row, name: &[u8]) -> Result<(u32, bool), RejectReason> {
        let mut owners = F::blocks(&self.label_buf).map(|block| self.owner(block));
        let first = owners.next().flatten();
        if let Some(index) = first {
            let entry = &self.entries[index as usize];
            if *entry.labels != *self.label_buf || !entry.fits(row) {
                return Err(RejectReason::TypeConflict);
            }
            if entry.renamed_keys != self.set.renamed_keys() {
                self.names.report(name, self.set.family(), name);
                return Err(RejectReason::NameConflict);
            }
            return Ok((index, false));
        }
        if owners.any(|owner| owner.is_some()) {
            return Err(RejectReason::TypeConflict);
        }
        let is_native = self.options.distributions == Distributions::Native;
        let mut entry = Entry::new(row, &self.label_buf, is_native, self.expired_ms);
        entry.renamed_keys = self.set.renamed_keys();
        let entry = store(&mut self.entries, &mut self.free, entry);
        for block in F::blocks(&self.label_buf) {
            let hash = self.hash(block);
            self.by_labels.insert_unique(spread(hash), LabelOwner { hash, entry }, |owner| {
                spread(owner.hash)
            });
        }
        Ok((entry, true))
    }

    /// Returns the entry that emits these labels.
    fn owner(&self, block: &[u8]) -> Option<u32> {
        let hash = self.hash(block);
        let has = |entry: u32| {
            F::blocks(&self.entries[entry as usize].labels).any(|other| other == block)
        };
        let found =
            self.by_labels.find(spread(hash), |owner| owner.hash == hash && has(owner.entry));
        found.map(|owner| owner.entry)
    }

    fn hash(&self, block: &[u8]) -> u32 {
        xxh3_64_with_seed(block, self.options.seed) as u32
    }

    /// Advances the clock by at most an eighth of the expiry time, so that an outage does not
    /// expire series whose values are only late.
    fn tick(&mut self, now_ms: i64) {
        let now = (now_ms / 1000) as u32;
        let passed = if self.ticked == 0 { 0 } else { now.saturating_sub(self.ticked) };
        self.ticked = now;
        self.clock = self.clock.saturating_add(passed.min(self.options.expire_seconds.div_ceil(8)));
    }

    /// Expires idle series if a check is due. Returns whether any series expired. Must be called
    /// before rows are added. `now_ms` is the wall clock time in milliseconds since 1970.
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
        let known = &self.known;
        self.overflow.retain(|key| known.find(key[0], |series| series.key == *key).is_some());
        let mut is_used = vec![false; self.entries.len()];
        self.known.iter().for_each(|known| is_used[known.entry as usize] = true);
        self.by_labels.retain(|owner| is_used[owner.entry as usize]);
        let mut is_owner = vec![false; self.names.ids()];
        let mut is_summary = is_owner.clone();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if !is_used[index] && !entry.labels.is_empty() {
                self.expired_ms = self.expired_ms.max(entry.last_ms.min(now_ms));
                (entry.labels, entry.distribution) = (Box::default(), None);
                self.free.push(index as u32);
            }
            if is_used[index] {
                let owner = entry.owner as usize;
                is_owner[owner] = true;
                is_summary[owner] |=
                    self.label_format.has_sum_and_count(entry.kind) && !entry.is_rejected;
            }
        }
        self.names.retain(&is_owner, &is_summary);
        true
    }

    /// Returns all entries. Free entries have empty labels.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns whether the series of a row is registered.
    #[inline]
    pub(super) fn is_known(&self, row: &Row) -> bool {
        self.known.find(row.key[0], |known| known.key == row.key).is_some()
    }

    /// Marks an entry so that all its rows are rejected, because its type differs from the family's
    /// type.
    pub(super) fn reject(&mut self, index: u32) {
        self.entries[index as usize].is_rejected = true;
    }

    /// Returns the seed for hashes.
    pub(super) fn seed(&self) -> u64 {
        self.options.seed
    }

    /// Returns whether an entry was updated within the expiry time.
    pub(super) fn is_alive(&self, entry: &Entry, now_ms: i64) -> bool {
        let idle = ((now_ms / 1000) as u32).saturating_sub(entry.seen);
        !entry.labels.is_empty() && idle <= self.options.expire_seconds
    }
}

/// Copies a hash to the bits that hashbrown uses: the low bits select the slot, and the high bits
/// are the tag.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Stores an entry in a free slot and returns its index.
fn store(entries: &mut Vec<Entry>, free: &mut Vec<u32>, entry: Entry) -> u32 {
    if let Some(index) = free.pop() {
        entries[index as usize] = entry;
        return index;
    }
    entries.push(entry);
    entries.len() as u32 - 1
}

impl Entry {
    /// Creates the entry of a new series. `expired_ms` is the time up to which a previous series
    /// might have emitted the sum.
    fn new(row: &Row, labels: &[u8], is_native: bool, expired_ms: i64) -> Entry {
        let is_sum = row.kind == Kind::Distribution || (row.kind == Kind::Counter && row.is_delta);
        // If a series with the same name ended with the previous period, this is one millisecond
        // after its last value.
        let begin = row.time_ms - i64::from(row.interval_ms) + 1;
        Entry {
            labels: labels.into(),
            value: 0.0,
            last_ms: if is_sum { expired_ms } else { i64::MIN },
            created_ms: if is_sum && row.interval_ms > 0 {
                begin.max(expired_ms.saturating_add(1))
            } else {
                0
            },
            kind: row.kind,
            is_sum,
            is_new: true,
            is_rejected: false,
            seen: 0,
            owner: 0,
            renamed_keys: 0,
            distribution: (row.kind == Kind::Distribution)
                .then(|| Box::new(Distribution { is_native, ..Distribution::default() })),
        }
    }

    /// Returns whether a row's type matches the type of the series.
    fn fits(&self, row: &Row) -> bool {
        self.kind == row.kind && (row.kind != Kind::Counter || self.is_sum == row.is_delta)
    }

    /// Resets the time of the last value if it is in the future because the clock was set back.
    /// Applies only without a collector, because a back end would reject an earlier time.
    #[inline]
    fn reset_future_time<C: Collector>(&mut self, now_ms: i64) {
        if !C::COLLECTS && !self.is_sum && self.last_ms > now_ms {
            self.last_ms = i64::MIN;
        }
    }

    /// Returns whether a row changes the series, or the reason why the row is rejected.
    #[inline]
    fn is_update(&self, row: &Row) -> Result<bool, RejectReason> {
        if self.is_rejected {
            return Err(RejectReason::TypeConflict);
        }
        if self.is_sum && row.value < 0.0 {
            return Err(RejectReason::Negative);
        }
        if self.is_sum || row.time_ms > self.last_ms {
            return Ok(true);
        }
        // No back end accepts two values with the same timestamp.
        let is_repeated = row.time_ms == self.last_ms && row.value == self.value;
        if is_repeated { Ok(false) } else { Err(RejectReason::OutOfOrder) }
    }

    #[inline]
    fn apply(
        &mut self,
        row: &Row,
        numbers: &[f64],
        seen: u32,
        starts_at_zero: bool,
        to: &mut impl Collector,
    ) -> Result<(), RejectReason> {
        let is_update = self.is_update(row)?;
        self.seen = seen;
        if !is_update {
            return Ok(());
        }
        let mut point =
            Point { value: 0.0, time_ms: 0, created_ms: self.created_ms, kind: self.kind };
        let is_new = std::mem::replace(&mut self.is_new, false);
        if is_new && starts_at_zero && self.created_ms > 0 && self.created_ms < row.time_ms {
            (point.time_ms, self.last_ms) = (self.created_ms, self.created_ms);
            self.emit(&point, to);
        }
        // A sum gets the current time, even if its delta is late.
        point.time_ms = row.time_ms.max(self.last_ms.saturating_add(1));
        self.last_ms = point.time_ms;
        match &mut self.distribution {
            Some(distribution) => distribution.add(numbers),
            None if self.is_sum => self.value = saturating(self.value + row.value),
            None => self.value = row.value,
        }
        point.value = self.value;
        self.emit(&point, to);
        Ok(())
    }

    /// Passes the current state of the series to the collector.
    #[inline]
    fn emit<C: Collector>(&self, point: &Point, to: &mut C) {
        if !C::COLLECTS {
            return;
        }
        match &self.distribution {
            Some(distribution) => emit_distribution(&self.labels, distribution, point, to),
            None => split_block(&self.labels)
                .into_iter()
                .for_each(|(labels, _)| to.number(labels, point)),
        }
    }
}

fn emit_distribution(
    mut blocks: &[u8],
    distribution: &Distribution,
    point: &Point,
    to: &mut impl Collector,
) {
    let mut quantiles = distribution.quantiles.iter();
    while let Some((labels, rest)) = split_block(blocks) {
        let value = match remaining(rest) {
            0 if distribution.is_native => return to.histogram(labels, &distribution.total, point),
            0 => Some(distribution.total.count),
            1 => Some(distribution.total.sum),
            // The quantiles are empty before the first period.
            _ => quantiles.next().copied(),
        };
        value.into_iter().for_each(|value| to.number(labels, &Point { value, ..*point }));
        blocks = rest;
    }
}

/// Returns the number of remaining blocks, capped at 2.
fn remaining(blocks: &[u8]) -> usize {
    split_block(blocks).map_or(0, |(_, rest)| if rest.is_empty() { 1 } else { 2 })
}

#[cfg(test)]
mod tests;
