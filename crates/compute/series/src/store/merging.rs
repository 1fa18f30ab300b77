//! What a shard has handed over, taken in steps.

use super::{LOOKUP_WORK, Link, Series, Shard, Store};
use crate::generation::{Cell, Generation, Timed, add_timed, is_absolute};
use crate::index::NONE;
use crate::key::SeriesKey;
use crate::point::Class;
use crate::pool::{Pool, Pooled};
use crate::shard::Idle;
use crate::sketch::saturating;

/// Work of a distribution or set; beside it each has as many values or members for one.
const ENTRY_WORK: usize = 8;

/// Links that are made for the work of one series: those of many new series are made at once, as
/// the last of them comes first.
const NEW_LINKS: usize = 2;

/// A merge that has begun, see [`Store::begin_merge`].
#[derive(Debug)]
pub struct Merging {
    shard: usize,
    generation: Generation,
    /// The next of the shard's numbers of a series.
    at: u32,
}

impl Merging {
    pub(super) fn new(store: &mut Store, shard: usize, mut generation: Generation) -> Merging {
        store.begin();
        store.counts.merge(&std::mem::take(&mut generation.counts));
        store.shards[shard].idle = Idle { generation: generation.number + 1, ids: Vec::new() };
        Merging { shard, generation, at: 0 }
    }

    /// Does as much as `series` (1 or more) counters take, some 20 ns each; a series that is new
    /// counts as several. Returns whether all is done.
    ///
    /// # Panics
    /// If the generation is not of this shard.
    pub fn step(&mut self, store: &mut Store, series: usize) -> bool {
        let mut rest = series.max(1);
        let is_done = self.gone(store, &mut rest)
            && self.born(store, &mut rest)
            && self.timed(store, &mut rest)
            && self.cells(store, &mut rest)
            && self.generation.sketches.reset(&mut rest)
            && self.generation.sets.reset(&mut rest);
        if is_done {
            store.is_busy = false;
        }
        is_done
    }

    /// The generation, emptied, for a later turn of its shard. What was not merged is lost.
    pub fn into_spare(self) -> Generation {
        self.generation
    }

    fn gone(&mut self, store: &mut Store, rest: &mut usize) -> bool {
        while *rest > 0 {
            let Some(id) = self.generation.gone.pop() else { return true };
            let link = &mut store.shards[self.shard].links[id];
            store.series[std::mem::replace(&mut link.series, NONE)].links -= 1;
            *rest = rest.saturating_sub(LOOKUP_WORK);
        }
        false
    }

    fn born(&mut self, store: &mut Store, rest: &mut usize) -> bool {
        while *rest > 0 {
            let Some(last) = self.generation.born.len().checked_sub(1) else { return true };
            if !store.make_links(self.shard, self.generation.born[last as u32].0, rest) {
                return false;
            }
            let Some((id, key)) = self.generation.born.pop() else { return true };
            // Few periods have many of them.
            self.generation.born.trim();
            let series = store.series_of(key);
            store.link(self.shard, id, series);
            *rest = rest.saturating_sub(LOOKUP_WORK);
        }
        false
    }

    fn timed(&mut self, store: &mut Store, rest: &mut usize) -> bool {
        while *rest > 0 {
            let Some(timed) = self.generation.timed.pop() else { return true };
            store.add_timed(self.shard, timed);
            *rest = rest.saturating_sub(LOOKUP_WORK);
        }
        false
    }

    fn cells(&mut self, store: &mut Store, rest: &mut usize) -> bool {
        while (self.at as usize) < store.shards[self.shard].links.len() {
            if *rest == 0 {
                return false;
            }
            let cell = self.generation.cells.take(self.at).unwrap_or_default();
            *rest =
                rest.saturating_sub(store.absorb(self.shard, self.at, cell, &mut self.generation));
            self.at += 1;
        }
        true
    }
}

impl Link {
    /// Counts a generation without points; whether the series is to be let go. It is said more than
    /// once: the shard may not have come to it.
    fn count_idle(&mut self, idle_max: u32) -> bool {
        self.idle = self.idle.saturating_add(1);
        self.idle.is_multiple_of(idle_max)
    }
}

