//! Any byte of the database flipped, and the file cut at any length: the store opens, and what it
//! gives was committed once for just that key. `MILLSTREAM_SOAK=n` tries every byte; else some are
//! left out.

use super::contents::{Call, Contents, Expected};
use super::disk::Disk;
use super::{memory_folder, number};
use millstream_testkit::Random;
use std::collections::HashSet;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

const CALLS: u64 = 100;
/// The start of the file, where its roots are; none of its bytes is left out.
const HEADER_BYTES: usize = 512;

/// A database, and every pair of key and value that was ever in it, as text.
fn database(seed: u64, data_dir: &Path) -> (Vec<u8>, HashSet<String>) {
    let (disk, mut random) = (Disk::default(), Random::new(seed));
    let store = Arc::new(disk.open(data_dir).unwrap());
    let (mut expected, mut known) = (Expected::default(), HashSet::new());
    for call in (1..=CALLS).map(|number| Call::draw(number, &mut random)) {
        call.make(&store).unwrap();
        expected.after(&call);
        known.extend(pairs(&expected.durable));
    }
    drop(store);
    assert!(known.len() > 40, "the database is too empty to prove anything");
    (disk.bytes(), known)
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

/// Opens a damaged database, reads it, works with it.
fn survives(bytes: Vec<u8>, known: &HashSet<String>, data_dir: &Path) {
    let disk = Disk::of(bytes);
    let store = Arc::new(disk.open(data_dir).unwrap());
    let found = pairs(&Contents::of(&store));
    assert!(found.iter().all(|pair| known.contains(pair)), "never committed, but found: {found:#?}");
    let keep = Call::Keep("app", 1, b"after".to_vec());
    let commit = Call::Commit([(("app", 1, "out"), CALLS + 1)].into());
    if keep.make(&store).and_then(|()| commit.make(&store)).is_ok() {
        drop(store);
        let store = Arc::new(disk.open(data_dir).unwrap());
        assert_eq!(Contents::of(&store).checkpoints[&("app", 1, "out")], CALLS + 1);
    }
}

fn stride(usual: usize) -> usize {
    if number("MILLSTREAM_SOAK").is_some() { 1 } else { usual }
}

#[test]
fn any_flipped_byte_only_repeats_data() {
    let folder = memory_folder();
    let (bytes, known) = database(1, folder.path());
    let all = (0..HEADER_BYTES).chain((HEADER_BYTES..bytes.len()).step_by(stride(31)));
    let mut random = Random::new(1);
    for at in all {
        let mut flipped = bytes.clone();
        let mask = 1 + random.below(255) as u8;
        flipped[at] ^= mask;
        println!("byte {at} of {}, flipped by {mask:#x}", bytes.len());
        survives(flipped, &known, folder.path());
    }
}

#[test]
fn a_cut_at_any_length_only_repeats_data() {
    let folder = memory_folder();
    let (bytes, known) = database(2, folder.path());
    let all = (0..HEADER_BYTES).chain((HEADER_BYTES..bytes.len()).step_by(stride(101)));
    for length in all {
        println!("cut to {length} of {}", bytes.len());
        survives(bytes[..length].to_vec(), &known, folder.path());
    }
}
