//! Tests the outputs of each kind of series.

use millstream_series::Temporality::{Cumulative, Delta, Gauge};
use millstream_series::{
    Generation, Kind, Limits, Output, Point, Shard, Statistic, Store, Suffix, Summaries, TagStyle,
    Values,
};

/// Returns the outputs for periods of 10 seconds with these values.
fn outputs(kind: Kind, periods: &[&[f64]], timestamp: Option<i64>) -> Vec<Vec<Output>> {
    chosen(&Summaries::default(), kind, periods, timestamp)
}

fn chosen(
    summaries: &Summaries,
    kind: Kind,
    periods: &[&[f64]],
    timestamp: Option<i64>,
) -> Vec<Vec<Output>> {
    let mut shard = Shard::new(TagStyle::Pairs, &Limits::default(), 1);
    let mut store = Store::new(1, 10, 1);
    let period = |values: &&[f64]| {
        for value in *values {
            let member = value.to_string();
            let values = match kind {
                Kind::Set => Values::Member(member.as_bytes()),
                _ => Values::Numbers(std::slice::from_ref(value)),
            };
            shard.add(&Point {
                kind,
                name: b"n",
                tags: b"",
                values,
                sample_rate: 1.0,
                timestamp,
                arrived: 1,
            });
        }
        store.merge(0, shard.swap_generation(Generation::default()));
        let mut found = Vec::new();
        store.drain(|reading| reading.outputs(10.0, Some(summaries), |output| found.push(output)));
        found
    };
    periods.iter().map(period).collect()
}

/// A number and its suffix as a string.
type Plain = (&'static str, f64, millstream_series::Temporality);

fn plain(kind: Kind, periods: &[&[f64]]) -> Vec<Vec<Plain>> {
    outputs(kind, periods, None)
        .iter()
        .map(|period| period.iter().map(plain_of).collect())
        .collect()
}

fn plain_of(output: &Output) -> Plain {
    (output.suffix.to_string().leak(), output.value, output.temporality)
}

#[test]
fn sums_have_the_outputs_of_their_kind() {
    let periods: [&[f64]; 3] = [&[1.0, 4.0], &[2.0], &[]];
    assert_eq!(
        plain(Kind::Counter, &periods),
        [[("", 5.0, Cumulative)], [("", 7.0, Cumulative)], [("", 7.0, Cumulative)]]
    );
    assert_eq!(
        plain(Kind::RateCounter, &periods),
        [vec![("", 0.5, Gauge)], vec![("", 0.2, Gauge)], vec![]]
    );
    assert_eq!(
        plain(Kind::Count, &periods),
        [vec![("", 5.0, Delta)], vec![("", 2.0, Delta)], vec![]]
    );
    assert_eq!(plain(Kind::Meter, &periods)[2], [("", 7.0, Cumulative), (".rate", 0.0, Gauge)]);
    assert_eq!(
        plain(Kind::DeltaCounter, &periods)[1],
        [(".delta", 2.0, Delta), (".rate", 0.2, Gauge), (".counter", 7.0, Cumulative)]
    );
}

#[test]
fn last_values_persist_and_sets_do_not() {
    let periods: [&[f64]; 2] = [&[1.0, 4.0, 4.0], &[]];
    for kind in [Kind::Store, Kind::Gauge] {
        assert_eq!(plain(kind, &periods), [[("", 4.0, Gauge)], [("", 4.0, Gauge)]]);
    }
    assert_eq!(plain(Kind::Set, &periods), [vec![("", 2.0, Gauge)], vec![]]);
}

#[test]
fn distributions_have_the_suffixes_of_their_clients() {
    let values: Vec<f64> = (1..=20).map(f64::from).collect();
    let timer = [
        (".min", 1.0, Gauge),
        (".max", 20.0, Gauge),
        (".avg", 10.5, Gauge),
        (".sum", 210.0, Delta),
        (".counter", 20.0, Delta),
        (".pct50", 10.0, Gauge),
        (".pct90", 18.0, Gauge),
        (".pct95", 19.0, Gauge),
        (".pct99", 20.0, Gauge),
        (".pct995", 20.0, Gauge),
        (".pct999", 20.0, Gauge),
    ];
    assert_eq!(plain(Kind::Timer, &[&values]), [timer]);
    let suffixes =
        |kind| plain(kind, &[&values])[0].iter().map(|(suffix, ..)| *suffix).collect::<Vec<_>>();
    assert_eq!(suffixes(Kind::Histogram)[..2], [".sum", ".count"]);
    for kind in [Kind::Timing, Kind::DogHistogram] {
        assert_eq!(suffixes(kind), [".max", ".avg", ".count", ".median", ".95percentile"]);
    }
    assert_eq!(suffixes(Kind::Distribution)[9], ".99percentile");
    assert_eq!(plain(Kind::Timer, &[&values, &[]])[1], []);
}

#[test]
fn selected_outputs_have_the_suffixes_of_their_clients() {
    let values: Vec<f64> = (1..=1000).map(|n| f64::from(n) / 20.0).collect();
    let outputs = |summaries: &Summaries, kind| -> Vec<Plain> {
        chosen(summaries, kind, &[&values[..40]], None)[0].iter().map(plain_of).collect()
    };
    let some = [Statistic::Sum, Statistic::Min];
    let dogstatsd = Summaries::of_dogstatsd(&some, &[0.999, 0.25, 0.5], &[0.05]).with_median();
    let timing = [
        (".min", 0.05, Gauge),
        (".sum", 41.0, Delta),
        (".25percentile", 0.5, Gauge),
        (".median", 1.0, Gauge),
        (".50percentile", 1.0, Gauge),
        (".999percentile", 2.0, Gauge),
    ];
    assert_eq!(outputs(&dogstatsd, Kind::Timing), timing);
    assert_eq!(outputs(&dogstatsd, Kind::DogHistogram), timing);
    let distribution = outputs(&dogstatsd, Kind::Distribution);
    assert_eq!((distribution.len(), distribution[5]), (6, (".5percentile", 0.1, Gauge)));
    let pairs = Summaries::of_pairs(&[0.75, 0.05]);
    let parts = [(".pct05", 0.1, Gauge), (".pct75", 1.5, Gauge)];
    assert_eq!(
        outputs(&pairs, Kind::Histogram),
        [[(".sum", 41.0, Delta), (".count", 40.0, Delta)], parts].concat()
    );
    assert_eq!(outputs(&pairs, Kind::Timer)[5..], parts);
    assert_eq!(outputs(&Summaries::of_pairs(&[]), Kind::Timer).len(), 5);
    assert_eq!(
        outputs(&Summaries::of_dogstatsd(&[], &[1.0], &[]), Kind::Timing),
        [(".100percentile", 2.0, Gauge)]
    );
}

#[test]
fn timestamps_are_kept_for_kinds_that_use_them() {
    let output = |value, temporality| Output {
        suffix: Suffix::NONE,
        value,
        temporality,
        timestamp: Some(9),
    };
    assert_eq!(outputs(Kind::TimedStore, &[&[1.0, 4.0]], Some(9)), [[output(4.0, Gauge)]]);
    assert_eq!(outputs(Kind::Count, &[&[1.0, 4.0]], Some(9)), [[output(5.0, Delta)]]);
    assert_eq!(outputs(Kind::Counter, &[&[1.0, 4.0]], Some(9))[0][0].timestamp, None);
}
