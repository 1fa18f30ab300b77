//! Journal files of systemd: any bytes, and valid files that are changed.

mod writer;

use crate::Random;
use millstream_journal::{Error, JournalFile, ReaderLimits};
use writer::{Format, Pair, Written, write};

pub const WORDS: &[&[u8]] = &[
    b"LPKSHHRH",
    b"\x01\0\0\0\0\0\0\0",
    b"\x03\0\0\0\0\0\0\0",
    b"\x06\0\0\0\0\0\0\0",
    b"\x10\x01\0\0\0\0\0\0",
    b"\x40\0\0\0\0\0\0\0",
    b"\0\0\0\0\0\0\0\0",
    b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    b"MESSAGE=",
    b"\x28\xB5\x2F\xFD",
    b"\xFD7zXZ\0",
];

/// Maximum number of changes to a file.
const CHANGES_MAX: usize = 3;

/// Maximum bytes of a change: fewer than the shortest entry has, because the input may contain
/// entries that are valid in the file.
const CHANGE_BYTES_MAX: usize = 48;

/// Small limits, which a small input reaches.
const SMALL: ReaderLimits = ReaderLimits {
    field_bytes_max: 300,
    entry_bytes_max: 2_000,
    entry_fields_max: 10,
    cache_bytes: 0,
    block_bytes: 0,
};

/// What a reader returns for an entry.
#[derive(Debug, PartialEq)]
struct Read {
    seqnum: u64,
    times: [u64; 2],
    /// The fields that are neither damaged nor truncated.
    pairs: Vec<Pair>,
    is_complete: bool,
}

/// Checks that the same entries are read from any bytes by readers with different caches, and that
/// only written entries are read from a changed file.
pub fn journal(input: &[u8]) {
    let cached = read(input, ReaderLimits::default());
    let uncached =
        read(input, ReaderLimits { cache_bytes: 0, block_bytes: 0, ..ReaderLimits::default() });
    assert_eq!(cached, uncached);
    read(input, SMALL);
    let mut random = Random::of(input);
    let format = Format::ALL[random.below(Format::ALL.len())];
    let (file, written) = write(format, input, &mut random);
    let all = read(&file, ReaderLimits::default());
    assert_eq!(all.len(), written.len());
    for (read, written) in all.iter().zip(&written) {
        assert!(read.is_complete && equals(read, written), "{read:?}, not {written:?}");
    }
    let file = changed(file, input, &mut random);
    for entry in read(&file, ReaderLimits::default()) {
        // The number and the times of an entry have no hash.
        let is_written = written.iter().any(|written| is_part(&entry.pairs, &written.pairs));
        assert!(is_written, "read, but not written: {entry:?}");
    }
}

fn equals(read: &Read, written: &Written) -> bool {
    (read.seqnum, read.times, &read.pairs) == (written.seqnum, written.times, &written.pairs)
}

/// Returns true if the pairs are some of `all`.
fn is_part(pairs: &[Pair], all: &[Pair]) -> bool {
    pairs.iter().all(|pair| all.contains(pair))
}

/// Reads all entries with undamaged numbers, and tries seeks and matches.
fn read(file: &[u8], limits: ReaderLimits) -> Vec<Read> {
    let Ok(mut journal) = JournalFile::open(file, limits) else { return Vec::new() };
    let mut entries = Vec::new();
    // Every result is due to a different offset of eight bytes.
    for _ in 0..=file.len() / 2 {
        let entry = match journal.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                search(&mut journal, entries.last());
                return entries;
            }
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. }));
                continue;
            }
        };
        let Ok(fields) = journal.fields() else { continue };
        let mut pairs = Vec::new();
        let mut is_complete = true;
        for field in fields {
            match field {
                Ok(field) if field.truncated.is_none() => {
                    assert!(field.name.len() + field.value.len() < limits.field_bytes_max);
                    pairs.push((field.name.to_vec(), field.value.to_vec()));
                }
                _ => is_complete = false,
            }
        }
        let times = [entry.realtime, entry.monotonic];
        entries.push(Read { seqnum: entry.seqnum, times, pairs, is_complete });
    }
    panic!("no end after {} entries", entries.len());
}

/// Tries the functions that search.
fn search(journal: &mut JournalFile<&[u8]>, last: Option<&Read>) {
    let (seqnum, realtime) = last.map_or((1, 1), |last| (last.seqnum, last.times[0]));
    journal.seek_realtime(realtime).unwrap();
    journal.seek_seqnum(seqnum).unwrap();
    let _ = journal.next_entry_if(|_, ids| !ids.is_empty());
    if let Some((name, value)) = last.and_then(|last| last.pairs.first()) {
        let _ = journal.find_field(&[name, &b"="[..], value].concat());
    }
    assert!(!journal.refresh().unwrap());
}

/// Changes a few bytes of a file, or removes its end.
fn changed(mut file: Vec<u8>, input: &[u8], random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(CHANGES_MAX) {
        let at = random.below(file.len());
        match random.below(4) {
            0 if !file.is_empty() => file[at] ^= 1 << random.below(8),
            1 => file.truncate(at.max(300)),
            2 => {
                let from = random.below(input.len() + 1);
                let piece = &input[from..(from + CHANGE_BYTES_MAX).min(input.len())];
                let len = piece.len().min(file.len() - at);
                file[at..at + len].copy_from_slice(&piece[..len]);
            }
            _ => {
                let len = random.below(CHANGE_BYTES_MAX).min(file.len() - at);
                file[at..at + len].fill(0);
            }
        }
    }
    file
}
