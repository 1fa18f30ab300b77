//! The rules, applied to one file.

use crate::container::{Kind, Reader};
use crate::encoding::{Coding, EXPANSION};
use crate::group::{self, Lines};
use crate::line::{self, Scratch};
use crate::rule::Judge;
use crate::spec::Form;
use crate::{Close, Found, Framed, HEAD_BYTES, Input, Rules, Tally, TimeReader};
use std::sync::Arc;

/// Makes events of the bytes of one file. What it remembers only makes it faster, but for what the
/// file's head says: after that, another framer gives the same.
#[derive(Clone, Debug)]
pub struct Framer {
    rules: Arc<Rules>,
    reading: Reading,
    /// For rules by time.
    time: Option<TimeReader>,
}

/// How lines are found.
#[derive(Clone, Debug)]
enum Reading {
    /// As the head of the file will say.
    Unknown,
    Plain,
    Coded(Coding),
    Container(Box<Reader>),
}

impl Framer {
    /// A framer for one file.
    pub fn new(rules: Arc<Rules>) -> Framer {
        let reading = match rules.form {
            Form::Plain => Reading::Plain,
            Form::Coded(coding) => Reading::Coded(coding),
            Form::Container(kind) => reader(kind, &rules),
            Form::Utf16 | Form::Auto => Reading::Unknown,
        };
        let time = rules.time.clone();
        Framer { rules, reading, time }
    }

    /// Whether [`Framer::see_head`] has to be called before anything is framed.
    pub fn needs_head(&self) -> bool {
        matches!(self.reading, Reading::Unknown)
    }

    /// Decides by the beginning of the file what it holds: its first line, or [`HEAD_BYTES`]. Less
    /// decides nothing, unless `is_all` says that there is no more.
    pub fn see_head(&mut self, head: &[u8], is_all: bool) {
        let is_enough = is_all || head.len() >= HEAD_BYTES || head.contains(&b'\n');
        if !self.needs_head() || !is_enough {
            return;
        }
        self.reading = match (self.rules.form, Kind::of(head)) {
            (Form::Utf16, _) => Reading::Coded(Coding::utf16(head)),
            (_, Some(kind)) => reader(kind, &self.rules),
            (_, None) => Reading::Plain,
        };
    }

    /// Whether texts are in `out`, not in the raw bytes.
    pub fn is_decoding(&self) -> bool {
        !matches!(self.reading, Reading::Plain)
    }

    /// With `out` as many times as long as the raw bytes, and 16 bytes, everything finds room in
    /// it. In a shorter one fewer events do.
    pub fn expansion(&self) -> usize {
        match (&self.reading, self.rules.form) {
            (Reading::Coded(_), _) | (Reading::Unknown, Form::Utf16) => EXPANSION,
            _ => 1,
        }
    }

    /// Finds the events of `input`, and writes their texts to `out` if it is decoding.
    ///
    /// It always gets on: more than `bytes_max` + 2 raw bytes, with one whole line among them, room
    /// for [`GROUP_ROWS_MAX`](crate::GROUP_ROWS_MAX) events and for their texts give an event at
    /// least. So do any bytes with [`Close::All`]. Without its head, a file that needs one gives
    /// nothing.
    ///
    /// # Panics
    /// If the raw bytes are 4 GiB or more.
    pub fn frame(&mut self, input: Input<'_>, out: &mut [u8], found: &mut Found) -> Framed {
        assert!(u32::try_from(input.raw.len()).is_ok(), "less than 4 GiB");
        found.tally = Tally::default();
        found.events.clear();
        let mut scratch = std::mem::take(&mut found.scratch);
        scratch.clear();
        let Input { raw, close, .. } = input;
        let is_all = self.lines(input, out, &mut scratch);
        let text: &[u8] = if self.is_decoding() { out } else { raw };
        let ends = is_all && close != Close::No;
        let lines = Lines { text, raw_bytes: raw.len(), rows_max: input.rows_max, ends };
        let used = self.events(&scratch, &lines, input.reference_ns, found);
        let written = match found.events.last() {
            Some(last) if self.is_decoding() => last.end as usize,
            _ => 0,
        };
        if !found.events.is_empty() {
            found.tally.broken =
                scratch.faults.iter().filter(|at| **at as usize <= written).count() as u64;
        }
        found.scratch = scratch;
        Framed { used, written }
    }

    /// Finds the lines; whether there was room for all.
    fn lines(&mut self, input: Input<'_>, out: &mut [u8], scratch: &mut Scratch) -> bool {
        let Input { raw, close, rows_max, .. } = input;
        // Without a rule, no more lines are needed than there may be events.
        let lines_max = if self.rules.rule.is_some() { usize::MAX } else { rows_max };
        match &mut self.reading {
            Reading::Unknown => true,
            Reading::Plain => {
                line::plain(raw, close, lines_max, scratch);
                true
            }
            Reading::Coded(coding) => !coding.lines(raw, out, close, lines_max, scratch),
            Reading::Container(reader) => {
                let is_all = raw.len() <= out.len();
                let (raw, close) =
                    if is_all { (raw, close) } else { (&raw[..out.len()], Close::No) };
                reader.lines(raw, out, close, (lines_max, self.rules.limits), scratch);
                is_all
            }
        }
    }

    fn events(
        &mut self,
        scratch: &Scratch,
        of: &Lines<'_>,
        reference_ns: i64,
        found: &mut Found,
    ) -> usize {
        match &self.rules.rule {
            Some(rule) => {
                let judge = Judge { rule, time: self.time.as_mut(), reference_ns };
                group::group(&scratch.lines, of, judge, self.rules.limits, found)
            }
            None => group::single(&scratch.lines, of.rows_max, found),
        }
    }

    /// Bytes up to the first line end of `raw`, with it.
    pub fn line_end(&self, raw: &[u8]) -> Option<usize> {
        match &self.reading {
            Reading::Coded(coding) => coding.line_end(raw),
            _ => memchr::memchr(b'\n', raw).map(|at| at + 1),
        }
    }

    /// Decodes the beginning of a line that is too long to frame into `out`; the raw bytes used and
    /// the bytes written. No character is torn, and at least one is used where `out` has room for
    /// 16 bytes. A container's line goes through as it stands.
    pub fn piece(&self, raw: &[u8], out: &mut [u8]) -> (usize, usize) {
        if let Reading::Coded(coding) = &self.reading {
            return coding.piece(raw, out);
        }
        let bytes = whole_characters(raw, out.len());
        out[..bytes].copy_from_slice(&raw[..bytes]);
        (bytes, bytes)
    }
}

fn reader(kind: Kind, rules: &Rules) -> Reading {
    Reading::Container(Box::new(Reader::new(kind, rules.container_time.clone())))
}

/// The most bytes up to `max` at the beginning of `text` that do not end within a character of
/// UTF-8.
fn whole_characters(text: &[u8], max: usize) -> usize {
    let max = max.min(text.len());
    let is_within = |at: usize| text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (max.saturating_sub(3)..=max).rev().find(|at| *at > 0 && !is_within(*at)).unwrap_or(max)
}
