//! Copy detection: copies made by copytruncate rotations, and compressed rotations.
//!
//! A candidate is a copy if its name is a rotation name of the original, and its content matches
//! what was read from the original, or its current content. Data in a copy is treated as read. If
//! the original is truncated or deleted before all of it was read, reading continues in the copy
//! with the same id.

use super::adoption::Adoption;
use super::copy_search::{CopyFile, CopySearch, PartialCopy};
use super::finishing::Finishing;
use super::history::History;
use super::holding::Holding;
use super::insertion::Insertion;
use super::orphans::Orphan;
use super::retention::Retention;
use super::rotations::UnknownFile;
use super::schedule::{TICK, UNWATCHED_POLL};
use super::scope::{Names, Scope};
use super::skipping::skip_range;
use super::tails::Tails;
use super::walks::Walks;
use super::{GONE_SILENCE, is_silent};
use crate::content::Content;
use crate::copy_detection::{Candidate, Originals, may_be_rotation};
use crate::folder_inodes::FolderInodes;
use crate::identity::{Descriptor, Fingerprint, Inode};
use crate::records::{FileRecord, forget};
use crate::tail::Tail;
use crate::watch::Watch;
use millstream_model::{OriginId, OriginStore, SourceCx};
use rustix::fs::{Stat, fstat, stat};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// The parts of the source that change when a file is compared with other files, or has been
/// truncated.
pub(super) struct Copies<'a> {
    pub scope: &'a Scope,
    pub files: &'a mut Tails,
    pub history: &'a mut History,
    pub retention: &'a mut Retention,
    pub walks: &'a mut Walks,
    pub watch: &'a mut Watch,
}

/// The files with which an unknown file is compared.
pub(super) struct Comparison<'a> {
    pub originals: &'a Originals,
    pub folder_inodes: &'a FolderInodes,
    /// Files that the current walk has opened.
    pub new: &'a mut [Tail],
}

impl Comparison<'_> {
    fn get<'t>(&'t self, id: OriginId, files: &'t Tails) -> Option<&'t Tail> {
        files.get(id).or_else(|| self.new.iter().find(|tail| tail.id() == id))
    }

    fn get_mut<'t>(&'t mut self, id: OriginId, files: &'t mut Tails) -> Option<&'t mut Tail> {
        files.get_mut(id).or_else(|| self.new.iter_mut().find(|tail| tail.id() == id))
    }

    /// Returns whether a possible original of the candidate was opened by this walk and has been
    /// truncated since. The next walk handles the truncation, after the source has started reading
    /// the file.
    fn check_new_truncated(&mut self, candidate: &Candidate) -> bool {
        let ids = self.originals.ids_for(candidate);
        // A rewritten file and the copy of its old content differ in their first bytes, so search
        // by name as well.
        let paths = self.originals.paths_beside(candidate);
        if ids.is_empty() && paths.is_empty() {
            return false;
        }
        let is_related =
            |tail: &Tail| ids.contains(&tail.id()) || paths.iter().any(|path| path == tail.path());
        let mut related = self.new.iter_mut().filter(|tail| is_related(tail));
        related.any(|tail| !tail.check_same().unwrap_or(true))
    }
}

// The other steps.
impl Copies<'_> {
    fn names(&self) -> Names<'_> {
        self.scope.names(&self.history.records.generations)
    }

    fn adoption(&self) -> Adoption<'_> {
        Adoption { scope: self.scope, history: self.history }
    }

    fn search(&self) -> CopySearch<'_> {
        CopySearch { scope: self.scope, files: self.files, history: self.history }
    }

    fn finishing(&mut self) -> Finishing<'_> {
        Finishing {
            scope: self.scope,
            files: self.files,
            history: self.history,
            walks: self.walks,
            watch: self.watch,
        }
    }

    fn holding(&mut self) -> Holding<'_> {
        Holding {
            scope: self.scope,
            files: self.files,
            history: self.history,
            retention: self.retention,
        }
    }

    fn insertion(&mut self) -> Insertion<'_> {
        Insertion {
            scope: self.scope,
            files: self.files,
            history: self.history,
            retention: self.retention,
            walks: self.walks,
        }
    }
}

