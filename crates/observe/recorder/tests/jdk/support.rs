//! The output of a JDK's `jfr` command for an event.

use super::tool::Jdk;
use millstream_recorder::event::{Event, Tables, Thread};
use millstream_recorder::ids::{TextId, ThreadId};
use millstream_recorder::jfr::{self, Recording};
use millstream_recorder::schema::{EventKind, Field, FieldKind, NAME_PREFIX, Value};
use serde_json::{Map, Value as Json, json};
use std::io::Write;
use std::path::Path;
use tempfile::NamedTempFile;

impl Jdk {
    /// Returns all events in a file, sorted.
    pub fn print(&self, file: &Path) -> Vec<String> {
        let text = self.run(&["print", "--json"], file);
        let mut parsed: Json = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("JDK {}: {error}: {text}", self.version));
        let events = parsed["recording"]["events"].as_array_mut().unwrap();
        events.iter_mut().for_each(correct_unsigned);
        sorted(events)
    }

    /// Returns the name, number of events and bytes of each type, including the JDK's types.
    pub fn summary(&self, file: &Path) -> Vec<(String, u64, u64)> {
        let text = self.run(&["summary"], file);
        let (_, table) = text.split_once("===\n").unwrap_or_else(|| panic!("{text}"));
        let row = |line: &str| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            (cells[0].to_owned(), cells[1].parse().unwrap(), cells[2].parse().unwrap())
        };
        table.lines().map(row).collect()
    }
}

/// Corrects numbers of 2^63 and above, which JDK 17 shows as negative.
fn correct_unsigned(event: &mut Json) {
    let name = event["type"].as_str().unwrap().trim_start_matches(NAME_PREFIX).to_owned();
    let spec = EventKind::named(&name).unwrap_or_else(|| panic!("{name}")).spec();
    let is_unsigned = |field: &&Field| matches!(field.kind, FieldKind::Unsigned | FieldKind::Bytes);
    for field in spec.fields.iter().filter(is_unsigned) {
        let value = &mut event["values"][field.name];
        if let Some(number) = value.as_i64() {
            *value = json!(number.cast_unsigned());
        }
    }
}

/// Returns events as strings, in an order that does not depend on the order of the events.
pub fn sorted(events: &[Json]) -> Vec<String> {
    let mut texts: Vec<String> = events.iter().map(Json::to_string).collect();
    texts.sort();
    texts
}

/// Strings and threads, indexed by number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub texts: Vec<String>,
    pub threads: Vec<(String, u32)>,
}

impl Tables for Names {
    fn text(&self, id: TextId) -> Option<&str> {
        self.texts.get(id.0 as usize).map(|text| &text[..])
    }

    fn thread(&self, id: ThreadId) -> Option<Thread<'_>> {
        self.threads.get(id.0 as usize).map(|(name, os_id)| Thread { name, os_id: *os_id })
    }
}

/// Writes events to a temporary file.
pub fn file(recording: &Recording<'_>, names: &Names, events: &[Event]) -> NamedTempFile {
    let bytes = jfr::write(Vec::new(), recording, names, events.iter().copied()).unwrap();
    let mut file = tempfile::Builder::new().suffix(".jfr").tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file
}

/// Returns what `jfr print --json` should print for an event.
pub fn printed(recording: &Recording<'_>, names: &Names, event: &Event) -> Json {
    let spec = event.kind.spec();
    let mut values = Map::new();
    values.insert("startTime".to_owned(), json!(time(recording, event.start_ticks)));
    if spec.has_duration {
        values.insert("duration".to_owned(), json!(timespan(recording, event.duration_ticks)));
    }
    let thread = names.thread(event.thread).map(|Thread { name, os_id }| {
        json!({ "osName": name, "osThreadId": os_id, "javaName": null, "javaThreadId": 0 })
    });
    values.insert("eventThread".to_owned(), thread.unwrap_or(Json::Null));
    for (field, bits) in spec.fields.iter().zip(event.values) {
        values.insert(field.name.to_owned(), field_value(recording, names, field.kind, bits));
    }
    json!({ "type": format!("{NAME_PREFIX}{}", spec.name), "values": values })
}

