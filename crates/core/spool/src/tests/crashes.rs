//! Power loss at every write, sync and name change, and a disk that is full from that change
//! onward.

use super::disk::{Disk, Files, Replay};
use super::model::{Driver, Promise};
use super::*;
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};

const CALLS: usize = 60;

/// Number of workloads with a crash at every change.
const CRASHED: TestSize = TestSize { gate: 30, long: 60 };

/// Number of outcomes per crash.
const OUTCOMES: TestSize = TestSize { gate: 5, long: 20 };

/// Number of workloads with a kill at every change, then a start and a power loss.
const KILLED: TestSize = TestSize { gate: 20, long: 60 };

/// Number of outcomes to test for each power loss after a kill.
const KILLED_OUTCOMES: TestSize = TestSize { gate: 3, long: 20 };

/// Number of workloads to run with a disk that becomes full at each of the changes.
const FULL: TestSize = TestSize { gate: 4, long: 20 };

/// Number of disks on which each startup operation fails.
const FAILING_STARTS: TestSize = TestSize { gate: 20, long: 500 };

/// Number of disks that are full at a start.
const FULL_STARTS: TestSize = TestSize { gate: 20, long: 500 };

/// Number of disks on which each read fails.
const FAILING_READS: TestSize = TestSize { gate: 20, long: 500 };

/// Opens the files left by a crash, and opens them again after a crash of that start.
fn restart(left: Files, promise: &Promise, random: &mut Rng) {
    let disk = Disk::of(left.clone());
    let mut spool = promise.open(&disk).unwrap();
    let opened = disk.len();
    let found = rest(&mut spool);
    promise.check(&found);
    let last = found.last().map_or(0, |entry| entry.meta.number.0 + 1);
    let next = spool.stats().next_number.0;
    assert!(next >= last.max(promise.settled));
    // The spool stays in use after the crash.
    let mut promise = promise.clone();
    let more = [entry(next), entry(next + 2)];
    add(&mut spool, &more);
    assert_eq!(rest(&mut spool), more);
    drop(spool);
    let changes = disk.changes();
    let until = random.usize(..=changes.len());
    let mut replay = Replay::new(left);
    changes[..until].iter().for_each(|change| replay.push(change, random));
    promise.appended.extend([next, next + 2]);
    if until >= opened {
        promise.synced = found.iter().map(|entry| entry.meta.number.0).collect();
    }
    if until == changes.len() {
        promise.synced.extend([next, next + 2]);
    }
    let mut again = promise.open(&Disk::of(replay.crash(random))).unwrap();
    promise.check(&rest(&mut again));
}

/// Runs a workload; if `fails`, writes fail occasionally.
fn run(seed: u64, fails: bool) -> Driver {
    let mut random = Rng::with_seed(seed);
    let mut driver = Driver::new();
    driver.fails = fails;
    for _ in 0..CALLS {
        if fails && random.u32(..6) == 0 {
            driver.disk.fail_at(driver.disk.tried() + random.usize(..6));
        }
        driver.call(&mut random);
    }
    driver
}

fn crash_everywhere(fails: bool) {
    for seed in Seed::of_test_or(0).cases(CRASHED) {
        let driver = run(seed, fails);
        let changes = driver.disk.changes();
        let mut random = Rng::with_seed(seed);
        let mut replay = Replay::new(Files::default());
        for at in 0..=changes.len() {
            if at > 0 {
                replay.push(&changes[at - 1], &mut random);
            }
            let promised = driver.promises.partition_point(|(from, _)| *from <= at);
            let promise = &driver.promises[promised - 1].1;
            for outcome in 0..OUTCOMES.per_case() {
                println!("seed {seed}, change {at} of {}, outcome {outcome}", changes.len());
                restart(replay.crash(&mut random), promise, &mut random);
            }
        }
    }
}

#[test]
fn synced_entries_survive_a_crash_at_any_change() {
    crash_everywhere(false);
}

#[test]
fn synced_entries_survive_a_crash_after_failed_writes() {
    crash_everywhere(true);
}

