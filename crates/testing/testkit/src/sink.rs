//! A sink with an in-memory endpoint that survives the agent, and with fault injection.

use fastrand::Rng;
use millstream_model::{
    Batch, BoxFuture, ComponentError, DeliverError, Delivery, EncodeCx, Encoder, Feed, Lane,
    LaneCx, Outcome, Payload, Refused, Settled, Sink,
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The behavior of a fake sink.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinkBehavior {
    /// Number of lanes.
    pub lanes: usize,
    /// One delivery in this many fails temporarily; 0 for never.
    pub fails_one_in: u64,
    /// One delivery in this many panics; 0 for never.
    pub panics_one_in: u64,
    /// Whether deliveries become durable only at a sync.
    pub syncs: bool,
    /// Whether deliveries are sent immediately and settled later; overrides `syncs`.
    pub sends: bool,
    /// Whether payloads in flight are completed in any order and some of them are returned
    /// undelivered. They are settled oldest first in any case.
    pub unordered: bool,
    /// Rejects the lines whose sum of bytes is divisible by this number; 0 to reject none. Applies
    /// only if deliveries are sent and a component reads rejected events.
    pub refuses_one_in: u64,
    /// Duration of each delivery.
    pub delay: Duration,
    /// Duration of each sync. The sync interval is twenty times as long, and at least a second.
    pub sync_delay: Duration,
}

/// The endpoint of a sink.
#[derive(Clone, Default)]
pub struct MemoryEndpoint {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Durable and unsynced bytes of each lane.
    lanes: Vec<(Vec<u8>, Vec<u8>)>,
    stalled: bool,
    /// Number of lanes closed with everything delivered and synced.
    closed: usize,
    /// Number of lanes opened so far. It seeds the faults of each lane, so that they differ.
    opened: u64,
}

impl MemoryEndpoint {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sets whether every delivery and sync fails.
    pub fn stall(&self, stalled: bool) {
        self.lock().stalled = stalled;
    }

    /// Returns the number of lanes closed with everything delivered and synced.
    pub fn closed_lanes(&self) -> usize {
        self.lock().closed
    }

    /// Returns all durable lines, by lane in order of arrival.
    pub fn lines(&self) -> Vec<String> {
        let state = self.lock();
        state
            .lanes
            .iter()
            .flat_map(|(durable, _)| {
                String::from_utf8_lossy(durable).lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .collect()
    }

    fn put(&self, lane: usize, bytes: &[u8], durable: bool) {
        let state = &mut self.lock().lanes[lane];
        if durable { state.0.extend_from_slice(bytes) } else { state.1.extend_from_slice(bytes) }
    }

    /// Makes all bytes of a lane durable. Returns their number.
    fn sync(&self, lane: usize) -> u64 {
        let state = &mut self.lock().lanes[lane];
        let unsynced = std::mem::take(&mut state.1);
        state.0.extend_from_slice(&unsynced);
        state.0.len() as u64
    }

    /// Opens a lane after a restart. Truncates it to the synced length, like the file sink.
    fn open(&self, lane: usize, synced: Option<u64>, syncs: bool) -> u64 {
        let mut state = self.lock();
        state.opened += 1;
        if state.lanes.len() <= lane {
            state.lanes.resize(lane + 1, Default::default());
        }
        state.lanes[lane].1.clear();
        if syncs {
            state.lanes[lane].0.truncate(synced.unwrap_or(0) as usize);
        }
        state.opened
    }
}

/// A fake sink.
pub struct FakeSink {
    /// Receives the deliveries.
    pub endpoint: MemoryEndpoint,
    /// The sink's behavior.
    pub behavior: SinkBehavior,
    /// Seed of the injected faults.
    pub seed: u64,
    /// See [`Sink::payload_format`].
    pub format: &'static str,
}

impl FakeSink {
    /// Creates a sink without faults.
    pub fn new(endpoint: &MemoryEndpoint) -> FakeSink {
        let (endpoint, behavior) = (endpoint.clone(), SinkBehavior::default());
        FakeSink { endpoint, behavior, seed: 1, format: "fake/1" }
    }
}

impl Sink for FakeSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(FakeEncoder)
    }

    fn payload_format(&self) -> String {
        self.format.to_owned()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        block_bytes + rows
    }

    fn lanes(&self) -> usize {
        self.behavior.lanes.max(1)
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        let synced = cx.state.and_then(|state| state.try_into().ok()).map(u64::from_le_bytes);
        let opened =
            self.endpoint.open(cx.lane, synced, self.behavior.syncs && !self.behavior.sends);
        let random = Rng::with_seed(self.seed ^ opened << 16);
        let (endpoint, behavior) = (self.endpoint.clone(), self.behavior);
        Box::new(FakeLane {
            endpoint,
            behavior,
            lane: cx.lane,
            feed: cx.feed,
            random,
            in_flight: VecDeque::new(),
            sent: 0,
            refused: Vec::new(),
            outcomes: Vec::new(),
            response_due: None,
        })
    }
}

/// Returns whether a sink that rejects lines rejects this line.
pub fn is_refused(line: &[u8], one_in: u64) -> bool {
    let sum: u64 = line.iter().map(|byte| u64::from(*byte)).sum();
    one_in > 0 && sum.is_multiple_of(one_in)
}

/// Encodes the text of each event as a line.
pub(crate) struct FakeEncoder;

impl Encoder for FakeEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let mut buffer = cx.pool.buffer();
        for row in (0..batch.rows()).filter(|row| batch.is_selected(*row)) {
            buffer.extend_from_slice(batch.text(row));
            buffer.push(b'\n');
        }
        payload.push(cx.freeze(buffer));
        Ok(())
    }
}

