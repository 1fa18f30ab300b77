//! Schedules file reads, and fills blocks from them.

mod adoption;
mod background_copies;
mod batch;
mod changed_names;
mod copy_detection;
mod copy_search;
mod decompression;
mod discovery;
mod files;
mod finishing;
mod history;
mod holding;
mod identification;
mod identity;
mod insertion;
mod open_files;
mod orphans;
mod queue;
mod restoring;
mod retention;
mod rotations;
mod schedule;
mod scope;
mod set_sinks;
mod skipping;
mod stop;
mod tails;
mod unsettled;
mod walks;

use crate::discover::walk;
use crate::links::Links;
use crate::open::open_max;
use crate::records::load_records;
use crate::scan_budget::ScanBudget;
use crate::settings::TailSettings;
use crate::tail::{ALONE_FROM, Buffers, Fill, Read, Request, Tail};
use crate::watch::Watch;
use batch::batch;
use changed_names::ChangedNames;
use copy_detection::Copies;
use discovery::{Discovery, log_matches};
use finishing::{Finishing, IDLE_FILES_MAX};
use history::{History, Search, folder_of};
use holding::Holding;
use identification::{Identification, Identified};
use insertion::Insertion;
use millstream_model::{
    Aside, BuildError, Choice, Cursor, EngineTime, Leftover, OriginId, Polled, Reread, SinkIndex,
    SinkSet, Source, SourceCx, SourceOpen,
};
use restoring::Restoring;
use retention::Retention;
use schedule::{TICK, UNWATCHED_POLL};
use scope::Scope;
use set_sinks::SinkChange;
use skipping::skip_missing;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stop::Stop;
use tails::Tails;
use walks::Walks;

/// Minimum pause between polls of the source. Files that become due during the pause are polled
/// together.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Maximum pause between polls of the source. A write to a quiet file is noticed after at most this
/// time.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Interval of directory walks without an inotify event.
const WALK_INTERVAL: Duration = Duration::from_secs(30);

/// Interval of directory walks while a folder is not watched.
const UNWATCHED_WALK_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two walks, however many names change.
const WALK_PAUSE: Duration = Duration::from_millis(50);

/// A last line without a line ending is treated as complete once its file has had no path and has
/// not grown for this long.
const FINISH_SILENCE: Duration = Duration::from_secs(2);

/// A file is closed once it has had no path and has not grown for this long, because its writer may
/// still have it open.
const GONE_SILENCE: Duration = Duration::from_secs(10);

/// Interval of lag updates for files that are not read to their end.
const END_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of consecutive reads without a line in one poll, so that an endless line does not
/// delay other files or shutdown. Once a poll has found lines, it may additionally read each due
/// file once.
const EMPTY_READS_MAX: usize = 64;

/// The reason reported for a pattern without a match.
const MISSING: &str = "no file matches";

/// Bytes used by a file that is tracked in full, in the source and in its ledger.
const FILE_BYTES: usize = 1600;

/// Bytes used by the record of a file that is not open.
const RECORD_BYTES: usize = 800;

/// A source of lines from files.
pub struct FileSource {
    scope: Scope,
    buffers: Buffers,
    /// The files being read.
    files: Tails,
    /// Files that are remembered but not being read.
    history: History,
    /// Undelivered files that were rotated away.
    retention: Retention,
    watch: Watch,
    walks: Walks,
    discovery: Discovery,
    idle_files_max: usize,
    /// The memory that the files take, declared to the grant.
    declared: Option<Aside>,
    ends_noted: EngineTime,
}

