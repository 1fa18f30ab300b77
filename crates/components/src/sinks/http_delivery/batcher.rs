//! The batcher: collects payloads into batches, and computes when a batch is due. Time is an
//! argument.

use super::{BatchOptions, Capacity, EncodedPayload, PayloadMetadata};
use millstream_model::{EngineTime, Now, Payload};
use std::collections::VecDeque;
use std::future::pending;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Time after the last payload at which a stalled batch is due. A batch stalls if the sink's limit
/// in the engine is smaller than a batch. A payload counts toward this limit until its last part is
/// delivered.
const STALLED_FLUSH: Duration = Duration::from_millis(25);

/// Smallest value in bytes to which rejections for size reduce the limit.
const LIMIT_MIN: u64 = 64 * 1024;

/// Time after which a reduced limit doubles.
const LARGER_AFTER: Duration = Duration::from_secs(60);

/// Returns the time when a batch is due if its last payload was added at `last`: `latest`, or
/// earlier if the lane has `stalled` since then.
pub fn due(latest: Instant, last: Instant, stalled: Option<Instant>) -> Instant {
    stalled.map_or(latest, |since| latest.min(since.max(last) + STALLED_FLUSH))
}

/// Waits until this time, or forever without a time. Cancel safe.
pub async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Payloads that wait for a batch, in order.
pub struct Batcher {
    options: BatchOptions,
    items: VecDeque<Item>,
    bytes: u64,
    events: u64,
    /// Time when the last payload was added.
    last: Option<Instant>,
    /// Maximum size of a batch in bytes. It is smaller than the option after the endpoint rejected
    /// larger batches at `limited`.
    limit: u64,
    limited: Option<Instant>,
}

struct Item {
    payload: EncodedPayload,
    /// Earliest time to send the payload; `None` if the payload need not wait.
    hold: Option<Instant>,
    queued_at: Instant,
}

impl Batcher {
    /// Creates an empty batcher.
    pub fn new(options: BatchOptions) -> Batcher {
        let limit = options.bytes.0;
        let items = VecDeque::new();
        Batcher { options, items, bytes: 0, events: 0, last: None, limit, limited: None }
    }

    /// Adds a payload from an encoder, with the hold in its [`PayloadMetadata`].
    pub fn take_in(&mut self, payload: &Payload, now: Instant) {
        let metadata = payload.routing_as::<PayloadMetadata>();
        let encoded = EncodedPayload {
            parts: payload.parts.clone(),
            events: payload.events,
            bytes: payload.bytes,
            routing: metadata.and_then(|metadata| metadata.routing.clone()),
            units_before: 0,
            continues: false,
        };
        let hold = metadata.and_then(|metadata| metadata.hold);
        let unix_ns = || Now::read(EngineTime::ZERO).unix_ns;
        self.push(encoded, hold.map(|hold| now + hold.left(unix_ns())), now);
    }

    /// Returns the current limit of a batch in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Adds a payload that may not be sent before `hold`.
    pub fn push(&mut self, payload: EncodedPayload, hold: Option<Instant>, now: Instant) {
        self.bytes += payload.bytes;
        self.events += payload.events;
        let hold = hold.filter(|hold| *hold > now);
        self.items.push_back(Item { payload, hold, queued_at: now });
        self.last = Some(now);
    }

