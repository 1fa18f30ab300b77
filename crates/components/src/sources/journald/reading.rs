//! Reads entries of one or several sequences into a batch, in the order of their times.

use super::JournaldSource;
use super::flush::{Span, add_mark, extend_mark};
use super::journal::{EXAMINED_MAX, Examined, ReadCx};
use super::record::{LastEntry, SavedSpan};
use super::rows::{Rejected, Rows};
use super::sequence::{Peeked, Sequence};
use millstream_journal::{Entry, Error};
use millstream_model::{Choice, Permit, Polled, SourceCx, SourceOpen, TIME_UNKNOWN};
use std::time::Duration;

/// First attempt at which a range that was abandoned is halved.
const HALVED_FROM: u8 = 3;

/// Number of times that a range may be abandoned. Afterward its entries are dropped.
const ATTEMPTS_MAX: u8 = 40;

/// Maximum number of entries that a poll examines.
const POLL_ENTRIES_MAX: u32 = 16 * EXAMINED_MAX;

/// Maximum number of segments in a batch. Sequences whose entries alternate make many.
const SEGMENTS_MAX: usize = 1024;

/// A sequence from which a poll reads.
struct Turn {
    /// Index of the sequence.
    index: usize,
    choice: Choice,
    /// Number after the last entry to read.
    until: u64,
    /// First number that is not in a segment yet.
    from: u64,
    /// Number of the next entry.
    position: u64,
    /// The next entry: the index of its file, and the entry.
    next: Option<(usize, Examined)>,
    is_done: bool,
    /// Newest time since the last segment, in nanoseconds since 1970.
    newest: i64,
    /// Size of the batch at the last segment.
    bytes: usize,
    /// The last entry that was added.
    last: Option<(Entry, bool)>,
}

/// A batch in progress.
struct Fill {
    turns: Vec<Turn>,
    rows: Option<(Rows, Permit)>,
    /// Index of the turn whose rows are not in a segment yet.
    open: Option<usize>,
    segments: usize,
    examined: u32,
    is_out_of_memory: bool,
}

/// The result of adding an entry.
enum Added {
    Yes,
    /// The batch is full, or there is no memory for one.
    Full,
    /// The system cannot read the entry now.
    Failed,
}

impl JournaldSource {
    /// Reads the next entries. Returns the time of the next poll if there are none.
    pub(super) fn read(&mut self, cx: &SourceCx<'_>, idle: Duration) -> Polled {
        let (turns, waits) = self.choose(cx);
        let mut fill = Fill {
            turns,
            rows: None,
            open: None,
            segments: 0,
            examined: 0,
            is_out_of_memory: false,
        };
        self.fill(&mut fill, cx);
        let is_out_of_memory = fill.is_out_of_memory;
        let (has_progress, polled) = self.finish(fill, cx);
        match polled {
            Some(batch) => batch,
            None if has_progress => Polled::Wait(Duration::ZERO),
            None if waits || is_out_of_memory => Polled::Backpressure,
            None => Polled::Wait(idle),
        }
    }