impl Copies<'_> {
    /// Adopts files with an unknown inode, and detects which of them are copies.
    pub(super) fn adopt_unknown(
        &mut self,
        unknown: Vec<UnknownFile>,
        new: &mut Vec<Tail>,
        unreadable: &mut BTreeMap<PathBuf, String>,
        cx: &SourceCx<'_>,
    ) {
        let paths: Vec<PathBuf> = unknown.iter().map(|file| file.path.clone()).collect();
        self.finishing().load_originals(&paths, cx);
        let mut originals = Originals::default();
        if !unknown.is_empty() {
            originals = self.all_originals(new);
        }
        let folder_inodes = FolderInodes::default();
        for UnknownFile { path, inode, name } in unknown {
            let candidate = self.names().candidate(&path);
            let is_same = |candidate: &Candidate| Inode::of(&candidate.stat) == inode;
            let Some(candidate) = candidate.filter(is_same) else { continue };
            if self.handle_truncations(&candidate, &originals, cx) {
                originals = self.all_originals(new);
            }
            // A truncated file already continues in this copy.
            if self.files.id_of(inode).is_some() {
                continue;
            }
            let others = Comparison { originals: &originals, folder_inodes: &folder_inodes, new };
            match self.adopt_one(candidate, name, others, cx) {
                Ok(Some(tail)) => {
                    tail.add_to(&mut originals);
                    self.files.add_new(new, tail);
                }
                Ok(None) => {}
                Err(error) => {
                    unreadable.insert(path, error.to_string());
                }
            }
        }
    }

    fn all_originals(&self, new: &[Tail]) -> Originals {
        let mut originals = Originals::default();
        for tail in self.files.iter().chain(new) {
            tail.add_to(&mut originals);
        }
        originals
    }

    /// Adopts a file with an unknown inode. A rotated file that matches no pattern, a generation of
    /// `name`, is adopted only if it has unread data.
    pub(super) fn adopt_one(
        &mut self,
        mut candidate: Candidate,
        name: Option<PathBuf>,
        mut others: Comparison<'_>,
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        if name.is_some() && self.match_settled(&mut candidate, &others) {
            return Ok(None);
        }
        if let Some(original) = self.part_in(&mut candidate, &others) {
            return self.adopt_copy(candidate, original, &mut others, cx).map(Some);
        }
        // Rotations compress files that were renamed, and copy files that keep their path. A plain
        // file with the content of a renamed file is therefore another generation.
        let is_plain = !candidate.content.is_compressed();
        let is_original = |tail: &Tail| !is_plain || !is_rotated(tail);
        let mut original = None;
        if name.is_none() {
            original = self.original_of(&mut candidate, &mut others, is_original);
        }
        // A copy is read entirely from its original, even if other files begin with the same bytes.
        // This excludes compressed files: they are compared only by size and time, and are rarely
        // copies of a file that is still being written.
        if let Some(original) = original
            && is_plain
            && others.get(original, self.files).is_some_and(has_its_name)
        {
            return self.adopt_copy(candidate, original, &mut others, cx).map(Some);
        }
        if self.history.orphans.is_in_flight(&mut candidate) {
            self.look_again(candidate);
            return Ok(None);
        }
        if let Some(record) = self.resume_in_copy(&mut candidate, others.folder_inodes, cx) {
            return Ok(Some(self.continue_in(candidate, record, name.is_some(), cx)));
        }
        match (name, original) {
            (Some(name), _) => self.adopt_rotated(candidate, &name, others, cx),
            (None, Some(original)) => {
                self.adopt_copy(candidate, original, &mut others, cx).map(Some)
            }
            (None, None) => self.adopt_other(candidate, &mut others, cx),
        }
    }

    fn match_settled(&mut self, candidate: &mut Candidate, others: &Comparison<'_>) -> bool {
        self.history.match_settled(candidate, others.folder_inodes, &self.scope.open)
    }

    /// Adopts a file that matches a pattern and no original. If an original has just been
    /// truncated, the comparison must be repeated, and the result is `None`.
    fn adopt_other(
        &mut self,
        candidate: Candidate,
        others: &mut Comparison<'_>,
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        if self.check_originals(&candidate, others, cx) {
            self.look_again(candidate);
            return Ok(None);
        }
        self.adopt_included(candidate, cx).map(Some)
    }

    /// Resumes reading a recorded file in the candidate. `is_gone` means that no pattern matches
    /// the candidate.
    fn continue_in(
        &self,
        candidate: Candidate,
        record: FileRecord,
        is_gone: bool,
        cx: &SourceCx<'_>,
    ) -> Tail {
        let mut tail = self.adoption().resume_in_copy(candidate, record);
        if is_gone {
            tail.mark_gone(cx.now.since_start);
        } else {
            tail.mark_present();
        }
        tail
    }

    /// Makes the next walk or name check examine a file again.
    fn look_again(&mut self, candidate: Candidate) {
        self.history.rotations.wait_for(candidate.path);
        self.walks.request();
    }
}

