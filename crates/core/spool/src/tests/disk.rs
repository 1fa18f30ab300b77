//! A disk that loses power. Writes since the last sync, and name changes, may be kept, lost, or
//! partly kept.

use super::*;
use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

/// Bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 64;

/// Error numbers: no space left on device, input/output error.
const NO_SPACE: i32 = 28;
const IO_ERROR: i32 = 5;

/// Identity of a file, independent of its name.
type Inode = usize;

/// The contents and names of all files.
#[derive(Clone, Debug, Default)]
pub struct Files {
    pub names: BTreeMap<String, Inode>,
    pub contents: Vec<Vec<u8>>,
}

impl Files {
    /// Returns the content of a file.
    pub fn of(&self, name: &str) -> &Vec<u8> {
        &self.contents[self.names[name]]
    }

    /// Returns the content of a file for modification.
    pub fn of_mut(&mut self, name: &str) -> &mut Vec<u8> {
        &mut self.contents[self.names[name]]
    }

    /// Returns the names of all segments.
    pub fn segments(&self) -> Vec<String> {
        self.names.keys().filter(|name| name.ends_with(".spool")).cloned().collect()
    }

    fn content(&mut self, inode: Inode) -> &mut Vec<u8> {
        if self.contents.len() <= inode {
            self.contents.resize(inode + 1, Vec::new());
        }
        &mut self.contents[inode]
    }

    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(inode, at, data) => {
                let content = self.content(*inode);
                let end = at + data.len();
                content.resize(end.max(content.len()), 0);
                content[*at..end].copy_from_slice(data);
            }
            Change::Length(inode, len) => self.content(*inode).resize(*len, 0),
            Change::Create(name, inode) => {
                self.content(*inode);
                self.names.insert(name.clone(), *inode);
            }
            Change::Remove(name) => _ = self.names.remove(name),
            Change::Rename(from, to) => {
                if let Some(inode) = self.names.remove(from) {
                    self.names.insert(to.clone(), inode);
                }
            }
            Change::Sync(_) | Change::FailedSync(_) | Change::SyncFolder => {}
        }
    }
}

/// A change to the disk.
#[derive(Clone, Debug)]
pub enum Change {
    Write(Inode, usize, Vec<u8>),
    Length(Inode, usize),
    Sync(Inode),
    /// A failed sync of this file. Any write since the last sync may then be lost, even if later
    /// syncs succeed.
    FailedSync(Inode),
    Create(String, Inode),
    Remove(String),
    Rename(String, String),
    SyncFolder,
}

impl Change {
    fn inode(&self) -> Option<Inode> {
        match self {
            Change::Write(inode, ..) | Change::Length(inode, _) => Some(*inode),
            _ => None,
        }
    }

    fn needs_room(&self) -> bool {
        matches!(self, Change::Write(..) | Change::Create(..))
    }

    fn is_of_names(&self) -> bool {
        matches!(self, Change::Create(..) | Change::Remove(_) | Change::Rename(..))
    }
}

#[derive(Debug, Default)]
struct State {
    files: Files,
    changes: Vec<Change>,
    /// Number of attempted changes, including failed ones.
    tried: usize,
    /// Number of the change that fails, if a single change fails.
    fails_at: Option<usize>,
    /// Number of the first failing change; all later changes also fail, or only those that need
    /// space.
    full_at: Option<(usize, bool)>,
    reads: usize,
    /// Number of the read that fails.
    read_fails_at: Option<usize>,
}

