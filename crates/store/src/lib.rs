//! The checkpoint store: what the agent knows over a restart, in an embedded database.
//!
//! Four tables, all values followed by the XXH3 hash of key and value (8 bytes, little endian): the database does
//! not verify what it reads, and a wrong offset is worse than none.
//!
//! | table | key | value |
//! |---|---|---|
//! | `sources` | source id | empty: this source ran before |
//! | `origins` | (source id, origin id) | the source's own descriptor |
//! | `checkpoints` | (source id, origin id, sink id) | offset, 8 bytes little endian |
//! | `lanes` | (sink id, lane) | what the lane's last sync returned |
//!
//! A store that cannot be read is set aside and a new one begun; a value that fails its hash is
//! left out. Both only repeat data, and both are reported.

use millstream_model::{OriginRecord, OriginStore};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

const SOURCES: TableDefinition<&str, &[u8]> = TableDefinition::new("sources");
const ORIGINS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("origins");
const CHECKPOINTS: TableDefinition<(&str, u64, &str), &[u8]> = TableDefinition::new("checkpoints");
const LANES: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("lanes");

/// Cache in bytes: an agent's checkpoints are small and written, not read.
const STORE_CACHE_BYTES: usize = 512 * 1024;

/// The database's file in `data_dir`.
const DATABASE: &str = "checkpoints.redb";

/// Version of the layout of `data_dir`, in its file `format`.
const FORMAT: &str = "1";

/// The store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another agent has the folder.
    #[error(
        "data_dir {0} is in use by another agent (process {1}); stop it or give this one a data_dir of its own"
    )]
    InUse(PathBuf, String),
    /// The folder was written by a newer release.
    #[error(
        "data_dir {0} has format {1}, this release reads {FORMAT}; use the newer release or another data_dir"
    )]
    Format(PathBuf, String),
    /// The folder cannot be used at all.
    #[error("data_dir {0}: {1}; set data_dir to a folder this user may write")]
    Io(PathBuf, io::Error),
    /// The database cannot be created.
    #[error("data_dir {0}: checkpoint store: {1}")]
    Database(PathBuf, String),
}

/// What waits for the next commit, by key.
#[derive(Clone, Default)]
struct Pending {
    checkpoints: BTreeMap<(Arc<str>, u64, Arc<str>), u64>,
    lanes: BTreeMap<(Arc<str>, u64), Vec<u8>>,
    origins: BTreeMap<(Arc<str>, u64), Vec<u8>>,
}

/// Where the database is: a file, or in a test a disk that loses power.
type Create = Box<dyn Fn(&redb::Builder) -> Result<Database, redb::DatabaseError> + Send + Sync>;

/// The checkpoint store of one `data_dir`, which it keeps locked.
pub struct Store {
    data_dir: PathBuf,
    create: Create,
    /// `None` after an error: the library refuses to go on then, and the file is opened again.
    database: Mutex<Option<Database>>,
    pending: Mutex<Pending>,
    gate: RwLock<()>,
    on_sync: OnceLock<Box<dyn Fn() + Send + Sync>>,
    on_keep: OnceLock<Box<dyn Fn() -> io::Result<()> + Send + Sync>>,
    _lock: File,
}

impl Store {
    /// Opens the store in `data_dir`, making the folder if it is missing.
    pub fn open(data_dir: &Path) -> Result<Store, StoreError> {
        let path = data_dir.join(DATABASE);
        Store::open_at(data_dir, Box::new(move |builder| builder.create(&path)))
    }

    /// Folder in `data_dir` for what `source` holds of deleted files. Ids of components are names that
    /// need no escaping.
    pub fn held_dir(&self, source: &str) -> PathBuf {
        self.data_dir.join("held").join(source)
    }

    fn open_at(data_dir: &Path, create: Create) -> Result<Store, StoreError> {
        let failed = |error| StoreError::Io(data_dir.to_path_buf(), error);
        std::fs::create_dir_all(data_dir).map_err(failed)?;
        let lock = take_lock(data_dir)?;
        check_format(data_dir)?;
        let database = match open_checked(&create) {
            Err(Unusable::Damaged(reason)) => {
                set_aside(&data_dir.join(DATABASE), &reason).map_err(failed)?;
                open_checked(&create)
            }
            opened => opened,
        };
        let database =
            database.map_err(|error| StoreError::Database(data_dir.to_path_buf(), error.to_string()))?;
        // What is synced into a file is lost all the same if the folder does not know the file.
        File::open(data_dir).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(Store {
            data_dir: data_dir.to_path_buf(),
            create,
            database: Mutex::new(Some(database)),
            pending: Mutex::default(),
            gate: RwLock::default(),
            on_sync: OnceLock::new(),
            on_keep: OnceLock::new(),
            _lock: lock,
        })
    }

