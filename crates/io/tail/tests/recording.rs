//! Every byte that a source reads from a file is counted in the events for the file's path.

mod common;

use common::settings;
use flate2::Compression;
use flate2::write::GzEncoder;
use millstream_model::{Polled, SinkSet, Source};
use millstream_recorder::schema::EventKind;
use millstream_tail::{FileSource, HeldSettings, TailSettings};
use millstream_testkit::{RecordedSum, SourceRig, recorded, start_recording, thread_bytes};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than any pause between two polls of the source.
const STEP: Duration = Duration::from_millis(200);

/// Maximum number of polls before a source that has not ended fails the test.
const POLLS_MAX: usize = 1000;

/// Maximum duration of a shutdown.
const PATIENCE: Duration = Duration::from_secs(60);

fn lines(count: usize) -> Vec<u8> {
    (0..count).flat_map(|n| format!("{n} {}\n", fastrand::u64(..)).into_bytes()).collect()
}

/// Returns the recorded sums for the files in a folder.
fn below(kind: EventKind, folder: &Path) -> BTreeMap<String, RecordedSum> {
    let folder = folder.display().to_string();
    recorded(kind).into_iter().filter(|(path, _)| path.starts_with(&folder)).collect()
}

fn bytes(sums: &BTreeMap<String, RecordedSum>) -> u64 {
    sums.values().map(|sum| sum.bytes).sum()
}

/// Polls until the source has ended, and delivers its rows; returns their number.
fn read(rig: &mut SourceRig, source: &mut FileSource) -> usize {
    let mut seen = 0;
    for _ in 0..POLLS_MAX {
        match rig.poll(source) {
            Polled::Batch(batch, _) => {
                seen += batch.rows();
                batch.segments.iter().for_each(|segment| segment.ack.finish());
            }
            Polled::Ended => return seen,
            _ => rig.advance(STEP),
        }
    }
    panic!("{seen} rows after {POLLS_MAX} polls");
}

#[test]
fn the_events_of_a_path_have_every_byte_that_was_read_of_it() {
    let _test = start_recording();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (first, second) = (lines(20_000), lines(500));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&first).unwrap();
    let (gzip, zstandard) = (gzip.finish().unwrap(), zstd::encode_all(&first[..], 1).unwrap());
    fs::write(path("plain.log"), &first).unwrap();
    fs::write(path("old.log.gz"), &gzip).unwrap();
    fs::write(path("older.log.zst"), &zstandard).unwrap();
    let mut rig = SourceRig::new(&["a"]);
    rig.until_eof = true;
    // Do this once before measuring: the first expression in a process reads the number of
    // processors, and the first source reads the number of files it may watch.
    drop(FileSource::open(settings(folder.path(), "none"), SourceRig::new(&["b"]).open()).unwrap());
    let of_source = settings(folder.path(), "*.log*");
    let truth = thread_bytes(|| {
        let mut source = FileSource::open(of_source, rig.open()).unwrap();
        assert_eq!(read(&mut rig, &mut source), 60_000);
    });
    let reads = below(EventKind::FileRead, folder.path());
    assert_eq!(bytes(&reads), truth.read, "{reads:?}");
    assert_eq!(reads.len(), 3);
    for (name, content) in
        [("plain.log", &first), ("old.log.gz", &gzip), ("older.log.zst", &zstandard)]
    {
        let sum = reads[&path(name).display().to_string()];
        // The file's head is read more than once, to identify the file.
        assert!(sum.bytes >= content.len() as u64, "{name}: {sum:?} of {}", content.len());
        assert!(sum.flags > 0, "{name}: the end of the file was read");
    }

    // Data that is appended after a restart.
    OpenOptions::new().append(true).open(path("plain.log")).unwrap().write_all(&second).unwrap();
    rig.commit();
    rig = rig.restart();
    rig.until_eof = true;
    let again = thread_bytes(|| {
        let mut source = FileSource::open(settings(folder.path(), "*.log*"), rig.open()).unwrap();
        assert_eq!(read(&mut rig, &mut source), 500);
    });
    let all = below(EventKind::FileRead, folder.path());
    assert_eq!(bytes(&all), truth.read + again.read);
    assert!(again.read < first.len() as u64, "only what is new was read");
}

#[test]
fn the_copy_of_a_deleted_file_is_recorded_with_its_syncs() {
    let _test = start_recording();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    let text = lines(100_000);
    fs::write(&path, &text).unwrap();
    let mut rig = SourceRig::new(&["a"]);
    rig.ready = SinkSet::EMPTY;
    let settings = settings(folder.path(), "*.log*");
    let held = HeldSettings { link: false, ..settings.held };
    let mut source = FileSource::open(TailSettings { held, ..settings }, rig.open()).unwrap();
    let poll = |rig: &mut SourceRig, source: &mut FileSource| {
        rig.poll(source);
        rig.advance(STEP);
    };
    poll(&mut rig, &mut source);
    fs::remove_file(&path).unwrap();
    poll(&mut rig, &mut source);
    let truth = thread_bytes(|| source.hold(Instant::now() + PATIENCE));
    let written = below(EventKind::FileWrite, &rig.held_dir);
    assert_eq!((written.len(), bytes(&written)), (1, truth.written), "{written:?}");
    assert!(truth.written >= text.len() as u64);
    let (copy, _) = written.first_key_value().unwrap();
    let syncs = recorded(EventKind::FileSync);
    let held = rig.held_dir.display().to_string();
    assert!(syncs[copy].events == 1 && syncs[&held].events >= 1, "{syncs:?}");
}