impl FileSource {
    /// Creates the source from the saved records. The first poll opens files.
    ///
    /// # Errors
    /// Returns an error if the checkpoint store cannot be read.
    pub fn open(settings: TailSettings, open: SourceOpen) -> Result<FileSource, BuildError> {
        let ran_before = open.store.has_run().map_err(BuildError::Store)?;
        let is_finite = open.until_eof || settings.range.is_some();
        let idle_files_max = settings.idle_files_max.unwrap_or(IDLE_FILES_MAX);
        let loaded = load_records(&open, if is_finite { usize::MAX } else { idle_files_max });
        let history = History::new(loaded.map_err(BuildError::Store)?);
        Ok(FileSource {
            buffers: Buffers::default(),
            history,
            retention: Retention::new(&settings.held, open.held_dir.clone()),
            watch: Watch::new(),
            walks: Walks::new(),
            discovery: Discovery::default(),
            idle_files_max,
            declared: None,
            files: Tails::new(settings.open_files_max.unwrap_or(usize::MAX).min(open_max())),
            ends_noted: EngineTime::ZERO,
            scope: Scope { settings, open, links: Links::default(), first_start: !ran_before },
        })
    }
}

impl Source for FileSource {
    fn can_wait(&self) -> bool {
        true
    }

    fn overflows(&self) -> bool {
        self.scope.settings.held.spool
    }

    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        let now = cx.now.since_start;
        self.take_events(cx);
        self.take_rereads(now);
        if self.walks.is_due(now) {
            self.walk(cx);
        } else if self.walks.is_check_due(now, !self.history.rotations.is_complete()) {
            self.check_changed_names(cx);
        }
        self.files.queue_due(now);
        let (fill, blocked) = self.fill(cx);
        if now - self.ends_noted >= END_INTERVAL {
            self.tidy_up(cx);
        }
        match fill {
            Some(fill) if fill.builder.has_segments() => batch(fill, &mut self.scope.settings, cx),
            _ if blocked => Polled::Backpressure,
            _ if self.files.has_due() => Polled::Wait(Duration::ZERO),
            _ if self.scope.is_finite(cx) && self.is_ended() => Polled::Ended,
            _ => Polled::Wait(self.files.pause(now)),
        }
    }

    fn set_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        let change = SinkChange::new(sinks, &self.scope.open);
        change.apply(&mut self.files, &self.scope.open);
        self.scope.open.sinks = sinks.to_vec();
        if change.has_new() {
            // A new sink may start before the copies do.
            self.retention.discard_copies(&mut self.files);
            // A walk loads the finished files, which a new sink may have to read.
            self.history.finished.forget_states();
            self.walks.request();
        }
    }

    fn hold(&mut self, deadline: Instant) {
        self.stop().hold_deleted(deadline);
    }

    fn leave(&mut self) -> Option<Leftover> {
        Some(self.stop().leave_behind())
    }
}

// The steps of the source, each with the parts of the source that it changes.
impl FileSource {
    fn identification(&mut self) -> Identification<'_> {
        Identification {
            scope: &self.scope,
            files: &mut self.files,
            history: &mut self.history,
            walks: &mut self.walks,
            watch: &mut self.watch,
        }
    }

    fn finishing(&mut self) -> Finishing<'_> {
        Finishing {
            scope: &self.scope,
            files: &mut self.files,
            history: &mut self.history,
            walks: &mut self.walks,
            watch: &mut self.watch,
        }
    }

    fn copies(&mut self) -> Copies<'_> {
        Copies {
            scope: &self.scope,
            files: &mut self.files,
            history: &mut self.history,
            retention: &mut self.retention,
            walks: &mut self.walks,
            watch: &mut self.watch,
        }
    }

    fn insertion(&mut self) -> Insertion<'_> {
        Insertion {
            scope: &self.scope,
            files: &mut self.files,
            history: &mut self.history,
            retention: &mut self.retention,
            walks: &mut self.walks,
        }
    }

    fn restoring(&mut self) -> Restoring<'_> {
        Restoring {
            scope: &self.scope,
            files: &self.files,
            history: &mut self.history,
            retention: &mut self.retention,
        }
    }

    fn holding(&mut self) -> Holding<'_> {
        Holding {
            scope: &self.scope,
            files: &mut self.files,
            history: &mut self.history,
            retention: &mut self.retention,
        }
    }

    fn stop(&mut self) -> Stop<'_> {
        Stop {
            scope: &self.scope,
            files: &mut self.files,
            history: &mut self.history,
            retention: &mut self.retention,
        }
    }
}

