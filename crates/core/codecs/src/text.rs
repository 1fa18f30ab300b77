//! The `text` codec: each line as it was read, followed by `\n`.
//!
//! Adjacent lines in a block are emitted as one slice of the block, without a copy. They are copied
//! if the slices would be small and numerous, or would keep a mostly unused block in memory.

use millstream_model::limits::COMPACT_BELOW;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload};
use std::ops::Range;

/// Minimum average length of a slice. Shorter slices are cheaper to copy than to write one by one.
const SLICE_BYTES_MIN: usize = 16 * 1024;

/// Encodes lines as text.
pub struct TextEncoder;

impl Encoder for TextEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        match slices(batch) {
            Some(slices) => {
                slices.into_iter().for_each(|range| payload.push(batch.block.slice(range)))
            }
            None => copy(batch, payload, cx),
        }
        Ok(())
    }
}

/// Returns the byte ranges of the block that contain the selected lines with their line feeds;
/// `None` if the lines should be copied.
fn slices(batch: &Batch) -> Option<Vec<Range<usize>>> {
    let used = batch.text_bytes() as usize + batch.events();
    if used * COMPACT_BELOW < millstream_model::limits::BLOCK_BYTES {
        return None;
    }
    let slices_max = used / SLICE_BYTES_MIN;
    let mut slices: Vec<Range<usize>> = Vec::new();
    for (begin, end) in batch.runs(0, batch.rows()) {
        for row in begin..end {
            let text = batch.message.cells()[row];
            let (start, after) = (text.start(), text.start() + text.len());
            if text.is_own() || batch.block.get(after) != Some(&b'\n') {
                return None;
            }
            let count = slices.len();
            match slices.last_mut() {
                Some(last) if last.end == start => last.end = after + 1,
                _ if count >= slices_max => return None,
                _ => slices.push(start..after + 1),
            }
        }
    }
    Some(slices)
}

fn copy(batch: &Batch, payload: &mut Payload, cx: &mut EncodeCx<'_>) {
    let mut buffer = cx.pool.buffer();
    buffer.reserve(batch.text_bytes() as usize + batch.events());
    for (begin, end) in batch.runs(0, batch.rows()) {
        for row in begin..end {
            buffer.extend_from_slice(batch.text(row));
            buffer.push(b'\n');
        }
    }
    payload.push(cx.freeze(buffer));
}

#[cfg(test)]
mod tests;
