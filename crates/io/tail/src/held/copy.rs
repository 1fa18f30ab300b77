//! Copies a file to the folder of held files, one section at a time.

use super::{CopiedPart, HeldFile};
use crate::content::Content;
use crate::identity::{FINGERPRINT_BYTES_MAX, HEAD_BYTES_MAX};
use millstream_model::OriginId;
use millstream_recorder::file::RecordedFile;
use rustix::fs::{fstat, fstatvfs};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Maximum bytes per system call; a request to stop is checked between calls.
const CALL_BYTES: u64 = 1024 * 1024;

/// Bytes per section. A section is synced before the next one begins, so that the copy is valid up
/// to that point, and the kernel never has more unwritten bytes of it.
const SECTION_BYTES: u64 = 16 * 1024 * 1024;

/// Disk space, in bytes, that copies of a running agent leave free for checkpoints. On a small
/// file system, they leave [`FREE_SHARE`] of it.
const FREE_BYTES: u64 = 64 * 1024 * 1024;

/// Copies of a running agent leave 1/20 (5%) of a small file system free.
const FREE_SHARE: u64 = 20;

/// A file to copy.
#[derive(Clone)]
pub struct CopySource {
    pub id: OriginId,
    pub file: Arc<RecordedFile>,
    /// A compressed file is copied as a whole, from offset 0.
    pub is_compressed: bool,
}

impl CopySource {
    /// Describes the file with this id and content.
    pub fn new(id: OriginId, content: &Content) -> CopySource {
        let file = content.shared_file().clone();
        CopySource { id, file, is_compressed: content.is_compressed() }
    }
}

/// How much of the disk a copy may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskUse {
    /// The running agent needs free space for its checkpoints.
    LeaveFree,
    /// During shutdown, data that is not copied is lost.
    All,
}

/// The result of copying a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to copy.
    More,
    /// The end of the file was reached.
    End,
    /// Copying was stopped.
    Stopped,
}

/// A copy that is being made. Bytes keep their offsets.
pub struct HeldCopy {
    source: CopySource,
    target: Arc<RecordedFile>,
    from: u64,
    /// End offset of the copied bytes.
    copied: u64,
    /// End offset of the synced bytes.
    synced: u64,
    /// End offset of the complete lines in the synced bytes.
    line_end: u64,
    /// Whether the last section reached the end of the file.
    is_whole: bool,
    /// Whether bytes are copied through a buffer, because the kernel cannot copy between the two
    /// file systems.
    is_buffered: bool,
}

impl HeldCopy {
    /// Begins a copy from offset `from` to the end of the file by copying the head. The next
    /// section starts with the fingerprinted bytes before `from`.
    pub fn begin(source: CopySource, target: Arc<RecordedFile>, from: u64) -> io::Result<HeldCopy> {
        let from = if source.is_compressed { 0 } else { from };
        let rest = from.saturating_sub(FINGERPRINT_BYTES_MAX);
        let mut head = [0; HEAD_BYTES_MAX as usize];
        let n = source.file.read_at(&mut head[..rest.min(HEAD_BYTES_MAX) as usize], 0)?;
        target.write_all_at(&head[..n], 0)?;
        Ok(HeldCopy {
            source,
            target,
            from,
            copied: rest,
            synced: rest,
            line_end: from,
            is_whole: false,
            is_buffered: false,
        })
    }

    /// Returns the id of the file.
    pub fn id(&self) -> OriginId {
        self.source.id
    }

    /// Returns whether the copy reached the end of the file when it was last continued.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns whether the copy contains all of a file of this size, which ends with a complete
    /// line or is compressed.
    pub fn has_all(&self, size: u64) -> bool {
        let has_lines = self.source.is_compressed || self.line_end == self.synced;
        self.is_whole && self.synced == size && has_lines
    }

    /// Returns the end offset of the synced bytes.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Returns the disk space of the copy in bytes.
    pub fn disk_bytes(&self) -> u64 {
        fstat(self.target.file()).map_or(0, |stat| stat.st_blocks as u64 * 512)
    }

