//! Events record the store's writes, reads and syncs of files other than its database.

use millstream_model::OriginId;
use millstream_recorder::schema::EventKind;
use millstream_store::Store;
use millstream_testkit::{recorded, start_recording};
use std::fs;
use std::sync::Arc;

#[test]
fn the_second_copy_of_ids_is_recorded_and_the_database_is_not() {
    let _test = start_recording();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let source = store.of_source("app");
    for id in 0..100 {
        source.keep(&[(OriginId(id), vec![7; 100])]).unwrap();
    }
    let size = |name: &str| fs::metadata(path(name)).unwrap().len();
    let written = recorded(EventKind::FileWrite);
    let syncs = recorded(EventKind::FileSync);
    // Later writes contain only the appended records.
    let (first, rest) = (written[&path("identities.new")], written[&path("identities")]);
    assert!(rest.bytes >= size("identities") - first.bytes && rest.bytes > 0, "{written:?}");
    assert_eq!(written[&path("format.new")].bytes, size("format"));
    assert!(syncs[&path("identities")].events >= 100, "durable each time: {syncs:?}");
    assert!(syncs[&folder.path().display().to_string()].events > 0);
    drop((source, store));

    Store::open(folder.path()).unwrap();
    let reads = recorded(EventKind::FileRead);
    assert!(reads[&path("identities")].bytes >= size("identities"), "{reads:?}");
    assert_eq!(reads[&path("format")].bytes, size("format"));
    let all = [written, syncs, reads];
    assert!(all.iter().all(|sums| !sums.contains_key(&path("checkpoints.redb"))));
}
