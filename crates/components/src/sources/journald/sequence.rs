//! A sequence: the entries that journald numbers together, in one or several files.
//!
//! A sequence is an origin, and the numbers of the entries are the offsets. journald writes entries
//! in the order of their numbers, to one file for the system and one file for each user, and starts
//! new files from time to time. Readers of all files together return the entries in order.

use super::discover::FileKey;
use super::flush::Span;
use super::journal::{Examined, Journal, ReadCx};
use super::record::{Mark, Record};
use millstream_journal::{Error, Id};
use millstream_model::{Cursors, EngineTime, Origin, OriginId, OriginStatus, SourceCx};
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Time after which the reader of a file that does not change is freed.
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// Time for which the system may fail to read a file before the rest of the file is given up.
const FAILING_MAX: Duration = Duration::from_secs(60);

/// The result of looking for the next entry.
#[derive(Clone, Copy, Debug)]
pub enum Peeked {
    /// An entry in the file with this index.
    Entry(usize, Examined),
    /// There are no more entries. Reading continues with this number.
    End(u64),
    /// The system cannot read a file now.
    Failed,
}

/// A sequence.
pub struct Sequence {
    /// Id of the sequence.
    pub seqnum_id: Id,
    /// Origin of the sequence.
    pub origin: Arc<Origin>,
    /// Files, ordered by the numbers of their first entries.
    pub journals: Vec<Journal>,
    /// Positions of the sinks.
    pub cursors: Cursors,
    /// State that survives a restart.
    pub record: Record,
    /// Entries in memory that journald copies to the disk.
    pub span: Option<Span>,
    /// The last entries that were read from memory.
    pub recent: Mark,
    /// Number of the last entry that may be read. All entries up to it are in known files.
    pub limit: u64,
    /// Number of the entry before which the readers are.
    at: u64,
    /// Index of the first file that may have entries at `at` or later.
    first: usize,
}

/// Returns the id of a sequence's origin.
pub fn origin_id(seqnum_id: Id) -> OriginId {
    OriginId(xxh3_64(&seqnum_id.0))
}

impl Sequence {
    /// Creates a sequence without files.
    pub fn new(seqnum_id: Id, origin: Origin, cursors: Cursors, record: Record) -> Sequence {
        Sequence {
            seqnum_id,
            origin: Arc::new(origin.of_records()),
            journals: Vec::new(),
            cursors,
            record,
            span: None,
            recent: Mark::default(),
            limit: 0,
            at: 0,
            first: 0,
        }
    }

    /// Returns the id of the origin.
    pub fn id(&self) -> OriginId {
        self.origin.id
    }

    /// Counts an error in the file with this index.
    pub fn note(&mut self, file: usize, error: &Error, cx: &SourceCx<'_>) {
        note(&mut self.journals[file], error, cx);
    }

    /// Adds a file.
    pub fn add(&mut self, journal: Journal) {
        let head = journal.header.head_entry_seqnum;
        let at = self.journals.partition_point(|other| other.header.head_entry_seqnum <= head);
        self.journals.insert(at, journal);
        self.first = 0;
    }

    /// Returns the number of the last entry in all files.
    pub fn tail(&self) -> u64 {
        self.journals.iter().map(Journal::tail).max().unwrap_or(0)
    }

    /// Returns the lowest position of a sink.
    pub fn position_min(&self) -> u64 {
        self.cursors.list().first().map_or(u64::MAX, |cursor| cursor.position)
    }

    /// Returns whether every sink has read all entries up to the limit.
    pub fn is_read(&self) -> bool {
        self.limit > 0 && self.cursors.list().iter().all(|cursor| cursor.position > self.limit)
    }

    /// Returns whether a deleted file has entries that a sink has not read.
    pub fn owes_deleted(&self) -> bool {
        let from = self.position_min();
        self.journals.iter().any(|journal| journal.is_gone && journal.tail() >= from)
    }

    /// Returns the next entry with a number of at least `from`.
    pub fn peek(&mut self, from: u64, read: &ReadCx<'_>, cx: &SourceCx<'_>) -> Peeked {
        if from != self.at {
            self.first = 0;
            for journal in &mut self.journals {
                if let Err(error) = journal.seek(from) {
                    journal.free();
                    note(journal, &error, cx);
                }
            }
            self.at = from;
        }
        let (mut best, mut floor): (Option<(usize, Examined)>, u64) = (None, from - 1);
        for index in self.first..self.journals.len() {
            let journal = &mut self.journals[index];
            let head = journal.header.head_entry_seqnum;
            if head > best.map_or(self.limit, |(_, best)| best.entry.seqnum) {
                break;
            }
            if journal.tail() < from {
                self.first += usize::from(index == self.first);
                continue;
            }
            let Some(examined) = examine(journal, from, read, cx) else { return Peeked::Failed };
            match examined {
                None => floor = floor.max(journal.floor()),
                Some(next) if next.entry.seqnum > self.limit => {}
                Some(next)
                    if best.is_some_and(|(_, best)| best.entry.seqnum <= next.entry.seqnum) => {}
                Some(next) => best = Some((index, next)),
            }
        }
        match best {
            Some((index, examined)) => Peeked::Entry(index, examined),
            None => Peeked::End(floor.min(self.limit).max(from - 1) + 1),
        }
    }

