//! Groups the lines of two streams that share a file, such as a container's standard output and
//! standard error.
//!
//! Lines of one stream are joined even if lines of the other stream are between them. The file can
//! be split only where no event is open. Overlapping events therefore form a block, which is
//! returned as a whole, in the order of the events' first lines. The lines of each event are moved
//! next to each other.

use crate::group::{Limits, Span};
use crate::line::{ISOLATED, Line};
use crate::rule::{Classifier, State, Verdict};
use crate::{Event, EventBuffer, GROUP_ROWS_MAX, TIME_UNKNOWN, Tally};

/// Number of streams whose lines are joined.
const STREAMS: usize = 2;

/// Silence after which an open event ends, in nanoseconds: the other stream has a line that is
/// later than the event's last line by more than this.
const SILENCE_NS: i64 = 1_000_000_000;

/// Limits for large blocks. If a block has more lines than the first number, a single-line event
/// ends as soon as the other stream has a line that is later by more than the second number of
/// nanoseconds. Such an event is probably complete, and it keeps the block open.
const PAUSES: [(usize, i64); 3] = [(640, 5_000_000), (256, 50_000_000), (0, SILENCE_NS)];

/// Buffers for blocks, which the next call reuses.
#[derive(Debug, Default)]
pub struct Buffers {
    events: Vec<Joined>,
    /// For each line of the block, the index of its event.
    owners: Vec<u32>,
    /// The indexes of the lines within the block, ordered by event.
    order: Vec<u32>,
    /// The text of the block before its lines are moved.
    text: Vec<u8>,
}

/// An event of a block.
#[derive(Debug)]
struct Joined {
    event: Event,
    lines: usize,
    text_bytes: usize,
    state: State,
    /// Timestamp of the event's last line.
    latest_ns: i64,
}

impl Joined {
    fn new(line: &Line, verdict: Verdict) -> Joined {
        let latest_ns = line.time_ns;
        let time_ns = if verdict.time_ns == TIME_UNKNOWN { latest_ns } else { verdict.time_ns };
        let event = Event { time_ns, ..line.event() };
        let text_bytes = (line.end - line.start) as usize;
        Joined { event, lines: 1, text_bytes, state: verdict.state, latest_ns }
    }

    /// Returns whether a line fits into the event. A truncated line does not fit.
    fn fits(&self, line: &Line, limits: Limits) -> bool {
        let text_bytes = self.text_bytes + 1 + (line.end - line.start) as usize;
        !line.cut
            && self.lines < limits.lines
            && text_bytes <= limits.bytes
            && !limits.is_exceeded_by((line.next - self.event.offset) as usize)
    }

    fn join(&mut self, line: &Line, verdict: Verdict) {
        self.event.end = line.end;
        self.lines += 1;
        self.text_bytes += 1 + (line.end - line.start) as usize;
        self.state = verdict.state;
        self.latest_ns = line.time_ns;
    }

    /// Returns whether a line is later than the event's last line by more than `time_ns`.
    fn is_older(&self, line: &Line, time_ns: i64) -> bool {
        self.latest_ns != TIME_UNKNOWN
            && line.time_ns != TIME_UNKNOWN
            && line.time_ns.saturating_sub(self.latest_ns) > time_ns
    }
}

/// Joins the lines of each stream into events. Reorders the lines in `text` so that the lines of
/// each event are next to each other. Returns the number of raw bytes consumed.
#[inline(never)]
pub fn group(
    lines: &[Line],
    text: &mut [u8],
    span: Span,
    classifier: Classifier<'_>,
    found: &mut EventBuffer,
) -> usize {
    let buffers = std::mem::take(&mut found.buffers);
    let (open, first, used, pending) = ([None; STREAMS], 0, 0, Tally::default());
    let limits = span.limits;
    let mut streams =
        Streams { lines, text, classifier, limits, found, buffers, open, first, used, pending };
    let is_all = (0..lines.len()).all(|index| {
        streams.line(index);
        streams.found.events.len() + streams.buffers.events.len() <= span.rows_max
    });
    if is_all {
        streams.end(span);
    }
    let Streams { found, mut buffers, used, .. } = streams;
    buffers.events.clear();
    buffers.owners.clear();
    found.buffers = buffers;
    used as usize
}

struct Streams<'a> {
    lines: &'a [Line],
    text: &'a mut [u8],
    classifier: Classifier<'a>,
    limits: Limits,
    found: &'a mut EventBuffer,
    buffers: Buffers,
    /// For each stream, the event of the block that the next line can join.
    open: [Option<usize>; STREAMS],
    /// Index of the first line in the block.
    first: usize,
    /// The number of raw bytes before the block.
    used: u32,
    /// Counts for the block.
    pending: Tally,
}

