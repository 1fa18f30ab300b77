//! Batches: many events from one source, stored by column over shared read blocks.
//!
//! Rows are grouped in *segments*, one per origin, in read order. The text of a row, and of each
//! field found in the row, is a slice of the read block, so nothing is copied. An optional
//! *selection* bitmap marks the rows that remain, so that a filter costs one bitmap.

mod id;
mod message;
mod repeat;
mod sample;

use crate::ack::Ack;
use crate::counters::Counters;
use crate::limits::BATCH_ROWS_MAX;
use crate::origin::{Origin, TIME_UNKNOWN};
use crate::sinkset::SinkSet;
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use bytes::Bytes;
pub use id::EventId;
pub use message::LINE;

/// Name of the metadata column for the container stream that wrote the event: `stdout` or `stderr`.
pub const STREAM: &str = "meta.stream";

/// Name of the metadata column that marks a partial event, whose end is missing according to the
/// container runtime.
pub const PARTIAL: &str = "meta.partial";

use millstream_columns::{Cell, Column, Columns, Kind, Value};
pub use sample::{EventSample, SAMPLE_BYTES_MAX, VALUE_BYTES_MAX};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Name of the field that holds a row's text.
static MESSAGE: LazyLock<Arc<str>> = LazyLock::new(|| "message".into());

/// Name of the column that holds the ids.
static ID: LazyLock<Arc<str>> = LazyLock::new(|| "id".into());

/// Properties that all events from a source share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceInfo {
    /// The component id.
    pub id: String,
    /// Host name in the events.
    pub host: String,
    /// Constant fields added to every event.
    pub attributes: BTreeMap<String, String>,
}

/// The rows of a batch that come from one origin: consecutive, in offset order.
#[derive(Clone)]
pub struct Segment {
    /// Origin of the rows.
    pub origin: Arc<Origin>,
    /// Index of the segment's first row.
    pub first_row: usize,
    /// Number of rows in the segment.
    pub rows: usize,
    /// Number to add (wrapping) to a row's start in the block to get the row's offset in the
    /// origin.
    pub shift: u64,
    /// The acknowledgement that the segment owes to its source.
    pub ack: Ack,
}

impl Segment {
    fn offset(&self, start: u32) -> u64 {
        self.shift.wrapping_add(u64::from(start))
    }
}

/// Many events from one source. Cloning is cheap: columns are shared.
#[derive(Clone)]
pub struct Batch {
    /// Properties that all events in the batch share.
    pub source: Arc<SourceInfo>,
    /// Sinks that receive the batch. The source's other sinks already have these events, or get
    /// them later.
    pub sinks: SinkSet,
    /// The block that was read; `starts` are positions in it.
    pub block: Bytes,
    /// Rows grouped by origin.
    pub segments: Arc<[Segment]>,
    /// Start of each row in the block, in bytes.
    pub starts: ScalarBuffer<u32>,
    /// Offset of each row in its origin, in bytes. `None` if the offsets can be computed from the
    /// starts. Only text that was decoded on its way into the block needs explicit offsets.
    pub offsets: Option<ScalarBuffer<u64>>,
    /// Index of each row among the events from its record, counted from 0; `None` if each record is
    /// one event.
    pub ordinals: Option<ScalarBuffer<u32>>,
    /// Ids that arrived with the records, such as in a header; a row without an id is identified by
    /// its position. `None` if no row has an id. Every cell is text or absent.
    pub ids: Option<Column>,
    /// The line of each row, without its line ending. Every cell is text. The line is the message
    /// of events without a `message` field: see [`Batch::message_column`].
    pub message: Column,
    /// Rows whose line is encoded as a field of the event; `None` means all rows. A line that was
    /// parsed into fields does not need to be encoded as well. Codecs that write only the line
    /// ignore this bitmap.
    pub shown: Option<BooleanBuffer>,
    /// Fields that were parsed from the rows, or added to them.
    pub fields: Columns,
    /// Metadata that differs between rows and that fields cannot hide: [`STREAM`] and [`PARTIAL`].
    /// `None` if the source provides no metadata.
    pub metadata: Option<Columns>,
    /// Rows that have not been filtered out; `None` means all rows.
    pub selection: Option<BooleanBuffer>,
    /// Rows truncated at `max_line`, ascending.
    pub truncated: Arc<[u32]>,
    /// The file's header line, which names the columns of all rows, without its line ending. `None`
    /// if the header is unknown, if the file has none, or if no component asks for it.
    pub header: Option<Arc<str>>,
    /// Wall-clock time at which the block was read, in nanoseconds since 1970.
    pub read_ns: i64,
    /// Event time of each row in nanoseconds since 1970, or [`TIME_UNKNOWN`]; `None` if no
    /// transform parsed times.
    pub time: Option<ScalarBuffer<i64>>,
}

