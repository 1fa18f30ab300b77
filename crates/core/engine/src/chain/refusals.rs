//! Records where a payload's events came from, in case the sink rejects some of them.

use bytes::Bytes;
use millstream_model::{
    Batch, CellKind, FeedEvent, FeedField, FeedId, Payload, Permit, RowSource, Segment,
};

/// Adds the sources of an encoded batch's rows to the payload. The rows that the encoder has
/// `refused` also become events in the payload, each with the reason.
pub fn note(
    batch: &Batch,
    refused: &[(usize, &'static str)],
    payload: &mut Payload,
    permit: &mut Permit,
) {
    let mut refused = refused.iter().peekable();
    let ids = ReceivedIds::copy(batch);
    let mut sources = Vec::new();
    for segment in batch.segments.iter() {
        let runs = batch.runs(segment.first_row, segment.first_row + segment.rows);
        for row in runs.flat_map(|(begin, end)| begin..end) {
            let source = source(batch, segment, row, &ids);
            match refused.next_if(|(refused_row, _)| *refused_row == row) {
                None => sources.push(source),
                Some((_, reason)) => {
                    payload.refused.push(event(batch, row, &source, reason));
                }
            }
        }
    }
    payload.sources = sources.into();
    payload.paid = Some(permit.split(memory(payload) + ids.text.len() as u64));
}

/// Returns the memory, in bytes, of a payload's row sources and rejected events.
fn memory(payload: &Payload) -> u64 {
    let carried: usize = payload.refused.iter().map(|event| event.text.len()).sum();
    (payload.sources.len() * size_of::<RowSource>() + carried) as u64
}

/// The ids that arrived with a batch's records. The ids are copies, so that they do not keep the
/// read block in memory.
struct ReceivedIds {
    text: Bytes,
    /// End offset of each row's id in `text`; empty if no row has an id.
    ends: Vec<usize>,
}

impl ReceivedIds {
    /// Copies a batch's ids.
    fn copy(batch: &Batch) -> ReceivedIds {
        let mut text = Vec::new();
        let mut ends = Vec::new();
        for row in 0..batch.ids.as_ref().map_or(0, |_| batch.rows()) {
            text.extend_from_slice(batch.received_id(row).unwrap_or_default());
            ends.push(text.len());
        }
        ReceivedIds { text: text.into(), ends }
    }

    fn get(&self, row: usize) -> Option<Bytes> {
        let end = *self.ends.get(row)?;
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        (start < end).then(|| self.text.slice(start..end))
    }
}

fn source(batch: &Batch, segment: &Segment, row: usize, ids: &ReceivedIds) -> RowSource {
    let offset = batch.offset(segment, row);
    let ordinal = batch.ordinal(row);
    let id = FeedId { origin: segment.origin.clone(), offset, ordinal, received: ids.get(row) };
    RowSource { id, time_ns: batch.event_ns(row) }
}

/// Converts a rejected row to an event.
fn event(batch: &Batch, row: usize, source: &RowSource, reason: &str) -> FeedEvent {
    let mut event = FeedEvent::refused(source, batch.text(row), false, reason);
    event.is_shown = batch.is_shown(row);
    for column in batch.fields.iter().filter(|column| &*column.name != "reason") {
        let cell = column.cells()[row];
        if cell.kind() != CellKind::Absent {
            let start = event.text.len();
            event.text.extend_from_slice(column.bytes(&batch.block, cell));
            let name = column.name.clone();
            let value = start..event.text.len();
            event.fields.push(FeedField { name, kind: cell.kind(), value });
        }
    }
    event
}
