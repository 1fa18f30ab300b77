//! Power loss at every write and sync.

use super::contents::{Call, Contents, Expected};
use super::disk::{Change, Disk, Files, Name, Replay};
use super::memory_folder;
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use std::path::Path;
use std::sync::Arc;

const CALLS: u64 = 70;

/// Number of workloads in which a crash is tested at every change.
const CRASHED: TestSize = TestSize { gate: 1, long: 20 };

/// Number of outcomes per crash.
const OUTCOMES: TestSize = TestSize { gate: 4, long: 20 };

/// Number of workloads in which a change fails.
const FAILING: TestSize = TestSize { gate: 3, long: 20 };

/// Distance between two failing changes.
const FAILING_STRIDE: TestSize = TestSize { gate: 7, long: 1 };

/// The changes that a workload made to a disk, and what the store had promised at each point.
struct Run {
    changes: Vec<(Name, Change)>,
    /// Promised contents, each with the number of changes at which the promise was made.
    promises: Vec<(usize, Contents)>,
}

impl Run {
    fn new(random: &mut Rng, data_dir: &Path) -> Run {
        let disk = Disk::default();
        let store = Arc::new(disk.open(data_dir).unwrap());
        let mut expected = Expected::default();
        let mut promises = vec![(disk.len(), Contents::default())];
        for call in (1..=CALLS).map(|number| Call::draw(number, random)) {
            call.make(&store).unwrap();
            expected.after(&call);
            promises.push((disk.len(), expected.durable.clone()));
        }
        drop(store);
        promises.push((disk.len(), expected.durable));
        Run { changes: disk.changes(), promises }
    }

    /// Returns the allowed contents after a crash that follows the first `changes` changes: the
    /// promised contents, or the contents that the active call was about to promise.
    fn allowed(&self, changes: usize) -> [&Contents; 2] {
        let returned = self.promises.partition_point(|(at, _)| *at <= changes);
        let begun = returned.min(self.promises.len() - 1);
        [&self.promises[returned.saturating_sub(1)].1, &self.promises[begun].1]
    }
}

/// Restarts after a crash that also lost the database. The second copy contains every promised id.
fn restart_without_database(mut left: Files, allowed: [&Contents; 2], data_dir: &Path) {
    left.of(Name::Database).clear();
    let found = Contents::of(&Arc::new(Disk::of(left).open(data_dir).unwrap()));
    let [promised, begun] = allowed.map(|contents| &contents.origins);
    // An origin that is being removed may be missing.
    let mut ids = promised.keys().filter(|id| begun.contains_key(id));
    assert!(
        ids.all(|id| found.origins.contains_key(id)),
        "found {found:#?}, promised {promised:#?}"
    );
    let ran = allowed[0].sources.is_subset(&found.sources);
    assert!(ran, "found {found:#?}, these ran: {:?}", allowed[0].sources);
}

/// Restarts after a crash, then again after a crash during that restart.
fn restart(left: Files, allowed: [&Contents; 2], random: &mut Rng, data_dir: &Path) {
    let disk = Disk::of(left.clone());
    let store = Arc::new(disk.open(data_dir).unwrap());
    let found = Contents::of(&store);
    assert!(allowed.contains(&&found), "found {found:#?}, allowed are {allowed:#?}");
    let opened = disk.len();
    drop(store);
    let changes = disk.changes();
    let until = random.u64(..changes.len() as u64 + 1) as usize;
    let mut replay = Replay::new(left);
    changes[..until].iter().for_each(|change| replay.push(change));
    let again = Arc::new(Disk::of(replay.crash(random)).open(data_dir).unwrap());
    let found_again = Contents::of(&again);
    let settled = if until >= opened { [&found; 2] } else { allowed };
    assert!(settled.contains(&&found_again), "found {found_again:#?}, allowed are {settled:#?}");
}

