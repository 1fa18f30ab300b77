//! Tests faults of endpoints.

use super::bulk_endpoint::{Act, BulkEndpoint};
use super::{PATIENCE, append, assert_index, assert_lines, config, counted, line, run};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::certificates::{Authority, Validity};
use millstream_testkit_servers::http::{HttpOptions, Reply};
use millstream_testkit_servers::ports::free_port;
use millstream_testkit_servers::search::SearchServer;
use std::fs;

#[test]
fn a_node_that_is_killed_under_load_has_each_event_once() {
    const LINES: usize = 9_000;
    let (dir, mut server) = (folder(), SearchServer::opensearch());
    append(dir.path(), (0..LINES / 3).map(line));
    let options = "index: killed, batch: { events: 100, timeout: 50ms }";
    let mut agent = Agent::start(dir.path(), &config(&server.uri(), options), &[]);
    for part in 1..3 {
        let sent = || counted(&agent, "sent_events", "");
        let before = sent();
        append(dir.path(), (part * LINES / 3..(part + 1) * LINES / 3).map(line));
        wait_until("progress", PATIENCE, || sent() > before);
        server.kill();
        server.restart();
    }
    wait_until("all lines", PATIENCE, || counted(&agent, "sent_events", "") == LINES as u64);
    assert_eq!(counted(&agent, "dropped_events", ""), 0);
    assert_index(&server, "killed", LINES);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

#[test]
fn an_agent_that_is_killed_sends_the_same_ids_again() {
    const LINES: usize = 9_000;
    let (dir, server) = (folder(), SearchServer::shared());
    append(dir.path(), (0..LINES).map(line));
    let config =
        config(&server.uri(), "index: agent-killed, batch: { events: 200, timeout: 50ms }");
    for documents in [1, 3_000] {
        let mut agent = Agent::start(dir.path(), &config, &[]);
        wait_until("documents", PATIENCE, || server.count("agent-killed") >= documents);
        agent.kill();
    }
    run(dir.path(), &config);
    assert_index(server, "agent-killed", LINES);
}

#[test]
fn answers_that_are_cut_or_not_answers_do_not_count() {
    const LINES: usize = 2_000;
    let dir = folder();
    append(dir.path(), (0..LINES).map(line));
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let endpoint = BulkEndpoint::start(
        // Every other request succeeds, which keeps the pauses short.
        move |_, nth| match if nth % 2 == 0 { nth / 2 % 8 } else { 8 } {
            // The server takes the events, but its answer is lost or damaged.
            0 => Act::JudgeThen(|answer| {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
                Reply::Raw([head.as_bytes(), &answer.as_bytes()[..answer.len() / 2]].concat())
            }),
            1 => Act::JudgeThen(|answer| {
                let half = &answer[..answer.len() / 2];
                Reply::Status(200, Vec::new(), half.to_owned())
            }),
            2 => Act::JudgeThen(|_| Reply::Status(200, Vec::new(), String::new())),
            3 => Act::JudgeThen(|_| Reply::Reset),
            4 => Act::JudgeThen(|_| Reply::status(502)),
            // The server does not take the events.
            5 => Act::Instead(Reply::Status(200, Vec::new(), "<html>proxy</html>".to_owned())),
            6 => Act::Instead(Reply::Status(
                200,
                Vec::new(),
                "{\"errors\":false,\"items\":[]}".to_owned(),
            )),
            7 => Act::Instead(Reply::Raw(format!("{head}\r\n{{\"errors\":false").into_bytes())),
            _ => Act::Judge,
        },
        |_, _| 201,
    );
    run(dir.path(), &config(&endpoint.server.uri("/"), "index: a, batch: { events: 100 }"));
    assert_lines(&endpoint.documents.lock(), LINES);
}

#[test]
fn a_dead_endpoint_beside_a_healthy_one_delays_nothing() {
    let dir = folder();
    append(dir.path(), (0..2_000).map(line));
    let endpoint = BulkEndpoint::start(|_, _| Act::Judge, |_, _| 201);
    let free = free_port();
    let uris = format!("http://127.0.0.1:{free}', '{}", endpoint.server.uri("/"));
    run(dir.path(), &config(&uris, "index: a, batch: { events: 50 }"));
    assert_lines(&endpoint.documents.lock(), 2_000);
}

#[test]
fn wrong_certificates_and_credentials_wait_until_they_are_corrected() {
    let dir = folder();
    append(dir.path(), (0..100).map(line));
    let (authority, other) = (Authority::new(), Authority::new());
    other.write(dir.path(), "ca");
    fs::write(dir.path().join("key"), "expired\n").unwrap();
    let tls = authority.issue(&["127.0.0.1"], Validity::Good).server(None);
    let endpoint = BulkEndpoint::with(
        HttpOptions { tls: Some(tls), ..HttpOptions::default() },
        |seen, _| match seen.header("authorization") {
            "ApiKey good" => Act::Judge,
            _ => Act::Instead(Reply::Status(401, Vec::new(), "security_exception".to_owned())),
        },
        |_, _| 201,
    );
    let options =
        "index: a, auth: { type: api_key, key_file: DIR/key }, tls: { ca_file: DIR/ca.crt }";
    let mut agent = Agent::start(dir.path(), &config(&endpoint.server.uri(""), options), &[]);
    wait_until("a certificate error", PATIENCE, || counted(&agent, "errors", "\"tls\"") > 0);
    authority.write(dir.path(), "ca");
    wait_until("a login error", PATIENCE, || agent.log().contains("check `auth`"));
    assert!(!agent.log().contains("expired"), "{}", agent.log());
    fs::write(dir.path().join("key"), "good\n").unwrap();
    wait_until("all lines", PATIENCE, || counted(&agent, "sent_events", "") == 100);
    assert_lines(&endpoint.documents.lock(), 100);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

#[test]
fn a_compression_that_the_server_cannot_read_is_an_error_and_refuses_nothing() {
    let dir = folder();
    append(dir.path(), (0..100).map(line));
    let error = "{\"error\":{\"type\":\"json_parse_exception\"},\"status\":400}";
    let endpoint = BulkEndpoint::start(
        move |seen, _| match seen.header("content-encoding") {
            "zstd" => Act::Instead(Reply::Status(400, Vec::new(), error.to_owned())),
            _ => Act::Judge,
        },
        |_, _| 201,
    );
    let config = |compression: &str| {
        config(&endpoint.server.uri("/"), &format!("index: a, compression: {compression}"))
    };
    let mut agent = Agent::start(dir.path(), &config("zstd"), &[]);
    wait_until("advice", PATIENCE, || agent.log().contains("use `compression: gzip`"));
    assert_eq!(counted(&agent, "dropped_events", ""), 0);
    agent.kill();
    run(dir.path(), &config("gzip"));
    assert_lines(&endpoint.documents.lock(), 100);
}
