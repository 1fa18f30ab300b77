//! Segments of disk buffers: any bytes, and valid segments that are changed.

use crate::Random;
use millstream_spool::inspect::{Parsed, parse};
use millstream_spool::{Entry, EntryMeta, EntryNumber, Folder, SourceRange, Spool, SpoolOptions};
use std::collections::BTreeMap;
use std::path::Path;

/// First bytes of a segment.
const MAGIC: &[u8] = b"\x89MSPOOL\n";

/// First bytes of an entry.
const ENTRY_MAGIC: &[u8] = b"\xD7MSENT\x01\n";

pub const WORDS: &[&[u8]] = &[
    MAGIC,
    ENTRY_MAGIC,
    b"\xD7MSEND\x01\n",
    b"\x01\0\0\0",
    b"\x02\0\0\0",
    b"\xFF\xFF\xFF\xFF",
    b"\xFF\xFF",
    b"\0\0\0\0\0\0\0\0",
    b"\x58\0\0\0",
    b"text/1",
];

/// Maximum number of entries in a segment that is written and changed.
const ENTRIES_MAX: usize = 6;

/// Maximum number of changes to a segment.
const CHANGES_MAX: usize = 4;

/// Checks that the entries read from any bytes can be written and read again, and that only written
/// entries are read from a changed segment.
pub fn spool(input: &[u8]) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    if let Ok(parsed) = parse(input) {
        assert_eq!(parsed.info.bytes, input.len() as u64);
        assert_eq!(parsed.info.entries, parsed.entries.len() as u64);
        let lost: u64 = parsed.info.damage.iter().map(|damage| damage.bytes).sum();
        assert!(lost <= input.len() as u64);
        assert_eq!(read(&write(&folder.path().join("again"), &parsed.entries)), parsed.entries);
    }
    let mut random = Random::of(input);
    let pieces = without_entries(input);
    let written = entries(&pieces, &mut random);
    let segments = write(&folder.path().join("written"), &written);
    assert_eq!(read(&segments), written);
    let segment = segments.into_iter().next().unwrap_or_default();
    let by_number: BTreeMap<EntryNumber, &Entry> =
        written.iter().map(|entry| (entry.meta.number, entry)).collect();
    let changed = changed(segment, &pieces, &mut random);
    let read = parse(&changed).map(|parsed| parsed.entries).unwrap_or_default();
    assert!(read.is_sorted_by_key(|entry| entry.meta.number));
    for entry in &read {
        let is_written = by_number.get(&entry.meta.number) == Some(&entry);
        assert!(is_written, "read, but not written: {entry:?}");
    }
}

/// Returns the input with the first bytes of every entry overwritten. Otherwise, an entry of the
/// input that a change moves into a segment would be valid there.
fn without_entries(input: &[u8]) -> Vec<u8> {
    let mut pieces = input.to_vec();
    for at in 0..pieces.len() {
        if pieces[at..].starts_with(ENTRY_MAGIC) {
            pieces[at..at + ENTRY_MAGIC.len()].fill(0);
        }
    }
    pieces
}

/// Returns entries whose payloads are pieces of the input.
fn entries(input: &[u8], random: &mut Random) -> Vec<Entry> {
    let count = 1 + random.below(ENTRIES_MAX);
    let pieces = input.chunks(input.len().div_ceil(count).max(1));
    pieces.enumerate().map(|(index, piece)| entry(index as u64, piece, random)).collect()
}

fn entry(index: u64, piece: &[u8], random: &mut Random) -> Entry {
    let cut = random.below(piece.len() + 1);
    let parts = [&piece[..cut], &piece[cut..]].map(|part| part.to_vec().into()).to_vec();
    let range = SourceRange { source: "app".into(), origin: index, start: 0, end: random.draw() };
    let meta = EntryMeta {
        number: EntryNumber(index * 3 + random.below(3) as u64),
        written_ms: random.draw() as i64,
        events: random.draw(),
        lane: random.draw() as u16,
        lanes: random.draw() as u16,
        format: "text/1".into(),
        ranges: vec![range; random.below(3)],
        completes: random.below(2) == 0,
    };
    let [routing, rows] = [random.below(9), random.below(9)].map(|len| vec![len as u8; len].into());
    Entry { meta, parts, routing, rows }
}

/// Returns the entries of undamaged segments.
fn read(segments: &[Vec<u8>]) -> Vec<Entry> {
    let parsed: Vec<Parsed> =
        segments.iter().map(|bytes| parse(bytes).expect("this version")).collect();
    assert!(parsed.iter().all(|segment| segment.info.damage.is_empty()));
    parsed.into_iter().flat_map(|segment| segment.entries).collect()
}

/// Returns the bytes of the segments with these entries.
fn write(folder: &Path, entries: &[Entry]) -> Vec<Vec<u8>> {
    let disk = Folder::open(folder).expect("a folder");
    let mut spool = Spool::open(Box::new(disk), SpoolOptions::default(), EntryNumber(0)).unwrap();
    entries.iter().for_each(|entry| spool.append(&entry.as_new()).expect("room"));
    spool.sync().expect("room");
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "spool"));
    names.sort();
    names.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Changes bytes of a segment, truncates it, moves pieces of it, and inserts pieces of the input.
fn changed(mut segment: Vec<u8>, input: &[u8], random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(CHANGES_MAX) {
        let at = random.below(segment.len());
        match random.below(5) {
            0 if !segment.is_empty() => segment[at] ^= 1 << random.below(8),
            1 => segment.truncate(at),
            2 => {
                let piece = segment[at..].to_vec();
                segment.splice(random.below(at + 1).., piece);
            }
            3 => {
                let len = random.below(input.len() + 1).min(segment.len() - at.min(segment.len()));
                segment[at..at + len].copy_from_slice(&input[..len]);
            }
            _ => segment.extend_from_slice(input),
        }
    }
    segment
}
