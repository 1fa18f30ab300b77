//! Tests metrics in blocks, read from the broker and parsed with the decoder in the documentation.

use super::{PATIENCE, start, write};
use crate::support::folder;
use millstream_testkit_servers::kafka::Kafka;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// Returns the events of a block.
fn events(block: &[u8]) -> Vec<Value> {
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/formats/metrics_msgpack.py");
    let mut python = Command::new("python3");
    let mut python =
        python.args(["-B", reader]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(block).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Metrics may also come from log lines. All events of a block have the same key; events that are
/// not metrics are dropped.
#[test]
fn metrics_arrive_in_blocks_of_one_key_and_in_order() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("blocks", 1);
    let line = |n: usize| {
        let team = if n < 1000 { "first" } else { "second" };
        match n % 100 {
            99 => format!(r#"{{"team":"{team}","message":"no metric"}}"#),
            _ => format!(
                r#"{{"team":"{team}","name":"m\u00fc","type":"gauge","value":{n},"tags":{{"team":"{team}"}}}}"#
            ),
        }
    };
    write(dir.path(), "a.log", (0..3000).map(line));
    let brokers = kafka.bootstrap();
    let config = format!(
        "sources:\n  app: {{ type: file, include: ['DIR/in/*.log'] }}\n\
         transforms:\n  parsed: {{ type: parse, inputs: [app], format: json }}\n\
         sinks:\n  out: {{ type: kafka, inputs: [parsed], brokers: ['{brokers}'], topic: blocks, \
         key: '{{{{ team }}}}', encoding: {{ codec: msgpack, metadata: [source] }} }}\n"
    );
    let mut agent = start(dir.path(), &config);
    assert!(!agent.wait(PATIENCE).success(), "that events were left out is said at the end");
    assert!(
        agent.log().contains("lost: 30 events (30 not_a_metric (sink out))"),
        "{}",
        agent.log()
    );
    let records = kafka.read("blocks");
    assert!((2..30).contains(&records.len()), "{} records", records.len());
    let mut next = 0;
    for record in &records {
        for event in events(&record.payload) {
            next += usize::from(next % 100 == 99);
            let team = if next < 1000 { "first" } else { "second" };
            assert_eq!(record.key.as_deref(), Some(team.as_bytes()));
            assert_eq!((&event["value"], &event["tags"]["team"]), (&next.into(), &team.into()));
            assert_eq!((&event["name"], &event["type"]), (&"mü".into(), &"gauge".into()));
            assert_eq!(event["meta"], serde_json::json!({ "source": "app" }));
            next += 1;
        }
    }
    assert_eq!(next, 2999);
}
