//! Which file is which: inode and device, and a hash of the file's head.
//!
//! An inode number alone is reused as soon as a file is deleted. A file counts as known only if
//! its head hashes to what is kept; in doubt it is a new file, and is read again.

use rustix::fs::{Stat, fstat};
use rustix::io::pread;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;

/// Bytes of the head that are hashed at most.
pub const HEAD_BYTES_MAX: u64 = 1024;

/// A file on its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// Device number. It can change over a reboot.
    pub device: u64,
    /// Inode number.
    pub number: u64,
}

impl Inode {
    /// The inode of a file's status.
    pub fn of(stat: &Stat) -> Inode {
        Inode { device: stat.st_dev, number: stat.st_ino }
    }
}

/// Hash of the first bytes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of bytes hashed.
    pub bytes: u64,
    /// XXH3 of them.
    pub hash: u64,
}

impl Head {
    /// Hashes the first `bytes` of `file`, or fewer if there are no more.
    pub fn read(file: &File, bytes: u64) -> io::Result<Head> {
        let mut buffer = [0; HEAD_BYTES_MAX as usize];
        let wanted = &mut buffer[..bytes.min(HEAD_BYTES_MAX) as usize];
        let mut filled = 0;
        while filled < wanted.len() {
            match pread(file, &mut wanted[filled..], filled as u64)? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(Head { bytes: filled as u64, hash: xxhash_rust::xxh3::xxh3_64(&wanted[..filled]) })
    }

    /// Whether it cannot grow any more.
    pub fn is_whole(&self) -> bool {
        self.bytes == HEAD_BYTES_MAX
    }
}

/// What is kept of a file over a restart, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// The head.
    pub head: Head,
    /// Where reading began at first sight: checkpoint of a sink that has none yet.
    pub start: u64,
    /// Path at first sight.
    pub path: String,
}

impl Descriptor {
    /// As it is kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what was kept; `None` if it makes no sense.
    pub fn from_bytes(bytes: &[u8]) -> Option<Descriptor> {
        serde_json::from_slice(bytes).ok()
    }

    /// Whether `file` is the file that was described, of which `checkpoint` bytes were settled.
    ///
    /// The head that is kept must cover what was settled (or be whole): with a shorter one, a new
    /// file in the same inode could pass for the old one, and its first lines would be skipped.
    pub fn is(&self, file: &File, stat: &Stat, checkpoint: u64) -> bool {
        let covered = self.head.is_whole() || self.head.bytes >= checkpoint;
        covered
            && stat.st_size as u64 >= checkpoint
            && Head::read(file, self.head.bytes).is_ok_and(|head| head == self.head)
    }
}

/// Opens a path that must be a regular file; checked after opening, so that nothing can be put in
/// its place between the check and the opening.
pub fn open_regular(path: &std::path::Path) -> io::Result<Option<(File, Stat)>> {
    use std::os::unix::fs::OpenOptionsExt;
    // Opening a FIFO without a writer would wait for ever.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let stat = fstat(&file)?;
    let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    Ok(regular.then_some((file, stat)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn describe(path: &std::path::Path, head_bytes: u64) -> Descriptor {
        let (file, stat) = open_regular(path).unwrap().unwrap();
        let head = Head::read(&file, head_bytes).unwrap();
        Descriptor { device: stat.st_dev, inode: stat.st_ino, head, start: 0, path: String::new() }
    }

    fn is(descriptor: &Descriptor, path: &std::path::Path, checkpoint: u64) -> bool {
        let (file, stat) = open_regular(path).unwrap().unwrap();
        descriptor.is(&file, &stat, checkpoint)
    }

    #[test]
    fn a_file_is_known_by_its_head_while_it_grows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "head\n").unwrap();
        let descriptor = describe(&path, HEAD_BYTES_MAX);
        fs::write(&path, "head\nmore\n").unwrap();
        assert!(is(&descriptor, &path, 5));
        fs::write(&path, "tail\nmore\n").unwrap();
        assert!(!is(&descriptor, &path, 5), "other content in the same inode");
        fs::write(&path, "hea").unwrap();
        assert!(!is(&descriptor, &path, 5), "shorter than what was settled");
    }

    #[test]
    fn a_head_shorter_than_what_was_settled_proves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "").unwrap();
        let descriptor = describe(&path, HEAD_BYTES_MAX);
        fs::write(&path, "something else entirely\n").unwrap();
        assert!(!is(&descriptor, &path, 10));
        assert!(is(&descriptor, &path, 0));
    }

    #[test]
    fn folders_and_fifos_are_no_regular_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open_regular(dir.path()).unwrap().is_none());
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(open_regular(&fifo).unwrap().is_none());
    }
}