// Inotify events, and periodic work.
impl FileSource {
    fn take_events(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        let events = self.watch.read_events();
        if events.folders || events.overflow {
            self.walks.request();
        }
        if events.names {
            self.walks.request_check();
        }
        if events.overflow {
            self.walks.search_again();
            self.files.poll_all_at(now);
        }
        let mut finished = HashSet::new();
        for id in events.written {
            if !self.files.note_write(id, now) {
                finished.insert(id);
            }
        }
        if !finished.is_empty() {
            self.finishing().load_written(finished, cx);
        }
    }

    fn take_rereads(&mut self, now: EngineTime) {
        for again in self.scope.open.ledger.take_rereads() {
            if let Some(tail) = self.files.get_mut(again.origin) {
                tail.reread(&again);
                self.files.poll_at(again.origin, now);
            } else if !self.take_back(&again) {
                self.drop_reread(&again, now);
            }
        }
    }

    /// Leaves a range that must be reread to the copy of its file, if a copy is awaited; returns
    /// whether that is the case.
    fn take_back(&mut self, again: &Reread) -> bool {
        let sink = self.scope.open.sinks.iter().find(|(index, _)| *index == again.sink);
        let orphans = &mut self.history.orphans;
        sink.is_some_and(|(_, id)| orphans.take_back(again.origin, id, again.range.start))
    }

    /// Counts and settles a range that cannot be reread, because it was truncated.
    fn drop_reread(&self, again: &Reread, now: EngineTime) {
        let open = &self.scope.open;
        let range = again.range.clone();
        let sink = SinkSet::one(again.sink);
        let bytes = range.end - range.start;
        open.counters.error("truncated_unread");
        open.counters.dropped("truncated_unread", 1);
        log::error!(
            "source {}: {bytes} bytes were truncated before they could be reread for a sink",
            open.info.id
        );
        open.ledger.issue(again.origin, range, sink, again.attempt, now).finish();
    }

    /// Updates the files' lag, and releases files and records that are no longer needed.
    fn tidy_up(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        let idle_files_max = self.idle_files_max;
        self.ends_noted = now;
        self.history.orphans.close_settled(&self.scope.open.ledger, now);
        self.files.note_ends(&self.scope.open.ledger);
        self.holding().update_held(cx);
        self.holding().bound_held(cx);
        self.history.orphans.expire(&self.scope, cx);
        self.history.forget_deleted(&self.scope.open);
        self.finishing().finish_idle(idle_files_max, cx);
        self.declare_memory(cx);
    }

    /// Declares the memory that the files take, so that less data is in flight while they take a
    /// lot.
    fn declare_memory(&mut self, cx: &SourceCx<'_>) {
        let records = self.history.records.len() * RECORD_BYTES;
        let tracked = self.files.len() * FILE_BYTES + records;
        let bytes = (tracked + self.history.finished.memory_bytes()) as u64;
        self.declared.get_or_insert_with(|| cx.grant.set_aside(0)).resize(bytes);
    }

    fn is_ended(&self) -> bool {
        self.walks.is_searched() && !self.files.has_due() && self.files.iter().all(Tail::is_read)
    }
}

