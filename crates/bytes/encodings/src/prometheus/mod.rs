//! Metrics for Prometheus: names and labels by its rules, deltas added up per series, remote write,
//! and text to be scraped.
//!
//! Two halves. On the threads that encode, [`RowsBuilder`] makes rows of metrics: what a value is
//! of, which series it belongs to, and what the values of a distribution come to. In one place, in
//! order, an [`Accumulator`] looks the series of each row up, makes its labels when it is new, adds
//! what has to be added, and hands on samples with their labels as they are written, to a
//! [`Collector`].

mod accumulator;
mod distribution;
mod exposition;
mod form;
mod labels;
mod names;
mod protobuf;
mod request;
mod rows;
mod write1;
mod write2;

pub use accumulator::{Accumulator, Collector, Nobody, Options, Point};
pub use distribution::{Distributions, Histogram};
pub use exposition::{Exposition, Place, TextFormat};
pub use form::{Form, RemoteForm, TextForm};
pub use labels::{LabelRules, LabelSet};
pub use names::{push_label_name, push_metric_name};
pub use request::{Body, RequestBuilder, Version};
pub use rows::{Row, Rows, RowsBuilder};

/// Why a metric does not become a sample. It is the reason under which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The tags are no object of texts.
    BadTags,
    /// There are as many series as may be.
    TooManySeries,
    /// The labels are those of a series of another type.
    TypeConflict,
    /// What came in a period is less than nothing: a counter only rises.
    Negative,
    /// Older than the last value of the series.
    OutOfOrder,
    /// More than ten minutes ahead of the clock.
    Future,
}

impl Refusal {
    /// As it is counted.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::BadTags => "bad_tags",
            Refusal::TooManySeries => "too_many_series",
            Refusal::TypeConflict => "type_conflict",
            Refusal::Negative => "negative",
            Refusal::OutOfOrder => "out_of_order",
            Refusal::Future => "future",
        }
    }
}
