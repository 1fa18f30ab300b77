//! The points that a shard accumulates between two swaps.

use crate::chunks::{Chunks, Sparse};
use crate::counts::{Counts, Reason};
use crate::hashing::Hashing;
use crate::index::Index;
use crate::key::SeriesKey;
use crate::limits::Limits;
use crate::point::{ARRIVED_MAX, Class, Kind, Point, Values};
use crate::pool::{Members, Pool};
use crate::sketch::{Sketch, saturating};
use millstream_scan::prefetch;

/// The aggregate of one series, in 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// The sum, or the last value.
    pub value: f64,
    /// 0 if the cell is empty. Otherwise, the lower bits hold the number of points for a sum, the
    /// [`stamp`] for a last value, or the pool number for a distribution or set, and the [`TIMED`]
    /// bit is set if any value has a timestamp.
    state: u64,
}

/// Flag for a series that has values with a timestamp.
const TIMED: u64 = 1 << 63;

impl Cell {
    pub fn is_empty(&self) -> bool {
        self.state == 0
    }

    /// Returns the state without [`TIMED`].
    pub fn payload(&self) -> u64 {
        self.state & !TIMED
    }

    fn add(&mut self, value: f64) {
        self.value = saturating(self.value + value);
        self.state += 1;
    }

    fn set(&mut self, value: f64, arrived: u64) {
        *self = Cell { value, state: self.state & TIMED | stamp(arrived, true) };
    }

    fn change(&mut self, by: f64, arrived: u64) {
        self.value = saturating(self.value + by);
        self.state = self.state & TIMED | stamp(arrived, is_absolute(self.state));
    }

    /// Returns the number of the cell's pool entry. If there is none, calls `take` to get one.
    fn entry(&mut self, take: impl FnOnce() -> u32) -> u32 {
        if self.payload() == 0 {
            self.state |= u64::from(take());
        }
        self.payload() as u32
    }
}

/// Packs the arrival of a last value, in the upper bits, with a flag that is set if the value is
/// absolute. A value that is not absolute is a change to the previous value.
pub fn stamp(arrived: u64, absolute: bool) -> u64 {
    arrived.clamp(1, ARRIVED_MAX) << 1 | u64::from(absolute)
}

/// Returns whether the last value with this [`stamp`] is absolute.
pub fn is_absolute(stamp: u64) -> bool {
    stamp & 1 == 1
}

/// Combines two values with the same timestamp. Each value is paired with its arrival. Sums are
/// added. For last values, the latest arrival wins.
pub fn add_timed(class: Class, to: &mut (f64, u64), value: f64, arrived: u64) {
    match class {
        Class::Sum => *to = (saturating(to.0 + value), to.1.max(arrived)),
        _ if arrived >= to.1 => *to = (value, arrived),
        _ => {}
    }
}

/// The aggregate of all points with the same series and timestamp.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    pub id: u32,
    pub timestamp: i64,
    /// The sum or the last value, and the latest arrival.
    pub value: (f64, u64),
}

/// Aggregates by series and timestamp.
#[derive(Clone, Debug, Default)]
pub struct TimedValues {
    index: Index,
    values: Chunks<Timed>,
}

impl TimedValues {
    /// Returns the value for this series and timestamp. If there is none, inserts 0, or returns
    /// `None` if there are already `most` values.
    fn entry(
        &mut self,
        id: u32,
        timestamp: i64,
        hash: u64,
        most: usize,
    ) -> Option<&mut (f64, u64)> {
        let is_it = |at| (self.values[at].id, self.values[at].timestamp) == (id, timestamp);
        let at = match self.index.find(hash, is_it) {
            Some(at) => at,
            None if self.values.len() >= most => return None,
            None => {
                let at = self.values.len() as u32;
                self.values.push(Timed { id, timestamp, value: (0.0, 0) });
                self.index.insert(hash, at);
                at
            }
        };
        Some(&mut self.values[at].value)
    }

    /// Removes and returns a value, or returns `None` if there are no values. After the first call,
    /// no value may be added until all are removed.
    pub fn pop(&mut self) -> Option<Timed> {
        let value = self.values.pop();
        if value.is_some() && self.values.len() == 0 {
            self.index.clear();
        }
        value
    }
}

/// The points that a shard accumulates between two swaps. `default()` is empty. After merging a
/// generation, the store returns it empty, so that a later swap can reuse it.
#[derive(Clone, Debug, Default)]
pub struct Generation {
    /// Number of shard swaps before this generation.
    pub(crate) number: u64,
    /// Cells, indexed by the shard's series id.
    pub(crate) cells: Sparse<Cell>,
    pub(crate) sketches: Pool<Sketch>,
    pub(crate) sets: Pool<Members>,
    pub(crate) timed: TimedValues,
    /// Series added since the last swap.
    pub(crate) added: Chunks<(u32, SeriesKey)>,
    /// Series evicted since the last swap. Must be applied before `added`, which can reuse their
    /// ids.
    pub(crate) removed: Chunks<u32>,
    pub(crate) counts: Counts,
}