// Walks, and checks of changed names.
impl FileSource {
    /// Walks the folders: opens new files, and detects renamed and deleted files.
    fn walk(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        let scan_budget = ScanBudget::begin();
        let mut found = walk(&self.scope.settings.include, &self.scope.settings.exclude);
        // Follow renames with the links that were known when the files were renamed.
        let renamed = self.discovery.follow_names(self.watch.take_named(), &self.scope, cx);
        self.scope.follow_links(&mut found);
        found.files.extend(renamed);
        found.files.retain(|path| !self.retention.contains(path));
        self.watch_folders(&found.folders);
        // File watches are added after folder watches.
        self.finishing().restore_finished();
        self.history.finished.begin_walk();
        let is_first = self.walks.begin(now);
        let mut unreadable = found.unreadable;
        for pattern in found.missing {
            unreadable.insert(pattern.into(), MISSING.to_owned());
        }
        let mut appeared = self.watch.take_changes().appeared;
        let was_searched = self.walks.is_searched();
        appeared.append(&mut self.history.rotations.take_incomplete());
        let look = Look { files: &found.files, appeared: &appeared, changed: None };
        self.adopt_files(&look, &mut unreadable, cx);
        self.history.records.generations.sweep();
        self.walks.begin_check();
        if self.walks.is_searched() && !was_searched {
            log_matches(found.files.len(), cx);
        }
        self.discovery.report(unreadable, &self.scope, cx);
        // The first walk may take a long time, but must not delay the second one.
        self.walks.set_pause(if is_first { WALK_PAUSE } else { scan_budget.interval() });
    }

    fn watch_folders(&mut self, folders: &BTreeSet<PathBuf>) {
        let watched_before = self.watch.is_complete(folders);
        let begun = self.watch.set_folders(folders);
        self.history.rotations.list(begun);
        self.walks.set_watched(self.watch.is_complete(folders), watched_before);
    }

    /// Adopts files whose names appeared, and records which names vanished.
    fn check_changed_names(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        let scan_budget = ScanBudget::begin();
        let changes = self.watch.take_changes();
        let changed = ChangedNames::new(changes, self.history.rotations.take_incomplete());
        if changed.has_link(&self.scope) {
            self.walks.request();
        }
        let mut files = changed.files(&self.scope);
        files.extend(self.discovery.follow_names(self.watch.take_named(), &self.scope, cx));
        let has_folder = changed.has_folder(&files);
        let mut unreadable = self.discovery.unreadable().clone();
        changed.remove_from(&mut unreadable, &self.scope);
        // A pattern that had no match may match now. Only a walk detects that.
        let may_match = !files.is_empty() && unreadable.values().any(|reason| reason == MISSING);
        if has_folder || may_match {
            self.walks.request();
        }
        self.walks.begin_check();
        let look = Look { files: &files, appeared: &changed.appeared, changed: Some(&changed) };
        self.adopt_files(&look, &mut unreadable, cx);
        changed.add_missing(&mut unreadable, &self.scope, &self.files, &self.history);
        self.discovery.report(unreadable, &self.scope, cx);
        self.walks.end_check(now, scan_budget.interval());
    }

    /// Adopts matching files, and rotated files in the same folders.
    fn adopt_files(
        &mut self,
        look: &Look<'_>,
        unreadable: &mut BTreeMap<PathBuf, String>,
        cx: &SourceCx<'_>,
    ) {
        // A file that is found again has no record anymore.
        let listed = self.folders_to_list(look.files);
        let mut identified = self.identification().identify_all(look.files, unreadable, cx);
        self.restoring().restore_held(&mut identified, cx);
        self.note_looked(look.changed, &identified.seen, unreadable, cx.now.since_start);
        let folders: HashSet<PathBuf> =
            identified.new.iter().filter_map(|tail| folder_of(tail.descriptor())).collect();
        if !self.walks.is_searched() {
            self.identification().search_renamed(&mut identified, cx);
        }
        let beside = look.beside(&listed);
        let rotated = self.identification().rotated(beside, &mut identified, cx);
        let Identified { mut new, mut unknown, .. } = identified;
        unknown.extend(rotated);
        self.copies().adopt_unknown(unknown, &mut new, unreadable, cx);
        self.discovery.note_look(&new);
        let is_searched = self.forget_missing(&new, &folders, cx);
        if self.insertion().insert(new, cx) {
            self.scope.first_start = false;
            if is_searched {
                self.walks.note_searched();
            }
            let newest = self.files.iter().map(|tail| tail.descriptor().modified_ns).max();
            self.history.rotations.end_walk(newest);
        }
        self.files.poll_moved(cx.now.since_start);
        // A renamed file may be deleted before the next poll.
        self.holding().pin_moved(cx);
        self.history.rotations.sweep();
    }

