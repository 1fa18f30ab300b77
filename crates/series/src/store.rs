//! The side of the flusher: the generations of all shards become one value for each series and period.

use crate::chunks::Chunks;
use crate::counts::Counts;
use crate::generation::{Generation, Timed, add_timed, is_absolute};
use crate::hashing::Hashing;
use crate::key::SeriesKey;
use crate::point::{Class, Kind};
use crate::pool::{Members, Pool};
use crate::sketch::{Sketch, saturating};
use hashbrown::HashTable;

/// What a period without points has come to.
static EMPTY: Sketch = Sketch::EMPTY;

/// No series.
const NONE: u32 = u32::MAX;

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
    /// Numbers of series that have been idle for long.
    idle: Vec<u32>,
}

/// One series of all shards.
#[derive(Debug)]
struct Series {
    /// `None` while the entry is free.
    key: Option<SeriesKey>,
    /// Shards that know it.
    links: u32,
    /// Number of the period in which it was new.
    since: u32,
    /// The sum of the period; the last value of all time.
    value: f64,
    /// 0 while the period has no points without timestamp; else, of sums their number, of last values their
    /// stamp, of distributions and sets the number in the pool.
    mark: u64,
    /// The sum of all time.
    total: f64,
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
    /// The last value, of this period or of one before; 0 if all had timestamps.
    Last(f64),
    /// A distribution of the period.
    Sketch(&'a Sketch),
    /// How many different members there were in the period.
    Set(u64),
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
    /// Values with a timestamp (Unix seconds), by rising timestamp: sums, or last values.
    pub timed: &'a [(i64, f64)],
}

/// All series of one source.
///
/// At the end of a period every shard is turned, and what it hands over is merged here; then
/// [`Store::drain`] gives every series once and begins the next period. Points that come meanwhile are in the
/// shards' next generations.
#[derive(Debug)]
pub struct Store {
    shards: Vec<Shard>,
    hashing: Hashing,
    table: HashTable<u32>,
    series: Chunks<Series>,
    free: Vec<u32>,
    sketches: Pool<Sketch>,
    sets: Pool<Members>,
    timed: Timed,
    counts: Counts,
    idle_max: u32,
    period: u32,
}

impl Store {
    /// A store for this many shards. A series is let go after `idle_max` generations without points; `seed` is
    /// that of the shards.
    pub fn new(shards: usize, idle_max: u32, seed: u64) -> Store {
        let shard = || Shard { links: Chunks::default(), idle: Vec::new() };
        Store {
            shards: (0..shards).map(|_| shard()).collect(),
            hashing: Hashing::new(seed),
            table: HashTable::new(),
            series: Chunks::default(),
            free: Vec::new(),
            sketches: Pool::default(),
            sets: Pool::default(),
            timed: Timed::default(),
            counts: Counts::default(),
            idle_max: idle_max.max(1),
            period: 0,
        }
    }

    /// Takes what a shard has handed over, in the order in which it did; returns it emptied, for a later turn.
    ///
    /// # Panics
    /// If there is no such shard, or `generation` is another one's.
    pub fn merge(&mut self, shard: usize, mut generation: Generation) -> Generation {
        for id in &generation.gone {
            let link = &mut self.shards[shard].links[*id];
            self.series[std::mem::replace(&mut link.series, NONE)].links -= 1;
        }
        for (id, key) in generation.born.drain(..) {
            let series = self.series_of(key);
            self.link(shard, id, series);
        }
        for id in 0..self.shards[shard].links.len() as u32 {
            self.absorb(shard, id, &generation);
        }
        for ((id, timestamp), value) in &generation.timed {
            let series = self.shards[shard].links[*id].series;
            let class = self.kind(series).class();
            if class == Class::Sum {
                let total = &mut self.series[series].total;
                *total = saturating(*total + value.0);
            }
            add_timed(&mut self.timed, class, (series, *timestamp), *value);
        }
        self.counts.merge(&generation.counts);
        generation.clear();
        generation
    }

    /// Takes the numbers of the shard's series that have become idle, for [`crate::Shard::forget`].
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn take_idle(&mut self, shard: usize) -> Vec<u32> {
        std::mem::take(&mut self.shards[shard].idle)
    }

