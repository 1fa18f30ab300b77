//! Retention of undelivered files that were rotated away: links, copies made during shutdown, and
//! their limit.
//!
//! A rotated file is *held* until every sink has settled it: by a hard link in `data_dir/held`,
//! which survives deletion of the file, shutdown, `kill -9` and a power loss. If no link can be
//! created, the open descriptor holds the file. Once the file is deleted, its unsettled data is
//! copied on a thread; shutdown copies the data that has no copy yet.
//!
//! Active files are never linked, because logrotate skips files with several links. Files that
//! sinks are about to settle are not linked either, because `gzip` and logrotate's `delaycompress`
//! reject files with several links.

use super::background_copies::{BackgroundCopies, CopyRequest, whole_blocks};
use super::tails::Tails;
use crate::content::Content;
use crate::copier::Report;
use crate::copy_detection::Candidate;
use crate::held::{HeldFile, HeldFolder};
use crate::settings::HeldSettings;
use crate::tail::Tail;
use millstream_model::{EngineTime, HeldFiles, Ledger, OriginId, Owed, Remainder, SourceOpen};
use rustix::fs::fstat;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Minimum time between two warnings about the disk space of deleted files.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Why a deleted file has no copy.
const BEYOND_LIMIT: &str = "the copy would exceed held.max";

/// Number of seconds over which the growth of held files is averaged.
const GROWTH_SECONDS: f64 = 10.0;

/// State of a source's held files.
pub(super) struct Retention {
    folder: HeldFolder,
    link: bool,
    copy_at_stop: bool,
    bytes_max: u64,
    /// Copies made while the source runs.
    background: BackgroundCopies,
    /// Whether the files held before the start have been adopted.
    restored: bool,
    /// End offsets of the copies made during this shutdown, by file id.
    copied: HashMap<OriginId, u64>,
    /// Deadline for copies during shutdown.
    deadline: Option<Instant>,
    /// Files that could be neither linked nor copied during this shutdown.
    unheld: HashSet<OriginId>,
    /// Files found during this shutdown to have been rewritten since the last poll. All their
    /// content is unread.
    rewritten: HashSet<OriginId>,
    /// Unsettled bytes and events from files that were dropped while some of the data was in
    /// flight.
    given_up: HashMap<OriginId, Remainder>,
    growth: Growth,
    warned: Option<EngineTime>,
    link_failed: bool,
}

/// Bytes on disk at one time.
#[derive(Clone, Copy)]
struct Usage {
    at: EngineTime,
    bytes: u64,
}

/// Growth rate of held files.
#[derive(Default)]
struct Growth {
    sampled: Option<Usage>,
    bytes_per_second: f64,
}

impl Growth {
    fn sample(&mut self, usage: Usage) {
        if let Some(before) = self.sampled.replace(usage) {
            let seconds = (usage.at - before.at).as_secs_f64().max(1e-3);
            let weight = 1.0 - (-seconds / GROWTH_SECONDS).exp();
            let rate = (usage.bytes as f64 - before.bytes as f64) / seconds;
            self.bytes_per_second += weight * (rate - self.bytes_per_second);
        }
    }

    /// Returns the seconds until `space` more bytes are used; `None` if held files do not grow.
    fn seconds_to(&self, space: u64) -> Option<u64> {
        (self.bytes_per_second >= 1.0).then(|| (space as f64 / self.bytes_per_second) as u64)
    }
}

impl Retention {
    pub(super) fn new(settings: &HeldSettings, path: PathBuf) -> Retention {
        let folder = HeldFolder::new(path);
        Retention {
            link: settings.link,
            copy_at_stop: settings.copy_at_stop,
            bytes_max: settings.bytes_max.unwrap_or_else(|| folder.default_bytes_max()),
            folder,
            background: BackgroundCopies::default(),
            restored: false,
            copied: HashMap::new(),
            deadline: None,
            unheld: HashSet::new(),
            rewritten: HashSet::new(),
            given_up: HashMap::new(),
            growth: Growth::default(),
            warned: None,
            link_failed: false,
        }
    }

    /// Returns whether a path is in the folder of held files, which walks ignore.
    pub(super) fn contains(&self, path: &Path) -> bool {
        path.starts_with(self.folder.path())
    }

