//! The flusher's part of the store, which merges the generations of all shards into one value per
//! series and period.

mod drain;
mod merging;

pub use drain::{Drain, Progress};
pub use merging::Merging;

use crate::chunks::Chunks;
use crate::counts::Counts;
use crate::generation::Generation;
use crate::hashing::Hashing;
use crate::index::Index;
use crate::key::SeriesKey;
use crate::point::Kind;
use crate::pool::{Members, Pool};
use crate::shard::Idle;
use crate::sketch::{Sketch, saturating};
use crate::tags::Canonical;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Links a shard's series id to a series in the store.
#[derive(Clone, Copy, Debug)]
struct Link {
    series: u32,
    /// Number of consecutive generations without a point.
    idle: u32,
}

#[derive(Debug)]
struct Shard {
    links: Chunks<Link>,
    /// Series that have been idle for too long.
    idle: Idle,
}

/// A series that combines one series of each shard.
#[derive(Debug)]
struct Series {
    /// Key of the series. `None` if the entry is free.
    key: Option<SeriesKey>,
    kind: Kind,
    /// Number of shards that contain the series.
    links: u16,
    /// The period in which the series was created.
    since: u32,
    /// The sum of the period, or the last value.
    value: f64,
    /// 0 while the period has no points without a timestamp. Otherwise, for a sum, the number of
    /// points; for a last value, the stamp of its absolute value, or of the latest change if there
    /// is no absolute value; for a distribution or set, the pool number.
    state: u64,
    /// For a sum, the total of all periods. For a last value, above 0 once a past period had a
    /// value.
    total: f64,
}

/// Changes to a last value in the period, from generations without an absolute value.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    sum: f64,
    /// The latest stamp.
    stamp: u64,
}

/// The aggregate of a series.
#[derive(Clone, Copy, Debug)]
pub enum Aggregate<'a> {
    /// A sum. Points with a timestamp count only toward `total`.
    Sum {
        /// Sum of the period.
        delta: f64,
        /// Sum since the series was created.
        total: f64,
        /// Number of points in the period.
        points: u64,
    },
    /// The last value from this or an earlier period. `None` if all values had timestamps.
    Last(Option<f64>),
    /// The distribution of the period.
    Sketch(&'a Sketch),
    /// Number of distinct members in the period.
    Set(u64),
    /// No aggregate. The reading contains only more timed values for the series of the previous
    /// reading.
    Rest,
}

/// The state of a series at the end of a period.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Kind, name and tags.
    pub key: &'a SeriesKey,
    /// The period in which the series was created, counted from 0. If this number changes, the
    /// series was recreated, and `total` restarted at 0.
    pub since: u32,
    /// Whether the period has points without a timestamp.
    pub is_fresh: bool,
    /// Aggregate of the points without a timestamp.
    pub aggregate: Aggregate<'a>,
    /// Sums or last values by timestamp in Unix seconds, in ascending order. If there are more than
    /// [`crate::limits::READING_TIMED_MAX`], additional readings with [`Aggregate::Rest`] follow.
    pub timed: &'a [(i64, f64)],
}

/// All series of one source.
///
/// At the end of a period, every shard swaps its generation, and the store merges the generations.
/// Then every series is drained once, and the next period begins. Points that arrive in the
/// meantime go to the shards' next generations.
///
/// With a million series, this takes too long for a thread that has other work.
/// [`Store::begin_merge`] and [`Store::begin_drain`] therefore run in steps whose size the caller
/// chooses.
#[derive(Debug)]
pub struct Store {
    shards: Vec<Shard>,
    hashing: Hashing,
    /// Series, indexed by the hash of their canonical key.
    index: Index,
    /// Scratch space for the canonical text of a series, and for the canonical text of another
    /// series to which it is compared.
    scratch: [Canonical; 2],
    series: Chunks<Series>,
    free: Chunks<u32>,
    sketches: Pool<Sketch>,
    sets: Pool<Members>,
    /// Value and arrival, by series and timestamp.
    timed: BTreeMap<(u32, i64), (f64, u64)>,
    changes: BTreeMap<u32, Changes>,
    counts: Counts,
    idle_max: u32,
    period: u32,
    /// Whether a merge or drain is in progress.
    is_busy: bool,
}