    /// Gives every series to `each` and begins the next period; returns what was counted in this one.
    pub fn drain(&mut self, mut each: impl FnMut(&Reading<'_>)) -> Counts {
        let mut timed: Vec<(u32, i64, f64)> =
            self.timed.drain().map(|((id, at), (v, _))| (id, at, v)).collect();
        timed.sort_unstable_by_key(|(id, at, _)| (*id, *at));
        let (mut rest, mut own) = (&timed[..], Vec::new());
        for id in 0..self.series.len() as u32 {
            let count = rest.iter().take_while(|(of, ..)| *of == id).count();
            own.clear();
            own.extend(rest[..count].iter().map(|(_, at, value)| (*at, *value)));
            rest = &rest[count..];
            if let Some(reading) = self.reading(id, &own) {
                each(&reading);
            }
            self.end_period(id);
        }
        self.sketches.clear();
        self.sets.clear();
        self.period += 1;
        std::mem::take(&mut self.counts)
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.series.len() - self.free.len()
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kind(&self, series: u32) -> Kind {
        // An entry in use has a key.
        self.series[series].key.as_ref().map_or(Kind::Counter, SeriesKey::kind)
    }

    fn hash(hashing: &Hashing, key: &SeriesKey) -> u64 {
        hashing.of_text(key.bytes())
    }

    fn series_of(&mut self, key: SeriesKey) -> u32 {
        let hash = Store::hash(&self.hashing, &key);
        if let Some(at) = self.table.find(hash, |at| self.series[*at].key.as_ref() == Some(&key)) {
            return *at;
        }
        let new = Series { key: Some(key), links: 0, since: self.period, value: 0.0, mark: 0, total: 0.0 };
        let at = match self.free.pop() {
            Some(at) => {
                self.series[at] = new;
                at
            }
            None => {
                self.series.push(new);
                self.series.len() as u32 - 1
            }
        };
        let (series, hashing) = (&self.series, &self.hashing);
        let hash_of = |at: &u32| series[*at].key.as_ref().map_or(0, |key| Store::hash(hashing, key));
        self.table.insert_unique(hash, at, hash_of);
        at
    }

    fn link(&mut self, shard: usize, id: u32, series: u32) {
        let links = &mut self.shards[shard].links;
        while links.len() <= id as usize {
            links.push(Link { series: NONE, idle: 0 });
        }
        links[id] = Link { series, idle: 0 };
        self.series[series].links += 1;
    }

    /// Adds what the generation has of one series.
    fn absorb(&mut self, shard: usize, id: u32, generation: &Generation) {
        let Shard { links, idle } = &mut self.shards[shard];
        let link = &mut links[id];
        if link.series == NONE {
            return;
        }
        if generation.is_empty(id) {
            link.idle = link.idle.saturating_add(1);
            if link.idle == self.idle_max {
                idle.push(id);
            }
            return;
        }
        link.idle = 0;
        let (to, cell) = (link.series, generation.cells[id]);
        match (cell.payload(), self.kind(to).class()) {
            (0, _) => {}
            (points, Class::Sum) => self.series[to].add(cell.value, points),
            (stamp, Class::Last) => self.series[to].set(cell.value, stamp),
            (entry, Class::Sketch) => {
                let entry_of = self.series[to].entry(|| self.sketches.take());
                self.sketches.get_mut(entry_of).merge(generation.sketches.get(entry as u32));
            }
            (entry, Class::Set) => {
                let entry_of = self.series[to].entry(|| self.sets.take());
                self.sets.get_mut(entry_of).extend(generation.sets.get(entry as u32));
            }
        }
    }

    fn reading<'a>(&'a self, id: u32, timed: &'a [(i64, f64)]) -> Option<Reading<'a>> {
        let series = &self.series[id];
        let key = series.key.as_ref()?;
        let (entry, is_fresh) = (series.mark as u32, series.mark != 0);
        let aggregate = match key.kind().class() {
            Class::Sum => Aggregate::Sum { delta: series.value, total: series.total, points: series.mark },
            Class::Last => Aggregate::Last(series.value),
            Class::Sketch if is_fresh => Aggregate::Sketch(self.sketches.get(entry)),
            Class::Sketch => Aggregate::Sketch(&EMPTY),
            Class::Set if is_fresh => Aggregate::Set(self.sets.get(entry).len() as u64),
            Class::Set => Aggregate::Set(0),
        };
        Some(Reading { key, since: series.since, is_fresh, aggregate, timed })
    }

    /// Begins the next period of a series, or lets it go if no shard knows it.
    fn end_period(&mut self, id: u32) {
        let series = &mut self.series[id];
        let Some(key) = &series.key else { return };
        series.mark = 0;
        if key.kind().class() == Class::Sum {
            series.value = 0.0;
        }
        if series.links == 0 {
            let hash = Store::hash(&self.hashing, key);
            if let Ok(entry) = self.table.find_entry(hash, |at| *at == id) {
                entry.remove();
            }
            series.key = None;
            self.free.push(id);
        }
    }
}

impl Series {
    fn add(&mut self, sum: f64, points: u64) {
        self.value = saturating(self.value + sum);
        self.total = saturating(self.total + sum);
        self.mark += points;
    }

    /// Of several shards' values the one that arrived last stands; changes are added.
    fn set(&mut self, value: f64, stamp: u64) {
        match is_absolute(stamp) {
            true if stamp >= self.mark => self.value = value,
            true => return,
            false => self.value = saturating(self.value + value),
        }
        self.mark = self.mark.max(stamp);
    }

    fn entry(&mut self, take: impl FnOnce() -> u32) -> u32 {
        if self.mark == 0 {
            self.mark = u64::from(take());
        }
        self.mark as u32
    }
}
