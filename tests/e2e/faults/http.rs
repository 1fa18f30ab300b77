//! Tests lines over HTTP.

use super::endpoint::{Act, Endpoint};
use super::{FILES, PATIENCE, append, assert_lines, counted, logs, stop, wait_settled};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::http::{BodyRead, HttpOptions, ReceivedRequest, Reply};
use millstream_testkit_servers::unpack::unpack;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Number of lines per file.
const LINES: usize = 250;

const ALL: u64 = (FILES * LINES) as u64;

fn config(endpoint: &Endpoint, more: &str) -> String {
    let uri = endpoint.server.uri("/in");
    logs(&format!("type: http, uri: '{uri}', batch: {{ bytes: 8KiB, timeout: 10ms }}, {more}"))
}

/// Runs an agent until each of its lines is acknowledged, and checks that the endpoint has all
/// lines.
fn run(endpoint: &Endpoint, more: &str) -> (TempDir, Agent) {
    let dir = folder();
    append(dir.path(), 0, LINES);
    let agent = Agent::start(dir.path(), &config(endpoint, more), &[]);
    assert_eq!(wait_settled(&agent, ALL), (ALL, 0), "sent and dropped");
    assert_lines(&endpoint.text(), LINES, |_| false);
    endpoint.assert_no_needless_repeats();
    (dir, agent)
}

/// Returns a function that answers the first requests with these responses, and stores all others.
fn at_first(replies: Vec<Reply>) -> impl Fn(&ReceivedRequest, usize) -> Act + Send + Sync {
    move |_, nth| replies.get(nth).map_or(Act::Keep, |reply| Act::Instead(reply.clone()))
}

/// Returns the number of requests for the first batch.
fn attempts(endpoint: &Endpoint) -> usize {
    let seen = endpoint.server.requests();
    seen.iter()
        .filter(|other| other.header("idempotency-key") == seen[0].header("idempotency-key"))
        .count()
}

