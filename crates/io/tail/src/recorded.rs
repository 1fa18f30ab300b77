//! The reads, writes and syncs of files: every one of this crate is made here, and recorded.

use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::io;
use std::path::Path;

/// An open file, or folder, whose reads, writes and syncs are recorded under the path that opened it.
///
/// Every call that succeeds is one event with the bytes that the system returned, whatever they are
/// for: lines, the head that identifies the file, or the compressed data beneath a decompressor. So
/// over the events of a path, `bytesRead` adds up to the bytes that reads of that path returned.
pub struct RecordedFile {
    file: File,
    subject: Subject,
}

impl RecordedFile {
    /// Records what is done with `file`, which this path has opened.
    pub fn new(file: File, path: &Path) -> RecordedFile {
        RecordedFile { file, subject: Subject::file(path) }
    }

    /// Returns the file, for what is not recorded, such as its status.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads at `offset`, with one call; returns 0 at the end of the file.
    #[inline]
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let timer = recorder::start(EventKind::FileRead);
        let bytes = pread(&self.file, buffer, offset)?;
        record::file_read(timer, &self.subject, bytes, bytes == 0);
        Ok(bytes)
    }

    /// Writes all bytes at `offset`.
    ///
    /// # Errors
    /// They are not written, or not all of them.
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

    /// Makes the content and the status durable; of a folder its names.
    pub fn sync(&self) -> io::Result<()> {
        let timer = recorder::start(EventKind::FileSync);
        self.file.sync_all()?;
        record::file_sync(timer, &self.subject);
        Ok(())
    }
}
