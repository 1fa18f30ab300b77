//! File identity: inode and device, a hash of the head, and a fingerprint of the last bytes read.
//!
//! Inode numbers are reused as soon as a file is deleted, many files share a head, and a file can
//! be truncated and rewritten to any length. A file is recognized only if its head and fingerprint
//! match the saved ones. In case of doubt, a file is treated as new and is read from its beginning.

use crate::content::{CompressedState, Content, modified_ns};
use crate::header::KnownHeaders;
use millstream_model::OriginId;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Maximum number of bytes in the hash of the head.
pub const HEAD_BYTES_MAX: u64 = 1024;

/// Maximum number of bytes in a fingerprint.
pub const FINGERPRINT_BYTES_MAX: u64 = 256;

/// Number of fingerprints kept per open file. A copy that lacks the last bytes read matches an
/// older fingerprint.
const FINGERPRINTS_MAX: usize = 8;

/// Number of the most recently read bytes kept per open file, so that a fingerprint can be computed
/// for any end within them.
const RECENT_BYTES_MAX: usize = 512;

/// Device and inode number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// Device number. It can change across a reboot.
    pub device: u64,
    /// Inode number.
    pub number: u64,
}

impl Inode {
    /// Returns the inode in a file's status.
    pub fn of(stat: &Stat) -> Inode {
        Inode { device: stat.st_dev, number: stat.st_ino }
    }
}

/// Hash of a file's first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of bytes hashed.
    pub bytes: u64,
    /// XXH3 hash of these bytes.
    pub hash: u64,
}

impl Head {
    /// Hashes the first `bytes` of the content, or all of it if the content is shorter.
    pub fn read(content: &mut Content, bytes: u64) -> io::Result<Head> {
        let mut buffer = [0; HEAD_BYTES_MAX as usize];
        let filled = content.read_all_at(&mut buffer[..bytes.min(HEAD_BYTES_MAX) as usize], 0)?;
        Ok(Head { bytes: filled as u64, hash: hash(&buffer[..filled]) })
    }

    /// Returns whether `content` begins with the hashed bytes.
    pub fn matches(&self, content: &mut Content) -> io::Result<bool> {
        Ok(self.bytes == 0 || Head::read(content, self.bytes)? == *self)
    }

    /// Returns whether the head covers [`HEAD_BYTES_MAX`] bytes.
    pub fn is_full(&self) -> bool {
        self.bytes == HEAD_BYTES_MAX
    }
}

/// Hash of the bytes directly before an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The offset.
    pub end: u64,
    /// Number of bytes hashed.
    pub bytes: u64,
    /// XXH3 hash of these bytes.
    pub hash: u64,
}

impl Fingerprint {
    /// Hashes the bytes before offset `end` in the content.
    pub fn read(content: &mut Content, end: u64) -> io::Result<Fingerprint> {
        let bytes = end.min(FINGERPRINT_BYTES_MAX);
        let mut buffer = [0; FINGERPRINT_BYTES_MAX as usize];
        let n = content.read_all_at(&mut buffer[..bytes as usize], end - bytes)?;
        Ok(Fingerprint { end, bytes: n as u64, hash: hash(&buffer[..n]) })
    }

    /// Returns the fingerprint at the end of `text`, which ends at offset `end`. `None` if `text`
    /// is shorter than a fingerprint.
    pub fn of_text(text: &[u8], end: u64) -> Option<Fingerprint> {
        let bytes = end.min(FINGERPRINT_BYTES_MAX);
        let text = &text[text.len().checked_sub(bytes as usize)?..];
        Some(Fingerprint { end, bytes, hash: hash(text) })
    }

    /// Returns whether `content` contains the hashed bytes before the offset.
    pub fn matches(&self, content: &mut Content) -> io::Result<bool> {
        Ok(self.end == 0 || Fingerprint::read(content, self.end)? == *self)
    }
}

