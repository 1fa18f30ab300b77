//! The `journald` source: the entries of the systemd journal, read from its files.
//!
//! journald numbers the entries of several files together. Such a sequence is an origin, and the
//! numbers are the offsets. An event's id is the id of the sequence and the number, so that a resend
//! has the same id.

mod config;
mod discover;
mod files;
mod filter;
mod flush;
mod journal;
mod level;
mod reading;
mod record;
mod resume;
mod rows;
mod sequence;
mod sinks;
#[cfg(test)]
mod tests;

pub use config::JournaldConfig;

use config::Settings;
use discover::{FileKey, Folders};
use files::UnusedFiles;
use flush::Span;
use journal::ReadCx;
use millstream_journal::Id;
use millstream_model::{
    BuildError, EngineTime, Leftover, OriginId, OriginRecord, Polled, SinkIndex, Source, SourceCx,
    SourceOpen,
};
use record::{Record, parse_id};
use sequence::Sequence;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Time between polls after new entries.
const BUSY_INTERVAL: Duration = Duration::from_millis(100);

/// Time between polls without new entries. A poll reads the header of each file that may grow,
/// because journald changes its files through a memory map, of which the system does not notify
/// readers.
const IDLE_INTERVAL: Duration = Duration::from_millis(250);

/// Time without new entries after which the longer interval applies.
const IDLE_AFTER: Duration = Duration::from_secs(5);

/// File with the id of the current boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Number of closed sequences whose positions stay in the store.
const KNOWN_MAX: usize = 1000;

/// Number of closed sequences beyond [`KNOWN_MAX`] at which the oldest ones are removed.
const KNOWN_SPARE: usize = 100;

/// Reason label of entries whose file was deleted before the agent could read it.
const DELETED_UNREAD: &str = "deleted_unread";

/// Reason label of entries whose deleted file the agent had open when it stopped.
const DELETED_UNDELIVERED: &str = "deleted_undelivered";

/// A running `journald` source.
struct JournaldSource {
    settings: Arc<Settings>,
    open: SourceOpen,
    /// Boot to which entries must belong.
    boot: Option<Id>,
    /// Sequences with files.
    sequences: Vec<Sequence>,
    /// Index of the sequence from which the next poll reads first.
    turn: usize,
    /// Saved state of sequences without files.
    known: HashMap<OriginId, SavedSequence>,
    /// Entries in memory, whose copies on disk are skipped.
    spans: Vec<Span>,
    /// Spans of sequences that are closed.
    closed_spans: Vec<Span>,
    folders: Folders,
    unused: UnusedFiles,
    /// Complete files that every sink has read, which are closed.
    done: HashMap<FileKey, OriginId>,
    /// Time in microseconds since 1970 before which no entry is read; `None` until the first poll.
    since_us: Option<u64>,
    /// Whether the source has never run before.
    is_first: bool,
    looked: Option<EngineTime>,
    /// When the last entry was found.
    grown: EngineTime,
    /// Bytes that the next entry needs in a block.
    need: usize,
    is_closing: bool,
}

/// The state that the source remembers for a sequence.
#[derive(Debug, Default)]
struct SavedSequence {
    record: Record,
    /// Number at which each sink resumes, by sink id.
    positions: Vec<(String, u64)>,
}

impl SavedSequence {
    fn of(record: OriginRecord) -> (OriginId, SavedSequence) {
        let OriginRecord { id, descriptor, checkpoints } = record;
        let record = Record::from_bytes(&descriptor);
        (id, SavedSequence { record, positions: checkpoints })
    }

    /// Returns the entries in memory that were delivered to every sink that has a checkpoint.
    fn span(&self, sinks: &[(SinkIndex, String)]) -> Option<Span> {
        let positions = sinks.iter().filter_map(|(_, sink)| self.position(sink));
        Span::delivered(self.record.span.as_ref()?, positions.min()?)
    }

    /// Adds the positions of sinks that have none. The others may be newer than the saved ones.
    fn add(&mut self, saved: SavedSequence) {
        if self.record == Record::default() {
            self.record = saved.record;
        }
        for (sink, at) in saved.positions {
            if self.position(&sink).is_none() {
                self.positions.push((sink, at));
            }
        }
    }

    fn position(&self, sink: &str) -> Option<u64> {
        self.positions.iter().find(|(id, _)| id == sink).map(|(_, at)| *at)
    }
}

impl Settings {
    /// Returns what the readers of all files share.
    fn read_cx(&self, boot: Option<Id>, sequences: &[Sequence]) -> ReadCx<'_> {
        let journals = sequences.iter().flat_map(|sequence| &sequence.journals);
        ReadCx {
            filter: &self.filter,
            boot,
            field_bytes_max: self.field_bytes_max,
            readers: Cell::new(journals.filter(|journal| journal.has_reader()).count()),
        }
    }
}

impl JournaldSource {
    fn open(settings: Settings, open: SourceOpen) -> Result<JournaldSource, BuildError> {
        let (records, ran) = open.store.origins().map_err(BuildError::Store)?;
        let mut known: HashMap<_, _> = records.into_iter().map(SavedSequence::of).collect();
        let own = known.remove(&sinks::own_record());
        let since_us = own.and_then(|own| own.record.since_us);
        let boot = settings.is_current_boot_only.then(current_boot).transpose();
        let boot = boot.map_err(BuildError::Options)?;
        let closed_spans = known.values().filter_map(|known| known.span(&open.sinks)).collect();
        Ok(JournaldSource {
            settings: Arc::new(settings),
            open,
            boot,
            sequences: Vec::new(),
            turn: 0,
            known,
            spans: Vec::new(),
            closed_spans,
            folders: Folders::default(),
            unused: UnusedFiles::default(),
            done: HashMap::new(),
            since_us,
            is_first: !ran,
            looked: None,
            grown: EngineTime::ZERO,
            need: 0,
            is_closing: false,
        })
    }