    /// Returns whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns whether a full batch is waiting.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.limit || self.events >= self.options.events
    }

    /// Returns the time when the next batch is due; `None` if no batch is pending. `stalled` is the
    /// time since which the lane can receive no more payloads until it delivers some.
    pub fn due(&self, stalled: Option<Instant>) -> Option<Instant> {
        let front = self.items.front()?;
        if let Some(hold) = front.hold {
            return Some(hold);
        }
        if self.is_full() {
            return Some(front.queued_at);
        }
        let latest = front.queued_at + self.options.timeout.0;
        Some(due(latest, self.last.unwrap_or(front.queued_at), stalled))
    }

    /// Schedules all payloads for immediate delivery.
    pub fn flush(&mut self, now: Instant) {
        for item in &mut self.items {
            (item.hold, item.queued_at) =
                (None, now.checked_sub(self.options.timeout.0).unwrap_or(item.queued_at));
        }
    }

    /// Takes the payloads of the next batch: at least one, and more up to the limits. `cut` splits
    /// the first payload that does not fit, like [`Packer::cut`](super::Packer::cut) does. The
    /// second piece stays.
    pub fn take(
        &mut self,
        now: Instant,
        cut: impl Fn(&EncodedPayload, Capacity) -> Option<(EncodedPayload, EncodedPayload)>,
    ) -> Vec<EncodedPayload> {
        let mut batch = Vec::new();
        let mut capacity =
            Capacity { bytes: self.limit, events: self.options.events, is_empty: true };
        while let Some(item) = self.items.front_mut() {
            let is_held = item.hold.is_some_and(|hold| hold > now);
            if is_held && !capacity.is_empty {
                break;
            }
            let fits =
                item.payload.bytes <= capacity.bytes && item.payload.events <= capacity.events;
            if let Some((first, rest)) = if fits { None } else { cut(&item.payload, capacity) } {
                item.payload = rest;
                batch.push(first);
                break;
            }
            if !fits && !capacity.is_empty {
                break;
            }
            let Some(Item { payload, .. }) = self.items.pop_front() else { break };
            capacity.bytes = capacity.bytes.saturating_sub(payload.bytes);
            capacity.events = capacity.events.saturating_sub(payload.events);
            capacity.is_empty = false;
            batch.push(payload);
        }
        self.bytes -= batch.iter().map(|payload| payload.bytes).sum::<u64>();
        self.events -= batch.iter().map(|payload| payload.events).sum::<u64>();
        batch
    }

    /// Reduces the limit to half the size of a batch that was rejected for its size, but not below
    /// [`LIMIT_MIN`].
    pub fn shrink(&mut self, bytes: u64, now: Instant) {
        self.limit = self.limit.min(bytes / 2).max(LIMIT_MIN.min(self.options.bytes.0));
        self.limited = Some(now);
    }

    /// Records a delivered batch: a reduced limit doubles after [`LARGER_AFTER`].
    pub fn grow(&mut self, now: Instant) {
        if self.limited.is_some_and(|limited| now >= limited + LARGER_AFTER) {
            self.limit = (self.limit * 2).min(self.options.bytes.0);
            self.limited = (self.limit < self.options.bytes.0).then_some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{Interval, Size};

    const MS: Duration = Duration::from_millis(1);

    fn payload(bytes: u64, events: u64) -> EncodedPayload {
        EncodedPayload {
            parts: Vec::new(),
            events,
            bytes,
            routing: None,
            units_before: 0,
            continues: false,
        }
    }

    fn batcher(bytes: u64, events: u64) -> Batcher {
        let timeout = Interval(1000 * MS);
        Batcher::new(BatchOptions { bytes: Size(bytes), events, timeout })
    }

    /// Cuts payloads whose events are ten bytes each; other payloads are a single event.
    fn cut(whole: &EncodedPayload, capacity: Capacity) -> Option<(EncodedPayload, EncodedPayload)> {
        let events = capacity.events.min(capacity.bytes / 10).max(u64::from(capacity.is_empty));
        let is_cut = whole.bytes == 10 * whole.events && events > 0 && events < whole.events;
        is_cut.then(|| {
            (
                payload(10 * events, events),
                payload(whole.bytes - 10 * events, whole.events - events),
            )
        })
    }

    /// Takes the next batch and returns the sizes of its payloads.
    fn batch(batcher: &mut Batcher, now: Instant) -> Vec<u64> {
        batcher.take(now, cut).iter().map(|payload| payload.bytes).collect()
    }

    #[test]
    fn the_first_limit_reached_ends_a_batch() {
        let now = Instant::now();
        let mut by_time = batcher(1000, 10);
        assert_eq!(by_time.due(None), None);
        by_time.push(payload(10, 1), None, now);
        by_time.push(payload(10, 1), None, now + 500 * MS);
        assert_eq!(by_time.due(None), Some(now + 1000 * MS));
        let mut by_bytes = batcher(1000, 10);
        for bytes in [400, 500, 200] {
            by_bytes.push(payload(bytes, 1), None, now);
        }
        assert!(by_bytes.is_full() && by_bytes.due(None) == Some(now));
        assert_eq!(batch(&mut by_bytes, now), [400, 500]);
        assert_eq!((by_bytes.is_full(), batch(&mut by_bytes, now)), (false, vec![200]));
        let mut by_events = batcher(1000, 10);
        for events in [4, 5, 6] {
            by_events.push(payload(1, events), None, now);
        }
        assert!(by_events.is_full());
        assert_eq!((batch(&mut by_events, now), batch(&mut by_events, now)), (vec![1, 1], vec![1]));
    }

    #[test]
    fn a_payload_is_cut_at_the_batch_limit_and_its_rest_goes_into_the_next_batch() {
        let now = Instant::now();
        let mut by_events = batcher(10_000, 50);
        for events in [190, 30, 190] {
            by_events.push(payload(10 * events, events), None, now);
        }
        let events: Vec<u64> =
            (0..8).map(|_| batch(&mut by_events, now).iter().sum::<u64>() / 10).collect();
        assert_eq!(events, [50; 8]);
        assert_eq!((batch(&mut by_events, now), by_events.due(None)), (vec![100], None));
        let mut by_bytes = batcher(100, 1000);
        for events in [7, 1, 15] {
            by_bytes.push(payload(10 * events, events), None, now);
        }
        assert_eq!(
            [(); 3].map(|()| batch(&mut by_bytes, now)),
            [vec![70, 10, 20], vec![100], vec![30]]
        );
    }

    #[test]
    fn a_payload_larger_than_a_batch_is_sent_alone() {
        let now = Instant::now();
        let mut batcher = batcher(100, 10);
        for bytes in [5, 5000, 5] {
            batcher.push(payload(bytes, 1), None, now);
        }
        assert_eq!([(); 3].map(|()| batch(&mut batcher, now)), [[5], [5000], [5]]);
    }

    #[test]
    fn a_stalled_batch_waits_for_nothing_but_the_flush_interval() {
        let now = Instant::now();
        let mut batcher = batcher(1 << 20, 1000);
        assert_eq!(batcher.due(Some(now)), None);
        batcher.push(payload(10, 1), None, now + 10 * MS);
        assert_eq!(batcher.due(Some(now)), Some(now + 10 * MS + STALLED_FLUSH));
        assert_eq!(batcher.due(Some(now + 20 * MS)), Some(now + 20 * MS + STALLED_FLUSH));
        assert_eq!(batcher.due(Some(now + 3000 * MS)), Some(now + 1010 * MS), "the timeout");
        batcher.push(payload(10, 1), Some(now + 3000 * MS), now);
        batcher.take(now, cut);
        assert_eq!(batcher.due(Some(now)), Some(now + 3000 * MS), "a held payload");
    }

    #[test]
    fn a_held_payload_holds_back_later_ones_until_a_flush() {
        let now = Instant::now();
        let mut batcher = batcher(100, 10);
        batcher.push(payload(90, 1), Some(now + 3000 * MS), now);
        batcher.push(payload(90, 1), None, now);
        assert_eq!(batcher.due(None), Some(now + 3000 * MS));
        batcher.flush(now + 2000 * MS);
        assert!(batcher.due(None).unwrap() <= now + 2000 * MS);
        batcher.take(now, cut);
        assert_eq!((batch(&mut batcher, now), batcher.due(None)), (vec![90], None));
    }

    #[test]
    fn batches_shrink_for_a_while_after_a_refusal_for_size() {
        let now = Instant::now();
        let mut batcher = batcher(1 << 20, 1_000_000);
        let full = |batcher: &mut Batcher, now| {
            for () in [(); 40] {
                batcher.push(payload(32 << 10, 1), None, now);
            }
            let batch = batcher.take(now, cut).len() as u64 * (32 << 10);
            while !batcher.take(now, cut).is_empty() {}
            batch
        };
        assert_eq!(full(&mut batcher, now), 1 << 20);
        batcher.shrink(1 << 20, now);
        assert_eq!(full(&mut batcher, now), 1 << 19);
        for _ in 0..20 {
            batcher.shrink(1 << 10, now);
        }
        assert_eq!(full(&mut batcher, now), LIMIT_MIN);
        let mut later = now;
        for _ in 0..4 {
            batcher.grow(later);
            later += LARGER_AFTER;
            batcher.grow(later);
        }
        assert_eq!(full(&mut batcher, later), 1 << 20);
    }
}
