//! Requests to an endpoint, for sinks that use HTTP: payloads are collected into batches, packed
//! into requests on a blocking thread, and sent.
//!
//! A sink supplies a [`Packer`] and its [`Settings`]; a [`LaneLoop`] does everything else. With a
//! [`RequestLane`] it sends in order, one request at a time. With a [`BulkLane`] it sends several
//! at once, to an endpoint that returns a result for each event; in that case, the sink supplies a
//! [`BulkPacker`].

mod batcher;
mod body;
mod bulk;
mod config;
mod dispatcher;
mod event_set;
mod jitter;
mod lane;
mod lane_loop;
mod pack_task;
mod response_class;
mod shares;
mod stall;

pub use batcher::{due, wait_until};
pub use body::{compress, split_parts};
pub use bulk::{Answer, BulkLane, BulkPacker, Failure, Judgement, UnusableAnswer};
pub use config::{Access, BatchOptions, RequestOptions, Settings, access_files, targets, under};
pub use event_set::EventSet;
pub use jitter::{Hold, Jitter};
pub use lane::RequestLane;
pub use lane_loop::LaneLoop;
pub use stall::Stall;

use bytes::Bytes;
use millstream_model::Routing;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// Metadata of a payload, which an encoder stores in `Payload::routing` for a [`RequestLane`]. A
/// payload without metadata is sent when its batch is due, and the packer receives only its bytes.
#[derive(Clone, Default)]
pub struct PayloadMetadata {
    /// The hold of the payload (see [`Jitter`]).
    pub hold: Option<Hold>,
    /// Encoder-specific data about the parts, for the packer.
    pub routing: Option<Arc<dyn Routing>>,
}

impl PayloadMetadata {
    /// Creates the metadata of a payload that was written to disk. Such a payload is already late,
    /// so it has no hold.
    pub fn recreated(routing: impl Routing) -> Arc<dyn Routing> {
        Arc::new(PayloadMetadata { hold: None, routing: Some(Arc::new(routing)) })
    }
}

/// Writes only the data for the packer, because the hold only says when to send the payload.
impl Routing for PayloadMetadata {
    fn write(&self, out: &mut Vec<u8>) {
        self.routing.iter().for_each(|routing| routing.write(out));
    }
}

/// An encoded payload, as passed to the packer.
#[derive(Clone)]
pub struct EncodedPayload {
    /// The encoded bytes: views, not copies.
    pub parts: Vec<Bytes>,
    /// Number of events.
    pub events: u64,
    /// Number of bytes in all parts.
    pub bytes: u64,
    /// Encoder-specific data about the parts, for the packer.
    pub routing: Option<Arc<dyn Routing>>,
    /// Number of units that were sent with an earlier batch. `routing` still describes them.
    pub units_before: usize,
    /// Whether another piece of the payload follows in a later batch.
    pub continues: bool,
}

impl EncodedPayload {
    /// Splits the payload after this number of events and bytes.
    pub fn split(&self, events: u64, bytes: u64) -> (EncodedPayload, EncodedPayload) {
        let (before, behind) = split_parts(&self.parts, bytes);
        let first =
            EncodedPayload { parts: before, events, bytes, continues: true, ..self.clone() };
        let rest = EncodedPayload {
            parts: behind,
            events: self.events - events,
            bytes: self.bytes.saturating_sub(bytes),
            ..self.clone()
        };
        (first, rest)
    }
}

/// The remaining capacity of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of bytes before compression.
    pub bytes: u64,
    /// Number of events.
    pub events: u64,
    /// Whether the batch is empty. Its first unit is accepted regardless of its size.
    pub is_empty: bool,
}

