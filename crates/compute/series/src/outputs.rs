//! The numbers that are emitted for a series at the end of a period, and their name suffixes.

use crate::point::{Class, Kind};
use crate::sketch::{Sketch, saturating};
use crate::store::{Aggregate, Reading};
use crate::summary::{Suffix, Summaries};
use crate::temporality::Temporality::{self, Cumulative, Delta, Gauge};

/// A number that is emitted for a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// Suffix for the series name. Usually empty.
    pub suffix: Suffix,
    /// The number, which is always finite.
    pub value: f64,
    /// Temporality of the number.
    pub temporality: Temporality,
    /// The client's timestamp in Unix seconds. If `None`, the end of the period applies.
    pub timestamp: Option<i64>,
}

const RATE: Suffix = Suffix::new(".rate");

impl Reading<'_> {
    /// Returns the distribution of the period, if the series is a distribution and has values. In
    /// this case, the caller can emit the distribution instead of other outputs.
    pub fn sketch(&self) -> Option<&Sketch> {
        match self.aggregate {
            Aggregate::Sketch(sketch) if self.is_fresh => Some(sketch),
            _ => None,
        }
    }

    /// Calls `each` with every number that clients of this kind expect for a period of `seconds`,
    /// which must be above 0. For a distribution, these are the numbers in `summaries`, if any.
    ///
    /// The totals of counters and meters, and the last values of gauges and stores, are emitted in
    /// every period. All other numbers are emitted only if the period has points.
    pub fn outputs(
        &self,
        seconds: f64,
        summaries: Option<&Summaries>,
        mut each: impl FnMut(Output),
    ) {
        let kind = self.key.kind();
        let mut put = |suffix, value, temporality| {
            each(Output { suffix, value, temporality, timestamp: None })
        };
        match (kind, self.aggregate) {
            (_, Aggregate::Rest) => {}
            (_, Aggregate::Sum { delta, total, .. }) => {
                self.sum([delta, total, saturating(delta / seconds)], &mut put)
            }
            (Kind::TimedStore, Aggregate::Last(_)) if !self.is_fresh => {}
            (_, Aggregate::Last(value)) => {
                value.into_iter().for_each(|value| put(Suffix::NONE, value, Gauge))
            }
            (_, Aggregate::Sketch(_) | Aggregate::Set(_)) if !self.is_fresh => {}
            (_, Aggregate::Sketch(sketch)) => {
                summaries.into_iter().for_each(|summaries| summaries.each(kind, sketch, &mut put));
            }
            (_, Aggregate::Set(members)) => put(Suffix::NONE, members as f64, Gauge),
        }
        let temporality = if kind.class() == Class::Sum { Delta } else { Gauge };
        self.timed.iter().for_each(|(timestamp, value)| {
            each(Output {
                suffix: Suffix::NONE,
                value: *value,
                temporality,
                timestamp: Some(*timestamp),
            });
        });
    }

    fn sum(&self, [delta, total, rate]: [f64; 3], put: &mut impl FnMut(Suffix, f64, Temporality)) {
        match self.key.kind() {
            Kind::Counter => put(Suffix::NONE, total, Cumulative),
            Kind::Meter => {
                put(Suffix::NONE, total, Cumulative);
                put(RATE, rate, Gauge);
            }
            _ if !self.is_fresh => {}
            Kind::RateCounter => put(Suffix::NONE, rate, Gauge),
            Kind::DeltaCounter => {
                put(Suffix::new(".delta"), delta, Delta);
                put(RATE, rate, Gauge);
                put(Suffix::new(".counter"), total, Cumulative);
            }
            _ => put(Suffix::NONE, delta, Delta),
        }
    }
}
