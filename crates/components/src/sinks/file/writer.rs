//! Appends to one open file, and can say which part of it is on the disk.

use crate::compress::{Compression, Compressor};
use crate::disk::{folder, now_ns, rename_to_free, sync_folder, write_all};
use bytes::Bytes;
use rustix::fs::{Stat, fstat};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes before the synced length that are hashed, to know our own bytes again.
const TAIL_BYTES: u64 = 4096;

/// How far a file is ours and on the disk: kept with the checkpoints, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Synced {
    device: u64,
    inode: u64,
    /// Length of the file when it was last synced.
    length: u64,
    /// XXH3 of the last bytes before that length.
    tail_hash: u64,
}

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

impl Synced {
    fn new(file: &File, stat: &Stat, length: u64) -> io::Result<Synced> {
        let tail_hash = tail_hash(file, length)?;
        Ok(Synced { device: stat.st_dev, inode: stat.st_ino, length, tail_hash })
    }

    /// Whether this is the file that was synced.
    fn is_of(&self, stat: &Stat) -> bool {
        (self.device, self.inode) == (stat.st_dev, stat.st_ino)
    }

    /// Whether both are of one file.
    pub fn is_same_file(&self, other: &Synced) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether `file` is the file that was synced and still has our bytes before the synced length.
    fn is_in(&self, file: &File, stat: &Stat) -> bool {
        self.is_of(stat)
            && stat.st_size as u64 >= self.length
            && tail_hash(file, self.length).is_ok_and(|hash| hash == self.tail_hash)
    }

    /// Cuts back what a crash left behind this length. False if that has to wait for a disk that is
    /// not there.
    pub fn mend(&self, path: &Path) -> io::Result<bool> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            // Moved or deleted, unless the whole disk is away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let there = path.ancestors().skip(1).find_map(|folder| rustix::fs::stat(folder).ok());
                return Ok(there.is_some_and(|folder| folder.st_dev == self.device));
            }
            Err(error) => return Err(error),
        };
        let stat = fstat(&file)?;
        if self.is_in(&file, &stat) && stat.st_size as u64 > self.length {
            file.set_len(self.length)?;
            file.sync_all()?;
        }
        Ok(true)
    }
}

/// A file that is not ours and ends in the middle of something: left whole, under another name.
fn set_aside(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let seconds = now_ns() / 1_000_000_000;
    let aside = rename_to_free(path, 0, |n| match n {
        0 => format!("{name}.{seconds}"),
        n => format!("{name}.{seconds}-{n}"),
    })?;
    log::warn!(
        "{} does not end as a file of ours does; it is kept as {} and a new file is begun",
        path.display(),
        aside.display()
    );
    Ok(())
}

fn open_whole(
    path: &Path,
    compression: Compression,
    torn: Option<&Synced>,
    ours: Option<&Synced>,
) -> io::Result<File> {
    std::fs::create_dir_all(folder(path))?;
    let file = open_append(path)?;
    let stat = fstat(&file)?;
    if let Some(torn) = torn.filter(|torn| torn.is_in(&file, &stat)) {
        file.set_len(torn.length)?;
    } else if !ours.is_some_and(|ours| ours.is_of(&stat)) && !is_whole(&file, &stat, compression)? {
        set_aside(path)?;
        return open_append(path);
    }
    Ok(file)
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).mode(0o640).open(path)
}

fn tail_hash(file: &File, length: u64) -> io::Result<u64> {
    let bytes = TAIL_BYTES.min(length);
    let mut tail = vec![0; bytes as usize];
    file.read_exact_at(&mut tail, length - bytes)?;
    Ok(xxhash_rust::xxh3::xxh3_64(&tail))
}

/// What is in a file without events.
fn empty(compression: Compression) -> &'static [u8] {
    if compression == Compression::None { b"" } else { compression.end() }
}

/// Whether the file is empty or ends as a whole one does.
fn is_whole(file: &File, stat: &Stat, compression: Compression) -> io::Result<bool> {
    let (size, end) = (stat.st_size as u64, compression.end());
    let mut last = vec![0; end.len()];
    if size >= end.len() as u64 {
        file.read_exact_at(&mut last, size - end.len() as u64)?;
    }
    Ok(size == 0 || last == end)
}
