//! Tests metrics over HTTP and TCP as blocks of msgpack, which the decoder in the documentation
//! reads.

use super::endpoint::{Act, Endpoint};
use super::{PATIENCE, counted, points, send, start_ready, stop};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::frames::{self, FrameServer};
use millstream_testkit_servers::http::{BodyRead, HttpOptions, ReceivedRequest, Reply};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Number of series of each kind.
const SERIES: usize = 40;

/// Decodes concatenated bodies.
pub fn decode(bodies: &[u8]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats/metrics_msgpack.py");
    let mut command = Command::new("python3");
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 runs");
    let (mut input, bodies) = (child.stdin.take().unwrap(), bodies.to_vec());
    let writer = std::thread::spawn(move || input.write_all(&bodies).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "the decoder ends with {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a counter and a distribution with this value for each series.
pub fn wave(value: usize) -> impl Iterator<Item = String> {
    (0..SERIES).flat_map(move |series| {
        [format!("orders:{value}|c|#shop:s{series}"), format!("login:{value}|d|#shop:s{series}")]
    })
}

/// Returns the sum of the counters and the number of values in distributions, and asserts that the
/// times of a series ascend.
fn sums(events: &[Value]) -> (f64, f64) {
    let mut last = HashMap::new();
    let (mut counters, mut values) = (0.0, 0.0);
    for event in events {
        let time = event["time_ns"].as_i64().unwrap();
        let before = last.insert((event["name"].to_string(), event["tags"].to_string()), time);
        assert!(before.is_none_or(|before| before < time), "out of order: {event}");
        match event["type"].as_str().unwrap() {
            "counter" => counters += event["value"].as_f64().unwrap(),
            _ => values += event["value"]["count"].as_f64().unwrap(),
        }
    }
    (counters, values)
}

/// Runs an agent, sends waves of points to it, one wave per period, and waits until `bytes` contain
/// the sum of the waves.
fn run(sink: &str, waves: usize, bytes: impl Fn() -> Vec<u8>) -> (TempDir, Agent) {
    let dir = folder();
    let config = points(sink).replace("period: 1s", "period: 1s, distributions: sketch");
    let agent = start_ready(dir.path(), &config);
    for number in 1..=waves {
        send(dir.path(), wave(number));
        std::thread::sleep(Duration::from_secs(1));
    }
    let all = (SERIES * waves * (waves + 1) / 2) as f64;
    let expected = (all, (SERIES * waves) as f64);
    wait_until("what the points are worth", PATIENCE, || sums(&decode(&bytes())) == expected);
    let events = decode(&bytes()).len() as u64;
    wait_until("the counters", PATIENCE, || counted(&agent, "sent_events", "") == events);
    assert_eq!(counted(&agent, "dropped_events", ""), 0);
    (dir, agent)
}

/// Calls [`run`] with a sink over HTTP.
fn run_http(endpoint: &Endpoint, waves: usize, more: &str) -> (TempDir, Agent) {
    let uri = endpoint.server.uri("/in");
    let sink = format!(
        "type: http, uri: '{uri}', spread: 0s, encoding: {{ codec: msgpack }}, batch: {{ timeout: 10ms }}, \
         request: {{ timeout: 5s }}, {more}"
    );
    let ran = run(&sink, waves, || endpoint.bytes());
    endpoint.assert_no_needless_repeats();
    ran
}

#[test]
fn sums_are_exact_after_faults_of_the_endpoint() {
    let wait = vec![("Retry-After", "1".to_owned())];
    let endpoint = Endpoint::start(move |_, nth| match nth {
        0 => Act::Instead(Reply::status(500)),
        1 => Act::KeepThen(Reply::Hang),
        2 => Act::Instead(Reply::Status(429, wait.clone(), String::new())),
        4 => Act::KeepThen(Reply::Reset),
        5 => Act::Instead(Reply::Reset),
        6 => Act::KeepThen(Reply::status(503)),
        _ => Act::Keep,
    });
    let (_dir, agent) = run_http(&endpoint, 4, "compression: zstd");
    assert!(endpoint.repeats() >= 2, "{}", endpoint.repeats());
    stop(agent);
}

#[test]
fn sums_are_exact_after_broken_connections_and_split_requests() {
    let requests = AtomicUsize::new(0);
    let body_read = move |_: &ReceivedRequest| match requests.fetch_add(1, Ordering::Relaxed) {
        0 | 2 => BodyRead::ResetAfter(50),
        1 => BodyRead::Never,
        _ => BodyRead::Whole,
    };
    let options = HttpOptions { body_read: Box::new(body_read), ..HttpOptions::default() };
    let endpoint = Endpoint::with(options, |seen, _| match seen.body.len() > 2000 {
        true => Act::Instead(Reply::status(413)),
        false => Act::Keep,
    });
    let (_dir, agent) = run_http(&endpoint, 3, "");
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn sums_are_exact_over_tcp_after_faults() {
    let endpoint = FrameServer::start(|message| match message.nth {
        0 => frames::Act::KeepThenReset,
        1 => frames::Act::Reset,
        3 => frames::Act::KeepWithoutAck,
        4 => frames::Act::Discard,
        _ => frames::Act::Keep,
    });
    let sink = format!(
        "type: tcp, address: '127.0.0.1:{}', encoding: {{ codec: msgpack }}, framing: length, \
         acknowledgements: true, compression: zlib, batch: {{ timeout: 10ms }}, timeout: 500ms",
        endpoint.port
    );
    let (_dir, agent) = run(&sink, 4, || endpoint.bytes());
    assert!(endpoint.connections() >= 4 && endpoint.kept().iter().all(|batch| batch.times == 1));
    stop(agent);
}
