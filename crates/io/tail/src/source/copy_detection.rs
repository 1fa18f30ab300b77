//! Copy detection: copies made by copytruncate rotations, and compressed rotations.
//!
//! A candidate is a copy if its name is a rotation name of the original, and its content matches
//! what was read of the original or what the original still contains. Data in a copy counts as
//! read. If the original is truncated or deleted before all of it was read, reading continues in
//! the copy under the same id.

use super::FileSource;
use super::orphans::Orphan;
use super::rotations::UnknownFile;
use crate::content::Content;
use crate::copy_detection::{Candidate, Originals, may_be_rotation};
use crate::folder_inodes::FolderInodes;
use crate::identity::{Descriptor, Fingerprint, Inode};
use crate::records::{FileRecord, forget};
use crate::tail::Tail;
use millstream_model::{Cursor, OriginId, OriginRecord, OriginStore, Remainder, SourceCx};
use rustix::fs::stat;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

impl FileSource {
    /// Adopts files with an unknown inode; detects which are copies.
    pub(super) fn adopt_unknown(
        &mut self,
        unknown: Vec<UnknownFile>,
        new: &mut Vec<Tail>,
        cx: &SourceCx<'_>,
        unreadable: &mut BTreeMap<PathBuf, String>,
    ) {
        let paths: Vec<PathBuf> = unknown.iter().map(|file| file.path.clone()).collect();
        self.load_originals(&paths, cx);
        let mut originals = Originals::default();
        if !unknown.is_empty() {
            self.files.iter().chain(new.iter()).for_each(|tail| tail.add_to(&mut originals));
        }
        let folder_inodes = FolderInodes::default();
        for UnknownFile { path, inode, name } in unknown {
            let candidate =
                self.candidate(&path).filter(|candidate| Inode::of(&candidate.stat) == inode);
            let Some(candidate) = candidate else { continue };
            if self.handle_truncations(&candidate, &originals, cx) {
                originals = Originals::default();
                self.files.iter().chain(new.iter()).for_each(|tail| tail.add_to(&mut originals));
            }
            // A truncated file continues in this copy.
            if self.files.id_of(inode).is_some() {
                continue;
            }
            match self.adopt_one(candidate, name, &folder_inodes, &originals, new, cx) {
                Ok(Some(tail)) => {
                    tail.add_to(&mut originals);
                    self.add_new(new, tail);
                }
                Ok(None) => {}
                Err(error) => _ = unreadable.insert(path, error.to_string()),
            }
        }
    }

    /// Adopts one of them. A rotated file that matches no pattern, a generation of `name`, is
    /// adopted only if it has unread data.
    pub(super) fn adopt_one(
        &mut self,
        mut candidate: Candidate,
        name: Option<PathBuf>,
        folder_inodes: &FolderInodes,
        originals: &Originals,
        new: &mut [Tail],
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        if name.is_some() && self.match_settled(&mut candidate, folder_inodes) {
            return Ok(None);
        }
        // Rotations compress renamed files, and copy files that keep their path. Another file with the
        // content of a renamed one is another generation.
        let is_plain = !candidate.content.is_compressed();
        let is_original = |tail: &Tail| !is_plain || !is_rotated(tail);
        let copied =
            name.is_none().then(|| self.original_of(&mut candidate, originals, new, is_original));
        let copied = copied.flatten();
        // All of a copy is read from its original, whatever else begins like it. Compressed files are
        // judged by size and time, and are rarely copies of a file that is still written.
        if let Some(of) = copied.filter(|of| is_plain && self.is_named(*of, new)) {
            return self.adopt_copy(candidate, of, new, cx).map(Some);
        }
        if self.orphans.is_in_flight(&mut candidate) {
            self.look_again(candidate);
            return Ok(None);
        }
        if let Some(known) = self.resume_in_copy(&mut candidate, folder_inodes, cx) {
            return Ok(Some(self.continue_in(candidate, known, name.is_some(), cx)));
        }
        match (name, copied) {
            (Some(name), _) => self.adopt_rotated(candidate, &name, originals, new, cx),
            (None, Some(of)) => self.adopt_copy(candidate, of, new, cx).map(Some),
            // It may have been compared with an original that was just truncated.
            (None, None) if self.handle_truncations(&candidate, originals, cx) => {
                self.look_again(candidate);
                Ok(None)
            }
            (None, None) => self.adopt_included(candidate, cx).map(Some),
        }
    }

