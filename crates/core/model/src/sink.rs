//! The contract between a sink and the engine: workers encode, and lanes deliver.

use crate::backpressure::Backpressure;
use crate::batch::Batch;
use crate::block::BlockPool;
use crate::counters::Counters;
use crate::error::{ComponentError, DeliverError};
use crate::feed::Feed;
use crate::grant::Permit;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::pressure::MemoryPressure;
use crate::routing::{Routing, RoutingError};
use crate::snapshot::TaskSnapshot;
use crate::time::{EngineTime, Now};
use bytes::Bytes;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A boxed future, allocated once per payload.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Writes data to an endpoint.
pub trait Sink: Send + Sync {
    /// Creates an encoder; each worker thread has a separate one.
    fn encoder(&self) -> Box<dyn Encoder>;

    /// Returns the maximum bytes that an encoder produces for a batch with `block_bytes` of text in
    /// at most `rows` rows.
    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64;

    /// Returns the name of the payload format, such as `kafka/1`. A sink's lanes can deliver any
    /// payload in this format, even if the sink's options have changed since.
    ///
    /// The name must change with every change that would make an old payload undeliverable or wrong
    /// for the lane (request framing, routing format). It does not depend on the codec for single
    /// events, because a buffered payload is sent as it was encoded.
    fn payload_format(&self) -> String;

    /// Recreates the routing of a payload that was written to disk from the `bytes` that
    /// [`Routing::write`] appended; not called for a payload without routing. `payload` contains
    /// the original parts with their boundaries, and the event and byte counts.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a valid routing. The bytes have passed a checksum, so
    /// an error means that another version wrote them, or a bug. The implementation must validate
    /// the routing, because the lane relies on it.
    fn read_routing(
        &self,
        _bytes: &[u8],
        _payload: &Payload,
    ) -> Result<Option<Arc<dyn Routing>>, RoutingError> {
        Err(RoutingError("payloads of this sink have no metadata"))
    }

    /// Returns the minimum bytes that all lanes together need in addition to payloads, for example
    /// for compressors. [`LaneCx::state_bytes`] is at least this number.
    fn state_bytes_min(&self) -> u64 {
        0
    }

    /// Returns the number of lanes, which are ordered delivery paths. An origin always uses the
    /// same lane.
    fn lanes(&self) -> usize {
        1
    }

    /// Opens lane `cx.lane`. Called once per lane, before any delivery.
    fn lane(&self, cx: LaneCx) -> Box<dyn Lane>;

    /// Returns the tasks of a merge transform, if any.
    fn tasks(&self) -> Vec<TaskSnapshot> {
        Vec::new()
    }

    /// Closes the sink. Called once, after the last delivery.
    fn close(&self) {}
}

/// Encodes batches into payloads. An encoder may keep buffers between calls, but no events.
pub trait Encoder: Send {
    /// Appends the selected rows of `batch` to `payload`. If the payload stays empty, its events
    /// are treated as delivered.
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError>;
}

/// Resources that the engine passes to an encoder.
pub struct EncodeCx<'a> {
    /// Provides buffers for encoded events.
    pub pool: &'a Arc<BlockPool>,
    /// The permit for the batch's declared expansion, which also pays for the encoded buffers.
    pub permit: &'a mut Permit,
    /// The sink's counters.
    pub counters: &'a Counters,
    /// Collects the rows that cannot be encoded, with the reasons. `None` if no source reads
    /// rejected events; the encoder then counts the rows as dropped.
    pub refused: Option<&'a mut Vec<(usize, &'static str)>>,
}

impl EncodeCx<'_> {
    /// Makes an encoded buffer part of a payload, paid for by the permit.
    pub fn freeze(&mut self, buffer: Vec<u8>) -> Bytes {
        let permit = self.permit.split(buffer.capacity() as u64);
        self.pool.freeze(buffer, permit)
    }
}

/// Resources that the engine passes to a lane when it opens.
pub struct LaneCx {
    /// The sink's id, for messages.
    pub sink: Arc<str>,
    /// Index of the lane.
    pub lane: usize,
    /// The state that the lane saved before the restart, from [`Lane::sync`] or `keep`.
    pub state: Option<Vec<u8>>,
    /// The sink's counters.
    pub counters: Arc<Counters>,
    /// Bytes that all lanes of the sink may use in addition to payloads, for example for
    /// compressors.
    pub state_bytes: u64,
    /// Saves a state immediately; the state is durable on return. Needed for information that must
    /// be saved before the first write. The call commits all checkpoints settled before it.
    pub keep: Arc<dyn Fn(Vec<u8>) -> std::io::Result<()> + Send + Sync>,
    /// Whether the last result of [`Lane::sync`] is committed, with the checkpoints of the events
    /// it contains. Until then, a crash would lose that result.
    pub is_committed: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Reads both clocks.
    pub now: Arc<dyn Fn() -> Now + Send + Sync>,
    /// The sink's folder in `data_dir`; created on demand. `None` in a unit test of a
    /// configuration, which stores nothing.
    pub folder: Option<PathBuf>,
    /// The events that the sink creates: a merge transform's results, or another sink's rejected
    /// events.
    pub feed: Arc<Feed>,
    /// The memory pressure of the process.
    pub pressure: Arc<MemoryPressure>,
    /// Shows whether the lane's inputs are waiting.
    pub backpressure: Arc<Backpressure>,
}