// Truncated files.
impl Copies<'_> {
    /// Handles a truncated file. Its new content becomes a new file with a new id. Reading of the
    /// old content continues in its copy, if there is one.
    pub(super) fn truncated(&mut self, id: OriginId, cx: &SourceCx<'_>) {
        let copy = self.search().find_copy(id);
        let Some(old) = self.files.get_mut(id) else { return };
        log::info!(
            "source {}: {} was truncated; reading it from its beginning",
            cx.info.id,
            old.name()
        );
        let path = old.path().to_path_buf();
        let before = old.origin().clone();
        let candidate = old.content().and_then(|content| Candidate::of(path, content.duplicate()));
        match candidate.and_then(|candidate| self.adopt_rewritten(candidate, cx)) {
            Ok(Some(mut tail)) => {
                cx.counters.noted("truncations", 1);
                if let Some(old) = self.files.get_mut(id) {
                    self.retention.move_link(old, &mut tail, &cx.info.id);
                }
                let truncations = before.state.truncations.swap(0, Relaxed);
                tail.origin().state.truncations.store(truncations + 1, Relaxed);
                match copy {
                    Some(copy) => self.continue_in_copy(id, copy, cx),
                    None => self.orphan(id, cx),
                }
                self.insertion().insert(vec![tail], cx);
            }
            Ok(None) => self.poll_later(id, cx),
            Err(error) => {
                log::warn!(
                    "source {}: cannot read a truncated file: {error}; retrying",
                    cx.info.id
                );
                self.poll_later(id, cx);
            }
        }
    }

    fn poll_later(&mut self, id: OriginId, cx: &SourceCx<'_>) {
        self.files.skip_until(id, cx.now.since_start + UNWATCHED_POLL);
    }

    /// Adopts the new content of a rewritten file. The content may be a copy, because programs that
    /// keep a single copy overwrite it; otherwise, it is a new file. Returns `None` while data from
    /// the original of such a copy is in flight.
    fn adopt_rewritten(
        &mut self,
        mut candidate: Candidate,
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        self.finishing().load_originals(std::slice::from_ref(&candidate.path), cx);
        let mut originals = self.in_place();
        if self.handle_truncations(&candidate, &originals, cx) {
            originals = self.in_place();
        }
        if self.history.orphans.is_in_flight(&mut candidate) {
            return Ok(None);
        }
        if let Some(orphan) = self.history.orphans.take(&mut candidate) {
            log_continuation(orphan.name(), &candidate, cx);
            let record = orphan.into_record(&mut candidate);
            return Ok(Some(self.adoption().resume_in_copy(candidate, record)));
        }
        let folder_inodes = FolderInodes::default();
        let mut others =
            Comparison { originals: &originals, folder_inodes: &folder_inodes, new: &mut [] };
        match self.original_of(&mut candidate, &mut others, |tail| !is_rotated(tail)) {
            Some(original) => self.adopt_copy(candidate, original, &mut others, cx).map(Some),
            None => self.adopt_included(candidate, cx).map(Some),
        }
    }

    /// Returns the files that still have the path where they were first seen. Because such names
    /// are shorter than the names of copies, handling a truncation never leads back to the same
    /// file.
    fn in_place(&self) -> Originals {
        let mut originals = Originals::default();
        for tail in self.files.iter().filter(|tail| tail.path() == Path::new(tail.name())) {
            tail.add_to(&mut originals);
        }
        originals
    }

    /// Handles possible originals of the candidate that were truncated, because the copy does not
    /// match their new content. Returns whether any original was truncated.
    fn handle_truncations(
        &mut self,
        candidate: &Candidate,
        originals: &Originals,
        cx: &SourceCx<'_>,
    ) -> bool {
        // A rewritten file and the copy of its old content differ in their first bytes, so search
        // by name as well.
        let paths = originals.paths_beside(candidate).into_iter();
        let beside = paths.filter_map(|path| self.files.id_of(Inode::of(&stat(path).ok()?)));
        let related: BTreeSet<OriginId> =
            originals.ids_for(candidate).into_iter().chain(beside).collect();
        let truncated = related.into_iter().filter(|id| self.check_truncated(*id, cx));
        let truncated: Vec<OriginId> = truncated.collect();
        for id in &truncated {
            self.truncated(*id, cx);
        }
        !truncated.is_empty()
    }

    /// Returns whether a possible original of the candidate was truncated, so that the comparison
    /// must be repeated. Handles the truncations of files that earlier walks have opened.
    fn check_originals(
        &mut self,
        candidate: &Candidate,
        others: &mut Comparison<'_>,
        cx: &SourceCx<'_>,
    ) -> bool {
        self.handle_truncations(candidate, others.originals, cx)
            || others.check_new_truncated(candidate)
    }

    /// Returns whether a file no longer contains what was read from it. A file that is closed
    /// because of the limit on open files is reopened for the check.
    fn check_truncated(&mut self, id: OriginId, cx: &SourceCx<'_>) -> bool {
        let closed = self.files.get(id).filter(|tail| tail.open_content().is_none());
        let reopened = closed.map(|tail| self.scope.open_inode(tail.path(), tail.inode()));
        // A file that cannot be found has not been truncated.
        reopened.is_none_or(|content| content.is_some())
            && self.holding().reopen(id, &[], cx)
            && self.files.get_mut(id).is_some_and(|tail| !tail.check_same().unwrap_or(true))
    }
}

