//! Last values and their changes across shards, swaps and periods.

use millstream_series::{
    Aggregate, Generation, Kind, Limits, Point, Shard, Store, Summaries, TagStyle, Values,
};

const SHARDS: usize = 2;

struct Rig {
    shards: Vec<Shard>,
    store: Store,
    arrived: u64,
}

impl Rig {
    fn new() -> Rig {
        let shard = || Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
        let shards = (0..SHARDS).map(|_| shard()).collect();
        Rig { shards, store: Store::new(SHARDS, 100, 1), arrived: 0 }
    }

    fn add(&mut self, shard: usize, values: Values<'static>) {
        self.arrived += 1;
        self.shards[shard].add(&Point {
            kind: Kind::Gauge,
            name: b"level",
            tags: b"",
            values,
            sample_rate: 1.0,
            timestamp: None,
            arrived: self.arrived,
        });
    }

    fn merge(&mut self, shard: usize) {
        let generation = self.shards[shard].swap_generation(Generation::default());
        self.store.merge(shard, generation);
    }

    /// Merges the shards in this order and ends the period. Returns the value.
    fn period(&mut self, order: [usize; SHARDS]) -> f64 {
        order.into_iter().for_each(|shard| self.merge(shard));
        let mut found = Vec::new();
        self.store.drain(|reading| {
            let Aggregate::Last(Some(value)) = reading.aggregate else { panic!("another class") };
            found.push(value);
        });
        assert_eq!(found.len(), 1);
        found[0]
    }
}

const ORDERS: [[usize; SHARDS]; 2] = [[0, 1], [1, 0]];

#[test]
fn a_change_adds_to_the_value_of_earlier_periods() {
    for order in ORDERS {
        let mut rig = Rig::new();
        rig.add(0, Values::Number(10.0));
        assert_eq!(rig.period(order), 10.0);
        rig.add(1, Values::Change(-3.0));
        assert_eq!(rig.period(order), 7.0);
        assert_eq!(rig.period(order), 7.0);
        rig.add(0, Values::Change(1.0));
        rig.add(1, Values::Change(1.5));
        assert_eq!(rig.period(order), 9.5);
    }
}

#[test]
fn a_change_of_another_shard_adds_only_to_an_earlier_value() {
    for order in ORDERS {
        let mut rig = Rig::new();
        rig.add(0, Values::Number(10.0));
        rig.add(1, Values::Change(2.0));
        assert_eq!(rig.period(order), 12.0, "{order:?}");
        rig.add(1, Values::Change(100.0));
        rig.add(0, Values::Number(20.0));
        assert_eq!(rig.period(order), 20.0, "{order:?}");
        rig.add(0, Values::Change(1.0));
        assert_eq!(rig.period(order), 21.0, "changes of earlier periods are not added again");
    }
}

#[test]
fn the_latest_value_of_several_shards_wins() {
    for order in ORDERS {
        let mut rig = Rig::new();
        for (shard, value) in [(0, 1.0), (1, 2.0), (0, 3.0)] {
            rig.add(shard, Values::Number(value));
        }
        assert_eq!(rig.period(order), 3.0);
        rig.add(1, Values::Number(4.0));
        rig.add(1, Values::Change(0.5));
        assert_eq!(rig.period(order), 4.5);
    }
}

#[test]
fn several_swaps_in_a_period_equal_one() {
    let mut rig = Rig::new();
    for values in
        [Values::Number(1.0), Values::Change(2.0), Values::Number(5.0), Values::Change(-1.0)]
    {
        rig.add(0, values);
        rig.merge(0);
    }
    assert_eq!(rig.period([0, 1]), 4.0);
    rig.add(0, Values::Change(f64::MAX));
    rig.add(1, Values::Change(f64::MAX));
    assert_eq!(rig.period([1, 0]), f64::MAX);
}

#[test]
fn a_gauge_whose_values_all_have_timestamps_has_no_value_of_the_period() {
    let mut shard = Shard::new(TagStyle::DogStatsd, &Limits::default(), 1);
    let mut store = Store::new(1, 10, 1);
    let mut all = Vec::new();
    for (timestamp, value) in [(Some(100), 5.0), (None, 7.0), (Some(200), 9.0)] {
        let values = Values::Number(value);
        let sample_rate = 1.0;
        shard.add(&Point {
            kind: Kind::Gauge,
            name: b"g",
            tags: b"",
            values,
            sample_rate,
            timestamp,
            arrived: 1,
        });
        store.merge(0, shard.swap_generation(Generation::default()));
        store.drain(|reading| {
            reading.outputs(10.0, Some(&Summaries::default()), |output| {
                all.push((output.timestamp, output.value))
            })
        });
    }
    assert_eq!(all, [(Some(100), 5.0), (None, 7.0), (None, 7.0), (Some(200), 9.0)]);
}
