//! Tests HTTP proxies between the agent and its endpoints: set by the environment and by options,
//! unavailable, and refusing.

use super::endpoint::{Act, Endpoint};
use super::remote_write::send_points;
use super::{
    FILES, PATIENCE, append, assert_lines, counted, logs, points, start_ready, stop, wait_settled,
};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::certificates::{Authority, Validity};
use millstream_testkit_servers::http::{HttpOptions, HttpServer, Reply};
use millstream_testkit_servers::proxy::{ProxyOptions, ProxyServer};
use std::path::Path;
use std::process::Command;

/// Number of lines per file.
const LINES: usize = 50;

/// Login `agent:s3cret-word-1`, in a URL and as a header.
const LOGIN: &str = "agent:s3cret-word-1@";
const HEADER: &str = "Basic YWdlbnQ6czNjcmV0LXdvcmQtMQ==";

/// Starts an agent whose sink sends to an address that only the proxy knows.
fn start(dir: &Path, sink: &str, variables: &[(&str, String)]) -> Agent {
    append(dir, 0, LINES);
    let all = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
    let adjust = |command: &mut Command| {
        for name in all.iter().flat_map(|name| [(*name).to_owned(), name.to_lowercase()]) {
            command.env_remove(name);
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
    };
    Agent::spawn(dir, &logs(sink), &[], adjust)
}

fn assert_all_arrive(agent: Agent, endpoint: &Endpoint) {
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    assert_lines(&endpoint.text(), LINES, |_| false);
    agent.assert_logs("through the proxy http://REDACTED@127.0.0.1:");
    let log = agent.log();
    assert!(!log.contains("s3cret-word-1") && !log.contains(&HEADER[6..]), "{log}");
    stop(agent);
}

#[test]
fn a_proxy_that_wants_another_login_is_waited_for() {
    let dir = folder();
    let endpoint = Endpoint::with(HttpOptions::default(), |_, _| Act::Keep);
    let to = Some(endpoint.server.port);
    let strict = ProxyServer::start(ProxyOptions {
        login: Some("Basic b3RoZXI6bG9naW4=".into()),
        to,
        ..ProxyOptions::default()
    });
    let port = strict.port;
    let sink = "type: http, uri: 'http://logs.example/in', batch: { timeout: 10ms }";
    let agent = start(dir.path(), sink, &[("http_proxy", strict.uri(LOGIN))]);
    let said = "requires credentials (407); check the user and the password in HTTP_PROXY";
    wait_until(said, PATIENCE, || agent.log().contains(said));
    wait_until("it is counted", PATIENCE, || {
        counted(&agent, "errors", "error_type=\"proxy_authentication\"") > 0
    });
    assert!(endpoint.kept().is_empty());
    drop(strict);
    let login = Some(HEADER.into());
    let proxy = ProxyServer::start(ProxyOptions { port, login, to, ..ProxyOptions::default() });
    assert_all_arrive(agent, &endpoint);
    assert!(proxy.lines().iter().all(|line| line == "POST http://logs.example/in HTTP/1.1"));
}

#[test]
fn a_tunnel_through_a_proxy_that_was_away_loses_no_line() {
    let (dir, authority) = (folder(), Authority::new());
    authority.write(dir.path(), "ca");
    let tls = Some(authority.issue(&["logs.example"], Validity::Good).server(None));
    let endpoint = Endpoint::with(HttpOptions { tls, ..HttpOptions::default() }, |_, _| Act::Keep);
    let options = || ProxyOptions {
        login: Some(HEADER.into()),
        to: Some(endpoint.server.port),
        ..ProxyOptions::default()
    };
    let first = ProxyServer::start(options());
    let (uri, port) = (first.uri(LOGIN), first.port);
    drop(first);
    let sink = "type: http, uri: 'https://logs.example/in', batch: { timeout: 10ms }, \
                tls: { ca_file: DIR/ca.crt }";
    let variables = [("HTTPS_PROXY", uri), ("NO_PROXY", "other.example,10.0.0.0/8".to_owned())];
    let agent = start(dir.path(), sink, &variables);
    let said = "of HTTPS_PROXY: Connection refused";
    wait_until(said, PATIENCE, || agent.log().contains(said));
    let proxy = ProxyServer::start(ProxyOptions { port, ..options() });
    assert_all_arrive(agent, &endpoint);
    assert!(proxy.lines().iter().all(|line| line == "CONNECT logs.example:443 HTTP/1.1"));
}

#[test]
fn every_sink_of_requests_takes_a_proxy() {
    let server = HttpServer::start(|_| Reply::status(200));
    let proxy = ProxyServer::start(ProxyOptions { to: Some(server.port), ..Default::default() });
    let by_proxy = format!("proxy: '{}'", proxy.uri(""));
    let dir = folder();
    let sink = format!(
        "type: prometheus_remote_write, uri: 'http://metrics.example/write', spread: 0s, {by_proxy}"
    );
    let agent = start_ready(dir.path(), &points(&sink));
    send_points(dir.path(), 3);
    wait_until("points", PATIENCE, || counted(&agent, "sent_events", "") > 0);
    stop(agent);
    let dir = folder();
    append(dir.path(), 0, LINES);
    let config = format!(
        "sources:\n  app: {{ type: file, include: ['DIR/in/*.log'] }}\n\
         sinks:\n  out: {{ inputs: [app], type: elasticsearch, endpoints: ['http://search.example'], \
         index: a, {by_proxy} }}\n"
    );
    let agent = Agent::start(dir.path(), &config, &[]);
    wait_until("documents", PATIENCE, || {
        proxy.lines().iter().any(|line| line.contains("http://search.example/"))
    });
    drop(agent);
    let lines = proxy.lines();
    assert!(lines[0].contains(" http://metrics.example/write "), "{lines:?}");
}
