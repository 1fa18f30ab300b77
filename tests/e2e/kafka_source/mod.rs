//! Tests topics of a real Kafka into files and endpoints: the records that arrive, their ids, and
//! the repeats after failures of agents, brokers and sinks.

mod group;
mod restart;
mod security;
mod sinks;
mod starts;

use crate::support::{Agent, folder, lines};
use millstream_testkit_servers::kafka::{Kafka, KafkaOptions, Written};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// Timeout of a run of the agent, or of a condition.
const PATIENCE: Duration = Duration::from_secs(120);

/// Fields with the position of a record.
const POSITION: &str = "part: partition, off: offset";

/// Returns the broker of these tests, which accepts short sessions.
fn broker() -> &'static Kafka {
    static BROKER: OnceLock<Kafka> = OnceLock::new();
    BROKER.get_or_init(|| {
        let properties = vec!["group.min.session.timeout.ms=500".to_owned()];
        Kafka::with(KafkaOptions { properties, ..KafkaOptions::default() })
    })
}

/// Returns a configuration that reads `topics` as group `group`, with additional options, into
/// `DIR/out.json`.
fn config(kafka: &Kafka, topics: &str, group: &str, more: &str) -> String {
    let source = source(&kafka.bootstrap(), topics, group, more);
    format!("{source}sinks:\n  out: {{ type: file, inputs: [topic], path: DIR/out.json }}\n")
}

/// Returns the configuration of the source alone.
fn source(brokers: &str, topics: &str, group: &str, more: &str) -> String {
    format!(
        "sources:\n  topic: {{ type: kafka, brokers: ['{brokers}'], topics: [{topics}], group: {group}, {more} \
         fields: {{ {POSITION} }} }}\n"
    )
}

/// Runs the agent until it has read all records.
fn run(dir: &Path, config: &str) -> Agent {
    finish(Agent::start(dir, config, &["--until-eof"]))
}

fn finish(mut agent: Agent) -> Agent {
    let status = agent.wait(PATIENCE);
    assert!(status.success(), "{}", agent.log());
    agent
}

/// Returns records with numbered texts, over some partitions.
fn numbered(numbers: std::ops::Range<i32>, partitions: i32) -> impl Iterator<Item = Written> {
    numbers.map(move |n| Written::text(format!("record {n:06} of a topic")).to(n % partitions))
}

/// Returns the events in a file.
fn events(path: &Path) -> Vec<Value> {
    let parse = |line: &String| serde_json::from_str(line).ok();
    lines(path).iter().filter_map(parse).collect()
}

/// Partition and offset of an event.
type Position = (i64, i64);

fn position(event: &Value) -> Position {
    (event["part"].as_i64().unwrap(), event["off"].as_i64().unwrap())
}

/// Returns the ids by position, and asserts that each position has one id and each id one position.
fn ids<'a>(events: impl IntoIterator<Item = &'a Value>) -> BTreeMap<Position, String> {
    let (mut ids, mut seen) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        let id = event["meta"]["id"].as_str().unwrap().to_owned();
        let at = position(event);
        assert_eq!(*ids.entry(at).or_insert_with(|| id.clone()), id);
        assert_eq!(*seen.entry(id).or_insert(at), at);
    }
    ids
}

/// Asserts that each record of a topic arrived; returns how many arrived again.
fn assert_all(kafka: &Kafka, topic: &str, events: &[Value]) -> usize {
    let ids = ids(events);
    let wanted: BTreeSet<Position> =
        kafka.read(topic).iter().map(|r| (r.partition.into(), r.offset)).collect();
    let missing = wanted.iter().filter(|at| !ids.contains_key(at)).count();
    assert_eq!((missing, ids.len()), (0, wanted.len()), "missing records");
    events.len() - wanted.len()
}

fn text(event: &Value) -> &str {
    event["message"].as_str().unwrap()
}

#[test]
fn every_record_arrives_with_its_parts() {
    let (dir, kafka) = (folder(), broker());
    kafka.create_topic("parts", 3);
    let record = |n: i32| Written {
        key: (n % 2 == 0).then(|| format!("k{n}").into_bytes()),
        timestamp: Some(1_795_000_000_000 + i64::from(n)),
        ..Written::text(format!("text {n}")).to(n % 3).header("tenant", &format!("t{n}"))
    };
    kafka.write("parts", (0..3000).map(record));
    let more = "fields: { key: key, tenant: header.tenant, none: header.none, at: timestamp, from: topic, \
                part: partition, off: offset }";
    let config =
        config(kafka, "parts", "parts", "").replace(&format!("fields: {{ {POSITION} }}"), more);
    run(dir.path(), &config);
    let events = events(&dir.path().join("out.json"));
    assert_eq!(assert_all(kafka, "parts", &events), 0);
    for event in &events {
        let n: i64 = text(event)[5..].parse().unwrap();
        assert_eq!(position(event), (n % 3, n / 3));
        let key = (n % 2 == 0).then(|| format!("k{n}"));
        assert_eq!(event.get("key").and_then(Value::as_str), key.as_deref());
        assert_eq!(
            (event["tenant"].as_str().unwrap(), event.get("none")),
            (&*format!("t{n}"), None)
        );
        assert_eq!((&event["at"], &event["from"]), (&event["timestamp"], &"parts".into()));
        let id = event["meta"]["id"].as_str().unwrap();
        assert!(id.ends_with(&format!("-{}", n / 3)), "{id}");
    }
    let offsets = kafka.committed("parts", "parts");
    assert_eq!(offsets.into_values().collect::<Vec<_>>(), [1000; 3], "committed at the stop");
}
