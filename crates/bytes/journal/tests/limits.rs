//! ReaderLimits of memory.

use crate::fixtures::{NAMES, journal, open, rest};
use millstream_journal::{JournalFile, ReaderLimits};

#[test]
fn long_values_are_truncated_and_reported() {
    for name in NAMES {
        let bytes = journal(name);
        let entries = rest(&mut open(&bytes));
        for field_bytes_max in [256, 300, 1000, 25_000] {
            let limits = ReaderLimits { field_bytes_max, ..ReaderLimits::default() };
            let mut journal = JournalFile::open(&bytes[..], limits).unwrap();
            for expected in &entries {
                assert_eq!(journal.next_entry().unwrap(), Some(expected.entry));
                for (field, (name, value)) in journal.fields().unwrap().zip(&expected.pairs) {
                    let field = field.unwrap();
                    let kept = value.len().min(field_bytes_max - name.len() - 1);
                    assert_eq!((field.name, field.value), (&name[..], &value[..kept]));
                    let truncated = (kept < value.len()).then_some(value.len() as u64);
                    assert_eq!(field.truncated, truncated);
                }
            }
        }
    }
}

#[test]
fn small_caches_change_no_entry() {
    for name in NAMES {
        let bytes = journal(name);
        let entries = rest(&mut open(&bytes));
        let limits = ReaderLimits { cache_bytes: 0, block_bytes: 0, ..ReaderLimits::default() };
        let mut journal = JournalFile::open(&bytes[..], limits).unwrap();
        for (entry, expected) in rest(&mut journal).iter().zip(&entries) {
            assert_eq!((entry.entry, &entry.pairs), (expected.entry, &expected.pairs));
        }
    }
}

#[test]
fn an_entry_with_too_many_fields_has_the_first_ones_and_an_error() {
    let bytes = journal("255-regular-xz");
    let limits = ReaderLimits { entry_fields_max: 5, ..ReaderLimits::default() };
    let mut journal = JournalFile::open(&bytes[..], limits).unwrap();
    journal.next_entry().unwrap().unwrap();
    let fields: Vec<_> = journal.fields().unwrap().collect();
    assert_eq!(fields.len(), 6);
    assert!(fields[..5].iter().all(Result::is_ok));
    assert!(fields[5].as_ref().unwrap_err().to_string().contains("limit"));
}

#[test]
fn the_fields_of_an_entry_share_a_limit() {
    let bytes = journal("252-regular");
    let entries = rest(&mut open(&bytes));
    let limits = ReaderLimits { entry_bytes_max: 2000, ..ReaderLimits::default() };
    let mut journal = JournalFile::open(&bytes[..], limits).unwrap();
    for expected in &entries {
        journal.next_entry().unwrap().unwrap();
        for (field, (name, value)) in journal.fields().unwrap().zip(&expected.pairs) {
            let field = field.unwrap();
            assert_eq!(field.name, name);
            assert!(value.starts_with(field.value) && field.value.len() <= 2000);
        }
    }
}