    /// Returns the path of a held file.
    pub(super) fn path_of(&self, file: &HeldFile) -> PathBuf {
        self.folder.path_of(file)
    }

    /// Links a file. The link is durable after [`Retention::sync`].
    pub(super) fn pin(&mut self, tail: &mut Tail, source: &str) {
        let Some(content) = tail.open_content().filter(|_| self.link) else { return };
        match self.folder.link(tail.id(), content.file()) {
            Ok(true) => tail.set_held(HeldFile::link(tail.id())),
            Ok(false) => {}
            Err(error) => self.log_failed(&error, source),
        }
    }

    /// Holds a rewritten file with the id of its new content. Under the old id, the file would be
    /// reread after a restart.
    pub(super) fn move_link(&mut self, old: &mut Tail, new: &mut Tail, source: &str) {
        self.background.forget_failure(old.id());
        if self.background.has(old.id()) {
            // The old content is gone, and its loss is counted.
            self.release(old);
        }
        let Some(link) = old.held().filter(|file| file.part.is_none()).cloned() else { return };
        match self.folder.rename(&link, new.id()) {
            Ok(renamed) => {
                old.take_held();
                new.set_held(renamed);
            }
            Err(error) => self.log_failed(&error, source),
        }
    }

    /// Makes the links created since the last call durable.
    pub(super) fn sync(&mut self, source: &str) {
        if let Err(error) = self.folder.sync() {
            self.log_failed(&error, source);
        }
    }

    /// Logs once that links cannot be created.
    fn log_failed(&mut self, error: &io::Error, source: &str) {
        if !std::mem::replace(&mut self.link_failed, true) {
            log::warn!(
                "source {source}: cannot create hard links in {}: {error}; keeping \
                 rotated files open and retrying",
                self.folder.path().display()
            );
        }
    }

    /// Detects a link or copy that was removed by something other than the agent.
    pub(super) fn check(&mut self, tail: &mut Tail) {
        if tail.held().is_some_and(|file| !self.folder.path_of(file).exists()) {
            tail.take_held();
            self.discard_copy(tail.id());
        }
    }

    /// Removes the link or copy of a settled file.
    pub(super) fn release(&mut self, tail: &mut Tail) {
        self.copied.remove(&tail.id());
        self.background.forget_failure(tail.id());
        self.discard_copy(tail.id());
        if let Some(file) = tail.take_held() {
            self.folder.remove(&file);
        }
    }
}

// Copies made while the source runs.
impl Retention {
    /// Returns whether a thread has made or is making a copy of the file.
    pub(super) fn has_copy(&self, id: OriginId) -> bool {
        self.background.has(id)
    }

    /// Returns whether a file is read from its held copy, because the file was deleted before the
    /// agent started. The copy may be incomplete.
    pub(super) fn is_read_from_copy(&self, tail: &Tail) -> bool {
        tail.held().is_some_and(|file| file.part.is_some()) && !self.has_copy(tail.id())
    }

    /// Returns whether the candidate contains the held copy from which a file is read, and more
    /// data of the file. The copy of a compressed file is never incomplete.
    pub(super) fn is_extended_by(&self, tail: &Tail, candidate: &mut Candidate) -> bool {
        let file = tail.held().filter(|_| self.is_read_from_copy(tail));
        let copy = file.and_then(|file| self.open_content(file).ok());
        copy.filter(|copy| !copy.is_compressed())
            .is_some_and(|mut copy| candidate.extends(&mut copy).unwrap_or(false))
    }

    /// Begins to copy the unsettled remainder of a deleted file, if it fits into `space` bytes;
    /// returns the size of the copy in bytes.
    pub(super) fn begin_copy(
        &mut self,
        tail: &Tail,
        owed: &Owed,
        space: u64,
        now: EngineTime,
        open: &SourceOpen,
    ) -> u64 {
        if !self.copy_at_stop || self.background.must_wait(tail.id(), now) {
            return 0;
        }
        let size = size_of(tail);
        let settled = if tail.is_compressed() { 0 } else { owed.settled };
        let bytes = whole_blocks(size.saturating_sub(settled));
        if bytes > space {
            self.warn_not_copied(tail, &BEYOND_LIMIT, now, &open.info.id);
            return 0;
        }
        let request = CopyRequest { tail, size, bytes, now };
        match self.background.begin(&request, self.folder.path(), open) {
            Ok(()) => bytes,
            Err(error) => {
                self.warn_not_copied(tail, &error, now, &open.info.id);
                0
            }
        }
    }

