//! Splits a byte stream that cannot be reread into batches of lines.

use bytes::Bytes;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use millstream_model::{Batch, BatchBuilder, LongLine, Origin, Polled, SourceCx};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Splits a stream into lines. Offsets count from the start of the stream.
pub struct StreamLines {
    origin: Arc<Origin>,
    line_max: usize,
    long: LongLine,
    chunks: VecDeque<Vec<u8>>,
    /// Number of bytes of the first chunk that are already consumed.
    used: usize,
    /// Stream offset of the first byte that is not consumed.
    offset: u64,
    /// Whether the next line does not fit into a normal block, and needs a larger one.
    large: bool,
    /// Whether the rest of a truncated or dropped line is being skipped.
    skipping: bool,
    ended: bool,
}

impl StreamLines {
    /// Creates an empty stream for `origin`, which must be open in the ledger.
    pub fn new(origin: Arc<Origin>, line_max: usize, long: LongLine) -> StreamLines {
        let chunks = VecDeque::new();
        StreamLines {
            origin,
            line_max,
            long,
            chunks,
            used: 0,
            offset: 0,
            large: false,
            skipping: false,
            ended: false,
        }
    }

    /// Appends bytes to the stream.
    pub fn push(&mut self, chunk: Vec<u8>) {
        self.chunks.push_back(chunk);
    }

    /// Ends the stream. A last line without a line ending is treated as complete.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Takes the buffered bytes.
    pub fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.chunks.iter().flatten().skip(self.used).copied().collect();
        (self.chunks, self.used) = (VecDeque::new(), 0);
        rest
    }

    /// Drops the buffered bytes, and returns their range in the stream.
    pub fn give_up(&mut self) -> Range<u64> {
        let begin = self.offset;
        self.consume(self.waiting());
        begin..self.offset
    }

    /// Returns the number of buffered bytes.
    pub fn waiting(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum::<usize>() - self.used
    }

    /// Builds the next batch if a line is complete, every sink is ready, and a block is available.
    pub fn batch(&mut self, cx: &SourceCx<'_>) -> Polled {
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let bytes = if self.large { self.line_max + 2 } else { BLOCK_BYTES };
        let Some((mut block, permit)) = cx.block(bytes) else { return Polled::Backpressure };
        let filled = self.peek(block.memory());
        let text = block.filled(filled);
        let mut newlines = Vec::new();
        millstream_scan::newlines(text, &mut newlines);
        newlines.truncate(BATCH_ROWS_MAX);
        let (builder, bytes) = match newlines.last() {
            Some(last) => {
                let bytes = *last as usize + 1;
                (self.lines(&text[..bytes], &newlines, cx), bytes)
            }
            None if filled > self.line_max + 1 => self.long_line(text, cx),
            None if self.ended && filled > 0 && filled == self.waiting() => {
                (self.last_line(text, cx), filled)
            }
            None if filled == block.capacity() => {
                self.large = true;
                return Polled::Wait(Duration::ZERO);
            }
            None if self.ended => return Polled::Ended,
            None => return Polled::Wait(Duration::from_secs(3600)),
        };
        let batch = self.finish(block.freeze(bytes), builder, cx);
        Polled::Batch(Box::new(batch), permit)
    }

    /// Copies buffered bytes to the start of `block`, and returns their number.
    fn peek(&self, block: &mut [u8]) -> usize {
        let (mut filled, mut skip) = (0, self.used);
        for chunk in &self.chunks {
            let part = &chunk[skip..];
            let n = part.len().min(block.len() - filled);
            block[filled..filled + n].copy_from_slice(&part[..n]);
            filled += n;
            skip = 0;
        }
        filled
    }

    fn consume(&mut self, mut bytes: usize) {
        self.offset += bytes as u64;
        bytes += self.used;
        while self.chunks.front().is_some_and(|chunk| chunk.len() <= bytes) {
            bytes -= self.chunks.pop_front().map_or(0, |chunk| chunk.len());
        }
        self.used = bytes;
    }

    fn lines(&mut self, text: &[u8], newlines: &[u32], cx: &SourceCx<'_>) -> BatchBuilder {
        let mut builder = BatchBuilder::with_capacity(newlines.len());
        let (from, newlines) = match self.skipping {
            true => (newlines[0] as usize + 1, &newlines[1..]),
            false => (0, newlines),
        };
        self.skipping = false;
        let long = builder.lines(text, from, newlines, self.line_max, self.long);
        self.long.count(cx.counters, long);
        builder
    }

    /// Handles a line that exceeds the limit, before the end of the line arrives: emits or drops
    /// the beginning. Returns the rows and the number of bytes that were consumed.
    fn long_line(&mut self, text: &[u8], cx: &SourceCx<'_>) -> (BatchBuilder, usize) {
        let mut builder = BatchBuilder::default();
        let mut bytes = text.len();
        if self.long == LongLine::Split {
            bytes = millstream_model::char_boundary(text, self.line_max);
            builder.row(&text[..bytes], 0);
            self.long.count(cx.counters, 1);
        } else if !self.skipping {
            builder.long_row(text, 0, self.line_max, self.long);
            self.skipping = true;
            self.long.count(cx.counters, 1);
        }
        (builder, bytes)
    }

    fn last_line(&self, text: &[u8], cx: &SourceCx<'_>) -> BatchBuilder {
        let mut builder = BatchBuilder::default();
        if !self.skipping && text.len() <= self.line_max {
            builder.row(text, 0);
        } else if !self.skipping {
            let cuts = builder.long_row(text, 0, self.line_max, self.long);
            self.long.count(cx.counters, cuts);
        }
        builder
    }

    fn finish(&mut self, block: Bytes, mut builder: BatchBuilder, cx: &SourceCx<'_>) -> Batch {
        self.large = false;
        let bytes = block.len();
        let range = self.offset..self.offset + bytes as u64;
        let ack = cx.ledger.issue(self.origin.id, range, cx.sinks, 0, cx.now.since_start);
        builder.segment(self.origin.clone(), self.offset, ack);
        let batch = builder.finish(block, cx.info.clone(), cx.sinks, cx.now.unix_ns);
        cx.counters.received(batch.rows() as u64, bytes as u64);
        cx.counters.sent(batch.rows() as u64, batch.text_bytes());
        self.consume(bytes);
        batch
    }
}

#[cfg(test)]
mod tests;
