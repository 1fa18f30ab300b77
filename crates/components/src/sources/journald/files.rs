//! Opens journal files, and follows their renames and deletions.

use super::discover::{FileKey, FoundFile, Walked, reason};
use super::journal::Journal;
use super::resume::{deleted, reused_from, start};
use super::sequence::{Sequence, origin_id};
use super::{DELETED_UNREAD, JournaldSource, SavedSequence, Settings};
use millstream_journal::{Error, Id};
use millstream_model::{Cursors, EngineTime, Origin, OriginId, SinkIndex, SourceCx};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// Time for which a file may be no journal yet, because its writer is creating it.
const CREATION_MAX: Duration = Duration::from_secs(2);

/// Time between two looks at a file that has not changed for a minute.
const COLD_INTERVAL: Duration = Duration::from_secs(1);

/// Time without changes after which a file is looked at less often.
const COLD_AFTER: Duration = Duration::from_secs(60);

/// Files that are not read, or not yet.
#[derive(Default)]
pub struct UnusedFiles {
    /// Journals without entries. Their sequence is only known once they have one.
    empty: Vec<Journal>,
    /// Files that are not journals.
    invalid: HashMap<FileKey, InvalidFile>,
    /// Paths that could not be read in the last walk, with reasons.
    unreadable: BTreeMap<String, String>,
}

/// A file that is not a journal, or that cannot be opened.
struct InvalidFile {
    found: FoundFile,
    since: EngineTime,
    reason: String,
    is_reported: bool,
}

impl JournaldSource {
    /// Looks at the headers of files that may grow, and finds new files.
    ///
    /// An entry may be read once all entries with lower numbers are visible. journald writes the
    /// entries of a sequence one after the other. Therefore, after the highest number was seen in any
    /// file, the folders and all headers are read again.
    pub(super) fn refresh(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        let settings = self.settings.clone();
        let read = settings.read_cx(self.boot, &self.sequences);
        let is_due = |journal: &Journal| {
            let is_hot = now < journal.changed + COLD_AFTER;
            is_hot || now >= journal.looked + COLD_INTERVAL
        };
        let mut limits: Vec<(OriginId, u64)> = Vec::new();
        for sequence in &mut self.sequences {
            sequence.refresh(is_due, &read, cx);
            limits.push((sequence.id(), sequence.tail()));
        }
        if self.folders.may_have_changed(now) {
            let Settings { paths, namespaces, .. } = &*settings;
            let walked = self.folders.walk(paths, namespaces, now);
            self.follow(&walked, cx);
            self.adopt(walked.found, cx);
            self.unused.unreadable = walked.unreadable;
        } else {
            self.adopt(Vec::new(), cx);
        }
        self.report();
        for sequence in &mut self.sequences {
            let seen = limits.iter().find(|(id, _)| *id == sequence.id());
            let limit = seen.map_or(0, |(_, limit)| *limit);
            if limit > sequence.limit {
                sequence.refresh(|_| true, &read, cx);
                sequence.limit = limit;
                self.grown = now;
            }
            cx.ledger.note_end(sequence.id(), sequence.limit + 1);
        }
        let live = self.sequences.iter().filter_map(|sequence| sequence.span.clone());
        self.spans = live.chain(self.closed_spans.iter().cloned()).collect();
    }

    /// Follows renames and deletions.
    fn follow(&mut self, walked: &Walked, cx: &SourceCx<'_>) {
        let by_key: HashMap<FileKey, &FoundFile> =
            walked.found.iter().map(|found| (found.key, found)).collect();
        self.done.retain(|key, _| by_key.contains_key(key));
        self.unused.invalid.retain(|key, _| by_key.contains_key(key));
        self.unused.empty.retain(|journal| by_key.contains_key(&journal.key));
        for sequence in &mut self.sequences {
            for journal in &mut sequence.journals {
                match by_key.get(&journal.key) {
                    Some(found) => {
                        if journal.path != found.path {
                            journal.path.clone_from(&found.path);
                        }
                        journal.is_gone = false;
                    }
                    None if !journal.is_gone => {
                        journal.is_gone = true;
                        journal.changed = cx.now.since_start;
                    }
                    None => {}
                }
            }
        }
    }

    /// Opens new files, and starts to read their sequences.
    fn adopt(&mut self, found: Vec<FoundFile>, cx: &SourceCx<'_>) {
        let journals = self.open_new(found, cx);
        let mut new: BTreeMap<[u8; 16], Vec<Journal>> = BTreeMap::new();
        for journal in journals {
            let id = journal.header.seqnum_id;
            let open = self.sequences.iter_mut().find(|sequence| sequence.seqnum_id == id);
            match open {
                Some(sequence) => sequence.add(journal),
                None => new.entry(id.0).or_default().push(journal),
            }
        }
        for (id, journals) in new {
            if let Err(error) = self.insert(Id(id), journals, cx) {
                // The next walk finds the files again.
                self.folders.forget();
                cx.counters.error(if error.is_io() { "read" } else { "store" });
                log::error!("source {}: {error}; retrying", cx.info.id);
            }
        }
    }

