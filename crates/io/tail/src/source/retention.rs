//! Retention of undelivered files that were rotated away: links, copies made during shutdown, and
//! their limit.
//!
//! A rotated file is *held* until every sink has settled it: by a hard link in `data_dir/held`,
//! which survives deletion of the file, shutdown, `kill -9` and a power loss. If no link can be
//! created, the open descriptor holds the file, and shutdown copies its unsettled data.
//!
//! Active files are never linked, because logrotate skips files with several links. Files that
//! sinks are about to settle are not linked either, because `gzip` and logrotate's `delaycompress`
//! reject files with several links.

use crate::held::{HeldFile, HeldFolder};
use crate::settings::HeldSettings;
use crate::tail::Tail;
use millstream_model::{EngineTime, HeldFiles, Ledger, OriginId, Owed, Remainder};
use rustix::fs::fstat;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Minimum time between two warnings about the disk space of deleted files.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Number of seconds over which the growth of held files is averaged.
const GROWTH_SECONDS: f64 = 10.0;

/// State of a source's held files.
pub(super) struct Retention {
    folder: HeldFolder,
    link: bool,
    copy_at_stop: bool,
    bytes_max: u64,
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
            Ok(true) => tail.set_held(HeldFile { id: tail.id(), copied_from: None }),
            Ok(false) => {}
            Err(error) => self.log_failed(&error, source),
        }
    }

    /// Holds a rewritten file with the id of its new content. Under the old id, the file would be
    /// reread after a restart.
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
    pub(super) fn check(&self, tail: &mut Tail) {
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
            Ok(end) => {
                let copied_from = Some(if is_compressed { 0 } else { from });
                tail.set_held(HeldFile { id, copied_from });
                if !is_compressed {
                    self.copied.insert(id, end);
                }
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
