//! The reads, writes and syncs of files beside the database: every one of them is made here, and
//! recorded. What the database library does is not: its commits are events themselves.

use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use rustix::io::{Errno, pwrite};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// An open file, or folder, whose reads, writes and syncs are recorded: each call of the system that
/// succeeds is one event with the bytes that it returned.
pub struct RecordedFile {
    file: File,
    subject: Subject,
}

impl RecordedFile {
    /// Records what is done with `file`, which this path has opened.
    pub fn new(file: File, path: &Path) -> RecordedFile {
        RecordedFile { file, subject: Subject::file(path) }
    }

    /// Writes all bytes at `offset`.
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

    /// Makes the content durable, and as much of the status as reading it takes.
    pub fn sync_content(&self) -> io::Result<()> {
        let timer = recorder::start(EventKind::FileSync);
        self.file.sync_data()?;
        record::file_sync(timer, &self.subject);
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
/// It is missing, or cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(len);
    RecordedFile::new(file, path).read_to_end(&mut bytes)?;
    Ok(bytes)
}