    /// Works on the database, alone. After an error it is opened again the next time: the library
    /// does not recover from a full disk by itself.
    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, redb::Error>) -> io::Result<T> {
        let mut slot = self.database.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let database = match slot.take() {
            Some(database) => database,
            None => open_checked(&self.create).map_err(io::Error::other)?,
        };
        let (value, database) = guarded(|| Ok((work(&database)?, database))).map_err(io::Error::other)?;
        *slot = Some(database);
        Ok(value)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Held while a sync's lane state and its settlements are noted, so that no commit takes one
    /// without the other.
    pub fn settling(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Calls `f` after every sync of a lane: a commit should follow soon, because a crash before it
    /// takes back what was synced.
    pub fn on_sync(&self, f: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_sync.set(Box::new(f));
    }

    /// A lane has synced and settled.
    pub fn synced(&self) {
        if let Some(on_sync) = self.on_sync.get() {
            on_sync();
        }
    }

    /// Calls `f` to commit when a lane keeps a state: with it go the checkpoints that moved, for what
    /// other lanes have noted belongs to theirs.
    pub fn on_keep(&self, f: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        let _ = self.on_keep.set(Box::new(f));
    }

    /// Keeps a lane's state with everything that was settled before; durable on return.
    pub fn keep_lane(&self, sink: &Arc<str>, lane: usize, state: Vec<u8>) -> io::Result<()> {
        self.note_lane(sink, lane, state);
        self.on_keep.get().map_or_else(|| self.commit(|_| {}), |commit| commit())
    }

    /// Notes what a lane's sync returned, for the next commit.
    pub fn note_lane(&self, sink: &Arc<str>, lane: usize, state: Vec<u8>) {
        self.pending().lanes.insert((sink.clone(), lane as u64), state);
    }

    /// Commits what `moved` notes, with the lane states noted before; durable on return.
    ///
    /// What could not be committed is kept for the next time.
    pub fn commit(
        &self,
        moved: impl FnOnce(&mut dyn FnMut(&Arc<str>, u64, &Arc<str>, u64)),
    ) -> io::Result<()> {
        // Gathered and written under one lock: what was gathered earlier must not be written later.
        self.with(|database| {
            let due = self.gather(moved);
            if due.checkpoints.is_empty() && due.lanes.is_empty() && due.origins.is_empty() {
                return Ok(());
            }
            write(database, &due)?;
            let mut pending = self.pending();
            pending.checkpoints.retain(|key, offset| due.checkpoints.get(key) != Some(offset));
            pending.lanes.retain(|key, state| due.lanes.get(key) != Some(state));
            pending.origins.retain(|key, descriptor| due.origins.get(key) != Some(descriptor));
            Ok(())
        })
    }

    fn gather(&self, moved: impl FnOnce(&mut dyn FnMut(&Arc<str>, u64, &Arc<str>, u64))) -> Pending {
        let _gate = self.gate.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut pending = self.pending();
        moved(&mut |source, origin, sink, offset| {
            pending.checkpoints.insert((source.clone(), origin, sink.clone()), offset);
        });
        pending.clone()
    }

    /// What the lane's last sync returned, committed or about to be.
    pub fn lane(&self, sink: &Arc<str>, lane: usize) -> Option<Vec<u8>> {
        if let Some(state) = self.pending().lanes.get(&(sink.clone(), lane as u64)) {
            return Some(state.clone());
        }
        let read = |database: &Database| -> Result<Option<Vec<u8>>, redb::Error> {
            let table = database.begin_read()?.open_table(LANES)?;
            let value = table.get((&**sink, lane as u64))?;
            Ok(value.and_then(|v| opened(&lane_key(sink, lane as u64), v.value())))
        };
        self.with(read).unwrap_or_else(|error| {
            log::error!("checkpoint store: state of sink {sink} unreadable: {error}");
            None
        })
    }

    /// The part of the store that belongs to one source.
    pub fn of_source(self: &Arc<Self>, source: &str) -> Arc<dyn OriginStore> {
        Arc::new(SourceStore { store: self.clone(), source: source.into() })
    }
}

fn write(database: &Database, due: &Pending) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut origins = transaction.open_table(ORIGINS)?;
        for ((source, origin), descriptor) in &due.origins {
            let value = sealed(&origin_key(source, *origin), descriptor);
            origins.insert((&**source, *origin), &value[..])?;
        }
        let mut table = transaction.open_table(CHECKPOINTS)?;
        for ((source, origin, sink), offset) in &due.checkpoints {
            // Forgotten while it was on its way: nobody would remove this row again.
            if origins.get((&**source, *origin))?.is_none() {
                continue;
            }
            let value = sealed(&checkpoint_key(source, *origin, sink), &offset.to_le_bytes());
            table.insert((&**source, *origin, &**sink), &value[..])?;
        }
        let mut table = transaction.open_table(LANES)?;
        for ((sink, lane), state) in &due.lanes {
            table.insert((&**sink, *lane), &sealed(&lane_key(sink, *lane), state)[..])?;
        }
    }
    Ok(transaction.commit()?)
}

