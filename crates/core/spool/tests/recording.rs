//! Recorded events cover every byte that was written to a segment and read from it.

use bytes::Bytes;
use millstream_recorder::schema::EventKind;
use millstream_spool::{EntryMeta, EntryNumber, Folder, NewEntry, Spool, SpoolOptions};
use millstream_testkit::{recorded, start_recording, thread_bytes};
use std::path::Path;

const ENTRIES: u64 = 200;

/// Several segments.
const OPTIONS: SpoolOptions = SpoolOptions { segment_bytes: 300_000 };

fn open(folder: &Path) -> Spool {
    Spool::open(Box::new(Folder::open(folder).unwrap()), OPTIONS, EntryNumber(0)).unwrap()
}

/// Appends entries of a few kilobytes each, in several parts.
fn fill(spool: &mut Spool) {
    for number in 0..ENTRIES {
        let meta = EntryMeta {
            number: EntryNumber(number),
            written_ms: 1,
            events: 1,
            lane: 0,
            lanes: 1,
            format: "text/1".into(),
            ranges: Vec::new(),
            completes: true,
        };
        let part = Bytes::from(vec![number as u8; 10 * number as usize + 1]);
        let parts = vec![part; 7];
        spool.append(&NewEntry { meta: &meta, parts: &parts, routing: b"a", rows: b"" }).unwrap();
    }
    spool.sync().unwrap();
}

#[test]
fn what_is_written_read_and_synced_is_recorded() {
    let _test = start_recording();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let mut spool = open(&path);
    let truth = thread_bytes(|| fill(&mut spool));
    let written = recorded(EventKind::FileWrite);
    let bytes: u64 = written.values().map(|sum| sum.bytes).sum();
    assert_eq!(bytes, truth.written);
    assert!(written.len() >= 3, "{written:?}");
    for (name, sum) in &written {
        assert_eq!(sum.bytes, std::fs::metadata(name).unwrap().len(), "{name}");
    }
    let syncs = recorded(EventKind::FileSync);
    assert!(written.keys().all(|name| syncs[name].events >= 1), "{syncs:?}");
    assert!(syncs[&path.display().to_string()].events >= 1, "the folder: {syncs:?}");
    drop(spool);

    let mut spool = None;
    let truth = thread_bytes(|| {
        let mut opened = open(&path);
        let count = std::iter::from_fn(|| opened.next().unwrap()).count();
        assert_eq!(count as u64, ENTRIES);
        spool = Some(opened);
    });
    let reads = recorded(EventKind::FileRead);
    assert_eq!(reads.values().map(|sum| sum.bytes).sum::<u64>(), truth.read, "{reads:?}");
    assert!(written.iter().all(|(name, sum)| reads[name].bytes >= sum.bytes));
}
