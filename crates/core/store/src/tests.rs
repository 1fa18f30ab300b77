//! The data that the store keeps, and the effects of a crash or corruption.

mod contents;
mod crashes;
mod damage;
mod disk;
mod full;

use super::*;
use crate::database::{checkpoint_key, opened, sealed};
use crate::disk::{DATABASE, IDENTITIES, set_aside};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns a folder in which syncs cost nothing, if the system has one.
fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| folder())
}

fn commit(store: &Store, offset: u64) {
    let (source, sink) = (Arc::from("app"), Arc::from("out"));
    store
        .commit(|moved| moved.checkpoint(&source, OriginId(7), &sink, offset))
        .expect("the store takes it");
}

/// A lane's recorded state becomes durable only together with its checkpoints.
#[test]
fn a_lane_state_is_committed_with_the_checkpoints() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    store.of_source("app").keep(&[(OriginId(7), b"file".to_vec())]).unwrap();
    let (source, sink): (Arc<str>, Arc<str>) = ("app".into(), "out".into());
    let weak = Arc::downgrade(&store);
    let (from, to) = (source.clone(), sink.clone());
    store.on_keep(move || {
        weak.upgrade().unwrap().commit(|moved| moved.checkpoint(&from, OriginId(7), &to, 42))
    });
    store.note_lane(&sink, 0, b"synced up to 42".to_vec());
    store.keep_lane(&Arc::from("other"), 0, b"about to write".to_vec()).unwrap();
    let committed = |store: &Arc<Store>| store.of_source("app").committed(OriginId(7)).unwrap();
    assert_eq!(committed(&store), [("out".to_owned(), 42)]);
    drop(store);
    let store = Arc::new(Store::open(folder.path()).unwrap());
    assert_eq!(store.lane(&sink, 0).unwrap(), Some(b"synced up to 42".to_vec()));
    assert_eq!(
        store.of_source("app").origins().unwrap().0[0].checkpoints,
        vec![("out".into(), 42)]
    );
}

#[test]
fn committed_data_survives_a_restart() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    store.of_source("app").keep(&[(OriginId(7), b"old".to_vec())]).unwrap();
    store.of_source("app").note(OriginId(7), b"new".to_vec());
    store.note_lane(&Arc::from("out"), 0, b"state".to_vec());
    commit(&store, 42);
    drop(store);
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let record = OriginRecord {
        id: OriginId(7),
        descriptor: b"new".to_vec(),
        checkpoints: vec![("out".into(), 42)],
    };
    assert_eq!(store.of_source("app").origins().unwrap(), (vec![record], true));
    assert_eq!(store.of_source("other").origins().unwrap(), (vec![], false));
    assert_eq!(store.lane(&Arc::from("out"), 0).unwrap(), Some(b"state".to_vec()));
}

/// A release without such records moves only the position.
#[test]
fn a_record_of_a_disk_buffer_at_another_position_is_void() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let record = DiskBufferRecord { position: 3, end: 9, entries: 5, events: 70 };
    let sink = Arc::from("out");
    assert_eq!(store.disk_buffer("out").unwrap(), DiskBufferRecord::default());
    store.commit(|moved| moved.disk_buffer(&sink, record)).unwrap();
    assert_eq!(store.disk_buffer("out").unwrap(), record);
    assert_eq!(store.disk_buffer("other").unwrap(), DiskBufferRecord::default());
    let later = DiskBufferRecord { entries: 4, ..record };
    store.save_disk_buffer(&sink, later).unwrap();
    assert_eq!(store.disk_buffer("out").unwrap(), later);
    let source = Arc::from("disk.buffers");
    store.commit(|moved| moved.checkpoint(&source, OriginId(0), &sink, 4)).unwrap();
    let void = DiskBufferRecord { position: 4, end: 4, entries: 0, events: 0 };
    assert_eq!(store.disk_buffer("out").unwrap(), void);
}

