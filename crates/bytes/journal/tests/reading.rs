//! Undamaged journals: all entries, seeks and matches.

use crate::export::Exported;
use crate::fixtures::{NAMES, Whole, exported, journal, open, rest, whole};
use millstream_journal::{Error, JournalFile, ReaderLimits, State};
use std::collections::HashSet;

fn assert_equal(name: &str, entry: &Whole, exported: &Exported) {
    let cursor = &exported.cursor;
    let number = |key: &str| u64::from_str_radix(&cursor[key], 16).unwrap();
    let read = entry.entry;
    assert_eq!(read.seqnum, number("i"), "{name}");
    assert_eq!(read.monotonic, number("m"), "{name}");
    assert_eq!(read.realtime, number("t"), "{name}");
    assert_eq!(read.xor_hash, number("x"), "{name}");
    assert_eq!(read.boot_id.to_string(), cursor["b"], "{name}");
    let boot = (b"_BOOT_ID".to_vec(), cursor["b"].clone().into_bytes());
    assert!(entry.pairs.contains(&boot), "{name}");
    let pairs: Vec<_> = entry.pairs.iter().filter(|pair| **pair != boot).collect();
    assert_eq!(pairs, exported.pairs.iter().collect::<Vec<_>>(), "{name}, entry {}", read.seqnum);
}

#[test]
fn every_field_equals_the_export_of_journalctl() {
    for name in NAMES {
        let (bytes, exported) = (journal(name), exported(name));
        let mut journal = open(&bytes);
        assert_eq!(journal.header().n_entries, exported.len() as u64);
        assert_eq!(journal.header().seqnum_id.to_string(), exported[0].cursor["s"]);
        let entries = rest(&mut journal);
        assert_eq!(entries.len(), exported.len(), "{name}");
        entries.iter().zip(&exported).for_each(|(entry, other)| assert_equal(name, entry, other));
        // Journalctl dumps a field with 20 kB and more; so does the reader.
        let longest = entries.iter().flat_map(|entry| &entry.pairs).map(|(_, value)| value.len());
        assert!(longest.max() > Some(20_000), "{name}");
    }
}

#[test]
fn headers_name_the_format() {
    for name in NAMES {
        let bytes = journal(name);
        let journal = open(&bytes);
        let header = journal.header();
        let is_compact = name.contains("compact") || *name == "252-sealed";
        assert_eq!(header.is_compact(), is_compact, "{name}");
        assert_eq!(header.is_sealed(), *name == "252-sealed", "{name}");
        let is_unkeyed = ["245-lz4", "247-lz4", "257-unkeyed"].contains(name);
        assert_eq!(header.is_keyed(), !is_unkeyed, "{name}");
        assert_eq!(header.is_xz(), name.contains("xz"), "{name}");
        assert_eq!(header.is_lz4(), name.contains("lz4") || *name == "247-keyed", "{name}");
        assert_eq!(header.is_zstd(), !header.is_xz() && !header.is_lz4(), "{name}");
        assert_eq!(header.state, State::Offline, "{name}");
        assert_eq!((header.head_entry_seqnum, header.tail_entry_seqnum), (1, header.n_entries));
    }
}

#[test]
fn a_seek_finds_every_entry() {
    for name in NAMES {
        let bytes = journal(name);
        let mut journal = open(&bytes);
        let entries = rest(&mut journal);
        for Whole { entry, .. } in &entries {
            journal.seek_seqnum(entry.seqnum).unwrap();
            assert_eq!(journal.next_entry().unwrap(), Some(*entry), "{name}");
            journal.seek_realtime(entry.realtime).unwrap();
            assert_eq!(journal.next_entry().unwrap(), Some(*entry), "{name}");
            journal.seek_realtime(entry.realtime - 1).unwrap();
            assert_eq!(journal.next_entry().unwrap(), Some(*entry), "{name}");
        }
        let last = entries.last().unwrap().entry;
        journal.seek_seqnum(last.seqnum + 1).unwrap();
        assert_eq!(journal.next_entry().unwrap(), None);
        journal.seek_realtime(last.realtime + 1).unwrap();
        assert_eq!(journal.next_entry().unwrap(), None);
        journal.seek_seqnum(0).unwrap();
        assert_eq!(rest(&mut journal).len(), entries.len());
    }
}

#[test]
fn every_field_is_found_by_its_content() {
    for name in NAMES {
        let bytes = journal(name);
        let mut journal = open(&bytes);
        let mut found = HashSet::new();
        while let Some(entry) = journal.next_entry().unwrap() {
            let ids = journal.field_ids().to_vec();
            let pairs = whole(&mut journal, entry).unwrap().pairs;
            for (id, (field, value)) in ids.into_iter().zip(pairs) {
                if found.insert(id) {
                    let pair = [&field[..], b"=", &value].concat();
                    assert_eq!(journal.find_field(&pair).unwrap(), Some(id), "{name}");
                }
            }
        }
        assert_eq!(journal.find_field(b"_SYSTEMD_UNIT=none.service").unwrap(), None);
    }
}

#[test]
fn entries_are_filtered_by_ids() {
    for name in NAMES {
        let bytes = journal(name);
        let mut journal = open(&bytes);
        let unit = (b"_SYSTEMD_UNIT".to_vec(), b"nginx.service".to_vec());
        let entries = rest(&mut journal);
        let expected: Vec<_> = entries.iter().filter(|entry| entry.pairs.contains(&unit)).collect();
        let id = journal.find_field(b"_SYSTEMD_UNIT=nginx.service").unwrap().unwrap();
        journal.seek_seqnum(0).unwrap();
        for expected in expected {
            let entry = journal.next_entry_if(|_, ids| ids.contains(&id)).unwrap().unwrap();
            assert_eq!(entry, expected.entry);
            assert_eq!(whole(&mut journal, entry).unwrap().pairs, expected.pairs);
        }
        assert_eq!(journal.next_entry_if(|_, ids| ids.contains(&id)).unwrap(), None);
    }
}

#[test]
fn other_files_are_errors() {
    let open = |bytes: &[u8]| JournalFile::open(bytes, ReaderLimits::default()).err().unwrap();
    assert!(matches!(open(b""), Error::NotAJournal));
    assert!(matches!(open(&[b'x'; 5000]), Error::NotAJournal));
    let mut bytes = journal("252-sealed");
    assert!(matches!(open(&bytes[..100]), Error::NotAJournal));
    bytes[12] |= 1 << 5;
    bytes[14] |= 1;
    let error = open(&bytes).to_string();
    assert!(error.contains("1 << 5 and 1 << 16"), "{error}");
}
