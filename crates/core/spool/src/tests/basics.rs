//! Order, durability, numbers, and the files in the folder.

use super::*;

#[test]
fn entries_are_returned_in_order_and_over_a_restart() {
    let folder = memory_folder();
    let written: Vec<Entry> = (0..40).map(entry).collect();
    let mut spool = open_in(folder.path(), SMALL, 0);
    add(&mut spool, &written[..25]);
    assert_eq!(rest(&mut spool), written[..25]);
    add(&mut spool, &written[25..]);
    assert_eq!(rest(&mut spool), written[25..]);
    assert!(spool.stats().segments > 5);
    drop(spool);
    let mut spool = open_in(folder.path(), SMALL, 0);
    assert_eq!(rest(&mut spool), written);
    drop(spool);
    let mut spool = open_in(folder.path(), SMALL, 17);
    assert_eq!(rest(&mut spool), written[17..]);
    assert_eq!(spool.damage(), []);
}

#[test]
fn an_entry_is_readable_after_the_sync() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SpoolOptions::default(), 0);
    spool.append(&entry(0).as_new()).unwrap();
    assert_eq!(spool.next().unwrap(), None);
    assert!(!spool.stats().has_unread);
    spool.sync().unwrap();
    assert!(spool.stats().has_unread);
    assert_eq!(spool.next().unwrap(), Some(entry(0)));
    assert_eq!(spool.next().unwrap(), None);
}

#[test]
fn a_released_spool_leaves_no_file() {
    let folder = memory_folder();
    let path = folder.path().join("sink");
    let mut spool = open_in(&path, SMALL, 0);
    assert_eq!(names(&path), [""; 0]);
    add(&mut spool, &[entry(0), entry(1), entry(2)]);
    assert_eq!(rest(&mut spool).len(), 3);
    spool.release(EntryNumber(2)).unwrap();
    assert_eq!(spool.stats().oldest_unreleased_ms, Some(1_000_002));
    assert_eq!(spool.stats().oldest_unread_ms, None);
    spool.release(EntryNumber(3)).unwrap();
    assert_eq!(names(&path), [""; 0]);
    assert_eq!(spool.stats().bytes, 0);
    assert_eq!(spool.stats().next_number, EntryNumber(3));
    add(&mut spool, &[entry(7)]);
    assert_eq!(rest(&mut spool), [entry(7)]);
    spool.release(EntryNumber(8)).unwrap();
    drop(spool);
    assert!(!path.exists(), "an empty folder is removed");
}

#[test]
fn a_segment_is_removed_once_all_its_entries_are_settled() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SMALL, 0);
    add(&mut spool, &(0..20).map(entry).collect::<Vec<_>>());
    let before = names(folder.path());
    let second: u64 = before[1][..20].parse().unwrap();
    spool.release(EntryNumber(second - 1)).unwrap();
    assert_eq!(names(folder.path()), before);
    spool.release(EntryNumber(second)).unwrap();
    assert_eq!(names(folder.path()), before[1..]);
    assert_eq!(rest(&mut spool), (second..20).map(entry).collect::<Vec<_>>());
}

#[test]
fn an_entry_can_be_read_again_until_it_is_released() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SMALL, 0);
    add(&mut spool, &(0..20).map(|number| entry(number * 2)).collect::<Vec<_>>());
    (0..10).for_each(|_| _ = spool.next().unwrap());
    for number in 0..39 {
        let expected = (number % 2 == 0).then(|| entry(number));
        assert_eq!(spool.read(EntryNumber(number)).unwrap(), expected, "{number}");
    }
    assert_eq!(spool.next().unwrap(), Some(entry(20)));
    spool.release(EntryNumber(12)).unwrap();
    assert_eq!(spool.read(EntryNumber(0)).unwrap(), None);
    assert_eq!(spool.read(EntryNumber(99)).unwrap(), None);
}

