//! Limits, overflow, idle series, tags, and values that are not finite.

use millstream_series::{
    Aggregate, Canonical, Class, Counts, Generation, Kind, Limits, OVERFLOW_NAME, Point, Reading,
    Reason, Shard, Store, TagStyle, Values,
};
use std::collections::{BTreeMap, BTreeSet};

const SEED: u64 = 3;

/// A shard and its store.
struct Rig {
    shard: Shard,
    store: Store,
    spare: Generation,
}

/// Readings from a drain: value and freshness by name and tags.
type Readings = BTreeMap<(String, String), (f64, bool)>;

impl Rig {
    fn new(style: TagStyle, limits: &Limits) -> Rig {
        let shard = Shard::new(style, limits, SEED);
        Rig { shard, store: Store::new(1, 2, SEED), spare: Generation::default() }
    }

    fn count(&mut self, name: &str, tags: &str, value: f64) {
        let values = Values::Numbers(std::slice::from_ref(&value));
        self.shard.add(&Point { name: name.as_bytes(), tags: tags.as_bytes(), values, ..POINT });
    }

    fn period(&mut self) -> (Readings, Counts) {
        let generation = self.shard.swap_generation(std::mem::take(&mut self.spare));
        self.spare = self.store.merge(0, generation);
        let mut readings = Readings::new();
        let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let mut scratch = Canonical::default();
        let counts = self.store.drain(|reading| {
            let value = match reading.aggregate {
                Aggregate::Sum { delta, .. } => delta,
                Aggregate::Last(last) => last.unwrap_or_default(),
                Aggregate::Sketch(sketch) => sketch.weight(),
                Aggregate::Set(members) => members as f64,
                Aggregate::Rest => panic!("few timestamps"),
            };
            let key =
                (string(reading.key.name()), string(reading.key.canonical_text(&mut scratch)));
            assert!(readings.insert(key, (value, reading.is_fresh)).is_none());
        });
        (readings, counts)
    }
}

const POINT: Point<'static> = Point {
    kind: Kind::Count,
    name: b"n",
    tags: b"",
    values: Values::Numbers(&[1.0]),
    sample_rate: 1.0,
    timestamp: None,
    arrived: 1,
};

fn tags_of(style: TagStyle, tags: &str) -> String {
    let mut rig = Rig::new(style, &Limits::default());
    rig.count("n", tags, 1.0);
    rig.period().0.into_keys().next().expect("one series").1
}

#[test]
fn points_beyond_the_series_limit_go_to_the_overflow_series() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits { series: 10, ..Limits::default() });
    for round in 0..3 {
        for series in 0..25 {
            rig.count(&format!("n{series}"), "b:1,a:2", f64::from(round * 100 + series));
        }
    }
    let (readings, counts) = rig.period();
    let overflow = readings[&(String::from_utf8_lossy(OVERFLOW_NAME).into_owned(), String::new())];
    // Series 10 to 24 overflow in three rounds. The overflow series counts as one series.
    assert_eq!(readings.len(), 11);
    assert_eq!(counts.of(Reason::Series), 45);
    assert_eq!(overflow.0, (10..25).map(|series| f64::from(3 * series + 300)).sum::<f64>());
    assert_eq!(readings.values().map(|(value, _)| value).sum::<f64>(), 3.0 * 300.0 + 25.0 * 300.0);
    assert_eq!(counts.taken, 75);
}

/// Returns the aggregate of all points of a series, with or without a timestamp.
fn all_of(reading: &Reading<'_>) -> f64 {
    match reading.aggregate {
        Aggregate::Sum { total, .. } => total,
        Aggregate::Last(last) => {
            reading.timed.first().map_or(last.unwrap_or_default(), |(_, value)| *value)
        }
        Aggregate::Sketch(sketch) => sketch.sum(),
        Aggregate::Set(members) => members as f64,
        Aggregate::Rest => panic!("few timestamps"),
    }
}

