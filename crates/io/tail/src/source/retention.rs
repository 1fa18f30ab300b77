//! Retention of undelivered files that were rotated away: links, copies at a stop, and their limit.
//!
//! A rotated file is *held* until every sink has settled it: by a hard link in `data_dir/held`,
//! which survives deletion of the file, a stop, `kill -9` and a power loss. If no link can be
//! created, the open descriptor holds the file, and a stop copies its unsettled data.
//!
//! Active files are never linked, as logrotate skips files with several links. Nor are files that
//! sinks are about to settle, as `gzip` and logrotate's `delaycompress` reject files with several
//! links.

use super::FileSource;
use super::discovery::Identified;
use crate::content::Content;
use crate::copy_detection::Candidate;
use crate::held::{HeldFile, HeldFolder};
use crate::identity::Inode;
use crate::records::FileRecord;
use crate::settings::HeldSettings;
use crate::tail::Tail;
use millstream_model::{EngineTime, Held, Leftover, OriginId, Owed, Remainder, SourceCx};
use rustix::fs::{Stat, fstat};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A rotated file is linked once its oldest unsettled range is this old, even if every sink is
/// ready. Longer than the latency of a sink that syncs every second.
const LINK_AFTER: Duration = Duration::from_millis(1500);

/// Shortest time between two warnings about the disk space of deleted files.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Seconds over which the growth of held files is averaged.
const GROWTH_SECONDS: f64 = 10.0;

/// Maximum number of bytes in which lines are counted; a larger count is extrapolated.
const COUNT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes per read when counting lines.
const COUNT_BYTES: usize = 256 * 1024;

/// Drop reason of data of deleted files beyond the limit `held.max`.
const HELD_MAX: &str = "held_max";

/// Drop reason of data of deleted files that could not be held at a stop.
const NOT_HELD: &str = "deleted_undelivered";

/// State of the held files of a source.
pub(super) struct Retention {
    folder: HeldFolder,
    link: bool,
    copy_at_stop: bool,
    bytes_max: u64,
    /// Whether files held before the start were adopted.
    restored: bool,
    /// End offsets of the copies made at this stop, by file id.
    copied: HashMap<OriginId, u64>,
    /// Time by which a stop must have made its copies.
    deadline: Option<Instant>,
    /// Files that could be neither linked nor copied at this stop.
    unheld: HashSet<OriginId>,
    /// Files that were rewritten after the last poll, detected at this stop. All their content is
    /// unread.
    rewritten: HashSet<OriginId>,
    /// Unsettled bytes and events of files that were dropped while data of them was in flight.
    given_up: HashMap<OriginId, Remainder>,
    growth: Growth,
    warned: Option<EngineTime>,
    link_failed: bool,
}

/// Growth rate of held files.
#[derive(Default)]
struct Growth {
    sampled: Option<(EngineTime, u64)>,
    bytes_per_second: f64,
}

