//! Filtering of batches row by row.

use millstream_model::{Batch, Segment, Selection};

/// Keeps the selected rows for which `keep` returns true, and returns the number of removed rows.
/// `keep` is called in row order.
pub fn keep_rows(batch: &mut Batch, mut keep: impl FnMut(&Batch, &Segment, usize) -> bool) -> u64 {
    let mut kept = vec![false; batch.rows()];
    for segment in batch.segments.iter() {
        for (begin, end) in batch.runs(segment.first_row, segment.first_row + segment.rows) {
            for (row, kept) in (begin..end).zip(&mut kept[begin..end]) {
                *kept = keep(batch, segment, row);
            }
        }
    }
    let before = batch.events();
    batch.select(Selection::from(kept));
    (before - batch.events()) as u64
}
