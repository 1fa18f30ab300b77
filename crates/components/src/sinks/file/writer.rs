//! A writer that appends to one file and tracks which part of it is durable.

use super::settings::Settings;
use crate::sinks::file::compress::{Compression, Compressor};
use crate::sinks::file::disk::{Appended, now_ns, sync_folder, write_all};
use crate::sinks::file::synced::{Synced, empty, open_whole};
use bytes::Bytes;
use rustix::fs::{Stat, fstat};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// An open file.
pub struct Writer {
    path: PathBuf,
    compression: Compression,
    file: Appended,
    pub synced: Synced,
    /// Whether data was appended since the last sync.
    pub dirty: bool,
    /// Whether the directory entry of the file is not durable yet.
    is_new: bool,
    /// Time when the file was created, or when an existing file was last modified.
    started_ns: i64,
    pub used: Instant,
    compressor: Compressor,
}

impl Writer {
    /// Opens or creates the file at this path. Truncates the file if `torn` describes it. Sets an
    /// incomplete file aside if neither `torn` nor `ours` describes it.
    pub fn open(
        path: &Path,
        settings: &Settings,
        torn: Option<&Synced>,
        ours: Option<&Synced>,
    ) -> io::Result<Writer> {
        let (compression, level) = settings.compression;
        let file = open_whole(path, compression, settings.follow_links, torn, ours)?;
        let is_new = fstat(file.file())?.st_size == 0;
        if is_new {
            // Readers reject an empty file as compressed data.
            write_all(&file, &[Bytes::from_static(empty(compression))])?;
        }
        let stat = fstat(file.file())?;
        let length = stat.st_size as u64;
        let written_ns = stat.st_mtime.saturating_mul(1_000_000_000);
        Ok(Writer {
            path: path.to_path_buf(),
            compression,
            synced: Synced::new(&file, &stat, length)?,
            file: Appended::new(file, length),
            dirty: false,
            is_new,
            started_ns: if is_new { now_ns() } else { written_ns },
            used: Instant::now(),
            compressor: Compressor::new(compression, level),
        })
    }

    /// Returns the number of event bytes in the file, and the time when the file was started.
    pub fn extent(&self) -> (u64, i64) {
        (self.file.length.saturating_sub(empty(self.compression).len() as u64), self.started_ns)
    }

    /// Returns whether a member is in progress, which takes memory.
    pub fn has_member(&self) -> bool {
        self.compressor.has_member()
    }

    /// Returns whether the next write may go to this file: the path still refers to it, or the rest
    /// of a partial write must be appended to the renamed file. Readers of a renamed or deleted
    /// file would miss other writes.
    pub fn is_in_place(&self) -> io::Result<bool> {
        let ours = self.file.stat()?;
        let is_there = |there: Stat| (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino);
        Ok(rustix::fs::stat(&self.path).is_ok_and(is_there)
            || (self.compressor.is_compressed && ours.st_nlink > 0))
    }

    /// Returns whether the file was deleted.
    pub fn is_deleted(&self) -> bool {
        self.file.stat().is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Appends all parts or none; a partial write is truncated. After an error, the caller must
    /// retry with the same parts.
    pub fn append(&mut self, parts: &[Bytes]) -> io::Result<()> {
        (self.dirty, self.used) = (true, Instant::now());
        self.write_out(|compressor| compressor.compress(parts))?;
        self.compressor.is_compressed = false;
        Ok(())
    }

    /// Ends the member in progress, so that the file is readable.
    pub fn end_member(&mut self) -> io::Result<()> {
        self.write_out(Compressor::end)
    }

    /// Appends the bytes that `fill` adds to the compressor. Detects a truncation by another
    /// program first, so that no write continues a member whose beginning is gone.
    fn write_out(&mut self, fill: impl Fn(&mut Compressor) -> io::Result<()>) -> io::Result<()> {
        self.detect_truncation()?;
        fill(&mut self.compressor)?;
        // Compression takes time, so the file may have been truncated in the meantime.
        if self.detect_truncation()? {
            fill(&mut self.compressor)?;
        }
        self.file.append(&self.compressor.out)?;
        self.compressor.out.clear();
        Ok(())
    }

    fn detect_truncation(&mut self) -> io::Result<bool> {
        let left = self.file.take_truncation()?;
        left.iter().for_each(|left| self.compressor.reset(*left == 0));
        Ok(left.is_some())
    }

    /// Makes all appended data durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.dirty {
            return Ok(());
        }
        self.end_member()?;
        self.file.file.sync_content()?;
        if self.is_new {
            sync_folder(&self.path)?;
        }
        let stat = self.file.stat()?;
        // Another program may have truncated the file (copytruncate), so count only the bytes that
        // exist.
        self.file.length = self.file.length.min(stat.st_size as u64);
        self.synced = Synced::new(&self.file.file, &stat, self.file.length)?;
        (self.dirty, self.is_new) = (false, false);
        Ok(())
    }
}
