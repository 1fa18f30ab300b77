//! Files whose reads, writes and syncs are recorded.

use crate::record::{self, Subject};
use crate::recorder;
use crate::schema::EventKind;
use rustix::fs::copy_file_range;
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;

/// An open file or folder whose reads, writes and syncs are recorded under the path at which it was
/// opened.
///
/// Every successful call is recorded as one event with the number of bytes that the system
/// returned, regardless of their purpose: lines, the head that identifies a file, or compressed
/// data below a decompressor. The sum of `bytesRead` over the events of a path is therefore the
/// number of bytes read from that path.
#[derive(Debug)]
pub struct RecordedFile {
    file: File,
    subject: Subject,
}

impl RecordedFile {
    /// Wraps a file that was opened at this path.
    pub fn new(file: File, path: &Path) -> RecordedFile {
        RecordedFile { file, subject: Subject::file(path) }
    }

    /// Returns the file for calls that are not recorded, such as reading its metadata.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads at `offset` with one system call. Returns 0 at the end of the file.
    ///
    /// # Errors
    /// Returns the system's error.
    #[inline]
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let timer = recorder::start(EventKind::FileRead);
        let bytes = pread(&self.file, buffer, offset)?;
        record::file_read(timer, &self.subject, bytes, bytes == 0);
        Ok(bytes)
    }

    /// Fills the buffer with the bytes at `offset`.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be read, or if the file ends before the buffer is full.
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    buffer = &mut buffer[bytes..];
                    offset += bytes as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes all bytes at `offset`.
    ///
    /// # Errors
    /// Returns an error if not all bytes can be written.
    pub fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let timer = recorder::start(EventKind::FileWrite);
            match pwrite(&self.file, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    record::file_write(timer, &self.subject, written);
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Copies at most `len` bytes at `offset` from another file to the same offset, with one system
    /// call. The files share the bytes on disk if the file system supports that. The call is
    /// recorded as a read of `from` and a write of this file. Returns 0 at the end of `from`.
    ///
    /// # Errors
    /// Returns the system's error. Some pairs of file systems do not support the call.
    pub fn copy_at(&self, from: &RecordedFile, offset: u64, len: usize) -> Result<usize, Errno> {
        let read = recorder::start(EventKind::FileRead);
        let write = recorder::start(EventKind::FileWrite);
        let mut from_offset = offset;
        let mut to_offset = offset;
        let source = Some(&mut from_offset);
        let bytes = copy_file_range(&from.file, source, &self.file, Some(&mut to_offset), len)?;
        record::file_read(read, &from.subject, bytes, bytes == 0);
        if bytes > 0 {
            record::file_write(write, &self.subject, bytes);
        }
        Ok(bytes)
    }

    /// Appends to a file that was opened for appending, with one system call. Returns the number of
    /// bytes written.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let timer = recorder::start(EventKind::FileWrite);
        let written = (&self.file).write_vectored(slices)?;
        record::file_write(timer, &self.subject, written);
        Ok(written)
    }

    /// Makes the contents durable, including the metadata that is needed to read them.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn sync_content(&self) -> io::Result<()> {
        let timer = recorder::start(EventKind::FileSync);
        self.file.sync_data()?;
        record::file_sync(timer, &self.subject);
        Ok(())
    }

    /// Makes the contents and metadata of a file durable, or the names in a folder.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn sync(&self) -> io::Result<()> {
        let timer = recorder::start(EventKind::FileSync);
        self.file.sync_all()?;
        record::file_sync(timer, &self.subject);
        Ok(())
    }
}

impl Read for RecordedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let timer = recorder::start(EventKind::FileRead);
        let bytes = self.file.read(buffer)?;
        record::file_read(timer, &self.subject, bytes, bytes == 0);
        Ok(bytes)
    }
}

/// Reads a whole file.
///
/// # Errors
/// Returns an error if the file is missing or cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(len);
    RecordedFile::new(file, path).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes the names in a folder durable.
///
/// # Errors
/// Returns an error if the folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    RecordedFile::new(File::open(folder)?, folder).sync()
}
