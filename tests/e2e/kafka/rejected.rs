//! Tests records that the broker refuses, which go to `ID.rejected` as dead letters.

use super::{PATIENCE, texts, write};
use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::kafka::Kafka;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Number of kills of the agent in one test: before, while and after the sink finds the refused
/// records.
const KILLS: u64 = 6;

/// Number of lines in the log.
const LINES: usize = 4_000;

fn config(kafka: &Kafka, topic: &str) -> String {
    format!(
        "
limits: {{ memory: 64MiB }}
sources:
  app: {{ type: file, include: ['DIR/in/*.log'] }}
sinks:
  out:
    type: kafka
    inputs: [app]
    brokers: ['{}']
    topic: {topic}
    encoding: {{ metadata: [id] }}
  dead: {{ type: file, inputs: [out.rejected], path: DIR/dead.json, sync: 100ms, encoding: {{ metadata: [id] }} }}
",
        kafka.bootstrap()
    )
}

/// Returns whether the broker refuses a line because it is too large.
fn is_refused(number: usize) -> bool {
    number % 500 == 250
}

fn line(number: usize) -> String {
    let filler = if is_refused(number) { "x".repeat(5000) } else { String::new() };
    format!("line {number:07}{filler}")
}

/// Returns the messages by id from lines of JSON, and asserts that an id has only one message.
fn by_id<'t>(texts: impl Iterator<Item = &'t str>) -> BTreeMap<String, String> {
    let mut messages: BTreeMap<String, String> = BTreeMap::new();
    for text in texts {
        let event: Value = serde_json::from_str(text).unwrap();
        let id = event["meta"]["id"].as_str().unwrap().to_owned();
        let message = event["message"].as_str().unwrap().to_owned();
        let before = messages.insert(id, message.clone());
        assert!(before.is_none_or(|before| before == message));
    }
    messages
}

fn expected(is_wanted: impl Fn(usize) -> bool) -> BTreeSet<String> {
    (0..LINES).filter(|number| is_wanted(*number)).map(line).collect()
}

/// Checks that the broker has all lines that it accepts, and that the file has all other lines.
fn check(kafka: &Kafka, topic: &str, folder: &Path) {
    let records = kafka.read(topic);
    let accepted = by_id(texts(&records).into_iter());
    let dead = lines(&folder.join("dead.json"));
    let refused = by_id(dead.iter().map(String::as_str));
    let distinct = |of: &BTreeMap<String, String>| -> BTreeSet<String> {
        assert_eq!(of.len(), of.values().collect::<BTreeSet<_>>().len(), "a line has one id");
        of.values().cloned().collect()
    };
    assert!(distinct(&accepted) == expected(|number| !is_refused(number)));
    assert!(distinct(&refused) == expected(is_refused));
    for line in &dead {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event["reason"].as_str().unwrap().contains("too large"), "{event}");
    }
}

#[test]
fn refused_records_arrive_once_by_id_over_kills() {
    let (folder, kafka) = (folder(), Kafka::shared());
    kafka.create_topic_with("dead-letters", 1, &[("max.message.bytes", "4000")]);
    let config = config(kafka, "dead-letters");
    write(folder.path(), "a.log", (0..LINES).map(line));
    for kill in 0..KILLS {
        let mut agent = Agent::start(folder.path(), &config, &[]);
        std::thread::sleep(Duration::from_millis(300 + kill * 700));
        agent.kill();
    }
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    let status = agent.wait(PATIENCE);
    assert!(status.success(), "nothing is dropped\n{}", agent.log());
    check(kafka, "dead-letters", folder.path());
}

#[test]
fn a_stalled_sink_of_dead_letters_delays_its_sink_and_loses_nothing() {
    let (folder, kafka) = (folder(), Kafka::shared());
    kafka.create_topic_with("stalled-letters", 1, &[("max.message.bytes", "4000")]);
    // The sink cannot create its file, because a folder on its path is a file.
    std::fs::write(folder.path().join("way"), "").unwrap();
    let config = config(kafka, "stalled-letters").replace("DIR/dead.json", "DIR/way/dead.json");
    write(folder.path(), "a.log", (0..LINES).map(line));
    let mut agent = Agent::start(folder.path(), &config, &[]);
    let is_late =
        |agent: &Agent| agent.get("/ready").is_some_and(|text| text.contains("way/dead.json"));
    wait_until("the sink of dead letters fails", PATIENCE, || is_late(&agent));
    // The events stay unsettled, so that the next start reads them again.
    agent.kill();
    let config = config.replace("DIR/way/dead.json", "DIR/dead.json");
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    check(kafka, "stalled-letters", folder.path());
}