impl Streams<'_> {
    fn line(&mut self, index: usize) {
        let line = &self.lines[index];
        if !line.interleaved {
            self.end_due(line);
        }
        let text = &self.text[line.start as usize..line.end as usize];
        let mut start = None;
        match self.open.get_mut(line.stream as usize) {
            // Lines from a later call cannot join this line, so they cannot join earlier events
            // either.
            None => self.open = [None; STREAMS],
            Some(open) => {
                if let Some(number) = *open {
                    let joined = &mut self.buffers.events[number];
                    let verdict = self.classifier.join(joined.state, text);
                    if verdict.joins && joined.fits(line, self.limits) {
                        joined.join(line, verdict);
                        *open = (!verdict.is_last).then_some(number);
                        return self.buffers.owners.push(number as u32);
                    }
                    self.pending.cut += u64::from(verdict.joins);
                    start = (!verdict.joins).then_some(verdict);
                }
                *open = None;
            }
        }
        let verdict = start.unwrap_or_else(|| self.classifier.begin(text));
        self.begin(index, verdict);
    }

    /// Begins an event with a line. Ends the previous block if no event is open.
    fn begin(&mut self, index: usize, verdict: Verdict) {
        let line = &self.lines[index];
        if self.open == [None; STREAMS] && !line.interleaved {
            self.end_block(index);
        }
        self.pending.misfits += u64::from(!verdict.can_start);
        self.pending.cut += u64::from(line.cut);
        let number = self.buffers.events.len();
        self.buffers.events.push(Joined::new(line, verdict));
        self.buffers.owners.push(number as u32);
        if let Some(open) = self.open.get_mut(line.stream as usize) {
            *open = (!verdict.is_last).then_some(number);
        }
    }

    /// Ends the events that must end before a line, regardless of its contents.
    fn end_due(&mut self, line: &Line) {
        let Some(oldest) = self.buffers.events.first() else { return };
        let bytes = (line.next - oldest.event.offset) as usize;
        // A block with a single event ends where it would end without the other stream.
        let has_others = self.buffers.events.len() > 1;
        let is_full = self.buffers.events.len() == GROUP_ROWS_MAX;
        if is_full || has_others && self.limits.is_exceeded_by(bytes) {
            return self.cut();
        }
        let lines = self.buffers.owners.len();
        let pause = PAUSES.into_iter().find(|(more_than, _)| lines > *more_than);
        let pause = pause.map_or(SILENCE_NS, |(_, pause)| pause);
        for (stream, open) in self.open.iter_mut().enumerate() {
            let Some(number) = *open else { continue };
            let joined = &self.buffers.events[number];
            let pause = if joined.lines > 1 { SILENCE_NS } else { pause };
            if stream as u32 != line.stream
                && line.stream < ISOLATED
                && joined.is_older(line, pause)
            {
                *open = None;
            }
        }
    }

    /// Ends all open events because a limit is reached.
    fn cut(&mut self) {
        self.pending.cut += self.open.iter().flatten().count() as u64;
        self.open = [None; STREAMS];
    }

    /// Ends the block before the line at `index` and returns the block's events.
    fn end_block(&mut self, index: usize) {
        if self.buffers.events.is_empty() {
            return;
        }
        if !self.buffers.owners.is_sorted() {
            self.gather();
        }
        let used = self.lines[index - 1].next;
        let last = self.buffers.events.len() - 1;
        for (number, joined) in self.buffers.events.drain(..).enumerate() {
            let next = if number == last { used } else { self.used };
            self.found.events.push(Event { next, ..joined.event });
        }
        self.buffers.owners.clear();
        self.found.tally.misfits += self.pending.misfits;
        self.found.tally.cut += self.pending.cut;
        self.pending = Tally::default();
        (self.used, self.first) = (used, index);
    }

    /// Makes the lines of each event in the block adjacent.
    fn gather(&mut self) {
        let Buffers { events, owners, order, text } = &mut self.buffers;
        let lines = &self.lines[self.first..self.first + owners.len()];
        order.clear();
        order.extend(0..owners.len() as u32);
        order.sort_by_key(|line| owners[*line as usize]);
        let begin = lines[0].start;
        text.clear();
        text.extend_from_slice(&self.text[begin as usize..lines[lines.len() - 1].end as usize]);
        let (mut at, mut owner_before) = (begin, None);
        for index in &*order {
            let (line, owner) = (&lines[*index as usize], owners[*index as usize]);
            if owner_before.is_some() {
                self.text[at as usize] = b'\n';
                at += 1;
            }
            let event = &mut events[owner as usize].event;
            if owner_before != Some(owner) {
                event.start = at;
            }
            let source = &text[(line.start - begin) as usize..(line.end - begin) as usize];
            self.text[at as usize..][..source.len()].copy_from_slice(source);
            at += source.len() as u32;
            event.end = at;
            owner_before = Some(owner);
        }
    }

    /// Ends the last block if no other line can change it.
    fn end(&mut self, span: Span) {
        let Some(oldest) = self.buffers.events.first() else { return };
        // The next line exceeds the limit, regardless of its contents.
        let is_full = self.limits.is_exceeded_by(span.raw_bytes - oldest.event.offset as usize);
        if self.open != [None; STREAMS] {
            match (span.ends, is_full) {
                (true, _) => self.open = [None; STREAMS],
                (false, true) => self.cut(),
                (false, false) => return,
            }
        }
        self.end_block(self.lines.len());
    }
}