#[test]
fn forgotten_data_is_removed_with_pending_changes() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let app = store.of_source("app");
    app.keep(&[(OriginId(7), vec![]), (OriginId(8), vec![])]).unwrap();
    commit(&store, 42);
    app.note(OriginId(7), b"again".to_vec());
    app.forget(&[OriginId(7)]).unwrap();
    store.commit(|_| {}).unwrap();
    let ids: Vec<u64> = app.origins().unwrap().0.iter().map(|record| record.id.0).collect();
    assert_eq!(ids, [8]);
}

#[test]
fn a_value_with_a_wrong_checksum_or_key_is_ignored() {
    let key = checkpoint_key("app", 7, "out");
    let sealed = sealed(&key, &42u64.to_le_bytes());
    assert_eq!(opened(&key, &sealed), Some(42u64.to_le_bytes().to_vec()));
    assert_eq!(opened(&checkpoint_key("app", 8, "out"), &sealed), None);
    for byte in 0..sealed.len() {
        for bit in 0..8 {
            let mut flipped = sealed.clone();
            flipped[byte] ^= 1 << bit;
            assert_eq!(opened(&key, &flipped), None, "byte {byte}, bit {bit}");
        }
    }
    assert_eq!(opened(&key, &sealed[..5]), None);
}

#[test]
fn a_folder_with_another_format_or_in_use_is_rejected() {
    let folder = folder();
    let first = Store::open(folder.path()).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::InUse(..))));
    drop(first);
    std::fs::write(folder.path().join("format"), "99\n").unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Format(..))));
}

/// States in which a crash can leave the folder before the store has promised anything: each file
/// is missing, empty or complete, because a disk may write files in any order.
#[test]
fn an_interrupted_first_start_is_repeated() {
    let whole = folder();
    drop(Store::open(whole.path()).unwrap());
    let names = ["lock", "format", DATABASE, IDENTITIES];
    for left in 0..81 {
        let folder = folder();
        for (index, name) in names.iter().enumerate() {
            match left / 3usize.pow(index as u32) % 3 {
                0 => {}
                1 => std::fs::write(folder.path().join(name), "").unwrap(),
                _ => _ = std::fs::copy(whole.path().join(name), folder.path().join(name)).unwrap(),
            }
        }
        let store = Arc::new(Store::open(folder.path()).unwrap());
        store.of_source("app").keep(&[(OriginId(7), vec![])]).unwrap();
        commit(&store, 42);
        drop(store);
        let store = Arc::new(Store::open(folder.path()).unwrap());
        assert_eq!(checkpoint(&store), 42, "files {left}");
        assert_eq!(std::fs::read_to_string(folder.path().join("format")).unwrap(), "1\n");
    }
}

/// A crash happens between renaming a corrupt database and creating a new one. The renamed database
/// is never touched again.
#[test]
fn a_database_that_was_set_aside_stays_aside() {
    let folder = folder();
    let path = folder.path().join(DATABASE);
    std::fs::write(&path, [7; 10]).unwrap();
    set_aside(&path, "it is damaged").unwrap();
    drop(Store::open(folder.path()).unwrap());
    std::fs::write(&path, [8; 20]).unwrap();
    drop(Store::open(folder.path()).unwrap());
    let aside = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut aside: Vec<Vec<u8>> = aside
        .filter(|path| path.to_string_lossy().contains("corrupt-"))
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    aside.sort();
    assert_eq!(aside, [vec![7; 10], vec![8; 20]]);
}

fn checkpoint(store: &Arc<Store>) -> u64 {
    store.of_source("app").origins().unwrap().0[0].checkpoints[0].1
}

/// Several threads commit at once, as do lanes that save a state and the thread that commits every
/// second.
#[test]
fn changes_are_written_in_the_order_of_collection() {
    let folder = memory_folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    store.of_source("app").keep(&[(OriginId(7), vec![])]).unwrap();
    let (source, sink): (Arc<str>, Arc<str>) = ("app".into(), "out".into());
    let next = std::sync::atomic::AtomicU64::new(1);
    let commit = || {
        let number = || next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        store.commit(|moved| moved.checkpoint(&source, OriginId(7), &sink, number())).unwrap();
    };
    for round in 1..=200 {
        std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(commit)));
        assert_eq!(checkpoint(&store), 4 * round, "the last of four commits");
    }
}

