//! Tests remote write to a real Prometheus behind injected faults.

use super::endpoint::{Act, Endpoint};
use super::{PATIENCE, counted, points, send, start_ready, stop};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::http::{HttpOptions, ReceivedRequest, Reply};
use millstream_testkit_servers::prometheus::Prometheus;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// Number of series per test.
const SERIES: usize = 30;

/// Forwards a request to Prometheus; returns the response.
pub fn forward(prometheus: &Prometheus, seen: &ReceivedRequest) -> Reply {
    let mut stream = TcpStream::connect(prometheus.address()).unwrap();
    let mut head =
        format!("POST /api/v1/write HTTP/1.0\r\nContent-Length: {}\r\n", seen.body.len());
    for name in
        ["content-type", "content-encoding", "x-prometheus-remote-write-version", "user-agent"]
    {
        head.push_str(&format!("{name}: {}\r\n", seen.header(name)));
    }
    stream.write_all(&[format!("{head}\r\n").as_bytes(), &seen.body].concat()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    Reply::Status(status, Vec::new(), body.to_owned())
}

/// Returns a sink that writes to `uri`; the series of this test have the label `test`.
pub fn sink(uri: &str, test: &str) -> String {
    points(&format!(
        "type: prometheus_remote_write, uri: '{uri}', spread: 0s, labels: {{ test: {test} }}, request: {{ timeout: 2s }}, \
         batch: {{ timeout: 10ms }}"
    ))
}

/// Sends a point with `value` for each series.
pub fn send_points(dir: &Path, value: usize) {
    send(dir, (0..SERIES).map(|series| format!("faults.orders:{value}|c|#shop:s{series}")));
}

/// Waits until the sum of each series in Prometheus is `sum`.
pub fn wait_sum(test: &str, sum: usize) {
    let query = format!("faults_orders_total{{test='{test}'}} == {sum}");
    wait_until(&query, PATIENCE, || Prometheus::shared().query(&query).len() == SERIES);
}

/// Sends points, and waits until the sum of each series in Prometheus is `sum`.
pub fn add(dir: &Path, test: &str, value: usize, sum: usize) {
    send_points(dir, value);
    wait_sum(test, sum);
}

/// Returns the counts of dropped events by reason.
fn dropped(agent: &Agent) -> String {
    let metrics = agent.get("/metrics").unwrap_or_default();
    let is_drop = |line: &&str| line.starts_with("millstream_component_dropped_events_total{");
    metrics.lines().filter(is_drop).collect::<Vec<_>>().join("\n")
}

/// Waits until the sink has sent every event that the source has emitted. Asserts that none was
/// dropped, and that no sum in Prometheus has decreased.
pub fn assert_exact(agent: &Agent, test: &str) {
    let source = "millstream_component_sent_events_total{component_id=\"points\"";
    let produced = || agent.metric(source).unwrap() as u64;
    let counts = || (counted(agent, "sent_events", ""), counted(agent, "dropped_events", ""));
    // The source may emit events between the two readings.
    let begun = std::time::Instant::now();
    while counts() != (produced(), 0) {
        let (counts, produced) = (counts(), produced());
        let log = || format!("{}\n{}", dropped(agent), agent.log());
        assert!(begun.elapsed() < PATIENCE, "{counts:?} sent and dropped of {produced}\n{}", log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let falls = format!("sum(resets(faults_orders_total{{test='{test}'}}[10m]))");
    assert_eq!(Prometheus::shared().value(&falls), Some(0.0));
}

#[test]
fn sums_in_prometheus_are_exact_after_faults() {
    let wait = vec![("Retry-After", "1".to_owned())];
    let act = move |_: &ReceivedRequest, nth: usize| match nth {
        1 | 9 => Act::Instead(Reply::status(500)),
        2 | 10 => Act::KeepThen(Reply::Hang),
        3 => Act::KeepThen(Reply::status(502)),
        5 => Act::Instead(Reply::Reset),
        6 => Act::KeepThen(Reply::Reset),
        8 => Act::Instead(Reply::Status(429, wait.clone(), String::new())),
        _ => Act::Keep,
    };
    let endpoint =
        Endpoint::before(HttpOptions::default(), act, |seen| forward(Prometheus::shared(), seen));
    let dir = folder();
    let agent = start_ready(dir.path(), &sink(&endpoint.server.uri("/api/v1/write"), "answers"));
    for (value, sum) in [(3, 3), (4, 7), (1, 8), (5, 13), (2, 15)] {
        add(dir.path(), "answers", value, sum);
    }
    assert_exact(&agent, "answers");
    let mut times: HashMap<String, usize> = HashMap::new();
    let ids = endpoint
        .server
        .requests()
        .into_iter()
        .map(|seen| seen.header("idempotency-key").to_owned());
    ids.for_each(|id| *times.entry(id).or_default() += 1);
    assert!(
        times.values().filter(|times| **times > 1).count() >= 3,
        "requests that came again: {times:?}"
    );
    stop(agent);
}