impl Batch {
    /// Returns the metadata column called `name`.
    pub fn metadata(&self, name: &str) -> Option<&Column> {
        self.metadata.as_ref()?.get(name)
    }

    /// Returns the number of rows, selected or not.
    pub fn rows(&self) -> usize {
        self.starts.len()
    }

    /// Returns the number of selected rows.
    pub fn events(&self) -> usize {
        self.selection.as_ref().map_or(self.rows(), BooleanBuffer::count_set_bits)
    }

    /// Returns whether the row is selected.
    pub fn is_selected(&self, row: usize) -> bool {
        self.selection.as_ref().is_none_or(|s| s.value(row))
    }

    /// Deselects the rows that are not set in `keep`.
    pub fn select(&mut self, keep: BooleanBuffer) {
        self.selection = Some(match self.selection.take() {
            Some(before) => &before & &keep,
            None => keep,
        });
    }

    /// Deselects the rows outside `[begin, end)`.
    pub fn select_range(&mut self, begin: usize, end: usize) {
        self.select(BooleanBuffer::collect_bool(self.rows(), |row| (begin..end).contains(&row)));
    }

    /// Returns the runs of selected rows within `[begin, end)`, each as its first row and the row
    /// after its last.
    pub fn runs(&self, begin: usize, end: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let whole = self.selection.is_none().then_some((begin, end)).filter(|(b, e)| b < e);
        let slice = self.selection.as_ref().map(|s| s.slice(begin, end - begin));
        let parts: Vec<_> = slice.iter().flat_map(BooleanBuffer::set_slices).collect();
        whole.into_iter().chain(parts.into_iter().map(move |(b, e)| (b + begin, e + begin)))
    }

    /// Returns the line of a row.
    #[inline(always)]
    pub fn text(&self, row: usize) -> &[u8] {
        self.message.bytes(&self.block, self.message.cells()[row])
    }

    /// Returns the length of a row's line in bytes, without reading the line.
    pub fn text_len(&self, row: usize) -> usize {
        self.message.cells()[row].len()
    }

    /// Returns the total bytes of the lines of all selected rows.
    pub fn text_bytes(&self) -> u64 {
        let cells = self.message.cells();
        let sum =
            |(b, e): (usize, usize)| cells[b..e].iter().map(|cell| cell.len() as u64).sum::<u64>();
        self.runs(0, self.rows()).map(sum).sum()
    }

    /// Returns the time of a row in nanoseconds since 1970: the event time if it is known, and
    /// otherwise the read time.
    pub fn event_ns(&self, row: usize) -> i64 {
        let own = self.time.as_ref().map_or(TIME_UNKNOWN, |time| time[row]);
        if own == TIME_UNKNOWN { self.read_ns } else { own }
    }

    /// Returns whether the row's line is encoded as a field of the event.
    pub fn is_shown(&self, row: usize) -> bool {
        self.shown.as_ref().is_none_or(|shown| shown.value(row))
    }

    /// Returns a row's value in one of this batch's columns.
    #[inline(always)]
    pub fn value<'a>(&'a self, column: &'a Column, row: usize) -> Value<'a> {
        column.value(&self.block, row)
    }

    /// Returns the offset of a row in its origin.
    pub fn offset(&self, segment: &Segment, row: usize) -> u64 {
        match &self.offsets {
            None => segment.offset(self.starts[row]),
            Some(offsets) => offsets[row],
        }
    }

    /// Returns the index of a row among the events from its record, counted from 0.
    pub fn ordinal(&self, row: usize) -> u32 {
        self.ordinals.as_ref().map_or(0, |ordinals| ordinals[row])
    }

    /// Returns the position of a row, which stays the same if the row is reread.
    pub fn event_id(&self, segment: &Segment, row: usize) -> EventId {
        let (offset, ordinal) = (self.offset(segment, row), self.ordinal(row));
        EventId { origin: segment.origin.id, offset, ordinal }
    }

