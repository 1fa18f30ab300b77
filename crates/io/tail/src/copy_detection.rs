//! Copy detection: whether a file contains the content that another file had.

use super::content::{Content, modified_ns};
use super::identity::{Descriptor, Fingerprint, Fingerprints, HEAD_BYTES_MAX, Head};
use super::rotation_names::{is_rotation_name, stem};
use millstream_model::OriginId;
use rustix::fs::{Stat, fstat};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// Granularity of a preserved modification time. Some programs round the time to seconds when they
/// copy a file.
const MODIFIED_UNIT_NS: i64 = 1_000_000_000;

/// A file with an unknown inode, which may be a copy or a rotation of a known file.
pub struct Candidate {
    /// Path of the file.
    pub path: PathBuf,
    /// Content of the file.
    pub content: Content,
    /// Status of the file.
    pub stat: Stat,
    /// Hash of the file's head.
    pub head: Head,
}

/// A file that may have been copied.
pub struct Original<'a> {
    /// Id of the file.
    pub id: OriginId,
    /// First path of the file.
    pub name: &'a str,
    /// Current path of the file.
    pub path: &'a Path,
    /// Hash of the file's head.
    pub head: Head,
}

/// Index of possible originals by name stem, then by name. Even thousands of files may share a name
/// prefix, a head, or a name in different folders.
#[derive(Default)]
pub struct Originals(HashMap<String, HashMap<String, Vec<(OriginId, Head)>>>);

impl Originals {
    /// Adds a file by its first and its current name.
    pub fn add(&mut self, file: &Original<'_>) {
        let first = file_name(Path::new(file.name));
        let current = file_name(file.path);
        self.insert(&first, file.id, file.head);
        if current != first {
            self.insert(&current, file.id, file.head);
        }
    }

    fn insert(&mut self, name: &str, id: OriginId, head: Head) {
        let names = self.0.entry(stem(name).to_owned()).or_default();
        match names.get_mut(name) {
            Some(files) => files.push((id, head)),
            None => {
                names.insert(name.to_owned(), vec![(id, head)]);
            }
        }
    }

    /// Returns the ids of the files that `candidate` may be a copy of.
    pub fn ids_for(&self, candidate: &Candidate) -> Vec<OriginId> {
        self.named(&file_name(&candidate.path), candidate.head)
    }

    /// Returns the paths of the files in the folder of `candidate` that, judged by name,
    /// `candidate` may be a copy of. The content of these files may have changed.
    pub fn paths_beside(&self, candidate: &Candidate) -> Vec<PathBuf> {
        let name = file_name(&candidate.path);
        self.rotated_to(&name).map(|(name, _)| candidate.path.with_file_name(name)).collect()
    }

