//! Files into a real Kafka: what arrives, in which order, and what happens when the broker does not
//! do as expected.

use crate::support::{Agent, folder, wait_until};
use millstream_testkit::kafka::{Kafka, Record};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A configuration that sends `DIR/in/*.log` to `topic`, with more options of the sink.
fn config(brokers: &str, topic: &str, more: &str) -> String {
    format!(
        "sources:\n  app: {{ type: file, include: ['DIR/in/*.log'], attributes: {{ env: prod }} }}\n\
         sinks:\n  out: {{ type: kafka, inputs: [app], brokers: ['{brokers}'], topic: '{topic}', {more} }}\n"
    )
}

fn write(dir: &Path, file: &str, lines: impl IntoIterator<Item = String>) {
    fs::create_dir_all(dir.join("in")).unwrap();
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    fs::write(dir.join("in").join(file), text).unwrap();
}

fn numbered(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("line {n:07} and some words"))
}

/// Runs the agent until every file is delivered.
fn run(dir: &Path, config: &str) -> Agent {
    let mut agent = Agent::start(dir, config, &["--until-eof"]);
    let status = agent.wait(Duration::from_secs(60));
    assert!(status.success(), "{}", agent.log());
    agent
}

#[test]
fn text_arrives_byte_for_byte_and_in_order() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("text", 1);
    let lines = numbered(50_000).chain(["".into(), "\u{fffd} ü \0 \t".into(), "".into(), "last".into()]);
    let lines: Vec<String> = lines.collect();
    write(dir.path(), "a.log", lines.clone());
    run(dir.path(), &config(&kafka.bootstrap(), "text", "encoding: { codec: text }"));
    let records = kafka.read("text");
    assert!(records.iter().map(Record::text).eq(lines.iter().map(String::as_str)), "{}", records.len());
    assert!(records.iter().all(|record| record.key.is_none() && record.headers.is_empty()));
}
