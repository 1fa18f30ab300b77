//! Requests to an endpoint, for sinks that speak HTTP: payloads are collected into batches, packed
//! into requests on a blocking thread, and sent in order, one at a time per lane.
//!
//! A sink brings a [`Packer`] and its [`Settings`]; the [`RequestLane`] does everything else.

mod batcher;
mod config;
mod dispatcher;
mod lane;
mod pack_task;
mod response_class;
mod spread;

pub use config::{
    BatchOptions, RequestOptions, Settings, access_files, check_access, check_headers, targets,
    under,
};
pub use lane::RequestLane;
pub use spread::{Hold, Spread};

use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;

/// Metadata of a payload, which an encoder puts into `Payload::routing` for a [`RequestLane`].
/// Without it a payload is sent when its batch is due, and the packer gets its bytes alone.
#[derive(Clone, Default)]
pub struct PayloadMetadata {
    /// How long the payload is held back: see [`Spread`].
    pub hold: Option<Hold>,
    /// What the encoder tells the packer about the parts.
    pub routing: Option<Arc<dyn Any + Send + Sync>>,
}

/// An encoded payload, as the packer gets it.
#[derive(Clone)]
pub struct EncodedPayload {
    /// The encoded bytes: views, not copies.
    pub parts: Vec<Bytes>,
    /// Events in it.
    pub events: u64,
    /// Bytes in all parts.
    pub bytes: u64,
    /// What the encoder tells the packer about the parts.
    pub routing: Option<Arc<dyn Any + Send + Sync>>,
    /// Units of the payload that went with an earlier batch; `routing` still describes them.
    pub units_before: usize,
    /// Whether another piece of the payload follows in a later batch.
    pub continues: bool,
}

/// How much of a payload a batch has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes before compression.
    pub bytes: u64,
    /// Events.
    pub events: u64,
    /// The batch is empty: its first unit goes, however large it is.
    pub is_empty: bool,
}

/// A request that is ready to be sent, as often as it takes.
pub struct Request {
    /// The body, in order; several parts are not joined before they are sent.
    pub body: Vec<Bytes>,
    /// Headers of this request beside those of the sink: names in lower case, and values.
    pub headers: Vec<(&'static str, String)>,
    /// Events in it. One with none is a question: an answer that refuses it, whatever the reason,
    /// ends it.
    pub events: u64,
    /// The packer's own: what the request was made of, for [`Packer::split`].
    pub origin: Box<dyn Any + Send>,
}

/// Makes requests of payloads. It may keep a state: a lane has one packer, and each payload passes
/// it once, in order, however often its request is sent.
pub trait Packer: Send + 'static {
    /// What `taken` brought, in order, as requests in order. Events that are in no request were
    /// dropped, and counted with a reason, by the packer. Runs on a blocking thread.
    fn pack(&mut self, taken: Vec<EncodedPayload>) -> Vec<Request>;

    /// Cuts a payload in two between two events, so that the first piece fills a batch that has
    /// `room`. `None` if it cannot be cut, or nothing of it fits: the payload then waits for the
    /// next batch, whole.
    fn cut(_taken: &EncodedPayload, _room: Room) -> Option<(EncodedPayload, EncodedPayload)>
    where
        Self: Sized,
    {
        None
    }

    /// The endpoint refused this request for its content (400, 413, 422): smaller ones that say the
    /// same together, in order; `None` for a single event, which the lane then drops and counts as
    /// `refused`. Events that are in none of them were dropped, and counted with a reason, by the
    /// packer. Runs on a blocking thread.
    fn split(&mut self, request: Request) -> Option<Vec<Request>>;

    /// A request was refused of which an earlier attempt may have been taken, since its answer was
    /// lost: whether `said`, the body of the answer, means that the endpoint has what it brings
    /// already. A single event then counts as delivered.
    fn has_already(_said: &[u8]) -> bool
    where
        Self: Sized,
    {
        false
    }

    /// The endpoint does not take this form of request (415): the same in another form. None if
    /// there is no other: it is a fault of the configuration then, and sent again later. Runs on a
    /// blocking thread.
    fn convert(&mut self, _request: &Request) -> Option<Request> {
        None
    }

    /// A request was answered with success; `header` finds headers of the answer by lower-case
    /// name.
    fn answered(&mut self, _header: &dyn Fn(&str) -> Option<String>) {}
}
