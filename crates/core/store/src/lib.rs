//! The checkpoint store: the part of the agent's state that survives a restart.
//!
//! A separate crate because it cuts a dependency: the embedded database stays behind its interface.
//!
//! The store is an embedded database, `checkpoints.redb`, with five tables. Each value is followed
//! by the XXH3 hash of its key and value (8 bytes, little-endian), because the database does not
//! verify the data that it reads, and a wrong offset is worse than a missing one.
//!
//! | table | key | value |
//! |---|---|---|
//! | `sources` | source id | empty: this source ran before |
//! | `origins` | (source id, origin id) | the source's own descriptor |
//! | `checkpoints` | (source id, origin id, sink id) | offset, 8 bytes, little-endian |
//! | `lanes` | (sink id, lane) | the result of the lane's last sync |
//! | `disk_buffers` | sink id | a [`DiskBufferRecord`]: four 8-byte numbers, little-endian |
//!
//! A disk buffer's position is also a checkpoint of the source `disk.buffers`. A release without
//! the table `disk_buffers` moves only that checkpoint, which invalidates the record.
//!
//! The file `identities` is a second copy of the sources and origins, with checkpoints that may be
//! out of date. An unreadable database is set aside, and a new one is restored from the copy; data
//! is then repeated with its previous ids. A value whose hash is wrong is ignored. Both events are
//! reported.
//!
//! A full disk, or a disk that does not let the store read or write, is not treated as damage: the
//! agent then refuses to start, and uncommitted changes wait for the next attempt.

#![forbid(unsafe_code)]

mod copy;
mod database;
mod disk;
mod disk_buffer;
mod health;
mod identities;
mod modes;

pub use disk_buffer::DiskBufferRecord;
pub use health::StoreHealth;
pub use modes::ForeignFile;

use copy::Copy;
use database::{CHECKPOINTS, LANES, ORIGINS, Opened, SOURCES};
use disk::{Disk, FORMAT_FILE, Folder};
use health::{Operation, Watch};
use identities::Records;
use millstream_model::{OriginId, OriginRecord, OriginStore};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use redb::{Database, ReadOnlyTable, ReadableDatabase};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Version of the layout of `data_dir`, stored in the file `format`.
const FORMAT: &str = "1";

/// Name of the folder in `data_dir` that contains the sinks' disk buffers.
pub const SPOOL: &str = "spool";

/// Number of origins to read at once.
const PAGE_ORIGINS: usize = 1000;

/// Bytes in the file `lock`: a process id, spaces and a line ending.
const LOCK_BYTES: usize = 12;

/// Reason why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another agent is using the folder.
    #[error(
        "data_dir {0} is in use by another agent (process {1}); stop that agent, or set another data_dir for this agent"
    )]
    InUse(PathBuf, String),
    /// The folder was written by another release with a different layout.
    #[error(
        "data_dir {0} has format {1}, but this release reads only format {FORMAT}; use the release that wrote it, or another data_dir"
    )]
    Format(PathBuf, String),
    /// The agent may not use a file in the folder, because the file belongs to another user.
    #[error(
        "data_dir {data_dir}: the agent runs as user {user} and may not use {path}, which belongs \
         to user {owner}; run `chown -R {user}: {data_dir}` as root, or run the agent as user {owner}",
        data_dir = .0.display(), path = .1.path.display(), owner = .1.owner, user = .1.user
    )]
    Owner(PathBuf, ForeignFile),
    /// The folder cannot be used at all.
    #[error("data_dir {0}: {1}; set data_dir to a folder that this user may write to")]
    Io(PathBuf, io::Error),
    /// The disk is full.
    #[error(
        "data_dir {0}: checkpoint store: {1}; free some space and restart the agent; until then \
         the agent reads no file, so that files keep their ids and checkpoints"
    )]
    Full(PathBuf, io::Error),
    /// The database cannot be opened or created.
    #[error("data_dir {0}: checkpoint store: {1}")]
    Database(PathBuf, String),
}