    /// Copies and syncs one section.
    ///
    /// # Errors
    /// Returns an error if the disk is full or the section cannot be copied. What was copied before
    /// is valid, and a later call tries again.
    pub fn advance(
        &mut self,
        disk_use: DiskUse,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<Progress> {
        self.is_whole = false;
        let copied = self.copy_section(disk_use, is_stopped);
        if self.copied > self.synced {
            if let Err(error) = self.target.sync_content() {
                self.copied = self.synced;
                return Err(error);
            }
            self.synced = self.copied;
            if !self.source.is_compressed {
                let mut content = Content::of(self.target.clone())?;
                self.line_end = self.line_end.max(content.last_line_start(self.synced, None)?);
            }
        }
        let progress = copied?;
        self.is_whole = progress == Progress::End;
        Ok(progress)
    }

    /// Copies the rest of the file.
    ///
    /// # Errors
    /// Returns an error if the deadline passes, the disk is full, or the file cannot be copied. What
    /// was copied before is valid.
    pub fn finish(&mut self, deadline: Instant) -> io::Result<()> {
        loop {
            match self.advance(DiskUse::All, &|| Instant::now() >= deadline)? {
                Progress::More => {}
                Progress::End => return Ok(()),
                Progress::Stopped => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Returns the valid part of the copy. A last line without a line ending is included only if
    /// `unfinished`, because its writer may still complete it. Returns `None` if the part is empty.
    /// An incomplete copy of a compressed file has no valid part.
    pub fn part(&self, unfinished: bool) -> Option<CopiedPart> {
        let to = match (self.is_whole, self.source.is_compressed) {
            (true, true) => self.synced,
            (true, false) if unfinished => self.synced,
            (_, false) => self.line_end,
            (false, true) => return None,
        };
        (to > self.from).then_some(CopiedPart { from: self.from, to: Some(to) })
    }

    /// Returns the copy's description with its valid part.
    pub fn held(&self, unfinished: bool) -> Option<HeldFile> {
        Some(HeldFile { id: self.id(), part: Some(self.part(unfinished)?) })
    }

    fn copy_section(
        &mut self,
        disk_use: DiskUse,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<Progress> {
        self.check_space(disk_use)?;
        let section_end = self.copied + SECTION_BYTES;
        let mut buffer = Vec::new();
        while self.copied < section_end {
            if is_stopped() {
                return Ok(Progress::Stopped);
            }
            // File systems can share only whole blocks.
            let len = CALL_BYTES - self.copied % CALL_BYTES;
            match self.copy_some(len as usize, &mut buffer)? {
                0 => return Ok(Progress::End),
                bytes => self.copied += bytes as u64,
            }
        }
        Ok(Progress::More)
    }

    /// Fails if the next section would take the space that is to stay free.
    fn check_space(&self, disk_use: DiskUse) -> io::Result<()> {
        if disk_use == DiskUse::All {
            return Ok(());
        }
        let size = fstat(self.source.file.file())?.st_size as u64;
        let section = size.saturating_sub(self.copied).min(SECTION_BYTES);
        let disk = fstatvfs(self.target.file())?;
        let free = FREE_BYTES.min(disk.f_blocks * disk.f_frsize / FREE_SHARE);
        if disk.f_bavail * disk.f_frsize < section + free {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// Copies at most `len` bytes; returns 0 at the end of the file.
    fn copy_some(&mut self, len: usize, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let at = self.copied;
        if !self.is_buffered {
            match self.target.copy_at(&self.source.file, at, len) {
                Ok(bytes) if bytes > 0 => return Ok(bytes),
                // Some file systems report an end where there is none.
                Ok(_) => {}
                Err(error @ (Errno::NOSPC | Errno::DQUOT)) => return Err(error.into()),
                Err(_) => self.is_buffered = true,
            }
        }
        buffer.resize(len, 0);
        let bytes = self.source.file.read_at(buffer, at)?;
        self.target.write_all_at(&buffer[..bytes], at)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
