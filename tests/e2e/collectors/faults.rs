//! Tests that a fault in a collector affects only the events of this collector.

use super::{
    PATIENCE, collector, each_mode, faulty, is_in, settings, wait_for_lines, wait_for_reloads,
};
use crate::support::{Agent, folder, lines, wait_until};
use std::fs;
use std::time::Duration;

/// Faults of a call, with the text that the API shows for the last failure.
const FAULTS: &[(&str, &str)] = &[
    ("exception", "java.lang.IllegalStateException: injected (FaultyCollector line "),
    ("sleep", "exceeds its timeout of 200 ms"),
    ("value", "IllegalArgumentException"),
    ("name", "IllegalArgumentException"),
    ("cycle", "IllegalArgumentException"),
    ("message", "IllegalArgumentException"),
    ("exit", "java.lang.SecurityException"),
];

/// Memory limit of the agent, in the configuration and in bytes.
const MEMORY: &str = "640MiB";
const MEMORY_BYTES: f64 = (640u64 << 20) as f64;

/// Number of events of 1,000 bytes that a flood produces within a second. This is more than the
/// queues in front of a sink hold, so fewer events show that the flood was stopped.
const FLOOD_MAX: u64 = 100_000;

/// Returns a pipeline from the `app` source to DIR/out.txt, and a second sink with these inputs.
fn pipeline(inputs: &[&str], sink: &str) -> String {
    format!(
        "  app: {{ type: file, include: ['DIR/app.log'] }}\n\
         sinks:\n  collected: {{ inputs: [{}], {sink} }}\n  \
           out: {{ type: file, inputs: [app], path: DIR/out.txt, sync: 100ms, encoding: {{ codec: text }} }}\n",
        inputs.join(", ")
    )
}

/// Returns collectors with each kind of fault, a collector that cannot be interrupted, and a good
/// collector.
fn every_fault() -> String {
    let mut config = settings(MEMORY) + "sources:\n";
    // Only calls that never end have a short timeout. With it, other calls could time out on a busy
    // host.
    let times = |id: &str| match id {
        "sleep" | "deaf" => "interval: 100ms, timeout: 200ms",
        _ => "interval: 100ms",
    };
    let mut ids = vec!["deaf", "none"];
    ids.extend(FAULTS.iter().map(|(fault, _)| *fault));
    for id in &ids {
        config += &format!("  {id}: {}\n", faulty(id, times(id)));
    }
    let sink = "type: file, path: DIR/collected.txt, sync: 100ms, encoding: { codec: text }";
    config + &pipeline(&ids, sink)
}

fn failures(agent: &Agent, id: &str) -> u64 {
    collector(agent, id)["failures"].as_u64().unwrap_or(0)
}

#[test]
fn each_fault_of_a_collector_harms_its_call_alone() {
    each_mode(|mode| {
        let dir = folder();
        let config = mode.adapt(every_fault());
        let mut agent = Agent::start(dir.path(), &config, &[]);
        for (fault, reason) in FAULTS {
            wait_until(fault, PATIENCE, || failures(&agent, fault) >= 2);
            let failure = collector(&agent, fault)["last_failure"].to_string();
            assert!(failure.contains(reason), "{fault}: {failure}");
        }
        wait_until("it hangs", PATIENCE, || is_in(&agent, "deaf", "hangs"));
        assert_eq!(failures(&agent, "none"), 0);
        let collected = dir.path().join("collected.txt");
        let has = |line: &str| lines(&collected).iter().any(|of| of == line);
        for (fault, _) in FAULTS {
            wait_until("what precedes a fault arrives", PATIENCE, || has(&format!("{fault} 2")));
        }
        wait_until("the good one continues", PATIENCE, || has("none 20"));
        assert!(!has("never"));
        let failed = ": the collector failed: java.lang.";
        wait_until("the log tells the failure", PATIENCE, || agent.log().contains(failed));
        wait_until("the log", PATIENCE, || agent.log().contains("ignore interruption: deaf\n"));

        agent.reload(&config.replace("fault: deaf", "fault: none"));
        wait_for_reloads(&agent, 1);
        wait_until("its successor collects", PATIENCE, || is_in(&agent, "deaf", "waiting"));
        let replaced = "source deaf: the replaced collector has not stopped";
        wait_until("the log tells of it", PATIENCE, || agent.log().contains(replaced));
        assert!(agent.stop().success(), "{}", agent.log());
    });
}

#[test]
fn a_collector_that_floods_waits_and_leaves_other_pipelines_alone() {
    each_mode(|mode| {
        let dir = folder();
        let sink = "type: http, uri: 'http://127.0.0.1:1/', encoding: { codec: text }";
        let head = settings(MEMORY) + "shutdown_timeout: 1s\nsources:\n";
        let flood = mode.adapt(format!("  flood: {}\n", faulty("flood", "")));
        let config = head + &flood + &pipeline(&["flood", "app"], sink);
        let mut agent = Agent::start(dir.path(), &config, &[]);
        wait_until("the collector waits", PATIENCE, || is_in(&agent, "flood", "blocked"));
        fs::write(dir.path().join("app.log"), "one line\n".repeat(1000)).unwrap();
        wait_for_lines(&dir.path().join("out.txt"), 1000);
        wait_until("the collector waits", PATIENCE, || is_in(&agent, "flood", "blocked"));
        let events = collector(&agent, "flood")["events"].as_u64().unwrap();
        assert!((1..FLOOD_MAX).contains(&events), "{events}");
        let resident = agent.single("millstream_memory_resident_bytes").unwrap();
        assert!(resident < MEMORY_BYTES, "{resident}");

        agent.reload(&config.replace(&flood, "").replace("[flood, app]", "[app]"));
        wait_for_reloads(&agent, 1);
        fs::write(dir.path().join("app.log"), "one line\n".repeat(2000)).unwrap();
        wait_for_lines(&dir.path().join("out.txt"), 2000);
        assert!(collector(&agent, "flood").is_null());
        agent.reload(&config);
        wait_for_reloads(&agent, 2);
        wait_until("another one waits", PATIENCE, || is_in(&agent, "flood", "blocked"));
        agent.terminate();
        // After `shutdown_timeout`, the agent abandons the events that are waiting for the sink.
        assert!(!agent.wait(PATIENCE).success(), "{}", agent.log());
    });
}

/// An empty event is a payload of one byte that takes far more memory than one byte.
#[test]
fn empty_events_that_are_sent_one_by_one_soon_fill_the_queue_of_a_sink() {
    let dir = folder();
    let sink = "type: http, uri: 'http://127.0.0.1:1/', encoding: { codec: text }";
    let head = settings(MEMORY) + "shutdown_timeout: 1s\nsources:\n";
    let config =
        head + &format!("  empty: {}\n", faulty("empty", "")) + &pipeline(&["empty"], sink);
    let agent = Agent::start(dir.path(), &config, &[]);
    let events = || collector(&agent, "empty")["events"].as_u64().unwrap_or(0);
    wait_until("the collector waits", PATIENCE, || {
        let before = events();
        std::thread::sleep(Duration::from_secs(1));
        before > 0 && events() == before
    });
    let resident = agent.single("millstream_memory_resident_bytes").unwrap();
    assert!(resident < MEMORY_BYTES / 2.0, "{resident} with {} events", events());
}