impl StoreError {
    fn io(data_dir: &Path, error: io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::Full(data_dir.to_path_buf(), error)
            }
            io::ErrorKind::PermissionDenied => match modes::foreign_file(data_dir) {
                Some(file) => StoreError::Owner(data_dir.to_path_buf(), file),
                None => StoreError::Io(data_dir.to_path_buf(), error),
            },
            _ => StoreError::Io(data_dir.to_path_buf(), error),
        }
    }

    fn database(data_dir: &Path, unusable: database::Unusable) -> StoreError {
        match unusable {
            database::Unusable::Refused(error) => match StoreError::io(data_dir, error) {
                StoreError::Io(data_dir, error) => {
                    StoreError::Database(data_dir, error.to_string())
                }
                other => other,
            },
            database::Unusable::Damaged(reason) => {
                StoreError::Database(data_dir.to_path_buf(), reason)
            }
        }
    }
}

/// Changes that are waiting for the next commit, by key.
#[derive(Clone, Default)]
struct Pending {
    checkpoints: BTreeMap<(Arc<str>, OriginId, Arc<str>), u64>,
    lanes: BTreeMap<(Arc<str>, u64), Vec<u8>>,
    origins: BTreeMap<(Arc<str>, OriginId), Vec<u8>>,
    disk_buffers: BTreeMap<Arc<str>, DiskBufferRecord>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.checkpoints.is_empty()
            && self.lanes.is_empty()
            && self.origins.is_empty()
            && self.disk_buffers.is_empty()
    }
}

/// Collects the checkpoints that have moved since the last commit.
pub struct Moved<'a> {
    pending: &'a mut Pending,
}

impl Moved<'_> {
    /// Records the offset up to which a sink has settled one of a source's origins.
    pub fn checkpoint(
        &mut self,
        source: &Arc<str>,
        origin: OriginId,
        sink: &Arc<str>,
        offset: u64,
    ) {
        self.pending.checkpoints.insert((source.clone(), origin, sink.clone()), offset);
    }
}

/// The database and the second copy of the identities.
struct OnDisk {
    /// The database; `None` after an error, until the next use reopens it.
    database: Option<Opened>,
    copy: Copy,
}

/// The checkpoint store in one `data_dir`. It locks the folder.
pub struct Store {
    data_dir: PathBuf,
    disk: Box<dyn Disk>,
    on_disk: Mutex<OnDisk>,
    pending: Mutex<Pending>,
    gate: RwLock<()>,
    watch: Watch,
    on_sync: OnceLock<Box<dyn Fn() + Send + Sync>>,
    on_keep: OnceLock<Box<dyn Fn() -> io::Result<()> + Send + Sync>>,
    _lock: File,
}

impl Store {
    /// Opens the store in `data_dir`; creates the folder if it is missing.
    pub fn open(data_dir: &Path) -> Result<Store, StoreError> {
        modes::create_data_dir(data_dir).map_err(|error| StoreError::io(data_dir, error))?;
        Store::open_at(data_dir, Box::new(Folder::new(data_dir)))
    }

    /// Returns the folder in `data_dir` for the deleted files that `source` holds. Component ids
    /// are valid file names.
    pub fn held_dir(&self, source: &str) -> PathBuf {
        self.data_dir.join("held").join(source)
    }

    /// Returns the folder in `data_dir` for snapshots of the sink or merge transform `id`.
    pub fn snapshot_dir(&self, id: &str) -> PathBuf {
        self.data_dir.join("snapshots").join(id)
    }

    /// Returns the folder in `data_dir` for the disk buffer of the sink `id`.
    pub fn disk_buffer_dir(&self, id: &str) -> PathBuf {
        self.data_dir.join(SPOOL).join(id)
    }

    fn open_at(data_dir: &Path, disk: Box<dyn Disk>) -> Result<Store, StoreError> {
        let failed = |error| StoreError::io(data_dir, error);
        let lock = take_lock(data_dir)?;
        if let Some(file) = modes::foreign_file(data_dir) {
            return Err(StoreError::Owner(data_dir.to_path_buf(), file));
        }
        modes::correct(data_dir);
        let was_used = check_format(data_dir, &*disk)?;
        let opened = Opened::open(&*disk, was_used).and_then(|database| {
            let (copy, database) = database.work(|database| Copy::open(&*disk, database))?;
            Ok(OnDisk { database: Some(database), copy })
        });
        let on_disk = opened.map_err(|unusable| StoreError::database(data_dir, unusable))?;
        if !was_used {
            // This file is written last. If it exists, the database and the copy were durable, so
            // if either is missing, it was lost.
            disk.replace(FORMAT_FILE, format!("{FORMAT}\n").as_bytes()).map_err(failed)?;
        }
        let watch = Watch::new();
        watch.copy(on_disk.copy.error());
        Ok(Store {
            data_dir: data_dir.to_path_buf(),
            disk,
            on_disk: Mutex::new(on_disk),
            pending: Mutex::default(),
            gate: RwLock::default(),
            watch,
            on_sync: OnceLock::new(),
            on_keep: OnceLock::new(),
            _lock: lock,
        })
    }

