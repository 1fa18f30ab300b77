//! Reading events that are not single lines: multi-line events, encodings, container formats.
//!
//! A cursor is always at the start of an event. An incomplete event is reread from its start until
//! it is complete, or until its file has not grown for the timeout.

use super::line_ends::normalize;
use super::lines::{is_suspect, is_whole_range};
use super::nuls::{before_nuls, leading_nuls};
use super::{Buffers, Fill, Read, Request, Tail};
use crate::file_framer::{FileFramer, OUT_MARGIN, Portion, ReadOrigin, count, together};
use millstream_framing::{Event, Framed, GROUP_ROWS_MAX, HEAD_BYTES, Input};
use millstream_model::TIME_UNKNOWN;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

impl Tail {
    /// Reads events at the cursor. Returns `None` if the first line is too long for a block.
    pub(super) fn read_framed(
        &mut self,
        framer: &mut FileFramer,
        request: Request<'_>,
        fill: &mut Fill,
        buffers: &mut Buffers,
    ) -> io::Result<Option<Read>> {
        if BATCH_ROWS_MAX - fill.builder.rows() < GROUP_ROWS_MAX {
            return Ok(Some(Read::Full));
        }
        self.detect_format(framer, request)?;
        let begin = fill.used;
        let portion = self.read_portion(framer, request, fill, buffers)?;
        let portion = match self.pass_nuls_of(framer, request, fill, buffers, portion)? {
            ControlFlow::Continue(portion) => portion,
            ControlFlow::Break(read) => return Ok(Some(read)),
        };
        if portion.bytes == 0 {
            framer.end();
            return Ok(Some(Read::Nothing));
        }
        let framed = find(framer, request, fill, buffers, portion);
        let whole = framed.used;
        let used = self.add_admitted(framer, request, fill, buffers, portion, framed)?;
        let Some(used) = used else { return Ok(Some(Read::Full)) };
        let raw = &raw_of(framer, fill, buffers, begin, portion.bytes)[used..];
        self.content()?.unread_last(raw);
        if used < portion.bytes {
            self.note_end(portion.position + portion.bytes as u64, request.cx);
        }
        if used == 0 {
            let is_long = framer.begins_long(raw, request.limits.line_max);
            return Ok(
                (!is_long).then(|| self.incomplete_event(framer, request, fill, buffers, portion))
            );
        }
        if used == portion.bytes {
            framer.end();
        }
        self.block_bytes = BLOCK_BYTES;
        let is_end = used == whole && portion.bytes < portion.wanted && !request.finish;
        Ok(Some(if is_end { Read::End } else { Read::More }))
    }

    /// Skips NUL bytes at the cursor, or returns the bytes before a line that begins with NUL
    /// bytes.
    fn pass_nuls_of(
        &mut self,
        framer: &mut FileFramer,
        request: Request<'_>,
        fill: &mut Fill,
        buffers: &Buffers,
        portion: Portion,
    ) -> io::Result<ControlFlow<Read, Portion>> {
        if !framer.skips_nuls() {
            return Ok(ControlFlow::Continue(portion));
        }
        let raw = raw_of(framer, fill, buffers, fill.used, portion.bytes);
        let nuls = leading_nuls(raw);
        if nuls > 0 && self.starts_line(request.position()) {
            self.content()?.unread_last(&raw[nuls..]);
            framer.end();
            let read = self.skip_nuls(request, fill, nuls, portion.bytes)?;
            return Ok(ControlFlow::Break(read));
        }
        let is_final = portion.is_all || portion.bytes == portion.wanted;
        let Some(end) = before_nuls(raw, is_final) else {
            return Ok(ControlFlow::Continue(portion));
        };
        self.note_end(portion.position + portion.bytes as u64, request.cx);
        self.content()?.unread_last(&raw[end..]);
        Ok(ControlFlow::Continue(portion.cut(end)))
    }

