//! Tests metric points from real clients and handwritten points against the resulting events.

mod aggregates;
mod clients;
mod clock;
mod container;
mod ending;
mod hostile;
mod java;
mod kernel;
mod network;
mod pipeline;
mod starts;

use crate::support::{Agent, lines, wait_until};
use millstream_testkit_servers::ports::free_port;
use serde_json::Value;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// A period that does not end during a test.
const ONE_PERIOD: &str = "period: 1d";

/// Returns a configuration whose `points` source has the options `source`, and whose events are in
/// `DIR/out.json`.
fn config(source: &str) -> String {
    format!(
        "sources:\n  points: {{ {source} }}\nsinks:\n  out: {{ type: file, inputs: [points], \
         path: DIR/out.json, sync: 50ms, encoding: {{ metadata: [] }} }}\n"
    )
}

/// Starts an agent with the source, and waits until it listens.
fn start(dir: &Path, source: &str) -> Agent {
    let mut agent = Agent::start(dir, &config(source), &[]);
    wait_until("the agent listens", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
    agent
}

/// Returns a free UDP address.
fn udp() -> String {
    format!("udp://127.0.0.1:{}", free_port())
}

/// Sends datagrams to a Unix socket; waits while it is full.
fn send_all(path: &Path, messages: &[impl AsRef<[u8]>]) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(path).unwrap();
    messages.iter().for_each(|message| assert!(socket.send(message.as_ref()).is_ok()));
}

/// Returns a counter of the source, by reason or error type.
fn counted(agent: &Agent, metric: &str, label: &str) -> f64 {
    let metrics = agent.get("/metrics").unwrap_or_default();
    let mut found = metrics.lines().filter(|line| {
        line.starts_with(&format!("millstream_component_{metric}_total{{component_id=\"points\""))
            && line.contains(label)
    });
    let value = found.next().and_then(|line| line.rsplit(' ').next()?.parse().ok());
    assert!(found.next().is_none(), "{metric} {label} is not one line:\n{metrics}");
    value.unwrap_or(0.0)
}

/// The events of an agent.
struct Events(Vec<Value>);

impl Events {
    fn read(dir: &Path) -> Events {
        let parse = |line: &String| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
        };
        Events(lines(&dir.join("out.json")).iter().map(parse).collect())
    }

    /// Returns the events of a metric with these tags, which have the syntax of sorted
    /// `key:value,key`.
    fn of(&self, name: &str, tags: &str) -> Vec<&Value> {
        self.0.iter().filter(|event| event["name"] == name && tags_of(event) == tags).collect()
    }

    /// Returns the value of a series that has one event.
    fn one(&self, name: &str, tags: &str) -> f64 {
        let events = self.of(name, tags);
        assert_eq!(events.len(), 1, "{name} {tags}: {events:?}");
        number(events[0])
    }

    /// Returns the sum of a series over all periods.
    fn sum(&self, name: &str, tags: &str) -> f64 {
        let events = self.of(name, tags);
        let is_delta = |event: &&&Value| event["temporality"] == "delta";
        assert!(events.iter().all(|event| is_delta(&event)), "{events:?}");
        events.into_iter().map(number).sum()
    }
}

fn number(event: &Value) -> f64 {
    event["value"].as_f64().unwrap_or_else(|| panic!("{event}: no number"))
}

/// Returns the tags of an event as `key:value,key`.
fn tags_of(event: &Value) -> String {
    let one = |key: &str, value: &Value| match value {
        Value::String(value) => format!("{key}:{value}"),
        Value::Bool(true) => key.to_owned(),
        other => panic!("{key}: {other} is no value of a tag"),
    };
    let all = |(key, value): (&String, &Value)| match value {
        Value::Array(values) => values.iter().map(|value| one(key, value)).collect(),
        value => vec![one(key, value)],
    };
    let mut tags: Vec<String> =
        event["tags"].as_object().into_iter().flatten().flat_map(all).collect();
    tags.sort();
    tags.join(",")
}