    /// Returns the health of the store.
    pub fn health(&self) -> StoreHealth {
        let waits = !self.pending().is_empty();
        self.watch.health(waits)
    }

    fn on_disk(&self) -> MutexGuard<'_, OnDisk> {
        self.on_disk.lock()
    }

    /// Calls `work` with exclusive access to the database. After an error, the database is reopened
    /// on the next use.
    fn with<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&Database, &mut Copy) -> Result<T, redb::Error>,
    ) -> io::Result<T> {
        self.work_on(&mut self.on_disk(), operation, work)
    }

    fn work_on<T>(
        &self,
        on_disk: &mut OnDisk,
        operation: Operation,
        work: impl FnOnce(&Database, &mut Copy) -> Result<T, redb::Error>,
    ) -> io::Result<T> {
        let opened = on_disk.database.take().map_or_else(|| Opened::open(&*self.disk, true), Ok);
        let copy = &mut on_disk.copy;
        let done = opened.and_then(|opened| opened.work(|database| work(database, copy)));
        let done = done.map_err(io::Error::other);
        self.watch.done(operation, &done);
        self.watch.copy(copy.error());
        let (value, database) = done?;
        on_disk.database = Some(database);
        Ok(value)
    }

    /// Reads from the database; retries once after reopening it.
    fn read<T>(&self, read: impl Fn(&Database) -> Result<T, redb::Error>) -> io::Result<T> {
        let once = || self.with(Operation::Read, |database, _| read(database));
        once().or_else(|error| {
            log::warn!("checkpoint store: {error}; reopening the store");
            once()
        })
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock()
    }

    /// Returns a guard to hold while a sync's lane state and settlements are recorded, so that a
    /// commit includes both or neither.
    pub fn settling(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Registers `f`, which is called after every lane sync. It should cause a commit soon, because
    /// a crash before the commit would undo the sync.
    pub fn on_sync(&self, f: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_sync.set(Box::new(f));
    }

    /// Reports that a lane has synced and recorded its settlements.
    pub fn synced(&self) {
        if let Some(on_sync) = self.on_sync.get() {
            on_sync();
        }
    }

    /// Registers `f`, which is called to commit when a lane saves a state, or a disk buffer drops
    /// entries. The moved checkpoints are also committed, because pending states of other lanes
    /// must be committed together with them.
    pub fn on_keep(&self, f: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        let _ = self.on_keep.set(Box::new(f));
    }

    /// Saves a lane's state, with all settlements recorded before. The state is durable on return.
    pub fn keep_lane(&self, sink: &Arc<str>, lane: usize, state: Vec<u8>) -> io::Result<()> {
        self.note_lane(sink, lane, state);
        self.commit_moved()
    }

    /// Commits the moved checkpoints without waiting for the next commit interval. The checkpoints
    /// are durable on return.
    pub fn commit_moved(&self) -> io::Result<()> {
        self.on_keep.get().map_or_else(|| self.commit(|_| {}), |commit| commit())
    }

    /// Records the result of a lane's sync for the next commit.
    pub fn note_lane(&self, sink: &Arc<str>, lane: usize, state: Vec<u8>) {
        self.pending().lanes.insert((sink.clone(), lane as u64), state);
    }

    /// Returns whether the result of the lane's last sync has been committed.
    pub fn has_committed_lane(&self, sink: &Arc<str>, lane: usize) -> bool {
        !self.pending().lanes.contains_key(&(sink.clone(), lane as u64))
    }

    /// Commits the checkpoints that `moved` reports, and the changes recorded before. The changes
    /// are durable on return.
    ///
    /// Changes that could not be committed are kept for the next commit.
    pub fn commit(&self, moved: impl FnOnce(&mut Moved<'_>)) -> io::Result<()> {
        // Changes are gathered and written under one lock, so that an older set of changes cannot
        // overwrite a newer one.
        let mut on_disk = self.on_disk();
        let begun = Instant::now();
        let due = self.gather(moved);
        self.work_on(&mut on_disk, Operation::Commit, |database, copy| {
            // If the previous write failed, `work_on` has reopened the database, which writes to
            // it. Thus, even a commit without changes shows whether writes work.
            if due.is_empty() {
                return copy.tend(&*self.disk, database);
            }
            let new = database::write(database, &due)?;
            self.settled(&due);
            copy.append(&*self.disk, database, &new, true)?;
            copy.tend(&*self.disk, database)
        })?;
        self.watch.committed(begun);
        Ok(())
    }

    /// Removes the committed changes from the pending changes. Newer values remain.
    fn settled(&self, due: &Pending) {
        let mut pending = self.pending();
        pending.checkpoints.retain(|key, offset| due.checkpoints.get(key) != Some(offset));
        pending.lanes.retain(|key, state| due.lanes.get(key) != Some(state));
        pending.origins.retain(|key, descriptor| due.origins.get(key) != Some(descriptor));
        pending.disk_buffers.retain(|sink, record| due.disk_buffers.get(sink) != Some(record));
    }

    fn gather(&self, moved: impl FnOnce(&mut Moved<'_>)) -> Pending {
        let _gate = self.gate.write();
        let mut pending = self.pending();
        moved(&mut Moved { pending: &mut pending });
        pending.clone()
    }

    /// Rewrites the second copy of the identities with the current checkpoints, during shutdown.
    pub fn finish(&self) {
        let finished = self.with(Operation::Commit, |database, copy| {
            database::end_any_source(database)?;
            copy.finish(&*self.disk, database)
        });
        if let Err(error) = finished {
            log::warn!("checkpoint store: the second copy of the file ids is outdated: {error}");
        }
    }

    /// Returns the result of the lane's last sync, committed or pending.
    pub fn lane(&self, sink: &Arc<str>, lane: usize) -> io::Result<Option<Vec<u8>>> {
        if let Some(state) = self.pending().lanes.get(&(sink.clone(), lane as u64)) {
            return Ok(Some(state.clone()));
        }
        self.read(|database| {
            let table = database.begin_read()?.open_table(LANES)?;
            let value = table.get((&**sink, lane as u64))?;
            Ok(value
                .and_then(|v| database::opened(&database::lane_key(sink, lane as u64), v.value())))
        })
    }

    /// Returns the part of the store that belongs to a source.
    pub fn of_source(self: &Arc<Self>, source: &str) -> Arc<dyn OriginStore> {
        Arc::new(SourceStore { store: self.clone(), source: source.into() })
    }
}

fn take_lock(data_dir: &Path) -> Result<File, StoreError> {
    let failed = |error| StoreError::io(data_dir, error);
    let path = data_dir.join("lock");
    let file = modes::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let owner = std::fs::read_to_string(&path).unwrap_or_default();
            return Err(StoreError::InUse(data_dir.to_path_buf(), owner.trim().to_owned()));
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
    }
    // The content always has the same length and is overwritten in place, which works on a full
    // disk. Other processes only display the content.
    let owner = format!("{:<1$}\n", std::process::id(), LOCK_BYTES - 1);
    let written =
        file.write_all_at(owner.as_bytes(), 0).and_then(|()| file.set_len(LOCK_BYTES as u64));
    if let Err(error) = written {
        log::warn!("cannot write the process id to {}: {error}", path.display());
    }
    Ok(file)
}

/// Returns whether an agent has used the folder before. Fails if the folder has another layout.
fn check_format(data_dir: &Path, disk: &dyn Disk) -> Result<bool, StoreError> {
    let found = disk.read(FORMAT_FILE).map_err(|error| StoreError::io(data_dir, error))?;
    match String::from_utf8_lossy(&found).trim() {
        FORMAT => Ok(true),
        // The file is missing, or a crash during the write left it empty.
        "" => Ok(false),
        other => Err(StoreError::Format(data_dir.to_path_buf(), other.to_owned())),
    }
}

struct SourceStore {
    store: Arc<Store>,
    source: Arc<str>,
}

impl SourceStore {
    /// Returns whether the source has ever run.
    fn is_known(&self, database: &Database) -> Result<bool, redb::Error> {
        let sources = database.begin_read()?.open_table(SOURCES)?;
        Ok(sources.get(&*self.source)?.is_some() || sources.get(database::ANY_SOURCE)?.is_some())
    }

    fn read(&self, database: &Database) -> Result<(Vec<OriginRecord>, bool), redb::Error> {
        Ok((self.read_from(database, 0, usize::MAX)?, self.is_known(database)?))
    }

    fn checkpoints(
        &self,
        table: &ReadOnlyTable<(&'static str, u64, &'static str), &'static [u8]>,
        id: u64,
    ) -> Result<Vec<(String, u64)>, redb::Error> {
        let source = &*self.source;
        let mut checkpoints = Vec::new();
        for row in table.range((source, id, "")..)? {
            let (key, value) = row?;
            let (owner, origin, sink) = key.value();
            if (owner, origin) != (source, id) {
                break;
            }
            let key = database::checkpoint_key(source, id, sink);
            let offset = database::offset_of(&key, value.value());
            checkpoints.extend(offset.map(|offset| (sink.to_owned(), offset)));
        }
        Ok(checkpoints)
    }

    fn read_page(
        &self,
        database: &Database,
        after: Option<OriginId>,
    ) -> Result<Vec<OriginRecord>, redb::Error> {
        match after.map_or(Some(0), |after| after.0.checked_add(1)) {
            Some(first) => self.read_from(database, first, PAGE_ORIGINS),
            None => Ok(Vec::new()),
        }
    }

    /// Reads at most `count` origins, starting at the id `first`. An origin whose hash is wrong is
    /// omitted.
    fn read_from(
        &self,
        database: &Database,
        first: u64,
        count: usize,
    ) -> Result<Vec<OriginRecord>, redb::Error> {
        let source = &*self.source;
        let transaction = database.begin_read()?;
        let checkpoints = transaction.open_table(CHECKPOINTS)?;
        let mut records = Vec::new();
        let origins = transaction.open_table(ORIGINS)?;
        for row in origins.range((source, first)..=(source, u64::MAX))? {
            let (key, value) = row?;
            let id = key.value().1;
            let key = database::origin_key(source, id);
            let Some(descriptor) = database::opened(&key, value.value()) else { continue };
            let checkpoints = self.checkpoints(&checkpoints, id)?;
            records.push(OriginRecord { id: OriginId(id), descriptor, checkpoints });
            if records.len() >= count {
                break;
            }
        }
        Ok(records)
    }

    fn read_one(
        &self,
        database: &Database,
        origin: OriginId,
    ) -> Result<Option<OriginRecord>, redb::Error> {
        let source = &*self.source;
        let transaction = database.begin_read()?;
        let origins = transaction.open_table(ORIGINS)?;
        let value = origins.get((source, origin.0))?;
        let key = database::origin_key(source, origin.0);
        let Some(descriptor) = value.and_then(|value| database::opened(&key, value.value())) else {
            return Ok(None);
        };
        let checkpoints = self.checkpoints(&transaction.open_table(CHECKPOINTS)?, origin.0)?;
        Ok(Some(OriginRecord { id: origin, descriptor, checkpoints }))
    }

    /// Applies the changes to the origin that are waiting for a commit.
    fn add_pending(&self, record: &mut OriginRecord) {
        let pending = self.store.pending();
        if let Some(descriptor) = pending.origins.get(&(self.source.clone(), record.id)) {
            record.descriptor.clone_from(descriptor);
        }
        let first = (self.source.clone(), record.id, Arc::from(""));
        let is_of = |(source, origin, _): &(Arc<str>, OriginId, Arc<str>)| {
            *source == self.source && *origin == record.id
        };
        let later = pending.checkpoints.range(first..).take_while(|(key, _)| is_of(key));
        for ((_, _, sink), offset) in later {
            record.checkpoints.retain(|(id, _)| **id != **sink);
            record.checkpoints.push((sink.to_string(), *offset));
        }
    }

    fn write(
        &self,
        database: &Database,
        origins: &[(OriginId, Vec<u8>)],
    ) -> Result<(), redb::Error> {
        let source = &*self.source;
        let transaction = database.begin_write()?;
        transaction.open_table(SOURCES)?.insert(source, &[][..])?;
        {
            let mut table = transaction.open_table(ORIGINS)?;
            for (id, descriptor) in origins {
                let value = database::sealed(&database::origin_key(source, id.0), descriptor);
                table.insert((source, id.0), &value[..])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn remove(&self, database: &Database, origins: &[OriginId]) -> Result<(), redb::Error> {
        let source = &*self.source;
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(ORIGINS)?;
            let mut checkpoints = transaction.open_table(CHECKPOINTS)?;
            for id in origins {
                table.remove((source, id.0))?;
                let of_origin = |(owner, origin, _): (&str, u64, &str), _: &[u8]| {
                    (owner, origin) == (source, id.0)
                };
                checkpoints.retain_in(
                    (source, id.0, "")..(source, id.0.saturating_add(1), ""),
                    |k, v| !of_origin(k, v),
                )?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Returns records of the origins, to append to the copy.
    fn records(&self, origins: &[(OriginId, Vec<u8>)]) -> Records {
        let mut records = Records::default();
        if origins.is_empty() {
            records.source(&self.source);
        }
        origins.iter().for_each(|(id, descriptor)| records.origin(&self.source, id.0, descriptor));
        records
    }
}

impl OriginStore for SourceStore {
    fn origins(&self) -> io::Result<(Vec<OriginRecord>, bool)> {
        self.store.read(|database| self.read(database))
    }

    fn has_run(&self) -> io::Result<bool> {
        self.store.read(|database| self.is_known(database))
    }

    fn origins_after(&self, after: Option<OriginId>) -> io::Result<Vec<OriginRecord>> {
        self.store.read(|database| self.read_page(database, after))
    }

    fn origin(&self, origin: OriginId) -> io::Result<Option<OriginRecord>> {
        let mut record = self.store.read(|database| self.read_one(database, origin))?;
        record.iter_mut().for_each(|record| self.add_pending(record));
        Ok(record)
    }

    fn keep(&self, origins: &[(OriginId, Vec<u8>)]) -> io::Result<()> {
        self.store.with(Operation::Keep, |database, copy| {
            self.write(database, origins)?;
            copy.append(&*self.store.disk, database, &self.records(origins), true)?;
            let mut pending = self.store.pending();
            // An older pending descriptor for the same origin must not be written later.
            origins
                .iter()
                .for_each(|(id, _)| _ = pending.origins.remove(&(self.source.clone(), *id)));
            Ok(())
        })
    }

    fn note(&self, origin: OriginId, descriptor: Vec<u8>) {
        self.store.pending().origins.insert((self.source.clone(), origin), descriptor);
    }

    fn is_committed(&self, origin: OriginId) -> bool {
        let pending = self.store.pending();
        let first = (self.source.clone(), origin, Arc::from(""));
        let mut later = pending.checkpoints.range(first..);
        !later.next().is_some_and(|((source, id, _), _)| *source == self.source && *id == origin)
    }

    fn committed(&self, origin: OriginId) -> io::Result<Vec<(String, u64)>> {
        self.store.read(|database| {
            let table = database.begin_read()?.open_table(CHECKPOINTS)?;
            self.checkpoints(&table, origin.0)
        })
    }

    fn forget(&self, origins: &[OriginId]) -> io::Result<()> {
        let gone = |(source, origin, _): &(Arc<str>, OriginId, Arc<str>)| {
            **source == *self.source && origins.contains(origin)
        };
        let mut pending = self.store.pending();
        pending.checkpoints.retain(|key, _| !gone(key));
        pending
            .origins
            .retain(|(source, origin), _| *source != self.source || !origins.contains(origin));
        drop(pending);
        let mut records = Records::default();
        origins.iter().for_each(|id| records.forgotten(&self.source, id.0));
        self.store.with(Operation::Forget, |database, copy| {
            self.remove(database, origins)?;
            // The append is not synced, because an identity that reappears has no file, or a file
            // with the same content.
            copy.append(&*self.store.disk, database, &records, false)
        })
    }
}

#[cfg(test)]
mod tests;