fn take_lock(data_dir: &Path) -> Result<File, StoreError> {
    let failed = |error| StoreError::Io(data_dir.to_path_buf(), error);
    let path = data_dir.join("lock");
    let file =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let owner = std::fs::read_to_string(&path).unwrap_or_default();
            return Err(StoreError::InUse(data_dir.to_path_buf(), owner.trim().to_owned()));
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
    }
    std::fs::write(&path, format!("{}\n", std::process::id())).map_err(failed)?;
    Ok(file)
}

fn check_format(data_dir: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::Io(data_dir.to_path_buf(), error);
    let path = data_dir.join("format");
    let found = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        found => found.map_err(failed)?,
    };
    match found.trim() {
        FORMAT => Ok(()),
        // An empty file is one whose writing a crash cut off.
        "" => write_synced(&path, &format!("{FORMAT}\n")).map_err(failed),
        other => Err(StoreError::Format(data_dir.to_path_buf(), other.to_owned())),
    }
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Why the database cannot be opened.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    /// What is in the file makes no sense.
    #[error("{0}")]
    Damaged(String),
    /// The system does not let us: the file may be as good as ever.
    #[error("{0}")]
    Refused(io::Error),
}

/// Opens the database, verifies every page of it, and makes the tables.
fn open_checked(create: &Create) -> Result<Database, Unusable> {
    guarded(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(STORE_CACHE_BYTES).set_check_integrity_on_open(true);
        let database = create(&builder)?;
        let transaction = database.begin_write()?;
        transaction.open_table(SOURCES)?;
        transaction.open_table(ORIGINS)?;
        transaction.open_table(CHECKPOINTS)?;
        transaction.open_table(LANES)?;
        transaction.commit()?;
        Ok(database)
    })
}

/// Calls the library, which a damaged file can make panic.
fn guarded<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, Unusable> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        // An error of the system has its number; what the library finds in the file has none.
        Ok(Err(redb::Error::Io(error))) if error.raw_os_error().is_some() => Err(Unusable::Refused(error)),
        Ok(Err(error)) => Err(Unusable::Damaged(error.to_string())),
        Err(_) => Err(Unusable::Damaged("the file is damaged".to_owned())),
    }
}

fn set_aside(path: &Path, reason: &str) -> io::Result<()> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut names = (seconds..).map(|number| path.with_extension(format!("corrupt-{number}")));
    let aside = names.find(|name| !name.exists()).unwrap_or_default();
    log::error!(
        "checkpoint store {} cannot be read ({reason}); it is kept as {} and a new one is begun: data will be repeated",
        path.display(),
        aside.display()
    );
    std::fs::rename(path, aside)
}

fn checkpoint_key(source: &str, origin: u64, sink: &str) -> Vec<u8> {
    [source.as_bytes(), &[0], &origin.to_le_bytes(), sink.as_bytes()].concat()
}

fn lane_key(sink: &str, lane: u64) -> Vec<u8> {
    [sink.as_bytes(), &[0], &lane.to_le_bytes()].concat()
}

fn origin_key(source: &str, origin: u64) -> Vec<u8> {
    [source.as_bytes(), &[0], &origin.to_le_bytes()].concat()
}

/// The value followed by the hash of key and value: a value at the wrong key fails too.
fn sealed(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = value.to_vec();
    sealed.extend_from_slice(&hash(key, value).to_le_bytes());
    sealed
}

