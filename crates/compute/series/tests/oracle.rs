//! Compares the store with a simple, exact model: several shards, late merges, periods and
//! evictions, in steps of any size, and with receivers on threads.

use millstream_series::{
    Aggregate, Canonical, Class, Counts, Generation, Idle, Kind, Limits, Point, Progress,
    RELATIVE_ERROR_MAX, Reading, Reason, Shard, Statistic, Store, Summaries, TagStyle, Values,
};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

const SHARDS: usize = 3;
const SEED: u64 = 11;
const IDLE_MAX: u32 = 2;

/// An operation on a shard or on the store.
#[derive(Clone, Debug)]
enum Step {
    Add(usize, OwnPoint),
    Swap(usize),
    /// Merges a shard's generation in steps of this size.
    Merge(usize, usize),
    Evict(usize, usize),
    Drain(usize),
}

#[derive(Clone, Debug)]
struct OwnPoint {
    kind: Kind,
    name: &'static str,
    tags: String,
    values: Vec<f64>,
    change: bool,
    rate: f64,
    timestamp: Option<i64>,
    arrived: u64,
}

type Key = (Kind, &'static str, BTreeSet<(String, Option<String>)>);

/// Exact state of a series. The fields before `last` belong to the current period.
#[derive(Clone, Debug, Default)]
struct Exact {
    points: u64,
    delta: f64,
    timed: BTreeMap<i64, (f64, u64)>,
    values: Vec<(f64, f64)>,
    members: BTreeSet<u64>,
    /// Arrival, whether the value is a change, and the value.
    lasts: Vec<(u64, bool, f64)>,
    /// The last value from earlier periods.
    last: Option<f64>,
    total: f64,
    since: Option<u32>,
}

struct Rig {
    style: TagStyle,
    shards: Vec<Shard>,
    idle: Vec<Idle>,
    store: Store,
    /// Points since the last swap, by shard.
    open: Vec<Vec<OwnPoint>>,
    /// Generations that are not merged yet and their points, by shard.
    waiting: Vec<VecDeque<(Generation, Vec<OwnPoint>)>>,
    spare: Vec<Generation>,
    model: BTreeMap<Key, Exact>,
    arrived: u64,
    not_finite: u64,
    taken: u64,
}

impl Rig {
    fn new(style: TagStyle) -> Rig {
        // The limit allows only some orders of tags to be indexed.
        let limits = Limits { aliases: 4, ..Limits::default() };
        Rig {
            style,
            shards: (0..SHARDS).map(|_| Shard::new(style, &limits, SEED)).collect(),
            idle: vec![Idle::default(); SHARDS],
            store: Store::new(SHARDS, IDLE_MAX, SEED),
            open: vec![Vec::new(); SHARDS],
            waiting: (0..SHARDS).map(|_| VecDeque::new()).collect(),
            spare: Vec::new(),
            model: BTreeMap::new(),
            arrived: 0,
            not_finite: 0,
            taken: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Add(shard, point) => self.add(shard, point),
            Step::Swap(shard) => self.swap_shard(shard),
            Step::Merge(shard, size) => self.merge(shard, size),
            Step::Evict(shard, most) => {
                if self.idle[shard].is_empty() {
                    self.idle[shard] = self.store.take_idle(shard);
                }
                self.shards[shard].evict(&mut self.idle[shard], most);
            }
            Step::Drain(size) => self.drain(size),
        }
    }

    fn add(&mut self, shard: usize, mut point: OwnPoint) {
        self.arrived += 1;
        point.arrived = self.arrived;
        // The order of a change and a value in different shards is undefined.
        let shard = if point.change { 0 } else { shard };
        point.add_to(&mut self.shards[shard]);
        self.open[shard].push(point);
    }

    fn swap_shard(&mut self, shard: usize) {
        let generation = self.shards[shard].swap_generation(self.spare.pop().unwrap_or_default());
        self.waiting[shard].push_back((generation, std::mem::take(&mut self.open[shard])));
    }

    fn merge(&mut self, shard: usize, size: usize) {
        let Some((generation, points)) = self.waiting[shard].pop_front() else { return };
        let spare = self.take(shard, generation, &points, size);
        self.spare.push(spare);
    }

    fn take(
        &mut self,
        shard: usize,
        generation: Generation,
        points: &[OwnPoint],
        size: usize,
    ) -> Generation {
        let mut merging = self.store.begin_merge(shard, generation);
        while !merging.step(&mut self.store, size) {}
        points.iter().for_each(|point| self.model_add(point));
        merging.into_spare()
    }

    fn model_add(&mut self, point: &OwnPoint) {
        let is_set = point.kind.class() == Class::Set;
        let finite: Vec<f64> =
            point.values.iter().copied().filter(|value| is_set || value.is_finite()).collect();
        self.not_finite += (point.values.len() - finite.len()) as u64;
        self.taken += finite.len() as u64;
        if finite.is_empty() {
            return;
        }
        let exact =
            self.model.entry((point.kind, point.name, tags(&point.tags, self.style))).or_default();
        for value in finite {
            exact.add(point, value);
        }
    }

    fn drain(&mut self, size: usize) {
        let (model, mut seen) = (&mut self.model, HashSet::new());
        let counts = drain_in_steps(&mut self.store, size, |reading| {
            let key = key_of(reading);
            assert!(seen.insert(key.clone()), "{key:?} comes once");
            model
                .get_mut(&key)
                .unwrap_or_else(|| panic!("{key:?} is not in the model"))
                .check(reading);
        });
        assert_eq!((counts.taken, counts.of(Reason::NotFinite)), (self.taken, self.not_finite));
        (self.taken, self.not_finite) = (0, 0);
        self.model.retain(|key, exact| {
            let is_there = seen.contains(key);
            assert!(is_there || !exact.has_points(), "{key:?} is lost");
            exact.end_period();
            is_there
        });
    }

    /// Swaps and merges everything, and ends the last period.
    fn finish(&mut self) {
        for shard in 0..SHARDS {
            self.swap_shard(shard);
            while !self.waiting[shard].is_empty() {
                self.merge(shard, usize::MAX);
            }
        }
        self.drain(usize::MAX);
    }
}

impl OwnPoint {
    fn add_to(&self, shard: &mut Shard) {
        let text = self.values[0].to_string();
        let values = match self.values[..] {
            [..] if self.kind.class() == Class::Set => Values::Member(text.as_bytes()),
            [value, ..] if self.change => Values::Change(value),
            [value] => Values::Number(value),
            _ => Values::Numbers(&self.values),
        };
        let point = Point {
            kind: self.kind,
            name: self.name.as_bytes(),
            tags: self.tags.as_bytes(),
            values,
            sample_rate: self.rate,
            timestamp: self.timestamp,
            arrived: self.arrived,
        };
        // Exercise both ways to add points.
        if self.arrived.is_multiple_of(2) { shard.add(&point) } else { shard.add_all(&[point]) }
    }
}

/// Drains the store. Every second reading ends a step.
fn drain_in_steps(store: &mut Store, size: usize, mut each: impl FnMut(&Reading<'_>)) -> Counts {
    let (mut drain, mut readings) = (store.begin_drain(), 0);
    loop {
        let progress = drain.step(store, size, |reading| {
            each(reading);
            readings += 1;
            if readings % 2 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Progress::Done(counts) = progress {
            return counts;
        }
    }
}

impl Exact {
    fn add(&mut self, point: &OwnPoint, value: f64) {
        let (class, weight) = (point.kind.class(), 1.0 / point.rate);
        let timed =
            matches!(point.kind, Kind::TimedStore | Kind::Count | Kind::Gauge) && !point.change;
        match (class, point.timestamp.filter(|_| timed)) {
            (Class::Sum, Some(timestamp)) => {
                let sum = &mut self.timed.entry(timestamp).or_default().0;
                *sum = finite(*sum + value * weight);
                self.total = finite(self.total + value * weight);
            }
            (Class::Last, Some(timestamp)) => {
                let entry = self.timed.entry(timestamp).or_default();
                if point.arrived >= entry.1 {
                    *entry = (value, point.arrived);
                }
            }
            (Class::Sum, None) => {
                self.delta = finite(self.delta + value * weight);
                self.total = finite(self.total + value * weight);
                self.points += 1;
            }
            (Class::Last, None) => self.lasts.push((point.arrived, point.change, value)),
            (Class::Sketch, _) => self.values.push((value, weight)),
            (Class::Set, _) => drop(self.members.insert(value.to_bits())),
        }
    }

    fn has_points(&self) -> bool {
        self.points > 0
            || !self.lasts.is_empty()
            || !self.values.is_empty()
            || !self.members.is_empty()
            || !self.timed.is_empty()
    }

    fn check(&mut self, reading: &Reading<'_>) {
        if *self.since.get_or_insert(reading.since) != reading.since {
            // The series was evicted and recreated.
            self.total = self.delta;
            if reading.key.kind().class() == Class::Sum {
                self.total =
                    finite(self.total + self.timed.values().map(|(value, _)| value).sum::<f64>());
            }
            (self.since, self.last) = (Some(reading.since), None);
        }
        let timed: Vec<(i64, f64)> =
            self.timed.iter().map(|(at, (value, _))| (*at, *value)).collect();
        assert_eq!(reading.timed, timed, "{:?}", reading.key);
        let is_fresh = self.points > 0
            || !self.lasts.is_empty()
            || !self.values.is_empty()
            || !self.members.is_empty();
        assert_eq!(reading.is_fresh, is_fresh, "{:?}", reading.key);
        match reading.aggregate {
            Aggregate::Sum { delta, total, points } => {
                assert_eq!(
                    (delta, total, points),
                    (self.delta, self.total, self.points),
                    "{:?}",
                    reading.key
                );
            }
            Aggregate::Last(last) => self.check_last(last),
            Aggregate::Sketch(sketch) => {
                self.check_sketch(sketch);
                self.check_chosen(reading, sketch.is_exact());
            }
            Aggregate::Set(members) => assert_eq!(members, self.members.len() as u64),
            Aggregate::Rest => panic!("few timestamps"),
        }
    }

    fn check_last(&mut self, last: Option<f64>) {
        self.lasts.sort_by_key(|(arrived, ..)| *arrived);
        let next = |last, (_, change, value): &(u64, bool, f64)| {
            if *change { finite(last + value) } else { *value }
        };
        if !self.lasts.is_empty() {
            self.last = Some(self.lasts.iter().fold(self.last.unwrap_or_default(), next));
        }
        assert_eq!(last, self.last);
        assert!(last != Some(0.0) || last.is_some_and(f64::is_sign_positive), "-0 is 0");
    }

    fn check_sketch(&mut self, sketch: &millstream_series::Sketch) {
        self.values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let weight: f64 = self.values.iter().map(|(_, weight)| weight).sum();
        let sum = finite(self.values.iter().map(|(value, weight)| value * weight).sum());
        assert_eq!((sketch.weight(), sketch.sum()), (weight, sum));
        if let (Some(first), Some(last)) = (self.values.first(), self.values.last()) {
            assert_eq!((sketch.min(), sketch.max()), (first.0, last.0));
        }
        let parts = [0.0, 0.01, 0.5, 0.9, 0.99, 1.0];
        for (part, found) in parts.into_iter().zip(sketch.quantiles(parts)) {
            let expected = quantile(&self.values, part);
            let allowed = if sketch.is_exact() { 0.0 } else { expected.abs() * RELATIVE_ERROR_MAX };
            assert!((found - expected).abs() <= allowed, "{part}: {found} is not {expected}");
        }
        assert!(sketch.is_exact() || self.values.len() > 64);
    }

    /// Checks the configured numbers of a distribution whose values are sorted.
    fn check_chosen(&self, reading: &Reading<'_>, is_exact: bool) {
        let (summaries, wanted) = chosen(reading.key.kind());
        let mut found = Vec::new();
        reading.outputs(10.0, Some(&summaries), |output| {
            found.push((output.suffix.to_string(), output.value))
        });
        assert_eq!(found.is_empty(), self.values.is_empty());
        if self.values.is_empty() {
            return;
        }
        // These numbers follow the statistics, which are checked elsewhere.
        let found = &found[found.len() - wanted.len()..];
        for ((suffix, part), (name, value)) in wanted.iter().copied().zip(found) {
            let expected = quantile(&self.values, part);
            let allowed = if is_exact { 0.0 } else { expected.abs() * RELATIVE_ERROR_MAX };
            assert_eq!(suffix, name);
            assert!((value - expected).abs() <= allowed, "{suffix}: {value} is not {expected}");
        }
    }

    fn end_period(&mut self) {
        *self = Exact { last: self.last, total: self.total, since: self.since, ..Exact::default() };
    }
}

/// Returns a selection of numbers to emit, and the suffix and the part of each selected number.
fn chosen(kind: Kind) -> (Summaries, &'static [(&'static str, f64)]) {
    let parts = [0.999, 0.25];
    match kind {
        Kind::Timer | Kind::Histogram => {
            (Summaries::of_pairs(&parts), &[(".pct25", 0.25), (".pct999", 0.999)])
        }
        Kind::Distribution => {
            (Summaries::of_dogstatsd(&[], &parts, &[0.75]), &[(".75percentile", 0.75)])
        }
        _ => (
            Summaries::of_dogstatsd(&[Statistic::Max], &parts, &[]).with_median(),
            &[(".max", 1.0), (".25percentile", 0.25), (".median", 0.5), (".999percentile", 0.999)],
        ),
    }
}

/// Clamps a sum to finite floats.
fn finite(sum: f64) -> f64 {
    sum.clamp(f64::MIN, f64::MAX)
}

/// Returns the smallest value such that at least this part of all values is less than or equal to
/// it.
fn quantile(sorted: &[(f64, f64)], part: f64) -> f64 {
    let weight: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let reached = sorted.iter().find(|(_, weight_of)| {
        below += weight_of;
        below >= part * weight * (1.0 - 1e-9)
    });
    reached.map_or(0.0, |(value, _)| *value)
}

/// Parses tags as documented.
fn tags(text: &str, style: TagStyle) -> BTreeSet<(String, Option<String>)> {
    let pair = |tag: &str, split| match tag.split_once(split) {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (tag.to_owned(), None),
    };
    match style {
        TagStyle::DogStatsd => {
            text.split(',').map(|tag| pair(tag, ':')).filter(|(key, _)| !key.is_empty()).collect()
        }
        TagStyle::Pairs => {
            let pairs =
                text.split(['|', ' ']).map(|tag| pair(tag, '=')).filter(|(key, _)| !key.is_empty());
            let by_key: BTreeMap<String, Option<String>> = pairs.collect();
            let or_dash = |value: Option<String>| {
                value.filter(|value| !value.is_empty()).or(Some("-".to_owned()))
            };
            by_key.into_iter().map(|(key, value)| (key, or_dash(value))).collect()
        }
    }
}

fn key_of(reading: &Reading<'_>) -> Key {
    let mut tags = BTreeSet::new();
    let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    reading.key.tags(&mut Canonical::default(), |tag| {
        let tag = (string(tag.key), tag.value.map(string));
        assert!(tags.last().is_none_or(|last| *last < tag), "no tag twice, in rising order");
        tags.insert(tag);
    });
    let name =
        NAMES.into_iter().find(|name| name.as_bytes() == reading.key.name()).expect("a known name");
    (reading.key.kind(), name, tags)
}

const NAMES: [&str; 3] = ["requests", "a", "level"];

fn point(style: TagStyle) -> impl Strategy<Value = OwnPoint> {
    let tag = match style {
        TagStyle::Pairs => {
            prop::sample::select(vec!["a=bc", "ab=c", "a=", "", "z", "=x", "a=b=c", "ü=1"])
        }
        TagStyle::DogStatsd => {
            prop::sample::select(vec!["a:bc", "ab:c", "a:", "", "z", ":x", "a:b:c", "ü:1"])
        }
    };
    let between = match style {
        TagStyle::Pairs => prop::sample::select(vec!["|", " "]),
        TagStyle::DogStatsd => prop::sample::select(vec![","]),
    };
    let tags =
        (prop::collection::vec(tag, 0..4), between).prop_map(|(tags, between)| tags.join(between));
    // The sum of these values is exact in any order.
    let value = prop_oneof![
        20 => (-1000..100_000_i64).prop_map(|n| n as f64 / 4.0),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e9, f64::MAX]),
    ];
    let rate = prop_oneof![4 => Just(1.0), 1 => Just(0.5), 1 => Just(0.125)];
    let timestamp = prop_oneof![4 => Just(None), 1 => (0..3_i64).prop_map(Some)];
    let kind = prop::sample::select(Kind::ALL.to_vec());
    (kind, 0..2_usize, tags, prop::collection::vec(value, 1..40), rate, timestamp, 0..8_u32)
        .prop_map(|(kind, name, tags, mut values, rate, timestamp, change)| {
            let change = kind == Kind::Gauge && change == 0 && values[0].is_finite();
            if change || kind.class() == Class::Set {
                values.truncate(1);
            }
            let name = if change { "level" } else { NAMES[name] };
            OwnPoint { kind, name, tags, values, change, rate, timestamp, arrived: 0 }
        })
}

