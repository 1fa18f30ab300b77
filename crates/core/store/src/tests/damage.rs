//! A byte of the database or of the second copy of the identities is flipped, or one of the files
//! is truncated. In each case the store opens, contains every durable id, and returns only values
//! that were committed under their keys.

use super::contents::{Call, Contents, Expected};
use super::disk::{Disk, Files, Name};
use super::memory_folder;
use fastrand::Rng;
use millstream_model::OriginId;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::HashSet;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

const CALLS: u64 = 100;
/// Length of the start of a file in which every byte is flipped. In the database, it contains the
/// roots.
const HEADER_BYTES: usize = 512;

/// The files and durable contents of a store, and every key-value pair that was ever stored, as
/// text.
struct Undamaged {
    files: Files,
    durable: Contents,
    known: HashSet<String>,
}

impl Undamaged {
    fn new(random: &mut Rng, data_dir: &Path) -> Undamaged {
        let disk = Disk::default();
        let store = Arc::new(disk.open(data_dir).unwrap());
        let (mut expected, mut known) = (Expected::default(), HashSet::new());
        for call in (1..=CALLS).map(|number| Call::draw(number, random)) {
            call.make(&store).unwrap();
            expected.after(&call);
            known.extend(pairs(&expected.durable));
        }
        drop(store);
        assert!(known.len() > 40, "the database is too empty to prove anything");
        assert!(expected.durable.origins.len() > 4, "too few ids to prove anything");
        Undamaged { files: disk.files(), durable: expected.durable, known }
    }

    /// Opens files of which `damaged` is corrupt, and reads and writes the store.
    fn survives(&self, files: Files, damaged: Name, data_dir: &Path) {
        let disk = Disk::of(files);
        let store = Arc::new(disk.open(data_dir).unwrap());
        let contents = Contents::of(&store);
        let found = pairs(&contents);
        assert!(
            found.iter().all(|pair| self.known.contains(pair)),
            "never committed, but found: {found:#?}"
        );
        assert!(
            contents.origins.keys().eq(self.durable.origins.keys()),
            "other ids: {contents:#?}"
        );
        assert_eq!(contents.sources, self.durable.sources);
        if damaged == Name::Identities {
            assert_eq!((&contents, disk.set_aside()), (&self.durable, 0), "the database is whole");
        }
        let keep = Call::Keep("app", OriginId(1), b"after".to_vec());
        let commit = Call::Commit([(("app", OriginId(1), "out"), CALLS + 1)].into());
        if keep.make(&store).and_then(|()| commit.make(&store)).is_ok() {
            drop(store);
            let store = Arc::new(disk.open(data_dir).unwrap());
            assert_eq!(Contents::of(&store).checkpoints[&("app", OriginId(1), "out")], CALLS + 1);
        }
    }
}

fn pairs(contents: &Contents) -> Vec<String> {
    fn text<K: Debug, V: Debug>(table: &str, pair: (K, V)) -> String {
        format!("{table}: {pair:?}")
    }
    let origins = contents.origins.iter().map(|pair| text("origin", pair));
    let checkpoints = contents.checkpoints.iter().map(|pair| text("checkpoint", pair));
    let lanes = contents.lanes.iter().map(|pair| text("lane", pair));
    origins.chain(checkpoints).chain(lanes).collect()
}

/// Distance between two tested bytes.
const FLIPPED: TestSize = TestSize { gate: 101, long: 1 };

/// Difference between two lengths of a truncated file, in bytes.
const TRUNCATED: TestSize = TestSize { gate: 301, long: 1 };

/// Distance between two tested bytes if the other file is also damaged.
const BOTH_DAMAGED: TestSize = TestSize { gate: 7, long: 1 };

fn places(bytes: usize, stride: TestSize) -> impl Iterator<Item = usize> {
    let behind = (HEADER_BYTES..bytes).step_by(stride.per_case() as usize);
    (0..HEADER_BYTES.min(bytes)).chain(behind)
}

#[test]
fn a_flipped_byte_in_either_file_loses_no_id() {
    let folder = memory_folder();
    let mut random = Seed::of_test_or(1).random();
    let mut undamaged = Undamaged::new(&mut random, folder.path());
    for name in [Name::Database, Name::Identities] {
        let bytes = undamaged.files.of(name).len();
        for at in places(bytes, FLIPPED) {
            random.seed().count(1);
            let mut files = undamaged.files.clone();
            let mask = 1 + random.u64(..255) as u8;
            files.of(name)[at] ^= mask;
            println!("{name:?}: byte {at} of {bytes}, flipped by {mask:#x}");
            undamaged.survives(files, name, folder.path());
        }
    }
}

#[test]
fn truncating_either_file_loses_no_id() {
    let folder = memory_folder();
    let mut random = Seed::of_test_or(2).random();
    let mut undamaged = Undamaged::new(&mut random, folder.path());
    for name in [Name::Database, Name::Identities] {
        let bytes = undamaged.files.of(name).len();
        for length in places(bytes, TRUNCATED) {
            random.seed().count(1);
            let mut files = undamaged.files.clone();
            files.of(name).truncate(length);
            println!("{name:?}: cut to {length} of {bytes}");
            undamaged.survives(files, name, folder.path());
        }
    }
}

/// The database is destroyed, and a byte of the copy is flipped: the intact part of the copy is
/// used, and sources do not behave as on a first start.
#[test]
fn damage_to_both_files_loses_only_the_damaged_ids() {
    let folder = memory_folder();
    let mut random = Seed::of_test_or(3).random();
    let mut undamaged = Undamaged::new(&mut random, folder.path());
    let bytes = undamaged.files.of(Name::Identities).iter().rposition(|byte| *byte != 0).unwrap();
    for at in places(bytes, BOTH_DAMAGED) {
        random.seed().count(1);
        let mut files = undamaged.files.clone();
        files.of(Name::Database).fill(7);
        files.of(Name::Identities)[at] ^= 1;
        let store = Arc::new(Disk::of(files).open(folder.path()).unwrap());
        let contents = Contents::of(&store);
        let lost = undamaged
            .durable
            .origins
            .keys()
            .filter(|key| !contents.origins.contains_key(key))
            .count();
        assert!(lost <= 1, "byte {at}: {contents:#?}");
        assert_eq!(contents.sources, ["app", "sys"].into(), "byte {at}");
    }
}
