//! Schedules reads of files, and fills blocks from them.

mod changed_names;
mod copy_detection;
mod decompression;
mod discovery;
mod files;
mod finish;
mod identity;
mod open_files;
mod orphans;
mod queue;
mod retention;
mod rotations;
mod schedule;
mod set_sinks;
mod walks;

use crate::copy_detection::Candidate;
use crate::finished::FinishedFiles;
use crate::links::Links;
use crate::open::open_max;
use crate::records::{IdleRecord, Loaded, Records, forget, load_records};
use crate::renames::NameFollower;
use crate::settings::TailSettings;
use crate::tail::{ALONE_FROM, Buffers, Fill, Read, Request, Tail};
use crate::watch::Watch;
use copy_detection::skip_missing;
use files::Files;
use finish::IDLE_FILES_MAX;
use millstream_model::{
    Ack, Aside, Batch, BuildError, Choice, Cursor, EngineTime, Leftover, Now, OriginId,
    OriginRecord, OriginStore, Polled, Reread, Selection, SinkIndex, SinkSet, Source, SourceCx,
    SourceOpen,
};
use open_files::OpenLimit;
use orphans::Orphans;
use retention::Retention;
use rotations::Rotations;
use rustix::fs::fstat;
use schedule::{Schedule, TICK, UNWATCHED_POLL};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use walks::Walks;

/// Shortest pause of the source. Files that become due within it are polled together.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Longest pause of the source, and so the longest delay of a write to a quiet file.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Interval of directory walks without an inotify event.
const WALK_INTERVAL: Duration = Duration::from_secs(30);

/// The same if a folder is not watched.
const UNWATCHED_WALK_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest time between two walks, however many names change.
const WALK_PAUSE: Duration = Duration::from_millis(50);

/// A last line without a line end counts as complete once its file has no path and has not grown
/// for this long.
const FINISH_SILENCE: Duration = Duration::from_secs(2);

/// A file without a path is closed once it has not grown for this long: its writer may still have
/// it open.
const GONE_SILENCE: Duration = Duration::from_secs(10);

/// Interval of lag updates for files that are not read to their end.
const END_INTERVAL: Duration = Duration::from_secs(1);

/// A poll that has no line yet ends after this many reads, so that an endless line does not delay
/// other files or a stop. One that has lines may read each due file in addition, but no more: a
/// file that stays due without lines must not keep it from ending.
const EMPTY_READS_MAX: usize = 64;

/// The reason reported for a pattern without a match.
const MISSING: &str = "no file matches";

/// A source of lines from files.
pub struct FileSource {
    settings: TailSettings,
    buffers: Buffers,
    open: SourceOpen,
    first_start: bool,
    watch: Watch,
    links: Links,
    files: Files,
    finished: FinishedFiles,
    idle_files_max: usize,
    /// The memory of the files, declared to the grant.
    declared: Option<Aside>,
    schedule: Schedule,
    orphans: Orphans,
    /// Files whose heads have grown and must be saved before their data is sent.
    grown_heads: Vec<OriginId>,
    /// Files from before the restart that are not found yet, and closed files that may reappear
    /// under another name.
    records: Records,
    /// Recorded files that the last search has not found.
    missing: BTreeSet<OriginId>,
    /// Files from before the restart that are finished if they are unchanged.
    restored: Vec<IdleRecord>,
    rotations: Rotations,
    names: NameFollower,
    unreadable: BTreeMap<PathBuf, String>,
    walks: Walks,
    open_limit: OpenLimit,
    ends_noted: EngineTime,
    /// Undelivered files that were rotated away.
    retention: Retention,
}

impl FileSource {
    /// Creates the source from the saved records. The first poll opens files.
    ///
    /// # Errors
    /// The checkpoint store cannot be read.
    pub fn open(settings: TailSettings, open: SourceOpen) -> Result<FileSource, BuildError> {
        let ran_before = open.store.has_run().map_err(BuildError::Store)?;
        let is_finite = open.until_eof || settings.range.is_some();
        let idle_max = settings.idle_files_max.unwrap_or(IDLE_FILES_MAX);
        let loaded = load_records(&open, if is_finite { usize::MAX } else { idle_max });
        let Loaded { records, idle, .. } = loaded.map_err(BuildError::Store)?;
        Ok(FileSource {
            buffers: Buffers::default(),
            rotations: Rotations::new(&records, &idle),
            restored: idle,
            records,
            missing: BTreeSet::new(),
            retention: Retention::new(&settings.held, open.held_dir.clone()),
            open,
            first_start: !ran_before,
            watch: Watch::new(),
            links: Links::default(),
            files: Files::default(),
            finished: FinishedFiles::default(),
            idle_files_max: idle_max,
            declared: None,
            schedule: Schedule::default(),
            orphans: Orphans::default(),
            grown_heads: Vec::new(),
            names: NameFollower::default(),
            unreadable: BTreeMap::new(),
            walks: Walks::new(),
            open_limit: OpenLimit::new(
                settings.open_files_max.unwrap_or(usize::MAX).min(open_max()),
            ),
            ends_noted: EngineTime::ZERO,
            settings,
        })
    }
}

