//! Groups lines into events.

use crate::line::Line;
use crate::rule::{Classifier, State, Verdict};
use crate::{Event, EventBuffer, TIME_UNKNOWN, Tally};

/// Maximum size of a line ending in bytes. Line endings do not count toward the size limit of an
/// event.
const LINE_END_BYTES_MAX: usize = 2;

/// Size limits of one event.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of lines.
    pub lines: usize,
    /// Maximum number of bytes, both of the text and in the file.
    pub bytes: usize,
}

impl Limits {
    /// Returns whether `bytes` in the file, including line endings, exceed the limit of an event.
    #[inline]
    pub fn is_exceeded_by(self, bytes: usize) -> bool {
        bytes > self.bytes + LINE_END_BYTES_MAX
    }
}

/// Limits and extent of the events that one call returns.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub limits: Limits,
    /// Length of the raw bytes, including an unfinished last line.
    pub raw_bytes: usize,
    pub rows_max: usize,
    /// Whether to end the last event even if another line could join the event.
    pub ends: bool,
}

/// An event that another line can join.
struct Open {
    event: Event,
    lines: usize,
    state: State,
    /// Whether the event is complete, so that no other line can join.
    is_done: bool,
}

impl Open {
    fn new(line: &Line, verdict: Verdict) -> Open {
        let time_ns = if verdict.time_ns == TIME_UNKNOWN { line.time_ns } else { verdict.time_ns };
        let event = Event { time_ns, ..line.event() };
        Open { event, lines: 1, state: verdict.state, is_done: verdict.is_last }
    }

    /// Returns whether a line fits into the event. A truncated line does not fit: its bytes alone
    /// exceed the limit. An input that ends before the truncation also ends this event before the
    /// line, and the result must not depend on where the input ends.
    #[inline]
    fn fits(&self, line: &Line, limits: Limits) -> bool {
        let (text, bytes) = (line.end - self.event.start, line.next - self.event.offset);
        !line.cut
            && self.lines < limits.lines
            && text as usize <= limits.bytes
            && !limits.is_exceeded_by(bytes as usize)
    }

    #[inline]
    fn join(&mut self, line: &Line, verdict: Verdict) {
        (self.event.end, self.event.next) = (line.end, line.next);
        self.lines += 1;
        (self.state, self.is_done) = (verdict.state, verdict.is_last);
    }
}

/// The events so far. Only events up to the last boundary are returned. At a boundary, all raw
/// bytes so far belong to the events so far.
struct Events<'a> {
    found: &'a mut EventBuffer,
    /// The number of raw bytes consumed by the first `kept` events.
    used: u32,
    kept: usize,
    /// Counts since the last boundary.
    pending: Tally,
}

impl Events<'_> {
    /// Adds an event. With `is_boundary`, the raw bytes can be split after the event.
    #[inline]
    fn add(&mut self, event: Event, is_boundary: bool) {
        if is_boundary {
            self.used = event.next;
            self.kept = self.found.events.len() + 1;
            self.found.tally.misfits += self.pending.misfits;
            self.found.tally.cut += self.pending.cut;
            self.pending = Tally::default();
        }
        self.found.events.push(Event { next: self.used, ..event });
    }

    fn is_full(&self, rows_max: usize) -> bool {
        self.found.events.len() >= rows_max
    }

    fn finish(self) -> usize {
        self.found.events.truncate(self.kept);
        self.used as usize
    }
}

/// Turns every line into an event. Returns the number of raw bytes consumed.
pub fn single(lines: &[Line], rows_max: usize, found: &mut EventBuffer) -> usize {
    let lines_max = lines.len().min(rows_max);
    if lines.iter().all(|line| !line.interleaved && !line.cut) {
        found.events.extend(lines[..lines_max].iter().map(Line::event));
        return found.events.last().map_or(0, |event| event.next as usize);
    }
    let mut events = Events { found, used: 0, kept: 0, pending: Tally::default() };
    for (index, line) in lines.iter().enumerate().take(rows_max) {
        events.pending.cut += u64::from(line.cut);
        let is_boundary = lines.get(index + 1).is_none_or(|next| !next.interleaved);
        events.add(line.event(), is_boundary);
    }
    events.finish()
}

/// Joins lines of `text`, all from one stream, into events. Returns the number of raw bytes
/// consumed.
pub fn group(
    lines: &[Line],
    text: &[u8],
    span: Span,
    classifier: Classifier<'_>,
    found: &mut EventBuffer,
) -> usize {
    let events = Events { found, used: 0, kept: 0, pending: Tally::default() };
    let mut grouping = Grouping { classifier, limits: span.limits, events, open: None };
    for line in lines {
        grouping.line(line, &text[line.start as usize..line.end as usize]);
        if grouping.events.is_full(span.rows_max) {
            // The next call parses this line again as the start of an event.
            return grouping.events.finish();
        }
    }
    grouping.end(span);
    grouping.events.finish()
}

struct Grouping<'a> {
    classifier: Classifier<'a>,
    limits: Limits,
    events: Events<'a>,
    open: Option<Open>,
}

impl Grouping<'_> {
    #[inline]
    fn line(&mut self, line: &Line, text: &[u8]) {
        let mut start = None;
        if let Some(open) = &mut self.open {
            let mut is_cut = false;
            if !open.is_done {
                let verdict = self.classifier.join(open.state, text);
                is_cut = verdict.joins;
                if is_cut && open.fits(line, self.limits) {
                    self.events.pending.cut += u64::from(line.cut);
                    return open.join(line, verdict);
                }
                start = (!verdict.joins).then_some(verdict);
            }
            self.events.pending.cut += u64::from(is_cut);
            self.events.add(open.event, true);
        }
        let verdict = start.unwrap_or_else(|| self.classifier.begin(text));
        self.events.pending.misfits += u64::from(!verdict.can_start);
        self.events.pending.cut += u64::from(line.cut);
        self.open = Some(Open::new(line, verdict));
    }

    /// Ends the last event if no other line can join it.
    fn end(&mut self, span: Span) {
        let Some(open) = &self.open else { return };
        let is_complete = open.is_done || span.ends;
        // The next line exceeds the limit, regardless of its contents.
        let is_full = self.limits.is_exceeded_by(span.raw_bytes - open.event.offset as usize);
        if is_complete || is_full {
            self.events.pending.cut += u64::from(!is_complete);
            self.events.add(open.event, true);
        }
    }
}
