//! Compares accumulators with exact results, and merges them in any order.

use millstream_groups::{Accumulator, Hll, Layout, Samples, Side, SpaceSaving, hash};
use millstream_testkit_random::{Seed, TestSize, property};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Number of values in a count of distinct values.
const VALUES: u32 = 1_000_000;
/// Number of counts. Each uses different values.
const SEEDS: u64 = 40;

/// Returns the relative errors of a count as the number of values grows.
fn errors(seed: u64) -> Vec<(u32, f64)> {
    let (mut hll, mut next, mut errors) = (Hll::default(), 1, Vec::new());
    for value in 1..=VALUES {
        let text = [seed.to_le_bytes(), u64::from(value).to_le_bytes()].concat();
        hll.add(hash(&text[..12]));
        if value == next {
            errors.push((value, hll.estimate() / f64::from(value) - 1.0));
            next += next.div_ceil(4);
        }
    }
    errors
}

#[test]
fn distinct_counts_have_the_documented_error() {
    let errors: Vec<(u32, f64)> = (0..SEEDS).flat_map(errors).collect();
    let (small, large): (Vec<_>, Vec<_>) = errors.into_iter().partition(|(at, _)| *at <= 1024);
    let worst = small.iter().map(|(_, error)| error.abs()).fold(0.0, f64::max);
    assert!(worst < 0.001, "{worst} of few values");
    let count = large.len() as f64;
    let square = large.iter().map(|(_, error)| error * error).sum::<f64>() / count;
    let mean = large.iter().map(|(_, error)| error).sum::<f64>() / count;
    let above = large.iter().filter(|(_, error)| error.abs() > 0.05).count() as f64 / count;
    assert!(square.sqrt() < 0.018 && mean.abs() < 0.005, "{} {mean}", square.sqrt());
    assert!(above < 0.01, "{above} of all counts are off by more than 5%");
    assert!(large.iter().all(|(_, error)| error.abs() < 0.07));
}

#[test]
fn the_most_frequent_texts_are_kept_with_their_errors() {
    let mut exact: HashMap<u32, u64> = HashMap::new();
    let mut parts = [(); 4].map(|()| SpaceSaving::new(64));
    let mut numbers = Seed::of_test_or(1).random();
    for at in 0..60_000 {
        // Small numbers are much more frequent.
        let number = numbers.f64().recip().min(5000.0) as u32;
        *exact.entry(number).or_default() += 3;
        parts[at % 4].add(number.to_string().as_bytes(), 3);
    }
    let mut merged = SpaceSaving::new(64);
    parts.iter().for_each(|part| merged.merge(part));
    let texts = merged.texts();
    assert_eq!(texts.len(), 64);
    let mut kept = BTreeMap::new();
    for frequent in &texts {
        let number: u32 = std::str::from_utf8(frequent.text).unwrap().parse().unwrap();
        let weight = exact[&number];
        let range = frequent.count - frequent.error..=frequent.count;
        assert!(range.contains(&weight), "{number}: {weight} is not in {range:?}");
        kept.insert(number, weight);
    }
    assert!((1..15).all(|number| kept.contains_key(&number)));
    let missing = exact.iter().filter(|(number, _)| !kept.contains_key(number));
    let most = missing.map(|(_, weight)| *weight).max().unwrap();
    assert!(most <= merged.error_max(), "{most} is above {}", merged.error_max());
}

fn written(side: &Side) -> Vec<u8> {
    let mut out = Vec::new();
    side.write(&mut out);
    out
}

/// Returns the contents of a side, in an order that does not depend on merges.
fn content(side: &Side) -> Vec<u8> {
    match side {
        Side::Quantiles(sketch) => {
            let mut points = Vec::new();
            sketch.points(&mut points);
            format!("{points:?} {:?}", [sketch.weight(), sketch.min(), sketch.max()]).into_bytes()
        }
        Side::Top(top) => format!("{:?}", top.texts()).into_bytes(),
        _ => written(side),
    }
}

const SIDES: [Accumulator; 4] = [
    Accumulator::Distinct,
    Accumulator::Quantiles,
    Accumulator::Top { size: 40 },
    Accumulator::Samples { size: 5 },
];