    /// Chooses a cursor in each sequence. All chosen cursors have the same sinks. Also returns
    /// whether a sequence waits for a sink.
    fn choose(&mut self, cx: &SourceCx<'_>) -> (Vec<Turn>, bool) {
        let (mut turns, mut waits): (Vec<Turn>, bool) = (Vec::new(), false);
        let count = self.sequences.len();
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let sequence = &mut self.sequences[index];
            let end = sequence.limit + 1;
            if sequence.is_read() || sequence.limit == 0 {
                continue;
            }
            let Some(choice) = sequence.cursors.choose(cx.ready, cx.blocked, Some(end)) else {
                waits = true;
                continue;
            };
            let is_alone = |choice: &Choice| choice.cursor.until.is_some();
            let fits = |first: &Turn| {
                first.choice.cursor.sinks == choice.cursor.sinks
                    && !is_alone(&first.choice)
                    && !is_alone(&choice)
            };
            if choice.cursor.position < end && turns.first().is_none_or(fits) {
                turns.push(Turn::new(index, choice, end));
            }
        }
        self.turn = turns.first().map_or(0, |turn| (turn.index + 1) % count.max(1));
        (turns, waits)
    }

    fn fill(&mut self, fill: &mut Fill, cx: &SourceCx<'_>) {
        if self.give_up(fill, cx) {
            return;
        }
        let settings = self.settings.clone();
        let read = settings.read_cx(self.boot, &self.sequences);
        while fill.examined < POLL_ENTRIES_MAX && fill.segments < SEGMENTS_MAX {
            self.peek(fill, &read, cx);
            let Some(at) = fill.first() else { return };
            let turn = &mut fill.turns[at];
            let Some((file, examined)) = turn.next.take() else { return };
            let sequence = &mut self.sequences[turn.index];
            let journal = &sequence.journals[file];
            let is_copy = |span: &Span| span.is_copy(&journal.place.journal, &examined.entry);
            let is_skipped =
                !examined.is_accepted || !journal.is_volatile() && self.spans.iter().any(is_copy);
            let next = examined.entry.seqnum + 1;
            if !is_skipped {
                match self.add(fill, at, (file, &examined.entry), &read, cx) {
                    Added::Yes => {}
                    Added::Full => return,
                    Added::Failed => {
                        fill.turns[at].is_done = true;
                        continue;
                    }
                }
            }
            // An entry that the filter rejects is the last one of many.
            fill.examined += if examined.is_accepted { 1 } else { EXAMINED_MAX };
            fill.turns[at].position = next;
            self.sequences[fill.turns[at].index].pass(next);
            if fill.rows.as_ref().is_some_and(|(rows, _)| rows.is_full()) {
                return;
            }
        }
    }

    /// Drops the entries of a range that a sink has abandoned too often.
    fn give_up(&self, fill: &mut Fill, cx: &SourceCx<'_>) -> bool {
        let Some(turn) = fill.turns.first_mut() else { return false };
        if turn.choice.cursor.attempt <= ATTEMPTS_MAX {
            return false;
        }
        let lost = turn.until - turn.position;
        cx.counters.dropped("abandoned", lost);
        log::error!(
            "source {}: a sink repeatedly abandoned the entries {} to {} of the sequence {}, \
             which are lost",
            cx.info.id,
            turn.position,
            turn.until - 1,
            self.sequences[turn.index].seqnum_id
        );
        turn.position = turn.until;
        true
    }

    /// Finds the next entry of each sequence.
    fn peek(&mut self, fill: &mut Fill, read: &ReadCx<'_>, cx: &SourceCx<'_>) {
        for turn in fill.turns.iter_mut().filter(|turn| turn.next.is_none() && !turn.is_done) {
            let sequence = &mut self.sequences[turn.index];
            match sequence.peek(turn.position, read, cx) {
                Peeked::Entry(file, examined) if examined.entry.seqnum < turn.until => {
                    turn.next = Some((file, examined));
                }
                Peeked::Entry(..) => (turn.position, turn.is_done) = (turn.until, true),
                Peeked::End(position) => {
                    turn.position = position.clamp(turn.position, turn.until);
                    turn.is_done = true;
                }
                Peeked::Failed => turn.is_done = true,
            }
        }
    }

    /// Adds an entry to the batch.
    fn add(
        &mut self,
        fill: &mut Fill,
        at: usize,
        (file, entry): (usize, &Entry),
        read: &ReadCx<'_>,
        cx: &SourceCx<'_>,
    ) -> Added {
        if !self.begin(fill, cx) {
            return Added::Full;
        }
        if fill.open.is_some_and(|open| open != at) {
            self.close_segment(fill, cx);
        }
        let (Some((rows, _)), turn) = (&mut fill.rows, &mut fill.turns[at]) else {
            return Added::Full;
        };
        match push(&mut self.sequences[turn.index], rows, (file, entry), read, cx) {
            Ok(()) => {
                let is_volatile = self.sequences[turn.index].journals[file].is_volatile();
                turn.note(entry, is_volatile);
                fill.open = Some(at);
                self.need = 0;
                Added::Yes
            }
            Err(Rejected::Full(need)) => {
                if rows.len() == 0 {
                    self.need = need;
                    fill.rows = None;
                }
                Added::Full
            }
            Err(Rejected::Failed(error)) => self.reject(turn.index, file, &error, cx),
        }
    }

    /// Begins a batch, if there is none. Returns false if there is no memory for one.
    fn begin(&self, fill: &mut Fill, cx: &SourceCx<'_>) -> bool {
        if fill.rows.is_none() {
            let block = cx.block(self.need);
            let new = |(block, permit)| (Rows::new(block, self.settings.field_bytes_max), permit);
            fill.rows = block.map(new);
            fill.is_out_of_memory = fill.rows.is_none();
        }
        fill.rows.is_some()
    }

    /// Counts an entry that cannot be read.
    fn reject(&mut self, index: usize, file: usize, error: &Error, cx: &SourceCx<'_>) -> Added {
        self.sequences[index].note(file, error, cx);
        if error.is_io() {
            return Added::Failed;
        }
        cx.counters.dropped("corrupt", 1);
        Added::Yes
    }

    /// Closes the segment of the last rows.
    fn close_segment(&mut self, fill: &mut Fill, cx: &SourceCx<'_>) {
        let Some(open) = fill.open.take() else { return };
        let (Some((rows, _)), turn) = (&mut fill.rows, &mut fill.turns[open]) else { return };
        let sequence = &mut self.sequences[turn.index];
        let range = turn.from..turn.position;
        if let Some((entry, is_volatile)) = turn.last {
            sequence.save(&entry, is_volatile, &self.open);
        }
        let (cursor, now) = (turn.choice.cursor, cx.now.since_start);
        let ack = cx.ledger.issue(sequence.id(), range.clone(), cursor.sinks, cursor.attempt, now);
        sequence.origin.state.record_times(range, &[turn.newest]);
        sequence.origin.state.read((rows.bytes() - turn.bytes) as u64, turn.position);
        rows.segment(&sequence.origin, ack);
        fill.segments += 1;
        let bytes = rows.bytes();
        (turn.from, turn.newest) = (turn.position, TIME_UNKNOWN);
        fill.turns.iter_mut().for_each(|turn| turn.bytes = bytes);
    }

    /// Ends a poll: settles the entries that were skipped, and moves the cursors. Returns whether
    /// there was progress, and the batch.
    fn finish(&mut self, mut fill: Fill, cx: &SourceCx<'_>) -> (bool, Option<Polled>) {
        self.close_segment(&mut fill, cx);
        let mut has_progress = false;
        for turn in &fill.turns {
            let (sequence, cursor) = (&mut self.sequences[turn.index], turn.choice.cursor);
            if turn.position > turn.from {
                let (range, now) = (turn.from..turn.position, cx.now.since_start);
                let id = sequence.id();
                cx.ledger.issue(id, range, cursor.sinks, cursor.attempt, now).finish();
                sequence.origin.state.read(0, turn.position);
            }
            if turn.position > cursor.position {
                has_progress = true;
                sequence.cursors.advance(turn.choice.index, turn.position);
            }
        }
        has_progress |= self.need > 0 && !fill.is_out_of_memory;
        let sinks = fill.turns.first().map(|turn| turn.choice.cursor.sinks);
        let batch = fill.rows.zip(sinks).filter(|((rows, _), _)| rows.len() > 0);
        let polled = batch.map(|((rows, permit), sinks)| {
            cx.counters.received(rows.len() as u64, rows.bytes() as u64);
            let batch = rows.finish(sinks, cx);
            cx.counters.sent(batch.rows() as u64, batch.text_bytes());
            Polled::Batch(Box::new(batch), permit)
        });
        (has_progress, polled)
    }
}