    /// Resumes a known file in the candidate, which `is_gone` if it matches no pattern.
    fn continue_in(
        &self,
        candidate: Candidate,
        known: FileRecord,
        is_gone: bool,
        cx: &SourceCx<'_>,
    ) -> Tail {
        let mut tail = self.resume_candidate(candidate, known);
        match is_gone {
            true => tail.mark_gone(cx.now.since_start),
            false => tail.mark_present(),
        }
        tail
    }

    /// Makes the next walk or check of names look at a file again.
    fn look_again(&mut self, candidate: Candidate) {
        self.rotations.wait_for(candidate.path);
        self.walks.request();
    }

    /// Whether a file still has the name under which it is written.
    fn is_named(&self, id: OriginId, new: &[Tail]) -> bool {
        let tail = self.files.get(id).or_else(|| new.iter().find(|tail| tail.id() == id));
        tail.is_some_and(|tail| tail.gone_since().is_none() && !tail.is_rotated())
    }

    /// Adopts the new content of a rewritten file: a copy of another one if it is, as programs that
    /// keep one copy write each over the last, else a new file. `None` as long as data of its
    /// original is in flight.
    pub(super) fn adopt_rewritten(
        &mut self,
        mut candidate: Candidate,
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        self.load_originals(std::slice::from_ref(&candidate.path), cx);
        let mut originals = self.in_place();
        if self.handle_truncations(&candidate, &originals, cx) {
            originals = self.in_place();
        }
        if self.orphans.is_in_flight(&mut candidate) {
            return Ok(None);
        }
        if let Some(orphan) = self.orphans.take(&mut candidate) {
            log_continuation(orphan.name(), &candidate, cx);
            let known = orphan.into_known(&mut candidate);
            return Ok(Some(self.resume_candidate(candidate, known)));
        }
        match self.original_of(&mut candidate, &originals, &mut [], |tail| !is_rotated(tail)) {
            Some(of) => self.adopt_copy(candidate, of, &mut [], cx).map(Some),
            None => self.adopt_included(candidate, cx).map(Some),
        }
    }

    /// Returns the files that have the path under which they were first seen. Their names are
    /// shorter than those of their copies, so handling one never leads back to it.
    fn in_place(&self) -> Originals {
        let mut originals = Originals::default();
        let in_place = self.files.iter().filter(|tail| tail.path() == Path::new(tail.name()));
        in_place.for_each(|tail| tail.add_to(&mut originals));
        originals
    }

    /// Handles possible originals of the candidate that were truncated, as the copy does not match
    /// their new content. Returns whether there were any.
    fn handle_truncations(
        &mut self,
        candidate: &Candidate,
        originals: &Originals,
        cx: &SourceCx<'_>,
    ) -> bool {
        // The first bytes of a rewritten file differ from those of its copy.
        let paths = originals.paths_of(candidate).into_iter();
        let beside = paths.filter_map(|path| self.files.id_of(Inode::of(&stat(path).ok()?)));
        let related: BTreeSet<OriginId> =
            originals.of(candidate).into_iter().chain(beside).collect();
        let truncated = related.into_iter().filter(|id| self.check_truncated(*id, cx));
        let truncated: Vec<OriginId> = truncated.collect();
        truncated.iter().for_each(|id| _ = self.truncated(*id, cx));
        !truncated.is_empty()
    }

    /// Whether a file no longer contains what was read of it. One that is closed because of the limit
    /// of open files is opened for that.
    fn check_truncated(&mut self, id: OriginId, cx: &SourceCx<'_>) -> bool {
        let closed = self.files.get(id).filter(|tail| tail.open_content().is_none());
        let reopened = closed.map(|tail| self.open_inode(tail.path(), tail.inode()));
        // A file that is gone has not been truncated.
        reopened.is_none_or(|content| content.is_some())
            && self.unpark(id, &[], cx)
            && self.files.get_mut(id).is_some_and(|tail| !tail.check_same().unwrap_or(true))
    }

