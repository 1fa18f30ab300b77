//! Metrics for Prometheus: names and labels that follow Prometheus' rules, deltas summed per
//! series, remote write, and scrape text.
//!
//! Encoding has two stages. On the encoder threads, [`RowsBuilder`] converts metrics to rows. A row
//! contains the value, the hash of the series, and the quantiles or buckets of a distribution. Then
//! a single [`Accumulator`] processes the rows in order: it looks up the series of each row, builds
//! the labels of a new series, sums deltas, and passes samples with rendered labels to a
//! [`Collector`].

mod accumulator;
mod distribution;
mod exposition;
mod form;
mod labels;
mod names;
mod overflow;
mod protobuf;
mod request;
mod rows;
mod sources;
mod stored;
mod write1;
mod write2;

pub use accumulator::{Accumulator, Collector, EXPIRE_NEVER, NullCollector, Options, Point};
pub use distribution::{Distributions, Histogram};
pub use exposition::{Added, Exposition, TextFormat, WritePosition};
pub use form::{LabelFormat, RemoteWriteLabels, TextLabels};
pub use labels::{LabelRules, LabelSet};
pub use names::{NameEscaping, push_label_name, push_metric_name};
pub use overflow::OVERFLOW_NAME;
pub use request::{Body, RequestBuilder, Version};
pub use rows::{Row, RowPlace, Rows, RowsBuilder};
pub use sources::NameConflict;
pub use stored::{RestoredRows, StoredRow};

/// Reason why a metric is rejected. It is also the `reason` label of the drop counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RejectReason {
    /// The tags are not an object of strings.
    BadTags,
    /// The number of series has reached the maximum.
    TooManySeries,
    /// The series is new, and memory is low.
    MemoryPressure,
    /// Another series with a different type has the same labels.
    TypeConflict,
    /// Another source name maps to the same exposed name, or another set of tag keys maps to the
    /// same label names.
    NameConflict,
    /// A delta is negative, but sums can only increase.
    Negative,
    /// The value is not newer than the last value of its series.
    OutOfOrder,
    /// The value is more than ten minutes ahead of the clock.
    Future,
}

impl RejectReason {
    /// Returns whether the series exceeds a limit on the number of series or their memory use.
    fn is_limit(self) -> bool {
        matches!(self, RejectReason::TooManySeries | RejectReason::MemoryPressure)
    }

    /// Returns the reason as a metric label.
    pub fn reason(self) -> &'static str {
        self.into()
    }
}