    /// Opens files that are not open yet.
    fn open_new(&mut self, found: Vec<FoundFile>, cx: &SourceCx<'_>) -> Vec<Journal> {
        let settings = self.settings.clone();
        let read = settings.read_cx(self.boot, &self.sequences);
        let now = cx.now.since_start;
        let mut opened = Vec::new();
        let mut is_known: HashSet<FileKey> = self.done.keys().copied().collect();
        let journals = self.sequences.iter().flat_map(|sequence| &sequence.journals);
        is_known.extend(journals.chain(&self.unused.empty).map(|journal| journal.key));
        let is_young = |invalid: &InvalidFile| now < invalid.since + CREATION_MAX;
        let again = self.unused.invalid.values().filter(|invalid| is_young(invalid));
        let again: Vec<FoundFile> = again.map(|invalid| invalid.found.clone()).collect();
        for file in found.into_iter().chain(again) {
            if !is_known.insert(file.key) {
                continue;
            }
            match Journal::open(&file, now, &read) {
                Ok(journal) => {
                    self.unused.invalid.remove(&file.key);
                    opened.push(journal);
                }
                Err(error) => self.unused.note(file, &error, now),
            }
        }
        for mut journal in std::mem::take(&mut self.unused.empty) {
            // An error is found again by the reader.
            let _ = journal.refresh(now, &read);
            opened.push(journal);
        }
        let is_empty = |journal: &mut Journal| journal.header.n_entries == 0;
        self.unused.empty.extend(opened.extract_if(.., is_empty));
        opened
    }

    /// Starts to read a sequence.
    fn insert(&mut self, id: Id, journals: Vec<Journal>, cx: &SourceCx<'_>) -> Result<(), Error> {
        let since = self.since(cx);
        let settings = self.settings.clone();
        let read = settings.read_cx(self.boot, &self.sequences);
        let origin = origin_id(id);
        let mut saved = self.known.remove(&origin).unwrap_or_default();
        if saved.record.start == 0 {
            saved.record.start = start(&journals, since, &read)?;
            let kept = self.open.store.keep(&[(origin, saved.record.to_bytes())]);
            kept.map_err(|source| Error::Io { offset: 0, source })?;
        }
        let reused = match &saved.record.last {
            Some(last) => reused_from(&journals, last, &read)?,
            None => None,
        };
        if reused.is_some() {
            saved.record.last = None;
        }
        let resumed = self.positions(&saved, reused, cx);
        let from = resumed.iter().map(|(_, at)| *at).min().unwrap_or(u64::MAX);
        if !saved.positions.is_empty() {
            self.count_deleted(deleted(&journals, from, saved.record.last.as_ref()), &journals, cx);
        }
        let (complete, open): (Vec<Journal>, Vec<Journal>) = journals
            .into_iter()
            .partition(|journal| journal.is_complete() && journal.tail() < from);
        self.done.extend(complete.iter().map(|journal| (journal.key, origin)));
        let Some(first) = open.first() else {
            self.known.insert(origin, saved);
            return Ok(());
        };
        let name = first.place.folder.display().to_string();
        let cursors = Cursors::resume(resumed.iter().copied());
        let mut sequence = Sequence::new(id, Origin::new(origin, name), cursors, saved.record);
        cx.ledger.open(&sequence.origin, resumed);
        open.into_iter().for_each(|journal| sequence.add(journal));
        self.sequences.push(sequence);
        Ok(())
    }

    /// Returns the position of each sink.
    fn positions(
        &self,
        saved: &SavedSequence,
        reused: Option<u64>,
        cx: &SourceCx<'_>,
    ) -> Vec<(SinkIndex, u64)> {
        if let Some(reused) = reused {
            log::warn!(
                "source {}: the journal lost entries that were read, probably in a power failure; \
                 reading continues with the number {reused}",
                cx.info.id
            );
        }
        let position = |(index, sink): &(SinkIndex, String)| {
            let at = saved.position(sink).unwrap_or(saved.record.start);
            (*index, reused.map_or(at, |reused| at.min(reused)).max(1))
        };
        self.open.sinks.iter().map(position).collect()
    }

    fn count_deleted(&self, entries: u64, journals: &[Journal], cx: &SourceCx<'_>) {
        if entries > 0 {
            cx.counters.dropped(DELETED_UNREAD, entries);
            let folder = journals.first().map(|journal| journal.place.folder.display().to_string());
            log::error!(
                "source {}: about {entries} entries of {} were deleted before the agent could read \
                 them; raise SystemMaxUse= in journald.conf",
                cx.info.id,
                folder.unwrap_or_default()
            );
        }
    }

    /// Reports the paths that cannot be read.
    fn report(&mut self) {
        let UnusedFiles { invalid, unreadable, .. } = &mut self.unused;
        let mut reasons = unreadable.clone();
        let now = self.looked.unwrap_or(EngineTime::ZERO);
        for invalid in invalid.values_mut() {
            if now < invalid.since + CREATION_MAX && !invalid.is_reported && !self.open.until_eof {
                continue;
            }
            let path = invalid.found.path.display().to_string();
            if !std::mem::replace(&mut invalid.is_reported, true) {
                self.open.counters.error("unreadable");
                log::warn!("source {}: cannot read {path}: {}", self.open.info.id, invalid.reason);
            }
            reasons.insert(path, invalid.reason.clone());
        }
        self.open.unreadable.set(reasons);
    }
}

impl UnusedFiles {
    /// Remembers a file that cannot be opened.
    fn note(&mut self, found: FoundFile, error: &Error, now: EngineTime) {
        let reason = match error {
            Error::Io { source, .. } => reason(source),
            other => other.to_string(),
        };
        let new = || InvalidFile {
            found: found.clone(),
            since: now,
            reason: String::new(),
            is_reported: false,
        };
        self.invalid.entry(found.key).or_insert_with(new).reason = reason;
    }
}