    /// Lets a copy follow its file; returns the size of the copy in bytes. Removes the copy if it
    /// does not fit into `space` bytes.
    pub(super) fn follow_copy(
        &mut self,
        tail: &mut Tail,
        space: u64,
        now: EngineTime,
        source: &str,
    ) -> u64 {
        let id = tail.id();
        if self.background.bytes_of(id) > space {
            self.release(tail);
            self.warn_not_copied(tail, &BEYOND_LIMIT, now, source);
        } else if !self.background.must_wait(id, now) {
            self.background.follow(id, size_of(tail), now);
        }
        self.background.bytes_of(id)
    }

    /// Returns the next report of the thread, if there is one.
    pub(super) fn next_copy_report(&mut self) -> Option<Report> {
        self.background.next_report()
    }

    /// Records the progress of a copy. `tail` is the file, if it is still read. The names of copies
    /// are durable after [`Retention::sync`].
    pub(super) fn note_report(
        &mut self,
        mut report: Report,
        tail: Option<&mut Tail>,
        now: EngineTime,
        source: &str,
    ) {
        let id = report.id;
        let is_needed = self.background.note_report(&mut report);
        let Some(tail) = tail.filter(|_| is_needed) else {
            if report.outcome.is_some() {
                self.folder.discard_copy(id);
            }
            return;
        };
        if let Some(held) = report.held {
            self.publish(tail, held, now, source);
        }
        match report.outcome.map(|outcome| outcome.result) {
            Some(Ok(())) => self.log_copied(tail, source),
            Some(Err(error)) => self.warn_not_copied(tail, &error, now, source),
            None => {}
        }
    }

    /// Makes the valid part of a copy hold its file, unless the file was rewritten meanwhile.
    fn publish(&mut self, tail: &mut Tail, held: HeldFile, now: EngineTime, source: &str) {
        if tail.held() == Some(&held) {
            return;
        }
        if !tail.check_same().unwrap_or(false) {
            self.release(tail);
        } else if let Err(error) = self.folder.publish(tail.held(), &held) {
            self.release(tail);
            self.warn_not_copied(tail, &error, now, source);
        } else {
            tail.set_held(held);
        }
    }

    /// Stops using a copy that a thread has made or is making.
    fn discard_copy(&mut self, id: OriginId) {
        if self.background.has(id) && self.background.discard(id) {
            self.folder.discard_copy(id);
        }
    }

    /// Discards all copies that a thread has made or is making. Files that still need a copy get a
    /// new one.
    pub(super) fn discard_copies(&mut self, files: &mut Tails) {
        for id in self.background.ids() {
            match files.get_mut(id) {
                Some(tail) => self.release(tail),
                None => self.discard_copy(id),
            }
        }
    }

    /// Logs once per file that it was copied.
    fn log_copied(&mut self, tail: &Tail, source: &str) {
        self.background.forget_failure(tail.id());
        if let Some(part) = tail.held().and_then(|file| file.part)
            && self.background.note_logged(tail.id())
        {
            log::info!(
                "source {source}: copied {} undelivered bytes of the deleted file {} to {}",
                part.to.unwrap_or(part.from) - part.from,
                tail.path().display(),
                self.folder.path().display()
            );
        }
    }

    /// Logs once per file that it could not be copied, and schedules the next attempt.
    fn warn_not_copied(&mut self, tail: &Tail, why: &dyn Display, now: EngineTime, source: &str) {
        if self.background.note_failed(tail.id(), now) {
            log::warn!(
                "source {source}: cannot copy the undelivered part of the deleted file {} to {}: \
                 {why}; this part is lost if the agent is killed before delivery; retrying",
                tail.path().display(),
                self.folder.path().display()
            );
        }
    }

    /// Waits until the thread has no more work. The next poll of the source processes the reports.
    #[cfg(test)]
    pub(super) fn settle_copies(&mut self) {
        self.background.settle();
    }
}

