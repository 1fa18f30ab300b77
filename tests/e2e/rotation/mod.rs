//! Tests log files that real programs write and rotate (logrotate, Python's handlers, log4j), and
//! inode numbers that a real file system reuses.

mod crashes;
mod cuts;
mod inodes;
mod links;
mod logrotate;
mod writers;

use crate::support::Agent;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

/// Time limit for the delivery of the remaining lines.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a configuration that reads `include`, a YAML list of patterns, into `DIR/out.json`.
fn config(include: &str) -> String {
    format!(
        "sources:\n  app: {{ type: file, include: {include} }}\nsinks:\n  out:\n    type: file\n    inputs: [app]\n    \
         path: DIR/out.json\n    sync: 100ms\n    encoding: {{ metadata: [id, file, file_id, offset] }}\n"
    )
}

/// Returns the text of a numbered line.
fn line(number: usize) -> String {
    format!("line {number:07} and some words behind it")
}

/// Runs the agent until all existing files are delivered.
fn finish(dir: &Path, config: &str) {
    let mut agent = Agent::start(dir, config, &["--until-eof"]);
    let status = agent.wait(PATIENCE);
    assert_eq!(status.code(), Some(0), "{}", agent.log());
}

/// Asserts that, after deduplication by id, every line up to `count` is left once, and no other
/// lines are left.
fn assert_every_line_once(dir: &Path, count: usize) {
    let events = crate::support::lines(&dir.join("out.json"));
    let (mut ids, mut places) = (HashSet::new(), HashMap::<String, Vec<String>>::new());
    for event in &events {
        let event: serde_json::Value = serde_json::from_str(event).unwrap();
        if ids.insert(event["meta"]["id"].as_str().unwrap().to_owned()) {
            let line = event["message"].as_str().unwrap().to_owned();
            places.entry(line).or_default().push(event["meta"].to_string());
        }
    }
    let lost: Vec<usize> =
        (0..count).filter(|number| !places.contains_key(&line(*number))).collect();
    let repeated: Vec<_> = places.iter().filter(|(_, places)| places.len() > 1).collect();
    let torn = places.keys().filter(|text| !is_line(text, count)).take(3);
    // Shorten the texts, because compressed bytes would fill pages of output.
    let torn: Vec<String> = torn.map(|text| text.chars().take(40).collect()).collect();
    assert!(
        lost.is_empty() && repeated.is_empty() && torn.is_empty(),
        "of {count} lines {} are lost, such as {:?}; {} came under several ids, such as {:?}; no lines: {torn:?}",
        lost.len(),
        lost.first().map(|number| line(*number)),
        repeated.len(),
        repeated.first(),
    );
}

fn is_line(text: &str, count: usize) -> bool {
    let number = text.get(5..12).and_then(|number| number.parse().ok());
    number.is_some_and(|number| number < count && text == line(number))
}