    /// Returns whether the row was truncated at `max_line`.
    pub fn is_truncated(&self, row: usize) -> bool {
        !self.truncated.is_empty() && self.truncated.binary_search(&(row as u32)).is_ok()
    }
}

/// What happens to a line over the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LongLine {
    /// Truncated at a character boundary and marked as `truncated`.
    #[default]
    Truncate,
    /// Split into several events, none over the limit.
    Split,
    /// Dropped and counted.
    Drop,
}

impl LongLine {
    /// Counts `cuts` long lines that were handled according to `self`.
    pub fn count(self, counters: &Counters, cuts: u64) {
        match self {
            LongLine::Truncate => counters.noted("truncated", cuts),
            LongLine::Split => counters.noted("split", cuts),
            LongLine::Drop => counters.dropped("long_line", cuts),
        }
    }
}

/// Counts of the lines that [`BatchBuilder::lines_before_nul`] added, and of their cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedLines {
    /// Number of lines.
    pub lines: usize,
    /// Number of cuts in long lines.
    pub cuts: u64,
}

/// Collects lines from one block into a batch.
#[derive(Default)]
pub struct BatchBuilder {
    texts: Vec<Cell>,
    starts: Vec<u32>,
    segments: Vec<Segment>,
    truncated: Vec<u32>,
    /// Explicit offsets, up to the last row that has one; empty if no row has one.
    offsets: Vec<u64>,
    /// Explicit times, up to the last row that has one; empty if no row has one.
    times: Vec<i64>,
    /// Received ids, up to the last row that has one; empty if no row has one.
    ids: Vec<Cell>,
}

/// Marks a row whose offset can be computed from its start.
const OFFSET_FROM_START: u64 = u64::MAX;

