//! Appends to one open file, and can say which part of it is on the disk.

use super::files::Settings;
use crate::compress::{Compression, Compressor};
use crate::disk::{Appended, now_ns, sync_folder};
use crate::synced::{Synced, empty, open_whole};
use bytes::Bytes;
use rustix::fs::{Stat, fstat};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// An open file.
pub struct Writer {
    path: PathBuf,
    compression: Compression,
    file: Appended,
    pub synced: Synced,
    /// Whether more was taken since.
    pub dirty: bool,
    /// Whether its name is not on the disk yet.
    is_new: bool,
    /// When it was begun, or last written to before it was opened.
    begun_ns: i64,
    pub used: Instant,
    compressor: Compressor,
}

impl Writer {
    /// Opens the file of this path, or makes it. Where it is the one in `torn`, it is cut back;
    /// where it is not the one in `ours` either and not whole, it is set aside.
    pub fn open(
        path: &Path,
        settings: &Settings,
        torn: Option<&Synced>,
        ours: Option<&Synced>,
    ) -> io::Result<Writer> {
        let (compression, level) = settings.compression;
        let mut file = open_whole(path, compression, settings.follow_links, torn, ours)?;
        let is_new = fstat(&file)?.st_size == 0;
        if is_new {
            // Readers take no empty file for a compressed one.
            file.write_all(empty(compression))?;
        }
        let stat = fstat(&file)?;
        let length = stat.st_size as u64;
        let written_ns = stat.st_mtime.saturating_mul(1_000_000_000);
        Ok(Writer {
            path: path.to_path_buf(),
            compression,
            synced: Synced::new(&file, &stat, length)?,
            file: Appended::new(file, length),
            dirty: false,
            is_new,
            begun_ns: if is_new { now_ns() } else { written_ns },
            used: Instant::now(),
            compressor: Compressor::new(compression, level),
        })
    }

    /// Bytes of events in it, and when it was begun.
    pub fn extent(&self) -> (u64, i64) {
        (self.file.length.saturating_sub(empty(self.compression).len() as u64), self.begun_ns)
    }

    /// Whether a member is in progress, which takes memory.
    pub fn has_member(&self) -> bool {
        self.compressor.has_member()
    }

    /// Whether the path still names this file: it may have been moved or deleted, and what is
    /// written to it then would be lost to its readers. Parts that are half written go where they
    /// began.
    pub fn is_in_place(&self) -> io::Result<bool> {
        let ours = fstat(&self.file.file)?;
        let is_there = |there: Stat| (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino);
        Ok(rustix::fs::stat(&self.path).is_ok_and(is_there)
            || (self.compressor.taken && ours.st_nlink > 0))
    }

    /// Whether nobody can open this file any more.
    pub fn is_deleted(&self) -> bool {
        fstat(&self.file.file).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Appends all parts, or none: a write that fails half way is taken back. Called again with the
    /// same parts after an error.
    pub fn append(&mut self, parts: &[Bytes]) -> io::Result<()> {
        (self.dirty, self.used) = (true, Instant::now());
        self.write_out(|compressor| compressor.take(parts))?;
        self.compressor.taken = false;
        Ok(())
    }

    /// Ends the member in progress: what is in the file can be read.
    pub fn end_member(&mut self) -> io::Result<()> {
        self.write_out(Compressor::end)
    }

    /// The way of every byte: nothing is written that goes on what somebody cut off.
    fn write_out(&mut self, fill: impl Fn(&mut Compressor) -> io::Result<()>) -> io::Result<()> {
        self.notice_cut()?;
        fill(&mut self.compressor)?;
        // Compressing takes its time.
        if self.notice_cut()? {
            fill(&mut self.compressor)?;
        }
        self.file.append(&self.compressor.out)?;
        self.compressor.out.clear();
        Ok(())
    }

    fn notice_cut(&mut self) -> io::Result<bool> {
        let left = self.file.was_cut()?;
        left.iter().for_each(|left| self.compressor.forget(*left == 0));
        Ok(left.is_some())
    }

    /// Makes everything taken durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.dirty {
            return Ok(());
        }
        self.end_member()?;
        self.file.file.sync_data()?;
        if self.is_new {
            sync_folder(&self.path)?;
        }
        let stat = fstat(&self.file.file)?;
        // Somebody may have cut the file (copytruncate): what counts is what is there.
        self.file.length = self.file.length.min(stat.st_size as u64);
        self.synced = Synced::new(&self.file.file, &stat, self.file.length)?;
        (self.dirty, self.is_new) = (false, false);
        Ok(())
    }
}