#[test]
fn every_kind_but_gauges_has_an_ordinary_overflow_series_with_its_own_name() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits { series: 0, ..Limits::default() });
    let numbers = Values::Numbers(&[2.0, f64::NAN, 4.0]);
    for &kind in Kind::ALL {
        for name in [&b"a"[..], b"b"] {
            let values = if kind == Kind::Set { Values::Member(name) } else { numbers };
            rig.shard.add(&Point { kind, name, values, timestamp: Some(5), ..POINT });
        }
    }
    let mut found = Vec::new();
    let generation = rig.shard.swap_generation(Generation::default());
    rig.store.merge(0, generation);
    let counts = rig.store.drain(|reading| {
        let kind = reading.key.kind();
        assert_eq!(Some(reading.key.name()), kind.overflow_name());
        assert_eq!(reading.key.tags_text(), b"");
        found.push((reading.key.kind(), all_of(reading)));
    });
    found.sort_by_key(|(kind, _)| *kind);
    let (gauges, others): (Vec<Kind>, Vec<Kind>) =
        Kind::ALL.iter().copied().partition(|kind| kind.class() == Class::Last);
    let expected: Vec<_> =
        others.iter().map(|kind| (*kind, if *kind == Kind::Set { 2.0 } else { 12.0 })).collect();
    assert_eq!(found, expected);
    // There are two points of each kind with two finite values each, except for the set.
    let values = (others.len() as u64 - 1) * 4 + 2;
    assert_eq!((counts.of(Reason::Series), counts.taken), (values, values));
    // This includes values that are not finite, because a rejected point counts with all of its
    // values.
    assert_eq!(counts.of(Reason::OverflowGauge), gauges.len() as u64 * 6);
    let names: BTreeSet<_> = others.iter().filter_map(|kind| kind.overflow_name()).collect();
    assert_eq!(names.len(), others.len() - 1, "only the histograms of both protocols share one");
    for _ in 0..2 {
        rig.store.merge(0, rig.shard.swap_generation(Generation::default()));
    }
    rig.shard.evict(&mut rig.store.take_idle(0), usize::MAX);
    assert_eq!(rig.shard.series(), 0, "idle overflow series are evicted, too");
}

#[test]
fn long_names_and_many_tags_go_to_the_overflow_series() {
    let limits = Limits { name_bytes: 5, tags_bytes: 12, tags: 2, ..Limits::default() };
    let mut rig = Rig::new(TagStyle::Pairs, &limits);
    rig.count("toolong", "", 1.0);
    rig.count("n", "abcdefg=123456", 1.0);
    rig.count("n", "a=1|b=2|c=3", 1.0);
    rig.count("n", "a=1|a=2||b=3", 1.0);
    let (readings, counts) = rig.period();
    assert_eq!(
        [Reason::NameBytes, Reason::TagsBytes, Reason::Tags].map(|reason| counts.of(reason)),
        [1, 1, 1]
    );
    assert_eq!(readings[&("millstream.overflow".to_owned(), String::new())].0, 3.0);
    assert_eq!(readings[&("n".to_owned(), "a=2|b=3".to_owned())].0, 1.0);
}

#[test]
fn an_evicted_series_frees_its_place() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits { series: 2, ..Limits::default() });
    rig.count("old", "b,a", 1.0);
    rig.count("old", "a,b", 1.0);
    rig.count("kept", "", 1.0);
    for _ in 0..3 {
        rig.count("kept", "", 1.0);
        rig.period();
        let mut idle = rig.store.take_idle(0);
        rig.shard.evict(&mut idle, usize::MAX);
    }
    assert_eq!(
        (rig.shard.series(), rig.store.len()),
        (1, 2),
        "the store hears of it at the next swap"
    );
    rig.count("new", "", 7.0);
    let (readings, counts) = rig.period();
    assert_eq!(counts.of(Reason::Series), 0);
    assert_eq!(readings[&("new".to_owned(), String::new())], (7.0, true));
    assert_eq!((rig.store.len(), rig.shard.series()), (2, 2));
    // The id of the old series is reused. The old tags must not find the new series, in any order.
    for tags in ["b,a", "a,b", "a,b,a"] {
        rig.count("old", tags, 1.0);
    }
    let (readings, counts) = rig.period();
    assert_eq!(counts.of(Reason::Series), 3);
    assert_eq!(readings[&("new".to_owned(), String::new())], (0.0, false));
}