    /// Removes and returns the record of a vanished file that continues in the candidate. A closed
    /// file whose inode still exists is a different file, even with the same content.
    fn resume_in_copy(
        &mut self,
        candidate: &mut Candidate,
        folder_inodes: &FolderInodes,
        cx: &SourceCx<'_>,
    ) -> Option<FileRecord> {
        let holds = |descriptor: &Descriptor, candidate: &mut Candidate| match descriptor.closed {
            true => {
                !folder_inodes.has(&candidate.path, descriptor.inode)
                    && candidate.continues(descriptor)
            }
            false => candidate.holds(
                descriptor.head,
                Some(descriptor.fingerprint).filter(|fingerprint| fingerprint.end > 0),
            ),
        };
        if let Some(orphan) = self.orphans.take(candidate) {
            log_continuation(orphan.name(), candidate, cx);
            let known = orphan.into_known(candidate);
            self.rotations.note_since(&known.1);
            return Some(known);
        }
        // Of several records that match, the one with the most hashed bytes is the best evidence.
        let mut best: Option<(OriginId, u64)> = None;
        let path = candidate.path.clone();
        for (record, descriptor) in self.records.related(&path) {
            let end = descriptor.hashed_bytes();
            if best.is_none_or(|(_, most)| most < end) && holds(descriptor, candidate) {
                best = Some((record.id, end));
            }
        }
        let known = self.records.remove(best?.0)?;
        self.rotations.note_since(&known.1);
        log_continuation(&known.1.path, candidate, cx);
        Some(known)
    }

    fn resume_candidate(
        &self,
        candidate: Candidate,
        (record, descriptor): (OriginRecord, Descriptor),
    ) -> Tail {
        let mut tail =
            self.resume(candidate.content, &candidate.stat, &candidate.path, record, descriptor);
        tail.resume_in_copy(&candidate.stat);
        tail
    }

    /// Adopts a copy of the file `of`, to be read from its end.
    fn adopt_copy(
        &mut self,
        mut candidate: Candidate,
        of: OriginId,
        new: &mut [Tail],
        cx: &SourceCx<'_>,
    ) -> io::Result<Tail> {
        let start = candidate.content.bytes()?;
        let last = Fingerprint::read(&mut candidate.content, start)?;
        log::debug!("source {}: {} is a copy", cx.info.id, candidate.path.display());
        let mut tail = self.adopt(candidate, start)?;
        tail.set_copy_of(Some(of));
        // A truncation of the original is then noticed even before its first read.
        let known = self.files.get_mut(of).or_else(|| new.iter_mut().find(|tail| tail.id() == of));
        known.into_iter().for_each(|original| original.note_copied(last));
        Ok(tail)
    }

    /// Adopts a file that matches a pattern and is no copy.
    fn adopt_included(&mut self, mut candidate: Candidate, cx: &SourceCx<'_>) -> io::Result<Tail> {
        self.log_replaced(&candidate.path, &candidate.stat, cx);
        let start = if self.first_start { self.first_offset(&mut candidate, cx.now)? } else { 0 };
        self.adopt(candidate, start)
    }

    /// Adopts an unread generation of `name` that matches no pattern, to be read from its
    /// beginning.
    fn adopt_rotated(
        &mut self,
        mut candidate: Candidate,
        name: &Path,
        originals: &Originals,
        new: &mut [Tail],
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        let (is_compressed, is_short) =
            (candidate.content.is_compressed(), !candidate.head.is_full());
        // Rotations compress renamed files, and copy files that keep their path.
        let is_original =
            |tail: &Tail| !tail.is_compressed() && is_compressed == tail.gone_since().is_some();
        let is_young = self.is_young(&candidate.path, name, &candidate.stat);
        let is_copy =
            is_young && self.original_of(&mut candidate, originals, new, is_original).is_some();
        if is_young && !is_copy && self.handle_truncations(&candidate, originals, cx) {
            self.look_again(candidate);
            return Ok(None);
        }
        if is_copy && !is_compressed && is_short {
            // Two short generations may have the same content. If this one is a copy, its original
            // is about to be truncated.
            if !self.rotations.check_complete(Inode::of(&candidate.stat), &candidate.stat, cx.now) {
                self.rotations.wait_for(candidate.path);
                return Ok(None);
            }
            cx.counters.noted("ambiguous_rotations", 1);
        } else if is_copy || !is_young {
            self.rotations.note_examined(&candidate.stat);
            return Ok(None);
        }
        log::info!(
            "source {}: {} was rotated before it was read; reading it from its beginning",
            cx.info.id,
            candidate.path.display()
        );
        cx.counters.noted("unseen_rotations", 1);
        let mut tail = self.adopt(candidate, 0)?;
        tail.mark_gone(cx.now.since_start);
        Ok(Some(tail))
    }