// Disk space.
impl Retention {
    /// Returns the maximum total size of deleted files in bytes.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Records the disk space that held files take; warns when they use half of their limit.
    pub(super) fn note_usage(&mut self, held: HeldFiles, now: EngineTime, source: &str) {
        self.growth.sample(Usage { at: now, bytes: held.bytes });
        let is_due = self.warned.is_none_or(|warned| now - warned >= WARN_INTERVAL);
        if held.bytes < held.bytes_max / 2 || held.bytes == 0 || !is_due {
            return;
        }
        self.warned = Some(now);
        let space = held.bytes_max.saturating_sub(held.bytes);
        let outlook = match self.growth.seconds_to(space) {
            Some(seconds) => format!("at this rate they reach the limit in {seconds} s"),
            None => "they are not growing".to_owned(),
        };
        log::warn!(
            "source {source}: {} undelivered deleted files use {} of at most {} bytes (held.max); \
             {outlook}; beyond this limit the oldest files are dropped; raise held.max, or speed \
             up the sinks",
            held.files,
            held.bytes,
            held.bytes_max
        );
    }

    /// Records the unsettled remainder of a file that was dropped while some of its data was in
    /// flight.
    pub(super) fn note_given_up(&mut self, id: OriginId, rest: Remainder) {
        self.given_up.insert(id, rest);
    }

    /// Forgets the dropped files that the ledger no longer tracks.
    pub(super) fn forget_delivered(&mut self, ledger: &Ledger) {
        self.given_up.retain(|id, _| ledger.owed(*id).is_some());
    }

    /// Returns the data of dropped files that was in flight and is undelivered.
    pub(super) fn lost_in_flight(&self, ledger: &Ledger) -> Remainder {
        let mut lost = Remainder::default();
        for (id, rest) in &self.given_up {
            let bytes = ledger.owed(*id).map_or(0, |owed| owed.in_flight);
            if bytes > 0 {
                let events =
                    u128::from(rest.events) * u128::from(bytes) / u128::from(rest.bytes.max(bytes));
                lost.add_file(bytes, events as u64);
            }
        }
        lost
    }
}

// At the start.
impl Retention {
    /// Treats held files as adopted until [`Retention::restore_again`]. Returns whether they must
    /// be adopted now: at the start, and after their ids could not be saved.
    pub(super) fn begin_restore(&mut self) -> bool {
        !std::mem::replace(&mut self.restored, true)
    }

    /// Requests that the next walk adopt held files again, because their ids could not be saved.
    pub(super) fn restore_again(&mut self) {
        self.restored = false;
    }

    /// Returns the path of the held files folder.
    pub(super) fn folder_path(&self) -> &Path {
        self.folder.path()
    }

    /// Lists the held files. Removes incomplete copies that a crash left behind.
    pub(super) fn list(&self) -> io::Result<Vec<HeldFile>> {
        self.folder.list()
    }

    /// Opens a held file for reading.
    pub(super) fn open(&self, file: &HeldFile) -> io::Result<File> {
        self.folder.open(file)
    }

    /// Opens the content of a held file.
    pub(super) fn open_content(&self, file: &HeldFile) -> io::Result<Content> {
        Content::new(self.open(file)?, &self.path_of(file))
    }

    /// Removes a held file that is settled and not read.
    pub(super) fn remove(&self, file: &HeldFile) {
        self.folder.remove(file);
    }

    /// Renames a held file to the id under which it will be read.
    pub(super) fn rename(&mut self, file: &HeldFile, id: OriginId) -> io::Result<HeldFile> {
        self.folder.rename(file, id)
    }
}

// During shutdown.
impl Retention {
    /// Starts the shutdown, during which files must be copied before the deadline.
    pub(super) fn begin_stop(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
        self.unheld.clear();
    }

    /// Returns the deadline for copies during shutdown.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Records during shutdown that a file was rewritten, so that its content is unread.
    pub(super) fn note_rewritten(&mut self, id: OriginId) {
        self.rewritten.insert(id);
    }

    /// Returns a file's unsettled data during shutdown. If the file was rewritten, all of its
    /// content is unsettled.
    pub(super) fn owed(&self, id: OriginId, ledger: &Ledger) -> Option<Owed> {
        let owed = ledger.owed(id)?;
        let is_rewritten = self.rewritten.contains(&id);
        Some(if is_rewritten { Owed { settled: 0, ..owed } } else { owed })
    }

