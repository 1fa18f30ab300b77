//! The batcher: collects payloads into batches and says when one is due. Time is an argument.

use super::{BatchOptions, EncodedPayload, Room};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// A batch of at least 1/[`STILL_PARTS`] of the limit is due when nothing was added for this long:
/// the engine may queue less than a batch for a sink, and then adds nothing until this batch is
/// delivered.
const STILL: Duration = Duration::from_millis(25);

/// Divisor of the limit from which on a batch may be sent early.
const STILL_PARTS: u64 = 4;

/// Smallest limit after batches were refused for their size. Bytes.
const LIMIT_MIN: u64 = 64 * 1024;

/// Time after which a reduced limit doubles.
const LARGER_AFTER: Duration = Duration::from_secs(60);

/// Payloads that wait for a batch, in order.
pub struct Batcher {
    options: BatchOptions,
    items: VecDeque<Item>,
    bytes: u64,
    events: u64,
    /// When the last payload was added.
    last: Option<Instant>,
    /// Bytes of a batch at most: less than the option after the endpoint refused larger ones, since
    /// `limited`.
    limit: u64,
    limited: Option<Instant>,
}

struct Item {
    taken: EncodedPayload,
    /// When it may be sent at the earliest.
    hold: Option<Instant>,
    came: Instant,
}

impl Batcher {
    /// Creates an empty batcher.
    pub fn new(options: BatchOptions) -> Batcher {
        let limit = options.bytes.0;
        let items = VecDeque::new();
        Batcher { options, items, bytes: 0, events: 0, last: None, limit, limited: None }
    }

    /// Adds a payload that may not be sent before `hold`.
    pub fn push(&mut self, taken: EncodedPayload, hold: Option<Instant>, now: Instant) {
        self.bytes += taken.bytes;
        self.events += taken.events;
        let hold = hold.filter(|hold| *hold > now);
        self.items.push_back(Item { taken, hold, came: now });
        self.last = Some(now);
    }

