//! Drains the store in steps at the end of a period.

use super::{Aggregate, Reading, Store};
use crate::counts::Counts;
use crate::limits::READING_TIMED_MAX;
use crate::point::Class;
use crate::sketch::Sketch;
use crate::work::LOOKUP_WORK;
use std::ops::ControlFlow;

/// The distribution for a period without points.
static EMPTY: Sketch = Sketch::EMPTY;

/// A drain in progress (see [`Store::begin_drain`]).
#[derive(Debug)]
pub struct Drain {
    /// Id of the next series.
    at: u32,
    /// Whether the first reading for that series has already been passed on.
    is_begun: bool,
    /// Timed values of the current reading.
    timed: Vec<(i64, f64)>,
}

/// The result of a drain step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There might be more series.
    More,
    /// All series are drained, and the next period has begun. The counts are for the previous
    /// period.
    Done(Counts),
}

impl Drain {
    pub(super) fn new(store: &mut Store) -> Drain {
        store.begin();
        Drain { at: 0, is_begun: false, timed: Vec::new() }
    }

    /// Passes up to `most` (1 or more) readings to `each`. Passes fewer readings if they have many
    /// timestamps or if series are removed. If `each` breaks, the next step continues after the
    /// last reading that was passed.
    pub fn step(
        &mut self,
        store: &mut Store,
        most: usize,
        mut each: impl FnMut(&Reading<'_>) -> ControlFlow<()>,
    ) -> Progress {
        let mut budget = most.max(1);
        while (self.at as usize) < store.series.len() {
            if budget == 0 {
                return Progress::More;
            }
            self.take_timed(store);
            budget = budget.saturating_sub(self.timed.len());
            let reading = store.reading(self.at, !self.is_begun, &self.timed);
            let flow = reading.map_or(ControlFlow::Continue(()), |reading| each(&reading));
            self.is_begun =
                store.timed.first_key_value().is_some_and(|((id, _), _)| *id == self.at);
            if !self.is_begun {
                budget = budget.saturating_sub(store.end_period(self.at));
                self.at += 1;
            }
            if flow.is_break() {
                return Progress::More;
            }
        }
        store.end(&mut budget)
    }

    /// Takes the next timed values of the current series.
    fn take_timed(&mut self, store: &mut Store) {
        self.timed.clear();
        while let Some(entry) = store.timed.first_entry().filter(|entry| entry.key().0 == self.at)
            && self.timed.len() < READING_TIMED_MAX
        {
            let ((_, timestamp), (value, _)) = entry.remove_entry();
            self.timed.push((timestamp, value));
        }
    }
}

impl Store {
    fn reading<'a>(
        &'a self,
        id: u32,
        is_first: bool,
        timed: &'a [(i64, f64)],
    ) -> Option<Reading<'a>> {
        let series = &self.series[id];
        let key = series.key.as_ref()?;
        let (entry, is_fresh) = (series.state as u32, series.state != 0);
        let aggregate = match series.kind.class() {
            _ if !is_first => Aggregate::Rest,
            Class::Sum => {
                Aggregate::Sum { delta: series.value, total: series.total, points: series.state }
            }
            Class::Last => {
                Aggregate::Last((is_fresh || series.total > 0.0).then_some(series.value))
            }
            Class::Sketch if is_fresh => Aggregate::Sketch(self.sketches.get(entry)),
            Class::Sketch => Aggregate::Sketch(&EMPTY),
            Class::Set if is_fresh => Aggregate::Set(self.sets.get(entry).len() as u64),
            Class::Set => Aggregate::Set(0),
        };
        Some(Reading { key, since: series.since, is_fresh, aggregate, timed })
    }

    /// Begins the next period of a series, or removes the series if all shards have dropped it.
    /// Returns the cost.
    fn end_period(&mut self, id: u32) -> usize {
        let series = &mut self.series[id];
        match (std::mem::take(&mut series.state), series.kind.class()) {
            (_, Class::Sum) => series.value = 0.0,
            (stamp, Class::Last) => {
                series.total += f64::from(stamp != 0);
                self.changes.remove(&id);
            }
            (0, _) => {}
            (entry, Class::Sketch) => self.sketches.get_mut(entry as u32).clear(),
            (entry, Class::Set) => self.sets.get_mut(entry as u32).clear(),
        }
        if series.links == 0
            && let Some(key) = series.key.take()
        {
            let canonical = key.canonical_text(&mut self.scratch[0]);
            self.index.remove(self.hashing.of(&key.header(), key.name(), canonical), id);
            self.free.push(id);
            return LOOKUP_WORK;
        }
        1
    }

    /// Resets the pools. When the reset is complete, begins the next period.
    fn end(&mut self, budget: &mut usize) -> Progress {
        if !(self.sketches.reset(budget) && self.sets.reset(budget)) {
            return Progress::More;
        }
        self.period += 1;
        self.is_busy = false;
        Progress::Done(std::mem::take(&mut self.counts))
    }
}
