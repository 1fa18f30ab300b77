//! Tests the `rules` transform: many tasks count each event once, whatever happens to the agent,
//! its sinks and its task files.

mod changes;
mod costs;
mod errors;
mod kills;
mod late;
mod stalled;

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of lines in a burst.
const BURST: u64 = 100;

/// Pause between two bursts.
const PAUSE: Duration = Duration::from_millis(10);

/// Fields that the tasks extract from a line, in all supported ways.
const FIELDS: &str = "{ level: { delimited: { delimiter: ' ', index: 1 } }, \
                      service: { between: { left: 'service=', right: ' ' } }, \
                      code: { regex: { pattern: 'code=(\\d+)' }, type: int }, \
                      user: { between: { left: 'user=', right: ' ' } }, \
                      size: { between: { left: 'size=', right: ' ' }, type: int }, \
                      number: { between: { left: 'number=' }, type: int } }";

/// Sums of the results by name and tags.
type Totals = BTreeMap<(String, String), u64>;

/// The values of a line, which follow from its number.
struct Line {
    number: u64,
    level: &'static str,
    service: u64,
    code: u64,
    path: u64,
    size: u64,
    /// One of 3,000 users.
    user: u64,
}

impl Line {
    fn new(number: u64) -> Line {
        Line {
            number,
            level: ["info", "warn", "error"][(number % 7 % 3) as usize],
            service: number * 7 % 5,
            code: [200, 404, 500, 503, 512][(number % 11 % 5) as usize],
            path: number % 13,
            size: number * 31 % 1000,
            user: number % 3000,
        }
    }

    /// Returns the text of the line with the time `unix_s`.
    fn text(&self, unix_s: i64) -> String {
        let Line { number, level, service, code, path, size, user } = self;
        let time = iso8601(unix_s);
        format!(
            "{time} {level} service=s{service} code={code} path=/p{path}/item size={size} user={user} number={number}\n"
        )
    }

    /// Returns the value of a field as a tag.
    fn tag(&self, field: &str) -> String {
        match field {
            "level" => self.level.to_owned(),
            "service" => format!("s{}", self.service),
            "user" => self.user.to_string(),
            _ => panic!("{field} is no tag"),
        }
    }
}

/// Ends the writer on drop, even if the test fails.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Appends lines to a log until `stop` is set; returns their number. They have the current time, or
/// for some lines an earlier time.
fn write(log: &Path, stop: &AtomicBool) -> u64 {
    let mut file = OpenOptions::new().create(true).append(true).open(log).unwrap();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let now = unix_s();
        let late = |number: u64| if number.is_multiple_of(40) { 5 } else { 0 };
        let burst = (number..number + BURST).map(|n| Line::new(n).text(now - late(n)));
        file.write_all(burst.collect::<String>().as_bytes()).unwrap();
        number += BURST;
        std::thread::sleep(PAUSE);
    }
    number
}

/// Returns the results in a file, each once, except a result that is only partly written.
fn results(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    distinct(whole)
}

/// Returns the results, each once by id, and asserts that results with the same id are equal.
fn distinct(text: &str) -> Vec<Value> {
    let mut results: BTreeMap<String, Value> = BTreeMap::new();
    for line in text.lines() {
        let result: Value = serde_json::from_str(line).unwrap();
        let id = id(&result);
        let before = results.insert(id, result.clone());
        assert!(before.as_ref().is_none_or(|before| *before == result), "{before:?} {result}");
    }
    results.into_values().collect()
}

fn id(result: &Value) -> String {
    result["meta"]["id"].as_str().unwrap().to_owned()
}

/// Sums the results by name and tags, and asserts that all are deltas.
fn totals(results: &[Value]) -> Totals {
    let mut totals = Totals::new();
    for result in results {
        assert_eq!(result["temporality"], "delta", "{result}");
        let name = result["name"].as_str().unwrap().to_owned();
        *totals.entry((name, result["tags"].to_string())).or_default() +=
            result["value"].as_u64().unwrap();
    }
    totals
}

/// Asserts that the totals are as expected, and lists the differences.
fn assert_totals(found: &Totals, expected: &Totals, log: &str) {
    let names = found.keys().chain(expected.keys());
    let differ = names.filter(|name| found.get(*name) != expected.get(*name));
    let differ: BTreeMap<_, _> =
        differ.map(|name| (name, (found.get(name), expected.get(name)))).collect();
    assert!(differ.is_empty(), "found and expected: {differ:#?}\n{log}");
}

fn unix_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// Returns a time in seconds since 1970 as ISO 8601.
pub fn iso8601(unix_s: i64) -> String {
    // Days since 0000-03-01; a leap day is the last day of a year that begins in March.
    let days = unix_s.div_euclid(86_400) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + i64::from(month <= 2);
    let second = unix_s.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