/// The library panics on unexpected data; the committing thread continues.
#[test]
fn a_panic_in_the_library_is_an_error_and_the_database_is_reopened() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    store.of_source("app").keep(&[(OriginId(7), vec![])]).unwrap();
    let panics = |_: &Database| -> Result<(), redb::Error> { panic!("as the library does") };
    assert!(store.with(Operation::Commit, |database, _| panics(database)).is_err());
    commit(&store, 42);
    assert_eq!(checkpoint(&store), 42);
}

/// A truncated or deleted database is treated like a corrupt one.
#[test]
fn a_database_that_is_empty_or_missing_is_restored_from_the_copy() {
    for is_missing in [false, true] {
        let folder = folder();
        let store = Arc::new(Store::open(folder.path()).unwrap());
        store.of_source("app").keep(&[(OriginId(7), b"file".to_vec())]).unwrap();
        store.of_source("idle").keep(&[]).unwrap();
        commit(&store, 42);
        store.finish();
        drop(store);
        let path = folder.path().join(DATABASE);
        std::fs::write(&path, "").unwrap();
        if is_missing {
            std::fs::remove_file(&path).unwrap();
        }
        let store = Arc::new(Store::open(folder.path()).unwrap());
        let record = OriginRecord {
            id: OriginId(7),
            descriptor: b"file".to_vec(),
            checkpoints: vec![("out".into(), 42)],
        };
        assert_eq!(store.of_source("app").origins().unwrap(), (vec![record], true));
        assert_eq!(store.of_source("idle").origins().unwrap(), (vec![], true));
        assert_eq!(store.of_source("new").origins().unwrap(), (vec![], false));
    }
}

/// Otherwise, a source that starts at the end of its files on its first run would skip unsettled
/// data.
#[test]
fn if_everything_is_lost_every_source_counts_as_having_run() {
    let folder = folder();
    drop(Store::open(folder.path()).unwrap());
    for name in [DATABASE, IDENTITIES] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    for _ in 0..2 {
        let store = Arc::new(Store::open(folder.path()).unwrap());
        assert_eq!(store.of_source("app").origins().unwrap(), (vec![], true));
    }
    let store = Arc::new(Store::open(folder.path()).unwrap());
    store.finish();
    assert_eq!(store.of_source("new").origins().unwrap(), (vec![], false), "added after a stop");
}

/// The store was written by a release that kept no second copy.
#[test]
fn a_missing_copy_is_written_at_startup() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    store.of_source("app").keep(&[(OriginId(7), b"file".to_vec())]).unwrap();
    drop(store);
    let path = folder.path().join(IDENTITIES);
    std::fs::remove_file(&path).unwrap();
    drop(Store::open(folder.path()).unwrap());
    let copy = identities::decode(&std::fs::read(&path).unwrap());
    assert!(copy.is_whole && copy.identities.count() == 1);
}

/// The file is rewritten with the current identities whenever it is full.
#[test]
fn the_size_of_the_copy_is_bounded() {
    let folder = memory_folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let app = store.of_source("app");
    let bytes = || std::fs::metadata(folder.path().join(IDENTITIES)).unwrap().len();
    for round in 0..200u64 {
        let kept: Vec<(OriginId, Vec<u8>)> =
            (0..20).map(|id| (OriginId(round * 10 + id), vec![round as u8; 300])).collect();
        app.keep(&kept).unwrap();
        let gone: Vec<OriginId> = (round * 10..round * 10 + 10).map(OriginId).collect();
        app.forget(&gone).unwrap();
        assert!(bytes() < 100_000, "{} bytes in round {round}", bytes());
    }
    drop((app, store));
    std::fs::write(folder.path().join(DATABASE), "").unwrap();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let ids: Vec<u64> =
        store.of_source("app").origins().unwrap().0.iter().map(|record| record.id.0).collect();
    assert_eq!(ids, (2000..2010).collect::<Vec<u64>>());
}
