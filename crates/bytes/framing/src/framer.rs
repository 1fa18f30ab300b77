//! Application of the rules to one file.

use crate::container::{Kind, Reader};
use crate::encoding::{EXPANSION, TextDecoder};
use crate::group::{self, Span};
use crate::line::{self, Line, Scratch};
use crate::rule::Classifier;
use crate::spec::InputFormat;
use crate::streams;
use crate::{Close, EventBuffer, Framed, HEAD_BYTES, Input, Rules, Tally, TimeReader};
use std::sync::Arc;

/// Splits the bytes of one file into events. Apart from the format, which is detected from the
/// first bytes of the file, the state of a framer is only a cache: a new framer returns the same
/// events.
#[derive(Clone, Debug)]
pub struct Framer {
    rules: Arc<Rules>,
    reading: LineReader,
    /// The timestamp reader, for rules that match a timestamp.
    time: Option<TimeReader>,
}

/// How lines are found.
#[derive(Clone, Debug)]
enum LineReader {
    /// The format is not detected yet.
    Unknown,
    Plain,
    Encoded(TextDecoder),
    Container(Box<Reader>),
}

impl Framer {
    /// Creates a framer for one file.
    pub fn new(rules: Arc<Rules>) -> Framer {
        let reading = match rules.format {
            InputFormat::Plain => LineReader::Plain,
            InputFormat::Encoded(decoder) => LineReader::Encoded(decoder),
            InputFormat::Container(kind) => reader(kind, &rules),
            InputFormat::Utf16 | InputFormat::Auto => LineReader::Unknown,
        };
        let time = rules.time.clone();
        Framer { rules, reading, time }
    }

    /// Returns whether [`Framer::detect`] must be called before [`Framer::frame`].
    pub fn needs_head(&self) -> bool {
        matches!(self.reading, LineReader::Unknown)
    }

    /// Detects the format of the file from its head: the first line, or [`HEAD_BYTES`]. A shorter
    /// head is ignored unless `is_all` is true, which means that the file has no more bytes.
    pub fn detect(&mut self, head: &[u8], is_all: bool) {
        let is_enough = is_all || head.len() >= HEAD_BYTES || head.contains(&b'\n');
        if !self.needs_head() || !is_enough {
            return;
        }
        self.reading = match (self.rules.format, Kind::of(head)) {
            (InputFormat::Utf16, _) => LineReader::Encoded(TextDecoder::utf16(head)),
            (_, Some(kind)) => reader(kind, &self.rules),
            (_, None) => LineReader::Plain,
        };
    }

    /// Returns the length of the complete lines of `raw`, or `None` if there are no complete lines.
    /// `raw` must begin at an even file offset, because UTF-16 code units take two bytes.
    pub fn last_line_end(&self, raw: &[u8]) -> Option<usize> {
        match &self.reading {
            LineReader::Encoded(decoder) => decoder.last_line_end(raw),
            _ => millstream_scan::last_newline(raw).map(|at| at + 1),
        }
    }

    /// Returns whether the event text is written to `out`. Otherwise, it stays in the raw bytes.
    pub fn is_decoding(&self) -> bool {
        !matches!(self.reading, LineReader::Plain)
    }

    /// Returns whether an event can span several lines.
    pub fn joins_lines(&self) -> bool {
        self.rules.rule.is_some()
    }

    /// Returns whether to skip NUL bytes at the start of a line. In UTF-16, they are part of
    /// characters.
    pub fn skips_nuls(&self) -> bool {
        match &self.reading {
            LineReader::Encoded(decoder) => !decoder.is_utf16(),
            LineReader::Unknown => !matches!(self.rules.format, InputFormat::Utf16),
            LineReader::Plain | LineReader::Container(_) => true,
        }
    }

    /// Returns the expansion factor. If `out` is this many times as long as the raw bytes, plus 16
    /// bytes, every event fits. A shorter `out` fits fewer events.
    pub fn expansion(&self) -> usize {
        match (&self.reading, self.rules.format) {
            (LineReader::Encoded(_), _) | (LineReader::Unknown, InputFormat::Utf16) => EXPANSION,
            _ => 1,
        }
    }

