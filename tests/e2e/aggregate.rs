//! Tests the `aggregate` transform: an event counts once, however the agent exits.

use crate::support::{Agent, folder, lines, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of kills of the agent in one test.
const KILLS: usize = 20;

const CONFIG: &str = "
limits: { memory: 64MiB }
sources:
  app: { type: file, include: ['DIR/in/*.log'] }
transforms:
  parsed: { type: parse, inputs: [app], format: key_value }
  counts:
    type: aggregate
    inputs: [parsed]
    group_by: [level]
    emit: { n: count(), sum: sum(size) }
    window: WINDOW
sinks:
  out: { type: file, inputs: [counts], path: DIR/out.json, sync: 100ms }
";

fn config(window: &str) -> String {
    CONFIG.replace("WINDOW", window)
}

/// Appends lines to a log in bursts until `stop`; returns the totals of each level.
fn write(path: &Path, stop: &AtomicBool) -> BTreeMap<String, (u64, u64)> {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    let mut totals: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut number = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let mut burst = String::new();
        for _ in 0..2000 {
            let level = ["info", "warn", "error"][(number % 7 % 3) as usize];
            let size = number % 1000;
            burst += &format!("level={level} size={size} number={number}\n");
            let total = totals.entry(level.to_owned()).or_default();
            *total = (total.0 + 1, total.1 + size);
            number += 1;
        }
        file.write_all(burst.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    totals
}

/// Adds up the results by level, and counts results with the same id only once.
fn totals(path: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut results: BTreeMap<String, Value> = BTreeMap::new();
    for line in lines(path) {
        let result: Value = serde_json::from_str(&line).unwrap();
        let id = result["meta"]["id"].as_str().unwrap().to_owned();
        let before = results.insert(id, result.clone());
        assert!(before.as_ref().is_none_or(|before| *before == result), "{before:?} {result}");
    }
    let mut totals: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for result in results.values() {
        let level = result["tags"]["level"].as_str().unwrap().to_owned();
        let value = result["value"].as_u64().unwrap();
        let total = totals.entry(level).or_default();
        match result["name"].as_str().unwrap() {
            "counts.n" => total.0 += value,
            name => {
                assert_eq!(name, "counts.sum");
                total.1 += value;
            }
        }
    }
    totals
}

#[test]
fn counts_are_exact_over_kills() {
    let folder = folder();
    let config = config("1s");
    fs::create_dir_all(folder.path().join("in")).unwrap();
    let (log, stop) = (folder.path().join("in/app.log"), Arc::new(AtomicBool::new(false)));
    let writer = std::thread::spawn({
        let stop = stop.clone();
        move || write(&log, &stop)
    });
    for kill in 0..KILLS {
        let mut agent = Agent::start(folder.path(), &config, &[]);
        // Some kills come before the first commit, some within a window, some after a window.
        std::thread::sleep(Duration::from_millis(50 + (kill as u64 * 137) % 1400));
        agent.kill();
    }
    stop.store(true, Ordering::Relaxed);
    let written = writer.join().unwrap();
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    assert_eq!(totals(&folder.path().join("out.json")), written, "{}", agent.log());
}

#[test]
fn a_window_continues_after_a_stop_and_a_reload() {
    let folder = folder();
    let (log, out) = (folder.path().join("in/app.log"), folder.path().join("out.json"));
    fs::create_dir_all(folder.path().join("in")).unwrap();
    fs::write(&log, "level=info size=1\nlevel=info size=2\n").unwrap();
    let mut agent = Agent::start(folder.path(), &config("24h"), &[]);
    let received = |agent: &Agent| {
        agent.metric("millstream_component_received_events_total{component_id=\"counts\"")
    };
    wait_until("both are counted", PATIENCE, || received(&agent) == Some(2.0));
    assert!(agent.stop().success(), "{}", agent.log());
    assert_eq!(lines(&out), Vec::<String>::new(), "the window is open");
    let mut agent = Agent::start(folder.path(), &config("24h"), &[]);
    let mut file = OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(b"level=info size=4\n").unwrap();
    wait_until("the third is counted", PATIENCE, || received(&agent) == Some(1.0));
    // A reload that changes the options ends the window under the previous options.
    agent.reload(&config("12h"));
    wait_until("the window has ended", PATIENCE, || lines(&out).len() == 2);
    file.write_all(b"level=warn size=8\n").unwrap();
    wait_until("the fourth is counted", PATIENCE, || received(&agent) == Some(2.0));
    assert!(agent.stop().success(), "{}", agent.log());
    let mut agent = Agent::start(folder.path(), &config("12h"), &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let expected = [("info".to_owned(), (3, 7)), ("warn".to_owned(), (1, 8))];
    assert_eq!(totals(&out), BTreeMap::from(expected));
    assert_eq!(lines(&out).len(), 4, "each window has one result per group and aggregate");
}

#[test]
fn more_groups_than_a_batch_has_rows_arrive_once() {
    const LINES: usize = 40_000;
    let folder = folder();
    fs::create_dir_all(folder.path().join("in")).unwrap();
    let text: String = (0..LINES).map(|n| format!("level=l{n} size=1\n")).collect();
    fs::write(folder.path().join("in/app.log"), text).unwrap();
    let config = config("10s").replace("emit: {", "groups_max: 50000\n    emit: {");
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let totals = totals(&folder.path().join("out.json"));
    assert!(totals.len() == LINES && totals.values().all(|total| *total == (1, 1)));
    // At this restart the snapshot still contains results that one sink has settled.
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success() && !agent.log().contains("panic"), "{}", agent.log());
}
