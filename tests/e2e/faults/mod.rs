//! Tests the fault table with the real binary: faults of endpoints and networks for network sinks.
//!
//! Each test covers one or more rows. In each row nothing is lost, order is kept, repeats occur
//! only after a lost response and have the same id, and counters are exact.

mod disk_buffer;
pub mod endpoint;
mod frames;
mod herd;
mod http;
mod http_proxy;
mod links;
mod metrics;
mod proxy;
mod remote_write;
mod shed;
mod tls;

use crate::support::{Agent, wait_until};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of files that are read concurrently.
const FILES: usize = 12;

/// Appends numbered lines to every file.
fn append(dir: &Path, from: usize, count: usize) {
    fs::create_dir_all(dir.join("in")).unwrap();
    for file in 0..FILES {
        let path = dir.join(format!("in/{file}.log"));
        let mut out = File::options().create(true).append(true).open(path).unwrap();
        let text: String = (from..from + count).map(|n| line(file, n) + "\n").collect();
        out.write_all(text.as_bytes()).unwrap();
    }
}

/// Returns a line as `append` writes it.
fn line(file: usize, number: usize) -> String {
    format!("{file:02} {number:06} some words of a line")
}

/// Returns a configuration that sends the lines of all files to a sink with these options.
fn logs(sink: &str) -> String {
    format!(
        "sources:\n  app: {{ type: file, include: ['DIR/in/*.log'] }}\n\
         sinks:\n  out: {{ inputs: [app], encoding: {{ codec: text }}, {sink} }}\n"
    )
}

/// Asserts that each file's lines arrived once and in order, except those that `is_missing`
/// selects.
fn assert_lines(text: &str, count: usize, is_missing: impl Fn(&str) -> bool) {
    for file in 0..FILES {
        let begin = format!("{file:02} ");
        let of_file = text.lines().filter(|line| line.starts_with(&begin));
        let expected = (0..count).map(|number| line(file, number)).filter(|line| !is_missing(line));
        for (at, (found, expected)) in of_file.clone().zip(expected.clone()).enumerate() {
            assert_eq!(found, expected, "file {file}, line {at}");
        }
        assert_eq!(of_file.count(), expected.count(), "lines of file {file}");
    }
    let length = line(0, 0).len();
    assert!(text.lines().all(|line| line.len() == length), "pieces of lines");
}

/// Returns a counter of the sink, summed over the series with this label.
fn counted(agent: &Agent, metric: &str, label: &str) -> u64 {
    let begin = format!("millstream_component_{metric}_total{{component_id=\"out\"");
    let metrics = agent.get("/metrics").unwrap_or_default();
    let found = metrics.lines().filter(|line| line.starts_with(&begin) && line.contains(label));
    found.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

/// Waits until the sink has settled `events` events; returns how many of them it sent and dropped.
fn wait_settled(agent: &Agent, events: u64) -> (u64, u64) {
    let counts = || (counted(agent, "sent_events", ""), counted(agent, "dropped_events", ""));
    let begun = std::time::Instant::now();
    while counts().0 + counts().1 < events {
        assert!(begun.elapsed() < PATIENCE, "{:?} of {events} events\n{}", counts(), agent.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    // Leave time for events that are counted twice to appear.
    std::thread::sleep(Duration::from_millis(50));
    counts()
}

/// Returns a configuration that sends points to a sink with these options at the end of each
/// second.
fn points(sink: &str) -> String {
    format!(
        "sources:\n  points: {{ type: dogstatsd, listen: ['unixgram://DIR/points.sock'], period: 1s }}\n\
         sinks:\n  out: {{ inputs: [points], {sink} }}\n"
    )
}

/// Starts an agent and waits until it listens.
fn start_ready(dir: &Path, config: &str) -> Agent {
    let mut agent = Agent::start(dir, config, &[]);
    wait_until("the agent listens", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        dir.join("points.sock").exists()
    });
    agent
}

/// Sends points, one per datagram.
fn send(dir: &Path, points: impl IntoIterator<Item = String>) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(dir.join("points.sock")).unwrap();
    points.into_iter().for_each(|point| assert!(socket.send(point.as_bytes()).is_ok()));
}

/// Stops the agent and asserts success.
fn stop(mut agent: Agent) {
    assert!(agent.stop().success(), "{}", agent.log());
}