impl Growth {
    fn sample(&mut self, now: EngineTime, bytes: u64) {
        if let Some((before, was)) = self.sampled.replace((now, bytes)) {
            let seconds = (now - before).as_secs_f64().max(1e-3);
            let weight = 1.0 - (-seconds / GROWTH_SECONDS).exp();
            let rate = (bytes as f64 - was as f64) / seconds;
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

    /// Whether a path is in the folder of held files, which a walk ignores.
    pub(super) fn contains(&self, path: &Path) -> bool {
        path.starts_with(self.folder.path())
    }

    /// Returns the path of a held file.
    pub(super) fn path_of(&self, file: &HeldFile) -> PathBuf {
        self.folder.path_of(file)
    }

    /// Makes the next walk adopt held files again, as their ids could not be saved.
    pub(super) fn restore_again(&mut self) {
        self.restored = false;
    }

    /// Links a file; durable after [`Retention::sync`].
    fn pin(&mut self, tail: &mut Tail, source: &str) {
        let Some(content) = tail.open_content().filter(|_| self.link) else { return };
        match self.folder.link(tail.id(), content.file()) {
            Ok(true) => tail.set_held(HeldFile { id: tail.id(), copied_from: None }),
            Ok(false) => {}
            Err(error) => self.log_failed(&error, source),
        }
    }

    /// Holds a rewritten file under the id of its new content. Under the old id the next start would
    /// read it again.
    pub(super) fn move_link(&mut self, old: &mut Tail, new: &mut Tail, source: &str) {
        let Some(link) = old.held().filter(|file| file.copied_from.is_none()).cloned() else {
            return;
        };
        match self.folder.rename(&link, new.id()) {
            Ok(renamed) => {
                old.take_held();
                new.set_held(renamed);
            }
            Err(error) => self.log_failed(&error, source),
        }
    }

    fn sync(&mut self, source: &str) {
        if let Err(error) = self.folder.sync() {
            self.log_failed(&error, source);
        }
    }

    /// Logs once that links cannot be created.
    fn log_failed(&mut self, error: &io::Error, source: &str) {
        if !std::mem::replace(&mut self.link_failed, true) {
            log::warn!(
                "source {source}: cannot create hard links in {}: {error}; keeping rotated files open, trying again",
                self.folder.path().display()
            );
        }
    }

    /// Records at a stop that a file was rewritten, so that its content is unread.
    pub(super) fn note_rewritten(&mut self, id: OriginId) {
        self.rewritten.insert(id);
    }

    /// Detects a link or copy that was removed by something other than the agent.
    fn check(&self, tail: &mut Tail) {
        if tail.held().is_some_and(|file| !self.folder.path_of(file).exists()) {
            tail.take_held();
        }
    }

    /// Removes the link or copy of a settled file.
    pub(super) fn release(&mut self, tail: &mut Tail) {
        self.copied.remove(&tail.id());
        if let Some(file) = tail.take_held() {
            self.folder.remove(&file);
        }
    }
}

// While the source runs.
impl FileSource {
    /// Links undelivered files that were just renamed or lost their last name.
    pub(super) fn pin_moved(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        let has_moved = |tail: &&mut Tail| tail.has_moved(now) && tail.held().is_none();
        for tail in self.files.iter_mut().filter(has_moved) {
            tail.clear_moved();
            if cx.ledger.owed(tail.id()).is_some_and(|owed| is_late(tail, &owed, cx)) {
                self.retention.pin(tail, &cx.info.id);
            }
        }
        self.retention.sync(&cx.info.id);
    }

    /// Links undelivered rotated files, and releases settled ones.
    pub(super) fn update_held(&mut self, cx: &SourceCx<'_>) {
        let mut settled = Vec::new();
        for tail in self.files.iter_mut().filter(|tail| tail.held().is_some() || tail.is_rotated())
        {
            let Some(owed) = cx.ledger.owed(tail.id()) else { continue };
            self.retention.check(tail);
            tail.update_status();
            match tail.held() {
                Some(_) if unsettled(tail, &owed) == 0 => settled.push((tail.id(), owed)),
                Some(_) => {}
                None if is_late(tail, &owed, cx) => self.retention.pin(tail, &cx.info.id),
                None => {}
            }
        }
        self.retention.sync(&cx.info.id);
        for (id, owed) in settled {
            // A link that is the only name stays until the file is closed.
            if !owed.moved
                && self.open.store.is_committed(id)
                && let Some(tail) = self.files.get_mut(id).filter(|tail| !tail.is_deleted())
            {
                self.retention.release(tail);
            }
        }
    }

    /// Whether the checkpoints of a file are durable.
    pub(super) fn is_committed(&self, id: OriginId) -> bool {
        self.open.ledger.owed(id).is_none_or(|owed| !owed.moved) && self.open.store.is_committed(id)
    }

    /// Drops deleted files, oldest deletion first, until the others are within the limit.
    pub(super) fn bound_held(&mut self, cx: &SourceCx<'_>) {
        let mut deleted: Vec<(EngineTime, OriginId, u64)> =
            self.files.iter().filter_map(deleted).collect();
        deleted.sort_unstable();
        let mut held = Held {
            files: deleted.len() as u64,
            bytes: deleted.iter().map(|(_, _, bytes)| bytes).sum(),
            bytes_max: self.retention.bytes_max,
        };
        for (_, id, bytes) in deleted {
            if held.bytes <= held.bytes_max {
                break;
            }
            held.files -= 1;
            held.bytes -= bytes;
            self.give_up(id, HELD_MAX, cx);
        }
        self.retention.given_up.retain(|id, _| cx.ledger.owed(*id).is_some());
        cx.counters.set_held(held);
        self.retention.growth.sample(cx.now.since_start, held.bytes);
        self.warn_of_held(held, cx);
    }

    /// Warns when held files use half of their limit.
    fn warn_of_held(&mut self, held: Held, cx: &SourceCx<'_>) {
        let (now, retention) = (cx.now.since_start, &mut self.retention);
        let is_due = retention.warned.is_none_or(|warned| now - warned >= WARN_INTERVAL);
        if held.bytes < held.bytes_max / 2 || held.bytes == 0 || !is_due {
            return;
        }
        retention.warned = Some(now);
        let space = held.bytes_max.saturating_sub(held.bytes);
        let outlook = match retention.growth.seconds_to(space) {
            Some(seconds) => format!("at this rate they reach the limit in {seconds} s"),
            None => "they are not growing".to_owned(),
        };
        log::warn!(
            "source {}: {} undelivered deleted files use {} bytes of at most {} (held.max); {outlook}; \
             beyond it the oldest are dropped; raise held.max, or speed up the sinks",
            cx.info.id,
            held.files,
            held.bytes,
            held.bytes_max
        );
    }

    /// Drops a file; counts and logs its unread data.
    pub(super) fn give_up(&mut self, id: OriginId, reason: &'static str, cx: &SourceCx<'_>) {
        let Some(mut tail) = self.remove(id) else { return };
        let from = tail.cursors().list().iter().map(|cursor| cursor.position).min();
        let lost = rest_of(&tail, from.unwrap_or(0));
        self.count_lost(&tail, lost, reason);
        if let Some(owed) = cx.ledger.owed(id).filter(|owed| owed.in_flight > 0) {
            self.retention.given_up.insert(id, rest_of(&tail, owed.settled));
            log::warn!(
                "source {}: dropped {} ({reason}); {} bytes of it are in flight, and are lost if the agent stops \
                 before their delivery",
                cx.info.id,
                tail.name(),
                owed.in_flight
            );
        }
        self.retention.release(&mut tail);
        self.orphans.close(id);
        self.forget(id, cx);
        self.remember_given_up(tail, cx);
    }

    fn count_lost(&self, tail: &Tail, lost: Remainder, reason: &'static str) {
        if lost.bytes == 0 {
            return;
        }
        let counters = &self.open.counters;
        counters.error(reason);
        counters.dropped(reason, lost.events);
        counters.dropped_bytes(reason, lost.bytes);
        log::error!(
            "source {}: lost {} bytes ({} lines) of the deleted file {} ({reason})",
            self.open.info.id,
            lost.bytes,
            lost.events,
            tail.path().display()
        );
    }
}

// At the start.
impl FileSource {
    /// Adopts files that were held when the agent ended. A held file that still has another path is
    /// not adopted twice.
    pub(super) fn restore_held(&mut self, identified: &mut Identified, cx: &SourceCx<'_>) {
        if std::mem::replace(&mut self.retention.restored, true) {
            return;
        }
        let files = self.retention.folder.list().unwrap_or_else(|error| {
            log::error!(
                "source {}: cannot list the held files in {}: {error}; check its permissions",
                cx.info.id,
                self.retention.folder.path().display()
            );
            cx.counters.error("read");
            Vec::new()
        });
        for file in
            files.into_iter().filter(|file| self.files.get(file.id).is_none()).collect::<Vec<_>>()
        {
            match self.adopt_held(&file, &mut identified.new, cx) {
                Ok(Some(tail)) => self.add_held(tail, identified),
                Ok(None) => {}
                Err(error) => self.log_unreadable(&file, &error, cx),
            }
        }
    }

    fn add_held(&self, mut tail: Tail, identified: &mut Identified) {
        if let Some(index) = identified.unknown.iter().position(|other| other.inode == tail.inode())
        {
            // A file continued in this copy, and its new inode was not committed.
            tail.set_path(&identified.unknown.swap_remove(index).path);
            tail.mark_present();
        }
        identified.inodes.insert(tail.inode());
        self.add_new(&mut identified.new, tail);
    }

    fn log_unreadable(&self, file: &HeldFile, error: &io::Error, cx: &SourceCx<'_>) {
        let path = self.retention.folder.path_of(file);
        log::error!(
            "source {}: cannot read the held file {}: {error}; trying again at the next start",
            cx.info.id,
            path.display()
        );
        cx.counters.error("read");
    }

    fn adopt_held(
        &mut self,
        file: &HeldFile,
        new: &mut [Tail],
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        let opened = self.retention.folder.open(file)?;
        let stat = fstat(&opened)?;
        let inode = Inode::of(&stat);
        if self.files.id_of(inode).is_some() {
            return Ok(None);
        }
        if self.finished.get(inode).is_some() {
            // All of it was settled.
            self.retention.folder.remove(file);
            return Ok(None);
        }
        // The file still has another path.
        if let Some(tail) = new.iter_mut().find(|tail| tail.inode() == inode) {
            tail.set_held(file.clone());
            return Ok(None);
        }
        let content = Content::new(opened, &self.retention.folder.path_of(file))?;
        let mut tail = self.resume_held(file, content, &stat, cx)?;
        tail.mark_gone(cx.now.since_start);
        Ok(Some(tail))
    }

    /// Adopts a held file that has no other path, to resume reading it.
    fn resume_held(
        &mut self,
        file: &HeldFile,
        mut content: Content,
        stat: &Stat,
        cx: &SourceCx<'_>,
    ) -> io::Result<Tail> {
        let path = self.retention.folder.path_of(file);
        let start = file.copied_from.filter(|_| !content.is_compressed()).unwrap_or(0);
        let mut tail = match self.take_record_of(file.id, &mut content) {
            HeldRecord::Same(known) => {
                let (record, mut descriptor) = *known;
                (descriptor.device, descriptor.inode) = (stat.st_dev, stat.st_ino);
                let path_before = PathBuf::from(&*descriptor.path);
                self.resume(content, stat, &path_before, record, descriptor)
            }
            // The file was rewritten before its deletion, so it gets a new id.
            HeldRecord::Other => {
                let mut tail = self.adopt(Candidate::of(path, content)?, start)?;
                tail.set_held(self.retention.folder.rename(file, tail.id())?);
                return Ok(tail);
            }
            HeldRecord::Unknown => {
                log::warn!(
                    "source {}: the checkpoint store has no record of the held file {}; reading it from its beginning",
                    cx.info.id,
                    path.display()
                );
                self.adopt_as(file.id, Candidate::of(path, content)?, start)?
            }
        };
        tail.set_held(file.clone());
        Ok(tail)
    }

    /// Removes and returns the record of the file with this id, if the content matches.
    fn take_record_of(&mut self, id: OriginId, content: &mut Content) -> HeldRecord {
        let Some((record, descriptor)) = self.records.get(id) else { return HeldRecord::Unknown };
        let settled = record.checkpoints.iter().map(|(_, offset)| *offset).max().unwrap_or(0);
        if !descriptor.identifies(content, settled.max(descriptor.start)).unwrap_or(false) {
            return HeldRecord::Other;
        }
        self.records
            .remove(id)
            .map_or(HeldRecord::Unknown, |known| HeldRecord::Same(Box::new(known)))
    }
}

/// The record of a held file in the checkpoint store.
enum HeldRecord {
    Same(Box<FileRecord>),
    /// The recorded file had other content.
    Other,
    Unknown,
}

// At a stop.
impl FileSource {
    /// Links or copies undelivered deleted files that only their descriptors hold. Newest first, so
    /// that the oldest are lost if disk space or time runs out.
    pub(super) fn hold_deleted(&mut self, deadline: Instant) {
        self.retention.deadline = Some(deadline);
        self.retention.unheld.clear();
        self.hold_unreachable(deadline);
    }

    fn hold_unreachable(&mut self, deadline: Instant) {
        for tail in self.files.iter_mut() {
            self.retention.check(tail);
            if !is_reachable(tail) && !tail.check_same().unwrap_or(true) {
                self.retention.rewritten.insert(tail.id());
            }
        }
        let mut owed: Vec<(EngineTime, OriginId)> = Vec::new();
        let unheld = &self.retention.unheld;
        let to_hold = |tail: &&Tail| tail.held().is_none() && !unheld.contains(&tail.id());
        for tail in self.files.iter().filter(to_hold) {
            let settled = self.owed_at_stop(tail);
            if settled.is_some_and(|owed| unsettled(tail, &owed) > 0) && !is_reachable(tail) {
                owed.push((tail.gone_since().unwrap_or_default(), tail.id()));
            }
        }
        owed.sort_unstable();
        let held = self.files.iter().filter(|tail| tail.held().is_some()).filter_map(deleted);
        let mut space =
            self.retention.bytes_max.saturating_sub(held.map(|(_, _, bytes)| bytes).sum());
        for (_, id) in owed.into_iter().rev() {
            let Some(tail) = self.files.get_mut(id) else { continue };
            self.retention.pin(tail, &self.open.info.id);
            if tail.held().is_none() && self.retention.copy_at_stop {
                let is_rewritten = self.retention.rewritten.contains(&id);
                let settled = self.open.ledger.owed(id).map_or(0, |owed| owed.settled);
                let from = if is_rewritten { 0 } else { settled };
                space = space.saturating_sub(self.retention.copy(
                    tail,
                    from,
                    space,
                    deadline,
                    &self.open.info.id,
                ));
            }
            if tail.held().is_none() {
                self.retention.unheld.insert(id);
            }
        }
        self.retention.sync(&self.open.info.id);
    }

    /// Returns how much data stays unsettled, waiting on disk or lost. Removes links and copies of
    /// settled files.
    pub(super) fn leave_behind(&mut self) -> Leftover {
        // Files may have been deleted since the sources were closed.
        if let Some(deadline) = self.retention.deadline {
            self.hold_unreachable(deadline);
        }
        let mut left = Leftover::default();
        let mut settled = Vec::new();
        left.lost += self.count_unseen_truncations();
        for tail in self.files.iter() {
            let Some(owed) = self.owed_at_stop(tail) else { continue };
            let bytes = unsettled(tail, &owed);
            if bytes == 0 {
                settled.push(tail.id());
                continue;
            }
            let lost = self.lost_of(tail, &owed);
            self.count_lost(tail, lost, NOT_HELD);
            if lost.bytes > 0 {
                left.lost += lost;
            }
            if bytes > lost.bytes {
                left.waiting.add_file(bytes - lost.bytes, 0);
            }
        }
        self.count_orphans();
        left.lost += self.lost_in_flight();
        for id in settled {
            if self.is_committed(id)
                && let Some(tail) = self.files.get_mut(id)
            {
                self.retention.release(tail);
            }
        }
        left
    }

    /// Counts data of dropped files that was in flight and is not delivered.
    fn lost_in_flight(&self) -> Remainder {
        let mut lost = Remainder::default();
        for (id, rest) in &self.retention.given_up {
            let bytes = self.open.ledger.owed(*id).map_or(0, |owed| owed.in_flight);
            if bytes > 0 {
                let events =
                    u128::from(rest.events) * u128::from(bytes) / u128::from(rest.bytes.max(bytes));
                lost.add_file(bytes, events as u64);
            }
        }
        let counters = &self.open.counters;
        counters.dropped(HELD_MAX, lost.events);
        counters.dropped_bytes(HELD_MAX, lost.bytes);
        lost
    }

    /// Returns what is unsettled of a file at a stop.
    fn owed_at_stop(&self, tail: &Tail) -> Option<Owed> {
        let owed = self.open.ledger.owed(tail.id())?;
        let is_rewritten = self.retention.rewritten.contains(&tail.id());
        Some(if is_rewritten { Owed { settled: 0, ..owed } } else { owed })
    }

    /// Returns the data of an undelivered file that the next start cannot read.
    fn lost_of(&self, tail: &Tail, owed: &Owed) -> Remainder {
        match (tail.held(), self.retention.copied.get(&tail.id())) {
            (Some(_), Some(end)) => rest_of(tail, *end),
            (Some(_), None) => Remainder::default(),
            (None, _) if is_reachable(tail) => Remainder::default(),
            (None, _) => rest_of(tail, owed.settled),
        }
    }
}

impl Retention {
    /// Copies the rest of a file if it fits into `space` bytes; returns the bytes used.
    fn copy(
        &mut self,
        tail: &mut Tail,
        from: u64,
        space: u64,
        deadline: Instant,
        source: &str,
    ) -> u64 {
        let (id, name) = (tail.id(), tail.name().to_owned());
        let Some(content) = tail.open_content() else { return 0 };
        let size = fstat(content.file()).map_or(0, |stat| stat.st_size as u64);
        let needed = if content.is_compressed() { size } else { size.saturating_sub(from) };
        if needed > space {
            log::error!(
                "source {source}: cannot copy the rest of the deleted file {name}: held.max is reached; raise it"
            );
            return 0;
        }
        match self.folder.copy(id, content, from, deadline) {
            Ok(end) => {
                let is_compressed = content.is_compressed();
                let copied_from = Some(if is_compressed { 0 } else { from });
                tail.set_held(HeldFile { id, copied_from });
                self.copied.extend((!is_compressed).then_some((id, end)));
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

/// Whether delivery of a rotated file is so late that the file should be linked: data has been in
/// flight for long, or there is unread data and a sink is not ready.
fn is_late(tail: &Tail, owed: &Owed, cx: &SourceCx<'_>) -> bool {
    let age = |issued| cx.now.since_start - issued;
    let is_blocked = !cx.sinks.is_subset(cx.ready);
    let is_old = owed.oldest.is_some_and(|issued| age(issued) >= LINK_AFTER);
    is_old || is_blocked && tail.has_unread() && unsettled(tail, owed) > 0
}

/// Returns the bytes of a file that some sink has not settled. For a compressed file, its size or
/// 0.
fn unsettled(tail: &Tail, owed: &Owed) -> u64 {
    let Some(content) = tail.open_content() else {
        return tail.origin().state.size.load(Relaxed).saturating_sub(owed.settled);
    };
    let size = fstat(content.file()).map_or(0, |stat| stat.st_size as u64);
    if !content.is_compressed() {
        return size.saturating_sub(owed.settled);
    }
    let is_settled =
        tail.end().is_some_and(|end| end <= owed.settled && !tail.cursors().is_behind(end));
    if is_settled { 0 } else { size }
}

/// Returns, for a deleted file, the time of its deletion, its id, and its bytes on disk.
fn deleted(tail: &Tail) -> Option<(EngineTime, OriginId, u64)> {
    let stat = fstat(tail.open_content().filter(|_| tail.is_rotated())?.file()).ok()?;
    // Blocks instead of the size, as a copy has a hole in place of its settled bytes.
    let (since, bytes) = (tail.gone_since().unwrap_or(tail.grown()), stat.st_blocks as u64 * 512);
    tail.is_deleted().then_some((since, tail.id(), bytes))
}

/// Whether the next start can find the file: under a matching name, or in the folder in which it
/// was first seen.
fn is_reachable(tail: &Tail) -> bool {
    if tail.gone_since().is_none() || tail.is_deleted() {
        return !tail.is_deleted();
    }
    let is_it =
        |path: &Path| rustix::fs::stat(path).is_ok_and(|stat| Inode::of(&stat) == tail.inode());
    let name = Path::new(tail.descriptor().name());
    let folder = name.parent();
    let Some(entries) = folder.and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return false;
    };
    is_it(name) || entries.flatten().any(|entry| is_it(&entry.path()))
}

/// Returns the bytes of a file after offset `from`, and the lines in them.
fn rest_of(tail: &Tail, from: u64) -> Remainder {
    let Some(content) = tail.open_content() else {
        let bytes = tail.origin().state.size.load(Relaxed).saturating_sub(from);
        return Remainder { files: 1, bytes, events: u64::from(bytes > 0) };
    };
    let size = fstat(content.file()).map_or(0, |stat| stat.st_size as u64);
    let is_read = content.is_compressed() && tail.end().is_some_and(|end| end <= from);
    let bytes = match content.is_compressed() {
        true if is_read => 0,
        true => size,
        false => size.saturating_sub(from),
    };
    let events = if bytes == 0 { 0 } else { count_lines(content.duplicate(), from, bytes) };
    Remainder { files: u64::from(bytes > 0), bytes, events }
}

/// Returns the number of lines after offset `from`; an estimate beyond [`COUNT_BYTES_MAX`]. A last
/// line without a line end counts.
fn count_lines(mut content: Content, from: u64, bytes: u64) -> u64 {
    let mut buffer = vec![0; COUNT_BYTES];
    let (mut at, mut lines, mut last) = (from, 0, b'\n');
    while at - from < COUNT_BYTES_MAX {
        match content.read_at(&mut buffer, at) {
            Ok(n) if n > 0 => {
                lines += millstream_scan::count_newlines(&buffer[..n]) as u64;
                last = buffer[n - 1];
                at += n as u64;
            }
            _ => return lines + u64::from(last != b'\n'),
        }
    }
    let counted = at - from;
    (lines as u128 * u128::from(bytes.max(counted)) / u128::from(counted)) as u64
}