struct FakeLane {
    endpoint: MemoryEndpoint,
    behavior: SinkBehavior,
    lane: usize,
    feed: Arc<Feed>,
    random: Rng,
    /// Payloads in flight, oldest first.
    in_flight: VecDeque<Flight>,
    /// Payloads sent so far.
    sent: u64,
    /// Rejected lines not yet reported.
    refused: Vec<Refused>,
    /// Outcomes of payloads not yet reported as settled, oldest first.
    outcomes: Vec<Outcome>,
    /// Time of the endpoint's next response. Kept when a wait is dropped, so that the next wait
    /// continues it.
    response_due: Option<Instant>,
}

/// A payload in flight.
enum Flight {
    Sent(Vec<u8>),
    Ended(Outcome),
}

impl FakeLane {
    fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.u64(..one_in) == 0
    }

    /// Completes some of the payloads in flight: delivers them, or returns some undelivered.
    fn deliver_some(&mut self) {
        for _ in 0..=self.random.u64(..3) {
            let choice = if self.behavior.unordered { self.in_flight.len() as u64 } else { 1 };
            let index = self.random.u64(..choice.max(1)) as usize;
            let returns = self.behavior.unordered && self.random.u64(..8) == 0;
            if let Some(flight @ Flight::Sent(_)) = self.in_flight.get_mut(index) {
                let outcome = if returns { Outcome::Returned } else { Outcome::Delivered };
                let sent = std::mem::replace(flight, Flight::Ended(outcome));
                if let (Flight::Sent(bytes), false) = (sent, returns) {
                    let number = self.sent - (self.in_flight.len() - index) as u64;
                    self.accept(number, &bytes);
                }
            }
            while let Some(Flight::Ended(outcome)) = self.in_flight.front() {
                self.outcomes.push(*outcome);
                self.in_flight.pop_front();
            }
        }
    }
}

impl FakeLane {
    /// Delivers the lines of a payload, except rejected lines.
    fn accept(&mut self, payload: u64, bytes: &[u8]) {
        let one_in = if self.feed.keeps_refused() { self.behavior.refuses_one_in } else { 0 };
        for (event, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let text = &line[..line.len() - 1];
            if is_refused(text, one_in) {
                let (event, reason) = (event as u32, "refused by the endpoint".to_owned());
                let record = text.to_vec().into();
                self.refused.push(Refused { payload, event, reason, record, is_json: false });
            } else {
                self.endpoint.put(self.lane, line, true);
            }
        }
    }
}

impl Lane for FakeLane {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            if !self.behavior.delay.is_zero() {
                tokio::time::sleep(self.behavior.delay).await;
            }
            if self.endpoint.lock().stalled || self.chance(self.behavior.fails_one_in) {
                return Err(DeliverError::retry("fake", "the endpoint is unreachable"));
            }
            if self.chance(self.behavior.panics_one_in) {
                panic!("injected into a delivery");
            }
            let poison = payload.parts.iter().any(|part| part.windows(2).any(|w| w == b"?\n"));
            assert!(!poison, "a line that ends in ? panics in delivery");
            if self.behavior.sends {
                self.in_flight.push_back(Flight::Sent(payload.parts.concat()));
                self.sent += 1;
                return Ok(Delivery::Sent);
            }
            payload
                .parts
                .iter()
                .for_each(|part| self.endpoint.put(self.lane, part, !self.behavior.syncs));
            Ok(if self.behavior.syncs { Delivery::Taken } else { Delivery::Durable })
        })
    }

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(async move {
            if !self.behavior.sync_delay.is_zero() {
                tokio::time::sleep(self.behavior.sync_delay).await;
            }
            if self.endpoint.lock().stalled {
                return Err(DeliverError::retry("fake", "the endpoint is unreachable"));
            }
            Ok(self.behavior.syncs.then(|| self.endpoint.sync(self.lane).to_le_bytes().to_vec()))
        })
    }

    fn sync_interval(&self) -> Duration {
        (20 * self.behavior.sync_delay).max(Duration::from_secs(1))
    }

    fn close(&mut self) -> Option<Vec<u8>> {
        self.endpoint.lock().closed += 1;
        None
    }

    fn refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    fn settled(&mut self) -> Vec<Settled> {
        let outcomes = std::mem::take(&mut self.outcomes);
        outcomes.into_iter().map(|outcome| Settled { outcome, refused: 0 }).collect()
    }

    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            let delay = self.behavior.delay + Duration::from_millis(1);
            let due = *self.response_due.get_or_insert_with(|| Instant::now() + delay);
            tokio::time::sleep_until(due).await;
            self.response_due = None;
            if self.endpoint.lock().stalled || self.chance(self.behavior.fails_one_in) {
                return Err(DeliverError::retry("fake", "no response from the endpoint"));
            }
            self.deliver_some();
            Ok(())
        })
    }
}
