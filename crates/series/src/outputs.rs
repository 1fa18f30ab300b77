//! What is sent of a series at the end of a period: names with a suffix, and numbers.

use crate::point::{Class, Kind};
use crate::sketch::{Sketch, saturating};
use crate::store::{Aggregate, Reading};
use Temporality::{Cumulative, Delta, Gauge};

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// It is of the period alone: two periods are added.
    Delta,
    /// It is the sum since the series was new.
    Cumulative,
    /// It is a state, or was computed of the period: two periods are not added.
    Gauge,
}

/// One number of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// What follows the name of the series, with its dot; mostly empty.
    pub suffix: &'static str,
    /// The number; always finite.
    pub value: f64,
    /// What it means.
    pub temporality: Temporality,
    /// The client's timestamp in Unix seconds; without one it belongs to the period's end.
    pub timestamp: Option<i64>,
}

/// Parts of the values below which a percentile lies.
const PAIRS_PARTS: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.995, 0.999];
const PAIRS_SUFFIXES: [&str; 6] = [".pct50", ".pct90", ".pct95", ".pct99", ".pct995", ".pct999"];
const DOGSTATSD_PARTS: [f64; 2] = [0.5, 0.95];
const DOGSTATSD_SUFFIXES: [&str; 2] = [".median", ".95percentile"];
const DISTRIBUTION_PARTS: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];
const DISTRIBUTION_SUFFIXES: [&str; 5] =
    [".50percentile", ".75percentile", ".90percentile", ".95percentile", ".99percentile"];

impl Reading<'_> {
    /// The values of the period, if it is a series of distributions and had any. Then it has nothing else.
    pub fn sketch(&self) -> Option<&Sketch> {
        match self.aggregate {
            Aggregate::Sketch(sketch) if self.is_fresh => Some(sketch),
            _ => None,
        }
    }

    /// Calls `each` with every number that clients of this kind expect of a period of `seconds`, more than 0.
    ///
    /// Sums since the start and last values come in every period, all others only if it had points.
    pub fn outputs(&self, seconds: f64, mut each: impl FnMut(Output)) {
        let kind = self.key.kind();
        let mut put =
            |suffix, value, temporality| each(Output { suffix, value, temporality, timestamp: None });
        match (kind, self.aggregate) {
            (_, Aggregate::Rest) => {}
            (_, Aggregate::Sum { delta, total, .. }) => {
                self.sum([delta, total, saturating(delta / seconds)], &mut put)
            }
            (Kind::TimedStore, Aggregate::Last(_)) if !self.is_fresh => {}
            (_, Aggregate::Last(value)) => value.into_iter().for_each(|value| put("", value, Gauge)),
            (_, Aggregate::Sketch(_) | Aggregate::Set(_)) if !self.is_fresh => {}
            (_, Aggregate::Sketch(sketch)) => distribution(kind, sketch, &mut put),
            (_, Aggregate::Set(members)) => put("", members as f64, Gauge),
        }
        let temporality = if kind.class() == Class::Sum { Delta } else { Gauge };
        self.timed.iter().for_each(|(timestamp, value)| {
            each(Output { suffix: "", value: *value, temporality, timestamp: Some(*timestamp) });
        });
    }

    fn sum(&self, [delta, total, rate]: [f64; 3], put: &mut impl FnMut(&'static str, f64, Temporality)) {
        match self.key.kind() {
            Kind::Counter => put("", total, Cumulative),
            Kind::Meter => {
                put("", total, Cumulative);
                put(".rate", rate, Gauge);
            }
            _ if !self.is_fresh => {}
            Kind::RateCounter => put("", rate, Gauge),
            Kind::DeltaCounter => {
                put(".delta", delta, Delta);
                put(".rate", rate, Gauge);
                put(".counter", total, Cumulative);
            }
            _ => put("", delta, Delta),
        }
    }
}

fn distribution(kind: Kind, sketch: &Sketch, put: &mut impl FnMut(&'static str, f64, Temporality)) {
    match kind {
        Kind::Timer => {
            put(".min", sketch.min(), Gauge);
            put(".max", sketch.max(), Gauge);
            put(".avg", sketch.mean(), Gauge);
            put(".sum", sketch.sum(), Delta);
            put(".counter", sketch.weight(), Delta);
            percentiles(sketch, PAIRS_PARTS, PAIRS_SUFFIXES, put);
        }
        Kind::Histogram => {
            put(".sum", sketch.sum(), Delta);
            put(".count", sketch.weight(), Delta);
            percentiles(sketch, PAIRS_PARTS, PAIRS_SUFFIXES, put);
        }
        Kind::Distribution => {
            put(".min", sketch.min(), Gauge);
            put(".max", sketch.max(), Gauge);
            put(".avg", sketch.mean(), Gauge);
            put(".sum", sketch.sum(), Delta);
            put(".count", sketch.weight(), Delta);
            percentiles(sketch, DISTRIBUTION_PARTS, DISTRIBUTION_SUFFIXES, put);
        }
        _ => {
            put(".max", sketch.max(), Gauge);
            put(".avg", sketch.mean(), Gauge);
            put(".count", sketch.weight(), Delta);
            percentiles(sketch, DOGSTATSD_PARTS, DOGSTATSD_SUFFIXES, put);
        }
    }
}

fn percentiles<const N: usize>(
    sketch: &Sketch,
    parts: [f64; N],
    suffixes: [&'static str; N],
    put: &mut impl FnMut(&'static str, f64, Temporality),
) {
    let values = sketch.quantiles(parts);
    suffixes.into_iter().zip(values).for_each(|(suffix, value)| put(suffix, value, Gauge));
}