    /// Whether a full batch waits.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.limit || self.events >= self.options.events
    }

    /// When the next batch is due; `None` if it is empty.
    pub fn due(&self) -> Option<Instant> {
        let front = self.items.front()?;
        if let Some(hold) = front.hold {
            return Some(hold);
        }
        if self.is_full() {
            return Some(front.came);
        }
        let timeout = front.came + self.options.timeout.0;
        let still =
            self.last.filter(|_| self.bytes >= self.limit / STILL_PARTS).map(|last| last + STILL);
        Some(still.map_or(timeout, |still| still.min(timeout)))
    }

    /// Makes everything due now.
    pub fn flush(&mut self, now: Instant) {
        for item in &mut self.items {
            (item.hold, item.came) =
                (None, now.checked_sub(self.options.timeout.0).unwrap_or(item.came));
        }
    }

    /// Takes the payloads of the next batch: at least one, and more up to the limits. `cut` splits
    /// the first payload that does not fit, as [`Packer::cut`](super::Packer::cut) does; the second
    /// piece stays.
    pub fn take(
        &mut self,
        now: Instant,
        cut: impl Fn(&EncodedPayload, Room) -> Option<(EncodedPayload, EncodedPayload)>,
    ) -> Vec<EncodedPayload> {
        let mut batch = Vec::new();
        let mut room = Room { bytes: self.limit, events: self.options.events, is_empty: true };
        while let Some(item) = self.items.front_mut() {
            let is_held = item.hold.is_some_and(|hold| hold > now);
            if is_held && !room.is_empty {
                break;
            }
            let fits = item.taken.bytes <= room.bytes && item.taken.events <= room.events;
            if let Some((first, rest)) = if fits { None } else { cut(&item.taken, room) } {
                item.taken = rest;
                batch.push(first);
                break;
            }
            if !fits && !room.is_empty {
                break;
            }
            let Some(Item { taken, .. }) = self.items.pop_front() else { break };
            room.bytes = room.bytes.saturating_sub(taken.bytes);
            room.events = room.events.saturating_sub(taken.events);
            room.is_empty = false;
            batch.push(taken);
        }
        self.bytes -= batch.iter().map(|taken| taken.bytes).sum::<u64>();
        self.events -= batch.iter().map(|taken| taken.events).sum::<u64>();
        batch
    }

    /// Halves the limit after a batch of `bytes` was refused for its size.
    pub fn shrink(&mut self, bytes: u64, now: Instant) {
        self.limit = self.limit.min(bytes / 2).max(LIMIT_MIN.min(self.options.bytes.0));
        self.limited = Some(now);
    }

    /// Notes a delivered batch: a reduced limit doubles after [`LARGER_AFTER`].
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

    fn taken(bytes: u64, events: u64) -> EncodedPayload {
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

    /// Cuts payloads whose events are ten bytes each; others are one event.
    fn cut(of: &EncodedPayload, room: Room) -> Option<(EncodedPayload, EncodedPayload)> {
        let events = room.events.min(room.bytes / 10).max(u64::from(room.is_empty));
        let is_cut = of.bytes == 10 * of.events && events > 0 && events < of.events;
        is_cut.then(|| {
            (taken(10 * events, events), taken(of.bytes - 10 * events, of.events - events))
        })
    }

    /// Sizes of the next batch.
    fn batch(batcher: &mut Batcher, now: Instant) -> Vec<u64> {
        batcher.take(now, cut).iter().map(|taken| taken.bytes).collect()
    }

    #[test]
    fn the_first_limit_that_is_reached_ends_a_batch() {
        let now = Instant::now();
        let mut by_time = batcher(1000, 10);
        assert_eq!(by_time.due(), None);
        by_time.push(taken(10, 1), None, now);
        by_time.push(taken(10, 1), None, now + 500 * MS);
        assert_eq!(by_time.due(), Some(now + 1000 * MS));
        let mut by_bytes = batcher(1000, 10);
        for bytes in [400, 500, 200] {
            by_bytes.push(taken(bytes, 1), None, now);
        }
        assert!(by_bytes.is_full() && by_bytes.due() == Some(now));
        assert_eq!(batch(&mut by_bytes, now), [400, 500]);
        assert_eq!((by_bytes.is_full(), batch(&mut by_bytes, now)), (false, vec![200]));
        let mut by_events = batcher(1000, 10);
        for events in [4, 5, 6] {
            by_events.push(taken(1, events), None, now);
        }
        assert!(by_events.is_full());
        assert_eq!((batch(&mut by_events, now), batch(&mut by_events, now)), (vec![1, 1], vec![1]));
    }

    #[test]
    fn a_payload_is_cut_where_the_batch_is_full_and_its_rest_goes_with_the_next() {
        let now = Instant::now();
        let mut by_events = batcher(10_000, 50);
        for events in [190, 30, 190] {
            by_events.push(taken(10 * events, events), None, now);
        }
        let events: Vec<u64> =
            (0..8).map(|_| batch(&mut by_events, now).iter().sum::<u64>() / 10).collect();
        assert_eq!(events, [50; 8]);
        assert_eq!(by_events.due(), Some(now + 1000 * MS), "the rest waits for others");
        assert_eq!((batch(&mut by_events, now), by_events.due()), (vec![100], None));
        let mut by_bytes = batcher(100, 1000);
        for events in [7, 1, 15] {
            by_bytes.push(taken(10 * events, events), None, now);
        }
        assert_eq!(
            [(); 3].map(|()| batch(&mut by_bytes, now)),
            [vec![70, 10, 20], vec![100], vec![30]]
        );
    }

    #[test]
    fn a_payload_larger_than_a_batch_goes_alone() {
        let now = Instant::now();
        let mut batcher = batcher(100, 10);
        for bytes in [5, 5000, 5] {
            batcher.push(taken(bytes, 1), None, now);
        }
        assert_eq!([(); 3].map(|()| batch(&mut batcher, now)), [[5], [5000], [5]]);
    }

    #[test]
    fn a_good_part_of_a_batch_goes_when_nothing_more_comes() {
        let now = Instant::now();
        let mut batcher = batcher(1000, 10);
        batcher.push(taken(240, 1), None, now);
        assert_eq!(batcher.due(), Some(now + 1000 * MS));
        batcher.push(taken(10, 1), None, now + 10 * MS);
        assert_eq!(batcher.due(), Some(now + 10 * MS + STILL));
    }

    #[test]
    fn what_is_held_back_holds_what_follows_until_a_flush() {
        let now = Instant::now();
        let mut batcher = batcher(100, 10);
        batcher.push(taken(90, 1), Some(now + 3000 * MS), now);
        batcher.push(taken(90, 1), None, now);
        assert_eq!(batcher.due(), Some(now + 3000 * MS));
        batcher.flush(now + 2000 * MS);
        assert!(batcher.due().unwrap() <= now + 2000 * MS);
        batcher.take(now, cut);
        assert_eq!((batch(&mut batcher, now), batcher.due()), (vec![90], None));
    }

    #[test]
    fn after_a_refusal_for_size_batches_are_smaller_for_a_while() {
        let now = Instant::now();
        let mut batcher = batcher(1 << 20, 1_000_000);
        let full = |batcher: &mut Batcher, now| {
            for () in [(); 40] {
                batcher.push(taken(32 << 10, 1), None, now);
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
