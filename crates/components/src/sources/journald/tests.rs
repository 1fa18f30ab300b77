//! Tests the source on journals that grow, are rotated, copied from memory to disk, deleted or
//! damaged.

mod flushes;
mod model;
mod options;
mod rotation;

use super::*;
use crate::component::{Component, SourceComponent};
use millstream_model::{Batch, SinkSet, Value};
use millstream_testkit::{JournalEntry, JournalWriter, SourceRig, assert_valid};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

const MACHINE: &str = "0123456789abcdef0123456789abcdef";

/// A host with journals in memory and on disk.
struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Host {
        let host = Host { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(host.disk("")).unwrap();
        fs::create_dir_all(host.memory("")).unwrap();
        host
    }

    fn disk(&self, name: &str) -> PathBuf {
        self.folder.path().join("var/log/journal").join(MACHINE).join(name)
    }

    fn memory(&self, name: &str) -> PathBuf {
        self.folder.path().join("run/log/journal").join(MACHINE).join(name)
    }

    fn open(&self, rig: &SourceRig) -> Box<dyn Source> {
        self.open_with(rig, json!({}))
    }

    fn open_with(&self, rig: &SourceRig, options: serde_json::Value) -> Box<dyn Source> {
        let path = ["var", "run"].map(|name| self.folder.path().join(name).join("log/journal"));
        let mut all = json!({ "path": path });
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let config: JournaldConfig = serde_json::from_value(all).unwrap();
        assert_eq!(config.check(), []);
        config.open(rig.open()).unwrap()
    }
}

/// Returns a journal with messages `e FIRST` to `e LAST`.
fn journal(file: u8, sequence: u8, numbers: impl IntoIterator<Item = u64>) -> JournalWriter {
    let mut writer = JournalWriter::begin(file, sequence);
    numbers.into_iter().for_each(|number| add(&mut writer, number));
    writer
}

fn add(writer: &mut JournalWriter, number: u64) {
    writer.add(&JournalEntry::new(number, &format!("e{number}")));
}

/// Returns messages of [`journal`].
fn messages(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("e{number}")).collect()
}

/// Returns the ids and messages of a batch.
fn rows(batch: &Batch) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for segment in batch.segments.iter() {
        for row in segment.first_row..segment.first_row + segment.rows {
            let mut id = Vec::new();
            batch.write_id(segment, row, &mut id);
            let text = String::from_utf8_lossy(batch.text(row)).into_owned();
            all.push((String::from_utf8(id).unwrap(), text));
        }
    }
    all
}

/// Polls until there is nothing to read, and returns the batches.
fn batches(rig: &mut SourceRig, source: &mut dyn Source) -> Vec<Batch> {
    let (mut all, mut idle) = (Vec::new(), 0);
    while idle < 4 {
        match rig.poll(source) {
            Polled::Batch(batch, _) => {
                assert_valid(&batch);
                all.push(*batch);
            }
            Polled::Wait(Duration::ZERO) => {}
            Polled::Wait(_) | Polled::Backpressure => {
                rig.advance(Duration::from_millis(100));
                idle += 1;
            }
            Polled::Ended => break,
        }
    }
    all
}

/// Polls until there is nothing to read, settles the events, and returns ids and messages.
fn events(rig: &mut SourceRig, source: &mut dyn Source) -> Vec<(String, String)> {
    let all = batches(rig, source);
    let settle = |batch: &Batch| batch.segments.iter().for_each(|segment| segment.ack.finish());
    all.iter().for_each(settle);
    all.iter().flat_map(rows).collect()
}

/// Like [`events`], without the ids.
fn texts(rig: &mut SourceRig, source: &mut dyn Source) -> Vec<String> {
    events(rig, source).into_iter().map(|(_, text)| text).collect()
}

