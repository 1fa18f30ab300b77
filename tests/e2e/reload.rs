//! Tests configurations that change while the agent runs: unchanged components are not affected.

use crate::support::{Agent, folder, lines, wait_until, write_config};
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const RELOADS: usize = 200;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration with only the sink that all configurations have.
const ALONE: &str = "
shutdown_timeout: 1s
sources:
  app: { type: file, include: ['DIR/in/*.log'] }
sinks:
  keep: { type: file, inputs: [app], path: DIR/keep.out, sync: 100ms, encoding: { codec: text } }
";

/// The configuration with another file sink and a sink to an unreachable broker.
const BLOCKED: &str = "
shutdown_timeout: 1s
sources:
  app: { type: file, include: ['DIR/in/*.log'] }
sinks:
  keep: { type: file, inputs: [app], path: DIR/keep.out, sync: 100ms, encoding: { codec: text } }
  more: { type: file, inputs: [app], path: DIR/more.out, sync: 100ms, encoding: { codec: text } }
  dead: { type: kafka, inputs: [app], brokers: ['127.0.0.1:1'], topic: t, encoding: { codec: text } }
";

/// The configuration with different options of the second file sink and of the dead sink, a
/// transform, and another source.
const CHANGED: &str = "
shutdown_timeout: 1s
sources:
  app: { type: file, include: ['DIR/in/*.log'], priority: high }
  other: { type: file, include: ['DIR/other.log'] }
transforms:
  time: { type: parse, inputs: [app, other], time: { format: iso8601 } }
sinks:
  keep: { type: file, inputs: [app], path: DIR/keep.out, sync: 100ms, encoding: { codec: text } }
  more: { type: file, inputs: [time], path: DIR/more.out, sync: 200ms, encoding: { codec: text } }
  dead: { type: kafka, inputs: [time], brokers: ['127.0.0.1:2'], topic: t, encoding: { codec: text } }
";

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Ends the load when dropped, even if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Writes numbered lines to three files until `done`; returns the number per file.
fn load(folder: &Path, done: &AtomicBool) -> usize {
    let mut number = 0;
    while !done.load(Ordering::SeqCst) {
        for file in 0..3 {
            let some =
                (number..number + 50).map(|n| format!("file {file} line {n:07} and some words\n"));
            append(&folder.join(format!("in/{file}.log")), &some.collect::<String>());
        }
        number += 50;
        std::thread::sleep(Duration::from_millis(5));
    }
    number
}

fn expected(each: usize) -> HashSet<String> {
    let file =
        |file: usize| (0..each).map(move |n| format!("file {file} line {n:07} and some words"));
    (0..3).flat_map(file).collect()
}

fn hash(agent: &Agent) -> Option<f64> {
    agent.single("millstream_config_hash")
}

/// Replaces the agent's configuration, and waits until it is active.
fn change(agent: &Agent, config: &str) {
    let before = hash(agent);
    agent.reload(config);
    let is_there = || hash(agent).is_some_and(|now| Some(now) != before);
    let is_refused = || agent.single("millstream_config_reload_success") == Some(0.0);
    let refused_before = is_refused();
    wait_until("the new configuration runs", PATIENCE, || {
        assert!(refused_before || !is_refused(), "{}", agent.log());
        is_there()
    });
    assert!(!is_refused(), "{}", agent.log());
}

fn has_lines(path: &Path, count: usize) -> bool {
    lines(path).iter().collect::<HashSet<_>>().len() >= count
}

/// Asserts that the sink that was always present has every line once, in the order of its file.
fn assert_once_in_order(got: &[String], each: usize) {
    let mut last: HashMap<&str, &str> = HashMap::new();
    for line in got {
        let (file, number) = (&line[..6], &line[12..19]);
        let before = last.insert(file, number);
        assert!(
            before.is_none_or(|before| before < number),
            "{file}: {number} came after {before:?}"
        );
    }
    assert_eq!(got.len(), 3 * each);
}

