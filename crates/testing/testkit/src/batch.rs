//! Builds batches from strings, and checks the invariants on which all later stages rely.

use millstream_model::{
    Batch, BatchBuilder, BlockPool, EngineTime, Grant, Ledger, LongLine, Origin, OriginId,
    SinkIndex, SinkSet, SourceInfo,
};
use std::sync::Arc;

/// Test lines of one origin.
pub struct Rows<'a> {
    /// Name of the origin.
    pub name: &'a str,
    /// The lines, each with its line ending.
    pub text: &'a [u8],
}

/// Builds a batch for sink 0 with one segment per element of `parts`. Lines are truncated to
/// `line_max` bytes. The block's memory comes from `grant`; `ledger` issues the acknowledgements.
pub fn batch(
    parts: &[Rows<'_>],
    line_max: usize,
    grant: &Arc<Grant>,
    ledger: &Arc<Ledger>,
) -> Batch {
    let bytes: usize = parts.iter().map(|part| part.text.len()).sum();
    let permit = grant.try_take(bytes as u64).expect("memory for a block");
    let mut block = BlockPool::new().block(bytes, permit);
    let sink = SinkIndex::new(0);
    let (mut builder, mut used) = (BatchBuilder::default(), 0);
    for (index, part) in parts.iter().enumerate() {
        let (begin, end) = (used, used + part.text.len());
        block.memory()[begin..end].copy_from_slice(part.text);
        let is_end = |at: &usize| block.filled(end)[*at] == b'\n';
        let newlines: Vec<u32> = (begin..end).filter(is_end).map(|at| at as u32).collect();
        builder.lines(block.filled(end), begin, &newlines, line_max, LongLine::Truncate);
        let (id, offset) = (OriginId(0xA000_0000_0000_0001 + index as u64), 1000 * index as u64);
        let origin = Arc::new(Origin::new(id, part.name));
        ledger.open(&origin, [(sink, offset)]);
        let range = offset..offset + part.text.len() as u64;
        let ack = ledger.issue(id, range, SinkSet::one(sink), 0, EngineTime::ZERO);
        builder.segment(origin, offset.wrapping_sub(begin as u64), ack);
        used = end;
    }
    let info = SourceInfo { id: "app".into(), host: "here".into(), ..SourceInfo::default() };
    builder.finish(
        block.freeze(used),
        Arc::new(info),
        SinkSet::one(sink),
        1_795_292_986_123_000_000,
    )
}

/// Asserts the invariants of a batch on which transforms and encoders rely.
pub fn assert_valid(batch: &Batch) {
    for column in batch.fields.iter().chain([&batch.message]) {
        assert_eq!(column.cells().len(), batch.rows(), "length of column {}", column.name);
        (0..batch.rows()).for_each(|row| _ = batch.value(column, row));
    }
    assert!(
        batch.shown.as_ref().is_none_or(|shown| shown.len() == batch.rows()),
        "length of `shown`"
    );
    assert!(batch.time.as_ref().is_none_or(|time| time.len() == batch.rows()), "length of `time`");
    assert!(
        batch.selection.as_ref().is_none_or(|s| s.len() == batch.rows()),
        "length of `selection`"
    );
    assert!(batch.truncated.is_sorted_by(|a, b| a < b), "truncated rows ascend");
    assert!(
        batch.truncated.last().is_none_or(|row| (*row as usize) < batch.rows()),
        "truncated rows exist"
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
        assert_eq!(segment.first_row, next_row, "segments are contiguous");
        next_row += segment.rows;
        let position = |row| (batch.offset(segment, row), batch.ordinal(row));
        let ascend = (segment.first_row + 1..next_row).all(|row| position(row - 1) < position(row));
        assert!(ascend, "positions in {} ascend", segment.origin.name);
        assert_eq!(
            segment.ack.sinks(),
            batch.sinks,
            "the acknowledgement is for the sinks of the batch"
        );
    }
    assert_eq!(next_row, batch.rows(), "segments cover the batch");
}