    fn take_rereads(&mut self) {
        for again in self.open.ledger.take_rereads() {
            let sequence = self.sequences.iter_mut().find(|other| other.id() == again.origin);
            if let Some(sequence) = sequence {
                sequence.cursors.reread(&again);
            }
        }
    }

    /// Returns the time between two looks at the files.
    fn interval(&self, now: EngineTime) -> Duration {
        match now < self.grown + IDLE_AFTER {
            true => BUSY_INTERVAL,
            false => IDLE_INTERVAL,
        }
    }

    /// Looks for new entries and new files, if it is time.
    fn look(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        let is_due = self.looked.is_none_or(|looked| now >= looked + self.interval(now));
        // With `--until-eof`, entries that are added later are not read.
        let is_over = cx.until_eof && self.looked.is_some();
        if is_over || !is_due {
            return;
        }
        self.looked = Some(now);
        self.refresh(cx);
        if self.sequences.iter().any(|sequence| sequence.limit == 0) {
            // The first look found the files, and the second one finds how far they can be read.
            self.refresh(cx);
        }
    }

    /// Closes files and sequences that are read and settled.
    fn retire(&mut self, cx: &SourceCx<'_>) {
        for sequence in &mut self.sequences {
            let id = sequence.id();
            let closed = sequence.retire(cx);
            if !closed.is_empty() && sequence.note_end() {
                self.open.store.note(id, sequence.record.to_bytes());
            }
            self.done.extend(closed.into_iter().map(|key| (key, id)));
        }
        let is_empty = |sequence: &mut Sequence| {
            let owed = cx.ledger.owed(sequence.id());
            sequence.journals.is_empty()
                && owed.is_none_or(|owed| owed.in_flight == 0 && owed.oldest.is_none())
        };
        let closed: Vec<Sequence> = self.sequences.extract_if(.., is_empty).collect();
        closed.into_iter().for_each(|sequence| self.close_sequence(sequence, cx));
        self.forget(cx);
    }

    /// Closes a sequence without files, and remembers the positions of its sinks.
    fn close_sequence(&mut self, sequence: Sequence, cx: &SourceCx<'_>) {
        let id = sequence.id();
        let position = |(index, sink): &(SinkIndex, String)| {
            Some((sink.clone(), cx.ledger.checkpoint(id, *index)?))
        };
        let positions = self.open.sinks.iter().filter_map(position).collect();
        cx.ledger.retire(id);
        self.closed_spans.extend(sequence.span);
        self.known.insert(id, SavedSequence { record: sequence.record, positions });
    }

    /// If too many sequences are remembered, forgets those that ended first.
    fn forget(&mut self, cx: &SourceCx<'_>) {
        if self.known.len() <= KNOWN_MAX + KNOWN_SPARE {
            return;
        }
        let ended =
            |known: &SavedSequence| known.record.last.as_ref().map_or(0, |last| last.realtime);
        let mut closed: Vec<(u64, OriginId)> =
            self.known.iter().map(|(id, known)| (ended(known), *id)).collect();
        closed.sort_unstable();
        closed.truncate(closed.len() - KNOWN_MAX);
        let forgotten: Vec<OriginId> = closed.into_iter().map(|(_, id)| id).collect();
        match self.open.store.forget(&forgotten) {
            Ok(()) => forgotten.iter().for_each(|id| drop(self.known.remove(id))),
            Err(error) => {
                cx.counters.error("store");
                log::error!(
                    "source {}: cannot remove the ids of deleted journals: {error}",
                    cx.info.id
                );
            }
        }
    }

    fn owes_deleted(&self) -> bool {
        self.sequences.iter().any(Sequence::owes_deleted)
    }
}

/// Returns the id of the current boot.
fn current_boot() -> Result<Id, String> {
    let text = std::fs::read_to_string(BOOT_ID)
        .map_err(|error| format!("`current_boot_only`: cannot read {BOOT_ID}: {error}"))?;
    parse_id(&text).ok_or_else(|| format!("`current_boot_only`: {BOOT_ID} contains no id"))
}

impl Source for JournaldSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.take_rereads();
        if !self.is_closing {
            self.look(cx);
        }
        let polled = self.read(cx, self.interval(cx.now.since_start));
        self.retire(cx);
        let is_idle = matches!(polled, Polled::Wait(wait) if !wait.is_zero());
        let is_over = match self.is_closing {
            true => !matches!(polled, Polled::Batch(..)) && !self.owes_deleted(),
            false => cx.until_eof && is_idle,
        };
        if is_over { Polled::Ended } else { polled }
    }

    fn set_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        self.change_sinks(sinks);
    }

    fn close(&mut self, for_good: bool) -> bool {
        self.is_closing = true;
        // Entries of a deleted file cannot be read after a restart, so they must be read now.
        for_good && self.owes_deleted()
    }

    fn reopen(&mut self) {
        self.is_closing = false;
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn leave(&mut self) -> Option<Leftover> {
        let mut left = Leftover::default();
        for sequence in &self.sequences {
            let settled = self.open.ledger.owed(sequence.id()).map_or(0, |owed| owed.settled);
            let (waiting, lost) = sequence.unsettled(settled);
            left.waiting.events += waiting;
            left.waiting.files += u64::from(waiting > 0);
            if lost > 0 {
                left.lost.add_file(0, lost);
                self.open.counters.dropped(DELETED_UNDELIVERED, lost);
                log::error!(
                    "source {}: lost about {lost} entries of deleted files of {}",
                    self.open.info.id,
                    sequence.origin.name
                );
            }
        }
        Some(left)
    }
}
