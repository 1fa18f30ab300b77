//! Checks that merging and draining in steps produces the same results as in one step, and that a
//! drain stops where the caller breaks.

use millstream_series::limits::READING_TIMED_MAX;
use millstream_series::{
    Aggregate, Counts, Drain, Generation, Kind, Limits, Point, Progress, Reading, Shard, Store,
    Summaries, TagStyle, Values,
};
use std::ops::ControlFlow;

const SERIES: u64 = 3000;

const POINT: Point<'static> = Point {
    kind: Kind::Count,
    name: b"n",
    tags: b"",
    values: Values::Number(1.0),
    sample_rate: 1.0,
    timestamp: None,
    arrived: 1,
};

fn shard() -> Shard {
    Shard::new(TagStyle::DogStatsd, &Limits::default(), 1)
}

/// Adds points to series of every kind. Later rounds add more series.
fn fill(shard: &mut Shard, round: u64) {
    for series in 0..SERIES + round * 500 {
        let kind = Kind::ALL[series as usize % Kind::ALL.len()];
        let text = format!("host:{series}");
        let values =
            if kind == Kind::Set { Values::Member(b"m") } else { Values::Number(series as f64) };
        let timestamp = (series % 3 == round % 3).then_some(series as i64 % 7);
        shard.add(&Point { kind, tags: text.as_bytes(), values, timestamp, ..POINT });
    }
}

/// Formats a reading as text, because a reading cannot outlive the drain.
fn line(reading: &Reading<'_>) -> String {
    let aggregate = match reading.aggregate {
        Aggregate::Sketch(sketch) => format!("{} {:?}", sketch.sum(), sketch.quantiles([0.5])),
        other => format!("{other:?}"),
    };
    format!(
        "{:?} {} {} {aggregate} {:?}",
        reading.key, reading.since, reading.is_fresh, reading.timed
    )
}

fn drain_in_steps(store: &mut Store, most: usize, lines: &mut Vec<String>) -> (Counts, usize) {
    let (mut drain, mut steps): (Drain, usize) = (store.begin_drain(), 0);
    loop {
        let before = lines.len();
        let progress = drain.step(store, most, |reading| {
            lines.push(line(reading));
            ControlFlow::Continue(())
        });
        assert!(lines.len() - before <= most);
        steps += 1;
        if let Progress::Done(counts) = progress {
            return (counts, steps);
        }
    }
}

#[test]
fn steps_of_any_size_give_the_same_result() {
    for size in [1, 7, 1000, usize::MAX] {
        let [mut whole, mut parts] =
            [(); 2].map(|()| (shard(), Store::new(1, 2, 1), Generation::default()));
        for round in [0, 1, 2, 1, 1, 1, 0] {
            let [mut expected, mut found] = [Vec::new(), Vec::new()];
            let (shard, store, spare) = &mut whole;
            fill(shard, round);
            *spare = store.merge(0, shard.swap_generation(std::mem::take(spare)));
            let counts = store.drain(|reading| expected.push(line(reading)));
            shard.evict(&mut store.take_idle(0), usize::MAX);

            let (shard, store, spare) = &mut parts;
            fill(shard, round);
            let mut merging = store.begin_merge(0, shard.swap_generation(std::mem::take(spare)));
            let mut steps = 1;
            while !merging.step(store, size) {
                steps += 1;
            }
            *spare = merging.into_spare();
            assert!(steps >= SERIES as usize / size, "{steps} steps");
            let (counts_of, steps) = drain_in_steps(store, size, &mut found);
            assert!(steps >= SERIES as usize / size, "{steps} steps");
            let mut idle = store.take_idle(0);
            while shard.evict(&mut idle, size) {}

            assert_eq!((&found, counts_of), (&expected, counts));
            assert_eq!((store.len(), shard.series()), (whole.1.len(), whole.0.series()));
        }
    }
}

#[test]
fn a_step_ends_where_the_caller_breaks() {
    let (mut shard, mut store) = (shard(), Store::new(1, 2, 1));
    fill(&mut shard, 0);
    store.merge(0, shard.swap_generation(Generation::default()));
    let (mut drain, mut given, mut steps) = (store.begin_drain(), 0, 0);
    let is_done = |progress| matches!(progress, Progress::Done(_));
    while !is_done(drain.step(&mut store, usize::MAX, |_| {
        given += 1;
        if given % 100 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })) {
        steps += 1;
        assert_eq!(given, steps * 100);
    }
    assert_eq!(given, SERIES as usize);
}

#[test]
fn many_timestamps_of_a_series_are_split_into_readings() {
    let (mut shard, mut store) = (shard(), Store::new(1, 2, 1));
    let timestamps = 2 * READING_TIMED_MAX as i64 + 5;
    for timestamp in (0..timestamps).rev() {
        shard.add(&Point { timestamp: Some(timestamp), ..POINT });
    }
    shard.add(&POINT);
    store.merge(0, shard.swap_generation(Generation::default()));
    let (mut timed, mut outputs, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
    store.drain(|reading| {
        assert!(reading.timed.len() <= READING_TIMED_MAX);
        timed.extend(reading.timed.iter().map(|(timestamp, _)| *timestamp));
        firsts.push(!matches!(reading.aggregate, Aggregate::Rest));
        reading.outputs(10.0, Some(&Summaries::default()), |output| outputs.push(output.timestamp));
    });
    assert_eq!(timed, (0..timestamps).collect::<Vec<_>>());
    assert_eq!(firsts, [true, false, false]);
    assert_eq!(outputs.iter().filter(|timestamp| timestamp.is_none()).count(), 1);
    assert_eq!(outputs.len(), timed.len() + 1);
}

#[test]
#[should_panic(expected = "is in progress")]
fn a_drain_cannot_begin_during_a_merge() {
    let (mut shard, mut store) = (shard(), Store::new(1, 2, 1));
    let _merging = store.begin_merge(0, shard.swap_generation(Generation::default()));
    store.begin_drain();
}

/// The last of many new series is merged first, and needs the links of all the others.
#[test]
fn links_of_new_series_are_created_in_steps() {
    const STEP: usize = 100;
    let (mut shard, mut store) = (shard(), Store::new(1, 2, 1));
    for series in 0..SERIES {
        let text = format!("host:{series}");
        shard.add(&Point { tags: text.as_bytes(), ..POINT });
    }
    let mut merging = store.begin_merge(0, shard.swap_generation(Generation::default()));
    let mut steps = 0;
    while store.is_empty() {
        assert!(!merging.step(&mut store, STEP));
        steps += 1;
    }
    assert!(steps > SERIES as usize / STEP / 4, "{steps}");
    while !merging.step(&mut store, STEP) {}
    assert_eq!(store.len(), SERIES as usize);
}
