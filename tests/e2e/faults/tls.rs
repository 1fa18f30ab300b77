//! Tests invalid certificates: the agent waits, logs the reason, and recovers when they are fixed.

use super::endpoint::{Act, Endpoint};
use super::remote_write::{add, assert_exact, forward, send_points, wait_sum};
use super::{
    FILES, PATIENCE, append, assert_lines, counted, logs, points, start_ready, stop, wait_settled,
};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::certificates::{Authority, Certificate, Validity};
use millstream_testkit_servers::frames::{self, FrameServer};
use millstream_testkit_servers::http::HttpOptions;
use millstream_testkit_servers::prometheus::Prometheus;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use tempfile::TempDir;

/// Number of lines per file.
const LINES: usize = 50;

type Server = Arc<rustls::ServerConfig>;

fn endpoint(port: u16, tls: Server) -> Endpoint {
    Endpoint::with(HttpOptions { port, tls: Some(tls), ..HttpOptions::default() }, |_, _| Act::Keep)
}

/// Tests an endpoint with a certificate of `authority` that is invalid at first and valid later.
/// The log must contain `said`.
fn mended(bad: Server, good: Server, authority: &Authority, said: &str) {
    let dir = folder();
    authority.write(dir.path(), "ca");
    replaced(&dir, bad, good, "ca_file: DIR/ca.crt", said);
}

/// Tests an endpoint with the certificate `bad` at first and `good` later. The log must contain
/// `said`.
fn replaced(dir: &TempDir, bad: Server, good: Server, tls: &str, said: &str) {
    append(dir.path(), 0, LINES);
    let first = endpoint(0, bad);
    let sink = format!(
        "type: http, uri: '{}', batch: {{ timeout: 10ms }}, tls: {{ {tls} }}",
        first.server.uri("/in")
    );
    let agent = Agent::start(dir.path(), &logs(&sink), &[]);
    wait_until(said, PATIENCE, || agent.log().contains(said));
    wait_until("it is counted", PATIENCE, || counted(&agent, "errors", "error_type=\"tls\"") > 0);
    assert_eq!(counted(&agent, "sent_events", "") + counted(&agent, "dropped_events", ""), 0);
    let port = first.server.port;
    assert!(first.kept().is_empty());
    drop(first);
    let second = endpoint(port, good);
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    assert_lines(&second.text(), LINES, |_| false);
    stop(agent);
}

/// Tests an endpoint that requires a client certificate. At first the agent's certificate is from
/// another authority.
fn introduced(authority: &Authority, other: &Authority) {
    let dir = folder();
    authority.write(dir.path(), "ca");
    other.issue(&["agent"], Validity::Good).write(dir.path(), "agent");
    append(dir.path(), 0, LINES);
    let endpoint =
        endpoint(0, authority.issue(&["127.0.0.1"], Validity::Good).server(Some(authority)));
    let tls = "tls: { ca_file: DIR/ca.crt, cert_file: DIR/agent.crt, key_file: DIR/agent.key }";
    let sink = format!(
        "type: http, uri: '{}', batch: {{ timeout: 10ms }}, {tls}",
        endpoint.server.uri("/in")
    );
    let agent = Agent::start(dir.path(), &logs(&sink), &[]);
    wait_until("an error", PATIENCE, || counted(&agent, "errors", "") > 0);
    assert!(endpoint.kept().is_empty());
    authority.issue(&["agent"], Validity::Good).write(dir.path(), "agent");
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    assert_lines(&endpoint.text(), LINES, |_| false);
    stop(agent);
}

/// Waits until an agent that trusts the wrong authority has reported the fault, asserts that it has
/// sent nothing, and then writes the right authority to the file.
fn trusts_at_last(agent: &Agent, dir: &Path, authority: &Authority) {
    wait_until("the reason in the log", PATIENCE, || agent.log().contains("ca_file"));
    let ready = || agent.get("/ready").unwrap_or_default();
    wait_until("the sink in /ready", PATIENCE, || {
        ready().contains("out") && ready().contains("ca_file")
    });
    wait_until("it is counted", PATIENCE, || counted(agent, "errors", "error_type=\"tls\"") > 0);
    assert_eq!(counted(agent, "sent_events", "") + counted(agent, "dropped_events", ""), 0);
    authority.write(dir, "ca");
}

