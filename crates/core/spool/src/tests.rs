//! The entries that a spool keeps, and the effects of a crash, of damage, or of a failing disk.

mod basics;
mod crashes;
mod damage;
mod disk;
mod inspection;
mod model;
mod record;

use crate::*;
use std::path::Path;

/// Returns a folder in memory, where syncs cost nothing, if the system has one.
fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// Options with which a few entries fill a segment.
const SMALL: SpoolOptions = SpoolOptions { segment_bytes: 800 };

fn open_in(folder: &Path, options: SpoolOptions, settled: u64) -> Spool {
    let folder = Folder::open(folder).expect("a folder");
    Spool::open(Box::new(folder), options, EntryNumber(settled)).expect("a spool")
}

/// Returns an entry whose content depends on its number.
fn entry(number: u64) -> Entry {
    entry_of(number, 1 + number as usize * 7 % 60, "text/1")
}

/// Returns an entry with a payload of about this length.
fn entry_of(number: u64, bytes: usize, format: &str) -> Entry {
    let payload: Vec<u8> = (0..bytes).map(|at| (at as u64 * 31 + number * 7) as u8).collect();
    let payload = Bytes::from(payload);
    let cut = number as usize * 13 % (bytes + 1);
    let range = SourceRange {
        source: "app".into(),
        origin: number % 3,
        start: number * 100,
        end: number * 100 + 99,
    };
    Entry {
        meta: EntryMeta {
            number: EntryNumber(number),
            written_ms: 1_000_000 + number as i64,
            events: number % 5 + 1,
            lane: (number % 4) as u16,
            lanes: 4,
            format: format.into(),
            ranges: vec![range; number as usize % 3],
            completes: number.is_multiple_of(2),
        },
        parts: vec![payload.slice(..cut), payload.slice(cut..)],
        routing: Bytes::from(format!("topic-{}", number % 2)),
        rows: Bytes::from(vec![number as u8; number as usize % 4]),
    }
}

/// Appends entries, and syncs.
fn add(spool: &mut Spool, entries: &[Entry]) {
    entries.iter().for_each(|entry| spool.append(&entry.as_new()).expect("room"));
    spool.sync().expect("room");
}

/// Reads and returns all unread entries.
fn rest(spool: &mut Spool) -> Vec<Entry> {
    std::iter::from_fn(|| spool.next().expect("a readable disk")).collect()
}

/// Returns the names in a folder, except for the lock file.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "lock").collect();
    names.sort();
    names
}
