//! Compares every aggregate with a simple model that gets the same points from several concurrent
//! senders.

use super::{Events, ONE_PERIOD, number, send_all, start, tags_of};
use crate::support::{folder, millstream};
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Number of rounds, each with the same number of points per sender.
const ROUNDS: TestSize = TestSize { gate: 1, long: 20 };
const SENDERS: u64 = 4;
const POINTS: usize = 4000;

/// A point, independent of the protocol.
#[derive(Clone)]
struct Point {
    kind: &'static str,
    series: u64,
    tags: Vec<(String, String)>,
    value: f64,
    /// Number of points that this point represents.
    weight: u32,
}

impl Point {
    fn name(&self) -> String {
        format!("oracle.{}.{}", self.kind, self.series)
    }

    /// Returns the tags in the order of the output.
    fn sorted(&self) -> String {
        let mut tags: Vec<String> =
            self.tags.iter().map(|(key, value)| format!("{key}:{value}")).collect();
        tags.sort();
        tags.join(",")
    }
}

/// Generates a point of a random series; its tags are in random order, as clients send them.
fn draw(kinds: &[&'static str], sender: u64, random: &mut Rng) -> Point {
    let kind = kinds[random.u64(..kinds.len() as u64) as usize];
    let series = random.u64(..5);
    let mut tags =
        vec![("env".into(), "prod".into()), ("shard".into(), random.u64(..3).to_string())];
    // A series that keeps the last value has only one sender, because the order of several senders
    // is not known.
    if ["g", "store"].contains(&kind) {
        tags.push(("sender".into(), sender.to_string()));
    }
    let (last, other) = (tags.len() - 1, random.u64(..tags.len() as u64) as usize);
    tags.swap(last, other);
    let value = match kind {
        "ms" | "h" | "d" | "timer" | "histogram" => {
            (1u64 << random.u64(..20)) as f64 + random.u64(..1000) as f64 / 8.0
        }
        "g" | "store" => random.u64(..2_000_000) as f64 / 16.0 - 60_000.0,
        _ => 1.0 + random.u64(..500) as f64,
    };
    let can_be_sampled = ["c", "ms", "h", "d"].contains(&kind);
    let weight = if can_be_sampled && random.u64(..4) == 0 { 4 } else { 1 };
    Point { kind, series, tags, value, weight }
}

/// Expected value of an output.
#[derive(Debug)]
enum Expected {
    /// This value, up to the rounding of long sums.
    Number(f64),
    /// This value for each second of the interval.
    Rate(f64),
    /// Any value between the two.
    Between(f64, f64),
}

type Outcome = BTreeMap<(String, String), Expected>;

/// The totals of all points of a series.
#[derive(Default)]
struct Series {
    sum: f64,
    last: f64,
    members: BTreeSet<u64>,
    /// Values of the points, each repeated `weight` times.
    values: Vec<f64>,
}

fn expect(points: &[Point]) -> Outcome {
    let mut series: BTreeMap<(&str, String, String), Series> = BTreeMap::new();
    for point in points {
        let one = series.entry((point.kind, point.name(), point.sorted())).or_default();
        one.sum += point.value * f64::from(point.weight);
        one.last = point.value;
        one.members.insert(point.value as u64);
        one.values.extend(std::iter::repeat_n(point.value, point.weight as usize));
    }
    let mut outcome = Outcome::new();
    for ((kind, name, tags), mut one) in series {
        one.values.sort_by(f64::total_cmp);
        for (suffix, expected) in outputs(kind, &one) {
            outcome.insert((format!("{name}{suffix}"), tags.clone()), expected);
        }
    }
    outcome
}

/// Returns the expected outputs of a series, as the documentation of the sources lists them.
fn outputs(kind: &str, one: &Series) -> Vec<(&'static str, Expected)> {
    use Expected::{Number, Rate};
    let count = one.values.len() as f64;
    let (least, most) = (Number(one.values[0]), Number(one.values[one.values.len() - 1]));
    let (mean, sum, count) = (Number(one.sum / count), Number(one.sum), Number(count));
    let rank = |part| quantile(&one.values, part);
    match kind {
        "c" | "counter" => vec![("", sum)],
        "rate_counter" => vec![("", Rate(one.sum))],
        "meter" => vec![("", sum), (".rate", Rate(one.sum))],
        "delta_counter" => {
            vec![(".delta", sum), (".rate", Rate(one.sum)), (".counter", Number(one.sum))]
        }
        "g" | "store" => vec![("", Number(one.last))],
        "s" => vec![("", Number(one.members.len() as f64))],
        "ms" | "h" => {
            vec![
                (".max", most),
                (".avg", mean),
                (".count", count),
                (".median", rank(0.5)),
                (".95percentile", rank(0.95)),
            ]
        }
        "d" => vec![
            (".min", least),
            (".max", most),
            (".avg", mean),
            (".sum", sum),
            (".count", count),
            (".50percentile", rank(0.5)),
            (".75percentile", rank(0.75)),
            (".90percentile", rank(0.9)),
            (".95percentile", rank(0.95)),
            (".99percentile", rank(0.99)),
        ],
        "timer" => {
            let head = [
                (".min", least),
                (".max", most),
                (".avg", mean),
                (".sum", sum),
                (".counter", count),
            ];
            head.into_iter().chain(percentiles(rank)).collect()
        }
        "histogram" => {
            [(".sum", sum), (".count", count)].into_iter().chain(percentiles(rank)).collect()
        }
        _ => panic!("{kind}: no kind"),
    }
}

fn percentiles(rank: impl Fn(f64) -> Expected) -> [(&'static str, Expected); 6] {
    [
        (".pct50", 0.5),
        (".pct90", 0.9),
        (".pct95", 0.95),
        (".pct99", 0.99),
        (".pct995", 0.995),
        (".pct999", 0.999),
    ]
    .map(|(suffix, part)| (suffix, rank(part)))
}

/// Returns the bounds within 1% of the values at the rank and at its neighbors, because definitions
/// of the rank differ by one.
fn quantile(sorted: &[f64], part: f64) -> Expected {
    let rank = part * (sorted.len() - 1) as f64;
    let (low, high) = (
        (rank.floor() as usize).saturating_sub(1),
        (rank.ceil() as usize + 1).min(sorted.len() - 1),
    );
    Expected::Between(sorted[low] * 0.99, sorted[high] * 1.01)
}

fn compare(events: &Events, mut outcome: Outcome) {
    let mut faults = Vec::new();
    for event in &events.0 {
        let key = (event["name"].as_str().unwrap_or_default().to_owned(), tags_of(event));
        let (value, interval) = (number(event), event["interval"].as_f64().unwrap());
        let fits = match outcome.remove(&key) {
            None => Err("no such series, or it comes twice".to_owned()),
            Some(Expected::Number(expected)) if near(value, expected) => Ok(()),
            Some(Expected::Rate(sum)) if near(value * interval, sum) => Ok(()),
            Some(Expected::Between(low, high)) if (low..=high).contains(&value) => Ok(()),
            Some(expected) => Err(format!("{expected:?}")),
        };
        faults.extend(fits.err().map(|expected| format!("{key:?}: {value}, expected: {expected}")));
    }
    faults.extend(outcome.keys().map(|key| format!("{key:?} is missing")));
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults[..faults.len().min(20)].join("\n")
    );
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= expected.abs() * 1e-9
}

/// Sends random points from several concurrent senders; returns the expected outputs.
fn send_drawn(
    seed: u64,
    path: &Path,
    kinds: &[&'static str],
    write: fn(&[Point]) -> Vec<u8>,
) -> Outcome {
    let send = |sender| {
        let mut random = Rng::with_seed(seed.wrapping_mul(SENDERS).wrapping_add(sender));
        let points: Vec<Point> = (0..POINTS).map(|_| draw(kinds, sender, &mut random)).collect();
        let messages: Vec<Vec<u8>> = points.chunks(7).map(write).collect();
        send_all(path, &messages);
        points
    };
    let points = std::thread::scope(|scope| {
        let senders: Vec<_> =
            (0..SENDERS).map(|sender| scope.spawn(move || send(sender))).collect();
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect::<Vec<Point>>()
    });
    expect(&points)
}

/// Encodes points as lines. Successive points of the same series become one line with several
/// values.
fn as_dogstatsd(points: &[Point]) -> Vec<u8> {
    let mut text = String::new();
    let is_same = |a: &Point, b: &Point| {
        a.kind != "s" && (a.name(), a.weight, a.sorted()) == (b.name(), b.weight, b.sorted())
    };
    for run in points.chunk_by(is_same) {
        let values: String = run.iter().map(|point| format!(":{}", point.value)).collect();
        let point = &run[0];
        let rate = if point.weight == 1 {
            String::new()
        } else {
            format!("|@{}", 1.0 / f64::from(point.weight))
        };
        let tags: Vec<String> =
            point.tags.iter().map(|(key, value)| format!("{key}:{value}")).collect();
        text += &format!("{}{values}|{}{rate}|#{}\n", point.name(), point.kind, tags.join(","));
    }
    text.into_bytes()
}

/// Encodes points as an array of msgpack.
fn as_msgpack(points: &[Point]) -> Vec<u8> {
    let mut message = vec![0x90 | points.len() as u8];
    for point in points {
        let tags: Vec<String> =
            point.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let texts =
            ["emit", point.kind, &point.name(), &point.value.to_string(), &tags.join("|"), ""]
                .map(str::to_owned);
        message.push(0x96);
        for text in texts {
            message.extend_from_slice(&[0xd9, text.len() as u8]);
            message.extend_from_slice(text.as_bytes());
        }
    }
    message
}

fn check_aggregates(source: &str, kinds: &[&'static str], write: fn(&[Point]) -> Vec<u8>) {
    // With two receivers of a socket, the last two values may swap.
    let without_last: Vec<&str> =
        kinds.iter().copied().filter(|kind| !["g", "store"].contains(kind)).collect();
    for seed in Seed::of_test().cases(ROUNDS) {
        check_receivers(source, 1, kinds, write, seed);
        check_receivers(source, 2, &without_last, write, seed);
    }
}

fn check_receivers(
    source: &str,
    receivers: usize,
    kinds: &[&'static str],
    write: fn(&[Point]) -> Vec<u8>,
    seed: u64,
) {
    let dir = folder();
    let options = format!(
        "type: {source}, listen: ['unixgram://DIR/points.sock'], receivers: {receivers}, {ONE_PERIOD}"
    );
    let mut agent = start(dir.path(), &options);
    let outcome = send_drawn(seed, &dir.path().join("points.sock"), kinds, write);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    compare(&Events::read(dir.path()), outcome);
}

#[test]
fn every_aggregate_of_dogstatsd_is_that_of_the_model() {
    check_aggregates("dogstatsd", &["c", "g", "ms", "h", "d", "s"], as_dogstatsd);
}

#[test]
fn every_aggregate_of_metricserver_is_that_of_the_model() {
    let kinds =
        ["counter", "rate_counter", "meter", "delta_counter", "store", "timer", "histogram"];
    check_aggregates("metricserver", &kinds, as_msgpack);
}

/// Returns the output of an agent with these options, as names and values.
fn numbers_of(options: &str, messages: &[impl AsRef<[u8]>]) -> BTreeMap<String, f64> {
    let dir = folder();
    let options = format!("{options}, listen: ['unixgram://DIR/points.sock'], {ONE_PERIOD}");
    let mut agent = start(dir.path(), &options);
    send_all(&dir.path().join("points.sock"), messages);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let name = |event: &serde_json::Value| event["name"].as_str().unwrap_or_default().to_owned();
    Events::read(dir.path()).0.iter().map(|event| (name(event), number(event))).collect()
}

#[test]
fn outputs_of_distributions_are_configurable() {
    let values: Vec<String> = (1..=40).map(|value| value.to_string()).collect();
    let kinds = ["ms", "h", "d"];
    let lines: Vec<String> =
        kinds.iter().map(|kind| format!("{kind}:{}|{kind}", values.join(":"))).collect();
    let of =
        |of: &[(&str, f64)]| of.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let options = "type: dogstatsd, aggregates: [min, median], percentiles: [0.999, 0.25], \
                   distribution_percentiles: [0.05]";
    let timing = |kind: &str| {
        [(".min", 1.0), (".25percentile", 10.0), (".median", 20.0), (".999percentile", 40.0)]
            .map(|(suffix, value)| (format!("{kind}{suffix}"), value))
    };
    let distribution: BTreeMap<String, f64> = of(&[
        ("d.min", 1.0),
        ("d.max", 40.0),
        ("d.avg", 20.5),
        ("d.sum", 820.0),
        ("d.count", 40.0),
        ("d.5percentile", 2.0),
    ]);
    let expected = timing("ms").into_iter().chain(timing("h")).chain(distribution).collect();
    assert_eq!(numbers_of(options, &lines), expected);
    let point = |value| Point { kind: "histogram", series: 0, tags: Vec::new(), value, weight: 1 };
    let messages: Vec<Vec<u8>> =
        (1..=40).map(|value| as_msgpack(&[point(f64::from(value))])).collect();
    let expected: BTreeMap<String, f64> = of(&[
        ("oracle.histogram.0.sum", 820.0),
        ("oracle.histogram.0.count", 40.0),
        ("oracle.histogram.0.pct995", 40.0),
    ]);
    assert_eq!(numbers_of("type: metricserver, percentiles: [0.995]", &messages), expected);
}

/// Runs `millstream generate metrics`; returns the numbers in its last line: points, packets, sum
/// of counters, series.
fn generate(args: &[&str]) -> [f64; 4] {
    let output =
        Command::new(millstream()).args(["generate", "metrics"]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.split([' ', ',']).filter_map(|word| word.trim().parse().ok());
    std::array::from_fn(|_| numbers.next().unwrap_or_else(|| panic!("{text}")))
}

#[test]
fn sums_are_conserved_across_periods() {
    let dir = folder();
    let mut agent =
        start(dir.path(), "type: dogstatsd, listen: ['unixgram://DIR/points.sock'], period: 1s");
    let address = format!("unixgram://{}/points.sock", dir.path().display());
    let send = |seed: &str| {
        generate(&[
            "--to", &address, "--count", "60000", "--rate", "20000", "--series", "200", "--seed",
            seed,
        ])
    };
    let sent = std::thread::scope(|scope| {
        let senders = ["1", "2", "3"].map(|seed| scope.spawn(move || send(seed)));
        senders.map(|sender| sender.join().unwrap())
    });
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let events = Events::read(dir.path());
    let sum = |prefix: &str, suffix: &str| -> f64 {
        let is_one = |name: &str| name.starts_with(prefix) && name.ends_with(suffix);
        events.0.iter().filter(|event| event["name"].as_str().is_some_and(is_one)).map(number).sum()
    };
    assert_eq!(events.sum("millstream.generated", ""), 180_000.0);
    assert_eq!(
        sum("shop.counter.", ""),
        sent.iter().map(|[_, _, counters, _]| counters).sum::<f64>()
    );
    assert_eq!(number(events.of("millstream.generated.last", "").last().unwrap()), 60_000.0);
    // Every tenth series is a timer, and the generator sends to all series in turn.
    assert_eq!(sum("shop.timer.", ".count"), 18_000.0);
    let ends: BTreeSet<&str> =
        events.0.iter().filter_map(|event| event["timestamp"].as_str()).collect();
    assert!(ends.len() >= 3, "{ends:?} are no several periods");
}
