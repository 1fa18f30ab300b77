//! A disk that is full or fails, and what the store reports then.

use super::contents::Contents;
use super::disk::Disk;
use super::*;
use crate::tests::disk::Files;
use std::os::unix::fs::MetadataExt;

/// Creates a store that contains one file with a checkpoint.
fn used(disk: &Disk, data_dir: &Path) -> Arc<Store> {
    let store = Arc::new(disk.open(data_dir).unwrap());
    store.of_source("app").keep(&[(OriginId(3), b"file".to_vec())]).unwrap();
    commit_at(&store, 42).unwrap();
    store
}

fn commit_at(store: &Store, offset: u64) -> io::Result<()> {
    store.commit(|moved| moved.checkpoint(&"app".into(), OriginId(3), &"out".into(), offset))
}

/// Returns the checkpoint that a start with these files would find.
fn checkpoint_in(files: Files) -> u64 {
    Contents::of(&Arc::new(Disk::of(files).open(memory_folder().path()).unwrap())).checkpoints
        [&("app", OriginId(3), "out")]
}

#[test]
fn a_failed_commit_is_retried_and_reported() {
    let (folder, disk) = (memory_folder(), Disk::default());
    let store = used(&disk, folder.path());
    let health = store.health();
    assert_eq!((health.error, health.age_seconds), (None, 0.0));
    assert!(health.errors.values().all(|count| *count == 0) && health.errors.len() == 5);
    disk.fill_at(0);
    assert!(commit_at(&store, 43).is_err());
    assert!(commit_at(&store, 44).is_err());
    let health = store.health();
    let error = health.error.unwrap();
    assert_eq!(error, "checkpoints cannot be committed: No space left on device (os error 28)");
    assert_eq!(health.errors["commit"], 2);
    assert!(health.age_seconds > 0.0 && health.age_seconds == health.committed_seconds);
    assert_eq!(checkpoint_in(disk.files()), 42);
    disk.fill_at(usize::MAX);
    store.commit(|_| {}).unwrap();
    let health = store.health();
    assert_eq!((health.error, health.age_seconds, health.errors["commit"]), (None, 0.0, 2));
    assert_eq!(checkpoint_in(disk.files()), 44);
}

/// A source could not save an id, and has nothing more to save afterward. The error still clears.
#[test]
fn an_error_clears_once_the_disk_has_space() {
    let (folder, disk) = (memory_folder(), Disk::default());
    let store = used(&disk, folder.path());
    disk.fill_at(0);
    assert!(store.of_source("app").keep(&[(OriginId(4), b"other".to_vec())]).is_err());
    assert!(store.health().error.unwrap().starts_with("ids of new files cannot be saved"));
    assert!(
        store.commit(|_| {}).is_err(),
        "an attempt that has nothing to write says that it could not"
    );
    disk.fill_at(usize::MAX);
    store.commit(|_| {}).unwrap();
    assert_eq!(store.health().error, None);
}

/// If a failed read returned an empty result, a source would treat all files as new.
#[test]
fn a_read_failure_is_an_error_instead_of_an_empty_result() {
    let (folder, disk) = (memory_folder(), Disk::default());
    let store = used(&disk, folder.path());
    store.keep_lane(&"out".into(), 0, b"state".to_vec()).unwrap();
    let before = Contents::of(&store);
    // After the failed commit, the file must be reopened.
    disk.fill_at(0);
    assert!(commit_at(&store, 42).is_err());
    disk.fail_reads(true);
    assert!(store.of_source("app").origins().is_err());
    assert!(store.lane(&"out".into(), 0).is_err());
    assert!(
        store.health().error.unwrap().contains("saved data cannot be read: Input/output error")
    );
    disk.fail_reads(false);
    disk.fill_at(usize::MAX);
    assert_eq!(Contents::of(&store), before);
    assert_eq!(disk.set_aside(), 0);
}

/// New ids are saved even if the copy cannot be written. The failure is reported and repaired.
#[test]
fn a_failed_write_of_the_copy_is_reported_and_retried() {
    let (folder, disk) = (memory_folder(), Disk::default());
    let store = used(&disk, folder.path());
    disk.fail_copy(true);
    store.of_source("app").keep(&[(OriginId(4), b"other".to_vec())]).unwrap();
    let health = store.health();
    assert_eq!(health.errors["copy"], 1);
    assert!(
        health
            .error
            .unwrap()
            .starts_with("the second copy of the file ids cannot be written: No space")
    );
    disk.fail_copy(false);
    store.finish();
    assert_eq!(store.health().error, None);
    let mut files = disk.files();
    files.of(super::disk::Name::Database).clear();
    let found = Contents::of(&Arc::new(Disk::of(files).open(memory_folder().path()).unwrap()));
    assert!(found.origins.contains_key(&("app", OriginId(4))));
}

#[test]
fn a_start_on_a_full_disk_reports_it() {
    let (folder, disk) = (memory_folder(), Disk::default());
    disk.fill_at(0);
    let Err(error) = disk.open(folder.path()) else { panic!("it opens") };
    assert!(
        error.to_string().contains("No space left on device (os error 28); free some space"),
        "{error}"
    );
}

/// If the database needs no new blocks, a commit works on a full disk. Closing the database keeps
/// the blocks.
#[test]
fn the_database_preallocates_its_blocks_and_keeps_them() {
    let folder = folder();
    let blocks = || {
        let file = std::fs::metadata(folder.path().join(DATABASE)).unwrap();
        (file.blocks() * 512, file.len())
    };
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let kept: Vec<(OriginId, Vec<u8>)> =
        (0..5000).map(|id| (OriginId(id), vec![id as u8; 300])).collect();
    store.of_source("app").keep(&kept).unwrap();
    let (allocated, length) = blocks();
    assert!(length > 1 << 20 && allocated > length, "{allocated} bytes of {length} are allocated");
    store.of_source("app").forget(&(0..5000).map(OriginId).collect::<Vec<_>>()).unwrap();
    drop(store);
    let (after, shorter) = blocks();
    assert!(shorter < length, "the library makes the file shorter");
    assert!(after >= length, "{after} bytes are allocated, {allocated} were before");
}

/// Writing the process id into the file does not need disk space either.
#[test]
fn the_lock_names_its_owner() {
    let folder = folder();
    std::fs::write(folder.path().join("lock"), "1234567890123456\n").unwrap();
    let _store = Store::open(folder.path()).unwrap();
    let Err(error) = Store::open(folder.path()) else { panic!("it opens twice") };
    assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
}