fn field_value(recording: &Recording<'_>, names: &Names, kind: FieldKind, bits: u64) -> Json {
    match Value::from_bits(kind, bits) {
        Value::Unsigned(number) | Value::Bytes(number) => json!(number),
        Value::Count(number) => json!(number),
        Value::Signed(number) => json!(number),
        // Values that JSON cannot represent are null.
        Value::Float(number) => json!(number),
        Value::Flag(flag) => json!(flag),
        Value::Text(id) => json!(names.text(id)),
        Value::Duration(ticks) => json!(timespan(recording, ticks)),
        Value::Timestamp(ticks) => json!(time(recording, ticks)),
    }
}

/// Converts ticks to nanoseconds the way the JDK does.
fn ns(recording: &Recording<'_>, ticks: i64) -> i64 {
    let ticks_per_ns = recording.clock.ticks_per_second.get() as f64 / 1e9;
    (ticks as f64 / ticks_per_ns) as i64
}

fn timespan(recording: &Recording<'_>, ticks: u64) -> String {
    match ticks.cast_signed() {
        // The JDK's marker for a missing value.
        i64::MIN => iso_duration(i128::from(i64::MIN) * 1_000_000_000),
        ticks => iso_duration(i128::from(ns(recording, ticks))),
    }
}

fn time(recording: &Recording<'_>, ticks: u64) -> String {
    if ticks.cast_signed() == i64::MIN {
        // The JDK's marker for a missing value.
        return "-999999999-01-01T00:00+18:00".to_owned();
    }
    let clock = &recording.clock;
    let since = ns(recording, ticks.wrapping_sub(clock.start_ticks).cast_signed());
    iso_time(clock.start_unix_ns.cast_signed().wrapping_add(since))
}

/// Formats a duration like `java.time.Duration`.
fn iso_duration(ns: i128) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let seconds = ns.unsigned_abs() / 1_000_000_000;
    let fraction = ns.unsigned_abs() % 1_000_000_000;
    let mut text = String::from("PT");
    for (amount, unit) in [(seconds / 3600, 'H'), (seconds / 60 % 60, 'M')] {
        if amount > 0 {
            text.push_str(&format!("{sign}{amount}{unit}"));
        }
    }
    if fraction > 0 {
        let digits = format!("{fraction:09}");
        text.push_str(&format!("{sign}{}.{}S", seconds % 60, digits.trim_end_matches('0')));
    } else if !seconds.is_multiple_of(60) || text == "PT" {
        text.push_str(&format!("{sign}{}S", seconds % 60));
    }
    text
}

/// Formats a time like `java.time.OffsetDateTime`.
fn iso_time(ns: i64) -> String {
    let seconds = ns.div_euclid(1_000_000_000);
    let fraction = ns.rem_euclid(1_000_000_000);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let hour = seconds.rem_euclid(86_400) / 3600;
    let minute = seconds.rem_euclid(3600) / 60;
    let second = seconds.rem_euclid(60);
    let behind = match fraction {
        0 if second == 0 => String::new(),
        0 => format!(":{second:02}"),
        _ if fraction % 1_000_000 == 0 => format!(":{second:02}.{:03}", fraction / 1_000_000),
        _ if fraction % 1000 == 0 => format!(":{second:02}.{:06}", fraction / 1000),
        _ => format!(":{second:02}.{fraction:09}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}{behind}Z")
}

/// Returns the date that is a number of days after 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    let mut day = days;
    while day < 0 {
        year -= 1;
        day += 365 + i64::from(is_leap(year));
    }
    while day >= 365 + i64::from(is_leap(year)) {
        day -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    (year, month as i64 + 1, day + 1)
}
