//! Copy detection: whether a file holds what another file held.

use super::content::{Content, modified_ns};
use super::identity::{Descriptor, Fingerprint, Fingerprints, HEAD_BYTES_MAX, Head};
use super::rotation_names::{is_rotation_name, stem};
use rustix::fs::{Stat, fstat};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// A file whose inode is unknown.
pub struct Candidate {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub content: Content,
    /// Its status.
    pub stat: Stat,
    /// Hash of its head.
    pub head: Head,
}

/// Index of possible originals by the stem of their names, as thousands of files may begin alike,
/// in name and in content.
#[derive(Default)]
pub struct Originals(HashMap<String, Vec<(u64, Head)>>);

impl Originals {
    /// Adds a file that was first seen as `name` and is now at `path`.
    pub fn add(&mut self, id: u64, (name, path): (&str, &Path), head: Head) {
        let (first, now) = (file_name(Path::new(name)), file_name(path));
        self.insert(&first, id, head);
        if now != first {
            self.insert(&now, id, head);
        }
    }

    fn insert(&mut self, name: &str, id: u64, head: Head) {
        self.0.entry(stem(name).to_owned()).or_default().push((id, head));
    }

    /// Returns the ids of files that `candidate` may be a copy of.
    pub fn of(&self, candidate: &Candidate) -> Vec<u64> {
        self.named(&file_name(&candidate.path), candidate.head)
    }

    /// Returns the ids of files that may be rotated to `name` and may begin with `head`.
    fn named(&self, name: &str, head: Head) -> Vec<u64> {
        let stems = name.match_indices(['.', '-', '_']).map(|(end, _)| &name[..end]);
        let named = stems.filter_map(|stem| self.0.get(stem)).flatten();
        let differ = |other: &Head| other.is_full() && head.is_full() && other.hash != head.hash;
        let mut ids: Vec<u64> =
            named.filter(|(_, other)| !differ(other)).map(|(id, _)| *id).collect();
        // A file may be listed under two names.
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a rotation of the file that was first seen as `name`, and is now at `path`, could have
/// this name.
pub fn may_be_rotation(name: &str, path: &Path, other: &Path) -> bool {
    let other = file_name(other);
    is_rotation_name(&file_name(Path::new(name)), &other)
        || is_rotation_name(&file_name(path), &other)
}

/// Whether `copy` holds what was read of a file with these marks, or all but the bytes read just
/// before the truncation.
pub fn holds_read_part(copy: &mut Candidate, head: Head, fingerprints: &Fingerprints) -> bool {
    let Ok(bytes) = copy.content.bytes() else { return false };
    let (fingerprint, unread) = (fingerprints.before(bytes), fingerprints.last().end == 0);
    // It cannot match a head longer than itself.
    let head = if bytes < head.bytes { Head::default() } else { head };
    (fingerprint.is_some() || unread) && copy.holds(head, fingerprint)
}

impl Candidate {
    /// The file behind an open content.
    pub fn of(path: PathBuf, mut content: Content) -> io::Result<Candidate> {
        let stat = fstat(content.file())?;
        let head = Head::read(&mut content, HEAD_BYTES_MAX)?;
        Ok(Candidate { path, content, stat, head })
    }

    /// Whether it holds everything that was read of a file up to `mark`.
    pub fn holds(&mut self, head: Head, fingerprint: Option<Fingerprint>) -> bool {
        let matches = |content: &mut Content| -> io::Result<bool> {
            Ok(head.matches(content)?
                && fingerprint
                    .is_none_or(|fingerprint| fingerprint.matches(content).unwrap_or(false)))
        };
        let differ = head.is_full() && self.head.is_full() && head != self.head;
        !differ
            && (head.bytes > 0 || fingerprint.is_some())
            && matches(&mut self.content).unwrap_or(false)
    }

    /// Whether it holds what was read of a closed file, and nothing more.
    pub fn holds_all_of(&mut self, closed: &Descriptor) -> bool {
        let (bytes, same_time) =
            (closed.fingerprint.end, closed.modified_ns == modified_ns(&self.stat));
        if same_time && self.content.has_trailer_of(bytes) {
            return self.holds(closed.head, None);
        }
        self.holds(closed.head, Some(closed.fingerprint))
            && self.content.bytes().is_ok_and(|all| all == bytes)
    }

    /// Whether it holds what was read of a closed file, with enough of it to rule out files that
    /// begin alike.
    pub fn continues(&mut self, closed: &Descriptor) -> bool {
        self.holds_all_of(closed)
            || closed.head.is_full() && self.holds(closed.head, Some(closed.fingerprint))
    }

    /// Whether it is `original` compressed, judged by size and modification time without
    /// decompressing it.
    fn compresses(&mut self, original: &mut Content) -> io::Result<bool> {
        let stat = fstat(original.file())?;
        let same_time = modified_ns(&stat) == modified_ns(&self.stat);
        Ok(same_time
            && !original.is_compressed()
            && self.content.has_trailer_of(stat.st_size as u64))
    }

    /// Whether all of it is also in `original`.
    pub fn lies_within(&mut self, mut original: Content) -> io::Result<bool> {
        if self.compresses(&mut original)? {
            return self.head.matches(&mut original);
        }
        let bytes = self.content.bytes()?;
        Ok(bytes > 0
            && self.head.matches(&mut original)?
            && Fingerprint::read(&mut self.content, bytes)?
                == Fingerprint::read(&mut original, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each file is compared only with its few possible originals.
    #[test]
    fn originals_are_found_by_name_among_many_that_are_alike() {
        let mut originals = Originals::default();
        let head = Head { hash: 1, ..Head::default() };
        (0..1000).for_each(|id| originals.insert(&format!("app-{id:04}.log"), id, head));
        originals.insert("app.log", 5000, head);
        originals.insert("syslog", 6000, head);
        assert_eq!(originals.named("app-0017.log", head), [17, 5000]);
        assert_eq!(originals.named("app-0017.log.1.gz", head), [17, 5000]);
        assert_eq!(originals.named("app.log-20261122", head), [5000]);
        assert_eq!(originals.named("syslog.gz", head), [6000]);
        assert!(originals.named("other.log", head).is_empty());
    }
}
