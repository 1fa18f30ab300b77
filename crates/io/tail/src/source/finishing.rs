//! Finishes files, and resumes tracking finished files once they are written to, renamed or
//! deleted.

use super::adoption::{Adoption, OpenedFile};
use super::changed_names::ChangedNames;
use super::history::History;
use super::orphans::Orphan;
use super::schedule::IDLE_AFTER;
use super::scope::Scope;
use super::tails::Tails;
use super::walks::Walks;
use crate::content::{Content, modified_ns};
use crate::finished::FinishedFile;
use crate::identity::Inode;
use crate::records::{FileRecord, IdleRecord, forget};
use crate::tail::Tail;
use crate::watch::Watch;
use millstream_model::{EngineTime, OriginId, SourceCx};
use rustix::fs::{Stat, fstat};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// Maximum number of idle files that are tracked in full, at about 1.5 KB each. Beyond this number,
/// the files that have been idle longest are finished.
pub(super) const IDLE_FILES_MAX: usize = 4096;

/// Maximum number of unknown file names that are compared at once with the names of finished files.
const UNKNOWN_AT_ONCE: usize = 1000;

/// Maximum number of files that are finished at once, because each file takes a system call and two
/// locks.
const FINISHED_AT_ONCE: usize = 10_000;

/// The parts of the source that change when a file is finished, or is tracked again.
pub(super) struct Finishing<'a> {
    pub scope: &'a Scope,
    pub files: &'a mut Tails,
    pub history: &'a mut History,
    pub walks: &'a mut Walks,
    pub watch: &'a mut Watch,
}

/// An idle file. Files are ordered by how long they have been idle, longest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct IdleFile {
    grown: EngineTime,
    modified_ns: i64,
    id: OriginId,
}

// Finishing.
impl Finishing<'_> {
    /// Finishes idle files beyond the limit, starting with the files that have been idle longest.
    pub(super) fn finish_idle(&mut self, idle_files_max: usize, cx: &SourceCx<'_>) {
        let excess = self.files.len().saturating_sub(idle_files_max);
        if excess == 0 || self.scope.is_finite(cx) {
            return;
        }
        let originals: HashSet<OriginId> =
            self.files.iter().filter_map(|tail| tail.descriptor().copy_of).collect();
        let may_finish = |tail: &&Tail| is_idle(tail, cx) && !originals.contains(&tail.id());
        let idle = self.files.iter().filter(may_finish).map(|tail| IdleFile {
            grown: tail.grown(),
            modified_ns: tail.descriptor().modified_ns,
            id: tail.id(),
        });
        let mut idle: Vec<IdleFile> = idle.collect();
        idle.sort_unstable();
        let before = self.history.finished.len();
        for file in idle.into_iter().take(excess.min(FINISHED_AT_ONCE)) {
            self.finish(file.id, cx);
        }
        let finished = self.history.finished.len();
        if finished > before {
            self.files.shrink();
            self.history.records.generations.shrink();
            cx.ledger.shrink();
        }
        cx.counters.set_finished_files(finished as u64);
    }

    /// Finishes a file if its state is in the checkpoint store and all its data has been read.
    fn finish(&mut self, id: OriginId, cx: &SourceCx<'_>) {
        let Some(tail) = self.files.get(id) else { return };
        let Some(stat) = current_stat(tail).filter(|stat| is_read(tail, stat)) else { return };
        let head = tail.cursors().head();
        let is_settled = cx
            .ledger
            .owed(id)
            .is_some_and(|owed| owed.settled == head && owed.oldest.is_none() && !owed.moved);
        if !is_settled || !self.scope.open.store.is_committed(id) || !cx.ledger.close(id) {
            return;
        }
        let Some(tail) = self.files.remove_counted(id) else { return };
        let mut file = FinishedFile::new(id, tail.path(), &stat);
        let descriptor = tail.descriptor();
        let is_first = Path::new(&*descriptor.path) == tail.path();
        file.first_path = (!is_first).then(|| (*descriptor.path).into());
        file.is_generation = Path::new(descriptor.name()) != tail.path();
        let generations = &mut self.history.records.generations;
        file.since_ns = generations.since(Path::new(descriptor.name())).unwrap_or(0);
        if !file.is_generation {
            generations.release(descriptor);
        }
        if !tail.is_watched() {
            self.watch.watch_path(id, tail.path());
        }
        self.history.finished.insert(tail.inode(), file);
    }
}

