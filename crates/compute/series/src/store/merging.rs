//! Merges a generation into the store in steps.

use super::{Link, Series, Shard, Store};
use crate::generation::{Cell, Generation, Timed, add_timed, is_absolute};
use crate::index::NONE;
use crate::key::SeriesKey;
use crate::point::Class;
use crate::pool::{Pool, Pooled};
use crate::shard::Idle;
use crate::sketch::saturating;
use crate::work::LOOKUP_WORK;

/// Fixed cost of merging a distribution or set. Also the number of values or members that together
/// cost one unit.
const ENTRY_WORK: usize = 8;

/// Number of links that can be created for the cost of one series. The last new series is merged
/// first, so its link and the links of all other new series are created at once.
const NEW_LINKS: usize = 2;

/// A merge in progress (see [`Store::begin_merge`]).
#[derive(Debug)]
pub struct Merging {
    shard: usize,
    generation: Generation,
    /// The next series id in the shard.
    at: u32,
}

impl Merging {
    pub(super) fn new(store: &mut Store, shard: usize, mut generation: Generation) -> Merging {
        store.begin();
        store.counts.merge(&std::mem::take(&mut generation.counts));
        store.shards[shard].idle = Idle { generation: generation.number + 1, ids: Vec::new() };
        Merging { shard, generation, at: 0 }
    }

    /// Continues the merge up to the cost of `series` (1 or more) counters, which take about 20 ns
    /// each. A new series costs as much as several counters. Returns whether the merge is done.
    ///
    /// # Panics
    /// Panics if the generation belongs to another shard.
    pub fn step(&mut self, store: &mut Store, series: usize) -> bool {
        let mut budget = series.max(1);
        let is_done = self.merge_removed(store, &mut budget)
            && self.merge_added(store, &mut budget)
            && self.merge_timed(store, &mut budget)
            && self.merge_cells(store, &mut budget)
            && self.generation.sketches.reset(&mut budget)
            && self.generation.sets.reset(&mut budget);
        if is_done {
            store.is_busy = false;
        }
        is_done
    }

    /// Returns the empty generation for a later swap of its shard. Any data that is not merged yet
    /// is lost.
    pub fn into_spare(self) -> Generation {
        self.generation
    }

    fn merge_removed(&mut self, store: &mut Store, budget: &mut usize) -> bool {
        while *budget > 0 {
            let Some(id) = self.generation.removed.pop() else { return true };
            let link = &mut store.shards[self.shard].links[id];
            store.series[std::mem::replace(&mut link.series, NONE)].links -= 1;
            *budget = budget.saturating_sub(LOOKUP_WORK);
        }
        false
    }

    fn merge_added(&mut self, store: &mut Store, budget: &mut usize) -> bool {
        while *budget > 0 {
            let Some(last) = self.generation.added.len().checked_sub(1) else { return true };
            if !store.make_links(self.shard, self.generation.added[last as u32].0, budget) {
                return false;
            }
            let Some((id, key)) = self.generation.added.pop() else { return true };
            // Periods with many new series are rare, so this memory is freed.
            self.generation.added.trim();
            let series = store.series_of(key);
            store.link(self.shard, id, series);
            *budget = budget.saturating_sub(LOOKUP_WORK);
        }
        false
    }

    fn merge_timed(&mut self, store: &mut Store, budget: &mut usize) -> bool {
        while *budget > 0 {
            let Some(timed) = self.generation.timed.pop() else { return true };
            store.add_timed(self.shard, timed);
            *budget = budget.saturating_sub(LOOKUP_WORK);
        }
        false
    }

    fn merge_cells(&mut self, store: &mut Store, budget: &mut usize) -> bool {
        while (self.at as usize) < store.shards[self.shard].links.len() {
            if *budget == 0 {
                return false;
            }
            let cell = self.generation.cells.take(self.at).unwrap_or_default();
            *budget = budget.saturating_sub(store.absorb(
                self.shard,
                self.at,
                cell,
                &mut self.generation,
            ));
            self.at += 1;
        }
        true
    }
}

impl Link {
    /// Counts a generation without points. Returns whether to report the series as idle. A series
    /// can be reported repeatedly, because the shard might not have evicted it.
    fn count_idle(&mut self, idle_max: u32) -> bool {
        self.idle = self.idle.saturating_add(1);
        self.idle.is_multiple_of(idle_max)
    }
}

impl Store {
    /// Returns the series with this key. Creates a missing series.
    fn series_of(&mut self, key: SeriesKey) -> u32 {
        let [scratch, other] = &mut self.scratch;
        let (header, canonical) = (key.header(), key.canonical_text(scratch));
        let hash = self.hashing.of(&header, key.name(), canonical);
        let mut is_it =
            |candidate: &SeriesKey| candidate.means(&header, key.name(), canonical, other);
        let is_it = |at| self.series[at].key.as_ref().is_some_and(&mut is_it);
        if let Some(at) = self.index.find(hash, is_it) {
            return at;
        }
        let (kind, since) = (key.kind(), self.period);
        let new =
            Series { key: Some(key), kind, links: 0, since, value: 0.0, state: 0, total: 0.0 };
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

    /// Creates the links of a shard up to `id`, as far as the budget allows. Returns whether `id`
    /// has a link.
    fn make_links(&mut self, shard: usize, id: u32, budget: &mut usize) -> bool {
        let links = &mut self.shards[shard].links;
        while links.len() <= id as usize && *budget > 0 {
            let new = (id as usize + 1 - links.len()).min(NEW_LINKS);
            (0..new).for_each(|_| links.push(Link { series: NONE, idle: 0 }));
            *budget -= 1;
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
        let (value, arrived) = timed.value;
        add_timed(series.kind.class(), to, value, arrived);
    }

    /// Merges a cell of the generation, and clears the sketch or set to which the cell refers.
    /// Returns the cost.
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

    /// Merges a last value. If several shards have absolute values, the latest one wins, and later
    /// changes are added to it.
    fn set(&mut self, at: u32, value: f64, stamp: u64) {
        let series = &mut self.series[at];
        if is_absolute(series.state) && stamp < series.state {
            return;
        }
        if is_absolute(stamp) {
            let later = self.changes.get(&at).filter(|changes| changes.stamp > stamp).copied();
            if later.is_none() {
                self.changes.remove(&at);
            }
            series.value = saturating(value + later.unwrap_or_default().sum);
            series.state = stamp;
            return;
        }
        let changes = self.changes.entry(at).or_default();
        changes.sum = saturating(changes.sum + value);
        changes.stamp = changes.stamp.max(stamp);
        series.value = saturating(series.value + value);
        if !is_absolute(series.state) {
            series.state = changes.stamp;
        }
    }
}

/// Merges a pool entry into another entry and clears it. Returns the cost.
fn merge_entry<T: Pooled>(pool: &mut Pool<T>, entry: u32, to: &mut T) -> usize {
    let from = pool.get_mut(entry);
    let work = ENTRY_WORK + from.len() / ENTRY_WORK;
    to.merge(from);
    from.clear();
    work
}