#[test]
fn two_hundred_reloads_under_load_lose_nothing_and_repeat_nothing() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    fs::write(dir.path().join("other.log"), "other\n").unwrap();
    let mut agent = Agent::start(dir.path(), ALONE, &[]);
    wait_until("the agent runs", PATIENCE, || hash(&agent).is_some());
    let done = AtomicBool::new(false);
    let each = std::thread::scope(|scope| {
        let writer = scope.spawn(|| load(dir.path(), &done));
        let configs = [BLOCKED, CHANGED, ALONE];
        let _stop = Stop(&done);
        (0..RELOADS - 2).for_each(|n| change(&agent, configs[n % configs.len()]));
        done.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    assert!(each > 1000, "{each} lines are no load");
    let (keep, more) = (dir.path().join("keep.out"), dir.path().join("more.out"));
    change(&agent, BLOCKED);
    wait_until("both files have all", PATIENCE, || {
        [&keep, &more].iter().all(|p| has_lines(p, 3 * each))
    });
    change(&agent, ALONE);
    let sent = || agent.metric("millstream_component_sent_events_total{component_id=\"keep\"");
    let all = Some(3.0 * each as f64);
    wait_until("an unchanged sink keeps its counters", PATIENCE, || sent() == all);
    assert!(agent.stop().success(), "{}", agent.log());
    let got: HashSet<String> = lines(&more).into_iter().filter(|line| line != "other").collect();
    assert!(got == expected(each), "{} of {} lines", got.len(), 3 * each);
    assert_once_in_order(&lines(&keep), each);
}

#[test]
fn an_invalid_configuration_is_reported_and_the_old_one_keeps_running() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let agent = Agent::start(dir.path(), ALONE, &[]);
    wait_until("the agent runs", PATIENCE, || hash(&agent).is_some());
    let (before, keep) = (hash(&agent), dir.path().join("keep.out"));
    agent.reload(&ALONE.replace("inputs: [app]", "inputs: [ap]"));
    wait_until("it is refused", PATIENCE, || {
        agent.single("millstream_config_reload_success") == Some(0.0)
    });
    assert_eq!(hash(&agent), before);
    wait_until("the log says so", PATIENCE, || agent.log().contains("rejected with 1 error;"));
    let log = agent.log();
    assert!(log.contains("millstream.yaml:8:32: the input `ap` does not exist"), "{log}");
    assert!(
        log.contains("rejected with 1 error; the previous configuration stays in use"),
        "{log}"
    );
    let many: String =
        (0..30).map(|n| format!("\n  s{n}: {{ type: blackhole, inputs: [no{n}] }}")).collect();
    agent.reload(&ALONE.replace("sinks:", &format!("sinks:{many}")));
    wait_until("it is refused", PATIENCE, || agent.log().contains("rejected with 30 errors;"));
    let log = agent.log();
    assert!((0..30).all(|n| log.contains(&format!("the input `no{n}` does not exist"))), "{log}");
    append(&dir.path().join("in/0.log"), "a line after that\n");
    wait_until("it is delivered all the same", PATIENCE, || has_lines(&keep, 1));
    change(&agent, &ALONE.replace("100ms", "110ms"));
}

/// A configuration whose transform reads a table from a file. The test changes the file, but not
/// the configuration.
const TABLE: &str = "
sources:
  app: { type: file, include: ['DIR/in/*.log'] }
transforms:
  codes:
    type: fields
    inputs: [app]
    steps: [{ lookup: { field: message, to: name, file: DIR/codes.csv } }]
sinks:
  keep: { type: file, inputs: [codes], path: DIR/keep.out, sync: 100ms, encoding: { metadata: [] } }
";

#[test]
fn a_changed_lookup_file_applies_at_the_next_reload() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let table = dir.path().join("codes.csv");
    fs::write(&table, "7,old\n").unwrap();
    let agent = Agent::start(dir.path(), TABLE, &[]);
    let (log, keep) = (dir.path().join("in/0.log"), dir.path().join("keep.out"));
    append(&log, "7\n");
    wait_until("the old name is there", PATIENCE, || has_lines(&keep, 1));
    fs::write(&table, "7,new\n").unwrap();
    agent.reload(TABLE);
    wait_until("it is reloaded", PATIENCE, || agent.log().contains("changed: codes; unchanged: 2"));
    append(&log, "7\n");
    wait_until("the new name is there", PATIENCE, || has_lines(&keep, 2));
    let text = fs::read_to_string(&keep).unwrap();
    let names: Vec<&str> =
        text.lines().map(|line| line.split("\"name\":").nth(1).unwrap()).collect();
    assert_eq!(names, ["\"old\"}", "\"new\"}"], "{text}");
    agent.reload(TABLE);
    wait_until("the same file is no change", PATIENCE, || {
        agent.log().contains("nothing has changed")
    });
}

#[test]
fn with_watch_a_changed_file_triggers_a_reload() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let watched = format!("{ALONE}watch: true\n");
    let agent = Agent::start(dir.path(), &watched, &[]);
    wait_until("the agent runs", PATIENCE, || hash(&agent).is_some());
    let before = hash(&agent);
    write_config(dir.path(), &watched.replace("keep.out", "other.out"));
    wait_until("the change is found", PATIENCE, || hash(&agent) != before);
    append(&dir.path().join("in/0.log"), "a line\n");
    wait_until("it goes to the new place", PATIENCE, || {
        has_lines(&dir.path().join("other.out"), 1)
    });
    write_config(dir.path(), "sources: 5\n");
    wait_until("a fault is told", PATIENCE, || {
        agent.single("millstream_config_reload_success") == Some(0.0)
    });
}

#[test]
fn with_watch_a_changed_lookup_file_triggers_a_reload() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let table = dir.path().join("codes.csv");
    fs::write(&table, "7,old\n").unwrap();
    let agent = Agent::start(dir.path(), &format!("{TABLE}watch: true\n"), &[]);
    let (log, keep) = (dir.path().join("in/0.log"), dir.path().join("keep.out"));
    append(&log, "7\n");
    wait_until("the old name is there", PATIENCE, || has_lines(&keep, 1));
    fs::write(&table, "7,new\n").unwrap();
    wait_until("it is reloaded", PATIENCE, || agent.log().contains("changed: codes; unchanged: 2"));
    append(&log, "7\n");
    wait_until("the new name is there", PATIENCE, || has_lines(&keep, 2));
    assert!(fs::read_to_string(&keep).unwrap().contains("\"name\":\"new\""));
    assert!(!agent.log().contains("nothing has changed"), "{}", agent.log());
}