    /// Returns the id of the file of which the candidate is a copy.
    fn original_of(
        &mut self,
        candidate: &mut Candidate,
        originals: &Originals,
        new: &mut [Tail],
        is_original: impl Fn(&Tail) -> bool,
    ) -> Option<OriginId> {
        let id = originals.of(candidate).into_iter().find(|id| {
            let known = self.files.get(*id).or_else(|| new.iter().find(|tail| tail.id() == *id));
            let closed = known.filter(|tail| tail.open_content().is_none());
            let reopened = closed.and_then(|tail| self.open_inode(tail.path(), tail.inode()));
            let known = self.files.get_mut(*id);
            let known = known.or_else(|| new.iter_mut().find(|tail| tail.id() == *id));
            known.is_some_and(|original| {
                is_original(original)
                    && original.inode() != Inode::of(&candidate.stat)
                    && is_copy(candidate, original, reopened)
            })
        })?;
        let original =
            self.files.get_mut(id).or_else(|| new.iter_mut().find(|tail| tail.id() == id));
        // With a head of the original, its truncation is noticed even if nothing of it was read.
        if original.is_some_and(Tail::update_head) {
            self.grown_heads.push(id);
        }
        Some(id)
    }

    /// Keeps the record of a truncated file for a while, in case its copy appears; also on disk, as
    /// the agent may be killed before it sees the copy.
    pub(super) fn orphan(&mut self, id: OriginId, cx: &SourceCx<'_>) {
        let Some(mut old) = self.remove(id) else { return };
        old.update_fingerprint();
        self.orphans.close(id);
        old.leave_inode();
        let saved = self.open.store.keep(&[(id, old.descriptor().to_bytes())]);
        if let Err(error) = saved {
            log::warn!(
                "source {}: cannot save that {} was truncated: {error}; if the agent is killed before it sees \
                 the copy, it reads the copy as a new file",
                cx.info.id,
                old.name()
            );
            // The record with the inode could match the new content after a restart.
            self.forget(id, cx);
        }
        self.orphans.push(Orphan::new(old, &self.open.sinks, cx.now.since_start));
        if self.is_finite(cx) {
            self.expire_orphans(cx);
        }
    }

    /// Keeps the record of a dropped file whose loss is counted, so that a compressed copy of it is
    /// recognized and its lines are not read as new.
    pub(super) fn remember_given_up(&mut self, mut old: Tail, cx: &SourceCx<'_>) {
        old.update_fingerprint();
        let orphan = Orphan::new(old, &self.open.sinks, cx.now.since_start);
        self.orphans.push(orphan.without_loss());
    }

    /// Counts the unread data of files as lost that were truncated so long ago that no copy will
    /// appear.
    pub(super) fn expire_orphans(&mut self, cx: &SourceCx<'_>) {
        let late = match self.is_finite(cx) {
            true => self.orphans.take_all(),
            false => self.orphans.take_late(cx.now.since_start),
        };
        late.iter().for_each(|orphan| self.count_truncated(orphan.name(), orphan.unread()));
        let late: Vec<OriginId> = late.iter().map(Orphan::id).collect();
        forget(&late, &*self.open.store, &cx.info.id);
    }

