//! The bytes of a file as they were written, decompressed if the file is compressed.
//!
//! A file is compressed if it begins as gzip (RFC 1952) or zstd (RFC 8878) does, whatever its name.
//! Several members or frames form one content. Offsets count decompressed bytes.

use flate2::bufread::MultiGzDecoder;
use rustix::fs::{Stat, fstat};
use rustix::io::pread;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// Start of gzip: its magic number and the only compression method.
const GZIP: &[u8] = &[0x1F, 0x8B, 8];

/// Start of a zstd frame.
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// Compressed bytes per read.
const PACKED_BYTES: usize = 128 * 1024;

/// Decompressed bytes per skip.
const SKIP_BYTES: usize = 64 * 1024;

/// The content of an open file.
pub struct Content {
    file: Arc<File>,
    packed: Option<Packed>,
}

/// The state of a compressed file when it was read to its end; while it is unchanged it need not be
/// decompressed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Size of the file in bytes.
    size: u64,
    /// Modification time, in nanoseconds since 1970.
    modified_ns: i64,
    /// Decompressed bytes.
    bytes: u64,
}

impl Stamp {
    /// Creates the stamp of a compressed file with this status and this many bytes.
    pub fn new(stat: &Stat, bytes: u64) -> Stamp {
        Stamp { size: stat.st_size as u64, modified_ns: modified_ns(stat), bytes }
    }

    /// Size of the file in bytes.
    pub fn size(self) -> u64 {
        self.size
    }
}

/// Compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stability {
    Gzip,
    Zstd,
}

impl Stability {
    fn of(beginning: &[u8]) -> Option<Stability> {
        match beginning {
            _ if beginning.starts_with(GZIP) => Some(Stability::Gzip),
            _ if beginning.starts_with(ZSTD) => Some(Stability::Zstd),
            _ => None,
        }
    }
}

/// A compressed file, decompressed from front to back.
struct Packed {
    stability: Stability,
    stream: Option<Box<dyn Read + Send>>,
    /// Decompressed bytes that the stream has returned.
    at: u64,
    /// Returned bytes that were pushed back.
    back: Vec<u8>,
    /// Size of the file when the stream ended.
    ended_at: Option<u64>,
    /// Why the stream ended, unless at the end of the compressed data.
    fault: Option<String>,
}

impl Content {
    /// Opens the content of `file`.
    pub fn new(file: File) -> io::Result<Content> {
        let mut content = Content { file: Arc::new(file), packed: None };
        let mut beginning = [0; ZSTD.len()];
        let n = pread(&content.file, &mut beginning[..], 0)?;
        content.look_at(&beginning[..n]);
        Ok(content)
    }

    fn look_at(&mut self, beginning: &[u8]) {
        let stability = Stability::of(beginning);
        self.packed = stability.map(Packed::new);
    }

    /// Returns the file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns another handle on the same content.
    pub fn again(&self) -> Content {
        let packed = self.packed.as_ref().map(|packed| Packed::new(packed.stability));
        Content { file: self.file.clone(), packed }
    }

    /// Whether it is compressed.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Frees the memory for decompression; reading on decompresses from the beginning.
    pub fn rest(&mut self) {
        if let Some(packed) = &mut self.packed {
            packed.at += packed.back.len() as u64;
            (packed.stream, packed.back) = (None, Vec::new());
        }
    }