    /// Finds the events of `input`. If the framer is decoding, their text is written to `out`.
    ///
    /// A call returns at least one event, so that the caller makes progress, in two cases: for more
    /// than `bytes_max` + 2 raw bytes that contain a complete line, given capacity for
    /// [`GROUP_ROWS_MAX`](crate::GROUP_ROWS_MAX) events and their text; and for any bytes with
    /// [`Close::All`]. It returns no events while [`Framer::needs_head`] is true.
    ///
    /// # Panics
    /// Panics if there are 4 GiB or more of raw bytes.
    pub fn frame(&mut self, input: Input<'_>, out: &mut [u8], found: &mut EventBuffer) -> Framed {
        assert!(u32::try_from(input.raw.len()).is_ok(), "less than 4 GiB");
        found.tally = Tally::default();
        found.events.clear();
        let mut scratch = std::mem::take(&mut found.scratch);
        scratch.clear();
        let Input { raw, close, .. } = input;
        let is_all = self.lines(input, out, &mut scratch);
        let ends = is_all && close != Close::No;
        let limits = self.rules.limits;
        let span = Span { limits, raw_bytes: raw.len(), rows_max: input.rows_max, ends };
        let used = self.events(&scratch.lines, raw, out, span, input.reference_ns, found);
        let written = match found.events.last() {
            Some(last) if self.is_decoding() => last.end as usize,
            _ => 0,
        };
        if !found.events.is_empty() {
            found.tally.broken =
                scratch.invalid.iter().filter(|at| **at as usize <= written).count() as u64;
        }
        found.scratch = scratch;
        Framed { used, written }
    }

    /// Finds the lines. Returns whether all of them fit into `out`.
    fn lines(&mut self, input: Input<'_>, out: &mut [u8], scratch: &mut Scratch) -> bool {
        let Input { raw, close, rows_max, .. } = input;
        // Without a rule each line is an event, so `rows_max` lines suffice.
        let lines_max = if self.rules.rule.is_some() { usize::MAX } else { rows_max };
        match &mut self.reading {
            LineReader::Unknown => true,
            LineReader::Plain => {
                line::plain(raw, close, lines_max, scratch);
                true
            }
            LineReader::Encoded(decoder) => !decoder.lines(raw, out, close, lines_max, scratch),
            LineReader::Container(reader) => {
                let is_all = raw.len() <= out.len();
                let (raw, close) =
                    if is_all { (raw, close) } else { (&raw[..out.len()], Close::No) };
                reader.lines(raw, out, close, lines_max, self.rules.limits, scratch);
                is_all
            }
        }
    }

    /// Groups the lines into events. Returns the number of raw bytes consumed.
    fn events(
        &mut self,
        lines: &[Line],
        raw: &[u8],
        out: &mut [u8],
        span: Span,
        reference_ns: i64,
        found: &mut EventBuffer,
    ) -> usize {
        let Some(rule) = &self.rules.rule else {
            return group::single(lines, span.rows_max, found);
        };
        let classifier = Classifier { rule, time: self.time.as_mut(), reference_ns };
        let text: &[u8] = match self.reading {
            LineReader::Container(_) => {
                return streams::group(lines, out, span, classifier, found);
            }
            LineReader::Encoded(_) => out,
            LineReader::Plain | LineReader::Unknown => raw,
        };
        group::group(lines, text, span, classifier, found)
    }

    /// Returns the length of the first line of `raw`, including its line ending; `None` if there is
    /// no complete line.
    pub fn line_end(&self, raw: &[u8]) -> Option<usize> {
        match &self.reading {
            LineReader::Encoded(decoder) => decoder.line_end(raw),
            _ => memchr::memchr(b'\n', raw).map(|at| at + 1),
        }
    }

    /// Decodes into `out` a prefix of a line that is too long to frame. Returns the number of bytes
    /// read and written. Valid characters are not split, and at least one character is read, if
    /// `out` has at least 16 bytes. A container log line is copied unchanged.
    pub fn decode_chunk(&self, raw: &[u8], out: &mut [u8]) -> (usize, usize) {
        if let LineReader::Encoded(decoder) = &self.reading {
            return decoder.decode_chunk(raw, out);
        }
        let bytes = whole_characters_len(raw, out.len());
        out[..bytes].copy_from_slice(&raw[..bytes]);
        (bytes, bytes)
    }
}

fn reader(kind: Kind, rules: &Rules) -> LineReader {
    LineReader::Container(Box::new(Reader::new(kind, rules.container_time.clone())))
}

/// Returns the length of the longest prefix of `text` that is at most `max` bytes long and does not
/// split a UTF-8 character.
fn whole_characters_len(text: &[u8], max: usize) -> usize {
    let max = max.min(text.len());
    let is_within = |at: usize| text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (max.saturating_sub(3)..=max).rev().find(|at| *at > 0 && !is_within(*at)).unwrap_or(max)
}