fn opened(key: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (value, seal) = sealed.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*seal) == hash(key, value) {
        return Some(value.to_vec());
    }
    log::error!("checkpoint store: a value fails its checksum and is left out: some data will be repeated");
    None
}

fn hash(key: &[u8], value: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(value, xxhash_rust::xxh3::xxh3_64(key))
}

struct SourceStore {
    store: Arc<Store>,
    source: Arc<str>,
}

impl SourceStore {
    fn read(&self, database: &Database) -> Result<(Vec<OriginRecord>, bool), redb::Error> {
        let source = &*self.source;
        let transaction = database.begin_read()?;
        let known = transaction.open_table(SOURCES)?.get(source)?.is_some();
        let checkpoints = transaction.open_table(CHECKPOINTS)?;
        let mut records = Vec::new();
        for row in transaction.open_table(ORIGINS)?.range((source, 0)..=(source, u64::MAX))? {
            let (key, value) = row?;
            let id = key.value().1;
            let Some(descriptor) = opened(&origin_key(source, id), value.value()) else { continue };
            let mut record = OriginRecord { id, descriptor, checkpoints: Vec::new() };
            for row in checkpoints.range((source, id, "")..)? {
                let (key, value) = row?;
                let (of, origin, sink) = key.value();
                if (of, origin) != (source, id) {
                    break;
                }
                let offset = opened(&checkpoint_key(source, id, sink), value.value());
                if let Some(offset) = offset.and_then(|v| v.try_into().ok()) {
                    record.checkpoints.push((sink.to_owned(), u64::from_le_bytes(offset)));
                }
            }
            records.push(record);
        }
        Ok((records, known))
    }

    fn write(&self, database: &Database, origins: &[(u64, Vec<u8>)]) -> Result<(), redb::Error> {
        let source = &*self.source;
        let transaction = database.begin_write()?;
        transaction.open_table(SOURCES)?.insert(source, &[][..])?;
        {
            let mut table = transaction.open_table(ORIGINS)?;
            for (id, descriptor) in origins {
                table.insert((source, *id), &sealed(&origin_key(source, *id), descriptor)[..])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn remove(&self, database: &Database, origins: &[u64]) -> Result<(), redb::Error> {
        let source = &*self.source;
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(ORIGINS)?;
            let mut checkpoints = transaction.open_table(CHECKPOINTS)?;
            for id in origins {
                table.remove((source, *id))?;
                let of_origin = |(of, origin, _): (&str, u64, &str), _: &[u8]| (of, origin) == (source, *id);
                checkpoints.retain_in((source, *id, "")..(source, id.saturating_add(1), ""), |k, v| {
                    !of_origin(k, v)
                })?;
            }
        }
        Ok(transaction.commit()?)
    }
}

impl OriginStore for SourceStore {
    fn origins(&self) -> (Vec<OriginRecord>, bool) {
        self.store.with(|database| self.read(database)).unwrap_or_else(|error| {
            log::error!(
                "checkpoint store: origins of {} unreadable: {error}; they are read anew",
                self.source
            );
            (Vec::new(), false)
        })
    }

    fn keep(&self, origins: &[(u64, Vec<u8>)]) -> io::Result<()> {
        self.store.with(|database| {
            self.write(database, origins)?;
            let mut pending = self.store.pending();
            // An older note of the same must not be written later.
            origins.iter().for_each(|(id, _)| _ = pending.origins.remove(&(self.source.clone(), *id)));
            Ok(())
        })
    }

    fn note(&self, origin: u64, descriptor: Vec<u8>) {
        self.store.pending().origins.insert((self.source.clone(), origin), descriptor);
    }

    fn is_committed(&self, origin: u64) -> bool {
        let pending = self.store.pending();
        let first = (self.source.clone(), origin, Arc::from(""));
        let mut later = pending.checkpoints.range(first..);
        !later.next().is_some_and(|((source, of, _), _)| *source == self.source && *of == origin)
    }

    fn forget(&self, origins: &[u64]) -> io::Result<()> {
        let gone = |(source, origin, _): &(Arc<str>, u64, Arc<str>)| {
            **source == *self.source && origins.contains(origin)
        };
        let mut pending = self.store.pending();
        pending.checkpoints.retain(|key, _| !gone(key));
        pending.origins.retain(|(source, origin), _| *source != self.source || !origins.contains(origin));
        drop(pending);
        self.store.with(|database| self.remove(database, origins))
    }
}

#[cfg(test)]
mod tests;