impl BatchBuilder {
    /// Creates an empty builder with capacity for `rows`.
    pub fn with_capacity(rows: usize) -> BatchBuilder {
        let (texts, starts) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        BatchBuilder { texts, starts, ..BatchBuilder::default() }
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> usize {
        self.starts.len()
    }

    /// Returns whether the batch has a segment, empty or not.
    pub fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Returns whether the batch is full and cannot take another row.
    pub fn is_full(&self) -> bool {
        self.rows() >= BATCH_ROWS_MAX
    }

    /// Adds the lines in `block` that end at `newlines` (positions of `\n`), of which the first one
    /// starts at `from`. A carriage return before the newline belongs to the line ending; any other
    /// carriage return is data. `long` selects how lines over `line_max` bytes are handled. Returns
    /// the number of cuts.
    pub fn lines(
        &mut self,
        block: &[u8],
        from: usize,
        newlines: &[u32],
        line_max: usize,
        long: LongLine,
    ) -> u64 {
        self.lines_while(block, from, newlines, line_max, long, |_| true).cuts
    }

    /// Adds lines like [`BatchBuilder::lines`], up to the first line that starts with a NUL byte.
    pub fn lines_before_nul(
        &mut self,
        block: &[u8],
        from: usize,
        newlines: &[u32],
        line_max: usize,
        long: LongLine,
    ) -> AddedLines {
        let is_text = |line: &[u8]| line.first() != Some(&0);
        self.lines_while(block, from, newlines, line_max, long, is_text)
    }

    #[inline]
    fn lines_while(
        &mut self,
        block: &[u8],
        from: usize,
        newlines: &[u32],
        line_max: usize,
        long: LongLine,
        is_added: impl Fn(&[u8]) -> bool,
    ) -> AddedLines {
        self.texts.reserve(newlines.len());
        self.starts.reserve(newlines.len());
        let (mut cuts, mut start) = (0, from);
        for (lines, &newline) in newlines.iter().enumerate() {
            let newline = newline as usize;
            let line = trim_cr(&block[start..newline]);
            if !is_added(line) {
                return AddedLines { lines, cuts };
            }
            if line.len() <= line_max {
                self.row(line, start);
            } else {
                cuts += self.long_row(line, start, line_max, long);
            }
            start = newline + 1;
        }
        AddedLines { lines: newlines.len(), cuts }
    }

    /// Adds a line longer than `line_max` bytes, handled as `long` says. Returns the number of
    /// cuts.
    #[cold]
    pub fn long_row(&mut self, line: &[u8], start: usize, line_max: usize, long: LongLine) -> u64 {
        self.long_rows(line, start, line_max, long, Self::row)
    }

    /// Adds a long line of decoded text, handled as `long` says. `offset` maps a position in the
    /// block to an offset in the origin, and must be monotonic. Returns the number of cuts.
    #[cold]
    pub fn long_row_at(
        &mut self,
        line: &[u8],
        start: usize,
        line_max: usize,
        long: LongLine,
        offset: impl Fn(usize) -> u64,
    ) -> u64 {
        self.long_rows(line, start, line_max, long, |to, text, at| to.row_at(text, at, offset(at)))
    }

    fn long_rows(
        &mut self,
        line: &[u8],
        start: usize,
        line_max: usize,
        long: LongLine,
        row: impl Fn(&mut Self, &[u8], usize),
    ) -> u64 {
        let rows = self.rows();
        match long {
            LongLine::Drop => {}
            LongLine::Truncate => {
                self.truncated.push(self.rows() as u32);
                row(self, &line[..char_boundary(line, line_max)], start);
            }
            LongLine::Split => {
                let (mut rest, mut start) = (line, start);
                while !rest.is_empty() {
                    let (piece, next) = rest.split_at(char_boundary(rest, line_max));
                    row(self, piece, start);
                    (rest, start) = (next, start + piece.len());
                }
                return (self.rows() - rows) as u64 - 1;
            }
        }
        1
    }

    /// Adds a row with `text`, which starts at `start` in the block.
    #[inline(always)]
    pub fn row(&mut self, text: &[u8], start: usize) {
        self.texts.push(Cell::new(Kind::Text, start, text.len()));
        self.starts.push(start as u32);
    }

    /// Adds a row of decoded text that starts at `offset` in its origin.
    pub fn row_at(&mut self, text: &[u8], start: usize, offset: u64) {
        self.offsets.resize(self.rows(), OFFSET_FROM_START);
        self.offsets.push(offset);
        self.row(text, start);
    }

    /// Sets the offset of the last row in its origin.
    pub fn offset(&mut self, offset: u64) {
        let Some(last) = self.rows().checked_sub(1) else { return };
        self.offsets.resize(last, OFFSET_FROM_START);
        self.offsets.push(offset);
    }

    /// Sets the time of the last row, in nanoseconds since 1970.
    pub fn time(&mut self, ns: i64) {
        let Some(last) = self.rows().checked_sub(1) else { return };
        self.times.resize(last, TIME_UNKNOWN);
        self.times.push(ns);
    }

    /// Sets the id that arrived with the record of the last row: `len` bytes at `start` in the
    /// block.
    pub fn id(&mut self, start: usize, len: usize) {
        let Some(last) = self.rows().checked_sub(1) else { return };
        self.ids.resize(last, Cell::ABSENT);
        self.ids.push(Cell::new(Kind::Text, start, len));
    }

    /// Returns the acknowledgements for all segments.
    pub fn acks(&self) -> impl Iterator<Item = &Ack> {
        self.segments.iter().map(|segment| &segment.ack)
    }

    /// Closes a segment that contains the rows added since the previous segment.
    pub fn segment(&mut self, origin: Arc<Origin>, shift: u64, ack: Ack) {
        let first_row = self.segments.last().map_or(0, |s| s.first_row + s.rows);
        let rows = self.rows() - first_row;
        self.segments.push(Segment { origin, first_row, rows, shift, ack });
    }

    /// Builds the batch over `block`, which must contain the bytes of all rows.
    pub fn finish(
        mut self,
        block: Bytes,
        source: Arc<SourceInfo>,
        sinks: SinkSet,
        read_ns: i64,
    ) -> Batch {
        let last = self.starts.last().map_or(0, |s| *s as usize);
        assert!(last <= block.len(), "a row starts outside its block");
        let (offsets, times) = (self.take_offsets(), self.take_times());
        let ids = self.take_ids();
        let message = Column::new(MESSAGE.clone(), self.texts, Bytes::new());
        Batch {
            source,
            sinks,
            block,
            segments: self.segments.into(),
            starts: ScalarBuffer::from(self.starts),
            offsets,
            ordinals: None,
            ids,
            message,
            shown: None,
            metadata: None,
            fields: Columns::default(),
            selection: None,
            truncated: self.truncated.into(),
            header: None,
            read_ns,
            time: times,
        }
    }

    /// Takes the offsets of all rows, if at least one row has an explicit offset.
    fn take_offsets(&mut self) -> Option<ScalarBuffer<u64>> {
        let mut offsets = std::mem::take(&mut self.offsets);
        if offsets.is_empty() {
            return None;
        }
        offsets.resize(self.rows(), OFFSET_FROM_START);
        for segment in &self.segments {
            let rows = segment.first_row..segment.first_row + segment.rows;
            for (offset, start) in offsets[rows.clone()].iter_mut().zip(&self.starts[rows]) {
                if *offset == OFFSET_FROM_START {
                    *offset = segment.offset(*start);
                }
            }
        }
        Some(offsets.into())
    }

    /// Takes the times of all rows, if at least one row has a time.
    fn take_times(&mut self) -> Option<ScalarBuffer<i64>> {
        let mut times = std::mem::take(&mut self.times);
        if times.is_empty() {
            return None;
        }
        times.resize(self.rows(), TIME_UNKNOWN);
        Some(times.into())
    }

    /// Takes the ids of all rows, if at least one row has an id.
    fn take_ids(&mut self) -> Option<Column> {
        let mut ids = std::mem::take(&mut self.ids);
        if ids.is_empty() {
            return None;
        }
        ids.resize(self.rows(), Cell::ABSENT);
        Some(Column::new(ID.clone(), ids, Bytes::new()))
    }
}

fn trim_cr(line: &[u8]) -> &[u8] {
    match line {
        [rest @ .., b'\r'] => rest,
        _ => line,
    }
}

/// Returns the length of the longest prefix of at most `max` bytes that does not end inside a UTF-8
/// character.
///
/// If no character starts in the last few bytes, because the bytes are not UTF-8, the prefix ends
/// at `max`.
pub fn char_boundary(line: &[u8], max: usize) -> usize {
    let max = max.min(line.len());
    let is_continuation = |at: usize| line.get(at).is_some_and(|b| b & 0xC0 == 0x80);
    (max.saturating_sub(3).max(1)..=max).rev().find(|at| !is_continuation(*at)).unwrap_or(max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineTime, Ledger, OriginId, SinkIndex};

    fn sink() -> SinkSet {
        SinkSet::one(SinkIndex::new(0))
    }

    fn batch(block: &'static [u8], line_max: usize) -> Batch {
        batch_with(block, line_max, LongLine::Truncate)
    }

    fn batch_with(block: &'static [u8], line_max: usize, long: LongLine) -> Batch {
        let newlines: Vec<u32> =
            block.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i as u32).collect();
        let mut builder = BatchBuilder::default();
        builder.lines(block, 0, &newlines, line_max, long);
        let ledger = Ledger::new();
        let ack =
            ledger.issue(OriginId(1), 100..100 + block.len() as u64, sink(), 0, EngineTime::ZERO);
        builder.segment(Arc::new(Origin::new(OriginId(1), "f")), 100, ack);
        builder.finish(Bytes::from_static(block), Arc::default(), sink(), 0)
    }

