//! The lane: numbers frames, keeps them until they are settled, and reconnects.

use super::config::TcpConfig;
use super::connection::{Connection, ConnectionError, ConnectionOptions};
use super::frame::{Frame, FrameEncoder, OpenBatch};
use super::protocol::Hello;
use super::targets::Targets;
use crate::codec::Codec;
use crate::sinks::http_delivery::{BatchOptions, Stall, due, wait_until};
use millstream_compression::Algorithm;
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Lane, LaneCx, Outcome, Payload, Settled,
};
use millstream_transport::tls::Tls;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Interval between warnings about rejections.
const WARN_INTERVAL: Duration = Duration::from_secs(30);

/// A lane of the `tcp` sink, with at most one connection.
pub struct TcpLane {
    config: Arc<TcpConfig>,
    tls: Option<Arc<Tls>>,
    /// Sink name.
    sink: Arc<str>,
    counters: Arc<Counters>,
    encoder: Arc<FrameEncoder>,
    batch: BatchOptions,
    session: [u8; 16],
    targets: Targets,
    connection: Option<Connection>,
    /// The batch that still accepts payloads.
    open_batch: OpenBatch,
    added: Option<(Instant, Instant)>,
    stall: Stall,
    /// Unsettled frames, oldest first.
    pending: VecDeque<Pending>,
    /// Bytes in `pending` and `open_batch`.
    bytes: u64,
    /// Number of the last frame built.
    last: u64,
    /// Number of the last frame passed to a connection. An endpoint may have received this frame.
    last_sent: u64,
    /// Settled payloads that have not been reported to the engine yet.
    settled: Vec<Settled>,
    /// Time when a rejection was last logged.
    warned_at: Option<Instant>,
}

struct Pending {
    frame: Arc<Frame>,
    is_refused: bool,
}

impl TcpLane {
    /// Creates a lane that connects when it starts.
    pub fn new(config: Arc<TcpConfig>, tls: Option<Arc<Tls>>, cx: LaneCx) -> TcpLane {
        let mut session = [0; 16];
        fastrand::fill(&mut session);
        TcpLane {
            tls,
            sink: cx.sink,
            counters: cx.counters,
            encoder: Arc::new(FrameEncoder::new(&config)),
            batch: config.batch.unwrap_or_default(),
            session,
            targets: Targets::new(config.targets(), cx.lane),
            config,
            connection: None,
            open_batch: OpenBatch::default(),
            added: None,
            stall: Stall::new(cx.backpressure),
            pending: VecDeque::new(),
            bytes: 0,
            last: 0,
            last_sent: 0,
            settled: Vec::new(),
            warned_at: None,
        }
    }

    /// Processes the status of the connection. Reconnects if the connection ended and frames are
    /// pending. Returns the error that ended the connection, unless the endpoint closed an idle
    /// connection.
    fn reconnect(&mut self) -> Result<(), DeliverError> {
        if let Some(failure) = self.process_status() {
            // A server may close an idle connection.
            let is_idle = failure.kind == "closed" && self.pending.is_empty();
            let error = self.disconnect(failure);
            if !is_idle {
                return Err(error);
            }
        }
        if self.connection.is_none() && !self.pending.is_empty() {
            self.open()?;
        }
        Ok(())
    }

    /// Drops a failed connection. Returns the error for the engine, with the time until the next
    /// attempt.
    fn disconnect(&mut self, failure: ConnectionError) -> DeliverError {
        self.connection = None;
        let pause = self.targets.failed(Instant::now(), fastrand::u32(..));
        DeliverError { retry_after: Some(pause), ..DeliverError::retry(failure.kind, failure.text) }
    }

    fn open(&mut self) -> Result<(), DeliverError> {
        let Some((address, when)) = self.targets.next(Instant::now()) else {
            return Err(DeliverError::retry("address", "no address to connect to is configured"));
        };
        let left = self.pending.iter().filter(|pending| !pending.is_refused);
        let frames: Vec<Arc<Frame>> = left.map(|pending| pending.frame.clone()).collect();
        let hello = self.config.acknowledgements.then(|| Hello {
            session: self.session,
            compression: compression_number(self.config.compression),
            codec: codec_number(self.config.encoding.codec),
            next: frames.first().map_or(self.last + 1, |frame| frame.number),
        });
        let plan = ConnectionOptions {
            address,
            when,
            tls: self.tls.clone(),
            connect_timeout: self.config.connect_timeout.0,
            timeout: self.config.timeout.0,
            hello,
            last: self.last_sent,
        };
        self.last_sent = self.last;
        self.connection = Some(Connection::open(plan, self.encoder.clone(), frames));
        Ok(())
    }

