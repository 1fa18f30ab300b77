//! What container runtimes write: each line says when it was written and to which stream, and long
//! ones come in parts.

use crate::group::Limits;
use crate::line::{APART, Line, Scratch};
use crate::{Close, GROUP_ROWS_MAX, TIME_UNKNOWN, cri, docker};
use millstream_timestamps::{Format, Parser};
use std::sync::Arc;

/// A format of container logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cri,
    Docker,
}

/// Standard output, standard error, and what is neither.
const STREAMS: usize = APART as usize;
const NO_STREAM: usize = 2;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    /// When it was written, as text.
    pub time: &'a [u8],
    /// 0 for standard output, 1 for standard error.
    pub stream: usize,
    /// Whether the text goes on in the stream's next line.
    pub is_partial: bool,
    /// The text.
    pub text: &'a [u8],
    /// Where in the line the text begins.
    pub start: usize,
}

/// One line of a file.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its text in the raw bytes.
    text: (u32, u32),
    offset: u32,
    time_ns: i64,
    stream: usize,
    is_partial: bool,
}

/// The number of `stream`, as the runtimes write it.
pub fn stream(name: &[u8]) -> Option<usize> {
    match name {
        b"stdout" => Some(0),
        b"stderr" => Some(1),
        _ => None,
    }
}

/// Reads the lines of one file.
#[derive(Clone, Debug)]
pub struct Reader {
    kind: Kind,
    time: Parser,
}

/// Where the lines go.
struct Writer<'a> {
    raw: &'a [u8],
    out: &'a mut [u8],
    written: usize,
    scratch: &'a mut Scratch,
    kind: Kind,
    /// The streams whose text goes on.
    open: [bool; STREAMS],
    /// Counts what is joined with nothing else.
    apart: u32,
}

impl Kind {
    /// The format of a file that begins with `head`; `None` if it is no container's.
    pub fn of(head: &[u8]) -> Option<Kind> {
        let end = memchr::memchr(b'\n', head);
        let line = &head[..end.unwrap_or(head.len())];
        // Of a longer line there is only the beginning.
        let is_docker =
            || Kind::Docker.fields(line).is_some() || end.is_none() && docker::begins(line);
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
    /// A reader of files of this kind, whose times are in this format.
    pub fn new(kind: Kind, time: Arc<Format>) -> Reader {
        Reader { kind, time: Parser::new(time) }
    }

    /// The lines of `raw` that are whole with all their parts, their texts in `out` with `\n`
    /// between them. `out` is as long as `raw`.
    pub fn lines(
        &mut self,
        raw: &[u8],
        out: &mut [u8],
        close: Close,
        (lines_max, limits): (usize, Limits),
        scratch: &mut Scratch,
    ) {
        let mut ends = std::mem::take(&mut scratch.ends);
        millstream_scan::newlines(raw, &mut ends);
        let (kind, open) = (self.kind, [false; STREAMS]);
        let mut writer = Writer { raw, out, written: 0, scratch, kind, open, apart: 0 };
        let mut offset = 0;
        for &newline in &ends {
            if writer.scratch.lines.len() >= lines_max {
                break;
            }
            let next = newline as usize + 1;
            writer.make_room(offset, next, limits);
            self.record(&mut writer, (offset, next - 1), next);
            offset = next;
        }
        if ends.last().is_none_or(|newline| *newline as usize + 1 == offset) {
            self.rest(&mut writer, offset, close, limits);
        }
        writer.scratch.records.clear();
        writer.scratch.ends = ends;
    }

    /// What is behind the last line end.
    fn rest(&mut self, writer: &mut Writer<'_>, offset: usize, close: Close, limits: Limits) {
        let bytes = writer.raw.len();
        writer.make_room(offset, bytes, limits);
        if close == Close::All && offset < bytes {
            self.record(writer, (offset, bytes), bytes);
            writer.flush(bytes, false);
        } else if close != Close::No {
            writer.flush(offset, false);
        }
    }

    #[inline]
    fn record(&mut self, writer: &mut Writer<'_>, (offset, end): (usize, usize), next: usize) {
        let line = &writer.raw[offset..end];
        let record = self.read(line, offset).unwrap_or(Record {
            text: (offset as u32, end as u32),
            offset: offset as u32,
            time_ns: TIME_UNKNOWN,
            stream: NO_STREAM,
            is_partial: false,
        });
        if writer.scratch.records.is_empty() && !record.is_partial {
            // Most lines are whole and alone.
            let before = writer.scratch.lines.len();
            writer.line(&[record], next as u32, false);
            return writer.set_apart(before);
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
    /// Ends the texts that wait for their next part, if one up to `next` would be too much.
    #[inline]
    fn make_room(&mut self, offset: usize, next: usize, limits: Limits) {
        let Some(first) = self.scratch.records.first() else { return };
        let is_too_long = limits.exceeded_by(next - first.offset as usize);
        if is_too_long || self.scratch.records.len() == GROUP_ROWS_MAX {
            self.flush(offset, true);
        }
    }

    /// Writes the records that wait as lines, which are used up together at `next`.
    fn flush(&mut self, next: usize, is_cut: bool) {
        let records = std::mem::take(&mut self.scratch.records);
        let before = self.scratch.lines.len();
        let mut within = [false; STREAMS];
        for (index, record) in records.iter().enumerate() {
            if !std::mem::replace(&mut within[record.stream], record.is_partial) {
                self.line(&records[index..], next as u32, is_cut);
            }
        }
        self.set_apart(before);
        self.open = [false; STREAMS];
        self.scratch.records = records;
        self.scratch.records.clear();
    }

    /// Lines from `first` on that lie among each other, and those of no stream, are joined with no
    /// others.
    #[inline]
    fn set_apart(&mut self, first: usize) {
        let lines = &mut self.scratch.lines[first..];
        let is_mixed = lines.len() > 1;
        if !is_mixed && lines.iter().all(|line| line.stream != NO_STREAM as u32) {
            return;
        }
        self.apart += 1;
        for (index, line) in lines.iter_mut().enumerate() {
            line.stream += self.apart * APART;
            line.glued = index > 0;
        }
    }

    /// Writes the first of `records`, and what its stream adds to it.
    #[inline]
    fn line(&mut self, records: &[Record], next: u32, is_cut: bool) {
        let first = &records[0];
        if !self.scratch.lines.is_empty() {
            self.out[self.written] = b'\n';
            self.written += 1;
        }
        let start = self.written;
        if first.stream == NO_STREAM {
            self.scratch.faults.push(start as u32);
        }
        let mut is_whole = false;
        for part in records.iter().filter(|part| part.stream == first.stream) {
            self.text(part);
            is_whole = !part.is_partial;
            if is_whole {
                break;
            }
        }
        let has_return = is_whole && self.out[start..self.written].ends_with(b"\r");
        self.written -= usize::from(has_return);
        let (start, end) = (start as u32, self.written as u32);
        let (offset, time_ns, stream) = (first.offset, first.time_ns, first.stream as u32);
        let cut = is_cut && !is_whole;
        self.scratch.lines.push(Line {
            start,
            end,
            offset,
            next,
            time_ns,
            stream,
            glued: false,
            cut,
        });
    }

    #[inline]
    fn text(&mut self, record: &Record) {
        let text = &self.raw[record.text.0 as usize..record.text.1 as usize];
        let room = &mut self.out[self.written..];
        if self.kind == Kind::Docker && record.stream != NO_STREAM {
            self.written += docker::unescape(text, room, self.written, &mut self.scratch.faults);
        } else {
            room[..text.len()].copy_from_slice(text);
            self.written += text.len();
        }
    }
}
