//! Keeps the second copy of the identities up to date beside the database.

use crate::database;
use crate::disk::{Disk, IDENTITIES};
use crate::identities::{Identities, Records, decode};
use redb::Database;
use std::io;
use std::time::{Duration, Instant};

/// How old the checkpoints in the copy may become, while some move: so much is repeated when the
/// database is damaged. The whole copy is written for them.
const RENEW_INTERVAL: Duration = Duration::from_secs(60);

/// Pause before a copy that could not be written is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The copy, as it is on the disk.
pub struct Copy {
    /// Where the next record goes.
    end: usize,
    /// Bytes of the file.
    length: usize,
    /// Why the copy lacks something that the database has.
    error: Option<String>,
    /// Whether the database has changed since the copy was written.
    is_dated: bool,
    written: Instant,
}

impl Copy {
    /// The copy that belongs to `database`; one that lacks something is written anew.
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
                    "checkpoint store: {IDENTITIES} was damaged or incomplete; it is written again"
                );
            }
            copy.write(disk, &current);
        }
        Ok(copy)
    }

    /// Why the copy lacks something.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The database has changed: appends what it has taken of identities; durable on return, if
    /// `sync`.
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

    /// Renews the copy when its checkpoints have become old, or when it lacks something.
    pub fn tend(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        if !self.is_dated || self.error.is_none() && self.written.elapsed() < RENEW_INTERVAL {
            return Ok(());
        }
        self.renew(disk, database)
    }

    /// Writes the copy anew, with all that the database has; not soon after that has failed.
    fn renew(&mut self, disk: &dyn Disk, database: &Database) -> Result<(), redb::Error> {
        if self.error.is_some() && self.written.elapsed() < RETRY_INTERVAL {
            return Ok(());
        }
        self.finish(disk, database)
    }

    /// Writes the copy anew if the database has changed.
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
