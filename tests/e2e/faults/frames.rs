//! Lines over TCP, as frames with acknowledgements.

use super::{FILES, PATIENCE, append, assert_lines, counted, logs, stop, wait_settled};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::frames::{Act, Batch, FrameServer, Message};
use std::time::Duration;
use tempfile::TempDir;

/// Lines of each file.
const LINES: usize = 250;

/// Parts in which they are written.
const ROUNDS: usize = 10;

const ALL: u64 = (FILES * LINES) as u64;

fn config(port: u16, timeout: &str, more: &str) -> String {
    logs(&format!(
        "type: tcp, address: '127.0.0.1:{port}', framing: length, acknowledgements: true, \
         batch: {{ bytes: 8KiB, timeout: 10ms }}, window: {{ frames: 4 }}, timeout: {timeout}, {more}"
    ))
}

/// Has an agent send all lines, in at least so many messages as there are rounds.
fn send(far: &FrameServer, timeout: &str, more: &str) -> (TempDir, Agent) {
    let dir = folder();
    append(dir.path(), 0, 0);
    let agent = Agent::start(dir.path(), &config(far.port, timeout, more), &[]);
    for round in 0..ROUNDS {
        append(dir.path(), round * LINES / ROUNDS, LINES / ROUNDS);
        let settled = FILES * (round + 1) * LINES / ROUNDS;
        wait_settled(&agent, settled as u64);
    }
    (dir, agent)
}

/// An agent that has an answer for each of its lines from the endpoint, which has them all.
fn run(far: &FrameServer, timeout: &str, more: &str) -> (TempDir, Agent) {
    let (dir, agent) = send(far, timeout, more);
    assert_eq!(wait_settled(&agent, ALL), (ALL, 0), "sent and dropped");
    assert_lines(&far.text(), LINES, |_| false);
    (dir, agent)
}

/// Line ends in a batch.
fn lines(batch: &Batch) -> usize {
    batch.body.iter().filter(|byte| **byte == b'\n').count()
}

fn repeats(far: &FrameServer) -> usize {
    far.kept().iter().filter(|batch| batch.times > 1).count()
}

/// The first messages fare like this, each on a connection of its own.
fn at_first(acts: Vec<Act>) -> impl Fn(Message) -> Act + Send + Sync {
    move |message| acts.get(message.nth).cloned().unwrap_or(Act::Keep)
}

#[test]
fn acknowledgements_that_get_lost_make_no_repeats() {
    let far = FrameServer::start(at_first(vec![
        Act::KeepThenReset,
        Act::KeepSilently,
        Act::KeepThenReset,
    ]));
    let (_dir, agent) = run(&far, "500ms", "compression: gzip");
    // An endpoint that knows its sessions says at the greeting what it has.
    assert_eq!((far.connections(), repeats(&far)), (4, 0));
    assert!(far.kept().iter().all(|batch| batch.events as usize == lines(batch)));
    stop(agent);
}

#[test]
fn frames_that_get_lost_are_sent_again_in_order() {
    let far = FrameServer::start(at_first(vec![Act::Reset, Act::Ignore, Act::Stall, Act::Reset]));
    let (_dir, agent) = run(&far, "500ms", "compression: lz4");
    assert_eq!((far.connections(), repeats(&far)), (5, 0));
    assert!(counted(&agent, "errors", "error_type=\"timeout\"") >= 2, "{}", agent.log());
    stop(agent);
}

#[test]
fn answers_against_the_protocol_are_said_and_left() {
    let ahead = [&[0, 0, 0, 9, b'A'][..], &1_000_000_u64.to_be_bytes()].concat();
    let unknown = [&[0, 0, 0, 9, b'X'][..], &1_u64.to_be_bytes()].concat();
    let endless = vec![0xff; 1 << 20];
    let acts =
        [ahead, unknown, endless, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()].map(Act::Write);
    let far = FrameServer::start(at_first(acts.to_vec()));
    let (_dir, agent) = run(&far, "500ms", "compression: zlib");
    assert_eq!(counted(&agent, "errors", "error_type=\"protocol\""), 4, "{}", agent.log());
    assert_eq!(repeats(&far), 0);
    stop(agent);
}

#[test]
fn late_acknowledgements_are_waited_for() {
    let far = FrameServer::start(at_first(vec![Act::Late(Duration::from_millis(300)); 3]));
    let (_dir, agent) = run(&far, "30s", "compression: snappy");
    assert_eq!((far.connections(), repeats(&far), counted(&agent, "errors", "")), (1, 0, 0));
    stop(agent);
}

#[test]
fn a_batch_that_is_refused_is_dropped_alone() {
    let far = FrameServer::start(|message| match message.number {
        3 | 4 => Act::Refuse("no"),
        7 => Act::KeepThenReset,
        _ => Act::Keep,
    });
    let (_dir, agent) = send(&far, "500ms", "compression: zstd");
    let (sent, dropped) = wait_settled(&agent, ALL);
    assert_eq!(sent + dropped, ALL);
    assert_eq!(counted(&agent, "dropped_events", "reason=\"refused\""), dropped);
    let kept = far.text();
    assert_eq!(kept.lines().count() as u64, sent, "what was sent is there");
    assert!(dropped > 0);
    let lines: std::collections::HashSet<&str> = kept.lines().collect();
    assert_lines(&kept, LINES, |line| !lines.contains(line));
    assert_eq!(repeats(&far), 0);
    stop(agent);
}

#[test]
fn killed_agents_among_faults_of_the_endpoint_lose_nothing() {
    let far = FrameServer::start(|message| match message.nth % 5 {
        1 => Act::KeepThenReset,
        3 => Act::Ignore,
        _ => Act::Keep,
    });
    let dir = folder();
    let config = config(far.port, "500ms", "compression: gzip");
    for round in 0..ROUNDS {
        append(dir.path(), round * LINES, LINES);
        let mut agent = Agent::start(dir.path(), &config, &[]);
        std::thread::sleep(Duration::from_millis(250 + 90 * round as u64));
        agent.kill();
    }
    let agent = Agent::start(dir.path(), &config, &[]);
    let all = FILES * ROUNDS * LINES;
    let distinct = || far.text().lines().collect::<std::collections::HashSet<_>>().len();
    wait_until("every line", PATIENCE, || distinct() == all);
    stop(agent);
    // Within a session nothing comes twice.
    assert_eq!(repeats(&far), 0);
}