// Adoption.
impl Copies<'_> {
    /// If a vanished file continues in the candidate, removes and returns the vanished file's
    /// record.
    fn resume_in_copy(
        &mut self,
        candidate: &mut Candidate,
        folder_inodes: &FolderInodes,
        cx: &SourceCx<'_>,
    ) -> Option<FileRecord> {
        if let Some(orphan) = self.history.orphans.take(candidate) {
            log_continuation(orphan.name(), candidate, cx);
            let record = orphan.into_record(candidate);
            self.history.rotations.note_since(&record.descriptor);
            return Some(record);
        }
        // If several records match, the record with the most hashed bytes is the best evidence.
        let mut best: Option<(OriginId, u64)> = None;
        let path = candidate.path.clone();
        for record in self.history.records.related(&path) {
            let end = record.descriptor.hashed_bytes();
            if best.is_none_or(|(_, most)| most < end)
                && continues_in(&record.descriptor, candidate, folder_inodes)
            {
                best = Some((record.id, end));
            }
        }
        let (id, _) = best?;
        let record = self.history.records.remove(id)?;
        self.history.rotations.note_since(&record.descriptor);
        log_continuation(&record.descriptor.path, candidate, cx);
        Some(record)
    }

    /// Adopts a copy of a file, to be read starting at its end.
    fn adopt_copy(
        &mut self,
        mut candidate: Candidate,
        original: OriginId,
        others: &mut Comparison<'_>,
        cx: &SourceCx<'_>,
    ) -> io::Result<Tail> {
        let start = candidate.content.bytes()?;
        let last = Fingerprint::read(&mut candidate.content, start)?;
        log::debug!("source {}: {} is a copy", cx.info.id, candidate.path.display());
        let mut tail = self.adoption().adopt(candidate, start)?;
        tail.set_copy_of(Some(original));
        // With this record, a truncation of the original is noticed even before its first read. A
        // held copy is never truncated, and may be shorter.
        let retention = &*self.retention;
        let is_file = |tail: &&mut Tail| !retention.is_read_from_copy(tail);
        if let Some(original) = others.get_mut(original, self.files).filter(is_file) {
            original.note_copied(last);
        }
        Ok(tail)
    }

    /// Adopts a file that matches a pattern and is not a copy.
    fn adopt_included(&mut self, mut candidate: Candidate, cx: &SourceCx<'_>) -> io::Result<Tail> {
        self.log_replaced(&candidate.path, &candidate.stat, cx);
        let adoption = self.adoption();
        let mut start = 0;
        if self.scope.first_start {
            start = adoption.first_offset(&mut candidate, cx.now)?;
        }
        adoption.adopt(candidate, start)
    }

    /// Logs that the file at a path has replaced the file from before the restart, whose unread
    /// data is lost.
    fn log_replaced(&self, path: &Path, stat: &Stat, cx: &SourceCx<'_>) {
        let name = self.scope.included_name(path);
        let is_replaced = |record: &FileRecord| {
            record.descriptor.device == stat.st_dev && Path::new(&*record.descriptor.path) == name
        };
        if self.history.records.of_inode(stat.st_ino).any(is_replaced) {
            cx.counters.noted("truncations", 1);
            log::warn!(
                "source {}: {} was truncated or replaced while the agent was down; reading it from \
                 its beginning; the unread data is lost unless the agent finds a copy of the old \
                 file",
                cx.info.id,
                path.display()
            );
        }
    }

    /// Adopts an unread generation of `name` that matches no pattern, to be read from its
    /// beginning.
    fn adopt_rotated(
        &mut self,
        mut candidate: Candidate,
        name: &Path,
        mut others: Comparison<'_>,
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        let is_compressed = candidate.content.is_compressed();
        let is_short = !candidate.head.is_full();
        // Rotations compress renamed files, and copy files that keep their path.
        let is_original =
            |tail: &Tail| !tail.is_compressed() && is_compressed == tail.gone_since().is_some();
        let exclude = &self.scope.settings.exclude;
        let is_young = self.history.is_young(&candidate.path, name, &candidate.stat, exclude);
        let is_copy =
            is_young && self.original_of(&mut candidate, &mut others, is_original).is_some();
        if is_young && !is_copy && self.check_originals(&candidate, &mut others, cx) {
            self.look_again(candidate);
            return Ok(None);
        }
        let rotations = &mut self.history.rotations;
        if is_copy && !is_compressed && is_short {
            // Two short generations may have the same content. If the candidate is instead a copy,
            // its original is about to be truncated.
            if !rotations.check_complete(Inode::of(&candidate.stat), &candidate.stat, cx.now) {
                rotations.wait_for(candidate.path);
                return Ok(None);
            }
            cx.counters.noted("ambiguous_rotations", 1);
        } else if is_copy || !is_young {
            rotations.note_examined(&candidate.stat);
            return Ok(None);
        }
        log::info!(
            "source {}: {} was rotated before it was read; reading it from its beginning",
            cx.info.id,
            candidate.path.display()
        );
        cx.counters.noted("unseen_rotations", 1);
        let mut tail = self.adoption().adopt(candidate, 0)?;
        tail.mark_gone(cx.now.since_start);
        Ok(Some(tail))
    }

    /// Returns the original's id if the candidate is a copy.
    fn original_of(
        &mut self,
        candidate: &mut Candidate,
        others: &mut Comparison<'_>,
        is_original: impl Fn(&Tail) -> bool,
    ) -> Option<OriginId> {
        let mut ids = others.originals.ids_for(candidate).into_iter();
        let id = ids.find(|id| {
            let Some(tail) = others.get(*id, self.files) else { return false };
            let mut reopened = None;
            if tail.open_content().is_none() {
                reopened = self.scope.open_inode(tail.path(), tail.inode());
            }
            is_original(tail)
                && tail.inode() != Inode::of(&candidate.stat)
                && is_copy(candidate, tail, reopened)
        })?;
        // Once the original's head is saved, a truncation is noticed even if nothing has been read
        // from the original.
        if others.get_mut(id, self.files).is_some_and(Tail::update_head) {
            self.files.note_grown_head(id);
        }
        Some(id)
    }
}

