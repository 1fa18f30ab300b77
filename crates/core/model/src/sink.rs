//! The contract between a sink and the engine: encode on a worker, deliver on a lane.

use crate::ack::Outcome;
use crate::batch::Batch;
use crate::block::BlockPool;
use crate::counters::Counters;
use crate::error::{ComponentError, DeliverError};
use crate::grant::Permit;
use crate::payload::Payload;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A boxed future, made once per payload.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Lets data out.
pub trait Sink: Send + Sync {
    /// An encoder; each worker thread has its own.
    fn encoder(&self) -> Box<dyn Encoder>;

    /// Bytes an encoder may make of one batch over `block_bytes` of text in at most `rows` rows.
    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64;

    /// Bytes that all lanes together need beside their payloads, at least: the state of
    /// compressors. They get [`LaneCx::state_bytes`], which is as much or more.
    fn state_bytes_min(&self) -> u64 {
        0
    }

    /// Number of lanes: ordered paths out. An origin always uses the same one.
    fn lanes(&self) -> usize {
        1
    }

    /// Opens lane `cx.lane`. Called once per lane, before any delivery.
    fn lane(&self, cx: LaneCx) -> Box<dyn Lane>;

    /// Called once after the last delivery.
    fn close(&self) {}
}

/// Turns batches into payloads. May keep buffers, never events.
pub trait Encoder: Send {
    /// Appends the selected rows of `batch` to `payload`. An encoder that leaves the payload empty
    /// has done all there is to do: nothing is delivered and the events count as delivered.
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError>;
}

/// What the engine hands to an encoder.
pub struct EncodeCx<'a> {
    /// Where buffers come from.
    pub pool: &'a Arc<BlockPool>,
    /// The declared expansion of the batch, from which buffers are paid.
    pub permit: &'a mut Permit,
    /// The sink's counters.
    pub counters: &'a Counters,
}

impl EncodeCx<'_> {
    /// Makes an encoded buffer part of a payload, paid from the permit.
    pub fn freeze(&mut self, buffer: Vec<u8>) -> Bytes {
        let permit = self.permit.split(buffer.capacity() as u64);
        self.pool.freeze(buffer, permit)
    }
}

/// What the engine hands to a lane when it opens.
pub struct LaneCx {
    /// Name of the sink in the configuration, for messages.
    pub sink: Arc<str>,
    /// Index of the lane.
    pub lane: usize,
    /// What [`Lane::sync`] returned last before the restart.
    pub state: Option<Vec<u8>>,
    /// The sink's counters.
    pub counters: Arc<Counters>,
    /// Bytes that all lanes of the sink may take beside their payloads, such as for compressors.
    pub state_bytes: u64,
    /// Keeps a state at once, durable on return: for what must be known before the first write.
    /// With it go all checkpoints that were settled before.
    pub keep: Arc<dyn Fn(Vec<u8>) -> std::io::Result<()> + Send + Sync>,
}

/// How a delivery went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Durable on the endpoint.
    Durable,
    /// Taken, and durable after the next [`Lane::sync`] that succeeds.
    Taken,
    /// On its way: [`Lane::settled`] tells what became of it. The lane keeps what it needs of the
    /// payload to send it again by itself.
    Sent,
}

/// What became of a payload that was [`Delivery::Sent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// How its debt ends.
    pub outcome: Outcome,
    /// Events of it that were refused one by one, and counted with a reason by the lane.
    pub refused: u64,
}

/// An ordered path out. The engine drives each lane alone: one call at a time.
pub trait Lane: Send {
    /// Makes sure that the endpoint is there, before the first delivery. Called again after an
    /// error.
    fn start(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async { Ok(()) })
    }

    /// Delivers a payload, whole or not at all. Called again with the same payload after an error
    /// that allows it.
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>>;

    /// Whether it takes no more for now. What waits stays in the queue in front of it, where it can
    /// make room for what is newer; the lane is asked again when it makes progress.
    fn is_full(&self) -> bool {
        false
    }

    /// Nothing more comes for now (a stop, a reload, the end of the input): what the lane holds
    /// back at this moment, to make larger batches or to spread them over time, is sent at once.
    /// May be called often.
    fn flush(&mut self) {}

    /// Makes everything taken so far durable, and returns what to keep with the checkpoints.
    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(async { Ok(None) })
    }

    /// What became of payloads that were [`Delivery::Sent`], oldest first, as far as it is known
    /// and not told yet. Never waits.
    fn settled(&mut self) -> Vec<Settled> {
        Vec::new()
    }

    /// Waits until [`Lane::settled`] has something to tell. An error says why nothing gets on; the
    /// lane goes on trying. Called only while something is on its way. May be dropped at any
    /// `await` and called anew.
    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(std::future::pending())
    }

    /// How long what was taken may wait for its sync.
    fn sync_interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Whether what was taken should be synced before anything else is delivered.
    fn wants_sync(&self) -> bool {
        false
    }

    /// Called last, after everything was delivered and synced; returns what to keep from then on,
    /// if that differs from what the last sync returned.
    fn close(&mut self) -> Option<Vec<u8>> {
        None
    }
}