#[test]
fn transient_statuses_are_retried() {
    let endpoint =
        Endpoint::start(at_first([500, 503, 408, 425, 502, 504].map(Reply::status).to_vec()));
    let (_dir, agent) = run(&endpoint, "compression: gzip");
    assert_eq!(attempts(&endpoint), 7, "one request until it was taken");
    assert_eq!(counted(&agent, "errors", ""), 6);
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn retry_after_of_an_endpoint_is_honored() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(4));
    let wait =
        |header: &str| Reply::Status(429, vec![("Retry-After", header.to_owned())], String::new());
    let endpoint = Endpoint::start(at_first(vec![wait("1"), wait(&date)]));
    let (_dir, agent) = run(&endpoint, "compression: zlib");
    let seen = endpoint.server.requests();
    let pause = seen[1].at - seen[0].at;
    assert!(pause >= Duration::from_millis(990), "{pause:?} after one second was asked for");
    let due = httpdate::parse_http_date(&date).unwrap();
    // If the thread pauses between the two readings of the clock, the request appears to arrive
    // later, not earlier.
    let ago = seen[2].at.elapsed();
    let third = SystemTime::now() - ago;
    assert!(
        third + Duration::from_millis(20) >= due,
        "too early by {:?}",
        due.duration_since(third)
    );
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn broken_connections_are_reopened() {
    let requests = AtomicUsize::new(0);
    let body_read = move |_: &ReceivedRequest| match requests.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => BodyRead::ResetAfter(100),
        2 => BodyRead::ResetAfter(0),
        _ => BodyRead::Whole,
    };
    let options = HttpOptions { body_read: Box::new(body_read), ..HttpOptions::default() };
    let endpoint = Endpoint::with(
        options,
        at_first(vec![Reply::Reset, Reply::Close, Reply::Raw(b"HTTP/1.1 2".to_vec())]),
    );
    let (_dir, agent) = run(&endpoint, "");
    assert_eq!(counted(&agent, "errors", ""), 6);
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn a_slow_endpoint_is_waited_for() {
    let body_read = |_: &ReceivedRequest| BodyRead::Slowly(200, Duration::from_millis(5));
    let options = HttpOptions { body_read: Box::new(body_read), ..HttpOptions::default() };
    let endpoint = Endpoint::with(options, |_, _| Act::Keep);
    let (_dir, agent) = run(&endpoint, "compression: zstd");
    assert_eq!(counted(&agent, "errors", ""), 0);
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn requests_that_time_out_are_retried() {
    let requests = AtomicUsize::new(0);
    let body_read = move |_: &ReceivedRequest| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => BodyRead::Never,
        1 => BodyRead::Slowly(1, Duration::from_secs(1)),
        _ => BodyRead::Whole,
    };
    let options = HttpOptions { body_read: Box::new(body_read), ..HttpOptions::default() };
    let endpoint = Endpoint::with(options, at_first(vec![Reply::Hang, Reply::Hang]));
    let (_dir, agent) = run(&endpoint, "compression: lz4, request: { timeout: 5s }");
    assert_eq!(counted(&agent, "errors", "error_type=\"timeout\""), 4);
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn a_request_with_a_lost_response_is_retried_with_the_same_id() {
    let lost =
        [Reply::Hang, Reply::Reset, Reply::Close, Reply::Raw(b"HTTP".to_vec()), Reply::status(500)];
    let endpoint = Endpoint::start(move |_, nth| match lost.get(nth) {
        Some(reply) => Act::KeepThen(reply.clone()),
        None => Act::Keep,
    });
    let (_dir, agent) = run(&endpoint, "compression: snappy, request: { timeout: 5s }");
    assert_eq!(endpoint.repeats(), 1, "the first batch alone");
    assert_eq!(endpoint.kept()[0].times, 6);
    assert_eq!(counted(&agent, "errors", ""), 5);
    stop(agent);
}

#[test]
fn truncated_and_endless_responses_are_errors() {
    let head = |length: &str| format!("HTTP/1.1 200 OK\r\n{length}\r\n").into_bytes();
    let answers = [
        Reply::Endless(head("")),
        Reply::Endless(head("Content-Length: 1000000000000\r\n")),
        Reply::Raw([head("Content-Length: 100\r\n"), b"cut".to_vec()].concat()),
        Reply::Raw([head("Transfer-Encoding: chunked\r\n"), b"ffff\r\ncut".to_vec()].concat()),
    ];
    let endpoint = Endpoint::start(move |_, nth| match answers.get(nth) {
        Some(reply) => Act::KeepThen(reply.clone()),
        None => Act::Keep,
    });
    let (_dir, agent) = run(&endpoint, "request: { timeout: 30s }");
    assert_eq!(
        (endpoint.repeats(), counted(&agent, "errors", "")),
        (0, 0),
        "a success is one by its head"
    );
    stop(agent);
}

#[test]
fn an_invalid_response_is_an_error() {
    let noise = [
        b"\x16\x03\x01\x02\x00\x01\x00\xff".to_vec(),
        b"220 mail.example ESMTP\r\n".to_vec(),
        vec![0; 9000],
    ];
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(2_000_000)).into_bytes();
    let replies = noise.into_iter().chain([long]).map(Reply::Raw).collect();
    let endpoint = Endpoint::start(at_first(replies));
    let (_dir, agent) = run(&endpoint, "");
    assert_eq!(counted(&agent, "errors", ""), 4);
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn an_endpoint_that_closes_each_connection_causes_no_error() {
    let answer = Reply::Raw(b"HTTP/1.0 200 OK\r\n\r\nthanks".to_vec());
    let endpoint = Endpoint::start(move |_, _| Act::KeepThen(answer.clone()));
    let (_dir, agent) = run(&endpoint, "compression: gzip");
    assert_eq!(counted(&agent, "errors", ""), 0);
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn a_request_that_is_too_large_is_split() {
    let endpoint = Endpoint::start(|seen, _| match seen.body.len() > 3000 {
        true => Act::Instead(Reply::status(413)),
        false => Act::Keep,
    });
    let (_dir, agent) = run(&endpoint, "");
    assert_eq!(endpoint.repeats(), 0);
    stop(agent);
}

#[test]
fn a_rejected_line_is_dropped_alone() {
    // Three invalid lines: two adjacent lines, and one line in another file.
    let is_poison = |line: &str| {
        ["00 000070", "00 000071", "05 000249"].iter().any(|bad| line.starts_with(bad))
    };
    let endpoint = Endpoint::start(move |seen, _| {
        let text = String::from_utf8(unpack("deflate", &seen.body).unwrap()).unwrap();
        match text.lines().any(is_poison) {
            true => Act::Instead(Reply::Status(400, Vec::new(), "line is bad".into())),
            false => Act::Keep,
        }
    });
    let dir = folder();
    append(dir.path(), 0, LINES);
    let agent = Agent::start(dir.path(), &config(&endpoint, "compression: zlib"), &[]);
    assert_eq!(wait_settled(&agent, ALL), (ALL - 3, 3), "sent and dropped");
    assert_eq!(counted(&agent, "dropped_events", "reason=\"refused\""), 3);
    assert_lines(&endpoint.text(), LINES, is_poison);
    agent.assert_logs("line is bad");
    stop(agent);
}

/// Runs an agent whose endpoint first responds with `status`, which requires action by an operator.
fn waits_for_a_person(status: u16, error: &str, said: &str) {
    let endpoint = Endpoint::start(move |_, nth| match nth {
        0 => Act::Instead(Reply::Status(
            status,
            vec![("Location", "http://new.example/".into())],
            String::new(),
        )),
        _ => Act::Keep,
    });
    let (_dir, agent) = run(&endpoint, "");
    assert_eq!(counted(&agent, "errors", &format!("error_type=\"{error}\"")), 1, "{}", agent.log());
    agent.assert_logs(said);
    let seen = endpoint.server.requests();
    assert!(seen[1].at - seen[0].at > Duration::from_secs(1), "asked again slowly");
    stop(agent);
}

/// Runs an agent whose endpoint requires a token. The file with the token is corrected while the
/// agent runs.
fn waits_for_the_right_secret() {
    let dir = folder();
    fs::write(dir.path().join("secret"), "old\n").unwrap();
    let endpoint = Endpoint::start(|seen, _| match seen.header("authorization") {
        "Bearer new" => Act::Keep,
        _ => Act::Instead(Reply::status(401)),
    });
    append(dir.path(), 0, LINES);
    let agent = Agent::start(
        dir.path(),
        &config(&endpoint, "auth: { type: bearer, token_file: DIR/secret }"),
        &[],
    );
    wait_until("an answer that is an error", PATIENCE, || {
        counted(&agent, "errors", "authentication") > 0
    });
    assert_eq!(counted(&agent, "sent_events", "") + counted(&agent, "dropped_events", ""), 0);
    fs::write(dir.path().join("secret"), "new\n").unwrap();
    assert_eq!(wait_settled(&agent, ALL), (ALL, 0), "sent and dropped");
    assert_lines(&endpoint.text(), LINES, |_| false);
    assert!(!agent.log().contains("Bearer"), "{}", agent.log());
    stop(agent);
}

#[test]
fn misconfigured_endpoints_are_retried_slowly_without_loss() {
    thread::scope(|scope| {
        scope.spawn(|| waits_for_a_person(302, "redirect", "http://new.example/"));
        scope.spawn(|| waits_for_a_person(308, "redirect", "http://new.example/"));
        scope.spawn(|| waits_for_a_person(403, "authorization", "403"));
        scope.spawn(|| waits_for_a_person(404, "not_found", "404"));
        scope.spawn(waits_for_the_right_secret);
    });
}

#[test]
fn killed_agents_lose_nothing_despite_faults() {
    const ROUNDS: usize = 6;
    let endpoint = Endpoint::start(|_, nth| match nth % 7 {
        1 => Act::Instead(Reply::status(503)),
        2 => Act::KeepThen(Reply::Reset),
        4 => Act::Instead(Reply::Reset),
        5 => Act::KeepThen(Reply::Hang),
        _ => Act::Keep,
    });
    let dir = folder();
    let uri = endpoint.server.uri("/in");
    let sink = format!(
        "type: http, uri: '{uri}', batch: {{ bytes: 256KiB, timeout: 10ms }}, compression: zstd, \
         request: {{ timeout: 1s }}"
    );
    let config = logs(&sink).replace("codec: text", "codec: json");
    for round in 0..ROUNDS {
        append(dir.path(), round * LINES, LINES);
        let mut agent = Agent::start(dir.path(), &config, &[]);
        thread::sleep(Duration::from_millis(250 + 70 * round as u64));
        agent.kill();
    }
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let mut ids: HashMap<String, String> = HashMap::new();
    for event in endpoint.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let before = ids.insert(text(&event["message"]), text(&event["meta"]["id"]));
        assert!(before.is_none_or(|before| before == event["meta"]["id"]), "{event} under two ids");
    }
    assert_eq!(ids.len(), FILES * ROUNDS * LINES, "every line, each under one id");
}