// Orphans and copies of truncated files.
impl Copies<'_> {
    /// Keeps the record of a truncated file for a while, in case its copy appears. The record is
    /// also saved, because the agent may be killed before it sees the copy.
    fn orphan(&mut self, id: OriginId, cx: &SourceCx<'_>) {
        let generations = &mut self.history.records.generations;
        let Some(mut old) = self.files.remove(id, generations) else { return };
        let open = &self.scope.open;
        old.update_fingerprint();
        self.history.orphans.close(id);
        old.leave_inode();
        if let Err(error) = open.store.keep(&[(id, old.descriptor().to_bytes())]) {
            log::warn!(
                "source {}: cannot record that {} was truncated: {error}; if the agent is killed \
                 before it finds the copy, it will treat the copy as a new file",
                cx.info.id,
                old.name()
            );
            // Delete the record, because after a restart it could match the new content by inode.
            forget(&[id], &*open.store, &cx.info.id);
        }
        self.history.orphans.push(Orphan::new(old, &open.sinks, cx.now.since_start));
        if self.scope.is_finite(cx) {
            self.history.orphans.expire(self.scope, cx);
        }
    }

    /// Continues a truncated file in its copy.
    fn continue_in_copy(&mut self, id: OriginId, copy: CopyFile, cx: &SourceCx<'_>) {
        let open = &self.scope.open;
        // Nothing has been read from the other copies, so forget them. The next look detects data
        // in them that this copy lacks.
        let is_copy = |tail: &&Tail| tail.descriptor().copy_of == Some(id) && !tail.is_deleted();
        let copies: BTreeSet<OriginId> = self.files.iter().filter(is_copy).map(Tail::id).collect();
        for copy in copies.into_iter().chain(copy.id) {
            let generations = &mut self.history.records.generations;
            if self.files.remove(copy, generations).is_some() {
                self.history.orphans.close(copy);
                forget(&[copy], &*open.store, &cx.info.id);
            }
        }
        let Candidate { path, content, stat, .. } = copy.candidate;
        let Some(tail) = self.files.get(id) else { return };
        log::info!(
            "source {}: continuing to read {} in its copy {}",
            cx.info.id,
            tail.name(),
            path.display()
        );
        let Some(tail) = self.files.continue_in(id, content, Inode::of(&stat), path) else {
            return;
        };
        // The next walk determines whether a pattern matches the copy.
        tail.mark_present();
        tail.dequeue();
        tail.update_fingerprint();
        open.store.note(id, tail.descriptor().to_bytes());
        self.files.poll_at(id, cx.now.since_start);
        self.walks.request();
    }

    /// Returns the deleted file whose incomplete held copy the candidate contains and continues.
    /// The candidate is adopted as a copy. Before the candidate's first read,
    /// [`Copies::follow_copy`] makes the file continue in it.
    fn part_in(&self, candidate: &mut Candidate, others: &Comparison<'_>) -> Option<OriginId> {
        let ids = others.originals.ids_for(candidate).into_iter();
        let mut tails = ids.filter_map(|id| others.get(id, self.files));
        tails.find(|tail| self.retention.is_extended_by(tail, candidate)).map(Tail::id)
    }

    /// If a file is read from an incomplete held copy, and an open copy contains more of the file,
    /// continues in the open copy and returns `true`.
    pub(super) fn continue_part(&mut self, id: OriginId, cx: &SourceCx<'_>) -> bool {
        let is_part = |tail: &&Tail| self.retention.is_read_from_copy(tail);
        let Some(tail) = self.files.get(id).filter(is_part) else { return false };
        let Some(PartialCopy { mut copy, .. }) = self.search().open_copy(id) else { return false };
        if !self.retention.is_extended_by(tail, &mut copy.candidate) {
            return false;
        }
        self.continue_in_copy(id, copy, cx);
        if let Some(tail) = self.files.get_mut(id) {
            self.retention.release(tail);
        }
        true
    }

    /// Returns whether another copy may have the data that an incomplete held copy lacks. Reading
    /// continues in the copy, or the file is polled again until all compressed files have been
    /// examined.
    pub(super) fn awaits_copy(&mut self, id: OriginId, cx: &SourceCx<'_>) -> bool {
        if self.continue_part(id, cx) {
            return true;
        }
        let now = cx.now.since_start;
        let may_continue = |tail: &Tail| {
            self.retention.is_read_from_copy(tail) && !is_silent(tail, now, GONE_SILENCE)
        };
        let awaits =
            !self.history.rotations.is_complete() && self.files.get(id).is_some_and(may_continue);
        if awaits {
            self.files.skip_until(id, now + TICK);
        }
        awaits
    }

    /// Returns the end offset of the held copy from which a file is read.
    fn held_end(&self, id: OriginId) -> Option<u64> {
        let tail = self.files.get(id).filter(|tail| self.retention.is_read_from_copy(tail))?;
        fstat(tail.open_content()?.file()).ok().map(|stat| stat.st_size as u64)
    }

    /// Skips the data that a growing copy still shares with its original; returns whether the copy
    /// may be read now. A truncation of the original must be handled before that.
    pub(super) fn follow_copy(&mut self, id: OriginId, cx: &SourceCx<'_>) -> io::Result<bool> {
        let Some(tail) = self.files.get(id) else { return Ok(true) };
        let head = tail.cursors().head();
        let Some(original) = tail.descriptor().copy_of else { return Ok(true) };
        // The original may be closed because of the limit on open files.
        self.holding().reopen(original, &[id], cx);
        let content = self.files.get_mut(original).and_then(|tail| {
            let is_same = tail.check_same().ok()?;
            Some((is_same, tail.open_content()?.duplicate()))
        });
        let Some(tail) = self.files.get_mut(id) else { return Ok(true) };
        let bytes = tail.content()?.bytes()?;
        if self.held_end(original).is_some_and(|end| bytes > end)
            && self.continue_part(original, cx)
        {
            return Ok(false);
        }
        let Some(tail) = self.files.get_mut(id) else { return Ok(true) };
        match content {
            Some((false, _)) => {
                self.files.poll_at(original, cx.now.since_start);
                return Ok(false);
            }
            Some((true, mut original)) if bytes > head => {
                let is_shared = Fingerprint::read(tail.content()?, bytes)?
                    == Fingerprint::read(&mut original, bytes)?;
                if is_shared {
                    skip_range(tail, 0, bytes, cx);
                } else {
                    diverge(tail, &*self.scope.open.store);
                }
            }
            Some(_) => {}
            None => diverge(tail, &*self.scope.open.store),
        }
        Ok(true)
    }
}