// Loading.
impl Finishing<'_> {
    /// Resumes tracking a finished file: at the path where it was last seen, or at `path` if it is
    /// no longer there. Returns whether the file is now tracked; it is not if the store has no
    /// record of it.
    ///
    /// # Errors
    /// Returns an error if the checkpoint store cannot be read, or the file cannot be opened.
    pub(super) fn load_finished(
        &mut self,
        inode: Inode,
        path: &Path,
        cx: &SourceCx<'_>,
    ) -> io::Result<bool> {
        let Some(file) = self.history.finished.get(inode) else { return Ok(false) };
        let id = file.id;
        let last_path = file.path.to_path_buf();
        let record = self.read_record(id)?;
        self.files.make_room_beside(&[]);
        let opened = self.open_at(&last_path, inode).or_else(|| self.open_at(path, inode));
        let OpenedAt { path, content } = opened.ok_or(io::ErrorKind::NotFound)?;
        let stat = fstat(content.file())?;
        let open = &self.scope.open;
        let Some(file) = self.history.take_finished(inode, open) else { return Ok(false) };
        let Some(mut record) = record else {
            log::error!(
                "source {}: the checkpoint store has no record of {}; reading it from its beginning",
                cx.info.id,
                path.display()
            );
            return Ok(false);
        };
        self.history.release_generation(&file, &record.descriptor);
        record.descriptor.since_ns = record.descriptor.since_ns.max(file.since_ns);
        let adoption = Adoption { scope: self.scope, history: self.history };
        let tail = adoption.resume(OpenedFile { path, content, stat }, record);
        self.files.add(vec![tail], &mut self.history.records.generations, cx);
        Ok(true)
    }

    fn open_at(&self, path: &Path, inode: Inode) -> Option<OpenedAt> {
        let content = self.scope.open_inode(path, inode)?;
        Some(OpenedAt { path: path.to_path_buf(), content })
    }

    fn read_record(&self, id: OriginId) -> io::Result<Option<FileRecord>> {
        Ok(self.scope.open.store.origin(id)?.and_then(FileRecord::parse))
    }
}

// At the start.
impl Finishing<'_> {
    /// Tracks as finished the files that were read to their end before the restart and are
    /// unchanged. Loads the records of files that have changed.
    pub(super) fn restore_finished(&mut self) {
        let mut failed = Vec::new();
        for record in self.history.take_restored() {
            let path = Path::new(&*record.path);
            let is_unchanged = |stat: &Stat| {
                let state = (stat.st_ino, stat.st_size as u64, modified_ns(stat));
                state == (record.inode, record.bytes, record.modified_ns)
            };
            match rustix::fs::stat(path).ok().filter(is_unchanged) {
                Some(stat) => {
                    let mut file = FinishedFile::new(record.id, path, &stat);
                    file.since_ns = record.since_ns;
                    self.watch.watch_path(record.id, path);
                    self.history.finished.insert(Inode::of(&stat), file);
                }
                None => {
                    if let Some(record) = self.load_record(record) {
                        failed.push(record);
                    }
                }
            }
        }
        let finished = self.history.finished.len() as u64;
        self.scope.open.counters.set_finished_files(finished);
        self.history.put_back_restored(failed);
    }

    /// Loads the record of a file that has changed; returns `idle` if the store cannot be read.
    fn load_record(&mut self, idle: IdleRecord) -> Option<IdleRecord> {
        let open = &self.scope.open;
        match self.read_record(idle.id) {
            Ok(Some(record)) => {
                let pruned = self.history.records.insert(record);
                forget(pruned.as_slice(), &*open.store, &open.info.id);
                None
            }
            Ok(None) => None,
            Err(error) => {
                log::error!("source {}: {}: {error}", open.info.id, idle.path);
                Some(idle)
            }
        }
    }
}