impl Source for FileSource {
    fn can_wait(&self) -> bool {
        true
    }

    fn overflows(&self) -> bool {
        self.settings.held.spool
    }

    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        let now = cx.now.since_start;
        self.take_events(cx);
        self.take_rereads(now);
        if self.walks.is_due(now) {
            self.walk(cx);
        } else if self.walks.is_check_due(now, !self.rotations.is_complete()) {
            self.check_changed_names(cx);
        }
        self.schedule.queue_due(&mut self.files, now);
        let (fill, blocked) = self.fill(cx);
        if now - self.ends_noted >= END_INTERVAL {
            self.note_ends(now);
            self.update_held(cx);
            self.bound_held(cx);
            self.expire_orphans(cx);
            self.forget_deleted(cx);
            self.finish_idle(cx);
            self.declare_memory(cx);
        }
        match fill {
            Some(fill) if fill.builder.has_segments() => self.batch(fill, cx),
            _ if blocked => Polled::Backpressure,
            _ if self.schedule.has_due() => Polled::Wait(Duration::ZERO),
            _ if self.is_finite(cx) && self.is_ended() => Polled::Ended,
            _ => Polled::Wait(self.schedule.pause(now)),
        }
    }

    fn set_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        self.change_sinks(sinks);
    }

    fn hold(&mut self, deadline: Instant) {
        self.hold_deleted(deadline);
    }

    fn leave(&mut self) -> Option<Leftover> {
        Some(self.leave_behind())
    }
}

// Inotify events, walks and due polls.
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
            self.files.iter_mut().for_each(|tail| self.schedule.poll_at(tail, now));
        }
        let mut finished = HashSet::new();
        for id in events.written {
            match self.files.get_mut(id) {
                Some(tail) => self.schedule.note_write(tail, now),
                None => _ = finished.insert(id),
            }
        }
        if !finished.is_empty() {
            self.load_written(finished, cx);
        }
    }

    fn take_rereads(&mut self, now: EngineTime) {
        for again in self.open.ledger.take_rereads() {
            if let Some(tail) = self.files.get_mut(again.origin) {
                tail.reread(&again);
                self.schedule.poll_at(tail, now);
            } else if !self.take_back(&again) {
                self.drop_reread(&again, now);
            }
        }
    }

    /// Leaves a range that must be read again to the awaited copy of its file; returns whether there
    /// is one.
    fn take_back(&mut self, again: &Reread) -> bool {
        let sink = self.open.sinks.iter().find(|(index, _)| *index == again.sink);
        sink.is_some_and(|(_, id)| self.orphans.take_back(again.origin, id, again.range.start))
    }

    /// Counts and settles a range that must be read again but was truncated.
    fn drop_reread(&self, again: &Reread, now: EngineTime) {
        let (range, sink) = (again.range.clone(), SinkSet::one(again.sink));
        let (counters, bytes) = (&self.open.counters, range.end - range.start);
        counters.error("truncated_unread");
        counters.dropped("truncated_unread", 1);
        log::error!(
            "source {}: {bytes} bytes were truncated before a sink delivered them",
            self.open.info.id
        );
        self.open.ledger.issue(again.origin, range, sink, again.attempt, now).finish();
    }

    /// Whether the source ends once it has read all files.
    pub(super) fn is_finite(&self, cx: &SourceCx<'_>) -> bool {
        cx.until_eof || self.settings.range.is_some()
    }

    fn is_ended(&self) -> bool {
        self.walks.is_searched() && !self.schedule.has_due() && self.files.iter().all(Tail::is_read)
    }
}

