//! Files whose reads, writes and syncs are recorded.

use crate::record::{self, Subject};
use crate::recorder;
use crate::schema::EventKind;
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;

/// An open file or folder whose reads, writes and syncs are recorded under the path that opened it.
///
/// Every successful call is one event with the bytes that the system returned, whatever their
/// purpose: lines, the head that identifies a file, or the compressed data beneath a decompressor.
/// The sum of `bytesRead` over the events of a path is therefore the number of bytes that reads of
/// the path returned.
/// the events of a path, `bytesRead` adds up to the bytes that reads of that path returned.
#[derive(Debug)]
pub struct RecordedFile {
    file: File,
    subject: Subject,
}

impl RecordedFile {
    /// Wraps `file`, which was opened at this path.
    pub fn new(file: File, path: &Path) -> RecordedFile {
        RecordedFile { file, subject: Subject::file(path) }
    }

    /// Returns the file, for calls that are not recorded, such as reading its status.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads at `offset` with one system call; returns 0 at the end of the file.
    ///
    /// # Errors
    /// Returns the error of the system.
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
    /// Fails if the bytes cannot be read, or the file ends before.
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
    /// Fails if not all bytes are written.
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

    /// Appends to a file that was opened for appending, with one system call; returns the bytes
    /// written.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let timer = recorder::start(EventKind::FileWrite);
        let written = (&self.file).write_vectored(slices)?;
        record::file_write(timer, &self.subject, written);
        Ok(written)
    }

    /// Makes the content durable, and the part of the status that is needed to read it.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn sync_content(&self) -> io::Result<()> {
        let timer = recorder::start(EventKind::FileSync);
        self.file.sync_data()?;
        record::file_sync(timer, &self.subject);
        Ok(())
    }

    /// Makes the content and the status of a file durable, or the names in a folder.
    ///
    /// # Errors
    /// Returns the error of the system.
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
/// Fails if the file is missing, or cannot be read.
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
/// Fails if the folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    RecordedFile::new(File::open(folder)?, folder).sync()
}
