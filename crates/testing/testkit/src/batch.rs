//! Batches: made from texts, and checked for what everybody behind a source relies on.

use millstream_model::{
    Batch, BatchBuilder, BlockPool, Grant, Ledger, LongLine, Origin, SinkSet, SourceInfo,
};
use std::sync::Arc;
use std::time::Duration;

/// The lines of one origin, as a test gives them.
pub struct Rows<'a> {
    /// What the origin is called.
    pub name: &'a str,
    /// Its bytes; every line has its end.
    pub text: &'a [u8],
}

/// A batch for sink 0 with one segment per element of `parts`, whose lines are cut at `line_max`.
/// Its block is paid for by `grant`; its ranges are issued by `ledger`.
pub fn batch(
    parts: &[Rows<'_>],
    line_max: usize,
    grant: &Arc<Grant>,
    ledger: &Arc<Ledger>,
) -> Batch {
    let bytes: usize = parts.iter().map(|part| part.text.len()).sum();
    let permit = grant.try_take(bytes as u64).expect("room for a block");
    let mut block = BlockPool::new().block(bytes, permit);
    let (mut builder, mut used) = (BatchBuilder::default(), 0);
    for (index, part) in parts.iter().enumerate() {
        let (begin, end) = (used, used + part.text.len());
        block.memory()[begin..end].copy_from_slice(part.text);
        let is_end = |at: &usize| block.filled(end)[*at] == b'\n';
        let newlines: Vec<u32> = (begin..end).filter(is_end).map(|at| at as u32).collect();
        builder.lines(block.filled(end), begin, &newlines, line_max, LongLine::Truncate);
        let (id, offset) = (0xA000_0000_0000_0001 + index as u64, 1000 * index as u64);
        let origin = Arc::new(Origin::new(id, part.name));
        ledger.open(&origin, [(0, offset)]);
        let ack = ledger.issue(
            id,
            (offset, offset + part.text.len() as u64),
            SinkSet::one(0),
            0,
            Duration::ZERO,
        );
        builder.segment(origin, offset.wrapping_sub(begin as u64), ack);
        used = end;
    }
    let info = SourceInfo { id: "app".into(), host: "here".into(), ..SourceInfo::default() };
    builder.finish(block.freeze(used), Arc::new(info), SinkSet::one(0), 1_795_292_986_123_000_000)
}

/// Panics unless the batch keeps what every transform and encoder relies on.
pub fn assert_whole(batch: &Batch) {
    for column in batch.fields.iter().chain([&batch.message]) {
        assert_eq!(column.cells().len(), batch.rows(), "length of column {}", column.name);
        (0..batch.rows()).for_each(|row| _ = batch.value(column, row));
    }
    assert!(
        batch.shown.as_ref().is_none_or(|shown| shown.len() == batch.rows()),
        "length of the shown rows"
    );
    assert!(
        batch.time.as_ref().is_none_or(|time| time.len() == batch.rows()),
        "length of the times"
    );
    assert!(
        batch.selection.as_ref().is_none_or(|s| s.len() == batch.rows()),
        "length of the selection"
    );
    assert!(batch.truncated.is_sorted_by(|a, b| a < b), "cut rows ascend");
    assert!(
        batch.truncated.last().is_none_or(|row| (*row as usize) < batch.rows()),
        "cut rows are rows"
    );
    for (row, start) in batch.starts.iter().enumerate() {
        let start = *start as usize;
        if batch.message.cells()[row].is_own() {
            continue;
        }
        assert_eq!(
            batch.block.get(start..start + batch.text_len(row)),
            Some(batch.text(row)),
            "row {row}"
        );
    }
    let mut next_row = 0;
    for segment in batch.segments.iter() {
        assert_eq!(segment.first_row, next_row, "segments follow each other");
        next_row += segment.rows;
        let offset = |row| batch.offset(segment, row);
        let ascend = (segment.first_row + 1..next_row).all(|row| offset(row - 1) < offset(row));
        assert!(ascend, "offsets of {} ascend", segment.origin.name);
        assert_eq!(segment.ack.sinks(), batch.sinks, "the debt is to the sinks of the batch");
    }
    assert_eq!(next_row, batch.rows(), "segments cover the batch");
}
