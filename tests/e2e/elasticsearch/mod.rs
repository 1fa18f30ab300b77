//! Tests the real binary with OpenSearch and Elasticsearch: each event becomes one document,
//! despite faults of nodes and networks.

mod bulk_endpoint;
mod delivery;
mod faults;
mod hostile;
mod network;
mod rejected;

use crate::support::Agent;
use millstream_testkit_servers::search::SearchServer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

/// Appends lines to the log.
fn append(dir: &Path, lines: impl Iterator<Item = String>) {
    fs::create_dir_all(dir.join("in")).unwrap();
    let mut log = File::options().create(true).append(true).open(dir.join("in/a.log")).unwrap();
    let text: String = lines.map(|line| line + "\n").collect();
    log.write_all(text.as_bytes()).unwrap();
}

/// Returns a numbered line.
fn line(number: usize) -> String {
    format!("line {number:06} and some words")
}

/// Returns a configuration that sends the log to an endpoint; `options` are options of the sink.
fn config(uri: &str, options: &str) -> String {
    format!(
        "sources: {{ app: {{ type: file, include: ['DIR/in/*.log'] }} }}
sinks:
  out: {{ type: elasticsearch, inputs: [app], endpoints: ['{uri}'], {options} }}
shutdown_timeout: 30s
"
    )
}

/// Runs the agent until it has delivered the log.
fn run(dir: &Path, config: &str) -> Agent {
    let mut agent = Agent::start(dir, config, &["--until-eof"]);
    assert_eq!(agent.wait(PATIENCE).code(), Some(0), "{}", agent.log());
    agent
}

/// Asserts that the documents are the first `lines` lines, each once under its id.
fn assert_lines(documents: &BTreeMap<String, Value>, lines: usize) {
    for (id, document) in documents {
        assert_eq!(document["meta"]["id"], id.as_str());
    }
    let text = |document: &Value| document["message"].as_str().unwrap().to_owned();
    let mut found: Vec<String> = documents.values().map(text).collect();
    found.sort_unstable();
    assert!(found.iter().eq((0..lines).map(line).collect::<Vec<_>>().iter()), "{}", found.len());
}

/// Asserts that the index has the first `lines` lines, each once under its id.
fn assert_index(server: &SearchServer, index: &str, lines: usize) {
    assert_eq!(server.count(index), lines as u64);
    assert_lines(&server.documents(index), lines);
}

/// Returns a counter of the sink, summed over the series with this label.
fn counted(agent: &Agent, metric: &str, label: &str) -> u64 {
    let begin = format!("millstream_component_{metric}_total{{component_id=\"out\"");
    let metrics = agent.get("/metrics").unwrap_or_default();
    let found = metrics.lines().filter(|line| line.starts_with(&begin) && line.contains(label));
    found.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}
