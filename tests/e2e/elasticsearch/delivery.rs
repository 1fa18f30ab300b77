//! Tests plain delivery to real servers.

use super::{append, assert_index, config, counted, line, run};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::search::SearchServer;
use serde_json::{Value, json};

const LINES: usize = 5_000;

#[test]
fn each_event_is_one_document_in_opensearch() {
    let (dir, server) = (folder(), SearchServer::shared());
    append(dir.path(), (0..LINES).map(line));
    let options = "index: plain-%Y, compression: zstd, batch: { events: 700 }";
    let mut agent = Agent::start(dir.path(), &config(&server.uri(), options), &[]);
    wait_until("all lines", super::PATIENCE, || counted(&agent, "sent_events", "") == LINES as u64);
    assert_eq!(counted(&agent, "errors", ""), 0, "{}", agent.log());
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_index(server, "plain-2*", LINES);
    // Sends the same lines again, first under other ids and then twice under the same ids.
    let other = folder();
    append(other.path(), (0..LINES).map(line));
    let options = "index: again, id: '{{ message }}', batch: { bytes: 64KiB }";
    for _ in 0..2 {
        run(other.path(), &config(&server.uri(), options));
        std::fs::remove_dir_all(other.path().join("data")).unwrap();
        assert_eq!(server.count("again"), LINES as u64);
    }
}

#[test]
fn each_event_is_one_document_in_elasticsearch() {
    let (dir, server) = (folder(), SearchServer::elasticsearch());
    append(dir.path(), (0..LINES).map(line));
    run(dir.path(), &config(&server.uri(), "index: 'plain-{{ source }}', op_type: index"));
    assert_index(&server, "plain-app", LINES);
}

#[test]
fn each_event_is_one_document_of_a_data_stream() {
    let (dir, server) = (folder(), SearchServer::shared());
    let template = json!({
        "index_patterns": ["logs-app-*"], "data_stream": {}, "priority": 500,
        "template": { "settings": { "number_of_shards": 1 } },
    });
    let made = server.request("PUT", "/_index_template/app", &template);
    assert_eq!(made["acknowledged"], true, "{made}");
    append(dir.path(), (0..LINES).map(line));
    let options = "data_stream: { dataset: '{{ source }}', namespace: test }";
    run(dir.path(), &config(&server.uri(), options));
    assert_index(server, "logs-app-test", LINES);
    let stream = server.request("GET", "/_data_stream/logs-app-test", &Value::Null);
    assert_eq!(stream["data_streams"].as_array().map(Vec::len), Some(1), "{stream}");
}

#[test]
fn lines_that_are_json_pass_unparsed() {
    let (dir, server) = (folder(), SearchServer::shared());
    let lines = [
        r#"{"@timestamp":"2021-03-04T05:06:07Z","level":"info","n":1.0,"deep":{"a":[1,2]}}"#,
        r#"{"level":"warn"}"#,
        "not json",
    ];
    append(dir.path(), lines.iter().map(|line| (*line).to_owned()));
    let options =
        "index: raw, id: '{{ offset }}', encoding: { codec: raw_json, metadata: [source] }";
    run(dir.path(), &config(&server.uri(), options));
    let mut found: Vec<Value> = server.documents("raw").into_values().collect();
    found.sort_by_key(|document| document["level"].to_string());
    let time = |document: &mut Value| document["@timestamp"].take().as_str().unwrap().to_owned();
    assert_eq!(time(&mut found[0]), "2021-03-04T05:06:07Z");
    found[1..].iter_mut().for_each(|document| assert!(*time(document) > *"2021-03-04"));
    let meta = json!({ "source": "app" });
    let expected = [
        json!({ "@timestamp": null, "meta": meta, "level": "info", "n": 1.0, "deep": { "a": [1, 2] } }),
        json!({ "@timestamp": null, "meta": meta, "level": "warn" }),
        json!({ "@timestamp": null, "meta": meta, "message": "not json" }),
    ];
    assert_eq!(found, expected);
}
