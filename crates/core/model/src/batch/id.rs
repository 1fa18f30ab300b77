//! Event ids.

use super::{Batch, Segment};
use crate::origin::OriginId;
use std::fmt;

/// Position of an event. Written as `FILE_ID-OFFSET`, the position is the id of an event whose
/// record arrived without an id. If one record became several events, the text ends with `-ORDINAL`
/// for all but the first. See [`Batch::write_id`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The origin of the event's record.
    pub origin: OriginId,
    /// Offset of the event's record.
    pub offset: u64,
    /// Index of the event among the events from its record, counted from 0.
    pub ordinal: u32,
}

impl EventId {
    /// Appends the position as text.
    fn write(&self, out: &mut Vec<u8>) {
        let digit = |at: u32| b"0123456789abcdef"[(self.origin.0 >> (60 - 4 * at)) as usize & 15];
        out.extend((0..16).map(digit));
        out.push(b'-');
        out.extend_from_slice(itoa::Buffer::new().format(self.offset).as_bytes());
        push_ordinal(b'-', self.ordinal, out);
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

/// Appends an ordinal after a separator, unless it is 0.
fn push_ordinal(separator: u8, ordinal: u32, out: &mut Vec<u8>) {
    if ordinal > 0 {
        out.push(separator);
        out.extend_from_slice(itoa::Buffer::new().format(ordinal).as_bytes());
    }
}

impl Batch {
    /// Returns the id that arrived with the record of a row, if there was one.
    #[inline]
    pub fn received_id(&self, row: usize) -> Option<&[u8]> {
        let ids = self.ids.as_ref()?;
        let cell = ids.cells()[row];
        cell.is_present().then(|| ids.bytes(&self.block, cell))
    }

    /// Appends the id of a row as text: the id that arrived with its record, or otherwise the row's
    /// position. The id stays the same if the row is reread. A `.ORDINAL` suffix distinguishes
    /// several events from one record with an id, because the agent that assigned the id may have
    /// used `-ORDINAL`.
    pub fn write_id(&self, segment: &Segment, row: usize, out: &mut Vec<u8>) {
        let Some(id) = self.received_id(row) else {
            return self.event_id(segment, row).write(out);
        };
        out.extend_from_slice(id);
        push_ordinal(b'.', self.ordinal(row), out);
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::{Batch, BatchBuilder};
    use crate::{EngineTime, Ledger, Origin, OriginId, SinkIndex, SinkSet};
    use bytes::Bytes;
    use std::sync::Arc;

    #[test]
    fn a_row_has_the_id_of_its_record_or_its_position() {
        let block = b"one two abc-1 four";
        let (ledger, sinks) = (Ledger::new(), SinkSet::one(SinkIndex::new(0)));
        let mut builder = BatchBuilder::default();
        builder.row(&block[..3], 0);
        builder.row(&block[4..7], 4);
        builder.id(8, 5);
        builder.row(&block[14..], 14);
        let ack = ledger.issue(OriginId(1), 0..18, sinks, 0, EngineTime::ZERO);
        builder.segment(Arc::new(Origin::new(OriginId(1), "")), 0, ack);
        let batch = builder.finish(Bytes::from_static(block), Arc::default(), sinks, 0);
        let ids = |batch: &Batch| {
            let id = |row| {
                let mut out = Vec::new();
                batch.write_id(&batch.segments[0], row, &mut out);
                String::from_utf8(out).unwrap()
            };
            (0..batch.rows()).map(id).collect::<Vec<_>>()
        };
        let position = "0000000000000001";
        assert_eq!(ids(&batch), [&*format!("{position}-0"), "abc-1", &*format!("{position}-14")]);
        let made = batch.repeat(&[2, 2, 0]);
        let expected = [&*format!("{position}-0"), &*format!("{position}-0-1"), "abc-1", "abc-1.1"];
        assert_eq!(ids(&made), expected);
    }
}