#[test]
fn a_reload_without_change_or_that_needs_a_restart_is_logged() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let agent = Agent::start(dir.path(), ALONE, &[]);
    wait_until("the agent runs", PATIENCE, || hash(&agent).is_some());
    // Send two signals in a row: the second reload has nothing to do, or is merged with the first.
    agent.send(Signal::HUP);
    agent.send(Signal::HUP);
    wait_until("it says so", PATIENCE, || agent.log().contains("nothing has changed"));
    change(
        &agent,
        &format!("{ALONE}limits: {{ threads: 1, cpu: 1.5 }}\nlog: {{ level: debug }}\n"),
    );
    let restart = "`limits.threads` changed; restart the agent to apply the change";
    wait_until("it says what waits", PATIENCE, || agent.log().contains(restart));
    let log = agent.log();
    assert!(!log.contains("`limits.cpu`"), "{log}");
}

#[test]
fn a_file_moves_between_sinks_without_loss() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let mut agent = Agent::start(dir.path(), ALONE, &[]);
    wait_until("the agent runs", PATIENCE, || hash(&agent).is_some());
    let done = AtomicBool::new(false);
    let each = std::thread::scope(|scope| {
        let writer = scope.spawn(|| load(dir.path(), &done));
        let _stop = Stop(&done);
        for n in 0..30 {
            // The changes are other options of the sink, another id with the same path, and a
            // source that is reopened.
            let config = match n % 3 {
                0 => ALONE.replace("100ms", "150ms"),
                1 => ALONE.replace("keep:", "heir:"),
                _ => ALONE.replace("*.log']", "*.log'], host: h"),
            };
            change(&agent, &config);
        }
        done.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    let keep = dir.path().join("keep.out");
    wait_until("the file has all", PATIENCE, || has_lines(&keep, 3 * each));
    assert!(agent.stop().success(), "{}", agent.log());
    let got: HashSet<String> = lines(&keep).into_iter().collect();
    assert!(got == expected(each), "{} of {} lines", got.len(), 3 * each);
}

#[test]
fn standard_input_continues_in_a_changed_source() {
    let dir = folder();
    let config = "
sources:
  in: { type: stdin, max_line: 1KiB }
sinks:
  out: { type: file, inputs: [in], path: DIR/out, sync: 50ms, encoding: { codec: text } }
";
    let mut stdin = None;
    let (read, write) = std::io::pipe().unwrap();
    let mut agent = Agent::spawn(dir.path(), config, &[], |command| {
        command.stdin(Stdio::from(read));
        stdin = Some(write);
    });
    let mut stdin = stdin.unwrap();
    wait_until("the agent runs", PATIENCE, || hash(&agent).is_some());
    let begun = Instant::now();
    for n in 0..20 {
        // The agent gets half of a line before the reload, and the other half after it.
        write!(stdin, "line {n}\nhalf ").unwrap();
        change(&agent, &config.replace("1KiB", &format!("{}KiB", 2 + n % 2)));
        writeln!(stdin, "{n}").unwrap();
    }
    wait_until("all are there", PATIENCE, || has_lines(&dir.path().join("out"), 40));
    assert!(begun.elapsed() < PATIENCE);
    drop(stdin);
    assert!(agent.stop().success(), "{}", agent.log());
    let expected: Vec<String> =
        (0..20).flat_map(|n| [format!("line {n}"), format!("half {n}")]).collect();
    assert_eq!(lines(&dir.path().join("out")), expected);
}

/// A source that a reload removes leaves the data that it has read to the next source. If the agent
/// stops before there is one, this data counts as lost.
#[test]
fn standard_input_that_no_source_reads_any_more_is_counted_at_a_stop() {
    let dir = folder();
    let config = "
sources:
  in: { type: stdin }
sinks:
  out: { type: file, inputs: [in], path: DIR/out, sync: 50ms, encoding: { codec: text } }
";
    let (read, mut write) = std::io::pipe().unwrap();
    let mut agent = Agent::spawn(dir.path(), config, &[], |command| {
        command.stdin(Stdio::from(read));
    });
    writeln!(write, "delivered").unwrap();
    wait_until("the first line is there", PATIENCE, || has_lines(&dir.path().join("out"), 1));
    change(&agent, &config.replace("type: stdin", "type: file, include: [DIR/*.log]"));
    write.write_all(&[b'x'; 3000]).unwrap();
    wait_until("the input is read", PATIENCE, || rustix::io::ioctl_fionread(&write).unwrap() == 0);
    assert_eq!(agent.stop().code(), Some(1), "{}", agent.log());
    let said = "lost: 3000 bytes from sources that cannot be reread";
    agent.assert_logs(said);
}
