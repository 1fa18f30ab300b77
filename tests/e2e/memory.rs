//! Tests loads that need more memory than `limits.memory`, inside and outside of the JVM.

use crate::support::java::{built, homes};
use crate::support::{Agent, folder, wait_until};
use rustix::process::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

const MIB: u64 = 1 << 20;

/// Memory limit of agents without a JVM, which use less than half of it at the start.
const LIMIT_MIB: u64 = 128;

/// Number of points in a message.
const POINTS_PER_MESSAGE: u64 = 200;

/// Number of lines in the other pipeline, many times the number that fits into memory at a time.
const LINES: u64 = 400_000;

/// Log message of high pressure.
const IS_HIGH: &str = "sources read less";

/// Returns a configuration with short-lived series, and a file with two sinks, one of which never
/// delivers.
fn config(stuck: &TcpListener) -> String {
    let stuck = stuck.local_addr().unwrap();
    format!(
        "limits: {{ memory: {LIMIT_MIB}MiB, threads: 2 }}\n\
         sources:\n  \
           points: {{ type: dogstatsd, listen: ['unix://DIR/points.sock'], period: 1s, expire: 2s }}\n  \
           app: {{ type: file, include: ['DIR/app.log'] }}\n\
         sinks:\n  \
           sums: {{ type: file, inputs: [points], path: DIR/sums.json, encoding: {{ codec: json, metadata: [] }} }}\n  \
           stuck: {{ type: http, inputs: [app], uri: 'http://{stuck}/', encoding: {{ codec: text }} }}\n  \
           copy: {{ type: file, inputs: [app], path: DIR/copy.log, encoding: {{ codec: text }} }}\n"
    )
}