/// Returns whether a vanished file continues in the candidate. A closed file whose inode still
/// exists is a different file, even if it has the same content.
fn continues_in(
    descriptor: &Descriptor,
    candidate: &mut Candidate,
    folder_inodes: &FolderInodes,
) -> bool {
    if descriptor.closed {
        return !folder_inodes.has(&candidate.path, descriptor.inode)
            && candidate.continues(descriptor);
    }
    let fingerprint = descriptor.fingerprint;
    candidate.holds(descriptor.head, Some(fingerprint).filter(|fingerprint| fingerprint.end > 0))
}

/// Stops treating a file as a copy, because the original has other data or is gone.
fn diverge(tail: &mut Tail, store: &dyn OriginStore) {
    tail.set_copy_of(None);
    store.note(tail.id(), tail.descriptor().to_bytes());
}

/// Returns whether a rotation has renamed a file since it was first seen.
fn is_rotated(tail: &Tail) -> bool {
    may_be_rotation(tail.name(), Path::new(tail.name()), tail.path())
}

/// Returns whether a file still has the name under which it is written.
fn has_its_name(tail: &Tail) -> bool {
    tail.gone_since().is_none() && !tail.is_rotated()
}

/// Returns whether a candidate is a copy of `tail`. The name and the whole content must match.
fn is_copy(candidate: &mut Candidate, tail: &Tail, reopened: Option<Content>) -> bool {
    let original = reopened.or_else(|| tail.open_content().map(Content::duplicate));
    may_be_rotation(tail.name(), tail.path(), &candidate.path)
        && original.is_some_and(|original| candidate.lies_within(original).unwrap_or(false))
}

fn log_continuation(name: &str, copy: &Candidate, cx: &SourceCx<'_>) {
    log::info!("source {}: {name} continues in {}", cx.info.id, copy.path.display());
}
