//! Random calls while writes fail. The results are compared with a simple model.

use super::disk::Disk;
use super::*;
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::BTreeSet;

/// Number of workloads without failures.
const WORKLOADS: TestSize = TestSize { gate: 150, long: 10_000 };

/// Number of workloads in which writes fail.
const FAILING: TestSize = TestSize { gate: 150, long: 10_000 };

/// The state that a spool has promised to preserve.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    /// Entries that were synced, and neither released nor dropped.
    pub synced: BTreeSet<u64>,
    /// Entries that were ever appended.
    pub appended: BTreeSet<u64>,
    /// Entries before this number are settled.
    pub settled: u64,
}

impl Promise {
    /// Returns a record that a checkpoint store could contain at this time.
    pub fn record(&self) -> SpoolRecord {
        let owed = self.synced.range(self.settled..);
        let end = owed.clone().last().map_or(self.settled, |last| last + 1);
        SpoolRecord {
            settled: EntryNumber(self.settled),
            end: EntryNumber(end),
            entries: owed.clone().count() as u64,
            events: owed.map(|number| entry(*number).meta.events).sum(),
        }
    }

    /// Opens the files left by a crash, and checks that no entry is missing.
    pub fn open(&self, disk: &Disk) -> Result<Spool, SpoolError> {
        let spool = disk.open_recorded(self.record())?;
        assert_eq!(spool.missing(), Missing::default(), "{self:?}");
        Ok(spool)
    }

    /// Checks the entries that a start finds after a crash.
    pub fn check(&self, found: &[Entry]) {
        let numbers: Vec<u64> = found.iter().map(|entry| entry.meta.number.0).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?} do not ascend");
        for entry_found in found {
            let number = entry_found.meta.number.0;
            assert_eq!(*entry_found, entry(number));
            assert!(self.appended.contains(&number), "{number} was not appended");
            assert!(number >= self.settled, "{number} was settled");
        }
        let mut owed = self.synced.iter().filter(|number| **number >= self.settled);
        assert!(
            owed.all(|number| numbers.contains(number)),
            "found {numbers:?}, promised {:?} from {}",
            self.synced,
            self.settled
        );
    }
}

/// A spool with its model.
pub struct Driver {
    pub disk: Disk,
    spool: Option<Spool>,
    /// Entries that were appended since the last sync, or must be reappended.
    unsynced: Vec<u64>,
    /// Number of these entries that the spool contains.
    appended: usize,
    unread_from: u64,
    next_number: u64,
    promise: Promise,
    /// Promises, each with the number of changes to the disk after which it applies.
    pub promises: Vec<(usize, Promise)>,
    /// Whether writes fail, in which case the end of a segment may look damaged.
    pub fails: bool,
}

impl Driver {
    /// Creates a spool on an empty disk.
    pub fn new() -> Driver {
        let disk = Disk::default();
        Driver {
            spool: Some(disk.open(0).unwrap()),
            disk,
            unsynced: Vec::new(),
            appended: 0,
            unread_from: 0,
            next_number: 0,
            promise: Promise::default(),
            promises: vec![(0, Promise::default())],
            fails: false,
        }
    }

    /// Returns the current promise.
    pub fn promise(&self) -> &Promise {
        &self.promise
    }

    fn spool(&mut self) -> &mut Spool {
        self.spool.as_mut().unwrap()
    }

    /// Makes a random call, and checks its result.
    pub fn call(&mut self, random: &mut Rng) {
        match random.u32(..22) {
            0..5 => self.append(random),
            5..9 => self.sync(),
            9..13 => (0..random.u32(1..8)).for_each(|_| self.next()),
            13..15 => self.read(random),
            15..18 => self.release(random),
            18 => self.drop_oldest(),
            19..21 => self.skip(random),
            _ => self.reopen(),
        }
        self.check_stats();
        self.promises.push((self.disk.len(), self.promise.clone()));
    }

    /// Records the promise that applies while a call runs.
    fn during(&mut self, promise: Promise) {
        self.promises.push((self.disk.len(), promise));
    }

