//! Lines written by container runtimes. Each line has a timestamp and a stream; long lines are
//! split into parts.

use crate::group::Limits;
use crate::line::{ISOLATED, Line, Scratch};
use crate::record::{Fields, Record};
use crate::{Close, GROUP_ROWS_MAX, Stream, TIME_UNKNOWN, cri, docker};
use millstream_timestamps::{Format, Parser};
use std::sync::Arc;

/// A container log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cri,
    Docker,
}

/// Number of stream indexes: standard output, standard error, and lines without a stream.
const STREAMS: usize = ISOLATED as usize;
const NO_STREAM: usize = 2;

fn stream_of(index: usize) -> Option<Stream> {
    [Stream::Stdout, Stream::Stderr].get(index).copied()
}

/// Finds and parses the lines of one container log.
#[derive(Clone, Debug)]
pub struct Reader {
    kind: Kind,
    time: Parser,
}

/// Writes unwrapped lines to the output buffer.
struct Writer<'a> {
    raw: &'a [u8],
    out: &'a mut [u8],
    written: usize,
    scratch: &'a mut Scratch,
    kind: Kind,
    /// Whether each stream has a line whose last part is missing so far.
    open: [bool; STREAMS],
    /// Number of isolated groups so far, which makes their stream numbers unique.
    isolated: u32,
}

impl Kind {
    /// Returns the format of a file that begins with `head`, or `None` if it is not a container
    /// log.
    pub fn of(head: &[u8]) -> Option<Kind> {
        let end = memchr::memchr(b'\n', head);
        let line = &head[..end.unwrap_or(head.len())];
        // If the line is longer than `head`, `head` contains only a prefix of the line.
        let is_docker =
            || Kind::Docker.fields(line).is_some() || end.is_none() && docker::has_prefix(line);
        match Kind::Cri.fields(line) {
            Some(_) => Some(Kind::Cri),
            None => is_docker().then_some(Kind::Docker),
        }
    }

    fn fields(self, line: &[u8]) -> Option<Fields<'_>> {
        match self {
            Kind::Cri => cri::fields(line),
            Kind::Docker => docker::fields(line),
        }
    }
}

impl Reader {
    /// Creates a reader for files of this kind with timestamps in this format.
    pub fn new(kind: Kind, time: Arc<Format>) -> Reader {
        Reader { kind, time: Parser::new(time) }
    }

    /// Finds the lines of `raw` whose parts are all present, and writes their text, separated by
    /// `\n`, to `out`, which is as long as `raw`.
    pub fn lines(
        &mut self,
        raw: &[u8],
        out: &mut [u8],
        close: Close,
        lines_max: usize,
        limits: Limits,
        scratch: &mut Scratch,
    ) {
        let mut ends = std::mem::take(&mut scratch.ends);
        millstream_scan::newlines(raw, &mut ends);
        let kind = self.kind;
        let open = [false; STREAMS];
        let mut writer = Writer { raw, out, written: 0, scratch, kind, open, isolated: 0 };
        let mut offset = 0;
        for &newline in &ends {
            if writer.scratch.lines.len() >= lines_max {
                break;
            }
            let next = newline as usize + 1;
            writer.flush_if_full(offset, next, limits);
            self.record(&mut writer, offset, next - 1, next);
            offset = next;
        }
        if ends.last().is_none_or(|newline| *newline as usize + 1 == offset) {
            self.rest(&mut writer, offset, close, limits);
        }
        writer.scratch.records.clear();
        writer.scratch.ends = ends;
    }

    /// Handles an unfinished line after the last newline.
    fn rest(&mut self, writer: &mut Writer<'_>, offset: usize, close: Close, limits: Limits) {
        let bytes = writer.raw.len();
        writer.flush_if_full(offset, bytes, limits);
        if close == Close::All && offset < bytes {
            self.record(writer, offset, bytes, bytes);
            writer.flush(bytes, false);
        } else if close != Close::No {
            writer.flush(offset, false);
        }
    }