    /// Returns the folders in which to search for rotated files now: until the first search is
    /// complete, the folders with found or recorded files, and afterward only the newly watched
    /// folders.
    fn folders_to_list(&mut self, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let unlisted = self.history.rotations.take_unlisted();
        if self.walks.is_searched() {
            return unlisted;
        }
        let parents = files.iter().filter_map(|path| path.parent().map(Path::to_path_buf));
        parents.chain(self.history.folders()).collect()
    }

    /// Records which files a look has seen: among the files with changed names, or, for a walk,
    /// among all files.
    fn note_looked(
        &mut self,
        changed: Option<&ChangedNames>,
        seen: &HashSet<OriginId>,
        unreadable: &BTreeMap<PathBuf, String>,
        now: EngineTime,
    ) {
        if let Some(changed) = changed {
            if self.files.note_changed(&changed.all, seen, &self.scope, now) {
                self.walks.request();
            }
            self.finishing().close_changed(changed, now);
        } else {
            self.files.note_seen(seen, now);
            self.finishing().close_unseen(unreadable, now);
        }
    }

    /// Removes the records of files that the search for renamed files has not found; returns
    /// whether that search is complete. `folders` are the folders with files that the walk has
    /// recognized.
    fn forget_missing(
        &mut self,
        new: &[Tail],
        folders: &HashSet<PathBuf>,
        cx: &SourceCx<'_>,
    ) -> bool {
        // An incomplete compressed file may be the new form of a missing one.
        if self.walks.is_searched() || !self.history.rotations.is_complete() {
            return false;
        }
        let search = Search { new, files: &self.files, folders, now: cx.now };
        let is_complete = self.history.forget_missing(&search, &self.scope.open);
        if !is_complete {
            self.walks.request();
        }
        is_complete
    }
}

// Reading.
impl FileSource {
    /// Fills one block from the files that are due. Also returns whether any file is blocked by
    /// sinks or by a lack of memory.
    fn fill(&mut self, cx: &SourceCx<'_>) -> (Option<Fill>, bool) {
        let mut fill: Option<Fill> = None;
        let mut blocked = Vec::new();
        let mut empty_reads = 0;
        let reads_max = EMPTY_READS_MAX + self.files.due_files();
        while let Some(id) = self.files.pop_due() {
            if !self.may_read(id, cx) {
                continue;
            }
            let Some(choice) = self.choose(id, cx, &mut blocked) else { continue };
            let alone = choice.cursor.attempt >= ALONE_FROM;
            if fill.as_ref().is_some_and(|fill| !fill.accepts(&choice.cursor, alone)) {
                self.files.push_front(id);
                break;
            }
            if fill.is_none() {
                fill = self.empty_fill(id, choice.cursor.sinks, cx);
            }
            let Some(open) = &mut fill else {
                blocked.push(id);
                break;
            };
            let rows = open.builder.rows();
            let full = self.read(id, choice, open, cx);
            empty_reads = if open.builder.rows() > rows { 0 } else { empty_reads + 1 };
            let has_lines = open.builder.has_segments();
            let empty_max = if has_lines { reads_max } else { EMPTY_READS_MAX };
            let enough = open.is_full() || empty_reads >= empty_max;
            if full || enough || (alone && has_lines) {
                break;
            }
        }
        self.after_fill(fill, blocked, cx)
    }

    /// Takes a block for lines from a file; returns `None` if there is no memory for it.
    fn empty_fill(&mut self, id: OriginId, sinks: SinkSet, cx: &SourceCx<'_>) -> Option<Fill> {
        let (block, permit) = cx.block(self.files.get(id)?.block_bytes())?;
        Some(Fill::new(block, permit, sinks, std::mem::take(&mut self.buffers)))
    }

