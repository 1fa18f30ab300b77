//! Lines over HTTP.

use super::far::{Act, Endpoint};
use super::{FILES, PATIENCE, append, assert_lines, counted, logs, stop, wait_settled};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::http::{HttpOptions, Reading, Reply, Seen};
use millstream_testkit_servers::unpack::unpack;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Lines of each file.
const LINES: usize = 250;

const ALL: u64 = (FILES * LINES) as u64;

fn config(far: &Endpoint, more: &str) -> String {
    let uri = far.server.uri("/in");
    logs(&format!("type: http, uri: '{uri}', batch: {{ bytes: 8KiB, timeout: 10ms }}, {more}"))
}

/// An agent that has an answer for each of its lines from the endpoint, which has them all.
fn run(far: &Endpoint, more: &str) -> (TempDir, Agent) {
    let dir = folder();
    append(dir.path(), 0, LINES);
    let agent = Agent::start(dir.path(), &config(far, more), &[]);
    assert_eq!(wait_settled(&agent, ALL), (ALL, 0), "sent and dropped");
    assert_lines(&far.text(), LINES, |_| false);
    far.assert_no_needless_repeats();
    (dir, agent)
}

/// Only the first requests fare ill.
fn at_first(replies: Vec<Reply>) -> impl Fn(&Seen, usize) -> Act + Send + Sync {
    move |_, nth| replies.get(nth).map_or(Act::Keep, |reply| Act::Instead(reply.clone()))
}

/// How many requests came for the first batch.
fn attempts(far: &Endpoint) -> usize {
    let seen = far.server.seen();
    seen.iter()
        .filter(|other| other.header("idempotency-key") == seen[0].header("idempotency-key"))
        .count()
}

#[test]
fn statuses_that_pass_are_waited_out() {
    let far = Endpoint::start(at_first([500, 503, 408, 425, 502, 504].map(Reply::status).to_vec()));
    let (_dir, agent) = run(&far, "compression: gzip");
    assert_eq!(attempts(&far), 7, "one request until it was taken");
    assert_eq!(counted(&agent, "errors", ""), 6);
    assert_eq!(far.repeats(), 0);
    stop(agent);
}

#[test]
fn an_endpoint_says_when_to_come_again() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(4));
    let wait =
        |header: &str| Reply::Status(429, vec![("Retry-After", header.to_owned())], String::new());
    let far = Endpoint::start(at_first(vec![wait("1"), wait(&date)]));
    let (_dir, agent) = run(&far, "compression: zlib");
    let seen = far.server.seen();
    let pause = seen[1].at - seen[0].at;
    assert!(pause >= Duration::from_millis(990), "{pause:?} after one second was asked for");
    let due = httpdate::parse_http_date(&date).unwrap();
    let third = SystemTime::now() - seen[2].at.elapsed();
    assert!(
        third + Duration::from_millis(20) >= due,
        "too early by {:?}",
        due.duration_since(third)
    );
    assert_eq!(far.repeats(), 0);
    stop(agent);
}

#[test]
fn connections_that_break_are_made_anew() {
    let requests = AtomicUsize::new(0);
    let reading = move |_: &Seen| match requests.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Reading::ResetAfter(100),
        2 => Reading::ResetAfter(0),
        _ => Reading::Whole,
    };
    let options = HttpOptions { reading: Box::new(reading), ..HttpOptions::default() };
    let far = Endpoint::with(
        options,
        at_first(vec![Reply::Reset, Reply::Close, Reply::Raw(b"HTTP/1.1 2".to_vec())]),
    );
    let (_dir, agent) = run(&far, "");
    assert_eq!(counted(&agent, "errors", ""), 6);
    assert_eq!(far.repeats(), 0);
    stop(agent);
}

#[test]
fn an_endpoint_that_reads_slowly_is_waited_for() {
    let reading = |_: &Seen| Reading::Slowly(200, Duration::from_millis(5));
    let options = HttpOptions { reading: Box::new(reading), ..HttpOptions::default() };
    let far = Endpoint::with(options, |_, _| Act::Keep);
    let (_dir, agent) = run(&far, "compression: zstd");
    assert_eq!(counted(&agent, "errors", ""), 0);
    assert_eq!(far.repeats(), 0);
    stop(agent);
}