    /// Returns the names that a rotation may have changed to `name`, each with its files.
    fn rotated_to<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a Vec<(OriginId, Head)>)> {
        let stems = name.match_indices(['.', '-', '_']).map(|(end, _)| &name[..end]);
        let named = stems.filter_map(|stem| self.0.get(stem)).flatten();
        named.filter(move |(original, _)| is_rotation_name(original, name))
    }

    /// Returns the ids of files that a rotation may have renamed to `name`, except files that
    /// differ from `head` in their first bytes.
    fn named(&self, name: &str, head: Head) -> Vec<OriginId> {
        let files = self.rotated_to(name);
        let differ = |other: &Head| other.bytes == head.bytes && other.hash != head.hash;
        let same = files.flat_map(|(_, files)| files).filter(|(_, other)| !differ(other));
        let mut ids: Vec<OriginId> = same.map(|(id, _)| *id).collect();
        // A file may be listed under two names.
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns whether `other` may be a rotation of the file first seen as `name` and now at `path`,
/// judged by the names.
pub fn may_be_rotation(name: &str, path: &Path, other: &Path) -> bool {
    let other = file_name(other);
    is_rotation_name(&file_name(Path::new(name)), &other)
        || is_rotation_name(&file_name(path), &other)
}

/// Returns the offset up to which `copy` contains what was read from a file: all of it, or all
/// except the bytes read just before the truncation. `None` if `copy` is not a copy. `head` and
/// `fingerprints` describe what was read.
pub fn read_part_in(copy: &mut Candidate, head: Head, fingerprints: &Fingerprints) -> Option<u64> {
    let bytes = copy.content.bytes().ok()?;
    let fingerprint = fingerprints.before(bytes);
    let unread = fingerprints.last().end == 0;
    // A copy cannot match a head that is longer than the copy.
    let head = if bytes < head.bytes { Head::default() } else { head };
    let is_copy = (fingerprint.is_some() || unread) && copy.holds(head, fingerprint);
    is_copy.then(|| fingerprint.map_or(0, |fingerprint| fingerprint.end))
}

impl Candidate {
    /// Creates a candidate from an open file.
    pub fn of(path: PathBuf, mut content: Content) -> io::Result<Candidate> {
        let stat = fstat(content.file())?;
        let head = Head::read(&mut content, HEAD_BYTES_MAX)?;
        Ok(Candidate { path, content, stat, head })
    }

    /// Returns whether the candidate contains what was read from a file: `head`, and the bytes
    /// before `fingerprint`.
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

    /// Returns whether the candidate's content equals what was read from a closed file.
    pub fn holds_all_of(&mut self, closed: &Descriptor) -> bool {
        let bytes = closed.fingerprint.end;
        let same_time = closed.modified_ns == modified_ns(&self.stat);
        if same_time && self.content.has_trailer_of(bytes) {
            return self.holds(closed.head, None);
        }
        self.holds(closed.head, Some(closed.fingerprint))
            && self.content.bytes().is_ok_and(|all| all == bytes)
    }

    /// Returns whether the candidate contains what was read from a closed file, possibly followed
    /// by more data. A short head is not enough evidence, because other files may begin with the
    /// same bytes.
    pub fn continues(&mut self, closed: &Descriptor) -> bool {
        self.holds_all_of(closed)
            || closed.head.is_full() && self.holds(closed.head, Some(closed.fingerprint))
    }

    /// Returns whether the candidate is the compressed form of `original`, judged by size and
    /// modification time without decompressing it.
    fn compresses(&mut self, original: &mut Content) -> io::Result<bool> {
        let stat = fstat(original.file())?;
        let same_time = modified_ns(&stat) == modified_ns(&self.stat);
        Ok(same_time
            && !original.is_compressed()
            && self.content.has_trailer_of(stat.st_size as u64))
    }

    /// Returns whether the candidate was last written before a plain file of the same size, so that
    /// it cannot be a copy of that file. A copy is written later. Always false for a compressed
    /// candidate, because compressors preserve the modification time.
    fn precedes(&self, other: &Content) -> io::Result<bool> {
        let stat = fstat(other.file())?;
        Ok(!self.content.is_compressed()
            && self.stat.st_size == stat.st_size
            && modified_ns(&self.stat) + MODIFIED_UNIT_NS < modified_ns(&stat))
    }

    /// Returns whether the candidate begins with all of `part`, judged by the first and the last
    /// bytes of `part`.
    pub fn begins_with(&mut self, part: &mut Content) -> io::Result<bool> {
        let end = part.bytes()?;
        Ok(end > 0
            && Head::read(part, HEAD_BYTES_MAX)?.matches(&mut self.content)?
            && Fingerprint::read(part, end)?.matches(&mut self.content)?)
    }

    /// Returns whether the candidate begins with all of `part`, and contains more data.
    pub fn extends(&mut self, part: &mut Content) -> io::Result<bool> {
        let end = part.bytes()?;
        Ok(self.begins_with(part)? && self.content.read_at(&mut [0], end)? > 0)
    }

    /// Returns whether the candidate's whole content is a prefix of `original`.
    pub fn lies_within(&mut self, mut original: Content) -> io::Result<bool> {
        if self.compresses(&mut original)? {
            return self.head.matches(&mut original);
        }
        if self.precedes(&original)? {
            return Ok(false);
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

    /// A candidate is compared only with the few files that it may be a rotation of.
    #[test]
    fn originals_are_found_by_name_among_files_with_the_same_head() {
        let mut originals = Originals::default();
        let head = Head { hash: 1, bytes: 9 };
        (0..1000).for_each(|id| originals.insert(&format!("app-{id:04}.log"), OriginId(id), head));
        originals.insert("app.log", OriginId(5000), head);
        originals.insert("syslog", OriginId(6000), head);
        assert_eq!(originals.named("app-0017.log.1.gz", head), [OriginId(17), OriginId(5000)]);
        assert_eq!(originals.named("app.log-20261122", head), [OriginId(5000)]);
        assert_eq!(originals.named("syslog.gz", head), [OriginId(6000)]);
        assert!(originals.named("other.log", head).is_empty());
        // A file in another folder with the same name is not a rotation.
        assert_eq!(originals.named("app-0017.log", head), [OriginId(5000)]);
    }

    #[test]
    fn files_whose_first_bytes_differ_are_no_originals() {
        let mut originals = Originals::default();
        let heads = [(1, 9), (2, 9), (3, 5)].map(|(hash, bytes)| Head { hash, bytes });
        (0..).zip(heads).for_each(|(id, head)| originals.insert("app.log", OriginId(id), head));
        // The bytes after a shorter head are unknown, so it may match.
        assert_eq!(originals.named("app.log.1", heads[0]), [OriginId(0), OriginId(2)]);
    }
}
