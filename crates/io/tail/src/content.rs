//! A file's content, decompressed transparently.
//!
//! The first bytes determine whether a file is gzip (RFC 1952) or zstd (RFC 8878); its name does
//! not matter. Concatenated members or frames form one content. Offsets count decompressed bytes.

use flate2::bufread::MultiGzDecoder;
use millstream_framing::{Framer, HEAD_BYTES};
use millstream_recorder::file::RecordedFile;
use rustix::fs::{SeekFrom, Stat, fstat, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// First bytes of a gzip file: the magic number and the only compression method.
const GZIP: &[u8] = &[0x1F, 0x8B, 8];

/// First bytes of a zstd frame.
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// Maximum compressed bytes per read.
const READ_BYTES: usize = 128 * 1024;

/// Size in bytes of the buffer for skipped content.
const SKIP_BYTES: usize = 64 * 1024;

/// The content of an open file.
pub struct Content {
    file: Arc<RecordedFile>,
    /// Boxed, because few files are compressed.
    decompressor: Option<Box<Decompressor>>,
}

/// Size and modification time of a compressed file when it was last read to its end. A file that is
/// still in this state does not need to be decompressed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressedState {
    /// Size of the compressed file in bytes.
    size: u64,
    /// Modification time, in nanoseconds since 1970.
    modified_ns: i64,
    /// Number of decompressed bytes.
    bytes: u64,
}

impl CompressedState {
    /// Creates a compressed file's state from the file's status and number of decompressed bytes.
    pub fn new(stat: &Stat, bytes: u64) -> CompressedState {
        CompressedState { size: stat.st_size as u64, modified_ns: modified_ns(stat), bytes }
    }

    /// Returns whether a file with this status is unchanged.
    pub fn describes(self, stat: &Stat) -> bool {
        (self.size, self.modified_ns) == (stat.st_size as u64, modified_ns(stat))
    }

    /// Returns the size of the compressed file in bytes.
    pub fn size(self) -> u64 {
        self.size
    }
}

/// Compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    fn of(beginning: &[u8]) -> Option<Compression> {
        match beginning {
            _ if beginning.starts_with(GZIP) => Some(Compression::Gzip),
            _ if beginning.starts_with(ZSTD) => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// Decompresses a file sequentially.
struct Decompressor {
    compression: Compression,
    stream: Option<Box<dyn Read + Send>>,
    /// Offset of the next decompressed byte to return.
    position: u64,
    /// Bytes that the caller pushed back. They are returned before the stream continues.
    pushed_back: Vec<u8>,
    /// Size of the compressed file when the stream ended.
    size_at_end: Option<u64>,
    /// Reason why the stream ended before the end of the compressed data.
    error: Option<String>,
}

impl Content {
    /// Opens the content of `file`; `path` is the path at which it was opened.
    pub fn new(file: File, path: &Path) -> io::Result<Content> {
        Content::of(Arc::new(RecordedFile::new(file, path)))
    }

    /// Opens the content of a shared file.
    pub fn of(file: Arc<RecordedFile>) -> io::Result<Content> {
        let mut content = Content { file, decompressor: None };
        let mut beginning = [0; ZSTD.len()];
        let n = content.file.read_at(&mut beginning, 0)?;
        content.detect_compression(&beginning[..n]);
        Ok(content)
    }

    fn detect_compression(&mut self, beginning: &[u8]) {
        let compression = Compression::of(beginning);
        self.decompressor = compression.map(Decompressor::new).map(Box::new);
    }

    /// Returns the underlying file.
    pub fn file(&self) -> &File {
        self.file.file()
    }

    /// Returns the underlying file, for another thread.
    pub fn shared_file(&self) -> &Arc<RecordedFile> {
        &self.file
    }

    /// Returns another handle to the same file, with a separate decompressor.
    pub fn duplicate(&self) -> Content {
        let decompressor = self
            .decompressor
            .as_ref()
            .map(|decompressor| Box::new(Decompressor::new(decompressor.compression)));
        Content { file: self.file.clone(), decompressor }
    }

    /// Returns whether the file is compressed.
    pub fn is_compressed(&self) -> bool {
        self.decompressor.is_some()
    }

    /// Frees the decompressor's memory. The next read decompresses from the beginning.
    pub fn release_decoder(&mut self) {
        if let Some(decompressor) = &mut self.decompressor {
            decompressor.position += decompressor.pushed_back.len() as u64;
            decompressor.stream = None;
            decompressor.pushed_back = Vec::new();
        }
    }

    /// Reads at `offset`; returns 0 at the end. A read of compressed content fills the buffer
    /// unless it reaches the end.
    ///
    /// Truncated or corrupt compressed data is treated as the end. If the file's size changes,
    /// decompression is retried.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(decompressor) = &mut self.decompressor {
            return decompressor.read_at(&self.file, buffer, offset);
        }
        let n = self.file.read_at(buffer, offset)?;
        // The file may have been empty when it was opened, so its format was still unknown.
        if offset == 0 && Compression::of(&buffer[..n]).is_some() {
            self.detect_compression(&buffer[..n]);
            return self.read_at(buffer, offset);
        }
        Ok(n)
    }

    /// Returns the offset of the next byte at or after `offset` that may be outside a hole in the
    /// file, or the end of the file. A hole reads as NUL bytes. Compressed content has no holes.
    pub fn next_data(&self, offset: u64) -> io::Result<u64> {
        if self.is_compressed() {
            return Ok(offset);
        }
        // All reads use explicit offsets, so it is safe to change the file's position.
        match seek(self.file(), SeekFrom::Data(offset)) {
            Ok(data) => Ok(data.max(offset)),
            Err(Errno::NXIO) => Ok(offset.max(fstat(self.file())?.st_size as u64)),
            // Not every file system reports holes.
            Err(_) => Ok(offset),
        }
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

    /// Pushes back the last bytes that were read, so that they are not decompressed again.
    pub fn unread_last(&mut self, bytes: &[u8]) {
        if let Some(decompressor) = self.decompressor.as_mut().filter(|_| !bytes.is_empty()) {
            decompressor.position -= bytes.len() as u64;
            decompressor.pushed_back.splice(..0, bytes.iter().copied());
        }
    }

    /// Returns the reason why the compressed data ended early; `None` if it is neither truncated
    /// nor corrupt.
    pub fn error(&self) -> Option<&str> {
        self.decompressor.as_ref()?.error.as_deref()
    }

    /// Returns whether the content ends at or before `offset`.
    pub fn at_end(&mut self, offset: u64) -> io::Result<bool> {
        match &self.decompressor {
            Some(decompressor) => Ok(decompressor.size_at_end.is_some()
                && decompressor.position + decompressor.pushed_back.len() as u64 <= offset),
            None => Ok(self.file.read_at(&mut [0; 1], offset)? == 0),
        }
    }

    /// Returns the state of a compressed file that has been read to its end; `None` otherwise.
    pub fn compressed_state(&self) -> Option<CompressedState> {
        let decompressor = self.decompressor.as_ref()?;
        let stat = fstat(self.file()).ok()?;
        let size_at_end = decompressor.size_at_end?;
        let bytes = decompressor.position + decompressor.pushed_back.len() as u64;
        Some(CompressedState { size: size_at_end, modified_ns: modified_ns(&stat), bytes })
    }

    /// Returns whether the file is unchanged since `state` was recorded. If so, moves to the
    /// recorded end without decompressing.
    pub fn skip_if_unchanged(&mut self, state: CompressedState) -> bool {
        let Ok(stat) = fstat(self.file()) else { return false };
        let same = state.describes(&stat);
        if let Some(decompressor) = self.decompressor.as_mut().filter(|_| same) {
            decompressor.position = state.bytes;
            decompressor.size_at_end = Some(state.size);
        }
        same
    }

    /// Returns the start of the incomplete last line in the first `bytes`, or `bytes` if the last
    /// line is complete. With `read_from: end`, reading starts at this offset, so that no line is
    /// split. The framer finds the line endings in the file's encoding, after reading the head of
    /// the file if necessary.
    pub fn last_line_start(&mut self, bytes: u64, framer: Option<Framer>) -> io::Result<u64> {
        let mut buffer = vec![0; SKIP_BYTES];
        let framer = framer.map(|framer| self.detected(framer)).transpose()?;
        let mut end = bytes;
        while end > 0 {
            // A multiple of the buffer size, so that no UTF-16 character is split.
            let begin = (end - 1) / SKIP_BYTES as u64 * SKIP_BYTES as u64;
            let n = self.read_all_at(&mut buffer[..(end - begin) as usize], begin)?;
            let text = &buffer[..n];
            let line_end = match &framer {
                Some(framer) => framer.last_line_end(text),
                None => millstream_scan::last_newline(text).map(|at| at + 1),
            };
            if let Some(line_end) = line_end {
                return Ok(begin + line_end as u64);
            }
            end = begin;
        }
        Ok(0)
    }

    fn detected(&mut self, mut framer: Framer) -> io::Result<Framer> {
        if framer.needs_head() {
            let mut head = [0; HEAD_BYTES];
            let n = self.read_all_at(&mut head, 0)?;
            framer.detect(&head[..n], true);
        }
        Ok(framer)
    }

    /// Returns whether a gzip file's trailer states this number of decompressed bytes, modulo 4
    /// GiB. Does not decompress the file. The trailer covers only the last member, so a file may
    /// have this length even if the result is `false`.
    pub fn has_trailer_of(&self, bytes: u64) -> bool {
        let is_gzip = self
            .decompressor
            .as_ref()
            .is_some_and(|decompressor| decompressor.compression == Compression::Gzip);
        let size =
            if is_gzip { fstat(self.file()).map_or(0, |stat| stat.st_size as u64) } else { 0 };
        let mut trailer = [0; 4];
        let read = size.checked_sub(4).map(|at| self.file.read_at(&mut trailer, at));
        read == Some(Ok(4)) && u32::from_le_bytes(trailer) == bytes as u32
    }

    /// Returns the length of the content in bytes. Decompresses the whole file if it is compressed.
    pub fn bytes(&mut self) -> io::Result<u64> {
        match &mut self.decompressor {
            None => Ok(fstat(self.file())?.st_size as u64),
            Some(decompressor) => {
                decompressor.skip_to(&self.file, u64::MAX).map(|()| decompressor.position)
            }
        }
    }
}