    /// Reads a file once, and schedules its next poll; returns whether the block must be sent
    /// first.
    fn read(&mut self, id: OriginId, choice: Choice, fill: &mut Fill, cx: &SourceCx<'_>) -> bool {
        let settings = &self.scope.settings;
        let is_finite = self.scope.is_finite(cx);
        let Some(tail) = self.files.get_mut(id) else { return false };
        let silent = is_silent(tail, cx.now.since_start, FINISH_SILENCE);
        // Compressed files are read once they are complete.
        let finish = (is_finite || silent || tail.is_compressed()) && !tail.is_incomplete();
        let limits = settings.limits;
        let read_timeout = settings.read_timeout;
        let read = tail.read(Request { choice, cx, limits, finish, read_timeout }, fill);
        self.after_read(id, choice.cursor, read, cx)
    }

    /// Requeues blocked files, and saves the heads that have grown. If the heads cannot be saved,
    /// the block is not sent.
    fn after_fill(
        &mut self,
        fill: Option<Fill>,
        blocked: Vec<OriginId>,
        cx: &SourceCx<'_>,
    ) -> (Option<Fill>, bool) {
        let waits = !blocked.is_empty();
        for id in blocked.into_iter().rev() {
            self.files.push_front(id);
        }
        let Some(mut fill) = fill else { return (None, waits) };
        self.buffers = fill.take_buffers();
        if self.files.save_heads(&self.scope.open, cx) {
            return (Some(fill), waits);
        }
        for ack in fill.builder.acks() {
            ack.give_back();
        }
        (None, true)
    }

    /// Returns whether to read the file now. Reopens the file if it is closed, lets only one
    /// compressed file be decompressed at a time, and skips the data that a copy shares with its
    /// original.
    fn may_read(&mut self, id: OriginId, cx: &SourceCx<'_>) -> bool {
        if !self.holding().reopen(id, &[], cx) {
            return false;
        }
        if self.files.get(id).is_some_and(Tail::is_compressed) && !self.files.may_decompress(id) {
            return false;
        }
        let is_copy = self.files.get(id).is_some_and(|tail| tail.descriptor().copy_of.is_some());
        let ready = !is_copy || self.copies().follow_copy(id, cx).unwrap_or(false);
        if !ready {
            self.files.skip_until(id, cx.now.since_start + TICK);
        }
        ready
    }

    /// Picks one of the file's cursors. Returns `None` if the file is blocked, or has been read to
    /// its end.
    fn choose(
        &mut self,
        id: OriginId,
        cx: &SourceCx<'_>,
        blocked: &mut Vec<OriginId>,
    ) -> Option<Choice> {
        let tail = self.files.get_mut(id)?;
        let mut choice = tail.choose(cx.ready, cx.blocked);
        // The remainder of a deleted file goes to disk buffers.
        if choice.is_none() && !cx.overflow.is_empty() && !tail.is_read() && tail.is_deleted() {
            choice = tail.choose(cx.ready | cx.overflow, cx.blocked - cx.overflow);
        }
        if choice.is_some() {
            return choice;
        }
        if tail.is_read() {
            self.reached_end(id, cx);
            return None;
        }
        let is_readable = |tail: &mut Tail| tail.choose(cx.ready, cx.blocked).is_some();
        if !self.files.pass_decompression_on(id, is_readable) {
            blocked.push(id);
        }
        None
    }

    /// Handles the result of a read and schedules the file's next poll; returns whether the block
    /// must be sent first.
    fn after_read(
        &mut self,
        id: OriginId,
        cursor: Cursor,
        read: io::Result<Read>,
        cx: &SourceCx<'_>,
    ) -> bool {
        let now = cx.now.since_start;
        let position = cursor.position;
        let Some(tail) = self.files.get_mut(id) else { return false };
        let head = tail.cursors().head();
        if head > position {
            self.files.note_growth(id, now, &*self.scope.open.store);
        }
        let Some(tail) = self.files.get_mut(id) else { return false };
        match read {
            Ok(Read::Full) => {
                self.files.push_front(id);
                return true;
            }
            Ok(Read::More) => {}
            Ok(Read::Changed) => {
                self.copies().truncated(id, cx);
                return false;
            }
            Ok(Read::Nothing) if tail.check_truncated() => {
                self.copies().truncated(id, cx);
                return false;
            }
            Ok(Read::End | Read::Nothing) => {
                if !self.after_end(id, cursor, head, cx) {
                    return false;
                }
            }
            Err(error) => {
                let name = tail.name();
                cx.counters.error("read");
                log::warn!("source {}: cannot read {name}: {error}; retrying", cx.info.id);
                tail.reached(position);
                self.files.poll_at(id, now + UNWATCHED_POLL);
            }
        }
        self.files.push_back(id);
        false
    }

