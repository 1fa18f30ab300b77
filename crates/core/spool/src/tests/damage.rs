//! Damaged bytes: the entries that are lost and returned, and the files that are kept.

use super::disk::{Disk, Files};
use super::*;
use crate::scan::{Frame, Scanner};
use millstream_testkit_random::{Seed, TestSize};

/// Returns three segments, of which the last one has no footer, and their entries.
fn written() -> (Files, Vec<Entry>) {
    let disk = Disk::default();
    let mut spool = disk.open(0).unwrap();
    let written: Vec<Entry> = (0..8).map(entry).collect();
    add(&mut spool, &written);
    let files = disk.files();
    assert_eq!(files.names.len(), 3);
    (files, written)
}

/// Returns the same segments after a restart, which adds the missing footer.
fn sealed() -> (Files, Vec<Entry>) {
    let (files, written) = written();
    let disk = Disk::of(files);
    drop(disk.open(0).unwrap());
    (disk.files(), written)
}

/// The entries and the damage that a start finds in damaged files.
struct FoundEntry {
    entries: Vec<Entry>,
    damage: Vec<Damage>,
}

fn find(files: Files) -> FoundEntry {
    let mut spool = Disk::of(files).open(0).unwrap();
    FoundEntry { entries: rest(&mut spool), damage: spool.damage() }
}

/// Checks that only written entries are returned, and returns the numbers of the missing entries.
fn missing(found: &FoundEntry, written: &[Entry]) -> Vec<u64> {
    let mut rest = found.entries.iter().peekable();
    let missing = written.iter().filter(|entry| rest.next_if_eq(entry).is_none());
    let missing = missing.map(|entry| entry.meta.number.0).collect();
    assert_eq!(rest.next(), None, "returned, but not written");
    missing
}

/// Checks the counts of lost entries. The end of the last segment may be a torn write.
fn check_counts(found: &FoundEntry, missing: &[u64], is_last: bool) {
    let events: u64 = missing.iter().map(|number| entry(*number).meta.events).sum();
    let sum =
        |count: fn(&Damage) -> Option<u64>| found.damage.iter().map(count).sum::<Option<u64>>();
    let is_counted = found.damage.iter().all(|damage| damage.entries.is_some());
    match (found.damage.is_empty(), is_last, is_counted) {
        (true, true, _) => {}
        (true, false, _) => panic!("damage is not noticed"),
        (false, _, false) => assert!(!is_last),
        (false, ..) => {
            assert_eq!(sum(|damage| damage.entries), Some(missing.len() as u64));
            assert_eq!(sum(|damage| damage.events), Some(events));
        }
    }
}

#[test]
fn a_changed_byte_costs_at_most_its_entry() {
    for (files, written) in [written(), sealed()] {
        for (index, name) in files.segments().iter().enumerate() {
            for at in 0..files.of(name).len() {
                for change in [|b| b ^ 1, |b| b ^ 0x80, |b: u8| !b, |_| 0, |_| 0xD7] {
                    let mut changed = files.clone();
                    let byte = &mut changed.of_mut(name)[at];
                    if *byte == change(*byte) {
                        continue;
                    }
                    *byte = change(*byte);
                    let found = find(changed);
                    let missing = missing(&found, &written);
                    assert!(missing.len() <= 1, "{name}, byte {at}: {missing:?} are lost");
                    check_counts(&found, &missing, index == 2);
                }
            }
        }
    }
}

#[test]
fn a_cut_file_costs_what_was_behind_the_cut() {
    for (files, written) in [written(), sealed()] {
        for (index, name) in files.segments().iter().enumerate() {
            let ends = ends_in(files.of(name));
            for len in 0..files.of(name).len() {
                let mut cut = files.clone();
                cut.of_mut(name).truncate(len);
                let found = find(cut.clone());
                let missing = missing(&found, &written);
                check_counts(&found, &missing, index == 2);
                let behind = ends.iter().filter(|(_, end)| *end > len as u64);
                assert!(missing.iter().eq(behind.map(|(number, _)| number)), "{name}, {len} bytes");
            }
        }
    }
}

