//! The assignment of a batch's events to payloads.

use super::{EncodedPayload, EventSet, RefusedEvent};
use millstream_model::{Outcome, Refused, Settled};
use std::ops::Range;

/// A batch's share of one payload.
pub struct Share {
    /// Payload number, counted from 0 since the lane was opened.
    payload: u64,
    /// Number of events in the payload that were sent with earlier batches.
    events_before: u32,
    /// Events of the share, by their index in the batch.
    events: Range<u32>,
    delivered: u64,
    /// Whether another piece of the payload follows in a later batch, which settles the payload.
    pub continues: bool,
}

impl Share {
    /// Returns the number of events that were not delivered.
    pub fn missing(&self) -> u64 {
        (self.events.len() as u64).saturating_sub(self.delivered)
    }
}

/// The payload pieces of a batch, in order.
pub struct Shares(Vec<Share>);

impl Shares {
    /// Records that the endpoint accepted these events.
    pub fn deliver(&mut self, events: &EventSet) {
        for range in events.ranges() {
            let first = self.0.partition_point(|share| share.events.end <= range.start);
            let reached = self.0[first..].iter_mut().take_while(|s| s.events.start < range.end);
            for share in reached {
                let (start, end) = (share.events.start, share.events.end);
                let both = start.max(range.start)..end.min(range.end);
                share.delivered += both.len() as u64;
            }
        }
    }

    /// Returns an event of the batch in the form that the engine expects.
    pub fn refused(&self, refused: RefusedEvent) -> Option<Refused> {
        let RefusedEvent { event, reason, record } = refused;
        let index = self.0.partition_point(|share| share.events.end <= event);
        let share = self.0.get(index)?;
        Some(Refused {
            payload: share.payload,
            event: share.events_before + event.checked_sub(share.events.start)?,
            reason: reason.into_owned(),
            record: record.bytes,
            is_json: record.is_json,
        })
    }
}

/// Numbers payloads in the order in which they are packed, which is also the order of delivery.
#[derive(Default)]
pub struct Numbering {
    /// Number of the next payload.
    payload: u64,
    /// Number of events in this payload that are already packed.
    events_before: u32,
}

impl Numbering {
    /// Returns the shares of the next batch.
    pub fn shares(&mut self, payloads: &[EncodedPayload]) -> Shares {
        let mut end = 0;
        let share = |payload: &EncodedPayload| {
            let start = end;
            end += payload.events as u32;
            self.share(start..end, payload.continues)
        };
        Shares(payloads.iter().map(share).collect())
    }

    fn share(&mut self, events: Range<u32>, continues: bool) -> Share {
        let (payload, events_before) = (self.payload, self.events_before);
        if continues {
            self.events_before += events.len() as u32;
        } else {
            (self.payload, self.events_before) = (payload + 1, 0);
        }
        Share { payload, events_before, events, delivered: 0, continues }
    }
}

/// Settles payloads when their last batch ends.
#[derive(Default)]
pub struct Settlement {
    /// Number of events of the oldest unsettled payload that were rejected in earlier batches.
    refused_before: u64,
}

impl Settlement {
    /// Ends the oldest batch, and appends the outcomes of the payloads that end with it.
    pub fn end(&mut self, shares: Shares, done: &mut Vec<Settled>) {
        for share in shares.0 {
            self.refused_before += share.missing();
            if share.continues {
                continue;
            }
            let refused = std::mem::take(&mut self.refused_before);
            let outcome = if refused > 0 { Outcome::Rejected } else { Outcome::Delivered };
            done.push(Settled { outcome, refused });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::http_delivery::Record;

    /// Creates payload pieces from their event counts. A negative number means that the payload
    /// continues.
    fn pieces(events: &[i64]) -> Vec<EncodedPayload> {
        let piece = |events: &i64| EncodedPayload {
            parts: Vec::new(),
            events: events.unsigned_abs(),
            bytes: 0,
            routing: None,
            units_before: 0,
            continues: *events < 0,
        };
        events.iter().map(piece).collect()
    }

    fn place(shares: &Shares, event: u32) -> Option<(u64, u32)> {
        let (reason, record) = ("".into(), Record::default());
        let refused = shares.refused(RefusedEvent { event, reason, record })?;
        Some((refused.payload, refused.event))
    }

    #[test]
    fn an_event_of_a_batch_is_found_in_its_payload_over_pieces_and_empty_payloads() {
        let mut numbering = Numbering::default();
        let first = numbering.shares(&pieces(&[3, 0, 2, -4]));
        let second = numbering.shares(&pieces(&[-1]));
        let third = numbering.shares(&pieces(&[2, 1]));
        let places = |shares: &Shares| (0..9).map_while(|n| place(shares, n)).collect::<Vec<_>>();
        let of_first = [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (3, 3)];
        assert_eq!(places(&first), of_first);
        assert_eq!(places(&second), [(3, 4)]);
        assert_eq!(places(&third), [(3, 5), (3, 6), (4, 0)]);
    }

    #[test]
    fn delivered_events_count_for_their_own_share() {
        let mut shares = Numbering::default().shares(&pieces(&[3, 0, 2, 4]));
        let mut events = EventSet::of(1..2);
        (4..8).for_each(|event| events.push(event));
        shares.deliver(&events);
        shares.deliver(&EventSet::of(8..9));
        shares.deliver(&EventSet::default());
        assert_eq!(shares.0.iter().map(Share::missing).collect::<Vec<_>>(), [2, 0, 1, 0]);
    }
}
