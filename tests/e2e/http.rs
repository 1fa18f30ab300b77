//! Tests the real binary with an HTTP endpoint: nothing is lost, regardless of the responses.

use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Number of lines that a test writes.
const LINES: usize = 50_000;

/// Returns a configuration that reads `DIR/in` and sends to `uri` with these options.
fn config(uri: &str, options: &str) -> String {
    format!(
        "sources: {{ app: {{ type: file, include: ['DIR/in/*.log'] }} }}
sinks: {{ out: {{ type: http, inputs: [app], uri: '{uri}', {options} }} }}
shutdown_timeout: 2s
"
    )
}

fn write_lines(dir: &Path, lines: usize) {
    fs::create_dir_all(dir.join("in")).unwrap();
    let text: String = (0..lines).map(|line| format!("line {line:06} and some words\n")).collect();
    fs::write(dir.join("in/a.log"), text).unwrap();
}

/// Returns the line numbers and ids in a body of JSON lines.
fn numbers(body: &[u8]) -> Vec<(usize, String)> {
    let of = |line: &[u8]| {
        let event: Value = serde_json::from_slice(line).unwrap();
        let number = event["message"].as_str().unwrap()[5..11].parse().unwrap();
        (number, event["meta"]["id"].as_str().unwrap().to_owned())
    };
    body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(of).collect()
}

/// Decompresses a body with the host's `zstd`.
fn unpack(body: &[u8]) -> Vec<u8> {
    let mut zstd = Command::new("zstd");
    let mut zstd = zstd.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = zstd.stdin.take().unwrap();
    let body = body.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&body).unwrap());
    let output = zstd.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// Returns whether the requests contain every line.
fn has_all(taken: &[ReceivedRequest], lines: usize) -> bool {
    let all: BTreeSet<usize> =
        taken.iter().flat_map(|seen| numbers(&seen.body)).map(|(number, _)| number).collect();
    all.len() == lines
}

#[test]
fn a_kill_during_delivery_loses_nothing_and_repeats_have_the_same_ids() {
    let dir = folder();
    write_lines(dir.path(), LINES);
    let server = HttpServer::start(|_| {
        std::thread::sleep(Duration::from_millis(20));
        Reply::status(204)
    });
    let config =
        config(&server.uri("/in"), "compression: zstd, batch: { bytes: 256KiB, timeout: 100ms }");
    for requests in [3, 9] {
        let mut agent = Agent::start(dir.path(), &config, &[]);
        server.wait(|seen| seen.len() >= requests);
        agent.kill();
    }
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    let mut ids: BTreeMap<usize, String> = BTreeMap::new();
    let mut next = 0;
    for seen in server.requests() {
        assert_eq!(seen.header("content-encoding"), "zstd");
        for (number, id) in numbers(&unpack(&seen.body)) {
            assert!(number <= next, "line {number} before line {next}");
            next = next.max(number + 1);
            assert_eq!(*ids.entry(number).or_insert_with(|| id.clone()), id);
        }
    }
    assert_eq!(ids.len(), LINES);
}

/// The buffer is not large enough for one batch per connection.
#[test]
fn a_batch_larger_than_the_buffer_does_not_wait_for_its_timeout() {
    const FILES: usize = 4;
    let cases = [
        ("max: 1MiB", 1),
        ("type: memory", FILES),
        ("type: disk, mode: always, max: 64MiB", FILES),
    ];
    for (buffer, concurrency) in cases {
        let dir = folder();
        fs::create_dir_all(dir.path().join("in")).unwrap();
        for file in 0..FILES {
            let text: String =
                (0..LINES).map(|line| format!("line {line:06} of file {file}\n")).collect();
            fs::write(dir.path().join(format!("in/{file}.log")), text).unwrap();
        }
        let server = HttpServer::start(|_| Reply::status(204));
        let options = format!(
            "batch: {{ bytes: 16MiB, events: 1000000, timeout: 1h }}, \
             request: {{ concurrency: {concurrency} }}, buffer: {{ {buffer} }}"
        );
        let config = config(&server.uri("/in"), &options).replace("timeout: 2s", "timeout: 60s");
        let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
        assert_eq!(agent.wait(LIMIT).code(), Some(0), "{buffer}: {}", agent.log());
        let requests = server.requests();
        let lines: usize = requests.iter().map(|seen| numbers(&seen.body).len()).sum();
        assert_eq!(lines, FILES * LINES, "{buffer}");
    }
}