/// Returns the entries of a segment, and the end position of each.
fn ends_in(content: &[u8]) -> Vec<(u64, u64)> {
    let mut bytes = content;
    let Ok(frame) = Frame::read(&mut bytes).unwrap() else { panic!("another version") };
    let mut scanner = Scanner::new(&frame);
    let mut next = || scanner.step(&mut bytes, |_| true).unwrap().found;
    let ends = std::iter::from_fn(|| next().map(|found| found.header));
    ends.map(|header| (header.meta.number.0, header.end().at)).collect()
}

/// Number of damaged ranges to test.
const RANGES: TestSize = TestSize { gate: 2000, long: 100_000 };

#[test]
fn a_damaged_range_costs_the_entries_in_it() {
    let (files, written) = sealed();
    let mut random = Seed::of_test_or(7).random();
    for case in random.rounds(RANGES) {
        let mut changed = files.clone();
        let names = files.segments();
        let name = &names[random.usize(..2)];
        let content = changed.of_mut(name);
        let from = random.usize(..content.len());
        let to = random.usize(from..=content.len());
        content[from..to].iter_mut().for_each(|byte| *byte = random.u8(..));
        let found = find(changed);
        println!("case {case}: {name} {from}..{to}");
        let missing = missing(&found, &written);
        let counted = found.damage.iter().filter_map(|damage| damage.entries).sum::<u64>();
        let is_known = found.damage.iter().all(|damage| damage.entries.is_some());
        assert!(!is_known || counted == missing.len() as u64, "{:?}", found.damage);
    }
}

/// The payloads contain the bytes of the same disk buffer, of another one, or only the magic bytes.
#[test]
fn an_entry_inside_a_payload_is_never_returned() {
    let (mut inner, _) = sealed();
    let name = inner.segments().swap_remove(0);
    let own_start = inner.of(&name).clone();
    let payloads = [own_start, crate::format::ENTRY_MAGIC.repeat(20)];
    for payload in payloads {
        let disk = Disk::default();
        let mut spool = disk.open(0).unwrap();
        let mut outer = entry(3);
        outer.parts = vec![Bytes::from(payload)];
        add(&mut spool, &[entry(2), outer.clone(), entry(4)]);
        // A payload that contains the beginning of the file it is in.
        let own: Vec<u8> = disk.files().contents.concat();
        let mut copy = entry(5);
        copy.parts = vec![Bytes::from(own)];
        add(&mut spool, &[copy.clone(), entry(6)]);
        let all = [entry(2), outer, entry(4), copy, entry(6)];
        inner = disk.files();
        for name in inner.segments() {
            for at in 0..inner.of(&name).len() {
                let mut changed = inner.clone();
                changed.of_mut(&name)[at] ^= 0x10;
                // The segment header, which contains the salt, is damaged as well.
                for is_header_damaged in [false, true] {
                    changed.of_mut(&name)[0] ^= u8::from(is_header_damaged && at > 0);
                    let found = find(changed.clone());
                    assert!(missing(&found, &all).len() <= 1, "{name}, byte {at}");
                }
            }
        }
    }
}

/// A file contains bytes of another disk buffer, at the position where they were in that file.
#[test]
fn an_entry_of_another_segment_at_its_own_position_is_not_returned() {
    let (other, _) = sealed();
    let other = other.of(&other.segments()[0]).clone();
    let (_, first_end) = ends_in(&other)[0];
    let disk = Disk::default();
    let mut spool = disk.open(0).unwrap();
    let mut outer = entry_of(0, 0, "text/1");
    outer.parts = vec![Bytes::from(vec![0; 200])];
    add(&mut spool, &[outer.clone(), entry(4)]);
    // Position of the payload in the file.
    let file = disk.files().contents.concat();
    let zeros = memchr::memmem::find(&file, &[0; 100]).unwrap();
    drop(spool);
    let mut payload = vec![0; other.len()];
    let from = first_end as usize;
    payload[from - zeros..from - zeros + other.len() - from].copy_from_slice(&other[from..]);
    outer.parts = vec![Bytes::from(payload)];
    let disk = Disk::default();
    add(&mut disk.open(0).unwrap(), &[outer.clone(), entry(4)]);
    let mut files = disk.files();
    let name = files.segments().swap_remove(0);
    // After this, the length of the entry is unknown.
    files.of_mut(&name)[zeros - 90] ^= 1;
    assert_eq!(&files.of(&name)[from..from + 8], crate::format::ENTRY_MAGIC);
    assert_eq!(missing(&find(files), &[outer, entry(4)]), [0]);
}