#[test]
fn numbers_ascend_and_never_fall_below_the_settled_one() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SMALL, 5);
    assert_eq!(spool.stats().next_number, EntryNumber(5));
    let refused = spool.append(&entry(4).as_new()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    add(&mut spool, &[entry(5), entry(9)]);
    assert_eq!(spool.stats().next_number, EntryNumber(10));
    assert!(spool.append(&entry(9).as_new()).is_err());
    drop(spool);
    assert_eq!(open_in(folder.path(), SMALL, 0).stats().next_number, EntryNumber(10));
    let spool = open_in(folder.path(), SMALL, 12);
    assert_eq!((spool.stats().next_number, spool.stats().segments), (EntryNumber(12), 0));
}

#[test]
fn the_numbers_say_what_is_unread() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SMALL, 0);
    let written: Vec<Entry> = (0..20).map(entry).collect();
    add(&mut spool, &written);
    for reopened in [false, true] {
        if reopened {
            drop(spool);
            spool = open_in(folder.path(), SMALL, 0);
        }
        for read in 0..=20 {
            let stats = spool.stats();
            let unread = &written[read..];
            assert_eq!(stats.unread_entries, unread.len() as u64);
            assert_eq!(stats.unread_events, unread.iter().map(|entry| entry.meta.events).sum());
            let oldest = unread.first().map(|entry| entry.meta.written_ms);
            assert_eq!(stats.oldest_unread_ms, oldest);
            assert_eq!(stats.oldest_unreleased_ms, Some(1_000_000));
            assert_eq!(stats.has_unread, read < 20);
            let names = names(folder.path());
            let lengths =
                names.iter().map(|name| folder.path().join(name).metadata().unwrap().len());
            let bytes: u64 = lengths.sum();
            assert_eq!(stats.bytes, bytes);
            assert!(stats.unread_bytes < bytes);
            spool.next().unwrap();
        }
    }
    drop(spool);
    let stats = open_in(folder.path(), SMALL, 7).stats();
    assert_eq!((stats.unread_entries, stats.oldest_unread_ms), (13, Some(1_000_007)));
    assert_eq!(stats.oldest_unreleased_ms, Some(1_000_007));
}

#[test]
fn a_large_entry_has_a_segment_to_itself_and_a_format_begins_one() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SMALL, 0);
    let entries = [
        entry_of(0, 10, "a/1"),
        entry_of(1, 100_000, "a/1"),
        entry_of(2, 10, "a/1"),
        entry_of(3, 10, "b/1"),
    ];
    add(&mut spool, &entries);
    assert_eq!(spool.stats().segments, 4);
    assert_eq!(*spool.formats().unwrap(), ["a/1".into(), "b/1".into()]);
    assert_eq!(rest(&mut spool), entries);
    assert_eq!(spool.formats().unwrap().len(), 0);
    drop(spool);
    let mut spool = open_in(folder.path(), SMALL, 3);
    assert_eq!(*spool.formats().unwrap(), ["b/1".into()]);
    assert_eq!(rest(&mut spool), entries[3..]);
}

/// Drops the oldest entries; returns the entry numbers and the total event count.
fn drop_oldest(spool: &mut Spool) -> Option<(Vec<u64>, u64)> {
    let oldest = spool.oldest()?;
    spool.drop_oldest(&oldest);
    let numbers: Vec<u64> = (oldest.first.0..=oldest.last.0).collect();
    assert_eq!(oldest.entries, numbers.len() as u64);
    Some((numbers, oldest.events))
}

fn events_of(numbers: &[u64]) -> u64 {
    numbers.iter().map(|number| entry(*number).meta.events).sum()
}

