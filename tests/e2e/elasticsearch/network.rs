//! Tests bad networks in front of a real server.

use super::{PATIENCE, append, assert_index, config, counted, line};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::search::SearchServer;
use millstream_testkit_servers::toxiproxy::{Proxy, Stream};
use serde_json::{Value, json};
use std::time::Duration;

/// Number of lines between two faults.
const LINES: usize = 600;

/// Returns each kind of fault with its direction and its attributes.
fn faults() -> Vec<(&'static str, Stream, Value)> {
    vec![
        // Cuts answers after their head.
        ("limit_data", Stream::Down, json!({ "bytes": 300 })),
        // Delays the answer beyond the timeout, after the server has taken the events.
        ("latency", Stream::Down, json!({ "latency": 3000 })),
        ("timeout", Stream::Down, json!({ "timeout": 0 })),
        // Leaves the connection half open.
        ("timeout", Stream::Up, json!({ "timeout": 0 })),
        ("reset_peer", Stream::Down, json!({ "timeout": 5 })),
        ("reset_peer", Stream::Up, json!({ "timeout": 0 })),
        ("bandwidth", Stream::Up, json!({ "rate": 20 })),
        ("slicer", Stream::Down, json!({ "average_size": 20, "size_variation": 10, "delay": 10 })),
    ]
}

#[test]
fn a_bad_network_loses_no_event_and_repeats_none() {
    let (dir, server) = (folder(), SearchServer::shared());
    let proxy = Proxy::to_port(server.port);
    let uri = format!("http://127.0.0.1:{}", proxy.port);
    let options = "index: network, batch: { events: 100, timeout: 20ms }, request: { timeout: 1s }";
    append(dir.path(), (0..LINES).map(line));
    let mut agent = Agent::start(dir.path(), &config(&uri, options), &[]);
    let sent = |lines: usize| {
        wait_until("sent lines", PATIENCE, || counted(&agent, "sent_events", "") == lines as u64);
    };
    sent(LINES);
    for (turn, (kind, stream, attributes)) in faults().into_iter().enumerate() {
        let lines = (turn + 1) * LINES;
        proxy.add(kind, stream, attributes);
        append(dir.path(), (lines..lines + LINES).map(line));
        std::thread::sleep(Duration::from_millis(1300));
        proxy.remove(kind);
        sent(lines + LINES);
    }
    assert_eq!(counted(&agent, "dropped_events", ""), 0);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_index(server, "network", (faults().len() + 1) * LINES);
}
