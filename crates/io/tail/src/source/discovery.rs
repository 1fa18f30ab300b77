//! Discovery: walks folders, identifies files, and saves their identities.

use super::changed_names::ChangedNames;
use super::identity::Identity;
use super::rotations::{UnknownFile, rotated_names};
use super::schedule::QUIET_AFTER;
use super::{FileSource, MISSING, WALK_PAUSE, age};
use crate::content::{Content, modified_ns};
use crate::copy_detection::Candidate;
use crate::discover::{Found, is_included, walk};
use crate::identity::{Descriptor, Fingerprint, Inode};
use crate::links::Links;
use crate::open::{Symlinks, irregular};
use crate::records::FileRecord;
use crate::rotation_names::{container, is_compressed_name, originals_of};
use crate::scan_budget::ScanBudget;
use crate::tail::Tail;
use millstream_framing::Framer;
use millstream_model::{Cursors, EngineTime, Now, Origin, OriginId, OriginRecord, SourceCx};
use rustix::fs::Stat;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of vanished files whose records are kept because their folder is empty or on
/// another device: it may not be mounted yet. Each takes about 100 bytes.
const AWAY_MAX: usize = 10_000;

/// Records of such files are removed once their last write is older than this.
const AWAY_AGE_MAX: Duration = Duration::from_hours(30 * 24);

impl FileSource {
    /// Walks the folders: opens new files, and detects renamed and deleted ones.
    pub(super) fn walk(&mut self, cx: &SourceCx<'_>) {
        let (now, scan_budget) = (cx.now.since_start, ScanBudget::begin());
        let mut found = walk(&self.settings.include, &self.settings.exclude);
        // By the names of the links that were known when the files were renamed.
        let renamed = self.follow_names(cx);
        self.follow_links(&mut found);
        found.files.extend(renamed);
        found.files.retain(|path| !self.retention.contains(path));
        self.watch_folders(&found.folders);
        // Their watches come after those of the folders.
        self.restore_finished();
        self.finished.begin_walk();
        let is_first = self.walks.begin(now);
        let mut unreadable = found.unreadable;
        unreadable
            .extend(found.missing.into_iter().map(|pattern| (pattern.into(), MISSING.to_owned())));
        let changes = self.watch.take_changes();
        let was_searched = self.walks.is_searched();
        let mut appeared = changes.appeared;
        appeared.append(&mut self.rotations.take_incomplete());
        self.adopt_files(&found.files, appeared, None, &mut unreadable, cx);
        self.records.generations.sweep();
        self.walks.begin_check();
        if self.walks.is_searched() && !was_searched {
            self.log_found(found.files.len(), cx);
        }
        self.report(unreadable, cx);
        // The first walk may take long, and must not delay the second.
        self.walks.set_pause(if is_first { WALK_PAUSE } else { scan_budget.interval() });
    }

    /// Adopts matching files, and rotated files in the same folders. `files` are those with
    /// `changed` names, or without `changed` all files.
    pub(super) fn adopt_files(
        &mut self,
        files: &BTreeSet<PathBuf>,
        appeared: BTreeSet<PathBuf>,
        changed: Option<&ChangedNames>,
        unreadable: &mut BTreeMap<PathBuf, String>,
        cx: &SourceCx<'_>,
    ) {
        // Files that are found again are no longer recorded.
        let listed = self.folders_to_list(files);
        let mut identified = self.identify_all(files, unreadable, cx);
        self.restore_held(&mut identified, cx);
        self.note_looked(changed, &identified.seen, unreadable, cx.now.since_start);
        let folders: HashSet<PathBuf> =
            identified.new.iter().filter_map(|tail| folder_of(tail.descriptor())).collect();
        if !self.walks.is_searched() {
            self.search_renamed(&mut identified.inodes, &mut identified.new, cx);
        }
        let listed = listed.iter().flat_map(std::fs::read_dir).flatten().flatten();
        let beside = listed.map(|entry| entry.path()).chain(appeared);
        let beside = beside.filter(|path| !files.contains(path)).collect();
        let rotated = self.rotated(beside, &mut identified.inodes, &mut identified.new, cx);
        identified.unknown.extend(rotated);
        self.adopt_unknown(identified.unknown, &mut identified.new, cx, unreadable);
        self.names.note_look(identified.new.iter().map(Tail::path));
        // An incomplete compressed file may be the new form of a missing one.
        let is_complete = !self.walks.is_searched() && self.rotations.is_complete();
        let is_searched = is_complete && self.forget_missing(&identified.new, &folders, cx);
        if self.insert(identified.new, cx) {
            self.first_start = false;
            if is_searched {
                self.walks.note_searched();
            }
            self.note_newest();
        }
        self.poll_moved(cx.now.since_start);
        // A renamed file may be deleted before the next poll.
        self.pin_moved(cx);
        self.rotations.sweep();
    }