    /// Reads from `offset` on; returns 0 at the end. Compressed content fills the buffer or ends.
    /// Compressed data that is truncated or corrupt ends there; once the file size changes, it is
    /// tried again.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(packed) = &mut self.packed {
            return packed.read_at(&self.file, buffer, offset);
        }
        let n = pread(&self.file, &mut *buffer, offset)?;
        // The file was empty when it was opened.
        if offset == 0 && Stability::of(&buffer[..n]).is_some() {
            self.look_at(&buffer[..n]);
            return self.read_at(buffer, offset);
        }
        Ok(n)
    }

    /// Reads until the buffer is full or the content ends.
    pub fn read_all_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], offset + filled as u64)? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }

    /// Pushes the last bytes back: they are read next, without decompressing again.
    pub fn unread_last(&mut self, bytes: &[u8]) {
        if let Some(packed) = self.packed.as_mut().filter(|_| !bytes.is_empty()) {
            packed.at -= bytes.len() as u64;
            packed.back.splice(..0, bytes.iter().copied());
        }
    }

    /// Returns why compressed data ended early, if it is truncated or corrupt.
    pub fn fault(&self) -> Option<&str> {
        self.packed.as_ref()?.fault.as_deref()
    }

    /// Whether there is nothing at or after `offset`.
    pub fn at_end(&mut self, offset: u64) -> io::Result<bool> {
        match &self.packed {
            Some(packed) => {
                Ok(packed.ended_at.is_some() && packed.at + packed.back.len() as u64 <= offset)
            }
            None => Ok(pread(&self.file, &mut [0u8; 1][..], offset)? == 0),
        }
    }

    /// Returns the stamp of a compressed file that was read to its end; `None` for others.
    pub fn stamp(&self) -> Option<Stamp> {
        let packed = self.packed.as_ref()?;
        let (stat, ended_at) = (fstat(&self.file).ok()?, packed.ended_at?);
        let bytes = packed.at + packed.back.len() as u64;
        Some(Stamp { size: ended_at, modified_ns: modified_ns(&stat), bytes })
    }

    /// Whether the file still matches `stamp`; if so, its end is known.
    pub fn still_matches(&mut self, stamp: Stamp) -> bool {
        let Ok(stat) = fstat(&self.file) else { return false };
        let same = (stamp.size, stamp.modified_ns) == (stat.st_size as u64, modified_ns(&stat));
        if let Some(packed) = self.packed.as_mut().filter(|_| same) {
            (packed.at, packed.ended_at) = (stamp.bytes, Some(stamp.size));
        }
        same
    }

    /// Returns the start of the incomplete last line of the first `bytes`, or `bytes`: where
    /// `read_from: end` begins, so that no line is torn.
    pub fn last_line_start(&mut self, bytes: u64) -> io::Result<u64> {
        let mut buffer = vec![0; SKIP_BYTES];
        let mut end = bytes;
        while end > 0 {
            let begin = end.saturating_sub(buffer.len() as u64);
            let n = self.read_all_at(&mut buffer[..(end - begin) as usize], begin)?;
            if let Some(at) = millstream_scan::last_newline(&buffer[..n]) {
                return Ok(begin + at as u64 + 1);
            }
            end = begin;
        }
        Ok(0)
    }

    /// Whether the trailer of a gzip file gives this number of bytes, modulo 4 GiB. Needs no
    /// decompression. With several members only the last one counts, so `false` proves nothing.
    pub fn has_trailer_of(&self, bytes: u64) -> bool {
        let is_gzip =
            self.packed.as_ref().is_some_and(|packed| packed.stability == Stability::Gzip);
        let size =
            if is_gzip { fstat(&self.file).map_or(0, |stat| stat.st_size as u64) } else { 0 };
        let mut trailer = [0; 4];
        let read = size.checked_sub(4).map(|at| pread(&self.file, &mut trailer[..], at));
        read == Some(Ok(4)) && u32::from_le_bytes(trailer) == bytes as u32
    }

    /// Returns the number of bytes; decompresses the file if needed.
    pub fn bytes(&mut self) -> io::Result<u64> {
        match &mut self.packed {
            None => Ok(fstat(&self.file)?.st_size as u64),
            Some(packed) => packed.skip_to(&self.file, u64::MAX).map(|()| packed.at),
        }
    }
}

/// Returns a file's modification time in nanoseconds since 1970.
pub fn modified_ns(stat: &Stat) -> i64 {
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64)
}

impl Packed {
    fn new(stability: Stability) -> Packed {
        Packed { stability, stream: None, at: 0, back: Vec::new(), ended_at: None, fault: None }
    }

    fn read_at(&mut self, file: &Arc<File>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.skip_to(file, offset)?;
        let mut filled = 0;
        while self.at == offset + filled as u64 && filled < buffer.len() {
            match self.step(file, &mut buffer[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }

    /// Decompresses up to `offset`, or to the end.
    fn skip_to(&mut self, file: &Arc<File>, offset: u64) -> io::Result<()> {
        if offset < self.at {
            *self = Packed::new(self.stability);
        }
        let mut passed = vec![0; if offset > self.at { SKIP_BYTES } else { 0 }];
        while self.at < offset {
            let wanted = (offset - self.at).min(SKIP_BYTES as u64) as usize;
            if self.step(file, &mut passed[..wanted])? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Returns the next decompressed bytes; 0 at the end.
    fn step(&mut self, file: &Arc<File>, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.back.is_empty() {
            let n = self.back.len().min(buffer.len());
            buffer[..n].copy_from_slice(&self.back[..n]);
            self.back.drain(..n);
            self.at += n as u64;
            return Ok(n);
        }
        self.unpack(file, buffer)
    }

    fn unpack(&mut self, file: &Arc<File>, buffer: &mut [u8]) -> io::Result<usize> {
        let size = |file: &File| fstat(file).map(|stat| stat.st_size as u64);
        if let Some(ended_at) = self.ended_at {
            if ended_at == size(file)? {
                return Ok(0);
            }
            return self.begin_again(file).and_then(|()| self.unpack(file, buffer));
        }
        if self.stream.is_none() && self.at > 0 {
            self.begin_again(file)?;
        }
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(unpack(self.stability, file)?),
        };
        let n = match stream.read(buffer) {
            Err(error) if error.raw_os_error().is_none() => {
                self.fault = Some(format!(
                    "compressed data: {error} behind byte {} of the content",
                    self.at
                ));
                0
            }
            read => read?,
        };
        self.at += n as u64;
        if n == 0 {
            (self.stream, self.ended_at) = (None, Some(size(file)?));
        }
        Ok(n)
    }

    /// Decompresses up to the current position again: the file has grown.
    fn begin_again(&mut self, file: &Arc<File>) -> io::Result<()> {
        let at = std::mem::take(&mut self.at);
        (self.stream, self.ended_at, self.fault) =
            (Some(unpack(self.stability, file)?), None, None);
        self.skip_to(file, at)
    }
}

fn unpack(stability: Stability, file: &Arc<File>) -> io::Result<Box<dyn Read + Send>> {
    let bytes = BufReader::with_capacity(PACKED_BYTES, FromStart { file: file.clone(), at: 0 });
    Ok(match stability {
        Stability::Gzip => Box::new(MultiGzDecoder::new(bytes)),
        Stability::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(bytes)?),
    })
}

/// Reads a file from its first byte, independently of other readers' positions.
struct FromStart {
    file: Arc<File>,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = pread(&self.file, buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