/// Starts an agent, and waits until it listens for points.
fn start(dir: &Path, config: &str) -> Agent {
    let mut agent = Agent::start(dir, config, &[]);
    wait_until("the agent is ready", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
    agent
}

/// Sends one point with the value 1 for each of these series.
fn send_points(dir: &Path, series: std::ops::Range<u64>) {
    let mut stream = UnixStream::connect(dir.join("points.sock")).unwrap();
    for first in series.step_by(POINTS_PER_MESSAGE as usize) {
        let line = |at: u64| format!("requests:1|c|#customer:{:08},host:web\n", first + at);
        let message: String = (0..POINTS_PER_MESSAGE).map(line).collect();
        stream.write_all(&(message.len() as u32).to_le_bytes()).unwrap();
        stream.write_all(message.as_bytes()).unwrap();
    }
}

/// Sum of all values in the output, which is read as it grows.
struct Sums {
    output: BufReader<File>,
    /// Beginning of a line whose end is not written yet.
    line: String,
    sum: u64,
    /// Number of events for points that were counted together.
    together: u64,
}

impl Sums {
    fn of(dir: &Path) -> Sums {
        let path = dir.join("sums.json");
        wait_until("the first sums", PATIENCE, || path.exists());
        let output = BufReader::new(File::open(path).unwrap());
        Sums { output, line: String::new(), sum: 0, together: 0 }
    }

    /// Reads the new output and returns the sum.
    fn read(&mut self) -> u64 {
        while self.output.read_line(&mut self.line).unwrap() > 0 && self.line.ends_with('\n') {
            let event: Value = serde_json::from_str(&self.line).unwrap();
            self.sum += event["value"].as_f64().unwrap() as u64;
            self.together += u64::from(event["name"] == "millstream.overflow");
            self.line.clear();
        }
        self.sum
    }
}

/// Returns the peak resident memory of a process in bytes.
pub fn peak_bytes(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Checks that the peak resident memory is at most 5% above the limit.
fn assert_within(agent: &Agent, limit_mib: u64) {
    let peak = peak_bytes(agent.pid());
    let metrics = agent.get("/metrics").unwrap_or_default();
    let of_memory =
        metrics.lines().filter(|line| line.contains("_memory_") || line.contains("_jvm_"));
    let metrics: Vec<&str> = of_memory.filter(|line| !line.starts_with('#')).collect();
    eprintln!("peak: {} MiB of {limit_mib}", peak / MIB);
    assert!(
        peak <= limit_mib * MIB / 100 * 105,
        "{} MiB of {limit_mib} MiB were resident: {metrics:#?}",
        peak / MIB
    );
}

fn is_level(agent: &Agent, level: &str) -> bool {
    agent.metric(&format!("millstream_memory_pressure{{level=\"{level}\"}}")) == Some(1.0)
}

fn times_high(agent: &Agent) -> f64 {
    agent.single("millstream_memory_high_total").unwrap_or(0.0)
}

#[test]
fn a_million_series_stay_within_the_limit_and_harm_no_other_pipeline() {
    let dir = folder();
    let stuck = TcpListener::bind("127.0.0.1:0").unwrap();
    let agent = start(dir.path(), &config(&stuck));
    let whole_grant = agent.single("millstream_memory_grant_limit_bytes").unwrap();
    let lines: String = (0..LINES).map(|line| format!("line {line:08}\n")).collect();
    fs::write(dir.path().join("app.log"), &lines).unwrap();
    send_points(dir.path(), 0..1_000_000);
    wait_until("the sink that works has everything", PATIENCE, || {
        fs::metadata(dir.path().join("copy.log")).is_ok_and(|copy| copy.len() >= lines.len() as u64)
    });
    assert!(fs::read_to_string(dir.path().join("copy.log")).unwrap() == lines, "once, in order");
    let mut sums = Sums::of(dir.path());
    wait_until("every point is in a sum", PATIENCE, || sums.read() >= 1_000_000);
    assert!(sums.together > 0 && times_high(&agent) >= 1.0, "{}", agent.log());
    agent.assert_logs(IS_HIGH);
    wait_until("the series have expired, and their memory has returned", PATIENCE, || {
        !is_level(&agent, "high")
            && agent.single("millstream_memory_grant_limit_bytes") == Some(whole_grant)
    });
    assert_eq!(sums.read(), 1_000_000);
    assert_within(&agent, LIMIT_MIB);
}

#[test]
fn bursts_that_cross_both_marks_are_absorbed() {
    let dir = folder();
    let stuck = TcpListener::bind("127.0.0.1:0").unwrap();
    let agent = start(dir.path(), &config(&stuck));
    for burst in 0..2_u64 {
        wait_until("the pressure is not high", PATIENCE, || !is_level(&agent, "high"));
        let before = times_high(&agent);
        send_points(dir.path(), burst * 1_000_000..burst * 1_000_000 + 600_000);
        wait_until("the pressure was high", PATIENCE, || times_high(&agent) > before);
    }
    let mut sums = Sums::of(dir.path());
    wait_until("every point is in a sum", PATIENCE, || sums.read() >= 1_200_000);
    wait_until("the pressure is no longer high", PATIENCE, || !is_level(&agent, "high"));
    assert_eq!(sums.read(), 1_200_000);
    assert_within(&agent, LIMIT_MIB);
    assert!(agent.log().matches(IS_HIGH).count() <= 2, "at most once a minute: {}", agent.log());
}

/// Memory limit of agents with a JVM, and maximum heap of the JVM.
const JVM_LIMIT_MIB: u64 = 684;
const HEAP_MIB: u64 = 512;

/// MiB that the operator keeps. This is more than is free below the mark for high pressure.
const KEPT_MIB: u64 = 468;

/// Returns a configuration with an operator that keeps as much memory as its events order.
fn jvm_config(home: &Path, more: &str) -> String {
    let jar = built().join("benchmarks/target/benchmarks.jar");
    format!(
        "limits: {{ memory: {JVM_LIMIT_MIB}MiB, threads: 2 }}\n\
         jvm:\n  \
           home: {}\n  \
           heap: {HEAP_MIB}MiB\n  \
           collectors: 1\n  \
           options: ['-Xmn32m', '-XX:MaxMetaspaceSize=32m', '-XX:ReservedCodeCacheSize=16m', \
             '-XX:MaxDirectMemorySize=1m'{more}]\n\
         sources:\n  app: {{ type: file, include: ['DIR/app.log'] }}\n\
         transforms:\n  \
           hoard: {{ type: jvm, inputs: [app], language: class, jar: {}, class: dev.millstream.benchmarks.Hoard }}\n\
         sinks:\n  out: {{ type: file, inputs: [hoard], path: DIR/out.log, encoding: {{ codec: text }} }}\n",
        home.display(),
        jar.display()
    )
}

/// Sends orders to the operator, and waits until they are executed.
fn order(dir: &Path, order: &str, times: u64) {
    let mut file = File::options().create(true).append(true).open(dir.join("app.log")).unwrap();
    let len = file.metadata().unwrap().len();
    let text = format!("{order}\n").repeat(times as usize);
    file.write_all(text.as_bytes()).unwrap();
    let done = len + text.len() as u64;
    let is_done = || fs::metadata(dir.join("out.log")).is_ok_and(|out| out.len() >= done);
    wait_until(&format!("{order} is done"), PATIENCE, is_done);
}

fn committed_mib(agent: &Agent) -> u64 {
    agent.single("millstream_jvm_heap_committed_bytes").unwrap_or(0.0) as u64 / MIB
}

#[test]
fn a_heap_that_makes_the_pressure_high_is_returned() {
    let home = homes().pop().unwrap();
    let dir = folder();
    let agent = start(dir.path(), &jvm_config(&home, ""));
    order(dir.path(), "keep 1024", KEPT_MIB);
    wait_until("the pressure is high", PATIENCE, || is_level(&agent, "high"));
    let collections = || agent.single("millstream_jvm_requested_collections_total").unwrap_or(0.0);
    wait_until("a collection was asked for", PATIENCE, || collections() > 0.0);
    order(dir.path(), "release", 1);
    wait_until("the heap is returned", PATIENCE, || {
        committed_mib(&agent) < HEAP_MIB / 4 && !is_level(&agent, "high")
    });
    assert_eq!(agent.single("millstream_jvm_ignored_collections_total"), Some(0.0));
    order(dir.path(), "keep 1024", KEPT_MIB);
    assert_within(&agent, JVM_LIMIT_MIB);
}

#[test]
fn a_heap_in_a_separate_process_is_returned() {
    let dir = folder();
    let config = jvm_config(&homes().pop().unwrap(), "")
        .replace("type: jvm,", "type: jvm, mode: process,")
        .replace("collectors: 1\n", "collectors: 1\n  threads: 1\n");
    let agent = start(dir.path(), &config);
    let figure = |name: &str| {
        let metric = format!("millstream_jvm_{name}{{process=\"default\"}}");
        agent.metric(&metric).unwrap_or(0.0)
    };
    order(dir.path(), "keep 1024", KEPT_MIB);
    wait_until("the pressure is high", PATIENCE, || is_level(&agent, "high"));
    order(dir.path(), "release", 1);
    wait_until("the heap is returned", PATIENCE, || {
        let committed_mib = figure("heap_committed_bytes") as u64 / MIB;
        committed_mib < HEAP_MIB / 4 && !is_level(&agent, "high")
    });
    let collections = || figure("requested_collections_total");
    wait_until("a collection was asked for", PATIENCE, || collections() > 0.0);
    assert_eq!(figure("ignored_collections_total"), 0.0);
}

#[test]
fn a_jvm_that_returns_nothing_is_named_once_and_stays_within_the_limit() {
    let home = homes().pop().unwrap();
    let dir = folder();
    let agent = start(dir.path(), &jvm_config(&home, ", '-XX:+DisableExplicitGC'"));
    order(dir.path(), "keep 1024", KEPT_MIB);
    order(dir.path(), "swap 1024", KEPT_MIB / 8);
    wait_until("the pressure is high", PATIENCE, || is_level(&agent, "high"));
    order(dir.path(), "release", 1);
    let ignored = || agent.single("millstream_jvm_ignored_collections_total").unwrap_or(0.0);
    wait_until("two collections were ignored", PATIENCE, || ignored() >= 2.0);
    assert_eq!(agent.log().matches("remove -XX:+DisableExplicitGC").count(), 1, "{}", agent.log());
    assert!(is_level(&agent, "high"), "the heap still has its memory");
    order(dir.path(), "keep 1024", KEPT_MIB);
    assert_within(&agent, JVM_LIMIT_MIB);
}