/// The shard has indexed this order of tags, but not the sorted order.
#[test]
fn an_evicted_series_can_return_with_another_order_of_tags() {
    let mut rig = Rig::new(TagStyle::Pairs, &Limits::default());
    for (tags, period) in ["c=1|b=|a=2", "b=-|a=1|a=2|c=1", "a=2|b=-|c=1"].into_iter().zip(0..) {
        rig.count("n", tags, 1.0);
        let key = ("n".to_owned(), "a=2|b=-|c=1".to_owned());
        assert_eq!(rig.period().0, BTreeMap::from([(key, (1.0, true))]), "{period}");
        (0..2).for_each(|_| drop(rig.period()));
        rig.shard.evict(&mut rig.store.take_idle(0), usize::MAX);
        assert_eq!(rig.shard.series(), 0);
    }
}

#[test]
fn shards_with_other_orders_of_tags_share_their_series() {
    for style in [TagStyle::DogStatsd, TagStyle::Pairs] {
        let orders = [&b"b c a"[..], b"a c b", b"a b c", b"c b a c", b" c  b a "];
        let mut store = Store::new(orders.len(), 2, SEED);
        for (at, order) in orders.into_iter().enumerate() {
            let end = style.syntax().ends[0];
            let order: Vec<u8> =
                order.iter().map(|byte| if *byte == b' ' { end } else { *byte }).collect();
            let mut shard = Shard::new(style, &Limits::default(), SEED);
            // Each of the other series differs in exactly one part.
            for (kind, name, tags) in [
                (Kind::Count, &b"n"[..], &order[..]),
                (Kind::Gauge, b"n", &order),
                (Kind::Count, b"na", &order),
                (Kind::Count, b"n", &order[..3]),
            ] {
                shard.add(&Point { kind, name, tags, ..POINT });
            }
            store.merge(at, shard.swap_generation(Generation::default()));
        }
        let mut sums = Vec::new();
        store.drain(|reading| {
            if let Aggregate::Sum { delta, .. } = reading.aggregate {
                let mut tags = Vec::new();
                reading.key.tags(&mut Canonical::default(), |tag| tags.extend_from_slice(tag.key));
                sums.push((String::from_utf8_lossy(reading.key.name()).into_owned(), tags, delta));
            }
        });
        sums.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let sum = |name: &str, tags: &str, sum| (name.to_owned(), tags.as_bytes().to_vec(), sum);
        let of_n = [("ab", 1.0), ("abc", 5.0), ("ac", 1.0), ("bc", 2.0), ("c", 1.0)];
        let mut expected: Vec<_> = of_n.map(|(tags, delta)| sum("n", tags, delta)).into();
        expected.push(sum("na", "abc", 5.0));
        assert_eq!(sums, expected, "{style:?}");
    }
}

/// A client sends a point with the name of the overflow series, and with only empty tags.
#[test]
fn a_client_can_name_the_overflow_series() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits { series: 1, ..Limits::default() });
    let name = String::from_utf8_lossy(OVERFLOW_NAME).into_owned();
    rig.count(&name, ",,", 1.0);
    for _ in 0..2 {
        rig.count("n", "", 2.0);
    }
    assert_eq!(rig.shard.series(), 1);
    assert_eq!(rig.period().0, BTreeMap::from([((name, String::new()), (5.0, true))]));
}

#[test]
fn a_series_with_new_points_is_not_evicted() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits::default());
    rig.count("n", "", 1.0);
    (0..3).for_each(|_| drop(rig.period()));
    let mut idle = rig.store.take_idle(0);
    assert_eq!(idle.len(), 1);
    rig.count("n", "", 5.0);
    rig.shard.evict(&mut idle, usize::MAX);
    assert_eq!(rig.period().0[&("n".to_owned(), String::new())], (5.0, true));
}

