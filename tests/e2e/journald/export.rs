//! The fields and the order of entries, and the options that select entries.

use super::*;
use crate::support::wait_until;
use millstream_testkit_random::Seed;
use std::fs;

/// Writes a journal with fields of every kind.
fn write_all_kinds(path: &Path) {
    let mut random = Seed::of_test_or(5).random();
    let mut writer = Writer::start(path);
    for number in 0..400_u64 {
        let message = format!("entry {number} with \"quotes\", \u{e9} and a tab\t");
        let long = "long ".repeat(random.usize(..2000));
        let binary: Vec<u8> = (0..random.usize(1..60)).map(|_| random.u8(..)).collect();
        let priority = (number % 9).to_string();
        let unit = format!("unit{}.service", number % 5);
        let mut fields: Vec<(&str, &[u8])> = vec![
            ("PRIORITY", priority.as_bytes()),
            ("_SYSTEMD_UNIT", unit.as_bytes()),
            ("SYSLOG_IDENTIFIER", b"test"),
            ("EMPTY", b""),
        ];
        if number % 7 != 0 {
            fields.push(("MESSAGE", message.as_bytes()));
        }
        if number % 3 == 0 {
            fields.extend([("TAG", &b"one"[..]), ("TAG", b"two\nlines"), ("TAG", b"3")]);
        }
        if number % 4 == 0 {
            fields.extend([("LONG", long.as_bytes()), ("BINARY", &binary)]);
        }
        if number % 5 == 0 {
            fields.push(("_SOURCE_REALTIME_TIMESTAMP", b"1794999999123456"));
        }
        writer.send(&entry(number, &fields));
    }
    writer.finish();
}

/// Returns the text of a value that `journalctl` prints: text, or a list of bytes.
fn text(value: &Value) -> Value {
    match value {
        Value::Array(bytes) if bytes.iter().all(Value::is_number) && !bytes.is_empty() => {
            let bytes: Vec<u8> = bytes.iter().map(|byte| byte.as_u64().unwrap() as u8).collect();
            Value::from(String::from_utf8_lossy(&bytes).into_owned())
        }
        Value::Array(values) => values.iter().map(text).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_field_is_the_one_that_journalctl_prints() {
    let dir = folder();
    let journal = dir.path().join("journal");
    fs::create_dir(&journal).unwrap();
    write_all_kinds(&journal.join("a.journal"));
    let expected = journalctl(&journal, Some("a.journal"));
    let events = read(dir.path(), "");
    assert_eq!((events.len(), expected.len()), (400, 400));
    for (event, expected) in events.iter().zip(expected) {
        let event = event.as_object().unwrap();
        for (name, value) in &expected {
            // The cursor repeats other fields.
            if name == "__CURSOR" || name.starts_with("__SEQNUM") {
                continue;
            }
            let own = if name == "MESSAGE" { "message" } else { name };
            assert_eq!(event[own], text(value), "{name} of {event:?}");
        }
        let level = ["fatal", "error", "error", "error", "warn", "info", "info", "debug"];
        let priority: usize = expected["PRIORITY"].as_str().unwrap().parse().unwrap();
        let level = level.get(priority).map_or(Value::Null, |level| Value::from(*level));
        assert_eq!(event.get("level").cloned().unwrap_or_default(), level);
        let added = ["timestamp", "message", "level", "severity_number", "meta"];
        let unknown = |name: &&String| {
            !added.contains(&name.as_str()) && !expected.contains_key(name.as_str())
        };
        assert_eq!(event.keys().find(unknown), None);
        assert_eq!(event.contains_key("message"), expected.contains_key("MESSAGE"));
        let sent = expected.contains_key("_SOURCE_REALTIME_TIMESTAMP");
        assert_eq!(event["timestamp"] == "2026-11-18T11:06:39.123Z", sent, "{event:?}");
    }
}

#[test]
fn options_select_the_entries_that_journalctl_selects() {
    let dir = folder();
    let journal = dir.path().join("journal");
    fs::create_dir(&journal).unwrap();
    write_all_kinds(&journal.join("a.journal"));
    let all = journalctl(&journal, Some("a.journal"));
    let count = |accepts: &dyn Fn(&Map<String, Value>) -> bool| {
        all.iter().filter(|entry| accepts(entry)).count()
    };
    let priority = |entry: &Map<String, Value>| entry["PRIORITY"].as_str().unwrap().to_owned();
    let unit = |entry: &Map<String, Value>, unit: &str| entry["_SYSTEMD_UNIT"] == unit;
    let cases = [
        (", units: [unit1]", count(&|entry| unit(entry, "unit1.service"))),
        (", exclude_units: [unit1.service]", count(&|entry| !unit(entry, "unit1.service"))),
        (", priorities: warning", count(&|entry| *priority(entry) <= *"4")),
        (", priorities: [3, debug]", count(&|entry| ["3", "7"].contains(&&*priority(entry)))),
        (", matches: { TAG: [one, other] }", count(&|entry| entry.contains_key("TAG"))),
        (", identifiers: [other]", 0),
    ];
    for (options, expected) in cases {
        let _ = fs::remove_dir_all(dir.path().join("data"));
        assert_eq!(read(dir.path(), options).len(), expected, "{options}");
    }
    let _ = fs::remove_dir_all(dir.path().join("data"));
    // Entries have a distance of a millisecond, beginning at this time.
    let since = read(dir.path(), ", since: '2026-11-18T11:06:40.300Z'");
    assert_eq!(since.len(), 100);
}

#[test]
fn a_folder_that_cannot_be_read_is_reported_with_advice() {
    let dir = folder();
    let config = "
sources: { host: { type: journald, path: DIR/journal } }
sinks: { out: { type: file, inputs: [host], path: DIR/out.json } }
";
    let mut agent = Agent::start(dir.path(), config, &[]);
    let told = || agent.get("/api/files").is_some_and(|text| text.contains("no file or folder"));
    wait_until("the missing journal is reported", LIMIT, told);
    agent.kill();
}
