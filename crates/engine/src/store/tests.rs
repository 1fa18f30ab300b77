//! What the store keeps, and what a crash or damage may do to it.

mod contents;
mod crashes;
mod damage;
mod disk;

use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A folder that costs no time to sync, if the system has one.
fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| folder())
}

/// A number of the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn commit(store: &Store, offset: u64) {
    let (source, sink) = (Arc::from("app"), Arc::from("out"));
    store.commit(|note| note(&source, 7, &sink, offset)).expect("the store takes it");
}

/// What a lane noted is durable only together with the checkpoints that belong to it.
#[test]
fn a_lane_that_keeps_a_state_takes_the_checkpoints_along() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    store.of_source("app").keep(&[(7, b"file".to_vec())]).unwrap();
    let (source, sink): (Arc<str>, Arc<str>) = ("app".into(), "out".into());
    let weak = Arc::downgrade(&store);
    let (from, to) = (source.clone(), sink.clone());
    store.on_keep(move || weak.upgrade().unwrap().commit(|note| note(&from, 7, &to, 42)));
    store.note_lane(&sink, 0, b"synced up to 42".to_vec());
    store.keep_lane(&Arc::from("other"), 0, b"about to write".to_vec()).unwrap();
    drop(store);
    let store = Arc::new(Store::open(folder.path()).unwrap());
    assert_eq!(store.lane(&sink, 0), Some(b"synced up to 42".to_vec()));
    assert_eq!(store.of_source("app").origins().0[0].checkpoints, vec![("out".into(), 42)]);
}

#[test]
fn what_is_committed_is_there_after_a_restart() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    store.of_source("app").keep(&[(7, b"old".to_vec())]).unwrap();
    store.of_source("app").note(7, b"new".to_vec());
    store.note_lane(&Arc::from("out"), 0, b"state".to_vec());
    commit(&store, 42);
    drop(store);
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let record = OriginRecord { id: 7, descriptor: b"new".to_vec(), checkpoints: vec![("out".into(), 42)] };
    assert_eq!(store.of_source("app").origins(), (vec![record], true));
    assert_eq!(store.of_source("other").origins(), (vec![], false));
    assert_eq!(store.lane(&Arc::from("out"), 0), Some(b"state".to_vec()));
}

#[test]
fn what_is_forgotten_is_gone_with_all_that_waits() {
    let folder = folder();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let app = store.of_source("app");
    app.keep(&[(7, vec![]), (8, vec![])]).unwrap();
    commit(&store, 42);
    app.note(7, b"again".to_vec());
    app.forget(&[7]).unwrap();
    store.commit(|_| {}).unwrap();
    let ids: Vec<u64> = app.origins().0.iter().map(|record| record.id).collect();
    assert_eq!(ids, [8]);
}

#[test]
fn a_value_that_fails_its_checksum_or_stands_at_the_wrong_key_is_left_out() {
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
fn a_folder_of_another_format_or_in_use_is_refused() {
    let folder = folder();
    let first = Store::open(folder.path()).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::InUse(..))));
    drop(first);
    std::fs::write(folder.path().join("format"), "99\n").unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Format(..))));
}