/// A disk. Clones refer to the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// Returns a disk on which `files` are durable.
    pub fn of(files: Files) -> Disk {
        Disk(Arc::new(Mutex::new(State { files, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Opens a spool. The record says only which entries are settled: the entries before `settled`.
    pub fn open(&self, settled: u64) -> Result<Spool, SpoolError> {
        self.open_recorded(EntryNumber(settled).into())
    }

    /// Opens a spool with this record.
    pub fn open_recorded(&self, record: SpoolRecord) -> Result<Spool, SpoolError> {
        Spool::open(Box::new(self.clone()), SMALL, record)
    }

    /// Returns the files as a program would read them now.
    pub fn files(&self) -> Files {
        self.state().files.clone()
    }

    /// Returns all changes so far.
    pub fn changes(&self) -> Vec<Change> {
        self.state().changes.clone()
    }

    /// Returns the number of changes so far.
    pub fn len(&self) -> usize {
        self.state().changes.len()
    }

    /// Returns the number of attempted changes so far.
    pub fn tried(&self) -> usize {
        self.state().tried
    }

    /// Returns the number of reads so far.
    pub fn reads(&self) -> usize {
        self.state().reads
    }

    /// Makes one change fail.
    pub fn fail_at(&self, number: usize) {
        self.state().fails_at = Some(number);
    }

    /// Makes this change and all later changes fail; with `only_growth`, only those that need
    /// space.
    pub fn fill_at(&self, number: usize, only_growth: bool) {
        self.state().full_at = Some((number, only_growth));
    }

    /// Lets all changes and reads succeed again.
    pub fn heal(&self) {
        let mut state = self.state();
        state.full_at = None;
        state.fails_at = None;
        state.read_fails_at = None;
    }

    /// Makes one read fail.
    pub fn fail_read_at(&self, number: usize) {
        self.state().read_fails_at = Some(number);
    }

    /// Applies a change, or fails. A write that fails may write its first half.
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.state();
        let number = state.tried;
        state.tried += 1;
        let is_full = state.full_at.is_some_and(|(from, only_growth)| {
            number >= from && (!only_growth || change.needs_room())
        });
        if !is_full && state.fails_at != Some(number) {
            state.files.apply(&change);
            state.changes.push(change);
            return Ok(());
        }
        let partly = match change {
            Change::Write(inode, at, mut data) if !is_full => {
                data.truncate(data.len() / 2);
                Some(Change::Write(inode, at, data))
            }
            Change::Sync(inode) => Some(Change::FailedSync(inode)),
            _ => None,
        };
        if let Some(change) = partly {
            state.files.apply(&change);
            state.changes.push(change);
        }
        Err(io::Error::from_raw_os_error(NO_SPACE))
    }

    fn read_once(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.reads += 1;
        if state.read_fails_at == Some(state.reads - 1) {
            return Err(io::Error::from_raw_os_error(IO_ERROR));
        }
        Ok(state)
    }
}

impl SpoolDisk for Disk {
    fn location(&self) -> String {
        "/disk".to_owned()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.read_once()?.files.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        let inode = {
            let state = self.state();
            if state.files.names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.files.contents.len()
        };
        self.change(Change::Create(name.to_owned(), inode))?;
        Ok(Box::new(OpenFile { disk: self.clone(), inode }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        let inode = self.read_once()?.files.names.get(name).copied();
        let inode = inode.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(OpenFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.state().files.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.change(Change::Remove(name.to_owned()))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.change(Change::SyncFolder)
    }
}

struct OpenFile {
    disk: Disk,
    inode: Inode,
}

impl SegmentFile for OpenFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.read_once()?.files.contents[self.inode].len() as u64)
    }

    fn write_at(&self, at: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let data: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        self.disk.change(Change::Write(self.inode, at as usize, data))
    }

    fn read_at(&self, at: u64, len: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let state = self.disk.read_once()?;
        let rest = state.files.contents[self.inode].get(at as usize..).unwrap_or_default();
        into.extend_from_slice(&rest[..rest.len().min(len)]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.change(Change::Length(self.inode, len as usize))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.change(Change::Sync(self.inode))
    }
}

/// The state of a disk while changes are replayed.
#[derive(Clone)]
pub struct Replay {
    durable: Files,
    since: Vec<Change>,
}

impl Replay {
    /// Returns a replay that starts with `files` durable.
    pub fn new(files: Files) -> Replay {
        Replay { durable: files, since: Vec::new() }
    }

    /// Applies the next change. A sync covers either the content of one file, or the names of all
    /// files.
    pub fn push(&mut self, change: &Change, random: &mut Rng) {
        match change {
            Change::Sync(inode) => {
                let synced = self.since.extract_if(.., |change| change.inode() == Some(*inode));
                synced.for_each(|change| self.durable.apply(&change));
            }
            Change::SyncFolder => {
                let synced = self.since.extract_if(.., |change| change.is_of_names());
                synced.for_each(|change| self.durable.apply(&change));
            }
            Change::FailedSync(inode) => {
                self.since.retain(|change| {
                    let is_write = matches!(change, Change::Write(written, ..) if written == inode);
                    !(is_write && random.bool())
                });
            }
            change => self.since.push(change.clone()),
        }
    }

    /// Returns one possible outcome of a power loss. Changes since the last sync are applied in
    /// order; each is complete, missing, or, if it is a write, partial.
    pub fn crash(&self, random: &mut Rng) -> Files {
        let mut files = self.durable.clone();
        // In some outcomes, most changes are kept; in others, most are lost or torn.
        let (kept_of_4, torn_one_in) = (random.u64(..5), 1 + random.u64(..8));
        for change in &self.since {
            match change {
                _ if random.u64(..4) >= kept_of_4 => {}
                Change::Write(inode, at, data) if random.u64(..torn_one_in) == 0 => {
                    let torn = torn(&files, (*inode, *at), data, random);
                    files.apply(&Change::Write(*inode, *at, torn));
                }
                change => files.apply(change),
            }
        }
        files
    }
}

/// Returns a write with some sectors missing. These sectors have their former content, zeros, or
/// the bytes of another file at the same position.
fn torn(files: &Files, (inode, at): (Inode, usize), data: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut torn = data.to_vec();
    if random.bool() {
        torn.truncate(random.usize(..=data.len() / SECTOR_BYTES) * SECTOR_BYTES);
        return torn;
    }
    let others = files.contents.len().max(1);
    for (index, sector) in torn.chunks_mut(SECTOR_BYTES).enumerate() {
        if random.bool() {
            let from = at + index * SECTOR_BYTES;
            let stale = if random.bool() { inode } else { random.usize(..others) };
            let stale = files.contents.get(stale).and_then(|content| content.get(from..));
            let stale = stale.unwrap_or_default();
            sector.fill(0);
            let len = stale.len().min(sector.len());
            sector[..len].copy_from_slice(&stale[..len]);
        }
    }
    torn
}