/// Adds the fields of an entry to the batch.
fn push(
    sequence: &mut Sequence,
    rows: &mut Rows,
    (file, entry): (usize, &Entry),
    read: &ReadCx<'_>,
    cx: &SourceCx<'_>,
) -> Result<(), Rejected> {
    let journal = &mut sequence.journals[file];
    let [a, b, c, d, e, f, g, h, ..] = journal.header.file_id.0;
    let number = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let pushed = match journal.fields(entry, read) {
        Ok(fields) => rows.push(entry, sequence.seqnum_id, number, fields),
        Err(error) => Err(Rejected::Failed(error)),
    };
    if read.is_crowded() {
        journal.park(read);
    }
    let is_volatile = journal.is_volatile();
    let changes = pushed?;
    cx.counters.noted("truncated", u64::from(changes.is_truncated));
    changes.damage.iter().for_each(|error| sequence.note(file, error, cx));
    if is_volatile {
        extend_mark(&mut sequence.recent, entry);
    }
    Ok(())
}

impl Turn {
    /// Records that an entry was added to the batch.
    fn note(&mut self, entry: &Entry, is_volatile: bool) {
        let ns = i64::try_from(entry.realtime.saturating_mul(1000)).unwrap_or(i64::MAX);
        self.newest = self.newest.max(ns);
        self.last = Some((*entry, is_volatile));
    }