    fn texts(batch: &Batch) -> Vec<&[u8]> {
        (0..batch.rows()).filter(|r| batch.is_selected(*r)).map(|r| batch.text(r)).collect()
    }

    #[test]
    fn rows_are_lines_without_newline_and_a_lone_cr_is_data() {
        let batch = batch(b"short\r\n\na\rb\nlonger than twelve bytes\n\r\n", 100);
        let expected: [&[u8]; 5] = [b"short", b"", b"a\rb", b"longer than twelve bytes", b""];
        assert_eq!(texts(&batch), expected);
        let segment = &batch.segments[0];
        let offsets: Vec<u64> = (0..5).map(|r| batch.offset(segment, r)).collect();
        assert_eq!(offsets, [100, 107, 108, 112, 137]);
        assert_eq!(batch.text_bytes(), 5 + 3 + 24);
    }

    #[test]
    fn every_length_round_trips() {
        for len in 0..40 {
            let text: Vec<u8> = (0..len).map(|i| b'a' + (i % 26) as u8).collect();
            let line: &'static [u8] = [&text[..], b"\n"].concat().leak();
            assert_eq!(texts(&batch(line, 100)), [&text[..]]);
        }
    }

    #[test]
    fn a_long_line_is_cut_at_a_character_boundary_and_marked() {
        let batch = batch("aaé\nok\nbbb€bb\n".as_bytes(), 4);
        assert_eq!(texts(&batch), ["aaé".as_bytes(), b"ok", b"bbb"]);
        assert_eq!(
            (batch.is_truncated(0), batch.is_truncated(1), batch.is_truncated(2)),
            (false, false, true)
        );
    }