#[test]
fn durable_data_survives_a_crash_at_any_write() {
    let folder = memory_folder();
    for seed in Seed::of_test_or(0).cases(CRASHED) {
        let mut random = Rng::with_seed(seed);
        let run = Run::new(&mut random, folder.path());
        let mut replay = Replay::new(Files::default());
        for at in 0..=run.changes.len() {
            if at > 0 {
                replay.push(&run.changes[at - 1]);
            }
            for outcome in 0..OUTCOMES.per_case() {
                println!("seed {seed}, change {at} of {}, outcome {outcome}", run.changes.len());
                let left = replay.crash(&mut random);
                restart_without_database(left.clone(), run.allowed(at), folder.path());
                restart(left, run.allowed(at), &mut random, folder.path());
            }
        }
    }
}

/// The disk is full, or fails, for a short time.
#[test]
fn durable_data_survives_a_failed_write() {
    let folder = memory_folder();
    let stride = FAILING_STRIDE.per_case() as usize;
    for seed in Seed::of_test_or(0).cases(FAILING) {
        let changes = Run::new(&mut Rng::with_seed(seed), folder.path()).changes.len();
        // Starts only after the changes that create the database: if one of them fails, the start
        // fails.
        let first = {
            let disk = Disk::default();
            drop(disk.open(folder.path()).unwrap());
            disk.len()
        };
        for fails_at in (first..changes).step_by(stride) {
            println!("seed {seed}, change {fails_at} fails");
            one_failure(seed, fails_at, folder.path());
        }
    }
}

fn one_failure(seed: u64, fails_at: usize, data_dir: &Path) {
    let disk = Disk::default();
    disk.fail_at(fails_at);
    let store = Arc::new(disk.open(data_dir).unwrap());
    let mut expected = Expected::default();
    let mut random = Rng::with_seed(seed);
    for call in (1..=CALLS).map(|number| Call::draw(number, &mut random)) {
        if call.make(&store).is_err() {
            call.make(&store).unwrap();
        }
        expected.after(&call);
    }
    drop(store);
    let store = Arc::new(Disk::of(disk.files()).open(data_dir).unwrap());
    assert_eq!(Contents::of(&store), expected.durable);
}

/// A full or failing disk is not mistaken for a corrupt database.
#[test]
fn a_start_on_a_failing_disk_loses_nothing() {
    let folder = memory_folder();
    let mut random = Seed::of_test_or(5).random();
    let run = Run::new(&mut random, folder.path());
    let mut replay = Replay::new(Files::default());
    run.changes.iter().for_each(|change| replay.push(change));
    // One state is the state after a shutdown, the other the state after a crash.
    let cut = run.promises[run.promises.len() - 2].0;
    let mut crashed = Replay::new(Files::default());
    run.changes[..cut].iter().for_each(|change| crashed.push(change));
    let expected = &run.promises.last().unwrap().1;
    for left in [replay.crash(&mut random), crashed.crash(&mut random)] {
        let disk = Disk::of(left.clone());
        drop(disk.open(folder.path()).unwrap());
        for number in 0..disk.len().max(disk.reads()) {
            for fail in [Disk::fail_at, Disk::fail_read_at] {
                let disk = Disk::of(left.clone());
                fail(&disk, number);
                drop(disk.open(folder.path()));
                fail(&disk, usize::MAX);
                let store = Arc::new(disk.open(folder.path()).unwrap());
                assert_eq!(&Contents::of(&store), expected, "number {number} failed");
                assert_eq!(disk.set_aside(), 0, "number {number} failed");
            }
            // From this change on, all changes fail.
            let disk = Disk::of(left.clone());
            disk.fill_at(number);
            drop(disk.open(folder.path()));
            disk.fill_at(usize::MAX);
            let store = Arc::new(disk.open(folder.path()).unwrap());
            assert_eq!(
                (&Contents::of(&store), disk.set_aside()),
                (expected, 0),
                "full at {number}"
            );
        }
    }
}