#[test]
fn idle_series_are_not_evicted_after_a_swap_and_are_reported_again() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits::default());
    rig.count("n", "", 1.0);
    (0..3).for_each(|_| drop(rig.period()));
    let mut idle = rig.store.take_idle(0);
    // The point is in a generation that the store has not merged yet.
    rig.count("n", "", 5.0);
    let generation = rig.shard.swap_generation(Generation::default());
    assert!(!rig.shard.evict(&mut idle, usize::MAX));
    assert_eq!(rig.shard.series(), 1);
    rig.spare = rig.store.merge(0, generation);
    (0..2).for_each(|_| drop(rig.period()));
    assert_eq!(rig.store.take_idle(0).len(), 1);
    // The store reports the series as idle again.
    (0..2).for_each(|_| drop(rig.period()));
    assert!(!rig.shard.evict(&mut rig.store.take_idle(0), usize::MAX));
    assert_eq!(rig.shard.series(), 0);
}

#[test]
fn orders_of_tags_beyond_the_limit_are_the_same_series() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits { aliases: 1, ..Limits::default() });
    for tags in ["c,b,a", "b,c,a", "a,b,c", "a,c,b,b", ",c,,b,a,"] {
        (0..2).for_each(|_| rig.count("n", tags, 1.0));
    }
    assert_eq!(
        rig.period().0,
        BTreeMap::from([(("n".to_owned(), "a,b,c".to_owned()), (10.0, true))])
    );
}

#[test]
fn tags_have_one_unambiguous_canonical_form() {
    assert_eq!(tags_of(TagStyle::Pairs, "ab=c|a=bc"), "a=bc|ab=c");
    assert_ne!(tags_of(TagStyle::Pairs, "ab=c"), tags_of(TagStyle::Pairs, "a=bc"));
    assert_eq!(tags_of(TagStyle::Pairs, "k= a|k2=v=w||"), "a=-|k=-|k2=v=w");
    assert_eq!(tags_of(TagStyle::Pairs, "k=1|k=2|=3"), "k=2");
    assert_eq!(tags_of(TagStyle::DogStatsd, "k:2,k:1,k:2,p,,k:http://x"), "k:1,k:2,k:http://x,p");
    assert_eq!(tags_of(TagStyle::DogStatsd, "a-b:1,a:2"), "a:2,a-b:1");
    assert_eq!(tags_of(TagStyle::DogStatsd, "p:,p,p:x,p:,:,p"), "p,p:,p:x");
    assert_eq!(tags_of(TagStyle::DogStatsd, "dd.internal.card:low,a:1,dd.internal.x"), "a:1");
    assert_eq!(tags_of(TagStyle::Pairs, "dd.internal.card=low"), "dd.internal.card=low");
}

/// Without this rule, each pod would have separate series.
#[test]
fn tags_of_origin_detection_do_not_multiply_series() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits::default());
    for tags in ["dd.internal.entity_id:1,a:b", "a:b", "a:b,dd.internal.entity_id:2"] {
        rig.count("n", tags, 1.0);
    }
    let expected = BTreeMap::from([(("n".to_owned(), "a:b".to_owned()), (3.0, true))]);
    assert_eq!(rig.period().0, expected);
}

#[test]
fn a_tag_without_a_value_differs_from_one_with_an_empty_value() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits::default());
    ["flag", "flag:"].into_iter().for_each(|tags| rig.count("n", tags, 1.0));
    assert_eq!(rig.period().0.len(), 2);
}

#[test]
fn name_and_tags_are_not_confused_with_each_other() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits::default());
    for (name, tags) in [("ab", "c"), ("a", "bc"), ("abc", "")] {
        rig.count(name, tags, 1.0);
    }
    assert_eq!(rig.period().0.len(), 3);
}