#[test]
fn the_oldest_segment_is_dropped_and_counted() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SMALL, 0);
    let written: Vec<Entry> = (0..20).map(entry).collect();
    add(&mut spool, &written);
    assert_eq!(spool.next().unwrap(), Some(entry(0)));
    spool.release(EntryNumber(1)).unwrap();
    let second: u64 = names(folder.path())[1][..20].parse().unwrap();
    let (numbers, events) = drop_oldest(&mut spool).unwrap();
    assert!(numbers.iter().copied().eq(1..second));
    assert_eq!(events, events_of(&numbers));
    assert_eq!(rest(&mut spool), written[second as usize..]);
    assert_eq!(spool.oldest(), None);
    add(&mut spool, &[entry(20)]);
    spool.append(&entry(21).as_new()).unwrap();
    assert_eq!(spool.oldest(), None, "an entry is not synced");
    spool.sync().unwrap();
    assert_eq!(rest(&mut spool), [entry(20), entry(21)]);
}

#[test]
fn a_segment_of_which_an_entry_is_not_released_is_not_dropped() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SMALL, 0);
    let written: Vec<Entry> = (0..20).map(entry).collect();
    add(&mut spool, &written);
    assert_eq!(spool.next().unwrap(), Some(entry(0)));
    let starts: Vec<u64> =
        names(folder.path()).iter().map(|name| name[..20].parse().unwrap()).collect();
    let (numbers, events) = drop_oldest(&mut spool).unwrap();
    assert!(numbers.iter().copied().eq(starts[1]..starts[2]));
    assert_eq!(events, events_of(&numbers));
    let kept: Vec<Entry> =
        written.into_iter().filter(|entry| !numbers.contains(&entry.meta.number.0)).collect();
    assert_eq!(spool.read(EntryNumber(0)).unwrap(), Some(entry(0)));
    assert_eq!(rest(&mut spool), kept[1..]);
    drop(spool);
    assert_eq!(rest(&mut open_in(folder.path(), SMALL, 0)), kept, "after a crash");
}

#[test]
fn the_folder_is_locked_also_through_a_symlink() {
    let folder = memory_folder();
    let path = folder.path().join("sink");
    let spool = open_in(&path, SMALL, 0);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for path in [&path, &link] {
        let error = Folder::open(path).unwrap_err();
        let process = format!("(process {})", std::process::id());
        assert!(matches!(error, SpoolError::InUse { .. }));
        assert!(error.to_string().contains(&process), "{error}");
    }
    drop(spool);
    drop(open_in(&path, SMALL, 0));
}

#[test]
fn only_the_owner_may_read_the_files() {
    use std::os::unix::fs::MetadataExt;
    let folder = memory_folder();
    let path = folder.path().join("spool/sink");
    let mut spool = open_in(&path, SMALL, 0);
    add(&mut spool, &[entry(0)]);
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
    assert_eq!(mode(&path.join(&names(&path)[0])), 0o600);
}

#[test]
fn other_files_are_left_alone() {
    let folder = memory_folder();
    let others =
        ["1.spool", "0000000000000000000x.spool", "note.txt", "00000000000000000000.spool.bak"];
    others.iter().for_each(|name| std::fs::write(folder.path().join(name), name).unwrap());
    let mut spool = open_in(folder.path(), SMALL, 0);
    add(&mut spool, &[entry(0)]);
    spool.release(EntryNumber(1)).unwrap();
    drop(spool);
    let mut expected = others.map(str::to_owned);
    expected.sort();
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn an_entry_that_is_settled_before_the_sync_leaves_no_file() {
    let folder = memory_folder();
    let mut spool = open_in(folder.path(), SMALL, 0);
    spool.append(&entry(5).as_new()).unwrap();
    spool.release(EntryNumber(6)).unwrap();
    spool.sync().unwrap();
    assert_eq!(names(folder.path()), [""; 0]);
    assert!(!spool.stats().has_unread);
}

/// The spool is owned by one thread of the engine at a time.
#[test]
fn a_spool_can_be_moved_to_another_thread() {
    fn moved<T: Send>() {}
    moved::<Spool>();
}
