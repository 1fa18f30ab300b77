//! Tests client libraries of applications: every point that `tests/clients` sends must be output.

use super::{Events, ONE_PERIOD, number, start, tags_of, udp};
use crate::support::folder;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Timestamp of the points that have a timestamp.
const STAMP: &str = "2023-11-14T22:13:20";

/// Returns the path of the client; installs it if it is missing.
fn client(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("scripts/clients")).arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// Returns the events for what a client sends to a source over one type of socket.
fn sent_by(program: &Path, source: &str, scheme: &str) -> Events {
    let dir = folder();
    let address = match scheme {
        "udp" => udp(),
        "tcp" => udp().replace("udp", "tcp"),
        _ => format!("{scheme}://{}/points.sock", dir.path().display()),
    };
    let mut agent =
        start(dir.path(), &format!("type: {source}, listen: ['{address}'], {ONE_PERIOD}"));
    let output = Command::new(program).arg(&address).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{address}: {}\n{errors}", output.status);
    // When it stops, the agent reads the sockets and flushes.
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    Events::read(dir.path())
}

/// Asserts that a number is within a fraction of the expected one.
fn assert_near(what: &str, value: f64, expected: f64, within: f64) {
    assert!(
        (value - expected).abs() <= expected.abs() * within,
        "{what}: {value} instead of {expected}"
    );
}

/// Compares the events with the table in tests/clients/README.md.
fn check_table(events: &Events, lang: &str) {
    let tags = |others: &str| {
        let mut tags: Vec<String> = others.split_whitespace().map(str::to_owned).collect();
        tags.push(format!("lang:{lang}"));
        tags.sort();
        tags.join(",")
    };
    for (name, others, expected) in [
        ("client.requests", "route:/a", 100.0),
        ("client.bytes", "route:/a code:200", 5050.0),
        ("client.balance", "urgent", 200.0),
        ("client.level", "", 100.0),
        ("client.cold", "", -50.0),
        ("client.users", "", 7.0),
        ("client.stamped", "", 7.5),
        ("client.stamped.count", "", 12.0),
        ("client.wait.count", "route:/a", 100.0),
        ("client.wait.max", "route:/a", 100.0),
        ("client.wait.avg", "route:/a", 50.5),
        ("client.size.count", "", 100.0),
        ("client.size.max", "", 150.0),
        ("client.size.avg", "", 75.75),
        ("client.spread.count", "", 100.0),
        ("client.spread.sum", "", 10_100.0),
        ("client.spread.min", "", 2.0),
        ("client.spread.max", "", 200.0),
    ] {
        assert_near(name, events.one(name, &tags(others)), expected, 1e-12);
    }
    // The nearest values are 1% away, and the result may differ from them by another 1%.
    assert_near("median", events.one("client.wait.median", &tags("route:/a")), 50.5, 0.02);
    assert_near("95th", events.one("client.wait.95percentile", &tags("route:/a")), 95.0, 0.02);
    assert_near("99th", events.one("client.spread.99percentile", &tags("")), 198.0, 0.02);
    for (name, kind) in [("client.stamped", "gauge"), ("client.stamped.count", "counter")] {
        let event = events.of(name, &tags(""))[0];
        assert!(event["timestamp"].as_str().unwrap().starts_with(STAMP), "{event}");
        assert_eq!(event["type"], kind);
    }
    check_notices(events, &tags("team:web"));
}

fn check_notices(events: &Events, tags: &str) {
    let one = |kind: &str| {
        let found: Vec<&Value> = events.0.iter().filter(|event| event["type"] == kind).collect();
        assert_eq!(found.len(), 1, "{kind}: {found:?}");
        assert_eq!(tags_of(found[0]), tags);
        found[0]
    };
    let event = one("event");
    for (key, value) in [
        ("title", "deployed"),
        ("message", "version 2\non all hosts"),
        ("priority", "low"),
        ("alert_type", "warning"),
        ("aggregation_key", "deploys"),
    ] {
        assert_eq!(event[key], json!(value), "{event}");
    }
    let check = one("service_check");
    for (key, value) in
        [("name", "client.database"), ("status", "critical"), ("message", "no answer")]
    {
        assert_eq!(check[key], json!(value), "{check}");
    }
}

fn check(lang: &str, schemes: &[&str]) {
    let program = client(lang).join("run");
    for scheme in schemes {
        check_table(&sent_by(&program, "dogstatsd", scheme), lang);
    }
}

#[test]
fn the_python_client_works() {
    check("python", &["udp", "unixgram", "unix"]);
}

#[test]
fn the_node_client_works() {
    check("node", &["udp", "unixgram", "tcp"]);
}

#[test]
fn the_go_client_works() {
    check("go", &["udp", "unixgram", "unix"]);
}

#[test]
fn the_java_client_works() {
    check("java", &["udp", "unixgram", "unix"]);
}

#[test]
fn a_msgpack_client_works() {
    let program = client("python").join("run-metricserver");
    for scheme in ["udp", "unixgram", "unixpacket", "unix"] {
        check_msgpack(&sent_by(&program, "metricserver", scheme));
    }
}

fn check_msgpack(events: &Events) {
    let tags = "lang:msgpack,route:/a";
    for (name, expected) in [
        ("client.requests", 100.0),
        ("client.reads", 200.0),
        ("client.wait.min", 1.0),
        ("client.wait.max", 100.0),
        ("client.wait.avg", 50.5),
        ("client.wait.sum", 5050.0),
        ("client.wait.counter", 100.0),
        ("client.level", 100.0),
        ("client.size.sum", 5050.0),
        ("client.size.count", 100.0),
    ] {
        assert_near(name, events.one(name, tags), expected, 1e-12);
    }
    for (name, sum) in [("client.calls", 300.0), ("client.reads.rate", 200.0)] {
        let event = events.of(name, tags)[0];
        assert_near(name, number(event) * event["interval"].as_f64().unwrap(), sum, 1e-9);
    }
    assert_near("pct50", events.one("client.wait.pct50", tags), 50.5, 0.02);
    assert_near("pct99", events.one("client.size.pct99", tags), 99.0, 0.02);
    let stamped = events.of("client.stamped", "lang:msgpack");
    assert_eq!((stamped.len(), number(stamped[0])), (1, 7.5));
    assert!(stamped[0]["timestamp"].as_str().unwrap().starts_with(STAMP), "{}", stamped[0]);
}