    /// Handles a read that reached the end of a file, which was read up to `head`. Returns `false`
    /// if the file must be read later.
    fn after_end(&mut self, id: OriginId, cursor: Cursor, head: u64, cx: &SourceCx<'_>) -> bool {
        let lacks_data = self.files.get(id).is_some_and(|tail| tail.lacks_data(cursor, head));
        if lacks_data && self.copies().awaits_copy(id, cx) {
            return false;
        }
        let open = &self.scope.open;
        let Some(tail) = self.files.get_mut(id) else { return false };
        if lacks_data {
            skip_missing(tail, cursor.position, head, cx);
        }
        tail.log_error(cx);
        tail.save_compressed_state(&*open.store);
        tail.reached(head);
        let read_timeout = self.scope.settings.read_timeout;
        self.files.poll_for_more(id, &mut self.watch, cx.now.since_start, read_timeout);
        true
    }

    /// Takes a file off the queue once all cursors have read it to its end. Closes the file if it
    /// has no path and no longer grows.
    fn reached_end(&mut self, id: OriginId, cx: &SourceCx<'_>) {
        self.files.finish_decompressing(id);
        let Some(tail) = self.files.get_mut(id) else { return };
        tail.dequeue();
        if !is_silent(tail, cx.now.since_start, GONE_SILENCE) {
            return;
        }
        let is_deleted = tail.is_deleted();
        // A crash before the commit would revert the checkpoint, so the file must stay readable
        // until then.
        if is_deleted && !self.scope.is_committed(id) {
            return;
        }
        let is_closed = if is_deleted { cx.ledger.close(id) } else { cx.ledger.retire(id) };
        if !is_closed {
            return;
        }
        let generations = &mut self.history.records.generations;
        if let Some(mut tail) = self.files.remove(id, generations) {
            self.retention.release(&mut tail);
            self.history.record_closed(tail, is_deleted, &self.scope.open);
        }
    }
}

/// A look at files, by a walk or by a check of names.
struct Look<'a> {
    /// The matching files: the files with changed names, or all files.
    files: &'a BTreeSet<PathBuf>,
    /// Names that appeared, and names of files that must be checked again.
    appeared: &'a BTreeSet<PathBuf>,
    /// The names that changed; `None` for a walk.
    changed: Option<&'a ChangedNames>,
}

impl Look<'_> {
    /// Returns the names that appeared and all files in the `listed` folders, except the files that
    /// match.
    fn beside(&self, listed: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let entries = listed.iter().flat_map(std::fs::read_dir).flatten().flatten();
        let paths = entries.map(|entry| entry.path()).chain(self.appeared.iter().cloned());
        paths.filter(|path| !self.files.contains(path)).collect()
    }
}

/// Returns whether the file has no path and has not grown for `silence`.
fn is_silent(tail: &Tail, now: EngineTime, silence: Duration) -> bool {
    tail.gone_since().is_some_and(|since| now - since.max(tail.grown()) >= silence)
}

#[cfg(test)]
impl FileSource {
    /// Waits until no file is being copied. The next poll processes the result.
    pub(crate) fn settle_copies(&mut self) {
        self.retention.settle_copies();
    }

    /// Returns the declared memory in bytes.
    pub(crate) fn declared_bytes(&self) -> u64 {
        self.declared.as_ref().map_or(0, Aside::bytes)
    }
}

#[cfg(test)]
pub(super) mod tests;
