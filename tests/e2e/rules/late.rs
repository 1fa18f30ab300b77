//! Tests events whose times are far out of order, far off, or missing.

use super::{PATIENCE, iso8601, results, unix_s};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_random::Seed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;

/// Number of lines that are appended at a time.
const LINES: u64 = 500;

/// Number of different times in the lines. Each time occurs several times, so that most lines are
/// late.
const TIMES: usize = 120;

/// Tasks with their windows in seconds and their lateness.
const TASKS: [(&str, i64, &str); 4] =
    [("second", 1, "1s"), ("minute", 60, "1s"), ("hour", 3600, "24h"), ("day", 86_400, "10s")];

/// The times that an event can have: those in the years 1678 to 2261.
const UNIX_S: std::ops::Range<i64> = -9_214_560_000..9_214_646_400;

/// Results by name, tags and end of the window.
type Windows = BTreeMap<(String, String, String), u64>;

const CONFIG: &str = "
limits: { memory: 96MiB }
sources:
  app: { type: file, include: ['DIR/app.log'] }
transforms:
  timed: { type: parse, inputs: [app], format: none, time: { format: iso8601 } }
  counts:
    type: rules
    inputs: [timed]
    memory: 24MiB
    tasks:
TASKS
sinks:
  out: { type: file, inputs: [counts], path: DIR/out.json, sync: 100ms }
";

fn config() -> String {
    let task = |(name, window_s, lateness): &(&str, i64, &str)| {
        format!(
            "    - {{ name: {name}, fields: {{ kind: {{ between: {{ left: 'kind=', right: ' ' }} }} }}, \
             group_by: [kind], emit: {{ n: count() }}, window: {window_s}s, time: log, lateness: {lateness} }}\n"
        )
    };
    CONFIG.replace("TASKS", &TASKS.iter().map(task).collect::<String>())
}

/// Lines in random order, with the expected results.
struct Lines {
    random: fastrand::Rng,
    times: Vec<i64>,
    expected: Windows,
    /// Number of lines without a usable time. They count in the window of their arrival.
    untimed: u64,
}

impl Lines {
    fn new(seed: u64) -> Lines {
        let mut random = fastrand::Rng::with_seed(seed);
        let now = unix_s();
        let time = |n| match n % 4 {
            0 => now + random.i64(-30..30),
            1 => random.i64(-3..3),
            2 => now + random.i64(-100_000..100_000),
            _ => random.i64(UNIX_S),
        };
        let times = (0..TIMES).map(time).chain([UNIX_S.start, UNIX_S.end - 1]).collect();
        Lines { random, times, expected: Windows::new(), untimed: 0 }
    }

    /// Returns additional lines, which contain each time at least once.
    fn some(&mut self) -> String {
        (0..LINES as usize).map(|number| self.one(number)).collect()
    }

    fn one(&mut self, number: usize) -> String {
        if number % 10 == 9 {
            self.untimed += 1;
            let time = self.random.choice(["-", "9999-12-31T00:00:00Z", "2026-13-45T00:00:00Z"]);
            return format!("{} kind=untimed x\n", time.unwrap());
        }
        let unix_s = match self.times.get(number) {
            Some(unix_s) => *unix_s,
            None => *self.random.choice(&self.times).unwrap(),
        };
        let kind = number % 3;
        for (name, window_s, _) in TASKS {
            let end = unix_s.div_euclid(window_s) * window_s + window_s;
            let key = (format!("{name}.n"), format!("{{\"kind\":\"k{kind}\"}}"), iso8601(end));
            *self.expected.entry(key).or_default() += 1;
        }
        format!("{} kind=k{kind} x\n", iso8601(unix_s))
    }
}

/// Sums the results by name, tags and end of the window.
fn windows(results: &[Value]) -> Windows {
    let mut windows = Windows::new();
    for result in results {
        let end = result["timestamp"].as_str().unwrap().replace(".000Z", "Z");
        let key = (result["name"].as_str().unwrap().to_owned(), result["tags"].to_string(), end);
        *windows.entry(key).or_default() += result["value"].as_u64().unwrap();
    }
    windows
}

/// Removes the windows of the lines without a usable time; returns how many of these lines each
/// task counted.
fn take_untimed(found: &mut Windows, begun: i64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    found.retain(|(name, tags, end), count| {
        let is_untimed = tags.contains("untimed");
        if is_untimed {
            assert!(*end > iso8601(begun), "{name} counts them at {end}");
            *counts.entry(name.clone()).or_default() += *count;
        }
        !is_untimed
    });
    counts
}

#[test]
fn events_count_once_in_the_window_of_their_time_however_late() {
    let folder = folder();
    let (log, out) = (folder.path().join("app.log"), folder.path().join("out.json"));
    let (seed, begun) = (Seed::of_test(), unix_s());
    let (mut made, config) = (Lines::new(seed.value()), config());
    let mut append = || {
        let mut file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        file.write_all(made.some().as_bytes()).unwrap();
    };
    let mut agent = Agent::start(folder.path(), &config, &[]);
    append();
    wait_until("windows have ended", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        !results(&out).is_empty()
    });
    let (early, received) = (
        windows(&results(&out)),
        "millstream_component_received_events_total{component_id=\"counts\"",
    );
    append();
    agent.kill();
    agent = Agent::start(folder.path(), &config, &[]);
    append();
    wait_until("the last lines are read", PATIENCE, || {
        agent.metric(received).is_some_and(|count| count >= LINES as f64)
    });
    assert!(agent.stop().success(), "{}", agent.log());
    agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let mut found = windows(&results(&out));
    let is_late = early.iter().any(|(window, count)| found[window] > *count);
    assert!(is_late, "no event came after the end of its window");
    let untimed = take_untimed(&mut found, begun);
    let expected = TASKS.map(|(name, ..)| (format!("{name}.n"), made.untimed));
    assert_eq!(untimed, BTreeMap::from(expected));
    assert!(found == made.expected, "{found:#?}\n{:#?}", made.expected);
    assert!(!agent.log().contains("panic"), "{}", agent.log());
}