/// Returns a field of a row, as text.
fn field(batch: &Batch, name: &str, row: usize) -> Option<String> {
    let value = batch.value(batch.fields.get(name)?, row);
    (value != Value::Absent)
        .then(|| String::from_utf8_lossy(&value.plain().unwrap_or_default()).into_owned())
}

#[test]
fn an_entry_becomes_an_event_with_its_fields() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = JournalWriter::begin(1, 9);
    let entry = JournalEntry::new(7, "two\nlines")
        .field("_SYSTEMD_UNIT=a.service")
        .field("TAG=x")
        .field("TAG=\"y\"")
        .field("EMPTY=")
        .field("_SOURCE_REALTIME_TIMESTAMP=1700000000000123")
        .field(b"BINARY=a\xffb");
    writer.add(&entry);
    let mut silent = JournalEntry::new(8, "").field("_SYSTEMD_UNIT=a.service");
    silent.fields.drain(..2);
    writer.add(&silent);
    writer.write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    let all = batches(&mut rig, &mut *source);
    let [batch] = &all[..] else { panic!("{} batches", all.len()) };
    let id = |number: u64| format!("{}-{number}", "09".repeat(16));
    let expected = [(id(7), "two\nlines".to_owned()), (id(8), String::new())];
    assert_eq!(rows(batch), expected);
    let first = |name: &str| field(batch, name, 0).unwrap_or_default();
    let names = ["level", "PRIORITY", "_SYSTEMD_UNIT", "TAG", "EMPTY", "_BOOT_ID"];
    let values = ["info", "6", "a.service", r#"["x","\"y\""]"#, "", &"01".repeat(16)];
    assert_eq!(names.map(first), values);
    assert_eq!(first("__REALTIME_TIMESTAMP"), entry.realtime().to_string());
    assert_eq!(first("__MONOTONIC_TIMESTAMP"), "7000000");
    let binary = batch.fields.get("BINARY").unwrap();
    assert_eq!(batch.value(binary, 0), Value::Text(b"a\xffb"));
    assert_eq!(batch.event_ns(0), 1_700_000_000_000_123_000);
    assert_eq!(batch.event_ns(1), silent.realtime().cast_signed() * 1000);
    assert_eq!((batch.is_shown(0), batch.is_shown(1)), (true, false));
    assert_eq!(field(batch, "level", 1), None);
    assert!(batch.fields.get("MESSAGE").is_none());
    assert_eq!(
        batch.segments[0].origin.name.as_ref(),
        host.disk("").to_str().unwrap().trim_end_matches('/')
    );
}

#[test]
fn entries_that_are_added_later_are_read_once() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = journal(1, 9, 1..=3);
    writer.write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages(1..=3));
    for number in 4..10 {
        add(&mut writer, number);
        writer.write(&host.disk("system.journal"));
        assert_eq!(texts(&mut rig, &mut *source), messages([number]));
    }
    let second = journal(2, 8, 1..=2);
    second.write(&host.disk("other.journal"));
    rig.advance(Duration::from_secs(30));
    assert_eq!(texts(&mut rig, &mut *source), messages(1..=2), "a new file");
    assert!(rig.ledger.is_idle());
    assert_eq!(rig.counters.snapshot().errors, [].into());
}

#[test]
fn a_file_that_is_being_created_is_not_reported() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let path = host.disk("system.journal");
    fs::write(&path, "").unwrap();
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
    journal(1, 9, []).write(&path);
    assert_eq!(texts(&mut rig, &mut *source), [""; 0], "without entries");
    journal(1, 9, 1..=2).write(&path);
    assert_eq!(texts(&mut rig, &mut *source), messages(1..=2));
    fs::write(host.disk("text.journal"), "no journal").unwrap();
    rig.advance(Duration::from_secs(30));
    assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
    rig.advance(Duration::from_secs(30));
    assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
    let listed = rig.unreadable.list();
    assert!(listed.values().any(|reason| reason.contains("not a systemd journal")), "{listed:?}");
    assert_eq!(rig.counters.snapshot().errors, [("unreadable", 1)].into(), "reported once");
}

