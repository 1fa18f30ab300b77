//! Opening, restoring and writing the database.

use crate::Pending;
use crate::disk::{DATABASE, Disk, IDENTITIES, SystemError, Watched};
use crate::identities::{Decoded, Identities, Part, Records, decode};
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub const SOURCES: TableDefinition<&str, &[u8]> = TableDefinition::new("sources");
pub const ORIGINS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("origins");
pub const CHECKPOINTS: TableDefinition<(&str, u64, &str), &[u8]> =
    TableDefinition::new("checkpoints");
pub const LANES: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("lanes");
pub const DISK_BUFFERS: TableDefinition<&str, &[u8]> = TableDefinition::new("disk_buffers");

/// Cache size in bytes. An agent's checkpoints are small, and are written more often than read.
const STORE_CACHE_BYTES: usize = 512 * 1024;

/// Key of a row in [`SOURCES`] that represents all sources. The row exists if it is not known which
/// sources have run before, so every source counts as having run: a source that believes that it
/// runs for the first time might start at the end of its files.
pub const ANY_SOURCE: &str = "";

/// Reason why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file is corrupt.
    #[error("{0}")]
    Damaged(String),
    /// The system refuses access to the file, which may be intact.
    #[error("{0}")]
    Refused(io::Error),
}

/// An open database, with the last OS error from its file.
pub struct Opened {
    database: Database,
    error: SystemError,
}

impl Opened {
    /// Opens the database. A corrupt database is set aside. A missing database is created, and
    /// restored from the second copy of the identities. `was_used` states that a complete database
    /// existed before.
    pub fn open(disk: &dyn Disk, was_used: bool) -> Result<Opened, Unusable> {
        match Opened::open_checked(disk, was_used) {
            Err(Unusable::Damaged(reason)) => {
                disk.set_aside(&reason).map_err(Unusable::Refused)?;
                Opened::open_checked(disk, was_used)
            }
            opened => opened,
        }
    }

    /// Opens the database and verifies every page and identity.
    fn open_checked(disk: &dyn Disk, was_used: bool) -> Result<Opened, Unusable> {
        let error = SystemError::default();
        let file = disk.database().map_err(Unusable::Refused)?;
        let watched = Watched { file, error: error.clone() };
        guarded(&error.clone(), || {
            let mut builder = Database::builder();
            builder.set_cache_size(STORE_CACHE_BYTES).set_check_integrity_on_open(true);
            let database = builder.create_with_backend(watched)?;
            if database.begin_read()?.list_tables()?.next().is_some() {
                visit(&database, &mut |_| Ok(()))?;
            } else {
                // A file that cannot be read now may be readable later.
                let copy = error.note(disk.read(IDENTITIES)).map(|bytes| decode(&bytes))?;
                begin(&database, &copy, was_used)?;
            }
            Ok(Opened { database, error })
        })
    }

    /// Calls `work` with the database, and returns the result and the database. After an error, the
    /// database is closed and must be reopened, because the library does not recover from a full
    /// disk.
    pub fn work<T>(
        self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<(T, Opened), Unusable> {
        let error = self.error.clone();
        guarded(&error, || Ok((work(&self.database)?, self)))
    }
}

/// Calls the library, which might panic on a corrupt file.
fn guarded<T>(
    error: &SystemError,
    work: impl FnOnce() -> Result<T, redb::Error>,
) -> Result<T, Unusable> {
    error.take();
    let done = catch_unwind(AssertUnwindSafe(work));
    // After a system error, the file may be intact, even if the library reports corruption.
    let refused = || error.take().map(Unusable::Refused);
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(refused().unwrap_or_else(|| Unusable::Damaged(error.to_string()))),
        Err(_) => {
            Err(refused().unwrap_or_else(|| Unusable::Damaged("the file is corrupt".to_owned())))
        }
    }
}

/// Creates the tables of a new database and restores the copy in one transaction, so that a
/// database with tables is complete.
fn begin(database: &Database, copy: &Decoded, was_used: bool) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(LANES)?;
    restore(&transaction, &copy.identities)?;
    if was_used && !copy.is_whole {
        transaction.open_table(SOURCES)?.insert(ANY_SOURCE, &[][..])?;
    }
    transaction.commit()?;
    if was_used || copy.length > 0 {
        say_restored(copy);
    }
    Ok(())
}

fn restore(transaction: &WriteTransaction, identities: &Identities) -> Result<(), redb::Error> {
    let mut sources = transaction.open_table(SOURCES)?;
    let mut table = transaction.open_table(ORIGINS)?;
    let mut checkpoints = transaction.open_table(CHECKPOINTS)?;
    for (source, origins) in &identities.0 {
        sources.insert(&**source, &[][..])?;
        for (origin, identity) in origins {
            let value = sealed(&origin_key(source, *origin), &identity.descriptor);
            table.insert((&**source, *origin), &value[..])?;
            for (sink, offset) in &identity.checkpoints {
                let value = sealed(&checkpoint_key(source, *origin, sink), &offset.to_le_bytes());
                checkpoints.insert((&**source, *origin, &**sink), &value[..])?;
            }
        }
    }
    Ok(())
}