    fn append(&mut self, random: &mut Rng) {
        for _ in 0..random.u32(1..6) {
            self.next_number += random.u64(1..4) / 2;
            self.unsynced.push(self.next_number);
            self.promise.appended.insert(self.next_number);
            self.next_number += 1;
        }
        self.during(self.promise.clone());
        _ = self.append_unsynced();
    }

    fn append_unsynced(&mut self) -> io::Result<()> {
        while let Some(number) = self.unsynced.get(self.appended).copied() {
            let done = self.spool().append(&entry(number).as_new());
            self.failed_if_error(&done);
            done?;
            self.appended += 1;
        }
        Ok(())
    }

    /// After a failure, all entries since the last sync are reappended, except an entry that was
    /// delivered from memory.
    fn failed_if_error(&mut self, done: &io::Result<()>) {
        if done.is_err() {
            self.appended = 0;
            let settled = self.promise.settled;
            self.unsynced.retain(|number| *number >= settled);
            if self.unsynced.first().is_some_and(|number| number % 3 == 0) {
                self.unsynced.remove(0);
            }
        }
    }

    pub fn sync(&mut self) {
        if self.append_unsynced().is_err() {
            return;
        }
        let done = self.spool().sync();
        self.failed_if_error(&done);
        if done.is_ok() {
            let settled = self.promise.settled;
            let owed = self.unsynced.drain(..).filter(|number| *number >= settled);
            self.promise.synced.extend(owed);
            self.appended = 0;
        }
    }

    /// Returns the numbers of the unread entries.
    fn unread(&self) -> impl Iterator<Item = u64> {
        let from = self.unread_from.max(self.promise.settled);
        self.promise.synced.range(from..).copied()
    }

    fn next(&mut self) {
        let expected = self.unread().next();
        assert_eq!(self.spool().next().unwrap(), expected.map(entry));
        self.unread_from = expected.map_or(self.unread_from, |number| number + 1);
    }

    /// Skips entries as if they were delivered from memory.
    fn skip(&mut self, random: &mut Rng) {
        let unread: Vec<u64> = self.unread().take(random.usize(1..4)).collect();
        let Some(number) = unread.last().copied() else { return };
        self.spool().skip(EntryNumber(number));
        self.unread_from = number + 1;
    }

    fn read(&mut self, random: &mut Rng) {
        let number = random.u64(..self.next_number + 1);
        if number >= self.promise.settled && !self.unsynced.contains(&number) {
            let expected = self.promise.synced.contains(&number).then(|| entry(number));
            assert_eq!(self.spool().read(EntryNumber(number)).unwrap(), expected, "{number}");
        }
    }

    fn release(&mut self, random: &mut Rng) {
        // The limit is usually just after the entries that were read, and sometimes later, because
        // unsynced entries may also have been delivered.
        let limit = if random.u32(..5) == 0 { self.next_number } else { self.unread_from };
        let settled = random.u64(self.promise.settled..=limit.max(self.promise.settled));
        self.promise.settled = settled;
        self.promise.synced.retain(|number| *number >= settled);
        if self.appended == 0 {
            self.unsynced.retain(|number| *number >= settled);
        }
        self.during(self.promise.clone());
        if self.spool().release(EntryNumber(settled)).is_err() {
            _ = self.spool().release(EntryNumber(settled));
        }
        if self.promise.synced.is_empty() && self.unsynced.is_empty() && !self.fails {
            assert_eq!(self.disk.files().names.len(), 0);
        }
    }

