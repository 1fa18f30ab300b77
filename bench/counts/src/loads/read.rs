//! Load that turns a block into a batch of lines.

use super::events::Reader;
use crate::load::Load;
use crate::text::{self, BLOCK_BYTES, lines};
use std::hint::black_box;

/// Finds the line endings in a block of access lines and creates a batch, as the file source does
/// with a block that it has read.
pub fn read_lines() -> Load {
    let text = lines(BLOCK_BYTES, text::access);
    let mut reader = Reader::new();
    Load::new("line", move || {
        let batch = black_box(reader.batch(&text));
        let lines = batch.rows() as u64;
        reader.settle(&batch);
        lines
    })
}
