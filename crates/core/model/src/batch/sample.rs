//! A few events copied out of a batch. The copy pins neither the batch's block nor its memory.

use super::{Batch, Segment};
use crate::ledger::Ledger;
use crate::origin::TIME_UNKNOWN;
use crate::sinkset::SinkSet;
use crate::time::EngineTime;
use arrow_buffer::BooleanBuffer;
use bytes::Bytes;
use millstream_columns::{Cell, Column, ColumnBuilder, Columns, Kind};

/// Maximum length of copied text in bytes. A longer message is truncated; a longer field is
/// replaced by a note.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// Total bytes of text after which no more events are copied. The last event is copied in full, so
/// a sample can exceed this limit.
pub const SAMPLE_BYTES_MAX: usize = 256 << 10;

/// Events that were copied out of a batch. The copies have no debts and no sinks.
pub struct EventSample {
    /// The events.
    pub batch: Batch,
    /// Number of bytes truncated from each row's message.
    pub cut: Vec<u64>,
    /// Number of bytes that were copied.
    pub bytes: usize,
}

/// The range of the block that a row needs, from the start of its message.
struct Window {
    start: usize,
    end: usize,
    /// Position of the copy in the new block.
    copy: usize,
}

impl Batch {
    /// Copies the rows in `rows`, which must ascend. A message longer than [`VALUE_BYTES_MAX`] is
    /// truncated, and a longer field is replaced by a note. The sample contains fewer rows once it
    /// exceeds [`SAMPLE_BYTES_MAX`].
    pub fn sample(&self, rows: &[usize]) -> EventSample {
        let (mut block, mut windows, mut bytes) = (Vec::new(), Vec::new(), 0);
        for row in rows {
            if bytes >= SAMPLE_BYTES_MAX {
                break;
            }
            let window = self.window(*row, block.len());
            block.extend_from_slice(&self.block[window.start..window.end]);
            // Separate the rows, so that a search never matches across two rows.
            block.push(b'\n');
            bytes += window.end - window.start + self.own_bytes(*row);
            windows.push(window);
        }
        let rows = &rows[..windows.len()];
        let message = self.copied(&self.message, rows, &windows, false);
        let cut = |(at, row): (usize, &usize)| {
            (self.text_len(*row) - message.cells()[at].len().min(self.text_len(*row))) as u64
        };
        let cut = rows.iter().enumerate().map(cut).collect();
        let mut batch = self.rearranged(rows, &windows);
        batch.message = message;
        batch.ids = self.ids.as_ref().map(|ids| self.copied(ids, rows, &windows, true));
        let fields = self.fields.iter().map(|field| self.copied(field, rows, &windows, true));
        batch.fields = fields.collect::<Vec<Column>>().into();
        batch.block = Bytes::from(block);
        EventSample { batch, cut, bytes }
    }

    /// Returns the part of the block that a row needs: its message, and the fields after the
    /// message's start.
    fn window(&self, row: usize, copy: usize) -> Window {
        let columns = || std::iter::once(&self.message).chain(self.fields.iter());
        let cells = columns().map(|column| column.cells()[row]);
        let shared: Vec<Cell> = cells.filter(|c| !c.is_own() && !c.is_empty()).collect();
        let message = self.message.cells()[row];
        let is_shared = !message.is_own() && !message.is_empty();
        let first = shared.iter().map(|cell| cell.start()).min().unwrap_or(0);
        let start = if is_shared { message.start() } else { first };
        let end = shared.iter().map(|cell| cell.start() + cell.len()).max().unwrap_or(0);
        Window { start, end: end.clamp(start, start + VALUE_BYTES_MAX), copy }
    }

    /// Returns the number of bytes to copy for a row from outside the block.
    fn own_bytes(&self, row: usize) -> usize {
        let columns = std::iter::once(&self.message).chain(self.fields.iter());
        let cells = columns.map(|column| column.cells()[row]).filter(|cell| cell.is_own());
        cells.map(|cell| cell.len().min(VALUE_BYTES_MAX)).sum()
    }

