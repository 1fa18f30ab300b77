//! Tests network faults with a real toxiproxy between the agent and the endpoint.

use super::endpoint::{Act, Endpoint};
use super::{
    FILES, PATIENCE, append, assert_lines, counted, logs, remote_write, start_ready, stop,
    wait_settled,
};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::frames::{self, FrameServer};
use millstream_testkit_servers::prometheus::Prometheus;
use millstream_testkit_servers::toxiproxy::{Proxy, Stream};
use serde_json::{Value, json};

/// Number of lines per file and fault.
const LINES: usize = 50;

/// Returns network faults. The flag is true if the fault breaks connections, false if it slows them
/// down.
fn faults() -> Vec<(&'static str, Stream, Value, bool)> {
    vec![
        ("latency", Stream::Up, json!({ "latency": 60, "jitter": 40 }), false),
        ("bandwidth", Stream::Up, json!({ "rate": 100 }), false),
        (
            "slicer",
            Stream::Up,
            json!({ "average_size": 50, "size_variation": 30, "delay": 50 }),
            false,
        ),
        ("reset_peer", Stream::Up, json!({ "timeout": 0 }), true),
        ("reset_peer", Stream::Down, json!({ "timeout": 0 }), true),
        ("limit_data", Stream::Up, json!({ "bytes": 200 }), true),
        ("limit_data", Stream::Down, json!({ "bytes": 5 }), true),
        ("timeout", Stream::Up, json!({ "timeout": 0 }), true),
        ("timeout", Stream::Down, json!({ "timeout": 0 }), true),
    ]
}

/// Applies each fault while `produce` generates events, and finally closes the proxy for a while.
/// `settled` waits until the events are sent.
fn suffer(agent: &Agent, proxy: &Proxy, produce: impl Fn(usize), settled: impl Fn(usize)) {
    let errors = || counted(agent, "errors", "");
    for (turn, (fault, stream, attributes, breaks)) in faults().into_iter().enumerate() {
        let before = errors();
        proxy.add(fault, stream, attributes);
        produce(turn);
        if breaks {
            wait_until(fault, PATIENCE, || errors() > before);
            proxy.remove(fault);
        }
        settled(turn);
        if !breaks {
            proxy.remove(fault);
        }
    }
    proxy.enable(false);
    let before = errors();
    produce(faults().len());
    wait_until("an error", PATIENCE, || errors() > before);
    proxy.enable(true);
    settled(faults().len());
}

/// Sends lines to a sink with these options through a proxy, which is down at first. Returns the
/// number of lines per file.
fn send_lines(proxy: &Proxy, sink: &str) -> usize {
    let dir = folder();
    proxy.enable(false);
    append(dir.path(), 0, LINES);
    let agent = Agent::start(dir.path(), &logs(sink), &[]);
    wait_until("an error", PATIENCE, || counted(&agent, "errors", "") > 0);
    proxy.enable(true);
    let settled = |turns: usize| {
        let all = (FILES * LINES * turns) as u64;
        assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    };
    settled(1);
    let produce = |turn: usize| append(dir.path(), (turn + 1) * LINES, LINES);
    suffer(&agent, proxy, produce, |turn| settled(turn + 2));
    stop(agent);
    (faults().len() + 2) * LINES
}

#[test]
fn a_bad_network_loses_no_line_over_http() {
    let endpoint = Endpoint::start(|_, _| Act::Keep);
    let proxy = Proxy::to_port(endpoint.server.port);
    let uri = format!("http://127.0.0.1:{}/in", proxy.port);
    let options =
        "batch: { bytes: 8KiB, timeout: 10ms }, request: { timeout: 1s }, compression: zlib";
    let lines = send_lines(&proxy, &format!("type: http, uri: '{uri}', {options}"));
    assert_lines(&endpoint.text(), lines, |_| false);
}

#[test]
fn a_bad_network_loses_no_line_over_tcp_with_acknowledgements() {
    let endpoint = FrameServer::start(|_| frames::Act::Keep);
    let proxy = Proxy::to_port(endpoint.port);
    let options = "framing: length, acknowledgements: true, batch: { bytes: 8KiB, timeout: 10ms }, \
                   timeout: 500ms, connect_timeout: 500ms";
    let lines =
        send_lines(&proxy, &format!("type: tcp, address: '127.0.0.1:{}', {options}", proxy.port));
    assert_lines(&endpoint.text(), lines, |_| false);
}

#[test]
fn a_bad_network_leaves_sums_in_prometheus_exact() {
    let port = Prometheus::shared().address().rsplit(':').next().unwrap().parse().unwrap();
    let proxy = Proxy::to_port(port);
    let dir = folder();
    let uri = format!("http://127.0.0.1:{}/api/v1/write", proxy.port);
    let agent = start_ready(dir.path(), &remote_write::sink(&uri, "network"));
    remote_write::add(dir.path(), "network", 1, 1);
    let produce = |turn: usize| remote_write::send_points(dir.path(), turn + 1);
    let sum = |turn: usize| 1 + (turn + 1) * (turn + 2) / 2;
    suffer(&agent, &proxy, produce, |turn| remote_write::wait_sum("network", sum(turn)));
    remote_write::assert_exact(&agent, "network");
    stop(agent);
}
