//! A sink whose endpoint is a shelf in memory that survives the agent, with faults on demand.

use fastrand::Rng;
use millstream_model::{
    Batch, BoxFuture, ComponentError, DeliverError, Delivery, EncodeCx, Encoder, Lane, LaneCx,
    Outcome, Payload, Settled, Sink,
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How a sink behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Temper {
    /// Lanes.
    pub lanes: usize,
    /// A delivery in this many fails in a way that passes; 0 for never.
    pub fails_one_in: u64,
    /// A delivery in this many panics; 0 for never.
    pub panics_one_in: u64,
    /// Whether what is delivered is durable only after a sync.
    pub syncs: bool,
    /// Whether deliveries are sent at once and settled later; then `syncs` does not count.
    pub sends: bool,
    /// Time of each delivery.
    pub delay: Duration,
    /// Time of each sync; what was delivered waits for one twenty times as long, and a second at
    /// least.
    pub sync_delay: Duration,
}

/// The endpoint of a sink.
#[derive(Clone, Default)]
pub struct Shelf {
    state: Arc<Mutex<ShelfState>>,
}

#[derive(Default)]
struct ShelfState {
    /// Per lane: what is durable, and what is not yet.
    lanes: Vec<(Vec<u8>, Vec<u8>)>,
    stalled: bool,
    /// Lanes that came to their end with everything delivered and synced.
    ended: usize,
    /// Lanes opened so far, so that each draws faults of its own.
    opened: u64,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, ShelfState> {
        self.state.lock()
    }

    /// From here on every delivery fails, or no longer does.
    pub fn stall(&self, stalled: bool) {
        self.lock().stalled = stalled;
    }

    /// How many lanes came to their end with everything delivered and synced.
    pub fn ended(&self) -> usize {
        self.lock().ended
    }

    /// Every durable line, lane by lane, in the order it arrived.
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

    /// Makes everything durable; returns the length.
    fn sync(&self, lane: usize) -> u64 {
        let state = &mut self.lock().lanes[lane];
        let taken = std::mem::take(&mut state.1);
        state.0.extend_from_slice(&taken);
        state.0.len() as u64
    }

    /// Opens a lane after a restart: what is not known to be synced is cut off, as a file would be.
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

/// The sink.
pub struct FakeSink {
    /// Where deliveries go.
    pub shelf: Shelf,
    /// How it behaves.
    pub temper: Temper,
    /// For its faults.
    pub seed: u64,
}

impl Sink for FakeSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(FakeEncoder)
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        block_bytes + rows
    }

    fn lanes(&self) -> usize {
        self.temper.lanes.max(1)
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        let synced = cx.state.and_then(|state| state.try_into().ok()).map(u64::from_le_bytes);
        let opened = self.shelf.open(cx.lane, synced, self.temper.syncs && !self.temper.sends);
        let random = Rng::with_seed(self.seed ^ opened << 16);
        let (shelf, temper) = (self.shelf.clone(), self.temper);
        Box::new(FakeLane {
            shelf,
            temper,
            lane: cx.lane,
            random,
            flying: VecDeque::new(),
            landed: 0,
        })
    }
}

struct FakeEncoder;

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
    shelf: Shelf,
    temper: Temper,
    lane: usize,
    random: Rng,
    /// What was sent and has not landed, oldest first.
    flying: VecDeque<Vec<u8>>,
    /// Payloads that have landed and were not told yet.
    landed: usize,
}

impl FakeLane {
    fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.u64(..one_in) == 0
    }

    /// Lets some of what was sent land.
    fn land(&mut self) {
        for _ in 0..=self.random.u64(..3) {
            let Some(bytes) = self.flying.pop_front() else { return };
            self.shelf.put(self.lane, &bytes, true);
            self.landed += 1;
        }
    }
}

impl Lane for FakeLane {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            if !self.temper.delay.is_zero() {
                tokio::time::sleep(self.temper.delay).await;
            }
            if self.shelf.lock().stalled || self.chance(self.temper.fails_one_in) {
                return Err(DeliverError::retry("fake", "the endpoint is away"));
            }
            if self.chance(self.temper.panics_one_in) {
                panic!("planted in a delivery");
            }
            let poison = payload.parts.iter().any(|part| part.windows(2).any(|w| w == b"?\n"));
            assert!(!poison, "a line that ends in ? panics in delivery");
            if self.temper.sends {
                self.flying.push_back(payload.parts.concat());
                return Ok(Delivery::Sent);
            }
            payload
                .parts
                .iter()
                .for_each(|part| self.shelf.put(self.lane, part, !self.temper.syncs));
            Ok(if self.temper.syncs { Delivery::Taken } else { Delivery::Durable })
        })
    }

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(async move {
            if !self.temper.sync_delay.is_zero() {
                tokio::time::sleep(self.temper.sync_delay).await;
            }
            if self.shelf.lock().stalled {
                return Err(DeliverError::retry("fake", "the endpoint is away"));
            }
            Ok(self.temper.syncs.then(|| self.shelf.sync(self.lane).to_le_bytes().to_vec()))
        })
    }

    fn sync_interval(&self) -> Duration {
        (20 * self.temper.sync_delay).max(Duration::from_secs(1))
    }

    fn close(&mut self) -> Option<Vec<u8>> {
        self.shelf.lock().ended += 1;
        None
    }

    fn settled(&mut self) -> Vec<Settled> {
        let settled = Settled { outcome: Outcome::Delivered, refused: 0 };
        vec![settled; std::mem::take(&mut self.landed)]
    }

    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            tokio::time::sleep(self.temper.delay + Duration::from_millis(1)).await;
            if self.shelf.lock().stalled || self.chance(self.temper.fails_one_in) {
                return Err(DeliverError::retry("fake", "no answer from the endpoint"));
            }
            self.land();
            Ok(())
        })
    }
}
