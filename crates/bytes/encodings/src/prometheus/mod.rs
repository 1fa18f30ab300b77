//! Metrics for Prometheus: names and labels that follow its rules, deltas summed per series, remote
//! write, and scrape text.
//!
//! Encoding has two stages. On the encoder threads, [`RowsBuilder`] converts metrics to rows: the
//! value, the hash of the series, and the quantiles or buckets of a distribution. In one place and
//! in order, an [`Accumulator`] then looks up the series of each row, builds the labels of a new
//! series, sums deltas, and passes samples with rendered labels to a [`Collector`].

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

/// Reason why a metric is rejected; also the reason of its drop counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The tags are not an object of strings.
    BadTags,
    /// The maximum number of series is reached.
    TooManySeries,
    /// The series is new, and the process has little memory left.
    MemoryPressure,
    /// Another series with a different type has the same labels.
    TypeConflict,
    /// Another source name has the same exposed name, or other tag keys the same label names.
    NameConflict,
    /// A counter has a negative delta, but counters can only increase.
    Negative,
    /// The value is not newer than the last value of the series.
    OutOfOrder,
    /// The value is more than ten minutes ahead of the clock.
    Future,
}

impl RejectReason {
    /// Returns whether the series is beyond a limit on the number or the memory of series.
    fn is_limit(self) -> bool {
        matches!(self, RejectReason::TooManySeries | RejectReason::MemoryPressure)
    }

    /// Returns the reason as a metric label.
    pub fn reason(self) -> &'static str {
        match self {
            RejectReason::BadTags => "bad_tags",
            RejectReason::TooManySeries => "too_many_series",
            RejectReason::MemoryPressure => "memory_pressure",
            RejectReason::TypeConflict => "type_conflict",
            RejectReason::NameConflict => "name_conflict",
            RejectReason::Negative => "negative",
            RejectReason::OutOfOrder => "out_of_order",
            RejectReason::Future => "future",
        }
    }
}