    fn drop_oldest(&mut self) {
        let before = self.disk.len();
        let Some(oldest) = self.spool().oldest() else { return };
        let goes = |number: &u64| (oldest.first.0..=oldest.last.0).contains(number);
        let gone: Vec<u64> = self.promise.synced.iter().copied().filter(goes).collect();
        assert_eq!(gone.first(), Some(&oldest.first.0));
        assert!(gone.iter().all(|number| *number >= self.unread_from), "{gone:?} were read");
        assert_eq!(gone.len() as u64, oldest.entries);
        assert_eq!(gone.iter().map(|n| entry(*n).meta.events).sum::<u64>(), oldest.events);
        self.spool().drop_oldest(&oldest);
        self.promise.synced.retain(|number| !goes(number));
        self.promises.push((before, self.promise.clone()));
        let kept = self.promise.synced.clone();
        let spool = self.spool();
        let reads = |number: u64| spool.read(EntryNumber(number)).unwrap() == Some(entry(number));
        assert!(kept.into_iter().all(reads), "the others can be read, also again");
    }

    /// Reopens the spool. Entries that were not synced may still exist.
    fn reopen(&mut self) {
        if let Some(mut spool) = self.spool.take()
            && self.next_number.is_multiple_of(2)
            && self.unsynced.is_empty()
        {
            _ = spool.finish();
        }
        let promise = self.promise.clone();
        let reopen = |disk: &Disk| {
            promise.open(disk).unwrap_or_else(|_| {
                disk.heal();
                promise.open(disk).unwrap()
            })
        };
        let found = rest(&mut reopen(&self.disk));
        self.promise.check(&found);
        let numbers = found.iter().map(|entry| entry.meta.number.0);
        // The entries that were found are durable.
        self.promise.synced = numbers.collect();
        self.unsynced.clear();
        self.appended = 0;
        self.unread_from = 0;
        self.spool = Some(reopen(&self.disk));
        self.next_number = self.next_number.max(self.spool().stats().next_number.0);
    }

    fn check_stats(&mut self) {
        let stats = self.spool().stats();
        let unread: Vec<Entry> = self.unread().map(entry).collect();
        assert_eq!(stats.unread_entries, unread.len() as u64);
        assert_eq!(stats.unread_events, unread.iter().map(|entry| entry.meta.events).sum());
        assert_eq!(stats.has_unread, !unread.is_empty());
        let oldest = unread.first().map(|entry| entry.meta.written_ms);
        assert_eq!(stats.oldest_unread_ms, oldest);
        let unreleased = self.promise.synced.first().map(|n| entry(*n).meta.written_ms);
        assert_eq!(stats.oldest_unreleased_ms, unreleased);
        assert!(stats.next_number.0 <= self.next_number.max(self.promise.settled));
        let last = self.promise.synced.last().map_or(0, |number| number + 1);
        assert!(stats.next_number.0 >= last.max(self.promise.settled));
        let files = self.disk.files();
        let on_disk: usize = files.segments().iter().map(|name| files.of(name).len()).sum();
        // Queued bytes are included, although they are not in the file yet.
        assert!(self.fails || self.appended > 0 || stats.bytes == on_disk as u64);
        let damage = self.spool().damage();
        assert!(self.fails || damage.is_empty(), "{damage:?}");
    }

    /// Reads everything from the beginning, after a restart.
    pub fn finish(mut self) {
        self.sync();
        self.reopen();
        let expected: Vec<Entry> = self.promise.synced.iter().copied().map(entry).collect();
        assert_eq!(rest(self.spool()), expected);
    }
}

#[test]
fn a_spool_agrees_with_a_plain_model() {
    for seed in Seed::of_test_or(0).cases(WORKLOADS) {
        let mut random = Rng::with_seed(seed);
        let mut driver = Driver::new();
        (0..200).for_each(|_| driver.call(&mut random));
        driver.finish();
    }
}

#[test]
fn a_spool_whose_writes_fail_agrees_with_a_plain_model() {
    for seed in Seed::of_test_or(0).cases(FAILING) {
        let mut random = Rng::with_seed(seed);
        let mut driver = Driver::new();
        driver.fails = true;
        for _ in 0..200 {
            if random.u32(..8) == 0 {
                driver.disk.fail_at(driver.disk.tried() + random.usize(..6));
            }
            driver.call(&mut random);
        }
        driver.disk.heal();
        driver.finish();
    }
}
