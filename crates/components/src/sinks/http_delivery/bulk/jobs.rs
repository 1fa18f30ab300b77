//! The packer's work for an unordered lane, on a blocking thread.

use super::BulkPacker;
use super::queue::{Action, Division, Repair, Repaired};
use crate::sinks::http_delivery::{EncodedPayload, Record, RefusedEvent, Request};
use tokio::time::Instant;

/// A result from the packer.
pub enum Packed {
    /// The requests of a batch with this number, and the events that the packer rejected.
    Batch(u64, Vec<Request>, Vec<RefusedEvent>),
    /// Requests that replace a request that was not accepted as a whole.
    Repaired {
        /// The repaired request.
        repaired: Repaired,
        /// The requests, each with the end of its pause.
        requests: Vec<(Request, Option<Instant>)>,
        /// Rejected events for the component that reads rejected events.
        refused: Vec<RefusedEvent>,
        /// Number of rejected events that no component reads.
        dropped: u64,
    },
}

/// Packs the batch with this number.
pub fn pack(packer: &mut impl BulkPacker, payloads: Vec<EncodedPayload>, number: u64) -> Packed {
    let requests = packer.pack(payloads);
    Packed::Batch(number, requests, packer.take_refused())
}

/// Repairs a request. `is_read` says whether a component reads rejected events.
pub fn repair<P: BulkPacker>(packer: &mut P, repair: Repair, is_read: bool) -> Packed {
    let (request, action, repaired) = repair.begin();
    match action {
        Action::Split(reason) => split(packer, request, repaired, reason, is_read),
        Action::Divide(division) => divide(packer, &request, repaired, division),
    }
}

/// Splits a request, or rejects the event of a request that cannot be split.
fn split<P: BulkPacker>(
    packer: &mut P,
    request: Request,
    repaired: Repaired,
    reason: String,
    is_read: bool,
) -> Packed {
    let events: Vec<u32> = request.events.iter().collect();
    let record = match is_read && events.len() == 1 {
        true => packer.record(&request),
        false => Record::default(),
    };
    let (mut refused, mut dropped) = (Vec::new(), 0);
    let requests = match packer.split(request) {
        Some(smaller) => smaller.into_iter().map(|request| (request, None)).collect(),
        None if is_read => {
            let build = |event| {
                let reason = reason.clone().into();
                RefusedEvent { event, reason, record: record.clone() }
            };
            refused.extend(events.into_iter().map(build));
            Vec::new()
        }
        None => {
            dropped = events.len() as u64;
            Vec::new()
        }
    };
    refused.extend(packer.take_refused());
    Packed::Repaired { repaired, requests, refused, dropped }
}

/// Builds requests from the events to resend, and returns the rejected events.
fn divide<P: BulkPacker>(
    packer: &mut P,
    request: &Request,
    repaired: Repaired,
    Division { again, refused }: Division,
) -> Packed {
    let events: Vec<u32> = request.events.iter().collect();
    let select =
        |(positions, until): (Vec<u32>, Instant)| (packer.select(request, &positions), Some(until));
    let requests = again.into_iter().map(select).collect();
    let build = |(position, reason): (u32, String)| {
        let event = *events.get(position as usize)?;
        let record = packer.record_at(request, position);
        Some(RefusedEvent { event, reason: reason.into(), record })
    };
    let refused = refused.into_iter().filter_map(build).collect();
    Packed::Repaired { repaired, requests, refused, dropped: 0 }
}