    /// Processes the status of the connection. Returns the error that ended the connection, if
    /// there is one.
    fn process_status(&mut self) -> Option<ConnectionError> {
        let status = self.connection.as_ref()?.take_status();
        for (number, reason) in &status.refused {
            self.refuse(*number, reason);
        }
        let before = self.pending.len();
        while self.pending.front().is_some_and(|p| p.is_refused || p.frame.number <= status.settled)
        {
            let Some(Pending { frame, is_refused }) = self.pending.pop_front() else { break };
            if let Some(connection) = &self.connection {
                connection.settle(frame.number);
            }
            self.bytes = self.bytes.saturating_sub(frame.bytes);
            let outcome = if is_refused { Outcome::Rejected } else { Outcome::Delivered };
            let settled =
                |events: &u64| Settled { outcome, refused: if is_refused { *events } else { 0 } };
            self.settled.extend(frame.payloads.iter().map(settled));
        }
        if self.pending.len() < before {
            self.targets.succeeded();
        }
        status.failure
    }

    fn refuse(&mut self, number: u64, reason: &str) {
        let found = self.pending.iter_mut().find(|pending| pending.frame.number == number);
        let Some(pending) = found.filter(|pending| !pending.is_refused) else { return };
        pending.is_refused = true;
        self.counters.dropped("refused", pending.frame.events);
        self.counters.set_last_error(reason);
        if self.warned_at.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
            self.warned_at = Some(Instant::now());
            log::warn!(
                "sink {}: the endpoint rejected {} events: {reason}",
                self.sink,
                pending.frame.events
            );
        }
    }

    fn has_capacity(&self) -> bool {
        let window = &self.config.window;
        (self.pending.len() < window.frames && self.bytes < window.bytes.0)
            || (self.pending.is_empty() && self.open_batch.is_empty())
    }

    fn take(&mut self, payload: &Payload) {
        let over = self.open_batch.bytes + payload.bytes > self.batch.bytes.0
            || self.open_batch.events + payload.events > self.batch.events;
        if over {
            self.close_batch();
        }
        self.open_batch.add(&payload.parts, payload.events, payload.bytes);
        self.bytes += payload.bytes;
        let full = self.open_batch.bytes >= self.batch.bytes.0
            || self.open_batch.events >= self.batch.events;
        if full || !self.config.has_batches() {
            self.close_batch();
        } else {
            let now = Instant::now();
            self.added = Some((self.added.map_or(now, |(first, _)| first), now));
        }
    }

    /// Returns the time when the open batch is due.
    fn due(&mut self) -> Option<Instant> {
        // Frames in flight do not matter, because several frames are sent without waiting for a
        // response.
        let stalled = self.stall.since(self.added.is_some(), Instant::now());
        let (first, last) = self.added?;
        Some(due(first + self.batch.timeout.0, last, stalled))
    }

    /// Closes the open batch and sends it as a frame.
    fn close_batch(&mut self) {
        self.added = None;
        if self.open_batch.is_empty() {
            return;
        }
        self.last += 1;
        let frame = Arc::new(std::mem::take(&mut self.open_batch).close(self.last));
        if let Some(connection) = &self.connection {
            connection.send(frame.clone());
            self.last_sent = self.last;
        }
        self.pending.push_back(Pending { frame, is_refused: false });
    }

    /// Waits for a change of the connection's status, or until the open batch is due.
    async fn listen(&mut self) {
        let due = self.due();
        let status_changed = async {
            match &self.connection {
                Some(connection) => connection.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait_until(due) => {}
            () = status_changed => {}
        }
        // Payloads or backpressure may have changed the due time during the wait.
        if self.due().is_some_and(|due| due <= Instant::now()) {
            self.close_batch();
        }
    }
}

fn compression_number(algorithm: Algorithm) -> u8 {
    Algorithm::ALL.iter().position(|known| *known == algorithm).map_or(0, |place| place as u8)
}

fn codec_number(codec: Codec) -> u8 {
    match codec {
        Codec::Json | Codec::RawJson => 0,
        Codec::Text => 1,
        Codec::Msgpack => 2,
    }
}

impl Lane for TcpLane {
    fn start(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            loop {
                if self.connection.is_none() {
                    self.open()?;
                }
                let status =
                    self.connection.as_ref().map(Connection::take_status).unwrap_or_default();
                if let Some(failure) = status.failure {
                    return Err(self.disconnect(failure));
                }
                if status.is_connected {
                    return Ok(());
                }
                self.listen().await;
            }
        })
    }

    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            loop {
                self.reconnect()?;
                if self.has_capacity() {
                    break;
                }
                if self.pending.is_empty() {
                    // The open batch alone fills the window, so only sending it frees space.
                    self.close_batch();
                    continue;
                }
                self.listen().await;
            }
            self.take(payload);
            Ok(Delivery::Sent)
        })
    }

    fn flush(&mut self) {
        self.close_batch();
    }

    fn end_pauses(&mut self) {
        self.targets.end_pauses();
    }

    fn settled(&mut self) -> Vec<Settled> {
        // Ignore the error of a connection that has ended: the next call that may wait returns it.
        let _ = self.process_status();
        std::mem::take(&mut self.settled)
    }

    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            loop {
                self.reconnect()?;
                if !self.settled.is_empty() {
                    return Ok(());
                }
                self.listen().await;
            }
        })
    }

    fn close(&mut self) -> Option<Vec<u8>> {
        if let Some(connection) = self.connection.take() {
            connection.finish();
        }
        None
    }
}

#[cfg(test)]
mod tests;
