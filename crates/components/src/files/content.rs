//! The bytes of a file as they were written: unpacked where the file is compressed.
//!
//! Compressed is what begins as gzip (RFC 1952) or zstd (RFC 8878) does, whatever its name. Several
//! members or frames make one content. Offsets count unpacked bytes.

use flate2::bufread::MultiGzDecoder;
use rustix::fs::{Stat, fstat};
use rustix::io::pread;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// How gzip begins: its magic number and the only method there is.
const GZIP: &[u8] = &[0x1F, 0x8B, 8];

/// How a zstd frame begins.
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// Compressed bytes read at a time.
const PACKED_BYTES: usize = 128 * 1024;

/// Unpacked bytes passed over at a time.
const SKIP_BYTES: usize = 64 * 1024;

/// The content of an open file.
pub struct Content {
    file: Arc<File>,
    packed: Option<Packed>,
}

/// A compressed file that was unpacked to its end: it need not be unpacked again as long as it is
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Size of the file in bytes.
    size: u64,
    /// When it was written last, in nanoseconds since 1970.
    modified_ns: i64,
    /// Unpacked bytes.
    bytes: u64,
}

impl Stamp {
    /// The stamp of a compressed file with this status that holds so many bytes.
    pub fn new(stat: &Stat, bytes: u64) -> Stamp {
        Stamp { size: stat.st_size as u64, modified_ns: modified_ns(stat), bytes }
    }

    /// Size of the file in bytes.
    pub fn size(self) -> u64 {
        self.size
    }
}

/// How a file is compressed.
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

/// A compressed file, unpacked from front to back.
struct Packed {
    stability: Stability,
    stream: Option<Box<dyn Read + Send>>,
    /// Unpacked bytes that the stream has given.
    at: u64,
    /// Bytes that were given and handed back.
    back: Vec<u8>,
    /// Size of the file when it gave no more.
    ended_at: Option<u64>,
    /// Why it gave no more, if that is not the end of what was compressed.
    fault: Option<String>,
}

impl Content {
    /// The content of `file`.
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

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Another handle on the same content.
    pub fn again(&self) -> Content {
        let packed = self.packed.as_ref().map(|packed| Packed::new(packed.stability));
        Content { file: self.file.clone(), packed }
    }

    /// Whether it is compressed.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Gives back the memory that unpacking takes; reading on costs unpacking from the beginning.
    pub fn rest(&mut self) {
        if let Some(packed) = &mut self.packed {
            packed.at += packed.back.len() as u64;
            (packed.stream, packed.back) = (None, Vec::new());
        }
    }

    /// Reads what is there from `offset` on; 0 at the end. What is compressed fills the buffer, or
    /// ends. Compressed data that ends too early, or is damaged, ends where it does; once the file
    /// has another size it is looked at again.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(packed) = &mut self.packed {
            return packed.read_at(&self.file, buffer, offset);
        }
        let n = pread(&self.file, &mut *buffer, offset)?;
        // A file that was empty when it was opened.
        if offset == 0 && Stability::of(&buffer[..n]).is_some() {
            self.look_at(&buffer[..n]);
            return self.read_at(buffer, offset);
        }
        Ok(n)
    }

    /// Reads until the buffer is full or there is no more.
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

    /// Hands back the last bytes that were read: they are read next, without unpacking again.
    pub fn hand_back(&mut self, bytes: &[u8]) {
        if let Some(packed) = self.packed.as_mut().filter(|_| !bytes.is_empty()) {
            packed.at -= bytes.len() as u64;
            packed.back.splice(..0, bytes.iter().copied());
        }
    }

    /// What is wrong with compressed data that ended too early, or is damaged.
    pub fn fault(&self) -> Option<&str> {
        self.packed.as_ref()?.fault.as_deref()
    }

    /// Whether there is nothing at `offset` and behind it.
    pub fn at_end(&mut self, offset: u64) -> io::Result<bool> {
        match &self.packed {
            Some(packed) => {
                Ok(packed.ended_at.is_some() && packed.at + packed.back.len() as u64 <= offset)
            }
            None => Ok(pread(&self.file, &mut [0u8; 1][..], offset)? == 0),
        }
    }

    /// How a compressed file is that was read to its end; `None` for others.
    pub fn stamp(&self) -> Option<Stamp> {
        let packed = self.packed.as_ref()?;
        let (stat, ended_at) = (fstat(&self.file).ok()?, packed.ended_at?);
        let bytes = packed.at + packed.back.len() as u64;
        Some(Stamp { size: ended_at, modified_ns: modified_ns(&stat), bytes })
    }

    /// Whether it is still as it was then; if so, its end is known.
    pub fn still_matches(&mut self, stamp: Stamp) -> bool {
        let Ok(stat) = fstat(&self.file) else { return false };
        let same = (stamp.size, stamp.modified_ns) == (stat.st_size as u64, modified_ns(&stat));
        if let Some(packed) = self.packed.as_mut().filter(|_| same) {
            (packed.at, packed.ended_at) = (stamp.bytes, Some(stamp.size));
        }
        same
    }

    /// Start of the unfinished last line of the first `bytes`, or `bytes`: where reading "from the
    /// end" begins, so that no line is torn.
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

    /// Whether the trailer of a gzip file gives this number of bytes, modulo 4 GiB. Costs no
    /// unpacking; of several members only the last is counted, so `false` says nothing.
    pub fn has_trailer_of(&self, bytes: u64) -> bool {
        let is_gzip =
            self.packed.as_ref().is_some_and(|packed| packed.stability == Stability::Gzip);
        let size =
            if is_gzip { fstat(&self.file).map_or(0, |stat| stat.st_size as u64) } else { 0 };
        let mut trailer = [0; 4];
        let read = size.checked_sub(4).map(|at| pread(&self.file, &mut trailer[..], at));
        read == Some(Ok(4)) && u32::from_le_bytes(trailer) == bytes as u32
    }

    /// Number of bytes; what is compressed is unpacked for it.
    pub fn bytes(&mut self) -> io::Result<u64> {
        match &mut self.packed {
            None => Ok(fstat(&self.file)?.st_size as u64),
            Some(packed) => packed.skip_to(&self.file, u64::MAX).map(|()| packed.at),
        }
    }
}

/// When a file was last written to, in nanoseconds since 1970.
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

    /// Unpacks up to `offset`, or to the end.
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

    /// The next unpacked bytes; 0 if there are no more.
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

    /// Unpacks once more up to where it stands: the file goes on.
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

/// Reads a file from its first byte on, wherever others read it.
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
