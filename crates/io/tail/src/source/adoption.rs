//! Creates tails for files: a recorded file keeps its id, and an unknown file gets a new id.

use super::history::History;
use super::scope::{Names, Scope};
use crate::content::{Content, modified_ns};
use crate::copy_detection::Candidate;
use crate::identity::{Descriptor, Fingerprint};
use crate::records::FileRecord;
use crate::rotation_names::container;
use crate::tail::Tail;
use millstream_framing::Framer;
use millstream_model::{Cursors, Now, Origin, OriginId};
use rustix::fs::Stat;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Creates tails for files that are recorded or unknown.
#[derive(Clone, Copy)]
pub(super) struct Adoption<'a> {
    pub scope: &'a Scope,
    pub history: &'a History,
}

/// A file that was opened, and the path at which it was opened.
pub(super) struct OpenedFile {
    pub path: PathBuf,
    pub content: Content,
    pub stat: Stat,
}

impl<'a> Adoption<'a> {
    fn names(self) -> Names<'a> {
        self.scope.names(&self.history.records.generations)
    }

    /// Resumes a recorded file, with each sink at its checkpoint.
    pub(super) fn resume(self, file: OpenedFile, record: FileRecord) -> Tail {
        let OpenedFile { path, content, stat } = file;
        let sinks = self.scope.open.sinks.iter();
        let cursors = Cursors::resume(sinks.map(|(index, id)| (*index, record.settled_by(id))));
        let FileRecord { id, mut descriptor, .. } = record;
        descriptor.device = stat.st_dev;
        descriptor.closed = false;
        if descriptor.rotation_of.is_none() {
            let name = self.names().linked_name(&path);
            descriptor.rotation_of = name.as_deref().map(text_of).map(Into::into);
        }
        if descriptor.since_ns == 0 {
            descriptor.since_ns = self.history.since(Path::new(descriptor.name()));
        }
        let origin = self.origin(id, descriptor.path.clone(), &path);
        self.framed(Tail::new(origin, content, descriptor, cursors, path))
    }

    /// Resumes a recorded file in its copy.
    pub(super) fn resume_in_copy(self, candidate: Candidate, record: FileRecord) -> Tail {
        let Candidate { path, content, stat, .. } = candidate;
        let mut tail = self.resume(OpenedFile { path, content, stat }, record);
        tail.resume_in_copy(&stat);
        tail
    }

    /// Adopts an unknown file with a new id.
    pub(super) fn adopt(self, candidate: Candidate, start: u64) -> io::Result<Tail> {
        let id = OriginId(getrandom::u64().map_err(io::Error::other)?);
        self.adopt_as(id, candidate, start)
    }

    /// Adopts a file under the given id, to be read starting at `start`.
    pub(super) fn adopt_as(
        self,
        id: OriginId,
        candidate: Candidate,
        start: u64,
    ) -> io::Result<Tail> {
        let Candidate { path, mut content, stat, head } = candidate;
        let name: Arc<str> = text_of(self.scope.included_name(&path)).into();
        let mut fingerprint = Fingerprint::default();
        if !content.is_compressed() {
            fingerprint = Fingerprint::read(&mut content, start)?;
        }
        let mut original = None;
        if !self.scope.is_matched(&path) {
            let names = self.names();
            original = names.linked_name(&path).or_else(|| names.name_of(&path));
        }
        let descriptor = Descriptor {
            device: stat.st_dev,
            inode: stat.st_ino,
            head,
            fingerprint,
            start,
            path: name.clone(),
            modified_ns: modified_ns(&stat),
            since_ns: self.history.since(original.as_deref().unwrap_or(&path)),
            rotation_of: original.as_deref().map(text_of).map(Into::into),
            ..Descriptor::default()
        };
        let sinks = self.scope.open.sinks.iter();
        let cursors = Cursors::resume(sinks.map(|(index, _)| (*index, start)));
        let origin = self.origin(id, name, &path);
        Ok(self.framed(Tail::new(origin, content, descriptor, cursors, path)))
    }

    fn framed(self, tail: Tail) -> Tail {
        let settings = &self.scope.settings;
        tail.with_framing(settings.framing.as_ref()).with_header(settings.header.as_ref())
    }

    /// Creates an origin, with the container attributes from the file's path, or from the path of a
    /// link to the file.
    fn origin(self, id: OriginId, name: Arc<str>, path: &Path) -> Arc<Origin> {
        let link = self.names().link_beside(path).map(|link| link.path.as_path());
        let attributes = container(link.unwrap_or(Path::new(&*name)));
        let origin = Origin::new(id, name).with_attributes(attributes);
        if path != Path::new(&*origin.name) {
            origin.state.set_path(path.to_string_lossy());
        }
        Arc::new(origin)
    }

    /// Returns the offset at which to start reading a file that exists at the source's very first
    /// start.
    pub(super) fn first_offset(self, candidate: &mut Candidate, now: Now) -> io::Result<u64> {
        let settings = &self.scope.settings;
        if settings.range.is_some() {
            return Ok(0);
        }
        let age_s = now.unix_ns / 1_000_000_000 - candidate.stat.st_mtime;
        let is_old = settings.ignore_older.is_some_and(|limit| age_s > limit.as_secs() as i64);
        if !is_old && !settings.read_from_end {
            return Ok(0);
        }
        let bytes = candidate.content.bytes()?;
        let framer = settings.framing.as_ref().map(|framing| Framer::new(framing.rules.clone()));
        candidate.content.last_line_start(bytes, framer)
    }
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