    /// Passes the file's head to a framer that detects the container format. If the file begins
    /// with a hole, passes the bytes at the cursor instead.
    fn detect_format(&mut self, framer: &mut FileFramer, request: Request<'_>) -> io::Result<()> {
        if !framer.needs_head() {
            return Ok(());
        }
        let mut head = [0; HEAD_BYTES];
        let mut n = self.content()?.read_all_at(&mut head, 0)?;
        let begins_with_nul = |head: &[u8]| framer.skips_nuls() && head.first() == Some(&0);
        if begins_with_nul(&head[..n]) {
            n = self.content()?.read_all_at(&mut head, request.position())?;
        }
        if !begins_with_nul(&head[..n]) {
            framer.detect(&head[..n], request.finish);
        }
        Ok(())
    }

    /// Reads raw bytes into the block, or into a buffer if they must be decoded.
    fn read_portion(
        &mut self,
        framer: &FileFramer,
        request: Request<'_>,
        fill: &mut Fill,
        buffers: &mut Buffers,
    ) -> io::Result<Portion> {
        let begin = fill.used;
        let decoding = framer.is_decoding();
        let mut capacity = fill.space_left();
        if decoding {
            capacity = capacity.saturating_sub(OUT_MARGIN) / framer.expansion();
        }
        let requested = capacity.min(request.left());
        let into = if decoding {
            buffers.raw.resize(requested.max(buffers.raw.len()), 0);
            &mut buffers.raw[..requested]
        } else {
            &mut fill.block.memory()[begin..begin + requested]
        };
        let bytes = self.content()?.read_at(into, request.position())?;
        let is_all =
            bytes == request.left() || self.ends_at(request.position() + bytes as u64, request)?;
        Ok(Portion { position: request.position(), bytes, wanted: requested, is_all })
    }

    /// Adds the events up to the next header; returns the number of file bytes they use. Returns
    /// `None` if the header of the events differs from the header of the block.
    fn add_admitted(
        &mut self,
        framer: &FileFramer,
        request: Request<'_>,
        fill: &mut Fill,
        buffers: &mut Buffers,
        portion: Portion,
        mut framed: Framed,
    ) -> io::Result<Option<usize>> {
        if self.header.is_none() {
            return Ok(Some(self.add_events(framer, request, fill, buffers, framed)));
        }
        let found = self.split_events(framer, request, fill, buffers, portion, &mut framed);
        if !self.admit_with(request, fill, found.as_ref()) {
            let raw = raw_of(framer, fill, buffers, fill.used, portion.bytes);
            self.content()?.unread_last(raw);
            return Ok(None);
        }
        let rows_before = fill.builder.rows();
        let used = self.add_events(framer, request, fill, buffers, framed);
        self.note_lines(request, fill, rows_before, found, used as u64);
        Ok(Some(used))
    }

    /// Adds the events to the batch; returns the number of file bytes they use.
    fn add_events(
        &mut self,
        framer: &FileFramer,
        request: Request<'_>,
        fill: &mut Fill,
        buffers: &mut Buffers,
        framed: Framed,
    ) -> usize {
        let mut count = buffers.found.events.len();
        let mut used = framed.used;
        if is_suspect(request.choice) && used > 0 {
            let first = together(&buffers.found.events, 1);
            if is_whole_range(request.choice, first.bytes) {
                self.reject(request, first.bytes as u64);
                return first.bytes;
            }
            let half = together(&buffers.found.events, (count / 2).max(1));
            count = half.events;
            used = half.bytes;
        }
        if used == 0 {
            return 0;
        }
        let begin = fill.used;
        let decoding = framer.is_decoding();
        let block_bytes = if decoding { framed.written } else { used };
        let raw =
            if decoding { &buffers.raw[..used] } else { &fill.block.filled(begin + used)[begin..] };
        self.record_read(raw, request.position() + used as u64);
        let events = &mut buffers.found.events[..count];
        if framer.joins_lines() {
            normalize(&mut fill.block.memory()[begin..begin + block_bytes], events);
        }
        self.add_rows(framer, request, fill, events, &mut buffers.times);
        self.record_times(request, buffers, used);
        self.segment(request, fill, used as u64, block_bytes);
        used
    }