    /// Notes which files a look has seen, among those with changed names, or among all.
    fn note_looked(
        &mut self,
        changed: Option<&ChangedNames>,
        seen: &HashSet<OriginId>,
        unreadable: &BTreeMap<PathBuf, String>,
        now: EngineTime,
    ) {
        match changed {
            Some(changed) => {
                self.note_changed(&changed.all, seen, now);
                self.close_changed(changed, now);
            }
            None => {
                self.note_seen(seen, now);
                self.close_unseen(unreadable, now);
            }
        }
    }

    /// Identifies the files at these paths.
    fn identify_all(
        &mut self,
        files: &BTreeSet<PathBuf>,
        unreadable: &mut BTreeMap<PathBuf, String>,
        cx: &SourceCx<'_>,
    ) -> Identified {
        let mut identified = Identified::default();
        let mut paths: Vec<&PathBuf> = files.iter().collect();
        if !self.links.is_empty() {
            // A file comes before its copies, a linked one by the name of the link.
            paths.sort_by_cached_key(|path| self.included_name(path).to_path_buf());
        }
        for path in paths {
            match self.identify(path, identified.new.len(), &identified.inodes, cx) {
                Ok(Identity::Open(id)) => _ = identified.seen.insert(id),
                Ok(Identity::Recorded(tail)) => {
                    identified.inodes.insert(tail.inode());
                    self.add_new(&mut identified.new, *tail);
                }
                Ok(Identity::Unknown(inode)) => {
                    identified.inodes.insert(inode);
                    identified.unknown.push(UnknownFile { path: path.clone(), inode, name: None });
                }
                Ok(Identity::Incomplete) => self.rotations.wait_for(path.clone()),
                Ok(Identity::Skipped) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    unreadable.insert(self.included_name(path).to_path_buf(), error.to_string());
                }
            }
        }
        identified
    }

    /// Replaces the links that were found by the files to which they lead, and adds the folders of
    /// these.
    fn follow_links(&mut self, found: &mut Found) {
        if self.settings.symlinks == Symlinks::Never {
            return;
        }
        let (include, exclude) = (&self.settings.include, &self.settings.exclude);
        let links = std::mem::take(&mut found.links);
        let is_matched = |path: &Path| is_included(path, include, exclude);
        self.links = Links::follow(links, &mut found.files, is_matched);
        found.folders.extend(self.links.folders().iter().cloned());
    }

    fn watch_folders(&mut self, folders: &BTreeSet<PathBuf>) {
        let watched_before = self.watch.is_complete(folders);
        let begun = self.watch.set_folders(folders);
        self.rotations.list(begun);
        self.walks.set_watched(self.watch.is_complete(folders), watched_before);
    }

    /// Records since when files that the walk did not find have no path.
    fn note_seen(&mut self, seen: &HashSet<OriginId>, now: EngineTime) {
        for tail in self.files.iter_mut() {
            match seen.contains(&tail.id()) {
                true => tail.mark_present(),
                false => tail.mark_gone(now),
            }
            tail.update_status();
        }
    }

    /// Polls files that were just renamed or lost their name: their last lines come before those of
    /// the files that have their names now.
    fn poll_moved(&mut self, now: EngineTime) {
        let has_moved = |tail: &&mut Tail| tail.has_moved(now) && tail.held().is_none();
        for tail in self.files.iter_mut().filter(has_moved) {
            self.schedule.poll_at(tail, now);
        }
    }

    /// Adds a file to adopt. Closes it if many are open already.
    pub(super) fn add_new(&self, new: &mut Vec<Tail>, mut tail: Tail) {
        if new.len() >= self.open_limit.batch_max() {
            tail.park();
        }
        new.push(tail);
    }

    /// Logs how many files the patterns match, so that a wrong pattern is noticed. Called once.
    fn log_found(&self, files: usize, cx: &SourceCx<'_>) {
        match files {
            0 => {
                log::warn!("source {}: no file matches include yet; waiting for one", cx.info.id)
            }
            files => log::info!("source {}: {files} files match include", cx.info.id),
        }
    }

    /// Searches the folders of recorded files for files that were renamed while the agent was down
    /// and match no pattern any more. Their unread data is still delivered.
    fn search_renamed(
        &mut self,
        identified: &mut HashSet<Inode>,
        new: &mut Vec<Tail>,
        cx: &SourceCx<'_>,
    ) {
        for folder in self.folders_of_records() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                if let Some(tail) = self.open_renamed(&path, identified, cx) {
                    identified.insert(tail.inode());
                    self.add_new(new, tail);
                }
            }
        }
    }

    pub(super) fn folders_of_records(&self) -> HashSet<PathBuf> {
        self.records.values().filter_map(|(_, descriptor)| folder_of(descriptor)).collect()
    }

    /// Removes records of files that two searches in a row have not found: one search misses a file
    /// that is renamed meanwhile. Returns whether each file was found or its record removed.
    fn forget_missing(&mut self, new: &[Tail], here: &HashSet<PathBuf>, cx: &SourceCx<'_>) -> bool {
        let missing = self.missing_records(new, here, cx.now);
        let gone: Vec<OriginId> = missing.intersection(&self.missing).copied().collect();
        self.missing = missing.difference(&self.missing).copied().collect();
        self.forget_records(&gone, cx);
        if !self.missing.is_empty() {
            self.walks.request();
        }
        self.missing.is_empty()
    }

    /// Returns the records of vanished files, without those whose whole folder is gone or unmounted,
    /// and without closed generations that have rotations. `here` are the folders with recognized
    /// files.
    fn missing_records(
        &self,
        new: &[Tail],
        here: &HashSet<PathBuf>,
        now: Now,
    ) -> BTreeSet<OriginId> {
        let mut gone = Vec::new();
        let mut away = Vec::new();
        for folder in self.folders_of_records() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            let mut inodes: HashSet<u64> = entries.flatten().map(|entry| entry.ino()).collect();
            let device = rustix::fs::stat(&folder).ok().map(|stat| stat.st_dev);
            let is_empty = inodes.is_empty();
            // The record of a file that exists but cannot be opened now is kept, unless another
            // file has reused the inode.
            new.iter().for_each(|tail| _ = inodes.remove(&tail.inode().number));
            let tracked = self.files.inodes().chain(self.finished.inodes());
            tracked.for_each(|inode| _ = inodes.remove(&inode.number));
            let rotated = rotated_names(&folder).unwrap_or_default();
            for (record, descriptor) in self.records.values() {
                let is_rotated =
                    descriptor.closed && rotated.contains(Path::new(descriptor.name()));
                let is_kept = is_rotated || inodes.contains(&descriptor.inode);
                if folder_of(descriptor).as_ref() != Some(&folder) || is_kept {
                    continue;
                }
                let is_away =
                    is_empty || device != Some(descriptor.device) && !here.contains(&folder);
                let list = if is_away { &mut away } else { &mut gone };
                list.push((descriptor.modified_ns, record.id));
            }
        }
        gone.extend(too_many_away(away, now.unix_ns));
        gone.into_iter().map(|(_, id)| id).collect()
    }

    /// Opens the file at `path` if it is recorded under another name.
    fn open_renamed(
        &mut self,
        path: &Path,
        identified: &HashSet<Inode>,
        cx: &SourceCx<'_>,
    ) -> Option<Tail> {
        let stat = rustix::fs::lstat(path).ok()?;
        let inode = Inode::of(&stat);
        let may_be = |(_, descriptor): &FileRecord| !descriptor.is_unchanged(&stat);
        let is_read = self.files.id_of(inode).is_some() || identified.contains(&inode);
        if is_read || !self.records.of_inode(inode.number).any(may_be) {
            return None;
        }
        let (file, stat) = self.open_file(path).ok()??;
        let mut content = Content::new(file, path).ok()?;
        let (record, descriptor) = self.take_record(&mut content, &stat)?;
        log::debug!("source {}: {} was renamed to {}", cx.info.id, descriptor.path, path.display());
        let mut tail = self.resume(content, &stat, path, record, descriptor);
        tail.mark_gone(cx.now.since_start);
        Some(tail)
    }

    /// Logs that the file at a path is not the one from before the restart, whose unread data is
    /// lost.
    pub(super) fn log_replaced(&self, path: &Path, stat: &Stat, cx: &SourceCx<'_>) {
        let mut records = self.records.of_inode(stat.st_ino);
        let name = self.included_name(path);
        if records.any(|(_, old)| old.device == stat.st_dev && Path::new(&*old.path) == name) {
            cx.counters.noted("truncations", 1);
            log::warn!(
                "source {}: {} was truncated or replaced while the agent was down; reading it from its \
                 beginning; unread data of the old file is lost unless a copy of it is found",
                cx.info.id,
                path.display()
            );
        }
    }

    /// Identifies the file at a path. Does not open a file that is open already, or that this walk
    /// has `identified`.
    pub(super) fn identify(
        &mut self,
        path: &Path,
        new: usize,
        identified: &HashSet<Inode>,
        cx: &SourceCx<'_>,
    ) -> io::Result<Identity> {
        let stat = rustix::fs::stat(path)?;
        if self.see_finished(path, &stat, cx)? {
            return Ok(Identity::Skipped);
        }
        let inode = Inode::of(&stat);
        if let Some(id) = self.files.id_of(inode) {
            self.note_path(id, inode, path);
            return Ok(Identity::Open(id));
        }
        if identified.contains(&inode) {
            return Ok(Identity::Skipped);
        }
        self.close_idle(new.min(self.open_limit.batch_max()) + 1, &[]);
        let Some((file, stat)) = self.open_file(path)? else {
            return not_regular(path);
        };
        if self.settings.range.as_ref().is_some_and(|range| !range.may_be_in(stat.st_mtime)) {
            return Ok(Identity::Skipped);
        }
        let mut content = Content::new(file, path)?;
        if let Some((record, descriptor)) = self.take_record(&mut content, &stat) {
            return Ok(Identity::Recorded(Box::new(
                self.resume(content, &stat, path, record, descriptor),
            )));
        }
        // A compressed file may still be empty, and so may the copy of another file.
        let is_empty = stat.st_size == 0 && (is_compressed_name(path) || has_original(path));
        let may_be_incomplete = (content.is_compressed() || is_empty) && !self.is_finite(cx);
        if may_be_incomplete && !self.rotations.check_complete(inode, &stat, cx.now) {
            return Ok(Identity::Incomplete);
        }
        Ok(Identity::Unknown(inode))
    }

    /// Notes that a path leads to an open file. Of several names the first is used while it leads to
    /// the file.
    fn note_path(&mut self, id: OriginId, inode: Inode, path: &Path) {
        let leads = |path: &Path| rustix::fs::stat(path).is_ok_and(|of| Inode::of(&of) == inode);
        let tail = self.files.get_mut(id).filter(|tail| tail.path() != path);
        if let Some(tail) = tail.filter(|tail| !leads(tail.path())) {
            tail.set_path(path);
        }
    }

    /// Removes and returns the record of this file, if there is one.
    fn take_record(&mut self, content: &mut Content, stat: &Stat) -> Option<FileRecord> {
        let settled = |(record, descriptor): &FileRecord| {
            record
                .checkpoints
                .iter()
                .map(|(_, offset)| *offset)
                .max()
                .unwrap_or(0)
                .max(descriptor.start)
        };
        // The device number may differ after a reboot, so it only orders the candidates. Of several
        // records that match, the one with the most hashed bytes is the best evidence.
        let mut records: Vec<&FileRecord> = self.records.of_inode(stat.st_ino).collect();
        records
            .sort_by_key(|(_, known)| (known.device != stat.st_dev, Reverse(known.hashed_bytes())));
        let fits =
            |known: &&&FileRecord| known.1.identifies(content, settled(known)).unwrap_or(false);
        let id = records.iter().find(fits)?.0.id;
        self.records.remove(id)
    }

    /// Resumes a recorded file, each sink at its own checkpoint.
    pub(super) fn resume(
        &self,
        content: Content,
        stat: &Stat,
        path: &Path,
        record: OriginRecord,
        mut descriptor: Descriptor,
    ) -> Tail {
        descriptor.device = stat.st_dev;
        descriptor.closed = false;
        if descriptor.rotation_of.is_none() {
            descriptor.rotation_of = self.linked_name(path).as_deref().map(text_of).map(Into::into);
        }
        if descriptor.since_ns == 0 {
            descriptor.since_ns = self.since(Path::new(descriptor.name()));
        }
        let checkpoint = |sink: &String| {
            record.checkpoints.iter().find(|(id, _)| id == sink).map(|(_, offset)| *offset)
        };
        let start = descriptor.start;
        let resumed =
            self.open.sinks.iter().map(|(index, id)| (*index, checkpoint(id).unwrap_or(start)));
        let cursors = Cursors::resume(resumed);
        let origin = self.origin(record.id, descriptor.path.clone(), path);
        Tail::new(origin, content, descriptor, cursors, path.to_path_buf())
            .with_framing(self.settings.framing.as_ref())
            .with_header(self.settings.header.as_ref())
    }

    /// Adopts an unknown file under a new id.
    pub(super) fn adopt(&self, candidate: Candidate, start: u64) -> io::Result<Tail> {
        let id = OriginId(getrandom::u64().map_err(io::Error::other)?);
        self.adopt_as(id, candidate, start)
    }

    /// Adopts a file under `id`, to be read from `start`.
    pub(super) fn adopt_as(
        &self,
        id: OriginId,
        candidate: Candidate,
        start: u64,
    ) -> io::Result<Tail> {
        let Candidate { path, mut content, stat, head } = candidate;
        let name: Arc<str> = text_of(self.included_name(&path)).into();
        let (device, inode) = (stat.st_dev, stat.st_ino);
        let fingerprint = if content.is_compressed() {
            Fingerprint::default()
        } else {
            Fingerprint::read(&mut content, start)?
        };
        let original = match self.is_matched(&path) {
            true => None,
            false => self.linked_name(&path).or_else(|| self.name_of(&path)),
        };
        let descriptor = Descriptor {
            device,
            inode,
            head,
            fingerprint,
            start,
            path: name.clone(),
            modified_ns: modified_ns(&stat),
            since_ns: self.since(original.as_deref().unwrap_or(&path)),
            rotation_of: original.as_deref().map(text_of).map(Into::into),
            ..Descriptor::default()
        };
        let cursors = Cursors::resume(self.open.sinks.iter().map(|(index, _)| (*index, start)));
        let origin = self.origin(id, name, &path);
        Ok(Tail::new(origin, content, descriptor, cursors, path)
            .with_framing(self.settings.framing.as_ref())
            .with_header(self.settings.header.as_ref()))
    }

    /// Creates an origin, with the container attributes in its path, or in that of the link to it.
    fn origin(&self, id: OriginId, name: Arc<str>, path: &Path) -> Arc<Origin> {
        let link = self.link_beside(path).map(|link| link.path.as_path());
        let attributes = container(link.unwrap_or(Path::new(&*name)));
        let origin = Origin::new(id, name).with_attributes(attributes);
        if path != Path::new(&*origin.name) {
            origin.state.set_path(path.to_string_lossy());
        }
        Arc::new(origin)
    }

    /// Returns the start offset of a file that exists at the very first start.
    pub(super) fn first_offset(&self, candidate: &mut Candidate, now: Now) -> io::Result<u64> {
        let age_s = now.unix_ns / 1_000_000_000 - candidate.stat.st_mtime;
        if self.settings.range.is_some() {
            return Ok(0);
        }
        let old = self.settings.ignore_older.is_some_and(|limit| age_s > limit.as_secs() as i64);
        if old || self.settings.read_from_end {
            let bytes = candidate.content.bytes()?;
            let framing = self.settings.framing.as_ref();
            let framer = framing.map(|framing| Framer::new(framing.rules.clone()));
            candidate.content.last_line_start(bytes, framer)
        } else {
            Ok(0)
        }
    }

    /// Saves the ids of files, then queues the files for reading; returns whether that succeeded.
    pub(super) fn insert(&mut self, new: Vec<Tail>, cx: &SourceCx<'_>) -> bool {
        if new.is_empty() && !self.first_start {
            return true;
        }
        let Err(error) = self.open.store.keep(&identities(&new)) else {
            self.read_from_now_on(new, cx);
            return true;
        };
        self.walks.request();
        // The next walk searches again for files that were renamed.
        self.walks.search_again();
        self.retention.restore_again();
        let records = self.open.store.origins().map_or_else(|_| Vec::new(), |(records, _)| records);
        let saved: HashMap<OriginId, Vec<u8>> =
            records.into_iter().map(|record| (record.id, record.descriptor)).collect();
        // Files with the saved identity need no write, and are read even on a full disk.
        let (unchanged, new): (Vec<Tail>, Vec<Tail>) = new
            .into_iter()
            .partition(|tail| saved.get(&tail.id()) == Some(&tail.descriptor().to_bytes()));
        self.read_from_now_on(unchanged, cx);
        let (known, unknown): (Vec<Tail>, Vec<Tail>) =
            new.into_iter().partition(|tail| saved.contains_key(&tail.id()));
        cx.counters.error("checkpoint");
        log::error!(
            "source {}: cannot save the ids of {} new files: {error}; trying again",
            cx.info.id,
            unknown.len()
        );
        unknown.into_iter().for_each(|tail| self.put_back(tail));
        match self.open.store.keep(&identities(&known)) {
            Ok(()) => self.read_from_now_on(known, cx),
            Err(_) => known.into_iter().for_each(|tail| self.put_back(tail)),
        }
        false
    }

    /// Queues files whose ids are durable, oldest modification first.
    pub(super) fn read_from_now_on(&mut self, mut new: Vec<Tail>, cx: &SourceCx<'_>) {
        new.sort_by_key(|tail| tail.descriptor().modified_ns);
        for mut tail in new {
            let checkpoints = tail
                .cursors()
                .list()
                .iter()
                .flat_map(|c| c.sinks.iter().map(|sink| (sink, c.position)));
            self.open.ledger.open(tail.origin(), checkpoints.collect::<Vec<_>>());
            let quiet_after = QUIET_AFTER.saturating_sub(age(&tail, cx.now));
            self.schedule.add(&mut tail, cx.now.since_start, quiet_after);
            self.open_limit.note_opened(usize::from(tail.open_content().is_some()));
            self.records.generations.open(tail.descriptor());
            self.files.insert(tail);
        }
    }

    /// Reports unreadable paths; logs changes.
    pub(super) fn report(&mut self, unreadable: BTreeMap<PathBuf, String>, cx: &SourceCx<'_>) {
        let named = unreadable
            .iter()
            .map(|(path, reason)| (path.to_string_lossy().into_owned(), reason.clone()));
        self.open.unreadable.set(named.collect());
        let is_new =
            |(path, reason): &(&PathBuf, &String)| self.unreadable.get(*path) != Some(reason);
        for (path, reason) in
            unreadable.iter().filter(is_new).filter(|(_, reason)| *reason != MISSING)
        {
            cx.counters.error("unreadable");
            log::warn!(
                "source {}: cannot read {}: {reason}; trying again",
                cx.info.id,
                path.display()
            );
        }
        let over = |(path, reason): &(&PathBuf, &String)| {
            !unreadable.contains_key(*path) && *reason != MISSING
        };
        for (path, _) in self.unreadable.iter().filter(over) {
            log::info!("source {}: {} is readable again or gone", cx.info.id, path.display());
        }
        self.unreadable = unreadable;
    }
}