    #[inline]
    fn record(&mut self, writer: &mut Writer<'_>, offset: usize, end: usize, next: usize) {
        let line = &writer.raw[offset..end];
        let record = self.read(line, offset).unwrap_or(Record {
            text: (offset as u32, end as u32),
            offset: offset as u32,
            time_ns: TIME_UNKNOWN,
            stream: NO_STREAM,
            is_partial: false,
        });
        if writer.scratch.records.is_empty() && !record.is_partial {
            // The common case: a complete line with no partial line pending.
            let before = writer.scratch.lines.len();
            writer.line(&[record], next as u32, false);
            return writer.isolate(before);
        }
        writer.open[record.stream] = record.is_partial;
        writer.scratch.records.push(record);
        if writer.open == [false; STREAMS] {
            writer.flush(next, false);
        }
    }

    #[inline]
    fn read(&mut self, line: &[u8], offset: usize) -> Option<Record> {
        let fields = self.kind.fields(line)?;
        let stamp =
            self.time.parse(fields.time, i64::MIN).ok().filter(|s| s.len == fields.time.len())?;
        let start = offset + fields.start;
        Some(Record {
            text: (start as u32, (start + fields.text.len()) as u32),
            offset: offset as u32,
            time_ns: stamp.ns,
            stream: fields.stream,
            is_partial: fields.is_partial,
        })
    }
}

impl Writer<'_> {
    /// Flushes the pending records if a part that ends at `next` would exceed a limit.
    #[inline]
    fn flush_if_full(&mut self, offset: usize, next: usize, limits: Limits) {
        let Some(first) = self.scratch.records.first() else { return };
        let is_too_long = limits.is_exceeded_by(next - first.offset as usize);
        if is_too_long || self.scratch.records.len() == GROUP_ROWS_MAX {
            self.flush(offset, true);
        }
    }

    /// Writes the pending records as lines. All records are consumed together at `next`.
    fn flush(&mut self, next: usize, is_cut: bool) {
        let records = std::mem::take(&mut self.scratch.records);
        let before = self.scratch.lines.len();
        let mut is_continued = [false; STREAMS];
        for (index, record) in records.iter().enumerate() {
            if !std::mem::replace(&mut is_continued[record.stream], record.is_partial) {
                self.line(&records[index..], next as u32, is_cut);
            }
        }
        self.isolate(before);
        self.open = [false; STREAMS];
        self.scratch.records = records;
        self.scratch.records.clear();
    }

    /// Prevents lines from joining other lines: all lines from index `first` if several were
    /// flushed together, otherwise only a line without a stream.
    #[inline]
    fn isolate(&mut self, first: usize) {
        let lines = &mut self.scratch.lines[first..];
        let is_interleaved = lines.len() > 1;
        if !is_interleaved && lines.iter().all(|line| line.stream != NO_STREAM as u32) {
            return;
        }
        self.isolated += 1;
        for (index, line) in lines.iter_mut().enumerate() {
            line.stream += self.isolated * ISOLATED;
            line.interleaved = index > 0;
        }
    }

    /// Writes the first of `records` and its continuations from the same stream.
    #[inline]
    fn line(&mut self, records: &[Record], next: u32, is_cut: bool) {
        let first = &records[0];
        if !self.scratch.lines.is_empty() {
            self.out[self.written] = b'\n';
            self.written += 1;
        }
        let start = self.written;
        if first.stream == NO_STREAM {
            self.scratch.invalid.push(start as u32);
        }
        let mut is_complete = false;
        for part in records.iter().filter(|part| part.stream == first.stream) {
            self.text(part);
            is_complete = !part.is_partial;
            if is_complete {
                break;
            }
        }
        let has_carriage_return = is_complete && self.out[start..self.written].ends_with(b"\r");
        self.written -= usize::from(has_carriage_return);
        let (start, end) = (start as u32, self.written as u32);
        let (offset, time_ns, stream) = (first.offset, first.time_ns, first.stream as u32);
        let cut = is_cut && !is_complete;
        self.scratch.lines.push(Line {
            start,
            end,
            offset,
            next,
            time_ns,
            stream,
            interleaved: false,
            cut,
            source: stream_of(first.stream),
            is_partial: !is_complete,
        });
    }

    #[inline]
    fn text(&mut self, record: &Record) {
        let text = &self.raw[record.text.0 as usize..record.text.1 as usize];
        let dst = &mut self.out[self.written..];
        if self.kind == Kind::Docker && record.stream != NO_STREAM {
            self.written += docker::unescape(text, dst, self.written, &mut self.scratch.invalid);
        } else {
            dst[..text.len()].copy_from_slice(text);
            self.written += text.len();
        }
    }
}
