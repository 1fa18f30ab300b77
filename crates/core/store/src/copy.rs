//! Keeps the second copy of the identities up to date.

use crate::database;
use crate::disk::{Disk, IDENTITIES};
use crate::identities::{Identities, Records, decode};
use redb::Database;
use std::io;
use std::time::{Duration, Instant};

/// Age limit of the checkpoints in the copy: this much is repeated when the database is corrupt. A
/// renewal writes the whole copy.
const RENEW_INTERVAL: Duration = Duration::from_secs(60);

/// Pause before a failed write of the copy is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The copy on disk.
pub struct Copy {
    /// Offset of the next record.
    end: usize,
    /// Size of the file in bytes.
    length: usize,
    /// Why the copy lacks something that the database has.
    error: Option<String>,
    /// Whether the database has changed since the copy was written.
    is_dated: bool,
    written: Instant,
}

impl Copy {
    /// Opens the copy of `database`; rewrites it if it lacks something.
    pub fn open(disk: &dyn Disk, database: &Database) -> Result<Copy, redb::Error> {
        let current = database::identities(database)?;
        let found = disk.read(IDENTITIES).map(|bytes| decode(&bytes)).unwrap_or_default();
        let mut copy = Copy {
            end: found.end,
            length: found.length,
            error: None,
            is_dated: true,
            written: Instant::now(),
        };
        if !found.is_whole || !found.identities.covers(&current) {
            if found.length > 0 {
                log::warn!(
                    "checkpoint store: {IDENTITIES} was corrupt or incomplete; it is rewritten"
                );
            }
            copy.write(disk, &current);
        }
        Ok(copy)
    }

    /// Returns why the copy lacks something.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Appends new identities after a change of the database; durable on return if `sync`.
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
        if self.error.is_some() || self.end + records.0.len() > self.length {
            return self.renew(disk, database);
        }
        let written = disk.write(IDENTITIES, self.end as u64, &records.0);
        match written.and_then(|()| if sync { disk.sync(IDENTITIES) } else { Ok(()) }) {
            Ok(()) => self.end += records.0.len(),
            Err(error) => self.failed(&error),
        }
        Ok(())
    }

    /// Renews the copy if its checkpoints are old, or if it lacks something.
    pub fn tend(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        if !self.is_dated || self.error.is_none() && self.written.elapsed() < RENEW_INTERVAL {
            return Ok(());
        }
        self.renew(disk, database)
    }

    /// Rewrites the copy from the database; not soon after a failure.
    fn renew(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        if self.error.is_some() && self.written.elapsed() < RETRY_INTERVAL {
            return Ok(());
        }
        self.finish(disk, database)
    }

    /// Rewrites the copy if the database has changed.
    pub fn finish(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        if self.is_dated {
            self.write(disk, &database::identities(database)?);
        }
        Ok(())
    }

    fn write(&mut self, disk: &dyn Disk, identities: &Identities) {
        let (bytes, end) = identities.encode();
        self.written = Instant::now();
        match disk.replace(IDENTITIES, &bytes) {
            Ok(()) => {
                (self.end, self.length) = (end, bytes.len());
                (self.error, self.is_dated) = (None, false);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &io::Error) {
        if self.error.is_none() {
            log::error!(
                "checkpoint store: the second copy of the file ids cannot be written: {error}; trying again"
            );
        }
        self.error = Some(error.to_string());
    }
}