#[test]
fn a_restart_repeats_only_what_was_not_settled_under_the_same_ids() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    let mut writer = journal(1, 9, 1..=3);
    writer.write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages(1..=3));
    rig.commit();
    add(&mut writer, 4);
    add(&mut writer, 5);
    writer.write(&host.disk("system.journal"));
    let unsettled: Vec<_> = batches(&mut rig, &mut *source).iter().flat_map(rows).collect();
    let mut rig = rig.restart();
    let mut source = host.open(&rig);
    assert_eq!(events(&mut rig, &mut *source), unsettled);
    rig.commit();
    let mut rig = rig.restart();
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), [""; 0]);
}

#[test]
fn a_blocked_sink_catches_up_later() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["a", "b"]));
    let mut writer = journal(1, 9, 1..=3);
    writer.write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    let [a, b] = [0, 1].map(|index| rig.sinks[index].0);
    (rig.ready, rig.blocked) = (SinkSet::one(a), SinkSet::one(b));
    assert_eq!(texts(&mut rig, &mut *source), messages(1..=3));
    add(&mut writer, 4);
    writer.write(&host.disk("system.journal"));
    assert_eq!(texts(&mut rig, &mut *source), messages([4]));
    (rig.ready, rig.blocked) = (rig.all(), SinkSet::EMPTY);
    let all = batches(&mut rig, &mut *source);
    assert!(all.iter().all(|batch| batch.sinks == SinkSet::one(b)));
    assert_eq!(
        all.iter().flat_map(rows).map(|(_, text)| text).collect::<Vec<_>>(),
        messages(1..=4)
    );
}

#[test]
fn a_sink_that_a_reload_adds_starts_where_reading_began() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["a"]));
    let mut writer = journal(1, 9, 1..=3);
    writer.archive();
    writer.write(&host.disk("system@9-1-1.journal"));
    let mut source = host.open(&rig);
    assert_eq!(texts(&mut rig, &mut *source), messages(1..=3));
    assert_eq!(texts(&mut rig, &mut *source), [""; 0], "the file is closed");
    rig.commit();
    let sinks: Vec<_> = SinkIndex::all().zip(["a", "b"].map(str::to_owned)).collect();
    rig.sinks = sinks.clone();
    rig.ready = rig.all();
    source.set_sinks(&sinks);
    let all = batches(&mut rig, &mut *source);
    assert!(all.iter().all(|batch| batch.sinks == SinkSet::one(sinks[1].0)));
    let seen: Vec<String> = all.iter().flat_map(rows).map(|(_, text)| text).collect();
    assert_eq!(seen, messages(1..=3));
}

#[test]
fn an_abandoned_range_is_read_again_and_then_halved() {
    let (host, mut rig) = (Host::new(), SourceRig::new(&["out"]));
    journal(1, 9, 1..=8).write(&host.disk("system.journal"));
    let mut source = host.open(&rig);
    let mut poisoned = 0;
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..400 {
        match rig.poll(&mut *source) {
            Polled::Batch(batch, _) => {
                let all = rows(&batch);
                if all.iter().any(|(_, text)| text == "e5") {
                    poisoned += 1;
                    assert!(poisoned < 4 || all.len() < 8, "{all:?}");
                    // A dropped acknowledgement is abandoned.
                    drop(batch);
                } else {
                    batch.segments.iter().for_each(|segment| segment.ack.finish());
                    seen.extend(all.into_iter().map(|(_, text)| text));
                }
            }
            _ => rig.advance(Duration::from_millis(100)),
        }
    }
    seen.sort();
    assert_eq!(seen, messages([1, 2, 3, 4, 6, 7, 8]));
    assert_eq!(rig.counters.snapshot().dropped_events, [("abandoned", 1)].into());
    assert!(rig.ledger.is_idle());
}
