//! Entries that journald copies from memory to disk.

use super::*;

/// Returns a journal with copies of the entries of [`journal`] under other numbers.
fn copies(
    file: u8,
    sequence: u8,
    numbers: impl IntoIterator<Item = u64>,
    plus: u64,
) -> JournalWriter {
    let mut writer = JournalWriter::begin(file, sequence);
    for number in numbers {
        let mut copy = JournalEntry::new(number, &format!("e{number}"));
        copy.seqnum += plus;
        writer.add(&copy);
    }
    writer
}

/// Adds the entry with this monotonic time, under another number.
fn add_as(writer: &mut JournalWriter, number: u64, seqnum: u64) {
    let mut entry = JournalEntry::new(number, &format!("e{number}"));
    entry.seqnum = seqnum;
    writer.add(&entry);
}

/// The sequence on disk in tests for older systemd, which numbers the journals separately, and for
/// newer systemd, which numbers them together.
const DISKS: [u8; 2] = [9, 8];
const MEMORY: u8 = 8;

#[test]
fn copies_of_entries_in_memory_are_skipped() {
    for disk in DISKS {
        let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
        journal(1, MEMORY, 1..=20).write(&host.memory("system.journal"));
        let mut source = host.open(&rig);
        assert_eq!(texts(&mut rig, &mut *source), messages(1..=20));
        let mut flushed = copies(2, disk, 1..=20, 100);
        flushed.write(&host.disk("system.journal"));
        fs::remove_file(host.memory("system.journal")).unwrap();
        rig.advance(Duration::from_secs(30));
        assert_eq!(texts(&mut rig, &mut *source), [""; 0], "{disk}");
        add_as(&mut flushed, 21, 121);
        flushed.write(&host.disk("system.journal"));
        assert_eq!(texts(&mut rig, &mut *source), messages([21]));
        rig.commit();
        let mut rig = rig.restart();
        let mut source = host.open(&rig);
        assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
        assert_eq!(rig.counters.snapshot().dropped_events, [].into(), "{disk}");
    }
}

#[test]
fn copies_are_skipped_after_a_restart_and_the_rest_is_read() {
    for disk in DISKS {
        let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
        journal(1, MEMORY, 1..=10).write(&host.memory("system.journal"));
        let mut source = host.open(&rig);
        assert_eq!(texts(&mut rig, &mut *source), messages(1..=10));
        rig.commit();
        drop(source);
        // While the agent is down, journald writes more, and then moves everything.
        let mut flushed = copies(2, disk, 1..=15, 100);
        flushed.write(&host.disk("system.journal"));
        fs::remove_file(host.memory("system.journal")).unwrap();
        let mut rig = rig.restart();
        let mut source = host.open(&rig);
        assert_eq!(texts(&mut rig, &mut *source), messages(11..=15), "{disk}");
        add_as(&mut flushed, 16, 116);
        flushed.write(&host.disk("system.journal"));
        assert_eq!(texts(&mut rig, &mut *source), messages([16]));
        assert_eq!(rig.counters.snapshot().dropped_events, [].into(), "{disk}");
        rig.commit();
        let mut rig = rig.restart();
        let mut source = host.open(&rig);
        assert_eq!(texts(&mut rig, &mut *source), [""; 0], "{disk}");
    }
}

#[test]
fn entries_that_were_read_but_not_delivered_are_read_from_their_copies() {
    for disk in DISKS {
        let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
        let mut writer = journal(1, MEMORY, 1..=5);
        writer.write(&host.memory("system.journal"));
        let mut source = host.open(&rig);
        assert_eq!(texts(&mut rig, &mut *source), messages(1..=5));
        rig.commit();
        (6..=9).for_each(|number| add(&mut writer, number));
        writer.write(&host.memory("system.journal"));
        assert_eq!(batches(&mut rig, &mut *source).len(), 1, "not settled");
        rig.commit();
        drop(source);
        copies(2, disk, 1..=9, 100).write(&host.disk("system.journal"));
        fs::remove_file(host.memory("system.journal")).unwrap();
        let mut rig = rig.restart();
        let mut source = host.open(&rig);
        assert_eq!(texts(&mut rig, &mut *source), messages(6..=9), "{disk}");
    }
}

#[test]
fn originals_are_read_before_their_copies() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    journal(1, MEMORY, 1..=2000).write(&host.memory("system.journal"));
    copies(2, 9, 1..=2000, 100).write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    let all = events(&mut rig, &mut *source);
    let ids: Vec<&str> = all.iter().map(|(id, _)| id.split('-').next().unwrap()).collect();
    assert!(ids.iter().all(|id| *id == "08".repeat(16)), "the ids of the originals");
    let seen: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
    assert_eq!(seen, messages(1..=2000));
}

#[test]
fn entries_of_other_boots_and_times_are_not_copies() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    journal(1, MEMORY, 11..=20).write(&host.memory("system.journal"));
    let mut disk = JournalWriter::begin(2, 9);
    disk.add(&JournalEntry::new(1, "other boot").of_boot(3).at(15_000_000));
    disk.add(&JournalEntry::new(2, "earlier").at(5_000_000));
    disk.write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    let mut seen = texts(&mut rig, &mut *source);
    seen.sort();
    let mut expected = messages(11..=20);
    expected.extend(["earlier".to_owned(), "other boot".to_owned()]);
    assert_eq!(seen, expected);
}
