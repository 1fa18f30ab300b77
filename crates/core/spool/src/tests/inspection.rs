//! Inspection of a folder without a lock.

use super::*;
use crate::inspect::{OtherFormat, entries, parse, segments};

fn written(folder: &Path) -> (Spool, Vec<Entry>) {
    let mut spool = open_in(folder, SMALL, 0);
    let written: Vec<Entry> = (0..20).map(entry).collect();
    add(&mut spool, &written);
    (spool, written)
}

#[test]
fn segments_are_read_beside_the_owner() {
    let folder = memory_folder();
    let (_spool, written) = written(folder.path());
    let before = names(folder.path());
    let found = segments(folder.path()).unwrap();
    assert_eq!(
        found.iter().map(|info| &info.name).collect::<Vec<_>>(),
        before.iter().collect::<Vec<_>>()
    );
    assert_eq!(found.iter().map(|info| info.entries).sum::<u64>(), 20);
    let events = written.iter().map(|entry| entry.meta.events).sum::<u64>();
    assert_eq!(found.iter().map(|info| info.events).sum::<u64>(), events);
    assert_eq!(found[0].first, Some(EntryNumber(0)));
    assert_eq!(found.last().unwrap().last, Some(EntryNumber(19)));
    assert_eq!(found[0].first_written_ms, Some(1_000_000));
    assert_eq!(found.last().unwrap().last_written_ms, Some(1_000_019));
    for info in &found {
        assert_eq!(info.bytes, folder.path().join(&info.name).metadata().unwrap().len());
        assert_eq!((info.format.as_deref(), &info.damage), (Some("text/1"), &vec![]));
    }
    for from in 0..21 {
        let read = entries(folder.path(), EntryNumber(from)).unwrap();
        assert_eq!(read.map(Result::unwrap).collect::<Vec<_>>(), written[from as usize..]);
    }
    assert_eq!(names(folder.path()), before);
}

#[test]
fn a_torn_end_is_not_damage_and_a_changed_byte_is() {
    let folder = memory_folder();
    drop(written(folder.path()));
    let names = names(folder.path());
    let path = folder.path().join(&names[1]);
    let mut middle = std::fs::read(&path).unwrap();
    let at = middle.len() / 2;
    middle[at] ^= 1;
    std::fs::write(&path, middle).unwrap();
    let last = folder.path().join(names.last().unwrap());
    let whole = std::fs::read(&last).unwrap();
    std::fs::write(&last, &whole[..whole.len() - 10]).unwrap();
    let found = segments(folder.path()).unwrap();
    let damaged: Vec<&str> = found
        .iter()
        .filter(|info| !info.damage.is_empty())
        .map(|info| info.name.as_str())
        .collect();
    assert_eq!(damaged, [names[1].as_str()]);
    assert_eq!(found[1].damage[0].entries, Some(1));
    let read = entries(folder.path(), EntryNumber(0)).unwrap().map(Result::unwrap).count() as u64;
    assert_eq!(found.iter().map(|info| info.entries).sum::<u64>(), read);
    assert!((17..=19).contains(&read));
}

#[test]
fn a_missing_folder_is_empty() {
    let folder = memory_folder();
    let missing = folder.path().join("none");
    assert_eq!(segments(&missing).unwrap(), []);
    assert!(entries(&missing, EntryNumber(0)).unwrap().next().is_none());
}

#[test]
fn the_bytes_of_a_segment_are_parsed() {
    let folder = memory_folder();
    let (_spool, written) = written(folder.path());
    let mut found = Vec::new();
    for name in names(folder.path()) {
        let mut bytes = std::fs::read(folder.path().join(name)).unwrap();
        let parsed = parse(&bytes).unwrap();
        assert_eq!(parsed.info.entries, parsed.entries.len() as u64);
        found.extend(parsed.entries);
        bytes[8] = 9;
        assert!(!parse(&bytes).unwrap().info.damage.is_empty(), "the checksum is wrong");
        let end = bytes[12] as usize - 8;
        let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..end], 0);
        bytes[end..end + 8].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(parse(&bytes), Err(OtherFormat { found: 9 }));
    }
    assert_eq!(found, written);
    assert_eq!(parse(b"").unwrap().entries, []);
}
