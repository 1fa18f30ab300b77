//! Creates a batch from a filled block.

use crate::settings::TailSettings;
use crate::tail::Fill;
use millstream_model::{Batch, Polled, Selection, SourceCx};

/// Returns the batch for a filled block, without the lines that the settings exclude.
pub(super) fn batch(fill: Fill, settings: &mut TailSettings, cx: &SourceCx<'_>) -> Polled {
    let used = fill.used();
    let block = fill.block.freeze(used);
    let mut batch = fill.builder.finish(block, cx.info.clone(), fill.sinks, cx.now.unix_ns);
    fill.metadata.finish(&mut batch);
    cx.counters.received(batch.rows() as u64, 0);
    batch.header = fill.header;
    cx.counters.dropped("header", leave_out(&fill.header_rows, &mut batch));
    let outside = settings.range.as_mut().map_or(0, |range| range.apply(&mut batch));
    cx.counters.dropped("filtered", outside);
    cx.counters.dropped("filtered", settings.filters.apply(&mut batch));
    cx.counters.sent(batch.events() as u64, batch.text_bytes());
    Polled::Batch(Box::new(batch), fill.permit)
}

/// Deselects header lines, which are not events; returns the number of lines deselected.
fn leave_out(header_rows: &[u32], batch: &mut Batch) -> u64 {
    if header_rows.is_empty() {
        return 0;
    }
    let is_event = |row| header_rows.binary_search(&(row as u32)).is_err();
    batch.select(Selection::collect_bool(batch.rows(), is_event));
    header_rows.len() as u64
}
