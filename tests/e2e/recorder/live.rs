//! Tests recordings of a running agent, and changes of its settings.

use super::{CONFIG, LIMIT, command, dump, events, record, settled, stderr, stdout, write_lines};
use crate::support::{Agent, folder, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Appends lines while a closure runs.
fn while_lines_come<T>(dir: &Path, run: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = dir.join("in/a.log");
            let mut log = OpenOptions::new().append(true).open(path).unwrap();
            while !stop.load(Ordering::Relaxed) {
                writeln!(log, "another line").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        let result = run();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn started(dir: &Path, config: &str) -> Agent {
    write_lines(dir, "a.log", 10);
    let agent = Agent::start(dir, config, &[]);
    settled(dir, &agent);
    agent
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> =
        events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn changed_settings_take_effect_at_once() {
    let dir = folder();
    let agent = started(dir.path(), CONFIG);
    let one_second = ["-d", "1s", "-o", "-", "--format", "jsonl"];
    let recorded = |args: &[&str]| {
        let args = [args, &one_second].concat();
        let text = while_lines_come(dir.path(), || stdout(&record(dir.path(), &args)));
        let (table, lines) = text.split_at(text.find('{').unwrap_or(text.len()));
        (table.to_owned(), events(lines))
    };
    let (table, found) = recorded(&["--disable", "all"]);
    assert_eq!(kinds(&found), [""; 0], "{found:?}");
    assert_eq!(table.matches("  no  ").count(), found.len() + 18, "{table}");
    // On a busy host, the agent may write nothing for a second, and the command may take longer.
    let (mut table, mut found, mut seconds) = (String::new(), Vec::new(), 0);
    wait_until("writes are recorded", LIMIT, || {
        let begun = Instant::now();
        (table, found) = recorded(&["--enable", "FileWrite", "--rate", "2/s"]);
        seconds = begun.elapsed().as_secs() as usize;
        !found.is_empty()
    });
    assert_eq!(kinds(&found), ["FileWrite"]);
    // A recording of one second overlaps with at most three seconds of the clock.
    assert!(found.len() <= 2 * (seconds.max(1) + 2), "{found:?}");
    assert!(table.contains("FileWrite        yes           none        2/s"), "{table}");
    // A reload that does not change these settings keeps them.
    agent.reload(&CONFIG.replace("100ms", "101ms"));
    wait_until("it reloads", LIMIT, || agent.log().contains("configuration reloaded"));
    wait_until("writes are recorded still", LIMIT, || {
        let (_, found) = recorded(&[]);
        assert!(kinds(&found).iter().all(|kind| *kind == "FileWrite"), "{found:?}");
        !found.is_empty()
    });
    let events = "recorder: { size: 2MiB, events: { FileWrite: { enabled: false } } }\n";
    agent.reload(&format!("{CONFIG}{events}"));
    let restart = "`recorder.size` changed; restart the agent to apply the change";
    wait_until("it reloads", LIMIT, || agent.log().contains(restart));
    let table = stdout(&record(dir.path(), &["--settings"]));
    assert!(
        table.contains("FileWrite        no ") && table.contains("FileRead         yes "),
        "{table}"
    );
    assert!(table.contains("8388608 bytes"), "{table}");
    let reloads = dump(dir.path()).into_iter().filter(|event| event["event"] == "Reload");
    assert_eq!(reloads.count(), 0, "that type was off when the reloads began");
}

/// Starts a long recording, and waits until it has begun.
fn begin(dir: &Path) -> Child {
    let mut command = command(dir, &["-c", "millstream.yaml", "-d", "10m", "-o", "x.jsonl"]);
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let unfinished = dir.join(format!("x.jsonl.{}.new", child.id()));
    // The command writes events only after it has read two more snapshots.
    let has_begun = || std::fs::metadata(&unfinished).is_ok_and(|file| file.len() > 0);
    wait_until("it records", LIMIT, has_begun);
    child
}

fn recorded(dir: &Path, output: &Output) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("x.jsonl"));
    events(&text.unwrap_or_else(|error| panic!("{error}: {}", stderr(output))))
}

#[test]
fn a_recording_ends_with_its_agent() {
    let dir = folder();
    let mut agent = started(dir.path(), CONFIG);
    let output = while_lines_come(dir.path(), || {
        let recording = begin(dir.path());
        agent.kill();
        recording.wait_with_output().unwrap()
    });
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let message = "the recording ends early because the agent can no longer be reached: no agent \
                   is running with data_dir ";
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
    assert!(kinds(&recorded(dir.path(), &output)).contains(&"FileWrite"));
    let refused = record(dir.path(), &["--dump"]);
    let advice = "data; start the agent, or use --from-crash";
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(advice), "{}", stderr(&refused));
}

#[test]
fn a_signal_ends_a_recording_in_order() {
    let dir = folder();
    let _agent = started(dir.path(), CONFIG);
    let output = while_lines_come(dir.path(), || {
        let recording = begin(dir.path());
        kill_process(Pid::from_child(&recording), Signal::INT).unwrap();
        recording.wait_with_output().unwrap()
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = recorded(dir.path(), &output);
    assert!(kinds(&found).contains(&"FileRead") && kinds(&found).contains(&"FileWrite"));
    let ends: Vec<i128> = found.iter().map(end_ns).collect();
    // The start and the duration are both rounded down, so an end may appear too early.
    assert!(ends.windows(2).all(|pair| pair[0] <= pair[1] + 2), "sorted by their end");
    let summary = format!("x.jsonl: {} events in ", found.len());
    assert!(stderr(&output).starts_with(&summary), "{}", stderr(&output));
}

/// Returns the end of an event in nanoseconds since 1970.
fn end_ns(event: &Value) -> i128 {
    let start: jiff::Timestamp = event["time"].as_str().unwrap().parse().unwrap();
    start.as_nanosecond() + i128::from(event["duration_ns"].as_u64().unwrap_or_default())
}

#[test]
fn an_agent_is_reached_over_tcp_with_its_token() {
    let dir = folder();
    let agent = started(dir.path(), CONFIG);
    let log = agent.log();
    let url = log.split_once("API at ").unwrap().1.split_once(',').unwrap().0;
    let over_tcp =
        |args: &[&str]| command(dir.path(), &["--url", url]).args(args).output().unwrap();
    let story = stdout(&over_tcp(&["--dump", "--token-file", "data/token"]));
    assert!(story.starts_with("Millstream ") && story.contains(", is running\n"), "{story}");
    let wrong = over_tcp(&["--dump", "--token", "wrong"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).starts_with("the agent responds 401: "), "{}", stderr(&wrong));
    let without = over_tcp(&["--dump"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(stderr(&without).contains("add --token-file DATA_DIR/token"), "{}", stderr(&without));
}

#[test]
fn only_the_last_events_are_written() {
    let dir = folder();
    let _agent = started(dir.path(), CONFIG);
    let all = dump(dir.path());
    let last = record(dir.path(), &["--dump", "--last", "1ns", "--format", "jsonl"]);
    let last = events(&stdout(&last));
    assert!(last.len() <= 2 && all.len() > 2, "{} of {}", last.len(), all.len());
    let full = record(dir.path(), &["--dump", "--format", "jsonl", "-o", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1));
    assert!(stderr(&full).starts_with("/dev/full: No space left on device"), "{}", stderr(&full));
    let unknown = record(dir.path(), &["--dump", "-o", "x"]);
    assert_eq!(unknown.status.code(), Some(2));
}