impl Generation {
    /// Returns the counts of accepted, rejected and changed values.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn is_empty(&self, id: u32) -> bool {
        self.cells.get(id).is_none_or(Cell::is_empty)
    }

    /// Prefetches the cell of a series.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        if let Some(cell) = self.cells.get(id) {
            prefetch(cell);
        }
    }

    /// Prefetches the distribution of a series. The cell must already be in the cache.
    #[inline]
    pub(crate) fn prefetch_sketch(&self, id: u32) {
        if let Some(entry) = self.cells.get(id).map(Cell::payload).filter(|entry| *entry != 0) {
            self.sketches.get(entry as u32).prefetch();
        }
    }

    /// Adds a value without a timestamp to a series that is not a set.
    #[inline(always)]
    pub(crate) fn add_plain(&mut self, id: u32, value: f64, point: &Point<'_>) {
        self.counts.taken += 1;
        self.put(id, value, weight(point), point);
    }

    /// Adds a value that represents `weight` points.
    #[inline(always)]
    fn put(&mut self, id: u32, value: f64, weight: f64, point: &Point<'_>) {
        // Turns -0 into 0, which is the same number.
        let (value, cell) = (value + 0.0, self.cells.entry(id));
        match point.kind.class() {
            Class::Sum => cell.add(saturating(value * weight)),
            Class::Last => cell.set(value, point.arrived),
            Class::Sketch | Class::Set => {
                let entry = cell.entry(|| self.sketches.take());
                self.sketches.get_mut(entry).add(value, weight);
            }
        }
    }

    /// Adds all values of a point to the series.
    #[inline]
    pub(crate) fn add(&mut self, id: u32, point: &Point<'_>, limits: &Limits, hashing: &Hashing) {
        match point.values {
            Values::Number(value) => {
                self.add_number(id, value, point, limits, hashing);
                self.counts.taken += 1;
            }
            Values::Numbers(values) => {
                let finite = values.iter().filter(|value| value.is_finite());
                let taken = finite
                    .map(|value| self.add_number(id, *value, point, limits, hashing))
                    .count() as u64;
                self.counts.taken += taken;
                self.counts.add(Reason::NotFinite, values.len() as u64 - taken);
            }
            Values::Change(by) => {
                self.cells.entry(id).change(by, point.arrived);
                self.counts.taken += 1;
            }
            Values::Member(text) => self.add_member(id, hashing.of_text(text), limits),
        }
    }

    #[inline]
    fn add_number(
        &mut self,
        id: u32,
        value: f64,
        point: &Point<'_>,
        limits: &Limits,
        hashing: &Hashing,
    ) {
        if point.timestamp.is_none() || !self.add_timed(id, value + 0.0, point, limits, hashing) {
            self.put(id, value, weight(point), point);
        }
    }

    /// Adds a value under its timestamp. Returns false if timestamps are not used for the kind, or
    /// if there are too many values with timestamps.
    fn add_timed(
        &mut self,
        id: u32,
        value: f64,
        point: &Point<'_>,
        limits: &Limits,
        hashing: &Hashing,
    ) -> bool {
        let Some(timestamp) = point.timestamp.filter(|_| uses_timestamps(point.kind)) else {
            return false;
        };
        let hash = hashing.of_place(id, timestamp);
        let Some(to) = self.timed.entry(id, timestamp, hash, limits.timed) else {
            self.counts.add(Reason::Timed, 1);
            return false;
        };
        let class = point.kind.class();
        let value = if class == Class::Sum { saturating(value * weight(point)) } else { value };
        add_timed(class, to, value, point.arrived);
        self.cells.entry(id).state |= TIMED;
        true
    }

    fn add_member(&mut self, id: u32, hash: u64, limits: &Limits) {
        let entry = self.cells.entry(id).entry(|| self.sets.take());
        let set = self.sets.get_mut(entry);
        if set.len() < limits.members || set.contains(&hash) {
            set.insert(hash);
            self.counts.taken += 1;
        } else {
            self.counts.add(Reason::Members, 1);
        }
    }
}

/// Returns the number of client-side points that a point represents.
#[inline(always)]
fn weight(point: &Point<'_>) -> f64 {
    // Skips the division in the common case, because it takes longer than all other steps.
    if point.sample_rate == 1.0 { 1.0 } else { saturating(1.0 / point.sample_rate) }
}

/// Returns whether client timestamps are used for this kind.
fn uses_timestamps(kind: Kind) -> bool {
    matches!(kind, Kind::TimedStore | Kind::Count | Kind::Gauge)
}
