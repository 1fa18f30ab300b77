//! Settles data without reading it, because a copy shares the data with its original, or lacks it.

use crate::tail::Tail;
use millstream_model::{Cursor, SourceCx};

/// Counts and skips data that a copy lacks because it was written after the copy and before the
/// truncation.
pub(super) fn skip_missing(tail: &mut Tail, begin: u64, end: u64, cx: &SourceCx<'_>) {
    let bytes = end - begin;
    cx.counters.error("truncated_unread");
    cx.counters.dropped("truncated_unread", 1);
    log::error!(
        "source {}: {bytes} bytes of {} are lost because its copy does not contain them",
        cx.info.id,
        tail.name()
    );
    skip_range(tail, begin, end, cx);
}

/// Settles the range from `begin` to `end` without reading it.
pub(super) fn skip_range(tail: &mut Tail, begin: u64, end: u64, cx: &SourceCx<'_>) {
    let is_within = |cursor: &Cursor| (begin..end).contains(&cursor.position);
    while let Some((index, cursor)) =
        tail.cursors().list().iter().copied().enumerate().find(|(_, cursor)| is_within(cursor))
    {
        let end = cursor.until.unwrap_or(end).min(end);
        let range = cursor.position..end;
        cx.ledger
            .issue(tail.id(), range, cursor.sinks, cursor.attempt, cx.now.since_start)
            .finish();
        tail.advance(index, end);
    }
    tail.record_read(&[], end);
}
