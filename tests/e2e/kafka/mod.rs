//! Tests delivery from files to a real Kafka broker: the records that arrive, their order, and the
//! agent's handling of broker failures.

mod blocks;
mod faults;
mod kill;
mod rejected;
mod security;

use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::kafka::{Kafka, Record};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Timeout of a run of the agent, or of a condition.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a configuration that sends `DIR/in/*.log` to `topic` with additional options of the
/// sink.
pub fn config(brokers: &str, topic: &str, more: &str) -> String {
    format!(
        "sources:\n  app: {{ type: file, include: ['DIR/in/*.log'], max_line: 2MiB, attributes: {{ env: prod }} }}\n\
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

/// Starts the agent with `--until-eof`.
fn start(dir: &Path, config: &str) -> Agent {
    Agent::start(dir, config, &["--until-eof"])
}

/// Waits until an agent that was started with `--until-eof` exits.
fn finish(mut agent: Agent) -> Agent {
    let status = agent.wait(PATIENCE);
    assert!(status.success(), "{}", agent.log());
    agent
}

/// Waits until `/ready` reports a sink error that contains `text`.
fn wait_for_error(agent: &Agent, text: &str) {
    let mut last = String::new();
    let says = || {
        last = agent.get("/ready").unwrap_or_default();
        let error = serde_json::from_str::<Value>(&last).ok();
        let error = error.and_then(|ready| ready["sinks"][0]["error"].as_str().map(str::to_owned));
        error.is_some_and(|error| error.to_lowercase().contains(text))
    };
    let found =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_until(text, PATIENCE, says)));
    assert!(found.is_ok(), "no error with {text:?}; last: {last}\n{}", agent.log());
}

fn texts(records: &[Record]) -> Vec<&str> {
    records.iter().map(Record::text).collect()
}

#[test]
fn text_arrives_byte_for_byte_and_in_order() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("text", 1);
    let lines =
        numbered(50_000).chain(["".into(), "\u{fffd} ü \0 \t".into(), "".into(), "last".into()]);
    let lines: Vec<String> = lines.collect();
    write(dir.path(), "a.log", lines.clone());
    finish(start(dir.path(), &config(&kafka.bootstrap(), "text", "encoding: { codec: text }")));
    let records = kafka.read("text");
    assert_eq!(records.len(), lines.len());
    assert!(texts(&records).iter().eq(lines.iter()));
    assert!(records.iter().all(|record| record.key.is_none() && record.headers.len() == 1));
    let ids = records.iter().map(|record| record.header("millstream-id").unwrap());
    let (files, offsets): (Vec<&str>, Vec<u64>) =
        ids.map(|id| (&id[..16], id[17..].parse::<u64>().unwrap())).unzip();
    assert!(files.iter().all(|file| *file == files[0]));
    let starts =
        lines.iter().scan(0, |at, line| Some(std::mem::replace(at, *at + line.len() as u64 + 1)));
    assert!(offsets.into_iter().eq(starts));
}

#[test]
fn topic_key_and_headers_come_from_the_event() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("logs-prod", 8);
    for file in 0..20 {
        write(dir.path(), &format!("{file}.log"), numbered(500));
    }
    let more = "key: '{{ file }}', headers: { env: '{{ env }}', place: '{{ offset }}' }";
    finish(start(dir.path(), &config(&kafka.bootstrap(), "logs-{{ env }}", more)));
    let records = kafka.read("logs-prod");
    assert_eq!(records.len(), 20 * 500);
    let mut by_key: HashMap<&[u8], Vec<&Record>> = HashMap::new();
    for record in &records {
        let event: Value = serde_json::from_slice(&record.payload).unwrap();
        assert_eq!(record.key.as_deref(), event["meta"]["file"].as_str().map(str::as_bytes));
        assert_eq!(record.header("env"), Some("prod"));
        assert_eq!(record.header("place").unwrap(), event["meta"]["offset"].to_string());
        by_key.entry(record.key.as_deref().unwrap()).or_default().push(record);
    }
    // The key is the file, so each file has one partition, with its lines in order.
    for records in by_key.values() {
        assert!(records.iter().all(|record| record.partition == records[0].partition));
        let offset = |record: &&Record| record.header("place").unwrap().parse::<u64>().unwrap();
        assert!(records.iter().map(offset).is_sorted());
    }
    assert!(records.iter().map(|record| record.partition).max() > Some(2), "keys are spread");
}

#[test]
fn without_a_key_a_file_stays_in_one_partition() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("origins", 4);
    for file in 0..12 {
        write(dir.path(), &format!("{file}.log"), (0..2000).map(|n| format!("{file} {n}")));
    }
    finish(start(
        dir.path(),
        &config(&kafka.bootstrap(), "origins", "encoding: { codec: text }, connections: 3"),
    ));
    let mut places: HashMap<String, (i32, usize)> = HashMap::new();
    for record in kafka.read("origins") {
        let (file, line) = record.text().split_once(' ').unwrap();
        let (partition, next) = places.entry(file.to_owned()).or_insert((record.partition, 0));
        assert_eq!(
            (*partition, next.to_string().as_str()),
            (record.partition, line),
            "file {file}"
        );
        *next += 1;
    }
    assert!(places.len() == 12 && places.values().all(|(_, next)| *next == 2000));
}

#[test]
fn kcat_and_the_java_client_read_every_codec() {
    let (dir, kafka) = (folder(), Kafka::shared());
    let lines: Vec<String> = numbered(3000).collect();
    write(dir.path(), "a.log", lines.clone());
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("codec-{codec}");
        kafka.create_topic(&topic, 1);
        let more = format!("encoding: {{ codec: text }}, compression: {codec}");
        let config = config(&kafka.bootstrap(), &topic, &more);
        fs::remove_dir_all(dir.path().join("data")).ok();
        finish(start(dir.path(), &config));
        let by_kcat = kafka.kcat(&["-C", "-t", &topic, "-e", "-q"]);
        assert!(by_kcat.lines().eq(lines.iter().map(String::as_str)), "{codec}: kcat");
        assert_eq!(kafka.java_consumer(&topic, lines.len()), lines, "{codec}: Java");
    }
}