    fn new(index: usize, choice: Choice, end: u64) -> Turn {
        let position = choice.cursor.position;
        let limit = choice.limit.map_or(end, |limit| limit.min(end));
        let until = match choice.cursor.attempt {
            0..HALVED_FROM => limit,
            _ => position + (limit - position).div_ceil(2),
        };
        Turn {
            index,
            choice,
            until,
            from: position,
            position,
            next: None,
            is_done: false,
            newest: TIME_UNKNOWN,
            bytes: 0,
            last: None,
        }
    }
}

impl Fill {
    /// Returns the turn with the first entry.
    fn first(&self) -> Option<usize> {
        let with_next = self.turns.iter().enumerate();
        let with_next = with_next.filter_map(|(at, turn)| Some((at, turn.next?.1.entry)));
        let first = with_next.reduce(|first, next| match is_before(&next.1, &first.1) {
            true => next,
            false => first,
        });
        first.map(|(at, _)| at)
    }
}

/// Returns whether an entry of a sequence comes before an entry of another sequence.
fn is_before(entry: &Entry, other: &Entry) -> bool {
    match entry.boot_id == other.boot_id {
        true => entry.monotonic < other.monotonic,
        false => entry.realtime < other.realtime,
    }
}

impl Sequence {
    /// Saves the last entry that was read, with or before the checkpoint behind it.
    fn save(&mut self, entry: &Entry, is_volatile: bool, open: &SourceOpen) {
        if self.record.last.as_ref().is_some_and(|last| last.seqnum >= entry.seqnum) {
            return;
        }
        if is_volatile {
            let settled = open.ledger.owed(self.id()).map_or(0, |owed| owed.settled);
            self.mark(settled);
        }
        self.record.last = Some(LastEntry::of(entry, is_volatile));
        open.store.note(self.id(), self.record.to_bytes());
    }

    /// Remembers the entries that were read from memory, so that their copies on disk are
    /// recognized.
    fn mark(&mut self, settled: u64) {
        let Some(span) = &self.span else { return };
        let boot = span.boot.to_string();
        let saved = self.record.span.take().filter(|saved| saved.boot == boot);
        let mut saved = saved.unwrap_or_else(|| SavedSpan {
            journal: span.journal.clone(),
            boot,
            first: span.first,
            marks: Vec::new(),
        });
        saved.first = saved.first.min(span.first);
        add_mark(&mut saved.marks, &self.recent, settled);
        self.record.span = Some(saved);
    }
}