// Checking finished files.
impl Finishing<'_> {
    /// Returns whether `path` refers to a finished file that has not changed. If the file has
    /// changed, reloads it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be loaded.
    pub(super) fn see_finished(
        &mut self,
        path: &Path,
        stat: &Stat,
        cx: &SourceCx<'_>,
    ) -> io::Result<bool> {
        let finished = &mut self.history.finished;
        if finished.see(path, stat) {
            return Ok(true);
        }
        let inode = Inode::of(stat);
        let Some(file) = finished.get(inode) else { return Ok(false) };
        // If the file has several names, the first one is used for as long as it refers to the
        // file.
        let first = file.path.to_path_buf();
        let first_stat = rustix::fs::stat(&first).ok().filter(|stat| Inode::of(stat) == inode);
        if first != path && first_stat.is_some_and(|stat| finished.see(&first, &stat)) {
            return Ok(true);
        }
        self.load_finished(inode, path, cx)?;
        Ok(false)
    }

    /// Loads the finished files that may have a copy among the unknown files.
    pub(super) fn load_originals(&mut self, unknown: &[PathBuf], cx: &SourceCx<'_>) {
        for paths in unknown.chunks(UNKNOWN_AT_ONCE) {
            for inode in self.history.finished.originals_of(paths.iter().map(PathBuf::as_path)) {
                let Some(file) = self.history.finished.get(inode) else { continue };
                let path = file.path.to_path_buf();
                match self.load_named(inode, &path, cx) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        self.close_finished(inode, None);
                        self.walks.request();
                    }
                    Err(error) => {
                        log::warn!("source {}: {}: {error}", cx.info.id, path.display());
                    }
                }
            }
        }
    }

    /// Loads a finished file. If the file had several names, the other names in its folder are also
    /// tried.
    fn load_named(&mut self, inode: Inode, path: &Path, cx: &SourceCx<'_>) -> io::Result<bool> {
        let has_others = self.history.finished.get(inode).is_some_and(|file| !file.is_single);
        let loaded = self.load_finished(inode, path, cx);
        let is_gone = loaded.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let folder = path.parent().filter(|_| is_gone && has_others);
        let other_name = folder.and_then(|folder| name_in(folder, inode));
        other_name.map_or(loaded, |name| self.load_finished(inode, &name, cx))
    }

    /// Loads finished files that inotify reports as written to.
    pub(super) fn load_written(&mut self, ids: HashSet<OriginId>, cx: &SourceCx<'_>) {
        for inode in self.history.finished.inodes_of(&ids) {
            let Some(file) = self.history.finished.get(inode) else { continue };
            let path = file.path.to_path_buf();
            if self.load_finished(inode, &path, cx).is_err() {
                // A walk will find the file's other name, or retry.
                self.history.finished.note_written(inode);
                self.walks.request();
            }
        }
    }
}

