//! Groups points before they are added to a shard.

use millstream_series::{Class, Kind, Point, Shard, Values};

/// Number of points in a group, which is the number that a shard looks up together.
const GROUPED_POINTS: usize = 32;

/// Fills unused entries.
const NO_POINT: Point<'static> = Point {
    kind: Kind::Count,
    name: b"",
    tags: b"",
    values: Values::Number(0.0),
    sample_rate: 1.0,
    timestamp: None,
    arrived: 0,
};

/// Collects the points of one or more messages, and adds them to a shard in groups. Points keep
/// their order if the order matters for their kind.
///
/// Dropping the value adds the buffered points to the shard. During a panic, they are discarded
/// instead.
#[derive(Debug)]
pub struct Grouped<'s, 'a> {
    shard: &'s mut Shard,
    points: [Point<'a>; GROUPED_POINTS],
    len: usize,
}

impl<'s, 'a> Grouped<'s, 'a> {
    /// Creates an empty group.
    pub fn new(shard: &'s mut Shard) -> Grouped<'s, 'a> {
        Grouped { shard, points: [NO_POINT; GROUPED_POINTS], len: 0 }
    }

    /// Adds a point to the group. Flushes the group first if it is full.
    #[inline(always)]
    pub fn add(&mut self, point: Point<'a>) {
        if self.len == GROUPED_POINTS {
            self.flush();
        }
        self.points[self.len] = point;
        self.len += 1;
    }

    /// Adds a point to the shard immediately, because its values are valid only during the call. If
    /// order matters for the kind, the buffered points are added first.
    pub fn add_now(&mut self, point: &Point<'_>) {
        if matches!(point.kind.class(), Class::Last | Class::Set) {
            self.flush();
        }
        self.shard.add(point);
    }

    /// Adds the buffered points to the shard.
    pub fn flush(&mut self) {
        // Reset the length first, so that points are not added a second time if the shard panics.
        let len = std::mem::take(&mut self.len);
        self.shard.add_all(&self.points[..len]);
    }
}

impl Drop for Grouped<'_, '_> {
    fn drop(&mut self) {
        // A second panic would abort the process.
        if !std::thread::panicking() {
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_series::{Aggregate, Generation, Limits, Store, TagStyle};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Returns the last value of a gauge after `count` points. Some of the points are added
    /// immediately.
    fn last(count: u32) -> Option<f64> {
        let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        let mut grouped = Grouped::new(&mut shard);
        for at in 0..count {
            let value = Values::Number(f64::from(at));
            let point = Point { kind: Kind::Gauge, name: b"g", values: value, ..NO_POINT };
            if at % 41 == 40 { grouped.add_now(&point) } else { grouped.add(point) }
        }
        drop(grouped);
        let (mut store, mut last) = (Store::new(1, 10, 1), None);
        let generation = shard.swap_generation(Generation::default());
        assert_eq!(generation.counts().taken, u64::from(count));
        store.merge(0, generation);
        store.drain(|reading| match reading.aggregate {
            Aggregate::Last(value) => last = value,
            other => panic!("{other:?}"),
        });
        last
    }

    #[test]
    fn last_values_reach_the_shard_in_order() {
        assert_eq!(last(0), None);
        (1..100).for_each(|count| assert_eq!(last(count), Some(f64::from(count - 1))));
    }

    /// Returns the number of points that a shard has accepted after `fill` panicked.
    fn accepted_after_panic(fill: impl FnOnce(Grouped<'_, '_>)) -> u64 {
        let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        catch_unwind(AssertUnwindSafe(|| fill(Grouped::new(&mut shard)))).unwrap_err();
        shard.swap_generation(Generation::default()).counts().taken
    }

    #[test]
    fn a_panic_adds_no_point_twice_and_causes_no_second_panic() {
        let point = Point { name: b"c", ..NO_POINT };
        let with_buffered_points = |mut grouped: Grouped<'_, '_>| {
            (0..GROUPED_POINTS + 3).for_each(|_| grouped.add(point));
            panic!("in the caller");
        };
        assert_eq!(accepted_after_panic(with_buffered_points), GROUPED_POINTS as u64);
        let within_flush = |mut grouped: Grouped<'_, '_>| {
            grouped.add(point);
            grouped.len = GROUPED_POINTS + 1;
            grouped.flush();
        };
        assert_eq!(accepted_after_panic(within_flush), 0);
        let flushed_again = |mut grouped: Grouped<'_, '_>| {
            grouped.len = GROUPED_POINTS + 1;
            let panic = catch_unwind(AssertUnwindSafe(|| grouped.flush())).unwrap_err();
            grouped.add(point);
            grouped.flush();
            std::panic::resume_unwind(panic);
        };
        assert_eq!(accepted_after_panic(flushed_again), 1);
    }
}
