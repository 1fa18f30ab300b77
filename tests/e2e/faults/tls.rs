//! Certificates that do not fit, over HTTP: waited out, said in the log, and mended while the agent runs.

use super::far::{Act, FarSide};
use super::{FILES, PATIENCE, append, assert_lines, counted, logs, stop, wait_settled};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit::certificates::{Authority, Validity};
use millstream_testkit::http::HttpOptions;
use std::sync::Arc;
use std::thread;

/// Lines of each file.
const LINES: usize = 50;

type Server = Arc<rustls::ServerConfig>;

fn far(port: u16, tls: Server) -> FarSide {
    FarSide::with(HttpOptions { port, tls: Some(tls), ..HttpOptions::default() }, |_, _| Act::Keep)
}

/// The far side has a bad certificate at first and a good one later; the log says what is wrong.
fn mended(bad: Server, good: Server, authority: &Authority, said: &str) {
    let dir = folder();
    authority.write(dir.path(), "ca");
    append(dir.path(), 0, LINES);
    let first = far(0, bad);
    let sink = format!(
        "type: http, uri: '{}', batch: {{ timeout: 10ms }}, tls: {{ ca_file: DIR/ca.crt }}",
        first.server.uri("/in")
    );
    let agent = Agent::start(dir.path(), &logs(&sink), &[]);
    wait_until(said, PATIENCE, || agent.log().contains(said));
    assert!(counted(&agent, "errors", "error_type=\"tls\"") > 0, "{}", agent.log());
    assert_eq!(counted(&agent, "sent_events", "") + counted(&agent, "dropped_events", ""), 0);
    let port = first.server.port;
    assert!(first.kept().is_empty());
    drop(first);
    let second = far(port, good);
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    assert_lines(&second.text(), LINES, |_| false);
    stop(agent);
}

/// The far side wants a certificate of the agent, which has one of another authority at first.
fn introduced(authority: &Authority, other: &Authority) {
    let dir = folder();
    authority.write(dir.path(), "ca");
    other.issue(&["agent"], Validity::Good).write(dir.path(), "agent");
    append(dir.path(), 0, LINES);
    let far = far(0, authority.issue(&["127.0.0.1"], Validity::Good).server(Some(authority)));
    let tls = "tls: { ca_file: DIR/ca.crt, cert_file: DIR/agent.crt, key_file: DIR/agent.key }";
    let sink = format!("type: http, uri: '{}', batch: {{ timeout: 10ms }}, {tls}", far.server.uri("/in"));
    let agent = Agent::start(dir.path(), &logs(&sink), &[]);
    wait_until("an error", PATIENCE, || counted(&agent, "errors", "") > 0);
    assert!(far.kept().is_empty());
    authority.issue(&["agent"], Validity::Good).write(dir.path(), "agent");
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    assert_lines(&far.text(), LINES, |_| false);
    stop(agent);
}

#[test]
fn certificates_that_do_not_fit_are_said_and_mended_on_the_way() {
    let (authority, other) = (Authority::new(), Authority::new());
    let issue = |by: &Authority, name: &str, validity| by.issue(&[name], validity).server(None);
    let good = || issue(&authority, "127.0.0.1", Validity::Good);
    let expired = issue(&authority, "127.0.0.1", Validity::Expired);
    let renamed = issue(&authority, "elsewhere.example", Validity::Good);
    let unknown = issue(&other, "127.0.0.1", Validity::Good);
    thread::scope(|scope| {
        scope.spawn(|| mended(expired, good(), &authority, "has expired on 2020-02-01"));
        scope.spawn(|| mended(renamed, good(), &authority, "elsewhere.example"));
        scope.spawn(|| mended(unknown, good(), &authority, "ca_file"));
        scope.spawn(|| introduced(&authority, &other));
    });
}
