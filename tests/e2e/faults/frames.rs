//! Tests lines over TCP in frames with acknowledgements.

use super::{FILES, PATIENCE, append, assert_lines, counted, logs, stop, wait_settled};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::frames::{Act, Batch, FrameServer, Message};
use std::time::Duration;
use tempfile::TempDir;

/// Number of lines per file.
const LINES: usize = 250;

/// Number of appends in which the lines are written.
const ROUNDS: usize = 10;

const ALL: u64 = (FILES * LINES) as u64;

/// Timeout of an acknowledgement. It is long because an acknowledgement takes a second or two on a
/// busy host, and a timeout that a test does not cause would be counted as an error.
const TIMEOUT: &str = "5s";

fn config(port: u16, timeout: &str, more: &str) -> String {
    logs(&format!(
        "type: tcp, address: '127.0.0.1:{port}', framing: length, acknowledgements: true, \
         batch: {{ bytes: 8KiB, timeout: 10ms }}, window: {{ frames: 4 }}, timeout: {timeout}, {more}"
    ))
}

/// Runs an agent that sends all lines in at least one message per round.
fn send(endpoint: &FrameServer, timeout: &str, more: &str) -> (TempDir, Agent) {
    let dir = folder();
    append(dir.path(), 0, 0);
    let agent = Agent::start(dir.path(), &config(endpoint.port, timeout, more), &[]);
    for round in 0..ROUNDS {
        append(dir.path(), round * LINES / ROUNDS, LINES / ROUNDS);
        let settled = FILES * (round + 1) * LINES / ROUNDS;
        wait_settled(&agent, settled as u64);
    }
    (dir, agent)
}

/// Runs an agent until each of its lines is acknowledged, and checks that the endpoint has all
/// lines.
fn run(endpoint: &FrameServer, timeout: &str, more: &str) -> (TempDir, Agent) {
    let (dir, agent) = send(endpoint, timeout, more);
    assert_eq!(wait_settled(&agent, ALL), (ALL, 0), "sent and dropped");
    assert_lines(&endpoint.text(), LINES, |_| false);
    (dir, agent)
}

/// Counts the newlines in a batch.
fn lines(batch: &Batch) -> usize {
    batch.body.iter().filter(|byte| **byte == b'\n').count()
}

fn repeats(endpoint: &FrameServer) -> usize {
    endpoint.kept().iter().filter(|batch| batch.times > 1).count()
}

/// Returns a function that reacts to the first messages with `acts`, and stores all others.
fn at_first(acts: Vec<Act>) -> impl Fn(Message) -> Act + Send + Sync {
    move |message| acts.get(message.nth).cloned().unwrap_or(Act::Keep)
}

#[test]
fn lost_acknowledgements_cause_no_repeats() {
    let endpoint = FrameServer::start(at_first(vec![
        Act::KeepThenReset,
        Act::KeepWithoutAck,
        Act::KeepThenReset,
    ]));
    let (_dir, agent) = run(&endpoint, TIMEOUT, "compression: gzip");
    // The greeting of an endpoint that keeps sessions contains the number of the last message that
    // it has received, so no message is repeated.
    assert_eq!((endpoint.connections(), repeats(&endpoint)), (4, 0));
    assert!(endpoint.kept().iter().all(|batch| batch.events as usize == lines(batch)));
    stop(agent);
}

#[test]
fn lost_frames_are_resent_in_order() {
    let endpoint =
        FrameServer::start(at_first(vec![Act::Reset, Act::Discard, Act::Stall, Act::Reset]));
    let (_dir, agent) = run(&endpoint, TIMEOUT, "compression: lz4");
    assert_eq!((endpoint.connections(), repeats(&endpoint)), (5, 0));
    assert!(counted(&agent, "errors", "error_type=\"timeout\"") >= 2, "{}", agent.log());
    stop(agent);
}

#[test]
fn protocol_violations_are_logged_and_end_the_connection() {
    let ahead = [&[0, 0, 0, 9, b'A'][..], &1_000_000_u64.to_be_bytes()].concat();
    let unknown = [&[0, 0, 0, 9, b'X'][..], &1_u64.to_be_bytes()].concat();
    let endless = vec![0xff; 1 << 20];
    let acts =
        [ahead, unknown, endless, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()].map(Act::Write);
    let endpoint = FrameServer::start(at_first(acts.to_vec()));
    let (_dir, agent) = run(&endpoint, TIMEOUT, "compression: zlib");
    assert_eq!(counted(&agent, "errors", "error_type=\"protocol\""), 4, "{}", agent.log());
    assert_eq!(repeats(&endpoint), 0);
    stop(agent);
}

#[test]
fn late_acknowledgements_are_accepted() {
    let endpoint = FrameServer::start(at_first(vec![Act::AckAfter(Duration::from_millis(300)); 3]));
    let (_dir, agent) = run(&endpoint, "30s", "compression: snappy");
    assert_eq!(
        (endpoint.connections(), repeats(&endpoint), counted(&agent, "errors", "")),
        (1, 0, 0)
    );
    stop(agent);
}

#[test]
fn a_rejected_batch_is_dropped_alone() {
    let endpoint = FrameServer::start(|message| match message.number {
        3 | 4 => Act::Reject("no"),
        7 => Act::KeepThenReset,
        _ => Act::Keep,
    });
    let (_dir, agent) = send(&endpoint, TIMEOUT, "compression: zstd");
    let (sent, dropped) = wait_settled(&agent, ALL);
    assert_eq!(sent + dropped, ALL);
    assert_eq!(counted(&agent, "dropped_events", "reason=\"refused\""), dropped);
    let kept = endpoint.text();
    assert_eq!(kept.lines().count() as u64, sent, "what was sent is there");
    assert!(dropped > 0);
    let lines: std::collections::HashSet<&str> = kept.lines().collect();
    assert_lines(&kept, LINES, |line| !lines.contains(line));
    assert_eq!(repeats(&endpoint), 0);
    stop(agent);
}

#[test]
fn agents_killed_during_faults_lose_nothing() {
    let endpoint = FrameServer::start(|message| match message.nth % 5 {
        1 => Act::KeepThenReset,
        3 => Act::Discard,
        _ => Act::Keep,
    });
    let dir = folder();
    let config = config(endpoint.port, "500ms", "compression: gzip");
    for round in 0..ROUNDS {
        append(dir.path(), round * LINES, LINES);
        let mut agent = Agent::start(dir.path(), &config, &[]);
        std::thread::sleep(Duration::from_millis(250 + 90 * round as u64));
        agent.kill();
    }
    let agent = Agent::start(dir.path(), &config, &[]);
    let all = FILES * ROUNDS * LINES;
    let distinct = || endpoint.text().lines().collect::<std::collections::HashSet<_>>().len();
    wait_until("every line", PATIENCE, || distinct() == all);
    stop(agent);
    // Nothing is repeated within a session.
    assert_eq!(repeats(&endpoint), 0);
}
