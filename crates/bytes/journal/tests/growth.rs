//! A journal that grows while it is read, changed in the order in which journald changes it.

use crate::fixtures::{NAMES, Whole, journal, open, rest};
use millstream_journal::{JournalFile, ReadAt, ReaderLimits};
use std::cell::RefCell;
use std::io;

/// A file that changes.
struct Growing(RefCell<Vec<u8>>);

impl ReadAt for &Growing {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (&self.0.borrow()[..]).read_at(buffer, offset)
    }
}

fn number(bytes: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap())
}

fn set(bytes: &mut [u8], at: u64, value: u64) {
    bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
}

/// Returns the end of the object at an offset.
fn end(bytes: &[u8], offset: u64) -> u64 {
    (offset + number(bytes, offset + 8)).next_multiple_of(8)
}

/// How far the writer is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// The entry is complete, and the header counts it.
    Counted,
    /// The next entry has half of its bytes.
    Half,
    /// The next entry is complete and in its array, but not counted.
    Linked,
}

/// Returns the file as it was with some entries.
fn earlier(bytes: &[u8], entries: &[Whole], count: usize, step: Step) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let header_size = number(bytes, 88);
    let next = entries.get(count).map(|next| next.entry.offset);
    let (complete, written) = match (step, next) {
        (Step::Counted, _) | (_, None) => {
            let last = count.checked_sub(1).map(|last| entries[last].entry.offset);
            let end = end_with_arrays(bytes, last.unwrap_or(header_size));
            (end, end)
        }
        (Step::Half, Some(next)) => (next, next + 100),
        (Step::Linked, Some(next)) => (end_with_arrays(bytes, next), end_with_arrays(bytes, next)),
    };
    file[written as usize..].fill(0);
    unlink(&mut file, bytes, complete);
    file[16] = 1;
    let mut tail = header_size;
    let mut object = header_size;
    while object < written {
        tail = object;
        object = end(bytes, object);
    }
    set(&mut file, 136, tail);
    set(&mut file, 152, count as u64);
    let is_begun = u64::from(step != Step::Counted && next.is_some());
    set(&mut file, 160, count as u64 + is_begun);
    file
}

/// Returns the end of an object, and of the arrays, tables and tags behind it.
fn end_with_arrays(bytes: &[u8], offset: u64) -> u64 {
    let mut object = end(bytes, offset);
    while matches!(bytes[object as usize], 4..=7) {
        object = end(bytes, object);
    }
    object
}

/// Removes the links to entries and arrays from `complete` on from the arrays.
fn unlink(file: &mut [u8], bytes: &[u8], complete: u64) {
    let is_compact = bytes[12] & 16 != 0;
    let mut array = number(bytes, 176);
    if array >= complete {
        set(file, 176, 0);
    }
    while array != 0 && array < complete {
        let width = if is_compact { 4 } else { 8 };
        let (items, end) = (array + 24, array + number(bytes, array + 8));
        for item in (items..end).step_by(width as usize) {
            let at = item as usize..(item + width) as usize;
            let mut offset = [0; 8];
            offset[..width as usize].copy_from_slice(&bytes[at.clone()]);
            if u64::from_le_bytes(offset) >= complete {
                file[at].fill(0);
            }
        }
        let next = number(bytes, array + 16);
        if next >= complete {
            set(file, array + 16, 0);
        }
        array = next;
    }
}

#[test]
fn appended_entries_are_read_once_and_whole() {
    for name in NAMES {
        let bytes = journal(name);
        let entries = rest(&mut open(&bytes));
        let file = Growing(RefCell::new(earlier(&bytes, &entries, 0, Step::Counted)));
        let mut journal = JournalFile::open(&file, ReaderLimits::default()).unwrap();
        assert_eq!(journal.next_entry().unwrap(), None);
        let mut read = Vec::new();
        for count in 0..=entries.len() {
            for step in [Step::Counted, Step::Half, Step::Linked] {
                *file.0.borrow_mut() = earlier(&bytes, &entries, count, step);
                // Every third state is not seen by the reader.
                if (count + step as usize).is_multiple_of(3) {
                    continue;
                }
                journal.refresh().unwrap();
                read.extend(rest(&mut journal));
                assert_eq!(read.len(), count, "{name}, {step:?}");
            }
        }
        assert_eq!(read.len(), entries.len());
        for (read, expected) in read.iter().zip(&entries) {
            assert_eq!((read.entry, &read.pairs), (expected.entry, &expected.pairs), "{name}");
        }
    }
}

#[test]
fn a_seek_behind_the_last_entry_waits_for_the_next() {
    let bytes = journal("252-compact");
    let entries = rest(&mut open(&bytes));
    for count in [0, 1, 4, 5, 100] {
        let file = Growing(RefCell::new(earlier(&bytes, &entries, count, Step::Counted)));
        let mut journal = JournalFile::open(&file, ReaderLimits::default()).unwrap();
        journal.seek_seqnum(count as u64 + 1).unwrap();
        assert_eq!(journal.next_entry().unwrap(), None);
        assert!(!journal.refresh().unwrap());
        *file.0.borrow_mut() = bytes.clone();
        assert!(journal.refresh().unwrap());
        assert_eq!(journal.next_entry().unwrap(), Some(entries[count].entry));
    }
}

#[test]
fn another_file_in_the_place_is_an_error() {
    let file = Growing(RefCell::new(journal("252-compact")));
    let mut reader = JournalFile::open(&file, ReaderLimits::default()).unwrap();
    *file.0.borrow_mut() = journal("252-sealed");
    assert!(reader.refresh().unwrap_err().to_string().contains("the id"));
}