    /// Counts the unread data of truncated files without a copy, at a stop. Their records stay for
    /// the next start, which may find the copies.
    pub(super) fn count_orphans(&mut self) {
        let orphans = self.orphans.take_all();
        orphans.iter().for_each(|orphan| self.count_truncated(orphan.name(), orphan.unread()));
    }

    /// Counts the unread data of files truncated after the last poll, at a stop.
    pub(super) fn count_unseen_truncations(&mut self) -> Remainder {
        let mut lost = Remainder::default();
        for (id, bytes) in self.unseen_truncations() {
            self.retention.note_rewritten(id);
            // A copy that was deleted is gone with the process.
            if self.find_copy(id).is_none_or(|(copy, _)| copy.stat.st_nlink == 0) {
                let name =
                    self.files.get(id).map(|tail| tail.name().to_owned()).unwrap_or_default();
                self.count_truncated(&name, bytes);
                lost.add_file(bytes, 1);
            }
        }
        lost
    }

    /// Returns undelivered files that no longer contain what was read of them, with the number of
    /// undelivered bytes as far as their length was known.
    fn unseen_truncations(&mut self) -> Vec<(OriginId, u64)> {
        let undelivered = |tail: &Tail| {
            let settled = self.open.ledger.owed(tail.id())?.settled;
            let bytes = tail.known_size().saturating_sub(settled);
            (bytes > 0 && tail.gone_since().is_none()).then_some((tail.id(), bytes))
        };
        let undelivered: Vec<(OriginId, u64)> = self.files.iter().filter_map(undelivered).collect();
        undelivered.into_iter().filter(|(id, _)| self.was_rewritten(*id)).collect()
    }

    /// Whether a file no longer contains what was read of it, at a stop. One that is closed because of
    /// the limit of open files is opened for that, and closed again unless it was rewritten.
    fn was_rewritten(&mut self, id: OriginId) -> bool {
        let closed = self.files.get(id).filter(|tail| tail.open_content().is_none());
        let reopened = closed.and_then(|tail| self.open_inode(tail.path(), tail.inode()));
        let Some(tail) = self.files.get_mut(id) else { return false };
        let Some(content) = reopened else { return !tail.check_same().unwrap_or(true) };
        tail.reopen(content);
        let is_same = tail.check_same().unwrap_or(true);
        if is_same {
            tail.park();
        }
        !is_same
    }

    fn count_truncated(&self, name: &str, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let counters = &self.open.counters;
        counters.error("truncated_unread");
        counters.dropped("truncated_unread", 1);
        counters.dropped_bytes("truncated_unread", bytes);
        log::error!(
            "source {}: {bytes} bytes of {name} were truncated before every sink delivered them",
            self.open.info.id
        );
    }

    /// Finds the copy of a truncated file among the open files and in its folder: of several, the one
    /// that contains most of what was read. Returns the copy, and its id if it is open.
    pub(super) fn find_copy(&mut self, id: OriginId) -> Option<(Candidate, Option<OriginId>)> {
        let read = self.files.get(id)?.fingerprinted();
        let known = self.known_copy(id);
        if known.as_ref().is_some_and(|(part, ..)| *part == read) {
            return known.map(|(_, candidate, known)| (candidate, Some(known)));
        }
        let mut best = known.map(|(part, candidate, known)| (part, candidate, Some(known)));
        for path in self.rotated_names(id) {
            let Some((mut candidate, known)) = self.unread_candidate(&path, id) else { continue };
            let part = self.files.get(id)?.read_part_in(&mut candidate);
            let most = best.as_ref().map(|(part, ..)| *part);
            let Some(part) = part.filter(|part| most < Some(*part)) else { continue };
            if self.is_copy_of_deleted(id, part, &mut candidate) {
                continue;
            }
            best = Some((part, candidate, known));
            if part == read {
                break;
            }
        }
        best.map(|(_, candidate, known)| (candidate, known))
    }