#[test]
fn an_endpoint_that_does_not_read_or_answer_in_time_is_asked_again() {
    let requests = AtomicUsize::new(0);
    let reading = move |_: &Seen| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => Reading::Never,
        1 => Reading::Slowly(1, Duration::from_secs(1)),
        _ => Reading::Whole,
    };
    let options = HttpOptions { reading: Box::new(reading), ..HttpOptions::default() };
    let far = Endpoint::with(options, at_first(vec![Reply::Hang, Reply::Hang]));
    let (_dir, agent) = run(&far, "compression: lz4, request: { timeout: 2s }");
    assert_eq!(counted(&agent, "errors", "error_type=\"timeout\""), 4);
    assert_eq!(far.repeats(), 0);
    stop(agent);
}

#[test]
fn a_request_whose_answer_is_lost_comes_again_under_its_id() {
    let lost =
        [Reply::Hang, Reply::Reset, Reply::Close, Reply::Raw(b"HTTP".to_vec()), Reply::status(500)];
    let far = Endpoint::start(move |_, nth| match lost.get(nth) {
        Some(reply) => Act::KeepThen(reply.clone()),
        None => Act::Keep,
    });
    let (_dir, agent) = run(&far, "compression: snappy, request: { timeout: 2s }");
    assert_eq!(far.repeats(), 1, "the first batch alone");
    assert_eq!(far.kept()[0].times, 6);
    assert_eq!(counted(&agent, "errors", ""), 5);
    stop(agent);
}

#[test]
fn answers_that_are_cut_or_endless_do_no_harm() {
    let head = |length: &str| format!("HTTP/1.1 200 OK\r\n{length}\r\n").into_bytes();
    let answers = [
        Reply::Endless(head("")),
        Reply::Endless(head("Content-Length: 1000000000000\r\n")),
        Reply::Raw([head("Content-Length: 100\r\n"), b"cut".to_vec()].concat()),
        Reply::Raw([head("Transfer-Encoding: chunked\r\n"), b"ffff\r\ncut".to_vec()].concat()),
    ];
    let far = Endpoint::start(move |_, nth| match answers.get(nth) {
        Some(reply) => Act::KeepThen(reply.clone()),
        None => Act::Keep,
    });
    let (_dir, agent) = run(&far, "request: { timeout: 30s }");
    assert_eq!(
        (far.repeats(), counted(&agent, "errors", "")),
        (0, 0),
        "a success is one by its head"
    );
    stop(agent);
}

#[test]
fn noise_instead_of_an_answer_is_an_error() {
    let noise = [
        b"\x16\x03\x01\x02\x00\x01\x00\xff".to_vec(),
        b"220 mail.example ESMTP\r\n".to_vec(),
        vec![0; 9000],
    ];
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(2_000_000)).into_bytes();
    let replies = noise.into_iter().chain([long]).map(Reply::Raw).collect();
    let far = Endpoint::start(at_first(replies));
    let (_dir, agent) = run(&far, "");
    assert_eq!(counted(&agent, "errors", ""), 4);
    assert_eq!(far.repeats(), 0);
    stop(agent);
}

#[test]
fn an_endpoint_that_ends_each_connection_costs_nothing() {
    let answer = Reply::Raw(b"HTTP/1.0 200 OK\r\n\r\nthanks".to_vec());
    let far = Endpoint::start(move |_, _| Act::KeepThen(answer.clone()));
    let (_dir, agent) = run(&far, "compression: gzip");
    assert_eq!(counted(&agent, "errors", ""), 0);
    assert_eq!(far.repeats(), 0);
    stop(agent);
}

#[test]
fn a_request_that_is_too_large_goes_in_parts() {
    let far = Endpoint::start(|seen, _| match seen.body.len() > 3000 {
        true => Act::Instead(Reply::status(413)),
        false => Act::Keep,
    });
    let (_dir, agent) = run(&far, "");
    assert_eq!(far.repeats(), 0);
    stop(agent);
}