fn say_restored(copy: &Decoded) {
    let missing = "the agent has used this data_dir before, but";
    match (copy.identities.count(), copy.is_whole) {
        (0, false) => log::error!(
            "checkpoint store: {missing} {DATABASE} is empty, missing or damaged, and so is the \
             copy in {IDENTITIES}; files are reread from the beginning, with new ids"
        ),
        (files, is_whole) => log::error!(
            "checkpoint store: {missing} {DATABASE} is empty, missing or damaged; the ids of \
             {files} files are restored from {}{IDENTITIES}; lines delivered after the checkpoints \
             in it are repeated{}",
            if is_whole { "" } else { "the readable part of " },
            if is_whole {
                " with the same ids"
            } else {
                "; all other files are reread with new ids"
            }
        ),
    }
}

/// Calls `visit` with every identity in the database after verifying it: sources, then origins,
/// then checkpoints. Only a few identities are in memory at once.
pub fn visit(
    database: &Database,
    visit: &mut dyn FnMut(Part<'_>) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_read()?;
    for row in transaction.open_table(SOURCES)?.iter()? {
        let key = row?.0;
        // This row represents all sources and is not a source itself.
        if key.value() != ANY_SOURCE {
            visit(Part::Source(key.value()))?;
        }
    }
    let (table, mut origins) = (transaction.open_table(ORIGINS)?, 0);
    for row in table.iter()? {
        let (key, value) = row?;
        let (source, origin) = key.value();
        let descriptor = opened(&origin_key(source, origin), value.value()).ok_or_else(damaged)?;
        visit(Part::Origin(source, origin, &descriptor))?;
        origins += 1;
    }
    if origins != table.len()? {
        return Err(damaged());
    }
    for row in transaction.open_table(CHECKPOINTS)?.iter()? {
        let (key, value) = row?;
        let (source, origin, sink) = key.value();
        if let Some(offset) = offset_of(&checkpoint_key(source, origin, sink), value.value()) {
            visit(Part::Checkpoint(source, origin, sink, offset))?;
        }
    }
    Ok(())
}

fn damaged() -> redb::Error {
    redb::Error::Corrupted("an identity has a wrong checksum".to_owned())
}

/// Writes the pending changes in one transaction, which is durable on return. Returns records of
/// the new origins, to append to the copy.
pub fn write(database: &Database, due: &Pending) -> Result<Records, redb::Error> {
    let (transaction, mut new) = (database.begin_write()?, Records::default());
    {
        let mut origins = transaction.open_table(ORIGINS)?;
        for ((source, origin), descriptor) in &due.origins {
            let value = sealed(&origin_key(source, origin.0), descriptor);
            if origins.insert((&**source, origin.0), &value[..])?.is_none() {
                new.origin(source, origin.0, descriptor);
            }
        }
        let mut table = transaction.open_table(CHECKPOINTS)?;
        for ((source, origin, sink), offset) in &due.checkpoints {
            // The origin was forgotten before its commit, so this row would never be removed.
            if origins.get((&**source, origin.0))?.is_none() {
                continue;
            }
            let value = sealed(&checkpoint_key(source, origin.0, sink), &offset.to_le_bytes());
            table.insert((&**source, origin.0, &**sink), &value[..])?;
        }
        let mut table = transaction.open_table(LANES)?;
        for ((sink, lane), state) in &due.lanes {
            table.insert((&**sink, *lane), &sealed(&lane_key(sink, *lane), state)[..])?;
        }
    }
    write_disk_buffers(&transaction, due)?;
    transaction.commit()?;
    Ok(new)
}

fn write_disk_buffers(transaction: &WriteTransaction, due: &Pending) -> Result<(), redb::Error> {
    if due.disk_buffers.is_empty() {
        return Ok(());
    }
    let mut table = transaction.open_table(DISK_BUFFERS)?;
    for (sink, record) in &due.disk_buffers {
        table.insert(&**sink, &sealed(sink.as_bytes(), &record.encoded())[..])?;
    }
    Ok(())
}

/// Removes [`ANY_SOURCE`]. Afterward, a source without a row is treated as never run.
pub fn end_any_source(database: &Database) -> Result<(), redb::Error> {
    if database.begin_read()?.open_table(SOURCES)?.get(ANY_SOURCE)?.is_none() {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    transaction.open_table(SOURCES)?.remove(ANY_SOURCE)?;
    Ok(transaction.commit()?)
}

pub fn checkpoint_key(source: &str, origin: u64, sink: &str) -> Vec<u8> {
    [source.as_bytes(), &[0], &origin.to_le_bytes(), sink.as_bytes()].concat()
}

pub fn lane_key(sink: &str, lane: u64) -> Vec<u8> {
    [sink.as_bytes(), &[0], &lane.to_le_bytes()].concat()
}

pub fn origin_key(source: &str, origin: u64) -> Vec<u8> {
    [source.as_bytes(), &[0], &origin.to_le_bytes()].concat()
}

/// Returns the value followed by the hash of the key and the value, so that a value stored under
/// the wrong key also fails the check.
pub fn sealed(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = value.to_vec();
    sealed.extend_from_slice(&hash(key, value).to_le_bytes());
    sealed
}

/// Returns the value without its hash; `None` if the hash shows that this value was not written
/// under this key.
pub fn opened(key: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (value, seal) = sealed.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*seal) == hash(key, value) {
        return Some(value.to_vec());
    }
    log::error!(
        "checkpoint store: a value has a wrong checksum and is ignored; some data will be repeated"
    );
    None
}

/// Returns the offset; `None` if it was not written under this key.
pub fn offset_of(key: &[u8], sealed: &[u8]) -> Option<u64> {
    opened(key, sealed)?.try_into().ok().map(u64::from_le_bytes)
}

fn hash(key: &[u8], value: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(value, xxhash_rust::xxh3::xxh3_64(key))
}