fn steps(style: TagStyle) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..SHARDS, point(style)).prop_map(|(shard, point)| Step::Add(shard, point)),
        3 => (0..SHARDS).prop_map(Step::Swap),
        3 => (0..SHARDS, 1..30_usize).prop_map(|(shard, size)| Step::Merge(shard, size)),
        1 => (0..SHARDS, 1..5_usize).prop_map(|(shard, most)| Step::Evict(shard, most)),
        1 => (1..30_usize).prop_map(Step::Drain),
    ];
    prop::collection::vec(step, 0..400)
}

fn run(style: TagStyle, steps: Vec<Step>) {
    let mut rig = Rig::new(style);
    steps.into_iter().for_each(|step| rig.step(step));
    rig.finish();
}

type Filled = (usize, Generation, Vec<OwnPoint>);

/// Runs a receiver that swaps its generation after every `interval` points.
fn receive(
    (number, mut shard): (usize, Shard),
    points: Vec<OwnPoint>,
    interval: usize,
    filled: &mpsc::Sender<Filled>,
    answers: &mpsc::Receiver<(Generation, Idle)>,
) {
    let (mut spares, mut idle, mut open) = (Vec::new(), Idle::default(), Vec::new());
    let count = points.len();
    for (at, point) in points.into_iter().enumerate() {
        point.add_to(&mut shard);
        open.push(point);
        if let Ok((spare, found)) = answers.try_recv() {
            spares.push(spare);
            idle = found;
        }
        shard.evict(&mut idle, 2);
        if (at + 1) % interval == 0 || at + 1 == count {
            let generation = shard.swap_generation(spares.pop().unwrap_or_default());
            filled
                .send((number, generation, std::mem::take(&mut open)))
                .expect("the store is there");
        }
    }
}