/// A file's most recent fingerprints, oldest first, and its most recently read bytes.
#[derive(Default)]
pub struct Fingerprints {
    fingerprints: VecDeque<Fingerprint>,
    /// The most recently read bytes.
    recent: Vec<u8>,
    /// Offset in the file at which `recent` ends.
    recent_end: u64,
}

impl Fingerprints {
    /// Starts with one fingerprint, unless it covers no bytes.
    pub fn new(fingerprint: Fingerprint) -> Fingerprints {
        let fingerprints =
            Some(fingerprint).filter(|fingerprint| fingerprint.end > 0).into_iter().collect();
        Fingerprints { fingerprints, ..Fingerprints::default() }
    }

    /// Returns the newest fingerprint.
    pub fn last(&self) -> Fingerprint {
        self.fingerprints.back().copied().unwrap_or_default()
    }

    /// Adds a fingerprint if its end is beyond all fingerprints so far.
    pub fn add(&mut self, fingerprint: Fingerprint) {
        if fingerprint.end > self.last().end {
            self.fingerprints.drain(..self.fingerprints.len().saturating_sub(FINGERPRINTS_MAX - 1));
            if self.fingerprints.is_empty() {
                // Most files are read once, so one slot is enough.
                self.fingerprints.reserve_exact(1);
            }
            self.fingerprints.push_back(fingerprint);
        }
    }

    /// Keeps the last bytes of `text`, which ends at offset `end`.
    pub fn keep_recent(&mut self, text: &[u8], end: u64) {
        if self.recent_end + text.len() as u64 != end {
            self.recent.clear();
        }
        let text = &text[text.len().saturating_sub(RECENT_BYTES_MAX)..];
        self.recent.drain(..(self.recent.len() + text.len()).saturating_sub(RECENT_BYTES_MAX));
        self.recent.reserve_exact(text.len());
        self.recent.extend_from_slice(text);
        self.recent_end = end;
    }

    /// Frees the memory of the most recently read bytes. Called once a copy in progress can no
    /// longer lack them.
    pub fn forget_recent(&mut self) {
        self.recent = Vec::new();
        self.recent_end = 0;
    }

    /// Returns the fingerprint that ends exactly at `end` if the kept bytes cover it, and otherwise
    /// the newest one before `end`.
    pub fn before(&self, end: u64) -> Option<Fingerprint> {
        let recent = self
            .recent_end
            .checked_sub(end)
            .and_then(|back| self.recent.len().checked_sub(back as usize));
        let exact = recent
            .and_then(|bytes| Fingerprint::of_text(&self.recent[..bytes], end))
            .filter(|_| end > 0);
        exact.or_else(|| {
            self.fingerprints.iter().rev().find(|fingerprint| fingerprint.end <= end).copied()
        })
    }
}

fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// A file's saved state: its identity and where reading began. Stored as JSON next to the
/// checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Hash of the head.
    pub head: Head,
    /// Fingerprint of the last bytes read.
    #[serde(default, rename = "mark")]
    pub fingerprint: Fingerprint,
    /// State of a compressed file when it was last read to its end.
    #[serde(default, rename = "packed", skip_serializing_if = "Option::is_none")]
    pub compressed: Option<CompressedState>,
    /// Id of the original, if the file is a copy and only the original is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<OriginId>,
    /// Offset at which reading of the file began. Sinks that have no checkpoint yet start at this
    /// offset.
    pub start: u64,
    /// Path under which the file was first seen.
    #[serde(with = "shared_text")]
    pub path: Arc<str>,
    /// The included name from which the file was rotated, if it was first seen after the rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_of: Option<Box<str>>,
    /// Modification time when the fingerprint was taken, in nanoseconds since 1970.
    #[serde(default)]
    pub modified_ns: i64,
    /// Modification time up to which other generations of the name are accounted for, in
    /// nanoseconds since 1970; 0 if unknown.
    #[serde(default)]
    pub since_ns: i64,
    /// The header lines that were found.
    #[serde(default, skip_serializing_if = "KnownHeaders::is_empty")]
    pub headers: KnownHeaders,
    /// Whether reading continues in a copy. No writer appends to a copy, and the copy may end
    /// before the checkpoint.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_copy: bool,
    /// Whether the file was read to its end and closed. No more data is expected in it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub closed: bool,
}