    /// Returns the open copy of a file that contains most of what was read of it, the longest of
    /// several, with the offset up to which it contains that.
    fn known_copy(&self, id: OriginId) -> Option<(u64, Candidate, OriginId)> {
        let tail = self.files.get(id)?;
        let copies = self.files.iter().filter(|copy| copy.descriptor().copy_of == Some(id));
        let candidates = copies.filter_map(|copy| {
            let content = copy.open_content()?.duplicate();
            let mut candidate = Candidate::of(copy.path().to_path_buf(), content).ok()?;
            let part = match tail.is_unread() {
                true => 0,
                false => tail.read_part_in(&mut candidate)?,
            };
            let bytes = candidate.content.bytes().ok()?;
            Some(((part, bytes), candidate, copy.id()))
        });
        let best = candidates.max_by_key(|(rank, ..)| *rank);
        best.map(|((part, _), candidate, copy)| (part, candidate, copy))
    }

    /// Returns the paths in the folders of a file that may be rotations of it. A copy of a linked
    /// file may lie beside the link.
    fn rotated_names(&self, id: OriginId) -> BTreeSet<PathBuf> {
        let Some(tail) = self.files.get(id) else { return BTreeSet::new() };
        let folders = [tail.path(), Path::new(tail.name())].into_iter().filter_map(Path::parent);
        let names = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        // Plain names sort first: a compressed copy may be incomplete.
        let paths = names.flatten().map(|entry| entry.path());
        paths.filter(|path| may_be_rotation(tail.name(), tail.path(), path)).collect()
    }

    /// Returns the file at a path, and its id if it is open, unless it is known as another file than
    /// a copy of the file `of`.
    fn unread_candidate(&self, path: &Path, of: OriginId) -> Option<(Candidate, Option<OriginId>)> {
        let candidate = self.candidate(path)?;
        let inode = Inode::of(&candidate.stat);
        let is_recorded = |(_, descriptor): &FileRecord| {
            descriptor.device == inode.device && descriptor.is_unchanged(&candidate.stat)
        };
        let is_read = self.finished.get(inode).is_some()
            || self.records.of_inode(inode.number).any(is_recorded);
        if is_read {
            return None;
        }
        let known = self.files.id_of(inode);
        let is_free = |known: &OriginId| {
            let tail = self.files.get(*known);
            *known != of && tail.is_some_and(|tail| tail.descriptor().copy_of == Some(of))
        };
        known.is_none_or(|known| is_free(&known)).then_some((candidate, known))
    }

    /// Whether a candidate holds more of what was read of a deleted file than `part` of the file
    /// `id`: it is the compressed form of a rotated file that begins like this one.
    fn is_copy_of_deleted(&self, id: OriginId, part: u64, candidate: &mut Candidate) -> bool {
        let path = candidate.path.clone();
        let mut others = self.files.iter().filter(|other| {
            other.id() != id
                && other.fingerprinted() > part
                && may_be_rotation(other.name(), other.path(), &path)
        });
        // The status and the content are read last, of the few files with such names.
        others.any(|other| other.is_deleted() && other.read_part_in(candidate) > Some(part))
    }

    pub(super) fn candidate(&self, path: &Path) -> Option<Candidate> {
        let (file, _) = self.open_file(path).ok()??;
        Candidate::of(path.to_path_buf(), Content::new(file, path).ok()?).ok()
    }

    /// Continues a truncated file in its copy. `known` is the id of the copy if it is open.
    pub(super) fn continue_in_copy(
        &mut self,
        id: OriginId,
        copy: Candidate,
        known: Option<OriginId>,
        cx: &SourceCx<'_>,
    ) {
        // Of another copy nothing was read. The next look finds out what of it is not in this one.
        let is_copy = |tail: &&Tail| tail.descriptor().copy_of == Some(id) && !tail.is_deleted();
        let copies: BTreeSet<OriginId> = self.files.iter().filter(is_copy).map(Tail::id).collect();
        for copy in copies.into_iter().chain(known) {
            if self.remove(copy).is_some() {
                self.orphans.close(copy);
                self.forget(copy, cx);
            }
        }
        let inode = Inode::of(&copy.stat);
        let Some(tail) = self.files.get_mut(id) else { return };
        log::info!(
            "source {}: reading of {} continues in its copy {}",
            cx.info.id,
            tail.name(),
            copy.path.display()
        );
        self.schedule.unwatch(tail);
        let Some(tail) = self.files.continue_in(id, copy.content, inode, copy.path) else { return };
        self.open_limit.note_opened(1);
        // The next walk detects whether a pattern matches the copy.
        tail.mark_present();
        tail.dequeue();
        tail.update_fingerprint();
        self.open.store.note(id, tail.descriptor().to_bytes());
        self.schedule.poll_at(tail, cx.now.since_start);
        self.walks.request();
    }