    /// Copies a column. Each value keeps its offset relative to the message, so a value that was a
    /// slice of the old block is the same slice of the new one. If `is_field`, a long value is
    /// replaced instead of truncated.
    fn copied(
        &self,
        column: &Column,
        rows: &[usize],
        windows: &[Window],
        is_field: bool,
    ) -> Column {
        let (mut made, mut own_bytes) = (ColumnBuilder::new(rows.len()), 0);
        for (at, (row, window)) in rows.iter().zip(windows).enumerate() {
            let cell = column.cells()[*row];
            let (start, end) = (cell.start(), cell.start() + cell.len());
            let is_within = !cell.is_own() && window.start <= start && end <= window.end;
            let is_cut = !cell.is_own() && !is_field && window.start <= start;
            let copy = if cell.is_empty() {
                Cell::new(cell.kind(), 0, 0)
            } else if is_within || is_cut {
                let len = end.min(window.end) - start;
                Cell::new(cell.kind(), window.copy + start - window.start, len)
            } else {
                let bytes = column.bytes(&self.block, cell);
                let is_short = bytes.len() <= VALUE_BYTES_MAX && own_bytes <= SAMPLE_BYTES_MAX;
                own_bytes += bytes.len().min(VALUE_BYTES_MAX);
                pushed(&mut made, cell.kind(), bytes, is_short, is_field)
            };
            made.set(at, copy);
        }
        made.finish(column.name.clone())
    }

    /// Returns a copy of the batch with only these rows, still without their text and fields.
    fn rearranged(&self, rows: &[usize], windows: &[Window]) -> Batch {
        let segment_of = |row: usize| {
            self.segments.iter().find(|s| (s.first_row..s.first_row + s.rows).contains(&row))
        };
        let offset = |row: &usize| segment_of(*row).map_or(0, |segment| self.offset(segment, *row));
        let column = |column: &Column| {
            let cells: Vec<Cell> = rows.iter().map(|row| column.cells()[*row]).collect();
            Column::new(column.name.clone(), cells, column.own().clone())
        };
        let columns = |columns: &Columns| columns.iter().map(column).collect::<Vec<_>>().into();
        let shown = |shown: &BooleanBuffer| rows.iter().map(|row| shown.value(*row)).collect();
        let is_truncated = |(_, row): &(usize, &usize)| self.is_truncated(**row);
        let truncated = rows.iter().enumerate().filter(is_truncated);
        let time = |row: &usize| self.time.as_ref().map_or(TIME_UNKNOWN, |time| time[*row]);
        Batch {
            source: self.source.clone(),
            sinks: SinkSet::EMPTY,
            segments: self.segments.iter().map(|segment| without_debt(segment, rows)).collect(),
            starts: windows.iter().map(|window| window.copy as u32).collect(),
            offsets: Some(rows.iter().map(offset).collect()),
            ordinals: self
                .ordinals
                .as_ref()
                .map(|ordinals| rows.iter().map(|row| ordinals[*row]).collect()),
            shown: self.shown.as_ref().map(shown),
            metadata: self.metadata.as_ref().map(columns),
            selection: None,
            truncated: truncated.map(|(at, _)| at as u32).collect(),
            time: self.time.as_ref().map(|_| rows.iter().map(time).collect()),
            ..self.clone()
        }
    }
}

/// Copies a value into a column's buffer: a long message is truncated, a long field replaced.
fn pushed(
    made: &mut ColumnBuilder,
    kind: Kind,
    bytes: &[u8],
    is_short: bool,
    is_field: bool,
) -> Cell {
    match (is_short, is_field) {
        (true, _) => made.push(kind, bytes),
        (false, false) => made.push(Kind::Text, &bytes[..bytes.len().min(VALUE_BYTES_MAX)]),
        // A truncated list of members would not be valid.
        (false, true) if kind == Kind::Members => Cell::ABSENT,
        (false, true) => {
            made.push(Kind::Text, format!("({} bytes, not shown)", bytes.len()).as_bytes())
        }
    }
}