impl LaneCx {
    /// Creates the context for a lane outside of an engine: no saved state, no folder, and no
    /// reader of rejected events.
    pub fn outside(sink: &str, lane: usize, counters: Arc<Counters>) -> LaneCx {
        LaneCx {
            sink: sink.into(),
            lane,
            state: None,
            counters,
            state_bytes: 0,
            keep: Arc::new(|_| Ok(())),
            is_committed: Arc::new(|| true),
            now: Arc::new(|| Now::read(EngineTime::ZERO)),
            folder: None,
            feed: Feed::of_refused(),
            pressure: Arc::default(),
            backpressure: Arc::default(),
        }
    }
}

/// Progress after a successful delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Durable at the endpoint.
    Durable,
    /// Accepted; durable after the next successful [`Lane::sync`].
    Taken,
    /// In flight: [`Lane::settled`] returns the outcome. The lane keeps the parts of the payload
    /// that it needs for retries.
    Sent,
}

/// The outcome of a payload that was [`Delivery::Sent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Outcome for the payload's debts.
    pub outcome: Outcome,
    /// Number of events that were rejected individually; the lane has counted them with a reason.
    pub refused: u64,
}

/// An event that the endpoint rejected. A lane returns rejected events only if
/// [`Feed::keeps_refused`] is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Index of the event's payload among the payloads that were [`Delivery::Sent`], counted from 0
    /// since the lane was opened.
    pub payload: u64,
    /// Index of the event in that payload.
    pub event: u32,
    /// Reason for the rejection, for people and for filters to read.
    pub reason: String,
    /// The event as it was encoded.
    pub record: Bytes,
    /// Whether the record is a JSON object.
    pub is_json: bool,
}

/// An ordered delivery path. The engine drives each lane separately, one call at a time.
pub trait Lane: Send {
    /// Connects or opens the endpoint before the first delivery. Called again after an error.
    fn start(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async { Ok(()) })
    }

    /// Delivers a payload, all or nothing. Called again with the same payload after a retryable
    /// error.
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>>;

    /// Returns whether the lane is temporarily not accepting payloads. Payloads then stay in the
    /// queue before the lane, where newer ones may replace them. The engine calls this again when
    /// the lane makes progress.
    fn is_full(&self) -> bool {
        false
    }

    /// Immediately sends all events that the lane holds to build larger batches or to spread its
    /// requests, because no more events will arrive for now (shutdown, a reload, the end of the
    /// input). May be called often.
    fn flush(&mut self) {}

    /// Allows the next attempt immediately, and resets the backoff, because shutdown has little
    /// time. A pause that the endpoint asked for stays in effect.
    fn end_pauses(&mut self) {}

    /// Makes all accepted events durable, and returns the state to save with the checkpoints, if
    /// any.
    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns the known outcomes of payloads that were [`Delivery::Sent`], oldest first. Each
    /// outcome is returned once. Never waits.
    fn settled(&mut self) -> Vec<Settled> {
        Vec::new()
    }

    /// Returns the events that were rejected since the last call. The engine calls this method
    /// before [`Lane::settled`], so that it has the events before their payloads count as settled.
    fn refused(&mut self) -> Vec<Refused> {
        Vec::new()
    }

    /// Does work that is due at a certain time; returns the time until the next call, if one is
    /// needed. Called whenever the lane has nothing to deliver. Never waits.
    fn tick(&mut self) -> Option<Duration> {
        None
    }

    /// Waits until [`Lane::settled`] has outcomes. An error states why there is no progress; the
    /// lane keeps retrying. Called only while a payload is in flight. The future may be dropped at
    /// any `await`, and the method called again.
    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(std::future::pending())
    }

    /// Returns how long accepted payloads may wait for a sync.
    fn sync_interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns whether the lane must sync before the next delivery.
    fn wants_sync(&self) -> bool {
        false
    }

    /// Closes the lane. Called last, after everything was delivered and synced. Returns the state
    /// to save, if it differs from the state after the last sync.
    fn close(&mut self) -> Option<Vec<u8>> {
        None
    }
}