/// Serialization of text that is shared with other structures.
mod shared_text {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::sync::Arc;

    pub fn serialize<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Descriptor {
    /// Returns the included name of which the file is a generation: the name before the rotation,
    /// or the file's own path.
    pub fn name(&self) -> &str {
        self.rotation_of.as_deref().unwrap_or(&self.path)
    }

    /// Returns [`Descriptor::name`], shared with the path if they are equal.
    pub fn shared_name(&self) -> Arc<str> {
        self.rotation_of.as_deref().map_or_else(|| self.path.clone(), Arc::from)
    }

    /// Switches to a copy of the file. If the copy ends before the last bytes read, the fingerprint
    /// at the copy's end identifies it.
    pub fn continue_in(
        &mut self,
        copy: &mut Content,
        fingerprints: &Fingerprints,
    ) -> io::Result<()> {
        let bytes = copy.bytes()?;
        self.in_copy = true;
        self.fingerprint =
            fingerprints.before(bytes.min(fingerprints.last().end)).unwrap_or_default();
        if bytes < self.head.bytes {
            self.head = Head::read(copy, bytes)?;
        }
        Ok(())
    }

    /// Switches to a copy of the file that ends at offset `end`, before the last bytes read.
    pub fn continue_in_part(&mut self, copy: &mut Content, end: u64) -> io::Result<()> {
        self.in_copy = true;
        self.fingerprint = Fingerprint::read(copy, end)?;
        if end < self.head.bytes {
            self.head = Head::read(copy, end)?;
        }
        Ok(())
    }

    /// Returns whether the file was closed and, judged by its status, has not been written to
    /// since.
    pub fn is_unchanged(&self, stat: &Stat) -> bool {
        let size = self.compressed.map_or(self.fingerprint.end, CompressedState::size);
        self.closed && size == stat.st_size as u64 && self.modified_ns == modified_ns(stat)
    }

    /// Serializes the descriptor.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Deserializes a descriptor; `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Descriptor> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the largest offset that the hashes cover. The head is saved before the data is sent,
    /// and the fingerprint is saved with the checkpoint. After a crash between the two, only the
    /// head covers the data.
    pub fn hashed_bytes(&self) -> u64 {
        self.head.bytes.max(self.fingerprint.end)
    }

    /// Returns whether `content` belongs to this file, given that `checkpoint` bytes of the file
    /// were settled.
    ///
    /// The head or the fingerprint must cover the settled bytes. Otherwise another file with the
    /// same first bytes could be mistaken for this file, and its lines would be skipped. For a
    /// compressed file, a full head is enough.
    pub fn identifies(&self, content: &mut Content, checkpoint: u64) -> io::Result<bool> {
        if content.is_compressed()
            && self.compressed.is_some_and(|state| content.skip_if_unchanged(state))
        {
            return Ok(true);
        }
        let checkpoint =
            if self.in_copy { checkpoint.min(self.fingerprint.end) } else { checkpoint };
        let covered =
            content.is_compressed() && self.head.is_full() || self.hashed_bytes() >= checkpoint;
        Ok(covered
            && self.head.matches(content)?
            && self.fingerprint.matches(content)?
            && reaches(content, checkpoint)?)
    }
}

/// Returns whether the content is at least this long. Reads a byte instead of using the file size,
/// which can be stale on network file systems.
fn reaches(content: &mut Content, bytes: u64) -> io::Result<bool> {
    Ok(bytes == 0 || content.read_at(&mut [0], bytes - 1)? == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use std::fs::{self, File};
    use std::path::Path;

    fn open(path: &Path) -> Content {
        Content::new(File::open(path).unwrap(), path).unwrap()
    }

    fn describe(path: &Path, read_to: u64) -> Descriptor {
        let mut content = open(path);
        let stat = fstat(content.file()).unwrap();
        let head = Head::read(&mut content, HEAD_BYTES_MAX).unwrap();
        let fingerprint = Fingerprint::read(&mut content, read_to).unwrap();
        Descriptor {
            device: stat.st_dev,
            inode: stat.st_ino,
            head,
            fingerprint,
            ..Descriptor::default()
        }
    }

    fn is(descriptor: &Descriptor, path: &Path, checkpoint: u64) -> bool {
        descriptor.identifies(&mut open(path), checkpoint).unwrap()
    }

    #[test]
    fn a_growing_file_is_recognized_by_its_head() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "head\n").unwrap();
        let descriptor = describe(&path, 5);
        fs::write(&path, "head\nmore\n").unwrap();
        assert!(is(&descriptor, &path, 5));
        fs::write(&path, "tail\nmore\n").unwrap();
        assert!(!is(&descriptor, &path, 5), "other content in the same inode");
        fs::write(&path, "hea").unwrap();
        assert!(!is(&descriptor, &path, 5), "shorter than the checkpoint");
    }