fn side(accumulator: Accumulator, numbers: &[u32]) -> Side {
    let mut side = Side::new(accumulator).unwrap();
    for number in numbers {
        let text = number.to_string();
        match &mut side {
            Side::Distinct(hll) => hll.add(hash(text.as_bytes())),
            Side::Quantiles(sketch) => sketch.add(f64::from(*number), 1.0),
            Side::Top(top) => top.add((number % 40).to_string().as_bytes(), 1),
            Side::Samples(samples) => {
                samples.add((number % 7).into(), (number % 3).into(), 1, text.as_bytes());
            }
        }
    }
    side
}

fn merged(sides: &[&Side]) -> Side {
    let mut result = sides[0].clone();
    sides[1..].iter().for_each(|side| result.merge(side));
    result
}

fn is_near(one: u64, other: u64) -> bool {
    let (one, other) = (f64::from_bits(one), f64::from_bits(other));
    one == other || (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn sides_merge_in_any_order(
        parts in prop::collection::vec(prop::collection::vec(0..5000_u32, 0..900), 3),
    ) {
        for accumulator in SIDES {
            let [a, b, c] = [0, 1, 2].map(|at| side(accumulator, &parts[at]));
            let expected = content(&merged(&[&a, &b, &c]));
            prop_assert_eq!(&content(&merged(&[&c, &b, &a])), &expected);
            prop_assert_eq!(&content(&merged(&[&a, &merged(&[&b, &c])])), &expected);
            let bytes = written(&a);
            let read = Side::read(&mut &bytes[..]).unwrap();
            prop_assert_eq!(written(&read), bytes);
        }
    }

    #[test]
    fn a_full_set_of_counters_does_not_depend_on_the_order_of_two(
        [one, other] in [(); 2].map(|()| prop::collection::vec(0..60_u8, 0..300)),
    ) {
        let side = |numbers: &[u8]| {
            let mut top = SpaceSaving::new(9);
            numbers.iter().for_each(|number| top.add(&[*number], 1));
            Side::Top(Box::new(top))
        };
        let (one, other) = (side(&one), side(&other));
        prop_assert_eq!(content(&merged(&[&one, &other])), content(&merged(&[&other, &one])));
    }

    #[test]
    fn words_merge_in_any_order(
        rows in prop::collection::vec((any::<u64>(), -1e9..1e9_f64, any::<[u8; 3]>()), 3),
    ) {
        use Accumulator::{Count, Last, Max, Min, Sum};
        let layout = Layout::new(&[Count, Sum, Min, Max, Last]);
        let words = |at: usize| {
            let (count, value, [time, origin, offset]) = rows[at];
            let value = if offset < 20 { f64::NAN } else { value }.to_bits();
            let place = [time, origin, offset].map(|byte| u64::from(byte % 3));
            [[count, value, value, value, value], [place[0], place[1], place[2], 0, 0]].concat()
        };
        let merged = |order: [usize; 3]| {
            let mut into = vec![0; layout.words()];
            layout.fresh(&mut into);
            order.into_iter().for_each(|at| layout.merge_words(&mut into, &words(at)));
            into
        };
        let expected = merged([0, 1, 2]);
        let mut nested = words(0)[..layout.words()].to_vec();
        let mut rest = words(1);
        layout.merge_words(&mut rest, &words(2));
        layout.merge_words(&mut nested, &rest);
        for found in [merged([2, 1, 0]), merged([1, 2, 0]), nested] {
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let is_none = f64::from_bits(*found).is_nan() && f64::from_bits(*expected).is_nan();
                let is_same = found == expected || (at == 1 && is_near(*found, *expected));
                prop_assert!(is_same || (is_none && at > 0), "word {at}");
            }
        }
    }

    #[test]
    fn damaged_sides_do_not_panic(
        numbers in prop::collection::vec(0..5000_u32, 0..200),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        for accumulator in SIDES {
            let mut bytes = written(&side(accumulator, &numbers));
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] ^= byte;
            }
            if let Some(mut read) = Side::read(&mut &bytes[..]) {
                read.merge(&side(accumulator, &numbers));
                content(&read);
            }
        }
    }
}

#[test]
fn samples_are_the_first_by_time_origin_and_offset() {
    let mut samples = Samples::new(2);
    for (time, origin, offset) in [(5, 0, 0), (3, 2, 1), (3, 1, 9), (3, 1, 9), (9, 0, 0)] {
        samples.add(time, origin, offset, b"text");
    }
    let found: Vec<_> = samples.samples().iter().map(|s| (s.time, s.origin, s.offset)).collect();
    assert_eq!(found, [(3, 1, 9), (3, 1, 9)]);
}
