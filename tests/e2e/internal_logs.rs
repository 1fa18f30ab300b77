//! Tests the `internal_logs` source in a running agent: sinks that cannot deliver its events,
//! reloads, stops.

use crate::support::{Agent, folder, lines, wait_until};
use serde_json::Value;
use std::net::TcpListener;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A sink that writes to a file, and a sink that always fails, because port 9 has no listener.
const CONFIG: &str = "sources: { log: { type: internal_logs } }\n\
    sinks:\n  \
    kept: { type: file, inputs: [log], path: DIR/out.jsonl, encoding: { codec: json } }\n  \
    dead: { type: http, inputs: [log], uri: 'http://127.0.0.1:9', batch: { timeout: 10ms } }\n";

#[test]
fn a_sink_that_fails_with_the_log_does_not_feed_it() {
    let dir = folder();
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    let records = || -> Vec<Value> {
        let lines = lines(&dir.path().join("out.jsonl"));
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    wait_until("the failure of the sink", LIMIT, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        records().iter().any(|record| record["component"] == "dead")
    });
    let failures = || agent.metric("millstream_component_errors_total{component_id=\"dead\"");
    let retries = || failures().unwrap_or(0.0);
    let before = retries();
    wait_until("more retries", LIMIT, || retries() >= before + 3.0);
    let all = records();
    // The first source also gets the log from before it started, which includes the start of the
    // agent.
    let is_start = |record: &Value| {
        record["message"].as_str().is_some_and(|text| text.contains("metrics and API at"))
    };
    assert!(all.iter().any(|record| is_start(record) && record["level"] == "info"), "{all:#?}");
    let of_sink: Vec<&Value> = all.iter().filter(|record| record["component"] == "dead").collect();
    assert!(of_sink.iter().all(|record| record["target"].as_str().is_some()), "{of_sink:#?}");
    // The agent logs at most 6 lines from each place in the code within 10 s, and only a few places
    // log.
    assert!(all.len() < 100, "{} records", all.len());
}

/// Every log line until shutdown becomes one event, although the source is replaced.
#[test]
fn a_reload_and_a_stop_lose_no_record() {
    let dir = folder();
    let config = |env: &str| {
        format!(
            "sources: {{ log: {{ type: internal_logs, attributes: {{ env: {env} }} }} }}\n\
             sinks:\n  \
             kept: {{ type: file, inputs: [log], path: DIR/out.jsonl, encoding: {{ codec: json }} }}\n"
        )
    };
    let mut agent = Agent::start(dir.path(), &config("old"), &[]);
    let records = || -> Vec<Value> {
        let lines = lines(&dir.path().join("out.jsonl"));
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let has = |env: &str| records().iter().any(|record| record["env"] == env);
    wait_until("the first records", LIMIT, || has("old"));
    agent.reload(&config("new"));
    wait_until("records of the new source", LIMIT, || has("new"));
    assert!(agent.stop().success(), "{}", agent.log());
    let (log, records) = (agent.log(), records());
    let messages: Vec<&str> =
        records.iter().filter_map(|record| record["message"].as_str()).collect();
    let (reload, stop) =
        ("SIGHUP: reloading the configuration", "SIGTERM: draining events in flight");
    for once in [reload, stop] {
        assert_eq!(messages.iter().filter(|message| **message == once).count(), 1, "{once}");
    }
    for line in log.lines().take_while(|line| !line.ends_with(stop)) {
        let is_there = messages.iter().any(|message| line.ends_with(message));
        assert!(is_there, "{line}: not in {messages:#?}");
    }
    assert!(log.lines().last().unwrap().ends_with("lost: nothing"), "{log}");
}

/// Records of a source that a reload has removed may be waiting at a sink. If the sink does not
/// deliver them, they count as lost, and so do the waiting records of the new source.
#[test]
fn the_last_line_counts_what_sources_before_a_reload_have_left_at_a_sink() {
    let dir = folder();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", silent.local_addr().unwrap());
    let config = |id: &str| {
        format!(
            "shutdown_timeout: 1s\nsources: {{ {id}: {{ type: internal_logs }} }}\n\
             sinks: {{ out: {{ type: http, inputs: [{id}], uri: '{uri}' }} }}\n"
        )
    };
    let mut agent = Agent::start(dir.path(), &config("old"), &[]);
    let received =
        || agent.metric("millstream_component_received_events_total{component_id=\"out\"");
    wait_until("the first record is at the sink", LIMIT, || received() >= Some(1.0));
    agent.reload(&config("new"));
    wait_until("the reload", LIMIT, || agent.log().contains("configuration reloaded;"));
    agent.terminate();
    assert!(!agent.wait(LIMIT).success(), "{}", agent.log());
    let log = agent.log();
    let lost = log.lines().last().unwrap().split_once("lost: ").map(|(_, lost)| lost);
    let bytes =
        lost.and_then(|lost| lost.split_once(' ')).and_then(|(n, _)| n.parse::<usize>().ok());
    let first = log.lines().next().unwrap().rsplit_once("  ").map(|(_, message)| message.len());
    assert!(bytes > first, "{log}");
}
