//! Adopts the files that were held when the agent last stopped.

use super::adoption::{Adoption, OpenedFile};
use super::history::History;
use super::identification::Identified;
use super::retention::Retention;
use super::rotations::UnknownFile;
use super::scope::Scope;
use super::tails::Tails;
use crate::content::Content;
use crate::copy_detection::Candidate;
use crate::held::HeldFile;
use crate::identity::Inode;
use crate::records::FileRecord;
use crate::tail::Tail;
use millstream_model::SourceCx;
use rustix::fs::{Stat, fstat};
use std::io;
use std::path::PathBuf;

/// The parts of the source that change when held files are adopted.
pub(super) struct Restoring<'a> {
    pub scope: &'a Scope,
    pub files: &'a Tails,
    pub history: &'a mut History,
    pub retention: &'a mut Retention,
}

/// The result of looking up a held file in the checkpoint store's records.
enum HeldRecord {
    Same(Box<FileRecord>),
    /// The recorded file has other content.
    Other,
    Unknown,
}

impl Restoring<'_> {
    fn adoption(&self) -> Adoption<'_> {
        Adoption { scope: self.scope, history: self.history }
    }

    /// Adopts files that were held when the agent last stopped. A held file that still has another
    /// path is adopted only once.
    pub(super) fn restore_held(&mut self, identified: &mut Identified, cx: &SourceCx<'_>) {
        if !self.retention.begin_restore() {
            return;
        }
        let mut files = self.list(cx);
        files.retain(|file| self.files.get(file.id).is_none());
        for file in files {
            if self.verify_found(&file, identified) {
                self.retention.remove(&file);
                continue;
            }
            match self.adopt(&file, &mut identified.new, cx) {
                Ok(Some(tail)) => self.add(tail, identified),
                Ok(None) => {}
                Err(error) => {
                    log::error!(
                        "source {}: cannot read the held file {}: {error}; will retry the next \
                         time the agent starts",
                        cx.info.id,
                        self.retention.path_of(&file).display()
                    );
                    cx.counters.error("read");
                }
            }
        }
    }

    /// Returns whether the walk has found a file that has the id of a held copy and contains it.
    /// The agent may have continued in this file before the restart, or the file may have the
    /// inode number of the deleted file. A file that does not contain the copy is compared again.
    fn verify_found(&mut self, file: &HeldFile, identified: &mut Identified) -> bool {
        let is_same = |tail: &Tail| file.part.is_some() && tail.id() == file.id;
        let Some(index) = identified.new.iter().position(is_same) else { return false };
        let tail = &identified.new[index];
        let path = tail.path().to_path_buf();
        let content = self.scope.open_inode(&path, tail.inode());
        let found = content.and_then(|content| Candidate::of(path.clone(), content).ok());
        let copy = self.retention.open_content(file).ok();
        let contains = found
            .zip(copy)
            .is_some_and(|(mut found, mut copy)| found.begins_with(&mut copy).unwrap_or(false));
        if !contains {
            let tail = identified.new.swap_remove(index);
            identified.unknown.push(UnknownFile { path, inode: tail.inode(), name: None });
            self.history.records.insert(tail.into_record(&self.scope.open.sinks));
        }
        contains
    }

    fn list(&self, cx: &SourceCx<'_>) -> Vec<HeldFile> {
        self.retention.list().unwrap_or_else(|error| {
            log::error!(
                "source {}: cannot list the held files in {}: {error}; check its permissions",
                cx.info.id,
                self.retention.folder_path().display()
            );
            cx.counters.error("read");
            Vec::new()
        })
    }

    fn add(&self, mut tail: Tail, identified: &mut Identified) {
        let unknown = &mut identified.unknown;
        if let Some(index) = unknown.iter().position(|other| other.inode == tail.inode()) {
            // A file continued in this copy, but the copy's inode was not committed.
            tail.set_path(&unknown.swap_remove(index).path);
            tail.mark_present();
        }
        identified.inodes.insert(tail.inode());
        self.files.add_new(&mut identified.new, tail);
    }

    fn adopt(
        &mut self,
        file: &HeldFile,
        new: &mut [Tail],
        cx: &SourceCx<'_>,
    ) -> io::Result<Option<Tail>> {
        let opened = self.retention.open(file)?;
        let stat = fstat(&opened)?;
        let inode = Inode::of(&stat);
        if self.files.id_of(inode).is_some() {
            return Ok(None);
        }
        if self.history.finished.get(inode).is_some() {
            // All data in the file has been settled.
            self.retention.remove(file);
            return Ok(None);
        }
        // The file still has another path.
        if let Some(tail) = new.iter_mut().find(|tail| tail.inode() == inode) {
            tail.set_held(file.clone());
            return Ok(None);
        }
        let content = Content::new(opened, &self.retention.path_of(file))?;
        let mut tail = self.resume(file, content, &stat, cx)?;
        tail.mark_gone(cx.now.since_start);
        Ok(Some(tail))
    }

    /// Adopts a held file that has no other path, and resumes reading it.
    fn resume(
        &mut self,
        file: &HeldFile,
        mut content: Content,
        stat: &Stat,
        cx: &SourceCx<'_>,
    ) -> io::Result<Tail> {
        let path = self.retention.path_of(file);
        let part = file.part.filter(|_| !content.is_compressed());
        let start = part.map_or(0, |part| part.from);
        let mut tail = match self.take_record(file, &mut content)? {
            HeldRecord::Same(mut record) => {
                // A sink that was added later starts where the copy does.
                record.raise(start);
                record.descriptor.device = stat.st_dev;
                record.descriptor.inode = stat.st_ino;
                let path = PathBuf::from(&*record.descriptor.path);
                self.adoption().resume(OpenedFile { path, content, stat: *stat }, *record)
            }
            // The file was rewritten before it was deleted, so its content gets a new id.
            HeldRecord::Other => {
                let mut tail = self.adoption().adopt(Candidate::of(path, content)?, start)?;
                tail.set_held(self.retention.rename(file, tail.id())?);
                return Ok(tail);
            }
            HeldRecord::Unknown => {
                log::warn!(
                    "source {}: the checkpoint store has no record of the held file {}; reading it from its beginning",
                    cx.info.id,
                    path.display()
                );
                self.adoption().adopt_as(file.id, Candidate::of(path, content)?, start)?
            }
        };
        tail.set_held(file.clone());
        Ok(tail)
    }

    /// Removes and returns the record of a held file, if the content matches.
    fn take_record(&mut self, file: &HeldFile, content: &mut Content) -> io::Result<HeldRecord> {
        let records = &mut self.history.records;
        let Some(record) = records.get(file.id) else { return Ok(HeldRecord::Unknown) };
        let known = record.furthest().max(record.descriptor.fingerprint.end);
        let to = file.copied_to().filter(|to| *to < known && !content.is_compressed());
        // A copy that ends before the fingerprint is identified by its name. The file was checked
        // before each renaming of the copy.
        if to.is_none()
            && !record.descriptor.identifies(content, record.furthest()).unwrap_or(false)
        {
            return Ok(HeldRecord::Other);
        }
        let Some(mut record) = records.remove(file.id) else { return Ok(HeldRecord::Unknown) };
        if let Some(to) = to {
            record.descriptor.continue_in_part(content, to)?;
        }
        Ok(HeldRecord::Same(Box::new(record)))
    }
}
