//! The entries in the record that a start finds missing.

use super::disk::{Disk, Files};
use super::*;

const ENTRIES: u64 = 8;

/// Returns the files of three segments with all entries; the last segment has a footer if the agent
/// was stopped.
fn written(is_stopped: bool) -> Files {
    let disk = Disk::default();
    let mut spool = disk.open(0).unwrap();
    let all: Vec<Entry> = (0..ENTRIES).map(entry).collect();
    add(&mut spool, &all);
    if is_stopped {
        spool.finish().unwrap();
    }
    let files = disk.files();
    assert_eq!(files.names.len(), 3);
    files
}

fn events(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.map(|number| entry(number).meta.events).sum()
}

/// Returns a record of the entries from `settled` to `end`.
fn record(settled: u64, end: u64) -> SpoolRecord {
    SpoolRecord {
        settled: EntryNumber(settled),
        end: EntryNumber(end),
        entries: end - settled,
        events: events(settled..end),
    }
}

/// Opens the remaining files. Checks that each recorded entry is either returned or counted as
/// missing, once.
fn check(left: &Files, record: SpoolRecord) -> Files {
    let disk = Disk::of(left.clone());
    let mut spool = disk.open_recorded(record).unwrap();
    let found: Vec<u64> = rest(&mut spool).iter().map(|entry| entry.meta.number.0).collect();
    let is_lost = |number: &u64| !found.contains(number);
    let lost: Vec<u64> = (record.settled.0..record.end.0).filter(is_lost).collect();
    let damage = spool.damage();
    let in_damage = |count: fn(&Damage) -> Option<u64>| {
        damage.iter().map(|damage| count(damage).expect("a known number")).sum::<u64>()
    };
    let Missing { entries, events: missing_events } = spool.missing();
    if record.end.0 == ENTRIES {
        assert_eq!(entries + in_damage(|damage| damage.entries), lost.len() as u64, "{lost:?}");
        let counted = missing_events + in_damage(|damage| damage.events);
        assert_eq!(counted, events(lost.into_iter()));
    } else {
        assert!(entries <= lost.len() as u64, "{entries} of {lost:?}");
    }
    disk.files()
}

/// Returns records for each number of delivered entries and each end. A record may be older than
/// the files.
fn records() -> impl Iterator<Item = SpoolRecord> {
    let ends = |settled: u64| (settled..=ENTRIES).map(move |end| record(settled, end));
    (0..=ENTRIES).flat_map(ends)
}

#[test]
fn nothing_is_missing_of_files_that_are_whole() {
    for files in [written(false), written(true)] {
        for record in records() {
            let spool = Disk::of(files.clone()).open_recorded(record).unwrap();
            assert_eq!(spool.missing(), Missing::default(), "{record:?}");
        }
    }
}

#[test]
fn entries_of_removed_files_are_counted() {
    for files in [written(false), written(true)] {
        let names = files.segments();
        for gone in 1..1 << names.len() {
            let mut left = files.clone();
            let is_gone = |index: usize| gone & 1 << index != 0;
            let removed = names.iter().enumerate().filter(|(index, _)| is_gone(*index));
            removed.for_each(|(_, name)| _ = left.names.remove(name));
            records().for_each(|record| _ = check(&left, record));
        }
    }
}

#[test]
fn entries_behind_a_cut_are_counted() {
    for files in [written(false), written(true)] {
        for name in files.segments() {
            for length in 0..files.of(&name).len() {
                let mut left = files.clone();
                left.of_mut(&name).truncate(length);
                records().for_each(|record| _ = check(&left, record));
            }
        }
    }
}

#[test]
fn a_changed_byte_is_counted_once() {
    for files in [written(false), written(true)] {
        for name in files.segments() {
            for at in 0..files.of(&name).len() {
                let mut left = files.clone();
                left.of_mut(&name)[at] ^= 1;
                (0..=ENTRIES).for_each(|settled| _ = check(&left, record(settled, ENTRIES)));
            }
        }
    }
}

#[test]
fn a_copy_of_a_cut_file_is_kept() {
    let files = written(true);
    let last = files.segments().swap_remove(2);
    for length in [30, files.of(&last).len() / 2, files.of(&last).len() - 100] {
        let mut cut = files.clone();
        cut.of_mut(&last).truncate(length);
        let after = check(&cut, record(0, ENTRIES));
        assert_eq!(after.of(&last.replace(".spool", ".damaged")), cut.of(&last));
    }
}

#[test]
fn no_part_of_a_copy_is_left_on_a_full_disk() {
    let mut files = written(true);
    let last = files.segments().swap_remove(2);
    let length = files.of(&last).len() / 2;
    files.of_mut(&last).truncate(length);
    // The copy can be created, but its first write fails.
    for full_at in 0..3 {
        let disk = Disk::of(files.clone());
        disk.fill_at(full_at, true);
        let mut spool = disk.open_recorded(record(0, ENTRIES)).unwrap();
        let found = rest(&mut spool).len() as u64;
        assert_eq!(found + spool.missing().entries, ENTRIES);
        let is_copy = |name: &String| name.ends_with(".damaged");
        assert_eq!(disk.files().names.keys().filter(|name| is_copy(name)).count(), full_at / 2);
    }
}