/// Refused events that wait for a larger batch would block the sink that refused them, because the
/// number of kept events is limited.
#[test]
fn a_batch_of_dead_letters_does_not_wait_for_its_timeout_while_they_hold_up_their_sink() {
    const LINES: usize = 12_000;
    let dir = folder();
    write_lines(dir.path(), LINES);
    let server =
        HttpServer::start(|seen| Reply::status(if seen.path == "/in" { 400 } else { 204 }));
    let more = format!(
        "sinks:
  out: {{ type: http, inputs: [app], uri: '{}', batch: {{ events: 1000, timeout: 100ms }} }}
  dead:
    type: http
    inputs: [out.rejected]
    uri: '{}'
    batch: {{ bytes: 16MiB, events: 1000000, timeout: 1h }}
",
        server.uri("/in"),
        server.uri("/dead"),
    );
    let config = format!("sources: {{ app: {{ type: file, include: ['DIR/in/*.log'] }} }}\n{more}");
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    let is_dead = |seen: &&ReceivedRequest| seen.path == "/dead";
    let lines: usize = server
        .requests()
        .iter()
        .filter(is_dead)
        .map(|seen| seen.body.split_inclusive(|byte| *byte == b'\n').count())
        .sum();
    assert_eq!(lines, LINES);
}

