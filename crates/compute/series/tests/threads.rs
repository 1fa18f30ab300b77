//! Points arrive on several threads while periods end. Checks that no point is lost or counted
//! twice.

use millstream_series::{
    Aggregate, Generation, Kind, Limits, Point, Shard, Store, TagStyle, Values,
};
use std::sync::mpsc;
use std::thread;

const SHARDS: usize = 3;
const POINTS: u64 = 60_000;
/// Number of points between two swaps of the first shard. Each additional shard has one more.
const SWAP_POINTS: u64 = 700;

/// Runs a receiver that adds points and swaps its generation at regular intervals.
fn receive(
    number: usize,
    kind: Kind,
    filled: &mpsc::Sender<(usize, Generation)>,
    empty: &mpsc::Receiver<Generation>,
) {
    let mut shard = Shard::new(TagStyle::Pairs, &Limits::default(), 5);
    for point in 0..POINTS {
        let tags = format!("b={}|a={}", point % 13, point % 7);
        let values = Values::Numbers(&[2.0]);
        let tags = tags.as_bytes();
        shard.add(&Point {
            kind,
            name: b"n",
            tags,
            values,
            sample_rate: 0.5,
            timestamp: None,
            arrived: point,
        });
        if point % (SWAP_POINTS + number as u64) == 0 {
            let spare = empty.try_recv().unwrap_or_default();
            filled.send((number, shard.swap_generation(spare))).expect("the store is there");
        }
    }
    filled
        .send((number, shard.swap_generation(Generation::default())))
        .expect("the store is there");
}

/// Returns the sum of all values over all periods, and the number of series.
fn sums(kind: Kind) -> (f64, usize) {
    let (filled, generations) = mpsc::channel();
    let mut store = Store::new(SHARDS, 1000, 5);
    let (mut sum, mut merged) = (0.0, 0);
    thread::scope(|scope| {
        let mut empties = Vec::new();
        for number in 0..SHARDS {
            let (back, empty) = mpsc::channel();
            empties.push(back);
            let filled = filled.clone();
            scope.spawn(move || receive(number, kind, &filled, &empty));
        }
        drop(filled);
        let mut drain = |store: &mut Store| {
            store.drain(|reading| match reading.aggregate {
                Aggregate::Sum { delta, .. } => sum += delta,
                Aggregate::Sketch(sketch) => sum += sketch.sum(),
                _ => panic!("another kind"),
            });
        };
        for (shard, generation) in generations {
            // This is an error if the receiver has exited.
            let _ = empties[shard].send(store.merge(shard, generation));
            merged += 1;
            if merged % 10 == 0 {
                drain(&mut store);
            }
        }
        drain(&mut store);
    });
    (sum, store.len())
}

#[test]
fn sums_are_conserved_across_periods() {
    for kind in [Kind::Counter, Kind::Timer] {
        assert_eq!(sums(kind), (SHARDS as f64 * POINTS as f64 * 4.0, 7 * 13), "{kind:?}");
    }
}
