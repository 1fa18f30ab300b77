//! The fault table: what endpoints and networks do to sinks that send over a network, with the real
//! binary.
//!
//! Each test is a row, or several that one run of the agent proves. All hold the same: nothing is
//! lost, order is kept, repeats come only where an answer was lost and are known by their id, and
//! counters are exact.

mod far;
mod frames;
mod herd;
mod http;
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

/// How long anything may take that should happen soon: a busy host, not a good one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files that are read at once.
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

/// A line as `append` writes it.
fn line(file: usize, number: usize) -> String {
    format!("{file:02} {number:06} some words of a line")
}

/// A configuration that sends those files as lines to a sink with these options.
fn logs(sink: &str) -> String {
    format!(
        "sources:\n  app: {{ type: file, include: ['DIR/in/*.log'] }}\n\
         sinks:\n  out: {{ inputs: [app], encoding: {{ codec: text }}, {sink} }}\n"
    )
}

/// All lines of each file are there, once and in order, but for those that `is_missing` names.
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

/// A counter of the sink, over all lines of it that have this label.
fn counted(agent: &Agent, metric: &str, label: &str) -> u64 {
    let begin = format!("millstream_component_{metric}_total{{component_id=\"out\"");
    let metrics = agent.get("/metrics").unwrap_or_default();
    let found = metrics.lines().filter(|line| line.starts_with(&begin) && line.contains(label));
    found.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

/// Waits until the sink has answered for so many events; how many of them it sent, and how many it
/// dropped.
fn wait_settled(agent: &Agent, events: u64) -> (u64, u64) {
    let counts = || (counted(agent, "sent_events", ""), counted(agent, "dropped_events", ""));
    let begun = std::time::Instant::now();
    while counts().0 + counts().1 < events {
        assert!(begun.elapsed() < PATIENCE, "{:?} of {events} events\n{}", counts(), agent.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    // What is counted twice is counted by now.
    std::thread::sleep(Duration::from_millis(50));
    counts()
}

/// A configuration that sends points to a sink with these options, at the end of each second.
fn points(sink: &str) -> String {
    format!(
        "sources:\n  points: {{ type: dogstatsd, listen: ['unixgram://DIR/points.sock'], period: 1s }}\n\
         sinks:\n  out: {{ inputs: [points], {sink} }}\n"
    )
}

/// Starts an agent, and waits until it listens.
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

/// Stops the agent, which ends well.
fn stop(mut agent: Agent) {
    assert!(agent.stop().success(), "{}", agent.log());
}