    /// Returns whether an earlier attempt during this shutdown could neither link nor copy a file.
    pub(super) fn is_unheld(&self, id: OriginId) -> bool {
        self.unheld.contains(&id)
    }

    /// Returns the end offset of the copy of a file that was made during this shutdown.
    pub(super) fn copied_to(&self, id: OriginId) -> Option<u64> {
        self.copied.get(&id).copied()
    }

    /// Stops the thread that copies files. [`Retention::wait_for_report`] returns its reports.
    pub(super) fn stop_copies(&self) {
        self.background.stop();
    }

    /// Waits until `deadline` for a report of the thread that copies files. Returns `None` if the
    /// thread has no more work.
    pub(super) fn wait_for_report(&mut self, deadline: Instant) -> Option<Report> {
        self.background.wait_for_report(deadline)
    }

    /// Returns the files with a copy that was made while the source ran.
    pub(super) fn copied_files(&self) -> Vec<OriginId> {
        self.background.ids()
    }

    /// Completes the copy of a file that was made while the source ran.
    pub(super) fn finish_copy(&mut self, tail: &mut Tail, deadline: Instant, source: &str) {
        let id = tail.id();
        if let Some(copy) = self.background.idle_copy(id) {
            let finished = copy.finish(deadline);
            if let Err(error) = &finished {
                log::error!(
                    "source {source}: cannot copy the rest of the deleted file {}: {error}",
                    tail.name()
                );
            }
            if let Some(held) = copy.held(finished.is_ok()) {
                self.publish(tail, held, EngineTime::ZERO, source);
            }
        }
        let end = tail.held().and_then(HeldFile::copied_to);
        self.copied.extend(end.filter(|_| !tail.is_compressed()).map(|end| (id, end)));
    }

    /// Links a file, or copies its unsettled remainder if that fits into `space` bytes; returns the
    /// size of the copy in bytes.
    pub(super) fn hold(
        &mut self,
        tail: &mut Tail,
        space: u64,
        deadline: Instant,
        ledger: &Ledger,
        source: &str,
    ) -> u64 {
        let id = tail.id();
        let mut copied = 0;
        self.pin(tail, source);
        if tail.held().is_none() && self.copy_at_stop {
            let mut from = 0;
            if !self.rewritten.contains(&id) {
                from = ledger.owed(id).map_or(0, |owed| owed.settled);
            }
            copied = self.copy(tail, from, space, deadline, source);
        }
        if tail.held().is_none() {
            self.unheld.insert(id);
        }
        copied
    }

    /// Copies a file's content after `from` if it fits into `space` bytes; returns the bytes used.
    fn copy(
        &mut self,
        tail: &mut Tail,
        from: u64,
        space: u64,
        deadline: Instant,
        source: &str,
    ) -> u64 {
        let id = tail.id();
        let name = tail.name().to_owned();
        let Some(content) = tail.open_content() else { return 0 };
        let size = fstat(content.file()).map_or(0, |stat| stat.st_size as u64);
        let is_compressed = content.is_compressed();
        let needed = if is_compressed { size } else { size.saturating_sub(from) };
        if needed > space {
            log::error!(
                "source {source}: cannot copy the rest of the deleted file {name} because \
                 the copy would exceed held.max; raise held.max"
            );
            return 0;
        }
        match self.folder.copy(id, content, from, deadline) {
            Ok(held) => {
                let end = held.copied_to();
                tail.set_held(held);
                self.copied.extend(end.filter(|_| !is_compressed).map(|end| (id, end)));
                log::info!(
                    "source {source}: copied {needed} bytes of the deleted file {name} for the next start"
                );
                needed
            }
            Err(error) => {
                log::error!(
                    "source {source}: cannot copy the rest of the deleted file {name}: {error}"
                );
                0
            }
        }
    }
}

/// Returns the size of a file in bytes; 0 if it is closed.
fn size_of(tail: &Tail) -> u64 {
    let stat = tail.open_content().and_then(|content| fstat(content.file()).ok());
    stat.map_or(0, |stat| stat.st_size as u64)
}
