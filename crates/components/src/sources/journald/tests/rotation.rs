//! Rotation, deletion, damage, and the order of several files.

use super::*;

#[test]
fn files_of_a_sequence_are_merged_by_number() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut system = journal(1, 9, (1..1000).filter(|number| number % 3 != 0));
    let mut user = journal(2, 9, (1..1000).filter(|number| number % 3 == 0));
    system.write(&host.disk("system.journal"));
    user.write(&host.disk("user-1000.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages(1..1000));
    add(&mut user, 1000);
    add(&mut system, 1001);
    system.write(&host.disk("system.journal"));
    user.write(&host.disk("user-1000.journal"));
    assert_eq!(texts(&mut rig, &mut *source), messages(1000..=1001));
}

#[test]
fn more_files_than_readers_are_merged() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut users: Vec<JournalWriter> = (0..50_u64)
        .map(|user| journal(user as u8 + 1, 9, (1..400).filter(|n| n % 50 == user)))
        .collect();
    let path = |user: usize| host.disk(&format!("user-{user}.journal"));
    users.iter().enumerate().for_each(|(user, writer)| writer.write(&path(user)));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages(1..400));
    for number in [400, 401] {
        let user = number as usize % 50;
        add(&mut users[user], number);
        users[user].write(&path(user));
    }
    assert_eq!(texts(&mut rig, &mut *source), messages([400, 401]));
}

#[test]
fn sequences_are_merged_by_boot_and_monotonic_time_or_by_time() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let (mut a, mut b) = (JournalWriter::begin(1, 8), JournalWriter::begin(2, 9));
    let entry = |number: u64, boot: u8, monotonic: u64| {
        let message = format!("{boot} {monotonic}");
        JournalEntry::new(number, &message).of_boot(boot).at(monotonic)
    };
    for (number, boot, monotonic) in [(1, 1, 10), (2, 1, 30), (3, 2, 20)] {
        a.add(&entry(number, boot, monotonic));
    }
    for (number, boot, monotonic) in [(100, 1, 20), (101, 2, 10), (102, 3, 5)] {
        b.add(&entry(number, boot, monotonic));
    }
    a.write(&host.disk("system.journal"));
    b.write(&host.disk("user-1000.journal"));
    let mut source = host.open(&rig);
    let expected = ["1 10", "1 20", "1 30", "2 10", "2 20", "3 5"];
    assert_eq!(texts(&mut rig, &mut *source), expected);
}

#[test]
fn a_rotation_loses_and_repeats_nothing() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = journal(1, 9, 1..=3);
    writer.write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages(1..=3));
    // The last entries are written just before the rotation.
    add(&mut writer, 4);
    writer.archive();
    writer.write(&host.disk("system.journal"));
    fs::rename(host.disk("system.journal"), host.disk("system@9-1-1.journal")).unwrap();
    let second = journal(2, 9, 5..=6);
    second.write(&host.disk("system.journal"));
    rig.advance(Duration::from_secs(30));
    assert_eq!(texts(&mut rig, &mut *source), messages(4..=6));
    rig.commit();
    let mut rig = rig.restart();
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
    assert_eq!(rig.counters.snapshot().dropped_events, [].into());
}

#[test]
fn a_deleted_file_is_read_to_its_end() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = journal(1, 9, 1..=4000);
    writer.archive();
    writer.write(&host.disk("system@9-1-1.journal"));
    journal(2, 9, 4001..=4002).write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    let Polled::Batch(first, _) = rig.poll(&mut *source) else { panic!("no batch") };
    assert!(rows(&first).len() < 4000);
    fs::remove_file(host.disk("system@9-1-1.journal")).unwrap();
    rig.advance(Duration::from_secs(31));
    let rest = texts(&mut rig, &mut *source);
    let all: Vec<String> = rows(&first).into_iter().map(|(_, text)| text).chain(rest).collect();
    assert_eq!(all, messages(1..=4002));
}

#[test]
fn a_stop_reads_the_rest_of_deleted_files() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = journal(1, 9, 1..=4000);
    writer.archive();
    writer.write(&host.disk("system@9-1-1.journal"));
    let mut source = host.open(&rig);
    let Polled::Batch(first, _) = rig.poll(&mut *source) else { panic!("no batch") };
    fs::remove_file(host.disk("system@9-1-1.journal")).unwrap();
    rig.advance(Duration::from_secs(31));
    rig.ready = SinkSet::EMPTY;
    rig.poll(&mut *source);
    assert!(source.close(true), "there is more");
    rig.ready = rig.all();
    let rest = texts(&mut rig, &mut *source);
    assert_eq!(rows(&first).len() + rest.len(), 4000);
    let left = source.leave().unwrap();
    assert!(left.lost.events > 0, "the first batch is not settled: {left:?}");
}

#[test]
fn entries_that_were_deleted_unread_are_counted() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    journal(1, 9, 1..=10).write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source).len(), 10);
    rig.commit();
    drop(source);
    fs::remove_file(host.disk("system.journal")).unwrap();
    journal(3, 9, 31..=40).write(&host.disk("system.journal"));
    let mut rig = rig.restart();
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages(31..=40));
    assert_eq!(rig.counters.snapshot().dropped_events, [("deleted_unread", 20)].into());
}

#[test]
fn numbers_of_files_that_cannot_be_read_are_not_counted_as_deleted() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = journal(1, 9, [10, 20, 30]);
    writer.archive();
    writer.write(&host.disk("user-7@9-1-1.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source).len(), 3);
    assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
    rig.commit();
    drop(source);
    // The file was complete, so that no entry of it is missing.
    fs::remove_file(host.disk("user-7@9-1-1.journal")).unwrap();
    journal(2, 9, [100, 110]).write(&host.disk("user-7.journal"));
    let mut rig = rig.restart();
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages([100, 110]));
    assert_eq!(rig.counters.snapshot().dropped_events, [].into());
}

#[test]
fn a_damaged_entry_is_counted_and_the_others_are_read() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let writer = journal(1, 9, 1..=5);
    let mut bytes = writer.bytes().to_vec();
    let at = bytes.windows(10).position(|window| window == b"MESSAGE=e3").unwrap();
    // The type of the object for the message of the third entry.
    bytes[at - 64] = 99;
    fs::write(host.disk("system@9.journal~"), bytes).unwrap();
    let mut source = host.open(&rig);
    let all = batches(&mut rig, &mut *source);
    let seen: Vec<String> = all.iter().flat_map(rows).map(|(_, text)| text).collect();
    assert_eq!(seen, ["e1", "e2", "", "e4", "e5"], "the entry keeps its other fields");
    assert_eq!(rig.counters.snapshot().errors, [("corrupt", 1)].into());
}

#[test]
fn entries_after_a_power_failure_are_read_although_their_numbers_were_used() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    journal(1, 9, 1..=10).write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source).len(), 10);
    rig.commit();
    drop(source);
    // The disk lost the last three entries, and the next boot uses their numbers again.
    let mut writer = journal(1, 9, 1..=7);
    writer.write(&host.disk("system@9.journal~"));
    let mut next = JournalWriter::begin(2, 9);
    for number in 8..=9 {
        next.add(&JournalEntry::new(number, &format!("new{number}")).of_boot(2));
    }
    next.write(&host.disk("system.journal"));
    let mut rig = rig.restart();
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), ["new8", "new9"]);
    next.add(&JournalEntry::new(10, "new10").of_boot(2));
    next.write(&host.disk("system.journal"));
    assert_eq!(texts(&mut rig, &mut *source), ["new10"]);
    rig.commit();
    let mut rig = rig.restart();
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
    writer.archive();
}