/// Handles a path that is not a regular file: skips a folder, rejects a FIFO, socket or device.
fn not_regular(path: &Path) -> io::Result<Identity> {
    let error = |kind| format!("is a {kind}, not a regular file; exclude it, or narrow include");
    irregular(path).map_or(Ok(Identity::Skipped), |kind| Err(io::Error::other(error(kind))))
}

/// Returns the records (modification time, id) to remove although their folder is empty or on
/// another device: those that are too old or too many.
fn too_many_away(mut away: Vec<(i64, OriginId)>, now_ns: i64) -> Vec<(i64, OriginId)> {
    let oldest = now_ns.saturating_sub(AWAY_AGE_MAX.as_nanos() as i64);
    away.sort_unstable();
    let old = away.partition_point(|(modified_ns, _)| *modified_ns < oldest);
    away.truncate(old.max(away.len().saturating_sub(AWAY_MAX)));
    away
}

/// Whether a file beside this one has a name of which this is a rotation.
fn has_original(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    originals_of(&name).iter().any(|original| path.with_file_name(original).exists())
}

fn folder_of(descriptor: &Descriptor) -> Option<PathBuf> {
    Path::new(descriptor.name()).parent().map(Path::to_path_buf)
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Files identified in a walk or a check of names.
#[derive(Default)]
pub(super) struct Identified {
    /// Ids of files that are open already.
    pub seen: HashSet<OriginId>,
    /// Recorded files, opened to resume reading.
    pub new: Vec<Tail>,
    pub unknown: Vec<UnknownFile>,
    /// Inodes of the files in `new` and `unknown`.
    pub inodes: HashSet<Inode>,
}

/// Returns the ids of files and their serialized descriptors.
fn identities(tails: &[Tail]) -> Vec<(OriginId, Vec<u8>)> {
    tails.iter().map(|tail| (tail.id(), tail.descriptor().to_bytes())).collect()
}
