//! Tests the `syslog` source with real senders, and with senders that misbehave.

mod faults;
mod senders;
mod tls;

use crate::support::{Agent, lines, wait_until};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a configuration whose `net` source listens on all kinds of sockets with the options
/// `more`, and whose events are in `DIR/out.json`.
fn config(port: u16, more: &str) -> String {
    let listen = format!(
        "['udp://127.0.0.1:{port}', 'tcp://127.0.0.1:{port}', 'unixgram://DIR/log', \
         'unix://DIR/stream']"
    );
    format!(
        "sources:\n  net: {{ type: syslog, listen: {listen}, {more} }}\nsinks:\n  out: {{ type: \
         file, inputs: [net], path: DIR/out.json, sync: 50ms, encoding: {{ metadata: [] }} }}\n"
    )
}

/// Starts an agent, and waits until it listens.
fn start(dir: &Path, config: &str) -> Agent {
    let mut agent = Agent::start(dir, config, &[]);
    wait_ready(&mut agent);
    agent
}

fn wait_ready(agent: &mut Agent) {
    wait_until("the agent listens", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
}

/// Returns a counter of the source, by reason or error type.
fn counted(agent: &Agent, metric: &str, label: &str) -> f64 {
    let metrics = agent.get("/metrics").unwrap_or_default();
    let start = format!("millstream_component_{metric}_total{{component_id=\"net\"");
    let found = metrics.lines().find(|line| line.starts_with(&start) && line.contains(label));
    found.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

/// Returns the events in a file.
fn events(path: &Path) -> Vec<Value> {
    let parse = |line: &String| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    lines(path).iter().map(parse).collect()
}

/// Waits until there are this many events, and returns them.
fn wait_for_events(dir: &Path, count: usize) -> Vec<Value> {
    let path = dir.join("out.json");
    wait_until("the events", PATIENCE, || lines(&path).len() >= count);
    let events = events(&path);
    assert_eq!(events.len(), count, "{:?}", events.last());
    events
}

/// Returns the number at the end of the message of each event.
fn numbers(events: &[Value]) -> Vec<usize> {
    let number = |event: &Value| {
        let message = event["message"].as_str()?;
        message.rsplit(' ').next()?.parse().ok()
    };
    events.iter().map(|event| number(event).unwrap_or_else(|| panic!("{event}"))).collect()
}
