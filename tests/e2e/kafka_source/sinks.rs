//! Tests several sinks of one source: a sink that stalls, a sink that is ahead, and a sink that is
//! added later.

use super::{PATIENCE, assert_all, broker, events, numbered, run, source};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::http::{HttpServer, Reply};
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An endpoint that refuses requests until it is opened.
struct Endpoint {
    server: HttpServer,
    is_open: Arc<AtomicBool>,
    accepted: Arc<Mutex<Vec<Value>>>,
}

impl Endpoint {
    fn start() -> Endpoint {
        let (is_open, accepted) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (seen, into): (Arc<AtomicBool>, Arc<Mutex<Vec<Value>>>) =
            (is_open.clone(), Arc::clone(&accepted));
        let server = HttpServer::start(move |request| {
            if !seen.load(Ordering::Acquire) {
                return Reply::status(503);
            }
            let lines = request.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let parse = |line| serde_json::from_slice::<Value>(line).unwrap();
            into.lock().unwrap().extend(lines.map(parse));
            Reply::status(200)
        });
        Endpoint { server, is_open, accepted }
    }

    fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Returns the events that the endpoint accepted.
    fn events(&self) -> Vec<Value> {
        self.accepted.lock().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.accepted.lock().unwrap().len()
    }
}

/// Returns a configuration with a file and the endpoint downstream of the source.
fn config(topic: &str, group: &str, more: &str, endpoint: &Endpoint) -> String {
    let source = source(&broker().bootstrap(), topic, group, more);
    let uri = endpoint.server.uri("/");
    format!(
        "shutdown_timeout: 1s\n{source}sinks:\n  out: {{ type: file, inputs: [topic], path: DIR/out.json }}\n\
         \x20 web: {{ type: http, inputs: [topic], uri: '{uri}', encoding: {{ codec: json }}, batch: {{ timeout: 100ms }} }}\n"
    )
}

fn count(dir: &Path) -> usize {
    events(&dir.join("out.json")).len()
}

/// Waits until the agent has committed the checkpoints of all written events. Commits happen once a
/// second.
fn wait_until_committed(agent: &Agent) {
    std::thread::sleep(Duration::from_millis(1500));
    wait_until("the checkpoints are committed", PATIENCE, || {
        agent.single("millstream_checkpoint_age_seconds") == Some(0.0)
    });
}

#[test]
fn a_sink_that_stalls_makes_its_partitions_wait_and_the_agent_stays_in_the_group() {
    let (dir, kafka, endpoint) = (folder(), broker(), Endpoint::start());
    kafka.create_topic("stalled", 2);
    kafka.write("stalled", numbered(0..100_000, 2));
    // The limits allow for a busy host, where a heartbeat or a poll can be late by seconds.
    let more = "options: { session.timeout.ms: 6000, heartbeat.interval.ms: 500, max.poll.interval.ms: 7000 },";
    let config = config("stalled", "stalled", more, &endpoint);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the file", PATIENCE, || count(dir.path()) > 100);
    std::thread::sleep(Duration::from_millis(10_000));
    assert!(count(dir.path()) < 100_000, "the source waits for the endpoint");
    let committed = kafka.committed("stalled", "stalled");
    assert!(committed.values().all(|offset| *offset == 0), "{committed:?}");
    endpoint.open();
    wait_until("the endpoint", PATIENCE, || endpoint.count() >= 100_000);
    wait_until("the file", PATIENCE, || count(dir.path()) >= 100_000);
    assert!(agent.stop().success(), "{}", agent.log());
    assert_eq!(assert_all(kafka, "stalled", &events(&dir.path().join("out.json"))), 0);
    // The sink may repeat a request that timed out.
    assert_all(kafka, "stalled", &endpoint.events());
    assert!(!agent.log().contains("revoked partitions"), "{}", agent.log());
}

#[test]
fn a_sink_that_is_ahead_sees_nothing_again_on_its_agent_and_everything_on_another() {
    let (kafka, endpoint) = (broker(), Endpoint::start());
    let (dir, other) = (folder(), folder());
    kafka.create_topic("ahead", 2);
    kafka.write("ahead", numbered(0..1000, 2));
    // A late heartbeat must not end the session, because a member whose session expires repeats
    // records.
    let more = "options: { session.timeout.ms: 6000, heartbeat.interval.ms: 500 },";
    let config = config("ahead", "ahead", more, &endpoint);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the file", PATIENCE, || count(dir.path()) == 1000);
    wait_until_committed(&agent);
    agent.kill();
    endpoint.open();
    // Run another agent, whose file is still empty.
    run(other.path(), &config);
    assert_eq!(assert_all(kafka, "ahead", &events(&other.path().join("out.json"))), 0);
    assert_eq!(assert_all(kafka, "ahead", &endpoint.events()), 0);
    assert_eq!(kafka.committed("ahead", "ahead").into_values().collect::<Vec<_>>(), [500; 2]);
    // A new agent and a group whose offset has not moved: only the agent's checkpoints prevent
    // repeats in the file.
    let group = "ahead-again";
    let (dir, endpoint) = (folder(), Endpoint::start());
    let config = self::config("ahead", group, more, &endpoint);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the file", PATIENCE, || count(dir.path()) == 1000);
    wait_until_committed(&agent);
    agent.kill();
    endpoint.open();
    kafka.write("ahead", numbered(1000..1100, 2));
    run(dir.path(), &config);
    assert_eq!(assert_all(kafka, "ahead", &events(&dir.path().join("out.json"))), 0);
    assert_eq!(assert_all(kafka, "ahead", &endpoint.events()), 0);
}

#[test]
fn a_sink_that_a_reload_adds_gets_the_records_from_then_on() {
    let (dir, kafka, endpoint) = (folder(), broker(), Endpoint::start());
    endpoint.open();
    kafka.create_topic("reloaded", 2);
    kafka.write("reloaded", numbered(0..400, 2));
    let both = config("reloaded", "reloaded", "", &endpoint);
    let one =
        both.lines().filter(|line| !line.contains("web:")).collect::<Vec<_>>().join("\n") + "\n";
    let mut agent = Agent::start(dir.path(), &one, &[]);
    wait_until("the file", PATIENCE, || count(dir.path()) == 400);
    agent.reload(&both);
    wait_until("the reload", PATIENCE, || agent.log().contains("reload"));
    let mut next = 400;
    wait_until("the endpoint", PATIENCE, || {
        kafka.write("reloaded", numbered(next..next + 20, 2));
        next += 20;
        endpoint.count() > 0
    });
    wait_until("the file", PATIENCE, || count(dir.path()) == next as usize);
    assert!(agent.stop().success(), "{}", agent.log());
    assert_eq!(assert_all(kafka, "reloaded", &events(&dir.path().join("out.json"))), 0);
    let first = endpoint.events().iter().map(|event| event["off"].as_i64().unwrap()).min();
    assert!(first >= Some(200), "{first:?}");
}