impl Store {
    /// Creates a store for `shards` shards. A series is idle after `idle_max` generations without
    /// points. `seed` must be the same as for the shards.
    ///
    /// # Panics
    /// Panics if there are 65,536 or more shards.
    pub fn new(shards: usize, idle_max: u32, seed: u64) -> Store {
        assert!(shards <= usize::from(u16::MAX), "{shards} shards are too many");
        let shard = || Shard { links: Chunks::default(), idle: Idle::default() };
        Store {
            shards: (0..shards).map(|_| shard()).collect(),
            hashing: Hashing::new(seed),
            index: Index::default(),
            scratch: [(); 2].map(|()| Canonical::default()),
            series: Chunks::default(),
            free: Chunks::default(),
            sketches: Pool::default(),
            sets: Pool::default(),
            timed: BTreeMap::new(),
            changes: BTreeMap::new(),
            counts: Counts::default(),
            idle_max: idle_max.max(1),
            period: 0,
            is_busy: false,
        }
    }

    /// Begins to merge a generation of a shard. The result merges it in steps. The generations of a
    /// shard must be merged in order. Until the last step is done, the store must not be used in
    /// any other way.
    ///
    /// # Panics
    /// Panics if the shard does not exist, or if a merge or drain is in progress. A step panics if
    /// `generation` belongs to another shard.
    pub fn begin_merge(&mut self, shard: usize, generation: Generation) -> Merging {
        Merging::new(self, shard, generation)
    }

    /// Merges a generation of a shard in one step (see [`Store::begin_merge`]). Returns the empty
    /// generation for a later swap.
    ///
    /// # Panics
    /// Panics like [`Store::begin_merge`].
    pub fn merge(&mut self, shard: usize, generation: Generation) -> Generation {
        let mut merging = self.begin_merge(shard, generation);
        while !merging.step(self, usize::MAX) {}
        merging.into_spare()
    }

    /// Takes the shard's idle series. Pass them to [`crate::Shard::evict`] before the shard's next
    /// swap.
    ///
    /// # Panics
    /// Panics if the shard does not exist.
    pub fn take_idle(&mut self, shard: usize) -> Idle {
        std::mem::take(&mut self.shards[shard].idle)
    }

    /// Begins to drain every series at the end of a period. The result drains them in steps. Until
    /// the last step is done, the store must not be used in any other way.
    ///
    /// # Panics
    /// Panics if a merge or drain is in progress.
    pub fn begin_drain(&mut self) -> Drain {
        Drain::new(self)
    }

    /// Passes every series to `each` in one step (see [`Store::begin_drain`]), and begins the next
    /// period. Returns the counts of the previous period.
    ///
    /// # Panics
    /// Panics like [`Store::begin_drain`].
    pub fn drain(&mut self, mut each: impl FnMut(&Reading<'_>)) -> Counts {
        let mut drain = self.begin_drain();
        loop {
            let step = drain.step(self, usize::MAX, |reading| {
                each(reading);
                ControlFlow::Continue(())
            });
            if let Progress::Done(counts) = step {
                return counts;
            }
        }
    }

    fn begin(&mut self) {
        assert!(!self.is_busy, "a merge or drain of the store is in progress");
        self.is_busy = true;
    }

    /// Returns the number of series.
    pub fn len(&self) -> usize {
        self.series.len() - self.free.len()
    }

    /// Returns whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Series {
    fn add(&mut self, sum: f64, points: u64) {
        self.value = saturating(self.value + sum);
        self.total = saturating(self.total + sum);
        self.state += points;
    }

    fn entry(&mut self, take: impl FnOnce() -> u32) -> u32 {
        if self.state == 0 {
            self.state = u64::from(take());
        }
        self.state as u32
    }
}