/// A killed agent leaves its writes in the kernel's cache. The entries that are read after the
/// restart are durable.
#[test]
fn what_a_start_after_a_kill_returns_survives_a_power_loss() {
    for seed in Seed::of_test_or(0).cases(KILLED) {
        let driver = run(seed, false);
        let mut random = Rng::with_seed(seed);
        let mut replay = Replay::new(Files::default());
        let mut cache = Files::default();
        for (at, change) in driver.disk.changes().iter().enumerate() {
            replay.push(change, &mut random);
            cache.apply(change);
            let promised = driver.promises.partition_point(|(from, _)| *from <= at + 1);
            let mut promise = driver.promises[promised - 1].1.clone();
            let disk = Disk::of(cache.clone());
            let found = rest(&mut promise.open(&disk).unwrap());
            promise.synced.extend(found.iter().map(|entry| entry.meta.number.0));
            let mut replay = replay.clone();
            disk.changes().iter().for_each(|change| replay.push(change, &mut random));
            for outcome in 0..KILLED_OUTCOMES.per_case() {
                println!("seed {seed}, kill after change {at}, outcome {outcome}");
                let disk = Disk::of(replay.crash(&mut random));
                promise.check(&rest(&mut promise.open(&disk).unwrap()));
            }
        }
    }
}

/// Runs a workload on a disk on which, starting with one of the changes, all writes fail, or only
/// writes that need space. After some calls, space becomes free again.
fn fill(seed: u64, full_at: usize, only_growth: bool) {
    let mut random = Rng::with_seed(seed);
    let mut driver = Driver::new();
    driver.fails = true;
    driver.disk.fill_at(full_at, only_growth);
    let mut full_for = 8;
    for _ in 0..CALLS {
        driver.call(&mut random);
        full_for -= i32::from(driver.disk.tried() > full_at);
        if full_for == 0 {
            driver.disk.heal();
        }
    }
    driver.disk.heal();
    driver.finish();
}

#[test]
fn a_full_disk_loses_nothing() {
    for seed in Seed::of_test_or(0).cases(FULL) {
        let changes = run(seed, false).disk.len();
        for full_at in 0..changes {
            println!("seed {seed}, full at {full_at} of {changes}");
            fill(seed, full_at, true);
            fill(seed, full_at, false);
        }
    }
}

/// Returns the disk contents after a kill, and the entries on the disk.
fn killed(seed: u64) -> (Files, Promise) {
    let mut driver = run(seed, false);
    driver.sync();
    let promise = driver.promise().clone();
    (driver.disk.files(), promise)
}

/// During the start, the disk cannot be written or read: each operation fails in turn.
#[test]
fn a_start_on_a_failing_disk_loses_nothing() {
    for seed in Seed::of_test_or(0).cases(FAILING_STARTS) {
        let (left, promise) = killed(seed);
        let disk = Disk::of(left.clone());
        let expected = rest(&mut promise.open(&disk).unwrap());
        promise.check(&expected);
        for number in 0..disk.tried().max(disk.reads()) {
            println!("seed {seed}, operation {number} fails");
            let fail: [fn(&Disk, usize); 4] = [
                Disk::fail_at,
                Disk::fail_read_at,
                |disk, number| disk.fill_at(number, false),
                |disk, number| disk.fill_at(number, true),
            ];
            for fail in fail {
                let disk = Disk::of(left.clone());
                fail(&disk, number);
                drop(promise.open(&disk));
                disk.heal();
                let mut spool = promise.open(&disk).unwrap();
                assert_eq!(rest(&mut spool), expected);
                assert_eq!(spool.damage(), []);
            }
        }
    }
}

/// A start needs no disk space.
#[test]
fn a_start_succeeds_on_a_full_disk() {
    for seed in Seed::of_test_or(0).cases(FULL_STARTS) {
        let (left, promise) = killed(seed);
        let expected = rest(&mut promise.open(&Disk::of(left.clone())).unwrap());
        let disk = Disk::of(left);
        disk.fill_at(0, true);
        for _ in 0..2 {
            let mut spool = promise.open(&disk).unwrap();
            assert_eq!(rest(&mut spool), expected);
            assert_eq!(spool.damage(), []);
        }
    }
}

/// A disk error is reported, and the call is retried.
#[test]
fn a_failed_read_is_not_damage() {
    for seed in Seed::of_test_or(0).cases(FAILING_READS) {
        let (left, promise) = killed(seed);
        let expected = rest(&mut promise.open(&Disk::of(left.clone())).unwrap());
        let disk = Disk::of(left);
        let mut spool = promise.open(&disk).unwrap();
        let mut found = Vec::new();
        for entry in &expected {
            let number = entry.meta.number;
            let before = disk.reads();
            assert_eq!(spool.read(number).unwrap().as_ref(), Some(entry));
            for fails in before..disk.reads() {
                disk.fail_read_at(disk.reads() + fails - before);
                assert!(spool.read(number).is_err());
            }
            disk.fail_read_at(disk.reads());
            let next = spool.next().or_else(|_| spool.next());
            found.extend(next.unwrap());
            disk.heal();
        }
        assert_eq!(found, expected);
        assert_eq!((spool.next().unwrap(), spool.damage()), (None, vec![]));
    }
}