#[test]
fn a_line_that_is_refused_is_dropped_alone() {
    // Three of them: alone, beside each other, and in two files.
    let is_poison = |line: &str| {
        ["00 000070", "00 000071", "05 000249"].iter().any(|bad| line.starts_with(bad))
    };
    let far = Endpoint::start(move |seen, _| {
        let text = String::from_utf8(unpack("deflate", &seen.body).unwrap()).unwrap();
        match text.lines().any(is_poison) {
            true => Act::Instead(Reply::Status(400, Vec::new(), "line is bad".into())),
            false => Act::Keep,
        }
    });
    let dir = folder();
    append(dir.path(), 0, LINES);
    let agent = Agent::start(dir.path(), &config(&far, "compression: zlib"), &[]);
    assert_eq!(wait_settled(&agent, ALL), (ALL - 3, 3), "sent and dropped");
    assert_eq!(counted(&agent, "dropped_events", "reason=\"refused\""), 3);
    assert_lines(&far.text(), LINES, is_poison);
    assert!(agent.log().contains("line is bad"), "{}", agent.log());
    stop(agent);
}

/// An agent whose endpoint answers with `status` the first time.
fn waits_for_a_person(status: u16, error: &str, said: &str) {
    let far = Endpoint::start(move |_, nth| match nth {
        0 => Act::Instead(Reply::Status(
            status,
            vec![("Location", "http://new.example/".into())],
            String::new(),
        )),
        _ => Act::Keep,
    });
    let (_dir, agent) = run(&far, "");
    assert_eq!(counted(&agent, "errors", &format!("error_type=\"{error}\"")), 1, "{}", agent.log());
    assert!(agent.log().contains(said), "{said}: {}", agent.log());
    let seen = far.server.seen();
    assert!(seen[1].at - seen[0].at > Duration::from_secs(1), "asked again slowly");
    stop(agent);
}

/// An endpoint that wants to know who sends; the secret in the file becomes right on the way.
fn waits_for_the_right_secret() {
    let dir = folder();
    fs::write(dir.path().join("secret"), "old\n").unwrap();
    let far = Endpoint::start(|seen, _| match seen.header("authorization") {
        "Bearer new" => Act::Keep,
        _ => Act::Instead(Reply::status(401)),
    });
    append(dir.path(), 0, LINES);
    let agent = Agent::start(
        dir.path(),
        &config(&far, "auth: { type: bearer, token_file: DIR/secret }"),
        &[],
    );
    wait_until("an answer that is an error", PATIENCE, || {
        counted(&agent, "errors", "authentication") > 0
    });
    assert_eq!(counted(&agent, "sent_events", "") + counted(&agent, "dropped_events", ""), 0);
    fs::write(dir.path().join("secret"), "new\n").unwrap();
    assert_eq!(wait_settled(&agent, ALL), (ALL, 0), "sent and dropped");
    assert_lines(&far.text(), LINES, |_| false);
    assert!(!agent.log().contains("Bearer"), "{}", agent.log());
    stop(agent);
}

#[test]
fn what_a_person_must_mend_is_asked_slowly_and_nothing_is_lost() {
    thread::scope(|scope| {
        scope.spawn(|| waits_for_a_person(302, "redirect", "http://new.example/"));
        scope.spawn(|| waits_for_a_person(308, "redirect", "http://new.example/"));
        scope.spawn(|| waits_for_a_person(403, "authorization", "403"));
        scope.spawn(|| waits_for_a_person(404, "not_found", "404"));
        scope.spawn(waits_for_the_right_secret);
    });
}

#[test]
fn killed_agents_among_faults_lose_nothing() {
    const ROUNDS: usize = 6;
    let far = Endpoint::start(|_, nth| match nth % 7 {
        1 => Act::Instead(Reply::status(503)),
        2 => Act::KeepThen(Reply::Reset),
        4 => Act::Instead(Reply::Reset),
        5 => Act::KeepThen(Reply::Hang),
        _ => Act::Keep,
    });
    let dir = folder();
    let uri = far.server.uri("/in");
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
    for event in far.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let before = ids.insert(text(&event["message"]), text(&event["meta"]["id"]));
        assert!(before.is_none_or(|before| before == event["meta"]["id"]), "{event} under two ids");
    }
    assert_eq!(ids.len(), FILES * ROUNDS * LINES, "every line, each under one id");
}