    /// Moves the readers behind the entry that [`Sequence::peek`] returned last.
    pub fn pass(&mut self, next: u64) {
        self.at = next;
    }

    /// Reads the headers of files that may have changed: of all files, or of those that are due.
    pub fn refresh(
        &mut self,
        is_due: impl Fn(&Journal) -> bool,
        read: &ReadCx<'_>,
        cx: &SourceCx<'_>,
    ) {
        for journal in self.journals.iter_mut().filter(|journal| !journal.is_final) {
            if is_due(journal)
                && let Err(error) = journal.refresh(cx.now.since_start, read)
                && (error.is_io() || !journal.is_damage_reported)
            {
                note(journal, &error, cx);
            }
        }
        self.update_span(read);
    }

    /// Updates the range of entries in memory.
    fn update_span(&mut self, read: &ReadCx<'_>) {
        let volatile = self.journals.iter().filter(|journal| journal.is_volatile());
        let Some(last) = volatile.clone().max_by_key(|journal| journal.tail()) else { return };
        let (boot, until) = (last.header.tail_entry_boot_id, last.header.tail_entry_monotonic);
        match &mut self.span {
            Some(span) if span.boot == boot && span.is_live => span.extend(until),
            _ => {
                let first = volatile
                    .filter_map(|journal| journal.first(read).ok().flatten())
                    .filter(|entry| entry.boot_id == boot)
                    .map(|entry| entry.monotonic)
                    .min();
                let before = self.span.as_ref().filter(|span| span.boot == boot);
                let first = first.into_iter().chain(before.map(|span| span.first)).min();
                let journal = last.place.journal.clone();
                let new = |first| Span::live(journal, boot, first, until);
                self.span = first.map(new).or(self.span.take());
            }
        }
    }

    /// Closes files that every sink has read and settled, and frees idle readers. Returns the
    /// identities of the closed files that still have a path.
    pub fn retire(&mut self, cx: &SourceCx<'_>) -> Vec<FileKey> {
        let (from, now) = (self.position_min(), cx.now.since_start);
        let settled = cx.ledger.owed(self.id()).map_or(0, |owed| owed.settled);
        let is_over = |journal: &Journal| {
            journal.is_final && journal.tail() < from && journal.tail() < settled
        };
        let mut closed = Vec::new();
        self.journals.retain(|journal| {
            let is_kept = !is_over(journal);
            if !is_kept && !journal.is_gone {
                closed.push(journal.key);
            }
            is_kept
        });
        for journal in self.journals.iter_mut().filter(|journal| journal.has_reader()) {
            if journal.tail() < from && now > journal.changed + IDLE_AFTER {
                journal.free();
            }
        }
        self.first = 0;
        let is_open = self.journals.iter().any(|journal| !journal.is_final);
        let status = if is_open { OriginStatus::Active } else { OriginStatus::Finished };
        self.origin.state.set_status(status);
        closed
    }
}

/// Returns the next entry of a file. The inner `None` is the end of the file, and the outer one
/// means that the system cannot read the file now.
#[expect(clippy::option_option, reason = "the end of a file and a failure are different")]
fn examine(
    journal: &mut Journal,
    from: u64,
    read: &ReadCx<'_>,
    cx: &SourceCx<'_>,
) -> Option<Option<Examined>> {
    let now = cx.now.since_start;
    loop {
        match journal.examine(from, read) {
            Ok(examined) => {
                journal.failing = None;
                return Some(examined);
            }
            Err(error) => {
                note(journal, &error, cx);
                if error.is_io() {
                    return is_given_up(journal, now, cx).then_some(None);
                }
                if !journal.has_reader() {
                    // The file cannot be opened, so that there is nothing behind the damage.
                    return Some(None);
                }
            }
        }
    }
}

/// Returns whether the system has failed to read a file for so long that the rest is lost. The
/// other files of the sequence would wait for the file.
fn is_given_up(journal: &mut Journal, now: EngineTime, cx: &SourceCx<'_>) -> bool {
    let since = *journal.failing.get_or_insert(now);
    let is_over = now > since + FAILING_MAX;
    if is_over && !journal.is_final {
        journal.is_final = true;
        log::error!(
            "source {}: gives up the rest of {}, because the system cannot read it",
            cx.info.id,
            journal.path.display()
        );
    }
    is_over
}

/// Counts an error, and logs the first one of each file.
fn note(journal: &mut Journal, error: &Error, cx: &SourceCx<'_>) {
    let (kind, is_new) = match error.is_io() {
        true => ("read", journal.failing.is_none()),
        false => ("corrupt", !std::mem::replace(&mut journal.is_damage_reported, true)),
    };
    cx.counters.error(kind);
    if error.is_io() {
        journal.failing.get_or_insert(cx.now.since_start);
    }
    if is_new {
        log::warn!("source {}: {}: {error}", cx.info.id, journal.path.display());
    }
}