/// Returns a file's modification time in nanoseconds since 1970. A program may set a time in the
/// future, which would make all later files look old. In that case, the time of the last status
/// change counts instead.
pub fn modified_ns(stat: &Stat) -> i64 {
    let ns = |seconds: i64, rest| seconds.saturating_mul(1_000_000_000).saturating_add(rest as i64);
    ns(stat.st_mtime, stat.st_mtime_nsec).min(ns(stat.st_ctime, stat.st_ctime_nsec))
}

impl Decompressor {
    fn new(compression: Compression) -> Decompressor {
        Decompressor {
            compression,
            stream: None,
            position: 0,
            pushed_back: Vec::new(),
            size_at_end: None,
            error: None,
        }
    }

    fn read_at(
        &mut self,
        file: &Arc<RecordedFile>,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        self.skip_to(file, offset)?;
        let mut filled = 0;
        while self.position == offset + filled as u64 && filled < buffer.len() {
            match self.read_next(file, &mut buffer[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }

    /// Moves to `offset`, or to the end if the content is shorter. Moving backward restarts
    /// decompression.
    fn skip_to(&mut self, file: &Arc<RecordedFile>, offset: u64) -> io::Result<()> {
        if offset < self.position {
            *self = Decompressor::new(self.compression);
        }
        let mut skipped = vec![0; if offset > self.position { SKIP_BYTES } else { 0 }];
        while self.position < offset {
            let len = (offset - self.position).min(SKIP_BYTES as u64) as usize;
            if self.read_next(file, &mut skipped[..len])? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next decompressed bytes; returns 0 at the end.
    fn read_next(&mut self, file: &Arc<RecordedFile>, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.pushed_back.is_empty() {
            let n = self.pushed_back.len().min(buffer.len());
            buffer[..n].copy_from_slice(&self.pushed_back[..n]);
            self.pushed_back.drain(..n);
            self.position += n as u64;
            return Ok(n);
        }
        self.decompress(file, buffer)
    }

    fn decompress(&mut self, file: &Arc<RecordedFile>, buffer: &mut [u8]) -> io::Result<usize> {
        let size = |file: &RecordedFile| fstat(file.file()).map(|stat| stat.st_size as u64);
        if let Some(size_at_end) = self.size_at_end {
            if size_at_end == size(file)? {
                return Ok(0);
            }
            return self.restart(file).and_then(|()| self.decompress(file, buffer));
        }
        if self.stream.is_none() && self.position > 0 {
            self.restart(file)?;
        }
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(new_decoder(self.compression, file)?),
        };
        let n = match stream.read(buffer) {
            Err(error) if error.raw_os_error().is_none() => {
                self.error = Some(format!(
                    "compressed data is truncated or corrupt after byte {} of the content: {error}",
                    self.position
                ));
                0
            }
            read => read?,
        };
        self.position += n as u64;
        if n == 0 {
            self.size_at_end = Some(size(file)?);
            self.stream = None;
        }
        Ok(n)
    }

    /// Restarts decompression after the file has grown, and skips to the current position.
    fn restart(&mut self, file: &Arc<RecordedFile>) -> io::Result<()> {
        let at = std::mem::take(&mut self.position);
        self.stream = Some(new_decoder(self.compression, file)?);
        self.size_at_end = None;
        self.error = None;
        self.skip_to(file, at)
    }
}

fn new_decoder(
    compression: Compression,
    file: &Arc<RecordedFile>,
) -> io::Result<Box<dyn Read + Send>> {
    let bytes = BufReader::with_capacity(READ_BYTES, FromStart { file: file.clone(), position: 0 });
    Ok(match compression {
        Compression::Gzip => Box::new(MultiGzDecoder::new(bytes)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(bytes)?),
    })
}

/// Reads a file from its first byte, at a position that is separate from the position of other
/// readers of the file.
struct FromStart {
    file: Arc<RecordedFile>,
    position: u64,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buffer, self.position)?;
        self.position += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
