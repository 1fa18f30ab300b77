//! From lines to events.

use crate::line::{APART, Line};
use crate::rule::{Judge, Seen, State};
use crate::{Event, Found, TIME_UNKNOWN, Tally};

/// Bytes of a line end, which do not count for the limit of an event in the file.
const LINE_END_BYTES_MAX: usize = 2;

/// How much one event may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Lines.
    pub lines: usize,
    /// Bytes, as text and in the file.
    pub bytes: usize,
}

impl Limits {
    /// Whether something that takes `bytes` in the file, line ends included, is longer than an
    /// event may be.
    #[inline]
    pub fn exceeded_by(self, bytes: usize) -> bool {
        bytes > self.bytes + LINE_END_BYTES_MAX
    }
}

/// Where the lines come from, and how many events may be made of them.
pub struct Lines<'a> {
    /// What the lines are ranges of.
    pub text: &'a [u8],
    /// Bytes of the file there are, those of unfinished lines with them.
    pub raw_bytes: usize,
    pub rows_max: usize,
    /// Whether an event that may go on is ended.
    pub ends: bool,
}

/// An event that may go on.
struct Open {
    event: Event,
    lines: usize,
    state: State,
    stream: u32,
    /// Nothing more joins it.
    is_done: bool,
}

impl Open {
    fn new(line: &Line, seen: Seen) -> Open {
        let time_ns = if seen.time_ns == TIME_UNKNOWN { line.time_ns } else { seen.time_ns };
        let event = Event {
            start: line.start,
            end: line.end,
            offset: line.offset,
            next: line.next,
            time_ns,
        };
        Open { event, lines: 1, state: seen.state, stream: line.stream, is_done: seen.last }
    }

    /// Whether a line can join. One that was cut cannot: how far it goes was only seen when more
    /// bytes than an event may have were there, and with fewer of them this event has ended before.
    #[inline]
    fn has_room(&self, line: &Line, limits: Limits) -> bool {
        let (text, bytes) = (line.end - self.event.start, line.next - self.event.offset);
        !line.cut
            && self.lines < limits.lines
            && text as usize <= limits.bytes
            && !limits.exceeded_by(bytes as usize)
    }

    #[inline]
    fn join(&mut self, line: &Line, seen: Seen) {
        (self.event.end, self.event.next) = (line.end, line.next);
        self.lines += 1;
        (self.state, self.is_done) = (seen.state, seen.last);
    }
}

/// The events so far. Those behind the last place where nothing is open are only kept if another
/// such place comes.
struct Events<'a> {
    found: &'a mut Found,
    /// Up to there everything is used up, by the first `kept` events.
    used: u32,
    kept: usize,
    /// What was counted since.
    pending: Tally,
}

impl Events<'_> {
    /// Adds an event; `is_clean` says that nothing of it lies behind its end.
    #[inline]
    fn add(&mut self, event: Event, is_clean: bool) {
        if is_clean {
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

/// Makes every line an event; the raw bytes used up.
pub fn single(lines: &[Line], rows_max: usize, found: &mut Found) -> usize {
    let lines_max = lines.len().min(rows_max);
    if lines.iter().all(|line| !line.glued && !line.cut) {
        let event = |line: &Line| {
            let Line { start, end, offset, next, time_ns, .. } = *line;
            Event { start, end, offset, next, time_ns }
        };
        found.events.extend(lines[..lines_max].iter().map(event));
        return found.events.last().map_or(0, |event| event.next as usize);
    }
    let mut events = Events { found, used: 0, kept: 0, pending: Tally::default() };
    for (index, line) in lines.iter().enumerate().take(rows_max) {
        events.pending.cut += u64::from(line.cut);
        let Line { start, end, offset, next, time_ns, .. } = *line;
        let is_clean = lines.get(index + 1).is_none_or(|next| !next.glued);
        events.add(Event { start, end, offset, next, time_ns }, is_clean);
    }
    events.finish()
}

/// Joins lines to events; the raw bytes used up.
pub fn group(
    lines: &[Line],
    of: &Lines<'_>,
    judge: Judge<'_>,
    limits: Limits,
    found: &mut Found,
) -> usize {
    let events = Events { found, used: 0, kept: 0, pending: Tally::default() };
    let mut grouping = Grouping { judge, limits, events, open: None };
    for line in lines {
        grouping.line(line, &of.text[line.start as usize..line.end as usize]);
        if grouping.events.is_full(of.rows_max) {
            // The event that this line began is found again from there on.
            return grouping.events.finish();
        }
    }
    grouping.end(of);
    grouping.events.finish()
}

struct Grouping<'a> {
    judge: Judge<'a>,
    limits: Limits,
    events: Events<'a>,
    open: Option<Open>,
}

impl Grouping<'_> {
    #[inline]
    fn line(&mut self, line: &Line, text: &[u8]) {
        let mut begun = None;
        if let Some(open) = &mut self.open {
            let mut is_cut = false;
            if !open.is_done {
                let seen = self.judge.join(open.state, text);
                is_cut = seen.joins && open.stream == line.stream;
                if is_cut && open.has_room(line, self.limits) {
                    self.events.pending.cut += u64::from(line.cut);
                    return open.join(line, seen);
                }
                begun = (!seen.joins).then_some(seen);
            }
            self.events.pending.cut += u64::from(is_cut);
            self.events.add(open.event, !line.glued);
        }
        let seen = begun.unwrap_or_else(|| self.judge.begin(text));
        self.events.pending.misfits += u64::from(!seen.fits);
        self.events.pending.cut += u64::from(line.cut);
        self.open = Some(Open::new(line, seen));
    }

    /// Ends the last event, where it ends here.
    fn end(&mut self, of: &Lines<'_>) {
        let Some(open) = &self.open else { return };
        let is_over = open.is_done || open.stream >= APART || of.ends;
        // The next line does not fit in, whatever it is.
        let is_full = self.limits.exceeded_by(of.raw_bytes - open.event.offset as usize);
        if is_over || is_full {
            self.events.pending.cut += u64::from(!is_over);
            self.events.add(open.event, true);
        }
    }
}
