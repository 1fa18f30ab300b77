//! The side of the flusher: the generations of all shards become one value for each series and
//! period.

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

/// Work of what has to be looked up or let go, in series that are known.
pub const LOOKUP_WORK: usize = 8;

/// What a shard's number of a series means.
#[derive(Clone, Copy, Debug)]
struct Link {
    series: u32,
    /// Generations without a point, one after the other.
    idle: u32,
}

#[derive(Debug)]
struct Shard {
    links: Chunks<Link>,
    /// Series that have been idle for long.
    idle: Idle,
}

/// One series of all shards.
#[derive(Debug)]
struct Series {
    /// `None` while the entry is free.
    key: Option<SeriesKey>,
    kind: Kind,
    /// Shards that know it.
    links: u16,
    /// Number of the period in which it was new.
    since: u32,
    /// The sum of the period; the last value of all time.
    value: f64,
    /// 0 while the period has no points without timestamp; else, of sums their number, of last
    /// values the stamp of the one that stands alone, else of the latest change, of distributions
    /// and sets the number in the pool.
    mark: u64,
    /// The sum of all time; of last values more than 0 once a period has ended that had one.
    total: f64,
}

/// Changes of a last value in a period, from generations that had none that stands alone.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    sum: f64,
    /// The latest stamp.
    stamp: u64,
}

/// What the points of a series have come to.
#[derive(Clone, Copy, Debug)]
pub enum Aggregate<'a> {
    /// Points were added; what came with a timestamp is part of `total` only.
    Sum {
        /// Sum of the period.
        delta: f64,
        /// Sum since the series was new.
        total: f64,
        /// Number of points in the period.
        points: u64,
    },
    /// The last value, of this period or of one before; `None` while all had timestamps.
    Last(Option<f64>),
    /// A distribution of the period.
    Sketch(&'a Sketch),
    /// How many different members there were in the period.
    Set(u64),
    /// Nothing new: the reading only has more of the timed values of the one before, which has the
    /// same key.
    Rest,
}

/// A series at the end of a period.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// What it is called.
    pub key: &'a SeriesKey,
    /// Number of the period in which it was new, from 0 on: where it differs, `total` began anew.
    pub since: u32,
    /// Whether points without timestamp came in this period.
    pub is_fresh: bool,
    /// What they have come to.
    pub aggregate: Aggregate<'a>,
    /// Values with a timestamp (Unix seconds), by rising timestamp: sums, or last values. At most
    /// [`crate::limits::READING_TIMED_MAX`]; what is more comes in further readings, as
    /// [`Aggregate::Rest`].
    pub timed: &'a [(i64, f64)],
}

/// All series of one source.
///
/// At the end of a period every shard is turned, and what it hands over is merged here; then all
/// series are drained, each once, and the next period begins. Points that come meanwhile are in the
/// shards' next generations.
///
/// With a million series this takes long for a thread that has other work too. So
/// [`Store::begin_merge`] and [`Store::begin_drain`] go in steps, each of as much as the caller
/// likes, one after the other.
#[derive(Debug)]
pub struct Store {
    shards: Vec<Shard>,
    hashing: Hashing,
    /// Numbers of series by the hash of their canonical key.
    index: Index,
    /// Room for the canonical text of a series, and for that of one to compare it with.
    room: [Canonical; 2],
    series: Chunks<Series>,
    free: Chunks<u32>,
    sketches: Pool<Sketch>,
    sets: Pool<Members>,
    /// By series and timestamp; value and arrival.
    timed: BTreeMap<(u32, i64), (f64, u64)>,
    changes: BTreeMap<u32, Changes>,
    counts: Counts,
    idle_max: u32,
    period: u32,
    /// A merge or a drain has begun and not ended.
    is_busy: bool,
}

impl Store {
    /// A store for this many shards. A series is let go after `idle_max` generations without
    /// points; `seed` is that of the shards.
    ///
    /// # Panics
    /// If there are 65,536 shards or more.
    pub fn new(shards: usize, idle_max: u32, seed: u64) -> Store {
        assert!(shards <= usize::from(u16::MAX), "{shards} shards are too many");
        let shard = || Shard { links: Chunks::default(), idle: Idle::default() };
        Store {
            shards: (0..shards).map(|_| shard()).collect(),
            hashing: Hashing::new(seed),
            index: Index::default(),
            room: [(); 2].map(|()| Canonical::default()),
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

    /// Begins to take what a shard has handed over, in the order in which it did. Nothing else is
    /// done with the store before the last step.
    ///
    /// # Panics
    /// If there is no such shard, or a merge or drain has not ended; a step, if `generation` is
    /// another shard's.
    pub fn begin_merge(&mut self, shard: usize, generation: Generation) -> Merging {
        Merging::new(self, shard, generation)
    }

    /// Takes all that a shard has handed over, as [`Store::begin_merge`] does in steps; returns it
    /// emptied, for a later turn.
    ///
    /// # Panics
    /// As [`Store::begin_merge`].
    pub fn merge(&mut self, shard: usize, generation: Generation) -> Generation {
        let mut merging = self.begin_merge(shard, generation);
        while !merging.step(self, usize::MAX) {}
        merging.into_spare()
    }

    /// Takes the shard's series that have become idle, for [`crate::Shard::forget`] before its next
    /// turn.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn take_idle(&mut self, shard: usize) -> Idle {
        std::mem::take(&mut self.shards[shard].idle)
    }

    /// Begins to give every series, at the end of a period. Nothing else is done with the store
    /// before the last step.
    ///
    /// # Panics
    /// If a merge or drain has not ended.
    pub fn begin_drain(&mut self) -> Drain {
        Drain::new(self)
    }

    /// Gives every series to `each` and begins the next period, as [`Store::begin_drain`] does in
    /// steps; returns what was counted in this one.
    ///
    /// # Panics
    /// As [`Store::begin_drain`].
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
        assert!(!self.is_busy, "a merge or drain of the store has not ended");
        self.is_busy = true;
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.series.len() - self.free.len()
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Series {
    fn add(&mut self, sum: f64, points: u64) {
        self.value = saturating(self.value + sum);
        self.total = saturating(self.total + sum);
        self.mark += points;
    }

    fn entry(&mut self, take: impl FnOnce() -> u32) -> u32 {
        if self.mark == 0 {
            self.mark = u64::from(take());
        }
        self.mark as u32
    }
}
