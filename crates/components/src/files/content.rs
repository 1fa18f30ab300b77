//! The bytes of a file as they were written: unpacked where the file is compressed.
//!
//! Compressed is what begins as gzip (RFC 1952) or zstd (RFC 8878) does, whatever its name. Several
//! members or frames make one content. Offsets count unpacked bytes.

use flate2::bufread::MultiGzDecoder;
use rustix::fs::fstat;
use rustix::io::pread;
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

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    fn of(beginning: &[u8]) -> Option<Packing> {
        match beginning {
            _ if beginning.starts_with(GZIP) => Some(Packing::Gzip),
            _ if beginning.starts_with(ZSTD) => Some(Packing::Zstd),
            _ => None,
        }
    }
}

/// A compressed file, unpacked from front to back.
struct Packed {
    packing: Packing,
    stream: Option<Box<dyn Read + Send>>,
    /// Unpacked bytes that the stream has given.
    at: u64,
    /// Size of the file when it gave no more.
    ended_at: Option<u64>,
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
        let packing = Packing::of(beginning);
        self.packed = packing.map(|packing| Packed { packing, stream: None, at: 0, ended_at: None });
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Another handle on the same content.
    pub fn again(&self) -> Content {
        let packed = self.packed.as_ref();
        let packed = packed.map(|p| Packed { packing: p.packing, stream: None, at: 0, ended_at: None });
        Content { file: self.file.clone(), packed }
    }

    /// Whether it is compressed.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Gives back the memory that unpacking takes; reading on costs unpacking from the beginning.
    pub fn rest(&mut self) {
        if let Some(packed) = &mut self.packed {
            packed.stream = None;
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
        if offset == 0 && Packing::of(&buffer[..n]).is_some() {
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

    /// Number of bytes; what is compressed is unpacked for it.
    pub fn bytes(&mut self) -> io::Result<u64> {
        match &mut self.packed {
            None => Ok(fstat(&self.file)?.st_size as u64),
            Some(packed) => packed.skip_to(&self.file, u64::MAX).map(|()| packed.at),
        }
    }
}

impl Packed {
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
            (self.stream, self.at, self.ended_at) = (None, 0, None);
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
        let size = |file: &File| fstat(file).map(|stat| stat.st_size as u64);
        if let Some(ended_at) = self.ended_at {
            if ended_at == size(file)? {
                return Ok(0);
            }
            return self.begin_again(file).and_then(|()| self.step(file, buffer));
        }
        if self.stream.is_none() && self.at > 0 {
            self.begin_again(file)?;
        }
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(unpack(self.packing, file)?),
        };
        let n = match stream.read(buffer) {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(error) => {
                log::warn!(
                    "compressed file: {error} at byte {} of its content; what follows is not read",
                    self.at
                );
                0
            }
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
        (self.stream, self.ended_at) = (Some(unpack(self.packing, file)?), None);
        self.skip_to(file, at)
    }
}

fn unpack(packing: Packing, file: &Arc<File>) -> io::Result<Box<dyn Read + Send>> {
    let bytes = BufReader::with_capacity(PACKED_BYTES, FromStart { file: file.clone(), at: 0 });
    Ok(match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(bytes)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(bytes)?),
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
