//! The lane: numbers what it takes, keeps it until it is settled, and mends the connection.

use super::config::TcpConfig;
use super::frames::Hello;
use super::link::{Link, LinkError, Plan};
use super::targets::Targets;
use super::unit::{Draft, Packer, Unit};
use crate::codec::Codec;
use crate::requests::BatchOptions;
use millstream_compression::Algorithm;
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Lane, LaneCx, Outcome, Payload, Settled,
};
use millstream_transport::tls::Tls;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often refusals are shown in the log.
const SAY_AGAIN: Duration = Duration::from_secs(30);

/// The lane.
pub struct TcpLane {
    config: Arc<TcpConfig>,
    tls: Option<Arc<Tls>>,
    /// Name of the sink.
    sink: Arc<str>,
    counters: Arc<Counters>,
    packer: Arc<Packer>,
    batch: BatchOptions,
    session: [u8; 16],
    targets: Targets,
    link: Option<Link>,
    /// Payloads that wait for others, and until when.
    draft: Draft,
    due: Option<Instant>,
    /// Not settled, oldest first.
    pending: VecDeque<Pending>,
    /// Bytes in `pending` and `draft`.
    bytes: u64,
    /// Number of the unit that was made last.
    last: u64,
    /// Number of the last unit that a connection was given: an endpoint may know it.
    given: u64,
    /// Settled, and not told to the engine yet.
    settled: Vec<Settled>,
    said: Option<Instant>,
}

struct Pending {
    unit: Arc<Unit>,
    is_refused: bool,
}

impl TcpLane {
    /// A lane that connects when it starts.
    pub fn new(config: Arc<TcpConfig>, tls: Option<Arc<Tls>>, cx: LaneCx) -> TcpLane {
        let mut session = [0; 16];
        fastrand::fill(&mut session);
        TcpLane {
            tls,
            sink: cx.sink,
            counters: cx.counters,
            packer: Arc::new(Packer::new(&config)),
            batch: config.batch.unwrap_or_default(),
            session,
            targets: Targets::new(config.targets(), cx.lane),
            config,
            link: None,
            draft: Draft::default(),
            due: None,
            pending: VecDeque::new(),
            bytes: 0,
            last: 0,
            given: 0,
            settled: Vec::new(),
            said: None,
        }
    }

    /// Takes in what the connection tells, and begins another one if it has ended while there is
    /// something to send. An error says why it has ended.
    fn mend(&mut self) -> Result<(), DeliverError> {
        let failure = self.harvest();
        if let Some(failure) = failure {
            self.link = None;
            // A server may end a connection that nobody uses.
            let is_idle = failure.kind == "closed" && self.pending.is_empty();
            let pause = self.targets.failed(Instant::now(), fastrand::u32(..));
            if !is_idle {
                return Err(DeliverError {
                    retry_after: Some(pause),
                    ..DeliverError::retry(failure.kind, failure.text)
                });
            }
        }
        if self.link.is_none() && !self.pending.is_empty() {
            self.open()?;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), DeliverError> {
        let Some((address, when)) = self.targets.next(Instant::now()) else {
            return Err(DeliverError::retry("address", "there is no address to connect to"));
        };
        let left = self.pending.iter().filter(|pending| !pending.is_refused);
        let units: Vec<Arc<Unit>> = left.map(|pending| pending.unit.clone()).collect();
        let hello = self.config.acknowledgements.then(|| Hello {
            session: self.session,
            compression: compression_number(self.config.compression),
            codec: codec_number(self.config.encoding.codec),
            next: units.first().map_or(self.last + 1, |unit| unit.number),
        });
        let plan = Plan {
            address,
            when,
            tls: self.tls.clone(),
            connect_timeout: self.config.connect_timeout.0,
            timeout: self.config.timeout.0,
            hello,
            last: self.given,
        };
        self.given = self.last;
        self.link = Some(Link::open(plan, self.packer.clone(), units));
        Ok(())
    }

    /// Takes in what the connection tells; why it has ended, if it has.
    fn harvest(&mut self) -> Option<LinkError> {
        let told = self.link.as_ref()?.told();
        for (number, reason) in &told.refused {
            self.refuse(*number, reason);
        }
        let before = self.pending.len();
        while self.pending.front().is_some_and(|p| p.is_refused || p.unit.number <= told.settled) {
            let Some(Pending { unit, is_refused }) = self.pending.pop_front() else { break };
            if let Some(link) = &self.link {
                link.settle(unit.number);
            }
            self.bytes = self.bytes.saturating_sub(unit.bytes);
            let outcome = if is_refused { Outcome::Rejected } else { Outcome::Delivered };
            let settled =
                |events: &u64| Settled { outcome, refused: if is_refused { *events } else { 0 } };
            self.settled.extend(unit.payloads.iter().map(settled));
        }
        if self.pending.len() < before {
            self.targets.succeeded();
        }
        told.failure
    }

    fn refuse(&mut self, number: u64, reason: &str) {
        let found = self.pending.iter_mut().find(|pending| pending.unit.number == number);
        let Some(pending) = found.filter(|pending| !pending.is_refused) else { return };
        pending.is_refused = true;
        self.counters.dropped("refused", pending.unit.events);
        if self.said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            self.said = Some(Instant::now());
            log::warn!(
                "sink {}: the endpoint refuses {} events: {reason}",
                self.sink,
                pending.unit.events
            );
        }
    }