// Reading.
impl FileSource {
    /// Fills one block from the files that are due; also returns whether a file is blocked by sinks
    /// or memory.
    fn fill(&mut self, cx: &SourceCx<'_>) -> (Option<Fill>, bool) {
        let mut fill: Option<Fill> = None;
        let (mut blocked, mut empty_reads, finite) = (Vec::new(), 0, self.is_finite(cx));
        let reads_max = EMPTY_READS_MAX + self.schedule.due_files();
        while let Some(id) = self.schedule.pop(&self.files) {
            if !self.may_read(id, cx) {
                continue;
            }
            let Some(choice) = self.choose(id, cx, &mut blocked) else { continue };
            let Some(tail) = self.files.get_mut(id) else { continue };
            let alone = choice.cursor.attempt >= ALONE_FROM;
            if fill.as_ref().is_some_and(|fill| !fill.accepts(&choice.cursor, alone)) {
                self.schedule.push_front(tail);
                break;
            }
            if fill.is_none() {
                let block = cx.block(tail.block_bytes());
                let (buffers, sinks) = (std::mem::take(&mut self.buffers), choice.cursor.sinks);
                fill = block.map(|(block, permit)| Fill::new(block, permit, sinks, buffers));
            }
            let Some(open) = &mut fill else {
                blocked.push(id);
                break;
            };
            let silent = is_silent(tail, cx.now.since_start, FINISH_SILENCE);
            // Compressed files are read once they are complete.
            let finish = (finite || silent || tail.is_compressed()) && !tail.is_incomplete();
            let rows = open.builder.rows();
            let (limits, read_timeout) = (self.settings.limits, self.settings.read_timeout);
            let read = tail.read(Request { choice, cx, limits, finish, read_timeout }, open);
            let full = self.after_read(id, choice.cursor, read, cx);
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

    /// Queues blocked files again, and saves grown heads. If that fails, what was read is not sent.
    fn after_fill(
        &mut self,
        fill: Option<Fill>,
        blocked: Vec<OriginId>,
        cx: &SourceCx<'_>,
    ) -> (Option<Fill>, bool) {
        let waits = !blocked.is_empty();
        for id in blocked.into_iter().rev() {
            self.files.get(id).into_iter().for_each(|tail| self.schedule.push_front(tail));
        }
        let Some(mut fill) = fill else { return (None, waits) };
        self.buffers = fill.take_buffers();
        if self.keep_heads(cx) {
            return (Some(fill), waits);
        }
        fill.builder.acks().for_each(Ack::give_back);
        (None, true)
    }

    /// Saves grown heads; returns whether that succeeded. If only a shorter head were saved, other
    /// content could be mistaken for this file after a crash and sent under the same ids.
    fn keep_heads(&mut self, cx: &SourceCx<'_>) -> bool {
        let grown = std::mem::take(&mut self.grown_heads);
        let described = |id: &OriginId| Some((*id, self.files.get(*id)?.descriptor().to_bytes()));
        let heads: Vec<(OriginId, Vec<u8>)> = grown.iter().filter_map(described).collect();
        let kept = if heads.is_empty() { Ok(()) } else { self.open.store.keep(&heads) };
        if let Err(error) = &kept {
            cx.counters.error("checkpoint");
            log::error!(
                "source {}: cannot save the heads of files: {error}; trying again",
                cx.info.id
            );
            grown.iter().for_each(|id| _ = self.files.get_mut(*id).map(Tail::forget_head));
        }
        kept.is_ok()
    }

    /// Whether to read the file now. Reopens a closed file, allows one decompression at a time, and
    /// skips what a copy shares with its original.
    fn may_read(&mut self, id: OriginId, cx: &SourceCx<'_>) -> bool {
        if !self.unpark(id, &[], cx) {
            return false;
        }
        if self.files.get(id).is_some_and(Tail::is_compressed) && !self.schedule.may_decompress(id)
        {
            return false;
        }
        let is_copy = self.files.get(id).is_some_and(|tail| tail.descriptor().copy_of.is_some());
        let ready = !is_copy || self.follow_copy(id, cx).unwrap_or(false);
        if let Some(tail) = self.files.get_mut(id).filter(|_| !ready) {
            tail.skip_poll();
            self.schedule.poll_at(tail, cx.now.since_start + TICK);
        }
        ready
    }

    /// Picks a cursor of the file. `None` if the file is blocked, or was read to its end.
    fn choose(
        &mut self,
        id: OriginId,
        cx: &SourceCx<'_>,
        blocked: &mut Vec<OriginId>,
    ) -> Option<Choice> {
        let tail = self.files.get_mut(id)?;
        let choice = tail.choose(cx.ready, cx.blocked).or_else(|| {
            // What is left of a deleted file goes to disk buffers.
            let spools = !cx.overflow.is_empty() && !tail.is_read() && tail.is_deleted();
            let (ready, blocked) = (cx.ready | cx.overflow, cx.blocked - cx.overflow);
            spools.then(|| tail.choose(ready, blocked)).flatten()
        });
        match choice {
            Some(choice) => return Some(choice),
            None if tail.is_read() => self.reached_end(id, cx),
            None => {
                let may_go_on = |tail: &mut Tail| tail.choose(cx.ready, cx.blocked).is_some();
                if !self.schedule.pass_decompression_on(id, &mut self.files, may_go_on) {
                    blocked.push(id);
                }
            }
        }
        None
    }

    /// Handles the result of a read and schedules the next poll of the file; returns whether the
    /// block must be sent first.
    fn after_read(
        &mut self,
        id: OriginId,
        cursor: Cursor,
        read: io::Result<Read>,
        cx: &SourceCx<'_>,
    ) -> bool {
        let (now, position) = (cx.now.since_start, cursor.position);
        let Some(tail) = self.files.get_mut(id) else { return false };
        let head = tail.cursors().head();
        if head > position {
            self.schedule.note_growth(tail, now);
            self.grown_heads.extend(describe(tail, &*self.open.store));
        }
        match read {
            Ok(Read::Full) => {
                self.schedule.push_front(tail);
                return true;
            }
            Ok(Read::More) => {}
            Ok(Read::Changed) => return self.truncated(id, cx),
            Ok(Read::Nothing) if tail.check_truncated() => return self.truncated(id, cx),
            Ok(Read::End | Read::Nothing) => {
                // The file ends before data that other cursors have read: a copy lacks it.
                if tail.is_in_copy() && position < head && tail.cursors().list().contains(&cursor) {
                    skip_missing(tail, position, head, cx);
                }
                tail.log_error(cx);
                tail.save_compressed_state(&*self.open.store);
                tail.reached(head);
                let overdue = self.settings.read_timeout.and_then(|after| tail.overdue_at(after));
                self.schedule.poll_for_more(tail, &mut self.watch, now, overdue);
            }
            Err(error) => {
                tail.reached(position);
                self.schedule.poll_at(tail, now + UNWATCHED_POLL);
                cx.counters.error("read");
                let name = tail.name();
                log::warn!("source {}: cannot read {name}: {error}; trying again", cx.info.id);
            }
        }
        self.schedule.push_back(id, &self.files);
        false
    }

    /// Takes a file off the queue once all cursors have read it to its end. Closes it if it has no
    /// path and does not grow any more.
    fn reached_end(&mut self, id: OriginId, cx: &SourceCx<'_>) {
        self.schedule.finish_decompressing(id, &self.files);
        let Some(tail) = self.files.get_mut(id) else { return };
        tail.dequeue();
        if !is_silent(tail, cx.now.since_start, GONE_SILENCE) {
            return;
        }
        let deleted = tail.is_deleted();
        // A crash before the commit would revert the checkpoint, so the file must stay readable
        // until then.
        if deleted && !self.is_committed(id) {
            return;
        }
        let closed = if deleted { cx.ledger.close(id) } else { cx.ledger.retire(id) };
        if let Some(mut tail) = closed.then(|| self.remove(id)).flatten() {
            self.retention.release(&mut tail);
            self.record_closed(tail, deleted);
        }
    }

    fn remove(&mut self, id: OriginId) -> Option<Tail> {
        self.schedule.finish_decompressing(id, &self.files);
        let tail = self.files.remove(id)?;
        self.schedule.remove(&tail);
        self.records.generations.release(tail.descriptor());
        Some(tail)
    }

    /// Records a file that could not be adopted. The next walk finds it with its id and
    /// checkpoints.
    fn put_back(&mut self, tail: Tail) {
        let checkpoints = tail.checkpoints(&self.open.sinks);
        let record = OriginRecord { id: tail.id(), descriptor: Vec::new(), checkpoints };
        self.records.insert(record, tail.into_descriptor());
    }

    /// Handles a truncated file. Its content is a new file with a new id; reading of the old
    /// content continues in its copy, if there is one.
    fn truncated(&mut self, id: OriginId, cx: &SourceCx<'_>) -> bool {
        let copy = self.find_copy(id);
        let Some(old) = self.files.get_mut(id) else { return false };
        log::info!(
            "source {}: {} was truncated; reading it from its beginning",
            cx.info.id,
            old.name()
        );
        let (path, before) = (old.path().to_path_buf(), old.origin().clone());
        let again = old.content().and_then(|content| Candidate::of(path, content.duplicate()));
        match again.and_then(|candidate| self.adopt_rewritten(candidate, cx)) {
            Ok(Some(mut tail)) => {
                cx.counters.noted("truncations", 1);
                if let Some(old) = self.files.get_mut(id) {
                    self.retention.move_link(old, &mut tail, &cx.info.id);
                }
                let before = before.state.truncations.swap(0, Relaxed);
                tail.origin().state.truncations.store(before + 1, Relaxed);
                match copy {
                    Some((copy, known)) => self.continue_in_copy(id, copy, known, cx),
                    None => self.orphan(id, cx),
                }
                self.insert(vec![tail], cx);
            }
            Ok(None) => self.poll_later(id, cx),
            Err(error) => {
                log::warn!(
                    "source {}: cannot read a truncated file: {error}; trying again",
                    cx.info.id
                );
                self.poll_later(id, cx);
            }
        }
        false
    }

    fn poll_later(&mut self, id: OriginId, cx: &SourceCx<'_>) {
        if let Some(tail) = self.files.get_mut(id) {
            tail.skip_poll();
            self.schedule.poll_at(tail, cx.now.since_start + UNWATCHED_POLL);
        }
    }

    fn forget(&self, id: OriginId, cx: &SourceCx<'_>) {
        forget(&[id], &*self.open.store, &cx.info.id);
    }

    fn batch(&mut self, fill: Fill, cx: &SourceCx<'_>) -> Polled {
        let used = fill.used();
        let block = fill.block.freeze(used);
        let mut batch = fill.builder.finish(block, cx.info.clone(), fill.sinks, cx.now.unix_ns);
        fill.metadata.finish(&mut batch);
        cx.counters.received(batch.rows() as u64, 0);
        batch.header = fill.header;
        cx.counters.dropped("header", leave_out(&fill.header_rows, &mut batch));
        cx.counters.dropped(
            "filtered",
            self.settings.range.as_mut().map_or(0, |range| range.apply(&mut batch)),
        );
        cx.counters.dropped("filtered", self.settings.filters.apply(&mut batch));
        cx.counters.sent(batch.events() as u64, batch.text_bytes());
        Polled::Batch(Box::new(batch), fill.permit)
    }
}

/// Deselects header lines, which are no events; returns how many.
fn leave_out(header_rows: &[u32], batch: &mut Batch) -> u64 {
    if header_rows.is_empty() {
        return 0;
    }
    let is_event = |row| header_rows.binary_search(&(row as u32)).is_err();
    batch.select(Selection::collect_bool(batch.rows(), is_event));
    header_rows.len() as u64
}

/// Updates the file's descriptor after a read; returns the file's id if the descriptor must be
/// saved before the data is sent.
fn describe(tail: &mut Tail, store: &dyn OriginStore) -> Option<OriginId> {
    let (id, marked) = (tail.id(), tail.update_fingerprint());
    if !tail.descriptor().head.is_full() && tail.update_head() {
        return Some(id);
    }
    if marked {
        // Saved together with the checkpoint, so that a copy is recognized after the file is gone.
        store.note(id, tail.descriptor().to_bytes());
    }
    None
}

/// Returns the time since the last write to the file.
fn age(tail: &Tail, now: Now) -> Duration {
    let stat = tail.open_content().map(|content| fstat(content.file()));
    let written = stat.and_then(Result::ok).map_or(i64::MAX, |stat| stat.st_mtime);
    Duration::from_secs((now.unix_ns / 1_000_000_000).saturating_sub(written).max(0) as u64)
}

/// Whether the file has no path and has not grown for `silence`.
fn is_silent(tail: &Tail, now: EngineTime, silence: Duration) -> bool {
    tail.gone_since().is_some_and(|since| now - since.max(tail.grown()) >= silence)
}

// Metrics.
impl FileSource {
    /// Updates the lag of files that are not read to their end.
    fn note_ends(&mut self, now: EngineTime) {
        self.ends_noted = now;
        self.orphans.close_settled(&self.open.ledger, now);
        for tail in self.files.iter_mut() {
            let content =
                tail.open_content().filter(|content| tail.is_queued() && !content.is_compressed());
            if let Some(Ok(stat)) = content.map(|content| fstat(content.file())) {
                self.open.ledger.note_end(tail.id(), stat.st_size as u64);
                tail.origin().state.size.fetch_max(stat.st_size as u64, Relaxed);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