/// One spool contains a file of another spool under a segment's name; another contains a segment
/// under two names.
#[test]
fn a_copied_segment_is_returned_once() {
    let (mut files, written) = sealed();
    let names = files.segments();
    let copy = files.of(&names[0]).clone();
    files.contents.push(copy);
    files.names.insert("00000000000000000099.spool".to_owned(), files.contents.len() - 1);
    assert_eq!(missing(&find(files.clone()), &written), [0; 0]);
    // No file has this name, so a segment that begins with this number can get it.
    let disk = Disk::of(files);
    let mut spool = disk.open(0).unwrap();
    assert_eq!(spool.stats().next_number, EntryNumber(8));
    add(&mut spool, &[entry(99)]);
    assert_eq!(rest(&mut spool).last(), Some(&entry(99)));
}

#[test]
fn damaged_segments_are_kept_when_they_are_released() {
    let (mut files, _) = sealed();
    let names = files.segments();
    for name in &names {
        let middle = files.of(name).len() / 2;
        files.of_mut(name)[middle] ^= 1;
    }
    let disk = Disk::of(files.clone());
    let mut spool = disk.open(0).unwrap();
    rest(&mut spool);
    assert_eq!(spool.damage().len(), 3);
    assert_eq!(spool.damage(), []);
    spool.release(spool.stats().next_number).unwrap();
    let left = disk.files();
    let kept: Vec<String> =
        names[1..].iter().map(|name| name.replace(".spool", ".damaged")).collect();
    assert!(left.names.keys().eq(&kept), "{:?}", left.names);
    assert_eq!(left.of(&kept[0]), files.of(&names[1]));
    assert_eq!(spool.stats().segments, 0);
}

#[test]
fn what_was_settled_is_not_lost() {
    let (mut files, written) = sealed();
    let first = files.segments().swap_remove(0);
    // A byte of the first entry.
    files.of_mut(&first)[100] ^= 1;
    let mut spool = Disk::of(files).open(1).unwrap();
    assert_eq!(rest(&mut spool), written[1..]);
    assert_eq!(spool.damage(), []);
}

#[test]
fn a_newer_format_is_refused_and_nothing_is_changed() {
    let (mut files, _) = written();
    let last = files.segments().swap_remove(2);
    let content = files.of_mut(&last);
    content[8] = 2;
    let bytes = content[12] as usize - 8;
    let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&content[..bytes], 0);
    content[bytes..bytes + 8].copy_from_slice(&checksum.to_le_bytes());
    let disk = Disk::of(files);
    let Err(error) = disk.open(5) else { panic!("it opens") };
    assert!(matches!(error, SpoolError::Newer { found: 2, .. }));
    assert_eq!(
        error.to_string(),
        "disk buffer /disk has format 2, but this release reads 1; run the release that wrote the \
         buffer until the buffer is empty, or move the folder away"
    );
    assert_eq!(disk.len(), 0);
}

#[test]
fn a_missing_file_is_damage_and_the_rest_is_returned() {
    let (files, written) = sealed();
    let disk = Disk::of(files);
    let mut spool = disk.open(0).unwrap();
    let names = disk.files().segments();
    SpoolDisk::remove(&disk, &names[1]).unwrap();
    let found = FoundEntry { entries: rest(&mut spool), damage: spool.damage() };
    let missing = missing(&found, &written);
    assert!(!missing.is_empty());
    check_counts(&found, &missing, false);
    spool.release(spool.stats().next_number).unwrap();
    assert_eq!(disk.files().names.len(), 0);
}