/// A request that can be sent and resent until it succeeds.
pub struct Request {
    /// The body, in order. Several parts are not joined before they are sent.
    pub body: Vec<Bytes>,
    /// Headers of this request besides the headers of the sink: lowercase names, and values.
    pub headers: Vec<(&'static str, String)>,
    /// Events of the request, by their index in the batch. A request without events is a probe,
    /// which any rejection ends.
    pub events: EventSet,
    /// Data that the packer keeps about the origin of the request, for [`Packer::split`].
    pub origin: Box<dyn Any + Send>,
}

/// A rejected event in its encoded form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The bytes, without a line ending; empty if they are unknown.
    pub bytes: Bytes,
    /// Whether the bytes are a JSON object.
    pub is_json: bool,
}

impl Record {
    /// Creates a record from a JSON object.
    pub fn json(object: impl Into<Bytes>) -> Record {
        Record { bytes: object.into(), is_json: true }
    }
}

/// The endpoint rejected a request because of the content (400, 413, 422).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason: the status and the beginning of the body.
    pub reason: String,
    /// Whether the response indicates that the endpoint already has the events.
    pub is_duplicate: bool,
}

/// An event that the packer or the endpoint rejected.
pub struct RefusedEvent {
    /// Index of the event in the batch.
    pub event: u32,
    /// Reason for the rejection.
    pub reason: Cow<'static, str>,
    /// The event as it was encoded.
    pub record: Record,
}

/// Packs payloads into requests. A packer may keep state, because a lane has one packer, which
/// receives each payload once and in order, however often a request is sent.
pub trait Packer: Send + 'static {
    /// Packs the payloads into requests, both in order. Events that are in no request are rejected:
    /// the packer either drops them and counts them with a reason, or returns them with
    /// [`Packer::take_refused`]. Runs on a blocking thread.
    fn pack(&mut self, payloads: Vec<EncodedPayload>) -> Vec<Request>;

    /// Splits a payload between two events, so that the first piece fills a batch with this
    /// `capacity`. Returns `None` if the payload cannot be split or no event fits; the whole
    /// payload then waits for the next batch.
    fn cut(
        _payload: &EncodedPayload,
        _capacity: Capacity,
    ) -> Option<(EncodedPayload, EncodedPayload)>
    where
        Self: Sized,
    {
        None
    }

    /// Handles the rejection of a request that contains events by a [`RequestLane`]'s endpoint.
    /// Returns whether the request must be split; otherwise the packer rejects all of its events as
    /// in [`Packer::pack`]. Runs on a blocking thread.
    fn on_refusal(&mut self, _request: &Request, _refusal: &Refusal) -> bool {
        true
    }

    /// Splits a request that the endpoint rejected because of its content (400, 413, 422) into
    /// smaller requests that together carry the same events, in order. Returns `None` for a single
    /// event, which is then rejected. Events that no smaller request contains are rejected as in
    /// [`Packer::pack`]. Runs on a blocking thread.
    fn split(&mut self, request: Request) -> Option<Vec<Request>>;

    /// Returns the event of a request with a single event. Called only if a component reads
    /// rejected events. Runs on a blocking thread.
    fn record(&mut self, request: &Request) -> Record;

    /// Returns the events that the packer has rejected since the last call. They are not counted as
    /// dropped, because a component reads them. Runs on a blocking thread.
    fn take_refused(&mut self) -> Vec<RefusedEvent> {
        Vec::new()
    }

    /// Returns whether the `body` of a rejection means that the endpoint already has the request's
    /// events. Called only if the response to an earlier attempt was lost, because this attempt may
    /// have been accepted. A single event is then treated as delivered.
    fn is_duplicate(_body: &[u8]) -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Converts a request to another format after the endpoint rejected its format (415). Returns
    /// `None` if there is no other format; the request is then retried later, because this is a
    /// configuration error. Runs on a blocking thread.
    fn convert(&mut self, _request: &Request) -> Option<Request> {
        None
    }

    /// Handles a successful response. `header` looks up the response headers by lowercase name.
    fn on_success(&mut self, _header: &dyn Fn(&str) -> Option<String>) {}
}