#[test]
fn each_line_arrives_once_and_in_order_despite_endpoint_faults() {
    let dir = folder();
    write_lines(dir.path(), LINES);
    let count = AtomicUsize::new(0);
    let answer = move |_: &ReceivedRequest| match count.fetch_add(1, Ordering::Relaxed) % 8 {
        1 => Reply::status(500),
        2 => Reply::Status(429, vec![("Retry-After", "0".into())], "slow down".into()),
        3 => Reply::Raw(b"HTTP/1.1 204".to_vec()),
        4 => Reply::Endless(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n".to_vec()),
        5 => Reply::Close,
        6 => Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\ncut".to_vec()),
        _ => Reply::status(200),
    };
    let server = HttpServer::start(answer);
    let config = config(&server.uri("/in"), "batch: { bytes: 128KiB, timeout: 100ms }");
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    // A repeated request has the same id, so that an endpoint that deduplicates gets each line
    // once.
    let mut known = BTreeSet::new();
    let first = server
        .requests()
        .into_iter()
        .filter(|seen| known.insert(seen.header("idempotency-key").to_owned()));
    let lines: Vec<usize> =
        first.flat_map(|seen| numbers(&seen.body)).map(|(number, _)| number).collect();
    assert!(lines == (0..LINES).collect::<Vec<_>>(), "{} lines", lines.len());
    assert!(server.requests().len() > known.len());
}

#[test]
fn misconfiguration_is_logged_and_waits_until_it_is_corrected() {
    let dir = folder();
    write_lines(dir.path(), 1000);
    fs::write(dir.path().join("token"), "old\n").unwrap();
    let server = HttpServer::start(|seen| match seen.header("authorization") {
        "Bearer new" => Reply::status(200),
        _ => Reply::Status(401, Vec::new(), "who are you?".into()),
    });
    let config = config(&server.uri("/in"), "auth: { type: bearer, token_file: DIR/token }");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("a message about the login", LIMIT, || agent.log().contains("check `auth`"));
    assert!(
        agent.log().contains("who are you?") && !agent.log().contains("old"),
        "{}",
        agent.log()
    );
    fs::write(dir.path().join("token"), "new\n").unwrap();
    let is_new = |seen: &ReceivedRequest| seen.header("authorization") == "Bearer new";
    let taken = |seen: &[ReceivedRequest]| {
        seen.iter().filter(|seen| is_new(seen)).cloned().collect::<Vec<_>>()
    };
    server.wait(|seen| has_all(&taken(seen), 1000));
    assert!(has_all(&taken(&server.requests()), 1000));
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

#[test]
fn a_redirect_is_not_followed_and_names_the_new_address() {
    let dir = folder();
    write_lines(dir.path(), 10);
    let elsewhere = HttpServer::start(|_| Reply::status(200));
    let to = elsewhere.uri("/new");
    let location = to.clone();
    let server = HttpServer::start(move |_| {
        Reply::Status(308, vec![("Location", location.clone())], String::new())
    });
    let agent =
        Agent::start(dir.path(), &config(&server.uri("/in"), "batch: { timeout: 50ms }"), &[]);
    let said = format!("a redirect to {to}, which is not followed");
    wait_until("a message about the redirect", LIMIT, || agent.log().contains(&said));
    assert_eq!(elsewhere.requests().len(), 0);
    assert_eq!(
        agent.metric("millstream_component_sent_events_total{component_id=\"out\"").unwrap_or(0.0),
        0.0
    );
}

#[test]
fn a_stop_does_not_wait_for_an_endpoint_that_never_answers_and_nothing_is_lost() {
    let dir = folder();
    write_lines(dir.path(), LINES);
    let silent = HttpServer::start(|_| Reply::Hang);
    let port = silent.port;
    let config = config(&silent.uri("/in"), "batch: { bytes: 128KiB, timeout: 100ms }");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    silent.wait(|seen| !seen.is_empty());
    let begun = std::time::Instant::now();
    agent.stop();
    assert!(begun.elapsed() < Duration::from_secs(20), "{}", agent.log());
    drop(silent);
    let server = HttpServer::on(port, |_| Reply::status(200));
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    assert!(has_all(&server.requests(), LINES));
}

#[test]
fn refused_events_are_dropped_one_by_one_and_counted() {
    let dir = folder();
    write_lines(dir.path(), 2000);
    let is_bad = |text: &str| text.contains("line 000700") || text.contains("line 001999");
    let server =
        HttpServer::start(move |seen| Reply::status(if is_bad(&seen.text()) { 422 } else { 200 }));
    let config = config(&server.uri("/in"), "batch: { timeout: 50ms }");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let dropped = "millstream_component_dropped_events_total{component_id=\"out\"";
    wait_until("both are counted", LIMIT, || {
        agent.metric(dropped).is_some_and(|dropped| dropped >= 2.0)
    });
    let sent = "millstream_component_sent_events_total{component_id=\"out\"";
    wait_until("the others are sent", LIMIT, || {
        agent.metric(sent).is_some_and(|sent| sent >= 1998.0)
    });
    assert_eq!((agent.metric(dropped), agent.metric(sent)), (Some(2.0), Some(1998.0)));
    let taken = server.requests().into_iter().filter(|seen| !is_bad(&seen.text()));
    let lines: Vec<usize> =
        taken.flat_map(|seen| numbers(&seen.body)).map(|(number, _)| number).collect();
    assert_eq!(lines, (0..2000).filter(|line| ![700, 1999].contains(line)).collect::<Vec<_>>());
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn a_stop_settles_dead_letters_that_were_delivered() {
    let dir = folder();
    write_lines(dir.path(), 2000);
    let is_bad = |text: &str| text.contains("line 000700") || text.contains("line 001999");
    let server =
        HttpServer::start(move |seen| Reply::status(if is_bad(&seen.text()) { 422 } else { 200 }));
    let dead = "}, dead: { type: file, inputs: [out.rejected], path: DIR/dead.json, sync: 5s";
    let config = config(&server.uri("/in"), &format!("batch: {{ timeout: 50ms }} {dead}"));
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let sent = "millstream_component_sent_events_total{component_id=\"out\"";
    wait_until("the others are sent", LIMIT, || {
        agent.metric(sent).is_some_and(|sent| sent >= 1998.0)
    });
    // The dead letters are written, but the file is not synced before shutdown.
    let letters = || lines(&dir.path().join("dead.json"));
    wait_until("the letters are written", LIMIT, || letters().len() == 2);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(letters().len(), 2, "{}", agent.log());
    let requests = server.requests().len();
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    assert!(agent.wait(LIMIT).success(), "nothing is dropped\n{}", agent.log());
    assert_eq!((letters().len(), server.requests().len()), (2, requests), "nothing is repeated");
}
