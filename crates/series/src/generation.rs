//! What a shard has taken in since it was last asked.

use crate::chunks::Chunks;
use crate::counts::{Counts, Reason};
use crate::hashing::Hashing;
use crate::key::SeriesKey;
use crate::limits::Limits;
use crate::point::{ARRIVED_MAX, Class, Kind, Point, Values};
use crate::pool::{Members, Pool};
use crate::sketch::{Sketch, saturating};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use millstream_scan::prefetch;

/// What the points of one series have come to, in 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// The sum, or the last value.
    pub value: f64,
    /// 0 while there is nothing. [`TIMED`], and below: of a sum the number of points; of a last value [`stamp`];
    /// of a distribution or a set its number in the pool.
    mark: u64,
}

/// There are values with a timestamp.
const TIMED: u64 = 1 << 63;

impl Cell {
    pub fn is_empty(&self) -> bool {
        self.mark == 0
    }

    /// What the mark says beside [`TIMED`].
    pub fn payload(&self) -> u64 {
        self.mark & !TIMED
    }

    fn add(&mut self, value: f64) {
        self.value = saturating(self.value + value);
        self.mark += 1;
    }

    fn set(&mut self, value: f64, arrived: u64) {
        *self = Cell { value, mark: self.mark & TIMED | stamp(arrived, true) };
    }

    fn change(&mut self, by: f64, arrived: u64) {
        self.value = saturating(self.value + by);
        self.mark = self.mark & TIMED | stamp(arrived, is_absolute(self.mark));
    }

    /// The number of its entry in a pool, taken from it if need be.
    fn entry(&mut self, take: impl FnOnce() -> u32) -> u32 {
        if self.payload() == 0 {
            self.mark |= u64::from(take());
        }
        self.payload() as u32
    }
}

/// When a last value arrived, in the upper bits, and whether it stands alone: else it is a change of the one before.
pub fn stamp(arrived: u64, absolute: bool) -> u64 {
    arrived.clamp(1, ARRIVED_MAX) << 1 | u64::from(absolute)
}

/// Whether the last value of a [`stamp`] stands alone.
pub fn is_absolute(stamp: u64) -> bool {
    stamp & 1 == 1
}

/// Values with a timestamp by series and timestamp, with the time of arrival.
pub type Timed = HashMap<(u32, i64), (f64, u64), FixedState>;

/// Adds a value with a timestamp to others: sums grow, of last values the latest stands.
pub fn add_timed(timed: &mut Timed, class: Class, place: (u32, i64), (value, arrived): (f64, u64)) {
    let entry = timed.entry(place).or_insert((0.0, 0));
    match class {
        Class::Sum => *entry = (saturating(entry.0 + value), entry.1.max(arrived)),
        _ if arrived >= entry.1 => *entry = (value, arrived),
        _ => {}
    }
}

/// The contents of a shard between two turns. An empty one is `default()`; the store gives back the one that it
/// merged, emptied, for the turn after the next.
#[derive(Clone, Debug, Default)]
pub struct Generation {
    /// By the shard's number of a series.
    pub(crate) cells: Chunks<Cell>,
    pub(crate) sketches: Pool<Sketch>,
    pub(crate) sets: Pool<Members>,
    pub(crate) timed: Timed,
    /// Series that are new since the last turn.
    pub(crate) born: Vec<(u32, SeriesKey)>,
    /// Series that were let go since the last turn, before those were born.
    pub(crate) gone: Vec<u32>,
    pub(crate) counts: Counts,
}

impl Generation {
    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn is_empty(&self, id: u32) -> bool {
        id as usize >= self.cells.len() || self.cells[id].is_empty()
    }

    /// Asks for the cell of a series.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        if (id as usize) < self.cells.len() {
            prefetch(&self.cells[id]);
        }
    }

    /// Adds the values of a point to the series.
    #[inline]
    pub(crate) fn add(&mut self, id: u32, point: &Point<'_>, limits: &Limits, hashing: &Hashing) {
        self.cells.grow(id as usize + 1);
        match point.values {
            Values::Number(value) => {
                // -0 becomes 0, which is the same number.
                self.add_number(id, value + 0.0, point, limits);
                self.counts.taken += 1;
            }
            Values::Numbers(values) => {
                let finite = values.iter().filter(|value| value.is_finite());
                let taken =
                    finite.map(|value| self.add_number(id, *value + 0.0, point, limits)).count() as u64;
                self.counts.taken += taken;
                self.counts.add(Reason::NotFinite, values.len() as u64 - taken);
            }
            Values::Change(by) => {
                self.cells[id].change(by, point.arrived);
                self.counts.taken += 1;
            }
            Values::Member(text) => self.add_member(id, hashing.of_text(text), limits),
        }
    }

    #[inline]
    fn add_number(&mut self, id: u32, value: f64, point: &Point<'_>, limits: &Limits) {
        // A division takes longer than all else that is done with the value.
        let weight = if point.sample_rate == 1.0 { 1.0 } else { saturating(1.0 / point.sample_rate) };
        let cell = &mut self.cells[id];
        match point.kind.class() {
            class @ (Class::Sum | Class::Last) => {
                let value = if class == Class::Sum { saturating(value * weight) } else { value };
                match point.timestamp.filter(|_| heeds_timestamps(point.kind)) {
                    Some(timestamp)
                        if self.timed.len() < limits.timed || self.timed.contains_key(&(id, timestamp)) =>
                    {
                        cell.mark |= TIMED;
                        return add_timed(&mut self.timed, class, (id, timestamp), (value, point.arrived));
                    }
                    Some(_) => self.counts.add(Reason::Timed, 1),
                    None => {}
                }
                match class {
                    Class::Sum => cell.add(value),
                    _ => cell.set(value, point.arrived),
                }
            }
            Class::Sketch | Class::Set => {
                let entry = cell.entry(|| self.sketches.take());
                self.sketches.get_mut(entry).add(value, weight);
            }
        }
    }

    fn add_member(&mut self, id: u32, hash: u64, limits: &Limits) {
        let entry = self.cells[id].entry(|| self.sets.take());
        let set = self.sets.get_mut(entry);
        if set.len() < limits.members || set.contains(&hash) {
            set.insert(hash);
            self.counts.taken += 1;
        } else {
            self.counts.add(Reason::Members, 1);
        }
    }

    /// Forgets everything and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.cells.iter_mut().for_each(|cell| *cell = Cell::default());
        self.sketches.clear();
        self.sets.clear();
        self.timed.clear();
        // Few periods have many of them.
        self.born = Vec::new();
        self.gone = Vec::new();
        self.counts = Counts::default();
    }
}

/// Kinds whose clients say when a value was, and mean it.
fn heeds_timestamps(kind: Kind) -> bool {
    matches!(kind, Kind::TimedStore | Kind::Count | Kind::Gauge)
}