/// Runs all receivers on threads. A period ends after a fixed number of generations from any
/// shards.
fn run_threads(style: TagStyle, steps: Vec<Step>, interval: usize) {
    let mut rig = Rig::new(style);
    let mut own = vec![Vec::new(); SHARDS];
    let points = steps.into_iter().filter_map(|step| match step {
        Step::Add(shard, point) => Some((if point.change { 0 } else { shard }, point)),
        _ => None,
    });
    for (at, (shard, point)) in points.enumerate() {
        own[shard].push(OwnPoint { arrived: at as u64 + 1, ..point });
    }
    let (filled, generations) = mpsc::channel();
    thread::scope(|scope| {
        let mut answers = Vec::new();
        for (shard, points) in std::mem::take(&mut rig.shards).into_iter().enumerate().zip(own) {
            let (answer, own_answers) = mpsc::channel();
            answers.push(answer);
            let filled = filled.clone();
            scope.spawn(move || receive(shard, points, interval + 1, &filled, &own_answers));
        }
        drop(filled);
        for (merged, (shard, generation, points)) in generations.into_iter().enumerate() {
            let spare = rig.take(shard, generation, &points, 5);
            // This is an error if the receiver has exited.
            let _ = answers[shard].send((spare, rig.store.take_idle(shard)));
            if merged % 4 == 3 {
                rig.drain(7);
            }
        }
    });
    rig.drain(7);
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn the_store_matches_the_model(steps in steps(TagStyle::Pairs)) {
        run(TagStyle::Pairs, steps);
    }

    #[test]
    fn the_store_matches_the_model_for_dogstatsd(steps in steps(TagStyle::DogStatsd)) {
        run(TagStyle::DogStatsd, steps);
    }

    #[test]
    fn the_store_matches_the_model_over_threads(steps in steps(TagStyle::DogStatsd), interval in 0..20_usize) {
        run_threads(TagStyle::DogStatsd, steps, interval);
    }
}
