//! Tests metric events in transforms and in Kafka, which handle them like other events.

use super::{ONE_PERIOD, PATIENCE, number, send_all, tags_of};
use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::kafka::Kafka;
use serde_json::Value;
use std::path::Path;

const POINTS: [&str; 5] = [
    "shop.orders:3|c|#country:de,env:prod",
    "shop.orders:4|c|#country:fr",
    "test.orders:5|c|#country:de",
    "shop.load:0.5|g",
    "_e{6,3}:Deploy|yes|#env:prod",
];

/// Runs an agent with this configuration, sends the points to its socket and stops it.
fn run(dir: &Path, config: &str) {
    let mut agent = Agent::start(dir, config, &[]);
    wait_until("the agent listens", PATIENCE, || {
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
    send_all(&dir.join("points.sock"), &POINTS);
    agent.terminate();
    assert_eq!(agent.wait(PATIENCE).code(), Some(0), "{}", agent.log());
}

fn source() -> String {
    format!(
        "sources:\n  points: {{ type: dogstatsd, listen: ['unixgram://DIR/points.sock'], {ONE_PERIOD} }}\n"
    )
}

#[test]
fn transforms_and_expressions_apply_to_metric_events() {
    let dir = folder();
    let config = source()
        + "transforms:\n  kinds: { type: route, inputs: [points], routes: { events: 'type == \"event\"' } }\n  \
           german: { type: filter, inputs: [kinds], \
           where: 'name.startsWith(\"shop.\") && tags.country == \"de\" && value >= 3' }\n  \
           named: { type: fields, inputs: [german], steps: [{ rename: { value: total } }] }\n\
           sinks:\n  out: { type: file, inputs: [named], path: DIR/out.json, encoding: { metadata: [] } }\n  \
           events: { type: file, inputs: [kinds.events], path: DIR/events.txt, encoding: { codec: text } }\n  \
           text: { type: file, inputs: [kinds], path: DIR/out.txt, encoding: { codec: text } }\n";
    run(dir.path(), &config);
    let out: Vec<Value> = lines(&dir.path().join("out.json"))
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(
        (out[0]["total"].as_f64(), tags_of(&out[0])),
        (Some(3.0), "country:de,env:prod".into())
    );
    assert_eq!(lines(&dir.path().join("events.txt")), ["yes"]);
    let mut text = lines(&dir.path().join("out.txt"));
    text.sort();
    assert_eq!(
        text,
        [
            "shop.load {} 0.5",
            "shop.orders {\"country\":\"de\",\"env\":\"prod\"} 3",
            "shop.orders {\"country\":\"fr\"} 4",
            "test.orders {\"country\":\"de\"} 5",
        ]
    );
}

#[test]
fn metric_events_reach_kafka() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("metrics", 1);
    let config = source()
        + &format!(
            "sinks:\n  out: {{ type: kafka, inputs: [points], brokers: ['{}'], topic: metrics, key: '{{{{ name }}}}' }}\n",
            kafka.bootstrap()
        );
    run(dir.path(), &config);
    let records = kafka.read("metrics");
    assert_eq!(records.len(), POINTS.len());
    let events = records.iter().map(|record| serde_json::from_str::<Value>(record.text()).unwrap());
    let metrics: Vec<Value> = events.filter(|event| event["type"] != "event").collect();
    assert_eq!(metrics.iter().map(number).sum::<f64>(), 12.5);
    let orders = records.iter().filter(|record| record.key.as_deref() == Some(b"shop.orders"));
    assert_eq!(orders.count(), 2);
}