    /// Adds the rows of events to the batch, and their times to `times`.
    fn add_rows(
        &self,
        framer: &FileFramer,
        request: Request<'_>,
        fill: &mut Fill,
        events: &[Event],
        times: &mut Vec<i64>,
    ) {
        let begin = fill.used;
        times.clear();
        for event in events {
            let part = fill.block.filled(begin + event.end as usize);
            let before = fill.builder.rows();
            let origin = ReadOrigin { block: begin, file: request.position() };
            let cuts = framer.add(*event, part, origin, request.limits, &mut fill.builder);
            self.count_long(request, cuts);
            fill.metadata.set(event, before, fill.builder.rows());
            times.resize(fill.builder.rows(), event.time_ns);
        }
    }

    /// Records event timestamps, and counts lines that do not match the rules.
    fn record_times(&self, request: Request<'_>, buffers: &Buffers, used: usize) {
        let tally = buffers.found.tally;
        let state = &self.origin.state;
        state.misfits.fetch_add(tally.misfits, Relaxed);
        count(tally, request.cx.counters);
        if buffers.times.iter().any(|time| *time != TIME_UNKNOWN) {
            state
                .record_times(request.position()..request.position() + used as u64, &buffers.times);
        }
    }

    /// Handles a read without a complete event.
    fn incomplete_event(
        &mut self,
        framer: &FileFramer,
        request: Request<'_>,
        fill: &Fill,
        buffers: &Buffers,
        portion: Portion,
    ) -> Read {
        if portion.bytes < portion.wanted {
            let raw = raw_of(framer, fill, buffers, fill.used, portion.bytes);
            if !raw[raw.len().saturating_sub(2)..].contains(&b'\n') {
                self.note_unfinished(request, raw, portion.position + portion.bytes as u64);
            }
            return if request.finish { Read::More } else { Read::End };
        }
        if fill.used == 0 {
            // Container formats add overhead to each line, so the block grows until the event fits.
            let bytes = framer.block_bytes(request.limits.line_max);
            self.block_bytes = bytes.max(fill.block.capacity() * 2);
        }
        Read::Full
    }
}

/// Returns the `bytes` bytes that were read, which are at `begin` in the block unless they are
/// decoded.
fn raw_of<'a>(
    framer: &FileFramer,
    fill: &'a Fill,
    buffers: &'a Buffers,
    begin: usize,
    bytes: usize,
) -> &'a [u8] {
    if framer.is_decoding() {
        &buffers.raw[..bytes]
    } else {
        &fill.block.filled(begin + bytes)[begin..]
    }
}

fn find(
    framer: &mut FileFramer,
    request: Request<'_>,
    fill: &mut Fill,
    buffers: &mut Buffers,
    portion: Portion,
) -> Framed {
    let begin = fill.used;
    let rows_max = BATCH_ROWS_MAX - fill.builder.rows();
    let reference_ns = request.cx.now.unix_ns;
    let now = request.cx.now.since_start;
    buffers.found.events.clear();
    buffers.found.tally = Default::default();
    if framer.is_decoding() {
        let raw = &buffers.raw[..portion.bytes];
        let close = framer.close(portion, raw, now);
        let input = Input { raw, close, rows_max, reference_ns };
        framer.frame(input, &mut fill.block.memory()[begin..], &mut buffers.found)
    } else {
        let raw = &fill.block.filled(begin + portion.bytes)[begin..];
        let close = framer.close(portion, raw, now);
        framer.frame(Input { raw, close, rows_max, reference_ns }, &mut [], &mut buffers.found)
    }
}