const CA: &str = "batch: { timeout: 10ms }, tls: { ca_file: DIR/ca.crt }";

#[test]
fn frames_are_sent_only_to_a_trusted_endpoint() {
    let (authority, other, dir) = (Authority::new(), Authority::new(), folder());
    let server = authority.issue(&["127.0.0.1"], Validity::Good).server(None);
    let endpoint = FrameServer::with(Some(server), |_| frames::Act::Keep);
    other.write(dir.path(), "ca");
    append(dir.path(), 0, LINES);
    let frames = "framing: length, acknowledgements: true, compression: gzip";
    let sink = format!("type: tcp, address: '127.0.0.1:{}', {frames}, {CA}", endpoint.port);
    let agent = Agent::start(dir.path(), &logs(&sink), &[]);
    trusts_at_last(&agent, dir.path(), &authority);
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    assert_lines(&endpoint.text(), LINES, |_| false);
    stop(agent);
}

#[test]
fn sums_are_sent_only_to_a_trusted_endpoint() {
    let (authority, other, dir) = (Authority::new(), Authority::new(), folder());
    let tls = Some(authority.issue(&["127.0.0.1"], Validity::Good).server(None));
    let options = HttpOptions { tls, ..HttpOptions::default() };
    let endpoint =
        Endpoint::before(options, |_, _| Act::Keep, |seen| forward(Prometheus::shared(), seen));
    other.write(dir.path(), "ca");
    let uri = endpoint.server.uri("/api/v1/write");
    let sink = format!(
        "type: prometheus_remote_write, uri: '{uri}', spread: 0s, labels: {{ test: tls }}, {CA}"
    );
    let agent = start_ready(dir.path(), &points(&sink));
    send_points(dir.path(), 3);
    trusts_at_last(&agent, dir.path(), &authority);
    wait_sum("tls", 3);
    add(dir.path(), "tls", 4, 7);
    assert_exact(&agent, "tls");
    stop(agent);
}

#[test]
fn a_self_signed_endpoint_is_trusted_by_its_file_or_its_fingerprint() {
    let own = || Certificate::self_signed(&["127.0.0.1"], Validity::Good, true);
    let (strange, listed, pinned) = (own(), own(), own());
    let pins = format!("pin: ['{}', '{}']", listed.fingerprint(), pinned.fingerprint());
    thread::scope(|scope| {
        scope.spawn(|| {
            let dir = folder();
            listed.write(dir.path(), "server");
            let tls = "ca_file: DIR/server.crt";
            let said = strange.fingerprint();
            replaced(&dir, strange.server(None), listed.server(None), tls, &said);
        });
        scope.spawn(|| {
            let (bad, good) = (strange.server(None), pinned.server(None));
            replaced(&folder(), bad, good, &pins, "does not match `pin`");
        });
    });
}

#[test]
fn invalid_certificates_are_logged_and_can_be_replaced_at_run_time() {
    let (authority, other) = (Authority::new(), Authority::new());
    let issue = |by: &Authority, name: &str, validity| by.issue(&[name], validity).server(None);
    let good = || issue(&authority, "127.0.0.1", Validity::Good);
    let expired = issue(&authority, "127.0.0.1", Validity::Expired);
    let renamed = issue(&authority, "elsewhere.example", Validity::Good);
    let unknown = issue(&other, "127.0.0.1", Validity::Good);
    thread::scope(|scope| {
        scope.spawn(|| mended(expired, good(), &authority, "expired on 2020-02-01"));
        scope.spawn(|| mended(renamed, good(), &authority, "elsewhere.example"));
        scope.spawn(|| mended(unknown, good(), &authority, "ca_file"));
        scope.spawn(|| introduced(&authority, &other));
    });
}