#[test]
fn rejected_values_are_counted_by_reason() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits::default());
    let points = [
        (
            Point { values: Values::Numbers(&[f64::NAN, f64::INFINITY]), ..POINT },
            Reason::NotFinite,
            2,
        ),
        (Point { values: Values::Numbers(&[]), ..POINT }, Reason::Value, 1),
        (Point { values: Values::Member(b"x"), ..POINT }, Reason::Value, 1),
        (Point { values: Values::Change(1.0), ..POINT }, Reason::Value, 1),
        (Point { kind: Kind::Set, ..POINT }, Reason::Value, 1),
        (
            Point { kind: Kind::Gauge, values: Values::Change(f64::NAN), ..POINT },
            Reason::NotFinite,
            1,
        ),
        (Point { sample_rate: 0.0, ..POINT }, Reason::SampleRate, 1),
        (Point { sample_rate: f64::NAN, ..POINT }, Reason::SampleRate, 1),
        (Point { sample_rate: 1.5, ..POINT }, Reason::SampleRate, 1),
        (Point { name: b"", ..POINT }, Reason::NoName, 1),
        (Point { name: b"\xff", ..POINT }, Reason::Utf8, 1),
        (Point { tags: b"a:\xc3", ..POINT }, Reason::Utf8, 1),
    ];
    for (point, reason, values) in points {
        rig.shard.add(&point);
        rig.shard.add_all(&[point]);
        let (readings, counts) = rig.period();
        assert_eq!(
            (readings.len(), counts.taken, counts.of(reason)),
            (0, 0, 2 * values),
            "{point:?}"
        );
    }
}

#[test]
fn sums_saturate_and_weights_are_finite() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits::default());
    for value in [f64::MAX, f64::MAX, 1.0] {
        rig.count("n", "", value);
    }
    rig.shard.add(&Point {
        name: b"tiny",
        sample_rate: 1e-320,
        values: Values::Numbers(&[0.0, -0.0]),
        ..POINT
    });
    let (readings, _) = rig.period();
    assert_eq!(readings[&("n".to_owned(), String::new())].0, f64::MAX);
    assert_eq!(readings[&("tiny".to_owned(), String::new())].0, 0.0);
}

#[test]
fn values_with_a_timestamp_beyond_the_limit_lose_the_timestamp() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits { timed: 2, ..Limits::default() });
    for timestamp in [5, 6, 7, 5] {
        rig.shard.add(&Point { timestamp: Some(timestamp), ..POINT });
    }
    let (readings, counts) = rig.period();
    assert_eq!(
        (readings[&("n".to_owned(), String::new())], counts.of(Reason::Timed)),
        ((1.0, true), 1)
    );
    assert_eq!(counts.taken, 4);
}

#[test]
fn members_beyond_the_limit_are_counted() {
    let mut rig = Rig::new(TagStyle::DogStatsd, &Limits { members: 3, ..Limits::default() });
    for member in [b"a", b"b", b"c", b"d", b"a", b"d"] {
        rig.shard.add(&Point { kind: Kind::Set, values: Values::Member(member), ..POINT });
    }
    let (readings, counts) = rig.period();
    assert_eq!(readings[&("n".to_owned(), String::new())].0, 3.0);
    assert_eq!((counts.of(Reason::Members), counts.taken), (2, 4));
}

/// The batch consists of several groups of points, for both new and known series.
#[test]
fn a_batch_equals_its_points_one_by_one() {
    let texts: Vec<String> = (0..100).map(|at| format!("k:{},a:{}", at % 37, at % 5)).collect();
    let points: Vec<Point<'_>> =
        texts.iter().map(|tags| Point { tags: tags.as_bytes(), ..POINT }).collect();
    let [mut one, mut all] = [(); 2].map(|()| Rig::new(TagStyle::DogStatsd, &Limits::default()));
    for _ in 0..3 {
        points.iter().for_each(|point| one.shard.add(point));
        all.shard.add_all(&points);
        assert_eq!(one.period(), all.period());
    }
}