    /// Skips what a growing copy still shares with its original; returns whether the copy may be
    /// read now. If the original was truncated, that must be handled first.
    pub(super) fn follow_copy(&mut self, id: OriginId, cx: &SourceCx<'_>) -> io::Result<bool> {
        let Some((of, head)) = self
            .files
            .get(id)
            .and_then(|tail| Some((tail.descriptor().copy_of?, tail.cursors().head())))
        else {
            return Ok(true);
        };
        // The original may be closed because of the limit.
        self.unpark(of, &[id], cx);
        let original = self
            .files
            .get_mut(of)
            .and_then(|tail| Some((tail.check_same().ok()?, tail.open_content()?.duplicate())));
        let Some(tail) = self.files.get_mut(id) else { return Ok(true) };
        let bytes = tail.content()?.bytes()?;
        match original {
            Some((false, _)) => {
                if let Some(original) = self.files.get_mut(of) {
                    self.schedule.poll_at(original, cx.now.since_start);
                }
                return Ok(false);
            }
            Some((true, mut original)) if bytes > head => {
                if Fingerprint::read(tail.content()?, bytes)?
                    == Fingerprint::read(&mut original, bytes)?
                {
                    skip_range(tail, 0, bytes, cx);
                } else {
                    diverge(tail, &*self.open.store);
                }
            }
            Some(_) => {}
            None => diverge(tail, &*self.open.store),
        }
        Ok(true)
    }
}

/// Ends the treatment of a file as a copy: it has other data than its original, or that is gone.
fn diverge(tail: &mut Tail, store: &dyn OriginStore) {
    tail.set_copy_of(None);
    store.note(tail.id(), tail.descriptor().to_bytes());
}

/// Whether a rotation has renamed a file since it was first seen.
fn is_rotated(tail: &Tail) -> bool {
    may_be_rotation(tail.name(), Path::new(tail.name()), tail.path())
}

/// Whether a candidate is a copy of `tail`. The name and the whole content must match.
fn is_copy(candidate: &mut Candidate, tail: &Tail, reopened: Option<Content>) -> bool {
    let original = reopened.or_else(|| tail.open_content().map(Content::duplicate));
    may_be_rotation(tail.name(), tail.path(), &candidate.path)
        && original.is_some_and(|original| candidate.lies_within(original).unwrap_or(false))
}

/// Counts and skips data that a copy lacks: it was written after the copy and before the
/// truncation.
pub(super) fn skip_missing(tail: &mut Tail, begin: u64, end: u64, cx: &SourceCx<'_>) {
    let bytes = end - begin;
    cx.counters.error("truncated_unread");
    cx.counters.dropped("truncated_unread", 1);
    log::error!(
        "source {}: {bytes} bytes of {} are lost: they are not in its copy",
        cx.info.id,
        tail.name()
    );
    skip_range(tail, begin, end, cx);
}

/// Settles the range from `begin` to `end` without reading it.
pub(super) fn skip_range(tail: &mut Tail, begin: u64, end: u64, cx: &SourceCx<'_>) {
    let is_within = |cursor: &Cursor| (begin..end).contains(&cursor.position);
    while let Some((index, cursor)) =
        tail.cursors().list().iter().copied().enumerate().find(|(_, cursor)| is_within(cursor))
    {
        let end = cursor.until.unwrap_or(end).min(end);
        let range = cursor.position..end;
        cx.ledger
            .issue(tail.id(), range, cursor.sinks, cursor.attempt, cx.now.since_start)
            .finish();
        tail.advance(index, end);
    }
    tail.record_read(&[], end);
}

fn log_continuation(name: &str, copy: &Candidate, cx: &SourceCx<'_>) {
    log::info!("source {}: {name} continues in {}", cx.info.id, copy.path.display());
}