impl Store {
    /// The number of a series, which is new if need be.
    fn series_of(&mut self, key: SeriesKey) -> u32 {
        let [room, other] = &mut self.room;
        let (header, canonical) = (key.header(), key.canonical_text(room));
        let hash = self.hashing.of(&header, key.name(), canonical);
        let mut is_it =
            |candidate: &SeriesKey| candidate.means(&header, key.name(), canonical, other);
        let is_it = |at| self.series[at].key.as_ref().is_some_and(&mut is_it);
        if let Some(at) = self.index.find(hash, is_it) {
            return at;
        }
        let (kind, since) = (key.kind(), self.period);
        let new = Series { key: Some(key), kind, links: 0, since, value: 0.0, mark: 0, total: 0.0 };
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
        self.index.insert(hash, at);
        at
    }

    /// Makes the links of a shard up to this one, as far as the `rest` of the work goes; whether it
    /// is there.
    fn make_links(&mut self, shard: usize, id: u32, rest: &mut usize) -> bool {
        let links = &mut self.shards[shard].links;
        while links.len() <= id as usize && *rest > 0 {
            let new = (id as usize + 1 - links.len()).min(NEW_LINKS);
            (0..new).for_each(|_| links.push(Link { series: NONE, idle: 0 }));
            *rest -= 1;
        }
        links.len() > id as usize
    }

    fn link(&mut self, shard: usize, id: u32, series: u32) {
        self.shards[shard].links[id] = Link { series, idle: 0 };
        self.series[series].links += 1;
    }

    fn add_timed(&mut self, shard: usize, timed: Timed) {
        let at = self.shards[shard].links[timed.id].series;
        let series = &mut self.series[at];
        if series.kind.class() == Class::Sum {
            series.total = saturating(series.total + timed.value.0);
        }
        let to = self.timed.entry((at, timed.timestamp)).or_default();
        add_timed(series.kind.class(), to, timed.value);
    }

    /// Adds what the generation had of one series, and empties it; returns what work that was.
    fn absorb(&mut self, shard: usize, id: u32, cell: Cell, generation: &mut Generation) -> usize {
        let Shard { links, idle } = &mut self.shards[shard];
        let link = &mut links[id];
        if link.series == NONE {
            return 1;
        }
        if cell.is_empty() {
            if link.count_idle(self.idle_max) {
                idle.ids.push(id);
            }
            return 1;
        }
        link.idle = 0;
        let at = link.series;
        let to = &mut self.series[at];
        match (cell.payload(), to.kind.class()) {
            (0, _) => 1,
            (points, Class::Sum) => {
                to.add(cell.value, points);
                1
            }
            (stamp, Class::Last) => {
                self.set(at, cell.value, stamp);
                1
            }
            (entry, Class::Sketch) => {
                let to = to.entry(|| self.sketches.take());
                merge_entry(&mut generation.sketches, entry as u32, self.sketches.get_mut(to))
            }
            (entry, Class::Set) => {
                let to = to.entry(|| self.sets.take());
                merge_entry(&mut generation.sets, entry as u32, self.sets.get_mut(to))
            }
        }
    }

    /// Of several shards' last values the one that arrived last stands; changes are added, but for
    /// those that came before it.
    fn set(&mut self, at: u32, value: f64, stamp: u64) {
        let series = &mut self.series[at];
        if is_absolute(series.mark) && stamp < series.mark {
            return;
        }
        if is_absolute(stamp) {
            let later = self.changes.get(&at).filter(|changes| changes.stamp > stamp).copied();
            if later.is_none() {
                self.changes.remove(&at);
            }
            series.value = saturating(value + later.unwrap_or_default().sum);
            series.mark = stamp;
            return;
        }
        let changes = self.changes.entry(at).or_default();
        changes.sum = saturating(changes.sum + value);
        changes.stamp = changes.stamp.max(stamp);
        series.value = saturating(series.value + value);
        if !is_absolute(series.mark) {
            series.mark = changes.stamp;
        }
    }
}

/// Adds an entry of a pool to another one and empties it; returns what work that was.
fn merge_entry<T: Pooled>(pool: &mut Pool<T>, entry: u32, to: &mut T) -> usize {
    let from = pool.get_mut(entry);
    let work = ENTRY_WORK + from.len() / ENTRY_WORK;
    to.merge(from);
    from.clear();
    work
}