    fn has_room(&self) -> bool {
        let window = &self.config.window;
        (self.pending.len() < window.frames && self.bytes < window.bytes.0)
            || (self.pending.is_empty() && self.draft.is_empty())
    }

    fn take(&mut self, payload: &Payload) {
        let over = self.draft.bytes + payload.bytes > self.batch.bytes.0
            || self.draft.events + payload.events > self.batch.events;
        if over {
            self.seal();
        }
        self.draft.add(&payload.parts, payload.events, payload.bytes);
        self.bytes += payload.bytes;
        let full = self.draft.bytes >= self.batch.bytes.0 || self.draft.events >= self.batch.events;
        if full || !self.config.has_batches() {
            self.seal();
        } else if self.due.is_none() {
            self.due = Some(Instant::now() + self.batch.timeout.0);
        }
    }

    /// Sends what was put together.
    fn seal(&mut self) {
        self.due = None;
        if self.draft.is_empty() {
            return;
        }
        self.last += 1;
        let unit = Arc::new(std::mem::take(&mut self.draft).seal(self.last));
        if let Some(link) = &self.link {
            link.send(unit.clone());
            self.given = self.last;
        }
        self.pending.push_back(Pending { unit, is_refused: false });
    }

    /// Waits for something new: from the connection, or the time of a batch.
    async fn listen(&mut self) {
        let due = self.due;
        let timer = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let news = async {
            match &self.link {
                Some(link) => link.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = timer => self.seal(),
            () = news => {}
        }
    }
}

fn compression_number(algorithm: Algorithm) -> u8 {
    Algorithm::ALL.iter().position(|known| *known == algorithm).map_or(0, |place| place as u8)
}

fn codec_number(codec: Codec) -> u8 {
    match codec {
        Codec::Json => 0,
        Codec::Text => 1,
        Codec::Msgpack => 2,
    }
}

impl Lane for TcpLane {
    fn start(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            loop {
                if self.link.is_none() {
                    self.open()?;
                }
                let told = self.link.as_ref().map(Link::told).unwrap_or_default();
                if let Some(failure) = told.failure {
                    self.link = None;
                    let pause = self.targets.failed(Instant::now(), fastrand::u32(..));
                    return Err(DeliverError {
                        retry_after: Some(pause),
                        ..DeliverError::retry(failure.kind, failure.text)
                    });
                }
                if told.is_connected {
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
                self.mend()?;
                if self.has_room() {
                    break;
                }
                if self.pending.is_empty() {
                    // The draft alone fills the window: nothing would make room before its time is
                    // over.
                    self.seal();
                    continue;
                }
                self.listen().await;
            }
            self.take(payload);
            Ok(Delivery::Sent)
        })
    }

    fn flush(&mut self) {
        self.seal();
    }

    fn settled(&mut self) -> Vec<Settled> {
        // Why a connection has ended is told by the next call that may wait.
        let _ = self.harvest();
        std::mem::take(&mut self.settled)
    }

    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            loop {
                self.mend()?;
                if !self.settled.is_empty() {
                    return Ok(());
                }
                self.listen().await;
            }
        })
    }

    fn close(&mut self) -> Option<Vec<u8>> {
        if let Some(link) = self.link.take() {
            link.finish();
        }
        None
    }
}

#[cfg(test)]
mod tests;
