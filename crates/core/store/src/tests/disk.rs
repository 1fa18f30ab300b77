//! A disk that loses power. Writes since the last sync may be kept, lost, or partly kept.

use crate::disk::{FORMAT_FILE, IDENTITIES};
use crate::{Store, StoreError};
use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use redb::StorageBackend;
use std::io::{self, Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// The files of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Database,
    Identities,
    Format,
}

impl Name {
    fn of(name: &str) -> Name {
        match name {
            IDENTITIES => Name::Identities,
            FORMAT_FILE => Name::Format,
            other => panic!("the store has no file {other}"),
        }
    }
}

/// The contents of the files; a missing file is empty.
#[derive(Clone, Debug, Default)]
pub struct Files([Vec<u8>; 3]);

impl Files {
    /// Returns the bytes of a file.
    pub fn of(&mut self, name: Name) -> &mut Vec<u8> {
        &mut self.0[name as usize]
    }

    fn apply(&mut self, name: Name, change: &Change) {
        let bytes = self.of(name);
        match change {
            Change::Length(len) => bytes.resize(*len, 0),
            Change::Write(at, data) => {
                let end = at + data.len();
                bytes.resize(end.max(bytes.len()), 0);
                bytes[*at..end].copy_from_slice(data);
            }
            Change::Replace(data) => bytes.clone_from(data),
            Change::Sync => {}
        }
    }
}

/// A change to a file.
#[derive(Clone, Debug)]
pub enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
    /// The file was replaced atomically by a file with this content.
    Replace(Vec<u8>),
    Sync,
}

#[derive(Debug, Default)]
struct State {
    files: Files,
    /// All changes, in order.
    changes: Vec<(Name, Change)>,
    /// Number of the change that fails, from 0, if a single change fails.
    fails_at: Option<usize>,
    /// Number of the first failing change, from 0; all later changes also fail.
    full_at: Option<usize>,
    reads: usize,
    /// Number of the read that fails, from 0.
    read_fails_at: Option<usize>,
    reads_fail: bool,
    copy_fails: bool,
    set_aside: usize,
}

/// A disk with the files of a store. Clones refer to the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// Returns a disk that contains `files`.
    pub fn of(files: Files) -> Disk {
        Disk(Arc::new(Mutex::new(State { files, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Returns the files as a program reads them now.
    pub fn files(&self) -> Files {
        self.state().files.clone()
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.state().changes.len()
    }

    /// Returns all changes.
    pub fn changes(&self) -> Vec<(Name, Change)> {
        self.state().changes.clone()
    }

    /// Makes one change fail.
    pub fn fail_at(&self, number: usize) {
        self.state().fails_at = Some(number);
    }

    /// Makes this change and all later changes fail.
    pub fn fill_at(&self, number: usize) {
        self.state().full_at = Some(number);
    }

    /// Returns the number of reads.
    pub fn reads(&self) -> usize {
        self.state().reads
    }

    /// Makes one read fail.
    pub fn fail_read_at(&self, number: usize) {
        self.state().read_fails_at = Some(number);
    }

    /// Sets whether every read fails.
    pub fn fail_reads(&self, fail: bool) {
        self.state().reads_fail = fail;
    }

    /// Sets whether every change to the second copy of the identities fails.
    pub fn fail_copy(&self, fail: bool) {
        self.state().copy_fails = fail;
    }

    /// Returns how many databases were set aside.
    pub fn set_aside(&self) -> usize {
        self.state().set_aside
    }

    /// Opens a store on this disk; its lock is in `data_dir`.
    pub fn open(&self, data_dir: &Path) -> Result<Store, StoreError> {
        Store::open_at(data_dir, Box::new(self.clone()))
    }

    fn change(&self, name: Name, change: Change) -> io::Result<()> {
        let mut state = self.state();
        let is_full = state.full_at.is_some_and(|number| state.changes.len() >= number);
        let copy_fails = state.copy_fails && name == Name::Identities;
        if is_full || copy_fails || state.fails_at == Some(state.changes.len()) {
            state.fails_at = None;
            // "No space left on device", with its error number.
            return Err(io::Error::from_raw_os_error(28));
        }
        state.files.apply(name, &change);
        state.changes.push((name, change));
        Ok(())
    }

    fn read_once(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.reads += 1;
        if state.reads_fail || state.read_fails_at == Some(state.reads - 1) {
            // "Input/output error"
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(state)
    }
}

impl crate::disk::Disk for Disk {
    fn database(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(self.clone()))
    }

    fn set_aside(&self, _reason: &str) -> io::Result<()> {
        self.change(Name::Database, Change::Replace(Vec::new()))?;
        self.state().set_aside += 1;
        self.change(Name::Database, Change::Sync)
    }

    fn read(&self, name: &'static str) -> io::Result<Vec<u8>> {
        Ok(self.read_once()?.files.of(Name::of(name)).clone())
    }

    fn reader(&self, name: &'static str) -> io::Result<Box<dyn Read>> {
        let bytes = crate::disk::Disk::read(self, name)?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn replace_with(
        &self,
        name: &'static str,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        self.change(Name::of(name), Change::Replace(bytes))?;
        self.change(Name::of(name), Change::Sync)
    }

    fn write(&self, name: &'static str, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(Name::of(name), Change::Write(at as usize, bytes.to_vec()))
    }

    fn sync(&self, name: &'static str) -> io::Result<()> {
        self.change(Name::of(name), Change::Sync)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().files.of(Name::Database).len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.read_once()?;
        let bytes = state.files.of(Name::Database);
        let rest = bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(rest.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Name::Database, Change::Length(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(Name::Database, Change::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Name::Database, Change::Write(offset as usize, data.to_vec()))
    }
}

/// The state of a disk while changes are replayed.
pub struct Replay {
    durable: Files,
    since: Vec<(Name, Change)>,
}

impl Replay {
    /// Returns a replay on a disk that contains `files`, all of them durable.
    pub fn new(files: Files) -> Replay {
        Replay { durable: files, since: Vec::new() }
    }

    /// Applies the next change. A sync covers only the synced file.
    pub fn push(&mut self, (name, change): &(Name, Change)) {
        match change {
            Change::Sync => {
                let synced = self.since.extract_if(.., |(file, _)| file == name);
                synced.for_each(|(name, change)| self.durable.apply(name, &change));
            }
            change => self.since.push((*name, change.clone())),
        }
    }

    /// Returns one possible outcome of a power loss. Changes since the last sync are applied in
    /// order, and each of them is complete, truncated after some sectors, or missing.
    pub fn crash(&self, random: &mut Rng) -> Files {
        let mut files = self.durable.clone();
        // In some outcomes, most changes are kept; in others, most are lost or torn.
        let (kept_of_4, torn_one_in) = (random.u64(..5), 1 + random.u64(..8));
        for (name, change) in &self.since {
            match change {
                _ if random.u64(..4) >= kept_of_4 => {}
                Change::Write(at, data) if random.u64(..torn_one_in) == 0 => {
                    let sectors = random.u64(..(data.len() / SECTOR_BYTES) as u64 + 1) as usize;
                    files
                        .apply(*name, &Change::Write(*at, data[..sectors * SECTOR_BYTES].to_vec()));
                }
                change => files.apply(*name, change),
            }
        }
        files
    }
}
