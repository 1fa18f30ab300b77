//! A disk that loses power: what was written since the last sync may be there, or not, or in part.

use crate::{Create, DATABASE, Store, StoreError};
use millstream_testkit::Random;
use redb::StorageBackend;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk writes whole, in bytes.
const SECTOR_BYTES: usize = 512;

/// What was done to the disk, in order.
#[derive(Clone, Debug)]
pub enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
    Sync,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    changes: Vec<Change>,
    /// The number of the change that fails, from 0.
    fails_at: Option<usize>,
    reads: usize,
    /// The number of the read that fails, from 0.
    read_fails_at: Option<usize>,
}

/// A disk with one file. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// A disk on which `bytes` are safe.
    pub fn of(bytes: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(State { bytes, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// What a program reads now.
    pub fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// How many changes were made.
    pub fn len(&self) -> usize {
        self.state().changes.len()
    }

    /// Every change that was made.
    pub fn changes(&self) -> Vec<Change> {
        self.state().changes.clone()
    }

    /// Lets the change with this number fail, once.
    pub fn fail_at(&self, number: usize) {
        self.state().fails_at = Some(number);
    }

    /// How often it was read.
    pub fn reads(&self) -> usize {
        self.state().reads
    }

    /// Lets the read with this number fail.
    pub fn fail_read_at(&self, number: usize) {
        self.state().read_fails_at = Some(number);
    }

    /// Opens a store whose database is on this disk; its other files are in `data_dir`. Where the
    /// database is set aside, an empty file in its place is, and the disk is erased.
    pub fn open(&self, data_dir: &Path) -> Result<Store, StoreError> {
        let path = data_dir.join(DATABASE);
        File::create(&path).unwrap();
        let disk = self.clone();
        let create: Create = Box::new(move |builder| {
            if !path.exists() {
                disk.state().bytes.clear();
                File::create(&path).unwrap();
            }
            builder.create_with_backend(disk.clone())
        });
        Store::open_at(data_dir, create)
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.state();
        if state.fails_at == Some(state.changes.len()) {
            state.fails_at = None;
            // "No space left on device", with its number, as the system would say it.
            return Err(io::Error::from_raw_os_error(28));
        }
        apply(&mut state.bytes, &change);
        state.changes.push(change);
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        state.reads += 1;
        if state.read_fails_at == Some(state.reads - 1) {
            // "Input/output error"
            return Err(io::Error::from_raw_os_error(5));
        }
        let rest = state.bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(rest.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Length(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(Change::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write(offset as usize, data.to_vec()))
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(len) => bytes.resize(*len, 0),
        Change::Write(at, data) => {
            let end = at + data.len();
            bytes.resize(end.max(bytes.len()), 0);
            bytes[*at..end].copy_from_slice(data);
        }
        Change::Sync => {}
    }
}

/// What is on a disk while changes come in.
pub struct Replay {
    durable: Vec<u8>,
    since: Vec<Change>,
}

impl Replay {
    /// A disk on which `bytes` are safe.
    pub fn new(bytes: Vec<u8>) -> Replay {
        Replay { durable: bytes, since: Vec::new() }
    }

    /// The next change is made.
    pub fn push(&mut self, change: &Change) {
        match change {
            Change::Sync => self.since.drain(..).for_each(|change| apply(&mut self.durable, &change)),
            change => self.since.push(change.clone()),
        }
    }

    /// One of the things that may be left if the power goes now: any of the changes since the last
    /// sync, in order, each whole, cut off after some sectors, or not at all.
    pub fn crash(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        // Mostly kept, mostly lost, mostly torn: a crash at a time of its own kind.
        let (kept_of_4, torn_one_in) = (random.below(5), 1 + random.below(8));
        for change in &self.since {
            match change {
                _ if random.below(4) >= kept_of_4 => {}
                Change::Write(at, data) if random.one_in(torn_one_in) => {
                    let sectors = random.below((data.len() / SECTOR_BYTES) as u64 + 1) as usize;
                    apply(&mut bytes, &Change::Write(*at, data[..sectors * SECTOR_BYTES].to_vec()));
                }
                change => apply(&mut bytes, change),
            }
        }
        bytes
    }
}
