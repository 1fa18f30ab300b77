//! Several events from one record.

use super::{Batch, Segment};
use crate::origin::TIME_UNKNOWN;
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use millstream_columns::{Cell, Column, Columns};

impl Batch {
    /// Returns a batch with `counts[row]` copies of each selected row; other rows are left out. The
    /// events of a row share its fields, its time and its acknowledgement. Ordinals distinguish the
    /// events, even if the row already was one of several events from a record.
    pub fn repeat(&self, counts: &[u32]) -> Batch {
        let selected = (0..self.rows()).filter(|row| self.is_selected(*row));
        let rows: Vec<usize> =
            selected.flat_map(|row| std::iter::repeat_n(row, counts[row] as usize)).collect();
        let column = |column: &Column| {
            let cells: Vec<Cell> = rows.iter().map(|row| column.cells()[*row]).collect();
            Column::new(column.name.clone(), cells, column.own().clone())
        };
        let mut made = self.clone();
        made.segments = self.segments.iter().map(|segment| moved(segment, &rows)).collect();
        made.starts = rows.iter().map(|row| self.starts[*row]).collect();
        made.offsets =
            self.offsets.as_ref().map(|offsets| rows.iter().map(|row| offsets[*row]).collect());
        made.message = column(&self.message);
        made.ids = self.ids.as_ref().map(column);
        self.fields.iter().for_each(|field| made.fields.set(column(field)));
        let columns = |columns: &Columns| columns.iter().map(column).collect::<Vec<_>>().into();
        made.metadata = self.metadata.as_ref().map(columns);
        let shown = |shown: &BooleanBuffer| rows.iter().map(|row| shown.value(*row)).collect();
        made.shown = self.shown.as_ref().map(shown);
        made.selection = None;
        let is_truncated = |(_, row): &(usize, &usize)| self.is_truncated(**row);
        let truncated = rows.iter().enumerate().filter(is_truncated);
        made.truncated = truncated.map(|(at, _)| at as u32).collect();
        let time = |row: &usize| self.time.as_ref().map_or(TIME_UNKNOWN, |time| time[*row]);
        made.time = self.time.as_ref().map(|_| rows.iter().map(time).collect());
        made.ordinals = Some(made.count_ordinals());
        made
    }

    /// Numbers the events of each record, which are the rows in one segment with the same offset.
    fn count_ordinals(&self) -> ScalarBuffer<u32> {
        let mut ordinals: Vec<u32> = Vec::with_capacity(self.rows());
        for segment in self.segments.iter() {
            let mut last = None;
            for row in segment.first_row..segment.first_row + segment.rows {
                let offset = self.offset(segment, row);
                let before = last.filter(|(offset_before, _)| *offset_before == offset);
                let ordinal = before.map_or(0, |(_, ordinal)| ordinal + 1);
                last = Some((offset, ordinal));
                ordinals.push(ordinal);
            }
        }
        ordinals.into()
    }
}

/// Returns a segment over those rows in `rows` that belong to `segment`.
fn moved(segment: &Segment, rows: &[usize]) -> Segment {
    let first_row = rows.partition_point(|row| *row < segment.first_row);
    let end = rows.partition_point(|row| *row < segment.first_row + segment.rows);
    Segment { first_row, rows: end - first_row, ..segment.clone() }
}

#[cfg(test)]
mod tests {
    use crate::batch::{Batch, BatchBuilder, LongLine};
    use crate::{EngineTime, Ledger, Origin, OriginId, SinkIndex, SinkSet};
    use bytes::Bytes;
    use std::sync::Arc;

    /// Two segments of two lines.
    fn batch() -> Batch {
        let block = b"one\ntwo\nthree\nfour\n";
        let (ledger, sinks) = (Ledger::new(), SinkSet::one(SinkIndex::new(0)));
        let mut builder = BatchBuilder::default();
        for (id, newlines, from) in [(1, [3, 7], 0), (2, [13, 18], 8)] {
            builder.lines(block, from, &newlines, 100, LongLine::Truncate);
            let ack = ledger.issue(OriginId(id), 0..8, sinks, 0, EngineTime::ZERO);
            let shift = 0u64.wrapping_sub(from as u64);
            builder.segment(Arc::new(Origin::new(OriginId(id), "")), shift, ack);
        }
        builder.finish(Bytes::from_static(block), Arc::default(), sinks, 0)
    }

    fn events(batch: &Batch) -> Vec<String> {
        let rows_of = |segment: &crate::Segment| {
            let rows = segment.first_row..segment.first_row + segment.rows;
            let text = |row| String::from_utf8_lossy(batch.text(row)).into_owned();
            let id = |row| batch.event_id(segment, row).to_string()[15..].to_owned();
            rows.map(|row| format!("{} {}", id(row), text(row))).collect::<Vec<_>>()
        };
        batch.segments.iter().flat_map(rows_of).collect()
    }

    #[test]
    fn events_of_one_record_have_ordinals() {
        let batch = batch();
        assert_eq!(events(&batch), ["1-0 one", "1-4 two", "2-0 three", "2-6 four"]);
        let made = batch.repeat(&[2, 1, 0, 3]);
        let expected = ["1-0 one", "1-0-1 one", "1-4 two", "2-6 four", "2-6-1 four", "2-6-2 four"];
        assert_eq!(events(&made), expected);
    }

    #[test]
    fn events_that_are_repeated_again_have_further_ordinals() {
        let mut made = batch().repeat(&[2, 0, 0, 1]);
        assert_eq!(
            events(&made.repeat(&[1, 2, 1])),
            ["1-0 one", "1-0-1 one", "1-0-2 one", "2-6 four"]
        );
        made.select_range(1, 3);
        assert_eq!(made.repeat(&[9, 1, 1]).rows(), 2, "rows that are not selected are gone");
    }
}