    #[test]
    fn a_long_line_is_split_without_loss_or_dropped() {
        let split = batch_with("aa€bcdefg\nok\n".as_bytes(), 4, LongLine::Split);
        let expected: [&[u8]; 4] = [b"aa", "€b".as_bytes(), b"cdef", b"g"];
        assert_eq!(texts(&split)[..4], expected);
        assert_eq!(split.starts[..], [0, 2, 6, 10, 12]);
        assert_eq!(texts(&batch_with(b"aaaaa\nok\n", 4, LongLine::Drop)), [b"ok"]);
    }

    #[test]
    fn lines_are_added_up_to_the_first_with_a_leading_nul() {
        let add = |block: &[u8], newlines: &[u32]| {
            let mut builder = BatchBuilder::default();
            let added = builder.lines_before_nul(block, 0, newlines, 4, LongLine::Split);
            (added.lines, added.cuts, builder.rows())
        };
        assert_eq!(add(b"a\0\nlonger\n\n\0b\nc\n", &[2, 9, 10, 13, 15]), (3, 1, 4));
        assert_eq!(add(b"\0\na\n", &[1, 3]), (0, 0, 0));
        assert_eq!(add(b"\na\n", &[0, 2]), (2, 0, 2));
    }

    #[test]
    fn a_row_without_a_time_has_its_read_time() {
        let mut batch = batch(b"0\n1\n", 100);
        batch.read_ns = 7;
        assert_eq!([batch.event_ns(0), batch.event_ns(1)], [7, 7]);
        batch.time = Some(vec![TIME_UNKNOWN, -5].into());
        assert_eq!([batch.event_ns(0), batch.event_ns(1)], [7, -5]);
    }

    #[test]
    fn rows_of_decoded_text_keep_their_own_offsets_and_the_others_follow_from_their_start() {
        let block = b"plain\ndecoded too long\nlast";
        let (ledger, mut builder) = (Ledger::new(), BatchBuilder::default());
        let ack = || ledger.issue(OriginId(1), 0..1, sink(), 0, EngineTime::ZERO);
        builder.row(&block[..5], 0);
        builder.segment(Arc::new(Origin::new(OriginId(1), "a")), 40, ack());
        builder.row_at(&block[6..13], 6, 500);
        let twice = |at: usize| 500 + 2 * (at as u64 - 6);
        assert_eq!(builder.long_row_at(&block[14..22], 14, 4, LongLine::Split, twice), 1);
        builder.time(77);
        builder.row(&block[23..], 23);
        builder.segment(Arc::new(Origin::new(OriginId(2), "b")), 1000, ack());
        let batch = builder.finish(Bytes::from_static(block), Arc::default(), sink(), 0);
        let offset = |row| batch.offset(&batch.segments[usize::from(row > 0)], row);
        assert_eq!([0, 1, 2, 3, 4].map(offset), [40, 500, 516, 524, 1023]);
        assert_eq!(texts(&batch), [&b"plain"[..], b"decoded", b"too ", b"long", b"last"]);
        let times = batch.time.as_deref().unwrap();
        assert_eq!(times, [TIME_UNKNOWN, TIME_UNKNOWN, TIME_UNKNOWN, 77, TIME_UNKNOWN]);
    }

    #[test]
    fn selections_narrow_and_yield_runs() {
        let mut batch = batch(b"0\n1\n2\n3\n4\n", 100);
        assert_eq!(batch.runs(1, 4).collect::<Vec<_>>(), [(1, 4)]);
        batch.select(BooleanBuffer::from(vec![true, true, false, true, true]));
        batch.select_range(1, 5);
        assert_eq!((batch.events(), texts(&batch)), (3, vec![&b"1"[..], b"3", b"4"]));
        assert_eq!(batch.runs(0, 5).collect::<Vec<_>>(), [(1, 2), (3, 5)]);
        assert_eq!(batch.text_bytes(), 3);
    }
}