// Files that are gone.
impl Finishing<'_> {
    /// Handles finished files that a walk did not see. If a file is still in its folder, or if the
    /// folder may be unmounted, the next walk searches for other names.
    pub(super) fn close_unseen(&mut self, unreadable: &BTreeMap<PathBuf, String>, now: EngineTime) {
        let mut folders: HashMap<PathBuf, Option<HashSet<u64>>> = HashMap::new();
        for inode in self.history.finished.unseen(unreadable) {
            let Some(file) = self.history.finished.get(inode) else { continue };
            let folder = file.path.parent().unwrap_or(Path::new("/"));
            if !folders.contains_key(folder) {
                folders.insert(folder.to_path_buf(), inodes_in(folder, inode.device));
            }
            let is_gone =
                folders[folder].as_ref().is_some_and(|inodes| !inodes.contains(&inode.number));
            if !is_gone {
                self.walks.search_again();
            }
            self.close_finished(inode, is_gone.then_some(now));
        }
    }

    /// Handles finished files whose names have changed. A deleted file is closed. For a renamed
    /// file, requests a walk to find the new name.
    pub(super) fn close_changed(&mut self, changed: &ChangedNames, now: EngineTime) {
        for path in &changed.all {
            let Some((inode, file)) = self.history.finished.at(path) else { continue };
            let is_single = file.is_single;
            let stat = rustix::fs::stat(path);
            if stat.as_ref().is_ok_and(|stat| Inode::of(stat) == inode) {
                continue;
            }
            if stat.is_err() && is_single && changed.deleted.contains(path) {
                self.close_finished(inode, Some(now));
            } else {
                self.walks.request();
            }
        }
    }

    /// Records a finished file that has no path anymore. The file may have grown unseen before it
    /// was renamed or compressed, so its copy may contain more than what was read. The source waits
    /// for a while for the copy of a deleted file.
    fn close_finished(&mut self, inode: Inode, deletion: Option<EngineTime>) {
        let open = &self.scope.open;
        let Some(file) = self.history.finished.get(inode) else { return };
        let record = match self.read_record(file.id) {
            Ok(record) => record,
            Err(error) => {
                log::warn!("source {}: {}: {error}", open.info.id, file.path.display());
                self.walks.request();
                return;
            }
        };
        let Some(file) = self.history.take_finished(inode, open) else { return };
        let Some(mut record) = record else { return };
        self.history.release_generation(&file, &record.descriptor);
        record.descriptor.since_ns = record.descriptor.since_ns.max(file.since_ns);
        match deletion {
            // Another file may reuse the inode number, so the record must not match by inode.
            Some(now) => {
                let unread = u64::from(file.is_written);
                self.history.orphans.push(Orphan::of_record(record, unread, now));
            }
            None => self.history.record(record, open),
        }
    }
}

/// A file that was opened, and the path at which it was found.
struct OpenedAt {
    path: PathBuf,
    content: Content,
}

/// Returns the inode numbers in a folder; `None` if the folder is empty or on another device.
fn inodes_in(folder: &Path, device: u64) -> Option<HashSet<u64>> {
    rustix::fs::stat(folder).ok().filter(|stat| stat.st_dev == device)?;
    let entries = std::fs::read_dir(folder).ok()?;
    let inodes: HashSet<u64> = entries.flatten().map(|entry| entry.ino()).collect();
    (!inodes.is_empty()).then_some(inodes)
}

/// Returns a path in a folder that refers to a file.
fn name_in(folder: &Path, inode: Inode) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let same_number = entries.flatten().filter(|entry| entry.ino() == inode.number);
    let leads = |path: &PathBuf| rustix::fs::stat(path).is_ok_and(|stat| Inode::of(&stat) == inode);
    same_number.map(|entry| entry.path()).find(leads)
}

/// Returns whether a file has been idle for long enough, and needs no state other than its path,
/// its identity and its checkpoints.
fn is_idle(tail: &Tail, cx: &SourceCx<'_>) -> bool {
    let is_plain = tail.gone_since().is_none()
        && tail.held().is_none()
        && !tail.is_open()
        && tail.descriptor().copy_of.is_none()
        && !tail.has_moved(cx.now.since_start)
        && tail.cursors().list().len() == 1;
    let written = tail.descriptor().modified_ns;
    let idle_ns = IDLE_AFTER.as_nanos() as i64;
    let is_old = cx.now.since_start - tail.grown() >= IDLE_AFTER
        || cx.now.unix_ns.saturating_sub(written) >= idle_ns;
    is_plain && is_old && tail.is_quiet(cx.now.since_start) && !tail.is_queued() && tail.is_read()
}

/// Returns the status of a file; `None` if the file is no longer at its path.
fn current_stat(tail: &Tail) -> Option<Stat> {
    rustix::fs::stat(tail.path()).ok().filter(|stat| Inode::of(stat) == tail.inode())
}

/// Returns whether the file was read to its end, and its saved state records this.
fn is_read(tail: &Tail, stat: &Stat) -> bool {
    let descriptor = tail.descriptor();
    let head = tail.cursors().head();
    if let Some(state) = descriptor.compressed {
        return state.describes(stat) && !tail.is_incomplete();
    }
    (stat.st_size as u64 == head || descriptor.in_copy) && descriptor.fingerprint.end == head
}
