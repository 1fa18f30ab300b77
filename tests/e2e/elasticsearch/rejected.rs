//! Tests events that a server does not accept: refused events go to `ID.rejected`, and other events
//! are resent.

use super::bulk_endpoint::{Act, BulkEndpoint, events};
use super::{PATIENCE, append, assert_index, assert_lines, config, counted, line, run};
use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::http::Reply;
use millstream_testkit_servers::search::SearchServer;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn a_mapping_conflict_is_rejected_with_the_reason_and_the_rest_is_delivered() {
    const LINES: usize = 3_000;
    let (dir, server) = (folder(), SearchServer::shared());
    let mapping = json!({ "mappings": { "properties": { "n": { "type": "long" } } } });
    server.request("PUT", "/conflict", &mapping);
    let is_wrong = |number: usize| number % 100 == 7;
    let line = |number: usize| match is_wrong(number) {
        true => format!("{{\"n\":\"no {number}\"}}"),
        false => format!("{{\"n\":{number}}}"),
    };
    append(dir.path(), (0..LINES).map(line));
    let options = "index: conflict, encoding: { codec: raw_json }, batch: { events: 400 }";
    let dead = "  dead: { type: file, inputs: [out.rejected], path: DIR/dead.json }\n";
    let config = config(&server.uri(), options).replace("shutdown", &format!("{dead}shutdown"));
    run(dir.path(), &config);
    let wrong = (0..LINES).filter(|number| is_wrong(*number)).count();
    assert_eq!(server.count("conflict"), (LINES - wrong) as u64);
    let dead: Vec<Value> = lines(&dir.path().join("dead.json"))
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let texts: BTreeSet<String> = dead.iter().map(Value::to_string).collect();
    assert_eq!((dead.len(), texts.len()), (wrong, wrong));
    for (event, number) in dead.iter().zip((0..LINES).filter(|number| is_wrong(*number))) {
        let text = event.to_string();
        assert!(
            text.contains("mapper_parsing_exception") && text.contains("of type [long]"),
            "{text}"
        );
        assert!(texts.iter().any(|text| text.contains(&format!("no {number}"))), "{text}");
    }
}

#[test]
fn a_read_only_index_is_waited_for() {
    let (dir, server) = (folder(), SearchServer::shared());
    let settings = |block: bool| json!({ "index.blocks.write": block });
    server.request("PUT", "/blocked", &json!({ "settings": settings(true) }));
    append(dir.path(), (0..500).map(line));
    let mut agent = Agent::start(dir.path(), &config(&server.uri(), "index: blocked"), &[]);
    wait_until("a message", PATIENCE, || agent.log().contains("cluster_block_exception"));
    assert_eq!(counted(&agent, "sent_events", "") + counted(&agent, "dropped_events", ""), 0);
    server.request("PUT", "/blocked/_settings", &settings(false));
    wait_until("all lines", PATIENCE, || counted(&agent, "sent_events", "") == 500);
    assert_index(server, "blocked", 500);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

#[test]
fn events_that_an_overloaded_server_does_not_take_are_sent_again_alone() {
    const LINES: usize = 2_000;
    let dir = folder();
    append(dir.path(), (0..LINES).map(line));
    let number =
        |document: &Value| document["message"].as_str().unwrap()[5..11].parse::<usize>().unwrap();
    // The server accepts every hundredth event only at the third attempt.
    let attempts = parking_lot::Mutex::new(vec![0; LINES]);
    let endpoint = BulkEndpoint::start(
        |_, _| Act::Judge,
        move |(_, document), _| {
            let (at, mut attempts) = (number(document), attempts.lock());
            attempts[at] += 1;
            match attempts[at] {
                1 if at % 100 == 0 => 429,
                2 if at % 100 == 0 => 503,
                1 => 201,
                _ if at % 100 == 0 => 201,
                _ => panic!("line {at} is sent again"),
            }
        },
    );
    let options = "index: a, batch: { events: 500 }";
    run(dir.path(), &config(&endpoint.server.uri("/"), options));
    assert_lines(&endpoint.documents.lock(), LINES);
    let sizes: usize = endpoint.server.requests().iter().map(|seen| events(seen).len()).sum();
    assert_eq!(sizes, LINES + 2 * LINES / 100);
}

#[test]
fn a_request_that_is_too_large_is_split() {
    let dir = folder();
    append(dir.path(), (0..2_000).map(line));
    let endpoint = BulkEndpoint::start(
        |seen, _| match events(seen).len() > 100 {
            true => Act::Instead(Reply::status(413)),
            false => Act::Judge,
        },
        |_, _| 201,
    );
    run(dir.path(), &config(&endpoint.server.uri("/prefix"), "index: a, compression: none"));
    assert_lines(&endpoint.documents.lock(), 2_000);
    let path = &endpoint.server.requests()[0].path;
    assert!(path.starts_with("/prefix/_bulk?filter_path="), "{path}");
}