/// Returns a segment, without a debt, over those rows in `rows` that belong to `segment`.
fn without_debt(segment: &Segment, rows: &[usize]) -> Segment {
    let first_row = rows.partition_point(|row| *row < segment.first_row);
    let end = rows.partition_point(|row| *row < segment.first_row + segment.rows);
    let origin = segment.origin.clone();
    let ack = Ledger::new().issue(origin.id, 0..0, SinkSet::EMPTY, 0, EngineTime::ZERO);
    Segment { origin, first_row, rows: end - first_row, shift: 0, ack }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchBuilder;
    use crate::{Origin, OriginId, SinkIndex};
    use std::sync::Arc;

    /// Two segments: lines `0` to `9`, and one of 100 KB.
    fn batch() -> (Arc<Ledger>, Batch) {
        let mut block: Vec<u8> = (0..10).flat_map(|n| format!("k={n}\n").into_bytes()).collect();
        let (ledger, sinks) = (Ledger::new(), SinkSet::one(SinkIndex::new(0)));
        let mut builder = BatchBuilder::default();
        let segment = |id: u64, builder: &mut BatchBuilder| {
            let origin = Arc::new(Origin::new(OriginId(id), "f"));
            ledger.open(&origin, [(SinkIndex::new(0), 0)]);
            let ack = ledger.issue(OriginId(id), 0..9, sinks, 0, EngineTime::ZERO);
            builder.segment(origin, 1000, ack);
        };
        for row in 0..10 {
            builder.row(&block[row * 4..row * 4 + 3], row * 4);
        }
        segment(1, &mut builder);
        let start = block.len();
        block.extend([b'x'; 100 << 10]);
        builder.row(&block[start..], start);
        segment(2, &mut builder);
        let mut batch = builder.finish(Bytes::from(block), Arc::default(), sinks, 7);
        let mut key = ColumnBuilder::new(11);
        (0..10).for_each(|row| key.set(row, Cell::new(Kind::Int, row * 4 + 2, 1)));
        key.set(10, Cell::new(Kind::Text, start + 10, 90 << 10));
        batch.fields.set(key.finish("k".into()));
        let mut own = ColumnBuilder::new(11);
        own.text(3, b"own");
        batch.fields.set(own.finish("own".into()));
        (ledger, batch)
    }

    fn event(batch: &Batch, segment: usize, row: usize) -> String {
        let id = batch.event_id(&batch.segments[segment], row);
        let text = String::from_utf8_lossy(batch.text(row)).into_owned();
        let fields = batch.fields.iter().map(|column| format!("{:?}", batch.value(column, row)));
        format!("{id} {text} {}", fields.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_sample_has_the_same_events_and_none_of_the_block() {
        let (_ledger, batch) = batch();
        let EventSample { batch: copy, cut, .. } = batch.sample(&[3, 7]);
        assert_eq!((copy.rows(), cut), (2, vec![0, 0]));
        assert_eq!(event(&copy, 0, 0), event(&batch, 0, 3));
        assert_eq!(event(&copy, 0, 1), event(&batch, 0, 7));
        assert!(copy.block.len() < 20 && !copy.fields.get("k").unwrap().cells()[0].is_own());
        assert_eq!(copy.segments.iter().map(|s| s.rows).collect::<Vec<_>>(), [2, 0]);
    }

    #[test]
    fn long_texts_are_cut_and_long_fields_replaced() {
        let (_ledger, batch) = batch();
        let EventSample { batch: copy, cut, bytes } = batch.sample(&[9, 10]);
        assert_eq!(cut, [0, (100 - 64) << 10]);
        assert_eq!((copy.text(1).len(), copy.text(0)), (VALUE_BYTES_MAX, &b"k=9"[..]));
        let field = copy.fields.get("k").unwrap();
        assert_eq!(
            copy.value(field, 1),
            millstream_columns::Value::Text(b"(92160 bytes, not shown)")
        );
        assert!(bytes <= VALUE_BYTES_MAX + 10);
    }

    #[test]
    fn a_sample_is_bounded() {
        let block = vec![b'x'; 10 * VALUE_BYTES_MAX];
        let mut builder = BatchBuilder::default();
        for row in 0..10 {
            let at = row * VALUE_BYTES_MAX;
            builder.row(&block[at..at + VALUE_BYTES_MAX], at);
        }
        let (ledger, sinks) = (Ledger::new(), SinkSet::one(SinkIndex::new(0)));
        let ack = ledger.issue(OriginId(1), 0..9, sinks, 0, EngineTime::ZERO);
        builder.segment(Arc::new(Origin::new(OriginId(1), "f")), 0, ack);
        let batch = builder.finish(Bytes::from(block), Arc::default(), sinks, 0);
        let rows: Vec<usize> = (0..10).collect();
        assert_eq!(batch.sample(&rows).batch.rows(), SAMPLE_BYTES_MAX / VALUE_BYTES_MAX);
    }

    /// A sample that is kept must neither hold open the range of its batch nor abandon the range.
    #[test]
    fn a_sample_owes_nothing() {
        let (ledger, batch) = batch();
        let copy = batch.sample(&[0, 10]).batch;
        batch.segments.iter().for_each(|segment| segment.ack.finish());
        drop(batch);
        assert!(ledger.is_idle());
        drop(copy);
        assert_eq!(ledger.take_rereads(), Vec::new());
    }
}
