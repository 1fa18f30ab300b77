//! Options: filters, the first entry, namespaces, limits.

use super::*;

/// Returns a journal of two units, with the kernel in between.
fn units() -> JournalWriter {
    let mut writer = JournalWriter::begin(1, 9);
    for number in 1..=300 {
        let entry = JournalEntry::new(number, &format!("e{number}"));
        writer.add(&match number % 3 {
            0 => entry.field("_TRANSPORT=kernel"),
            1 => entry.field("_SYSTEMD_UNIT=a.service").field("SYSLOG_IDENTIFIER=a"),
            _ => entry.field("_SYSTEMD_UNIT=b.service").field("SYSLOG_IDENTIFIER=b"),
        });
    }
    writer
}

fn read(options: serde_json::Value) -> Vec<u64> {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    units().write(&host.disk("system.journal"));
    let mut source = host.open_with(&rig, options);
    let seen = texts(&mut rig, &mut *source);
    let sink = rig.sinks[0].0;
    let origins = rig.ledger.origins();
    // Entries that the filter rejects are settled, too.
    assert_eq!(origins[0].checkpoints, [(sink, 301)]);
    seen.iter().map(|text| text[1..].parse().unwrap()).collect()
}

#[test]
fn only_entries_that_match_are_read() {
    let of = |rests: &[u64]| (1..=300).filter(|n| rests.contains(&(n % 3))).collect::<Vec<u64>>();
    assert_eq!(read(json!({ "units": ["a"] })), of(&[1]));
    assert_eq!(read(json!({ "units": ["a.service", "b"] })), of(&[1, 2]));
    assert_eq!(read(json!({ "exclude_units": ["a"] })), of(&[0, 2]));
    assert_eq!(read(json!({ "identifiers": ["b"] })), of(&[2]));
    assert_eq!(read(json!({ "exclude_identifiers": ["b"] })), of(&[0, 1]));
    assert_eq!(read(json!({ "kernel": false })), of(&[1, 2]));
    assert_eq!(read(json!({ "matches": { "_TRANSPORT": "kernel" } })), of(&[0]));
    assert_eq!(
        read(json!({ "matches": { "PRIORITY": 6, "_SYSTEMD_UNIT": ["b.service"] } })),
        of(&[2])
    );
    assert_eq!(read(json!({ "exclude_matches": { "_TRANSPORT": ["kernel"] } })), of(&[1, 2]));
    assert_eq!(read(json!({ "priorities": "info" })), of(&[0, 1, 2]));
    assert_eq!(read(json!({ "priorities": "notice" })), of(&[]));
    assert_eq!(read(json!({ "priorities": [6, "err"] })), of(&[0, 1, 2]));
    assert_eq!(read(json!({ "current_boot_only": true })), of(&[]), "another boot");
}

#[test]
fn a_filter_finds_fields_that_appear_later() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = journal(1, 9, 1..=3);
    writer.write(&host.disk("system.journal"));
    let mut source = host.open_with(&rig, json!({ "units": ["late"] }));
    assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
    writer.add(&JournalEntry::new(4, "late").field("_SYSTEMD_UNIT=late.service"));
    writer.write(&host.disk("system.journal"));
    assert_eq!(texts(&mut rig, &mut *source), ["late"]);
}

#[test]
fn since_applies_to_the_first_start_only() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = journal(1, 9, 1..=10);
    writer.write(&host.disk("system.journal"));
    rig.now.unix_ns = JournalEntry::new(6, "").realtime().cast_signed() * 1000;
    let mut source = host.open_with(&rig, json!({ "since": "now" }));
    assert_eq!(texts(&mut rig, &mut *source), messages(6..=10));
    rig.commit();
    drop(source);
    // While the agent is down, the host boots and begins another sequence.
    add(&mut writer, 11);
    writer.write(&host.disk("system.journal"));
    let mut next = JournalWriter::begin(2, 8);
    next.add(&JournalEntry::new(1, "boot").of_boot(2));
    next.write(&host.disk("user-7.journal"));
    let mut rig = rig.restart();
    rig.now.unix_ns += 3_600_000_000_000;
    let mut source = host.open_with(&rig, json!({ "since": "now" }));
    assert_eq!(texts(&mut rig, &mut *source), ["e11", "boot"]);
}

#[test]
fn namespaces_are_read_by_option() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let folder = host.disk("").parent().unwrap().join(format!("{MACHINE}.web"));
    fs::create_dir_all(&folder).unwrap();
    journal(1, 9, 1..=2).write(&host.disk("system.journal"));
    journal(2, 8, 3..=4).write(&folder.join("system.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages(1..=2));
    let mut rig = SourceRig::new(&["out"]);
    let mut source = host.open_with(&rig, json!({ "namespaces": ["web"] }));
    assert_eq!(texts(&mut rig, &mut *source), messages(3..=4));
}

#[test]
fn long_values_are_truncated_and_large_entries_have_their_own_batch() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = JournalWriter::begin(1, 9);
    writer.add(&JournalEntry::new(1, "small"));
    writer.add(
        &JournalEntry::new(2, &"é".repeat(400_000)).field(format!("A={}", "b".repeat(300_000))),
    );
    writer.add(&JournalEntry::new(3, "small"));
    writer.write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    let all = batches(&mut rig, &mut *source);
    assert_eq!(rig.counters.snapshot().errors, [].into());
    let sizes: Vec<usize> = all.iter().flat_map(rows).map(|(_, text)| text.len()).collect();
    assert_eq!(sizes, [5, 256 * 1024, 5]);
    let large = &all[1];
    assert!(large.is_truncated(0) && std::str::from_utf8(large.text(0)).is_ok());
    assert_eq!(field(large, "A", 0).map(|text| text.len()), Some(256 * 1024));
    assert_eq!(rig.counters.snapshot().noted_events, [("truncated", 1)].into());
}

#[test]
fn more_fields_than_columns_are_kept_as_members() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = JournalWriter::begin(1, 9);
    for number in 1..=10 {
        let mut entry = JournalEntry::new(number, "m");
        for index in 0..50 {
            entry = entry.field(format!("F{number}_{index}=\"{number}-{index}"));
        }
        writer.add(&entry.field("lower=case"));
    }
    writer.write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    let all = batches(&mut rig, &mut *source);
    let batch = &all[0];
    assert_eq!((all.len(), batch.rows()), (1, 10));
    for number in 1..=10 {
        for index in 0..50 {
            let name = format!("F{number}_{index}");
            let row = number - 1;
            let value = match batch.fields.get(&name) {
                Some(column) => batch.value(column, row),
                None => batch.fields.member(&name, &batch.block, row).unwrap_or_else(|| {
                    let column = batch.fields.get("").unwrap();
                    panic!("{name} {:?} {}", batch.value(column, row), batch.fields.len())
                }),
            };
            let text = value.text().unwrap();
            assert_eq!(text, format!("\"{number}-{index}").as_bytes());
        }
        let lower = batch.fields.member("lower", &batch.block, number - 1);
        assert_eq!(lower, Some(Value::Text(b"case")));
    }
}
