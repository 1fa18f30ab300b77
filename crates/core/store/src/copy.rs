//! Keeps the second copy of the identities up to date.

use crate::database;
use crate::disk::{Disk, IDENTITIES};
use crate::identities::{Extent, FREE_BYTES_MIN, Ids, Records};
use redb::Database;
use std::io::{self, BufWriter, Read, Write};
use std::time::{Duration, Instant};

/// Maximum age of the checkpoints in the copy. If the database is corrupted, at most about this
/// much data is delivered again. A renewal rewrites the whole copy.
const RENEW_INTERVAL: Duration = Duration::from_secs(60);

/// Time after a failed write of the copy before the write is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Number of bytes to write at once.
const WRITE_BYTES: usize = 256 * 1024;

/// The state of the copy on disk.
pub struct Copy {
    /// Offset at which the next record is written.
    end: u64,
    /// Size of the file in bytes.
    length: u64,
    /// Reason why the copy lacks data from the database.
    error: Option<String>,
    /// Whether the database may have changed since the copy was last rewritten.
    is_dated: bool,
    written: Instant,
}

impl Copy {
    /// Opens the copy of `database`, and rewrites the copy if it lacks data.
    pub fn open(disk: &dyn Disk, database: &Database) -> Result<Copy, redb::Error> {
        let read = disk.reader(IDENTITIES).and_then(|mut file| Ids::read(&mut *file));
        let (ids, found) = read.unwrap_or_default();
        let mut copy = Copy {
            end: found.end,
            length: found.length,
            error: None,
            is_dated: true,
            written: Instant::now(),
        };
        let mut is_whole = found.is_whole;
        database::visit(database, &mut |part| {
            is_whole &= ids.has(part);
            Ok(())
        })?;
        drop(ids);
        if !is_whole {
            if found.length > 0 {
                log::warn!(
                    "checkpoint store: {IDENTITIES} was corrupt or incomplete; rewriting the file"
                );
            }
            copy.write(disk, database)?;
        }
        Ok(copy)
    }

    /// Returns the reason why the copy lacks data.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Appends new identities after a change to the database. With `sync`, they are durable in the
    /// copy on return. If the copy cannot be written, the error is recorded instead of being
    /// returned, and the copy is rewritten later.
    pub fn append(
        &mut self,
        disk: &dyn Disk,
        database: &Database,
        records: &Records,
        sync: bool,
    ) -> Result<(), redb::Error> {
        self.is_dated = true;
        if records.0.is_empty() {
            return Ok(());
        }
        if self.error.is_some() || self.end + records.0.len() as u64 > self.length {
            return self.renew(disk, database);
        }
        let written = disk.write(IDENTITIES, self.end, &records.0);
        match written.and_then(|()| if sync { disk.sync(IDENTITIES) } else { Ok(()) }) {
            Ok(()) => self.end += records.0.len() as u64,
            Err(error) => self.failed(&error),
        }
        Ok(())
    }

    /// Rewrites the copy if it lacks data, or if its checkpoints are old.
    pub fn tend(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        if !self.is_dated || self.error.is_none() && self.written.elapsed() < RENEW_INTERVAL {
            return Ok(());
        }
        self.renew(disk, database)
    }

    /// Rewrites the copy from the database, unless the last attempt failed recently.
    fn renew(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        if self.error.is_some() && self.written.elapsed() < RETRY_INTERVAL {
            return Ok(());
        }
        self.finish(disk, database)
    }

    /// Rewrites the copy if the database has changed.
    pub fn finish(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        if self.is_dated {
            self.write(disk, database)?;
        }
        Ok(())
    }

    /// Writes the whole copy, record by record, because it may be larger than the agent's memory.
    fn write(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        let extent = extent_of(database)?;
        self.written = Instant::now();
        match disk.replace_with(IDENTITIES, &mut |file| write_all(file, database, extent)) {
            Ok(()) => {
                (self.end, self.length) = (extent.end, extent.length);
                (self.error, self.is_dated) = (None, false);
            }
            Err(error) => self.failed(&error),
        }
        Ok(())
    }

    fn failed(&mut self, error: &io::Error) {
        if self.error.is_none() {
            log::error!(
                "checkpoint store: cannot write the second copy of the file ids: {error}; retrying"
            );
        }
        self.error = Some(error.to_string());
    }
}

/// Returns the extent of a copy of the database, including free space.
fn extent_of(database: &Database) -> Result<Extent, redb::Error> {
    let (mut records, mut bytes) = (Records::default(), 0);
    database::visit(database, &mut |part| {
        records.0.clear();
        records.part(part);
        bytes += records.0.len() as u64;
        Ok(())
    })?;
    let length = bytes + bytes / 2 + FREE_BYTES_MIN;
    records.0.clear();
    records.length(length);
    Ok(Extent { is_whole: true, end: records.0.len() as u64 + bytes, length })
}

/// Writes a copy of the database, followed by zeros as free space.
fn write_all(file: &mut dyn Write, database: &Database, extent: Extent) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(WRITE_BYTES, file);
    let mut records = Records::default();
    records.length(extent.length);
    file.write_all(&records.0)?;
    let written = database::visit(database, &mut |part| {
        records.0.clear();
        records.part(part);
        file.write_all(&records.0)?;
        Ok(())
    });
    written.map_err(io::Error::other)?;
    let free = extent.length - extent.end;
    io::copy(&mut io::repeat(0).take(free), &mut file)?;
    file.flush()
}
