//! Compares sketches with the sorted values.

use millstream_series::limits::{EXACT_VALUES_MAX, PAGES_MAX};
use millstream_series::{RELATIVE_ERROR_MAX, Sketch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

const PARTS: [f64; 9] = [0.0, 0.001, 0.05, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0];

fn sketch_of(values: &[f64]) -> Sketch {
    let mut sketch = Sketch::default();
    values.iter().for_each(|value| sketch.add(*value, 1.0));
    sketch
}

/// Compares the quantiles with the exact quantiles of the sorted values.
fn check(sketch: &Sketch, values: &[f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    assert_eq!(sketch.weight(), values.len() as f64);
    assert_eq!(sketch.is_exact(), values.len() <= EXACT_VALUES_MAX);
    assert_eq!([sketch.min(), sketch.max()], [sorted[0], sorted[sorted.len() - 1]]);
    assert_eq!(sketch.misplaced(), 0.0);
    for (part, found) in PARTS.into_iter().zip(sketch.quantiles(PARTS)) {
        let rank = (part * values.len() as f64).ceil().max(1.0) as usize;
        let exact = sorted[rank - 1];
        let allowed = if sketch.is_exact() {
            0.0
        } else {
            exact.abs() * RELATIVE_ERROR_MAX + f64::MIN_POSITIVE
        };
        assert!(
            (found - exact).abs() <= allowed,
            "{part} of {}: {found} is not {exact}",
            values.len()
        );
    }
}

/// Generates values of all magnitudes: latencies, negative values, zeros, subnormal and huge
/// values.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        10 => 0.0001..10.0_f64,
        3 => -1e6..1e6_f64,
        3 => (-14..14_i32, 1.0..10.0_f64).prop_map(|(exponent, value)| value * 10_f64.powi(exponent)),
        1 => prop::sample::select(vec![0.0, 1.0, -1.0, 1e-310, -1e-310, f64::MAX, f64::MIN, f64::MIN_POSITIVE]),
    ]
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn quantiles_are_within_their_bound(values in prop::collection::vec(value(), 1..400)) {
        check(&sketch_of(&values), &values);
    }

    #[test]
    fn points_ascend_and_represent_every_value(
        values in prop::collection::vec((value(), 1u32..4), 1..400),
        is_merged in any::<bool>(),
    ) {
        let (mut sketch, mut other) = (Sketch::default(), Sketch::default());
        for (index, (value, weight)) in values.iter().enumerate() {
            let to = if is_merged && index % 2 == 0 { &mut other } else { &mut sketch };
            to.add(*value, f64::from(*weight));
        }
        sketch.merge(&other);
        let mut points = vec![(7.0, 7.0)];
        sketch.points(&mut points);
        prop_assert!(points.is_sorted_by(|(a, _), (b, _)| a < b));
        let weight: f64 = points.iter().map(|(_, weight)| weight).sum();
        prop_assert_eq!(weight, sketch.weight());
        prop_assert!(points[0].0 >= sketch.min() && points[points.len() - 1].0 <= sketch.max());
        if sketch.misplaced() > 0.0 {
            return Ok(());
        }
        // In order, each value belongs to a point within the error bound.
        let mut sorted = values;
        sorted.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (mut at, mut left) = (0, points[0].1);
        for (value, weight) in sorted {
            let point = points[at].0;
            let error = if sketch.is_exact() { 0.0 } else { RELATIVE_ERROR_MAX * value.abs() };
            prop_assert!((point - value).abs() <= error.max(f64::MIN_POSITIVE), "{} for {}", point, value);
            left -= f64::from(weight);
            if left == 0.0 && at + 1 < points.len() {
                at += 1;
                left = points[at].1;
            }
        }
    }

    #[test]
    fn merging_parts_in_any_order_gives_the_whole(
        parts in prop::collection::vec(prop::collection::vec(value(), 0..150), 1..6),
    ) {
        let all = parts.concat();
        prop_assume!(!all.is_empty());
        let merge = |parts: &mut dyn Iterator<Item = &Vec<f64>>| {
            let mut whole = Sketch::default();
            parts.for_each(|values| whole.merge(&sketch_of(values)));
            whole
        };
        let (there, back) = (merge(&mut parts.iter()), merge(&mut parts.iter().rev()));
        check(&there, &all);
        check(&back, &all);
        prop_assert_eq!(there.quantiles(PARTS), back.quantiles(PARTS));
    }

    #[test]
    fn a_cleared_sketch_equals_a_new_one(old in prop::collection::vec(value(), 0..200), new in prop::collection::vec(value(), 1..200)) {
        let mut sketch = sketch_of(&old);
        sketch.clear();
        assert_eq!((sketch.weight(), sketch.sum(), sketch.quantiles(PARTS)), (0.0, 0.0, [0.0; 9]));
        new.iter().for_each(|value| sketch.add(*value, 1.0));
        check(&sketch, &new);
    }
}

#[test]
fn a_weight_represents_as_many_values() {
    let mut sketch = Sketch::default();
    (1..=100).for_each(|value| sketch.add(f64::from(value), 4.0));
    assert_eq!((sketch.weight(), sketch.sum(), sketch.mean()), (400.0, 20_200.0, 50.5));
    let [median] = sketch.quantiles([0.5]);
    assert!((median - 50.0).abs() <= 0.5, "{median}");
}

#[test]
fn sums_saturate_at_the_largest_float() {
    let mut sketch = sketch_of(&[f64::MAX; 100]);
    sketch.add(1.0, 1e300);
    assert_eq!((sketch.sum(), sketch.max(), sketch.weight()), (f64::MAX, f64::MAX, 1e300));
    assert!(
        sketch.mean().is_finite() && sketch.quantiles(PARTS).iter().all(|value| value.is_finite())
    );
}

#[test]
fn values_beyond_the_page_limit_go_to_a_neighboring_page_and_are_counted() {
    let values: Vec<f64> =
        (0..PAGES_MAX as i32 + 10).map(|exponent| 2_f64.powi(exponent)).collect();
    let sketch = sketch_of(&values);
    assert_eq!(sketch.misplaced(), 10.0);
    assert_eq!((sketch.min(), sketch.max()), (1.0, values[values.len() - 1]));
    let [median] = sketch.quantiles([0.5]);
    assert!((median - 2_f64.powi(68)).abs() <= 2_f64.powi(68) * RELATIVE_ERROR_MAX, "{median}");
}

#[test]
fn rounding_of_sample_rates_does_not_change_a_rank() {
    for rate in [0.3, 0.6, 0.7, 0.9, 0.15, 0.03, 0.33] {
        for count in 2..=64_u32 {
            let mut sketch = Sketch::default();
            (1..=count).for_each(|value| sketch.add(f64::from(value), 1.0 / rate));
            let ranks = [count.div_ceil(2), (count * 9).div_ceil(10), (count * 19).div_ceil(20)];
            assert_eq!(
                sketch.quantiles([0.5, 0.9, 0.95]),
                ranks.map(f64::from),
                "{count} values at {rate}"
            );
        }
    }
}

#[test]
fn rounding_of_parts_does_not_change_a_rank() {
    for (part, values, rank) in
        [(0.28, 25, 7), (0.56, 25, 14), (0.14, 50, 7), (0.55, 60, 33), (0.07, 64, 5)]
    {
        let values: Vec<f64> = (1..=values).map(f64::from).collect();
        assert_eq!(
            sketch_of(&values).quantiles([part]),
            [f64::from(rank)],
            "{part} of {}",
            values.len()
        );
    }
}
