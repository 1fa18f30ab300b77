//! Appends to one open file, and can say which part of it is on the disk.

use crate::compress::{Compression, Compressor};
use crate::disk::{now_ns, sync_folder, write_all};
use crate::synced::{Synced, empty, open_whole};
use bytes::Bytes;
use rustix::fs::{Stat, fstat};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// An open file.
pub struct Writer {
    path: PathBuf,
    compression: Compression,
    file: File,
    /// Length of the file as far as we wrote it.
    length: u64,
    pub synced: Synced,
    /// Whether more was taken since.
    pub dirty: bool,
    /// Whether its name is not on the disk yet.
    is_new: bool,
    /// When it was begun, or last written to before it was opened.
    begun_ns: i64,
    pub used: Instant,
    compressor: Compressor,
    /// A length to cut back to, where that failed.
    cut: Option<u64>,
}

impl Writer {
    /// Opens the file of this path, or makes it. Where it is the one in `torn`, it is cut back; where it
    /// is not the one in `ours` either and not whole, it is set aside.
    pub fn open(
        path: &Path,
        (compression, level): (Compression, u32),
        torn: Option<&Synced>,
        ours: Option<&Synced>,
    ) -> io::Result<Writer> {
        let mut file = open_whole(path, compression, torn, ours)?;
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
            length,
            synced: Synced::new(&file, &stat, length)?,
            file,
            dirty: false,
            is_new,
            begun_ns: if is_new { now_ns() } else { written_ns },
            used: Instant::now(),
            compressor: Compressor::new(compression, level),
            cut: None,
        })
    }

    /// Bytes of events in it, and when it was begun.
    pub fn extent(&self) -> (u64, i64) {
        (self.length.saturating_sub(empty(self.compression).len() as u64), self.begun_ns)
    }

    /// Whether a member is in progress, which takes memory.
    pub fn has_member(&self) -> bool {
        self.compressor.has_member()
    }

    /// Whether the path still names this file: it may have been moved or deleted, and what is written
    /// to it then would be lost to its readers. Parts that are half written go where they began.
    pub fn is_in_place(&self) -> io::Result<bool> {
        let ours = fstat(&self.file)?;
        let is_there = |there: Stat| (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino);
        Ok(rustix::fs::stat(&self.path).is_ok_and(is_there) || (self.compressor.taken && ours.st_nlink > 0))
    }

    /// Whether nobody can open this file any more.
    pub fn is_deleted(&self) -> bool {
        fstat(&self.file).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Appends all parts, or none: a write that fails half way is taken back. Called again with the
    /// same parts after an error.
    pub fn append(&mut self, parts: &[Bytes]) -> io::Result<()> {
        (self.dirty, self.used) = (true, Instant::now());
        // Cut by somebody (copytruncate): the beginning of the member is gone.
        if !self.compressor.taken && (fstat(&self.file)?.st_size as u64) < self.length {
            self.compressor.forget();
        }
        self.compressor.take(parts)?;
        self.write_out()?;
        self.compressor.taken = false;
        Ok(())
    }

    /// Ends the member in progress: what is in the file can be read.
    pub fn end_member(&mut self) -> io::Result<()> {
        self.compressor.end()?;
        self.write_out()
    }

    fn write_out(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.compressor.out);
        self.write(&out).inspect_err(|_| self.compressor.out = out)
    }

    fn write(&mut self, parts: &[Bytes]) -> io::Result<()> {
        if let Some(length) = self.cut {
            self.file.set_len(length)?;
            self.cut = None;
        }
        // Not our own count: somebody may have cut the file meanwhile.
        let before = fstat(&self.file)?.st_size as u64;
        let written = write_all(&mut self.file, parts);
        match written {
            Ok(bytes) => self.length = before + bytes,
            Err(_) => {
                self.cut = Some(before);
                if self.file.set_len(before).is_ok() {
                    self.cut = None;
                }
            }
        }
        written.map(drop)
    }

    /// Makes everything taken durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.dirty {
            return Ok(());
        }
        self.end_member()?;
        self.file.sync_data()?;
        if self.is_new {
            sync_folder(&self.path)?;
        }
        let stat = fstat(&self.file)?;
        // Somebody may have cut the file (copytruncate): what counts is what is there.
        self.length = self.length.min(stat.st_size as u64);
        self.synced = Synced::new(&self.file, &stat, self.length)?;
        (self.dirty, self.is_new) = (false, false);
        Ok(())
    }
}