    #[test]
    fn files_with_the_same_head_are_distinguished_by_the_last_bytes_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let content = |end: &str| format!("{}\n{end}\n", "the same head ".repeat(100));
        fs::write(&path, content("one end")).unwrap();
        let bytes = content("one end").len() as u64;
        let descriptor = describe(&path, bytes);
        assert!(is(&descriptor, &path, bytes));
        fs::write(&path, content("any end") + "and more\n").unwrap();
        assert!(!is(&descriptor, &path, bytes));
    }

    #[test]
    fn hashes_that_do_not_cover_the_checkpoint_prove_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "").unwrap();
        let descriptor = describe(&path, 0);
        fs::write(&path, "something else entirely\n").unwrap();
        assert!(!is(&descriptor, &path, 10));
        assert!(is(&descriptor, &path, 0));
    }

    #[test]
    fn fingerprints_of_a_text_and_of_the_file_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let text: Vec<u8> = (0..1000).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &text).unwrap();
        for end in [1, 100, 256, 257, 1000] {
            let fingerprint = Fingerprint::read(&mut open(&path), end as u64).unwrap();
            assert_eq!(Fingerprint::of_text(&text[..end], end as u64), Some(fingerprint));
        }
        assert_eq!(Fingerprint::of_text(&text[900..], 1000), None);
        let mut fingerprints = Fingerprints::default();
        (1..=20)
            .for_each(|n| fingerprints.add(Fingerprint { end: n * 10, ..Fingerprint::default() }));
        assert_eq!(fingerprints.last().end, 200);
        assert_eq!(fingerprints.before(155).map(|fingerprint| fingerprint.end), Some(150));
        assert_eq!(fingerprints.before(100), None);
        // Every offset within the kept bytes has a fingerprint, regardless of the size of the
        // reads.
        for piece in [700, 130, 1] {
            let mut fingerprints = Fingerprints::default();
            for (number, text) in text.chunks(piece).enumerate() {
                fingerprints.keep_recent(text, (number * piece + text.len()) as u64);
            }
            for end in [1000, 999, 760] {
                assert_eq!(
                    fingerprints.before(end),
                    Some(Fingerprint::read(&mut open(&path), end).unwrap()),
                    "{piece} {end}"
                );
            }
            assert_eq!(fingerprints.before(700), None);
            fingerprints.keep_recent(&text[..5], 2000);
            assert_eq!(
                (fingerprints.before(1000), fingerprints.before(2000)),
                (None, None),
                "bytes between the two parts are unknown"
            );
        }
    }
}
