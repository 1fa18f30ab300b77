//! Types that flow through Millstream, and the contracts between its parts.
//!
//! A separate crate because it cuts a dependency: components and the engine depend on this crate
//! and not on each other.
//!
//! A source fills a [`Block`] paid for by the memory [`Grant`], creates a [`Batch`] of views into
//! it, and takes an [`Ack`] for each [`Segment`] from its [`Ledger`]. Transforms change batches, a
//! sink's [`Encoder`] turns each batch into a [`Payload`], its [`Lane`] delivers the payload, and
//! the outcome settles the acknowledgement, which moves the checkpoint in the ledger.

#![forbid(unsafe_code)]

mod ack;
mod backoff;
mod backpressure;
mod batch;
mod block;
mod counters;
mod cursor;
mod error;
mod feed;
pub mod flights;
mod grant;
mod histogram;
mod hold;
mod internal_logs;
mod internal_metrics;
mod kind;
mod ledger;
pub mod limits;
mod origin;
mod outcome;
mod payload;
mod pressure;
mod results;
mod routing;
pub mod secrets;
mod side;
mod sink;
mod sinkset;
pub mod snapshot;
mod source;
mod store;
pub mod tap;
mod time;
pub mod trace;
mod transform;
mod units;

/// A set of rows, as a bitmap.
pub use arrow_buffer::BooleanBuffer as Selection;

pub use ack::Ack;
pub use backoff::Backoff;
pub use backpressure::{Backpressure, BackpressureReason};
pub use batch::{
    AddedLines, Batch, BatchBuilder, EventId, EventSample, LINE, LongLine, PARTIAL,
    SAMPLE_BYTES_MAX, STREAM, Segment, SourceInfo, VALUE_BYTES_MAX, char_boundary,
};
pub use block::{Block, BlockPool};
pub use counters::{Counters, CountersSnapshot, HeldFiles};
pub use cursor::{Choice, Cursor, Cursors};
pub use error::{BuildError, ComponentError, DeliverError, OptionError};
pub use feed::{Feed, FeedEvent, FeedField, FeedId, RowSource};
pub use grant::{Aside, Grant, Permit};
pub use histogram::{Histogram, HistogramSnapshot};
pub use hold::{EntryLedger, Hold};
pub use internal_logs::{InternalLogs, LogReader, LogRecord};
pub use internal_metrics::{InternalMetric, InternalMetrics};
pub use kind::Kind;
pub use ledger::{Ledger, OriginProgress, Owed, Progress, Reread};
pub use millstream_columns::{
    Cell, Column, ColumnBuilder, Columns, Kind as CellKind, MEMBERS, Number, Value,
};
pub use origin::{
    HeldBy, Origin, OriginId, OriginState, OriginStatus, OriginTotals, TIME_UNKNOWN, Unreadable,
};
pub use outcome::Outcome;
pub use payload::Payload;
pub use pressure::{ExpectedMemory, MemoryPressure, Pressure};
pub use results::Results;
pub use routing::{Routing, RoutingError};
pub use side::TapSide;
pub use sink::{BoxFuture, Delivery, EncodeCx, Encoder, Lane, LaneCx, Refused, Settled, Sink};
pub use sinkset::{SinkIndex, SinkSet};
pub use source::{Leftover, Polled, Remainder, Source, SourceCx, SourceOpen, Wake};
pub use store::{OriginRecord, OriginStore};
pub use time::{EngineTime, Now};
pub use transform::{Map, Offload, Outputs, Serial, Transform};
pub use units::{Expiry, Interval, Size};
