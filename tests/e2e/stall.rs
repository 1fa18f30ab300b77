//! Tests that a dead sink stops no other sink and loses nothing.

use crate::support::{folder, lines};
use millstream_components::component::AnyComponent;
use millstream_components::registry::find;
use millstream_engine::{
    Blueprint, Buffer, Clock, Pace, Running, Settings, SinkPart, SourcePart, Store,
};
use millstream_model::{Kind, SourceInfo};
use millstream_testkit::{FakeSink, MemoryEndpoint};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the second sink is dead.
const DEAD: Duration = Duration::from_secs(30);

const LINES_PER_SECOND: usize = 20_000;

/// Appends lines to a file for `seconds`; returns the number of lines.
fn grow(path: &Path, seconds: u64) -> usize {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    let (begun, mut made) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let due = (begun.elapsed().as_secs_f64() * LINES_PER_SECOND as f64) as usize;
        let text: String = (made..due).map(|n| format!("{n:09} {}\n", "x".repeat(170))).collect();
        file.write_all(text.as_bytes()).unwrap();
        made = due;
        std::thread::sleep(Duration::from_millis(20));
    }
    made
}

fn blueprint(dir: &Path, endpoints: &[MemoryEndpoint; 2]) -> Blueprint {
    let include = dir.join("in.log").display().to_string();
    let row = find(Kind::Source, "file").unwrap();
    let AnyComponent::Source(file) = (row.decode)(json!({ "include": [include] })).unwrap() else {
        panic!("no file source")
    };
    let open = Box::new(move |open| file.open(open));
    let info = SourceInfo { id: "app".into(), ..SourceInfo::default() };
    let sink = |index: usize| SinkPart {
        id: format!("s{index}"),
        type_name: "fake",
        inputs: vec![("app".into(), 0)],
        buffer: Buffer::default(),
        sink: Arc::new(FakeSink::new(&endpoints[index])),
    };
    Blueprint {
        sources: vec![SourcePart {
            info,
            type_name: "file",
            pace: Pace::default(),
            queue_bytes: 0,
            open,
        }],
        transforms: vec![],
        sinks: vec![sink(0), sink(1)],
    }
}

/// Starts an engine that reads one file.
fn start(
    dir: &Path,
    endpoints: &[MemoryEndpoint; 2],
    until_eof: bool,
    runtime: &tokio::runtime::Runtime,
) -> Running {
    let settings = Settings {
        threads: 2,
        offload_threads: 2,
        memory_bytes: 64 << 20,
        reserved_bytes: 0,
        memory_host: None,
        cpu: None,
        // At this size, a dead sink's queue is full within a second or two.
        sink_bytes_max: 4 << 20,
        until_eof,
        clock: Clock::System,
        internal_metrics: millstream_model::InternalMetrics::default(),
        taps: millstream_model::tap::Taps::default(),
        internal_logs: millstream_model::InternalLogs::default(),
    };
    let store = Arc::new(Store::open(&dir.join("data")).unwrap());
    blueprint(dir, endpoints).build(&settings, store).unwrap().start(runtime.handle())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn only_the_line_that_panics_a_delivery_is_rejected() {
    let dir = folder();
    let endpoints = [MemoryEndpoint::default(), MemoryEndpoint::default()];
    let line = |n: usize| if n == 1234 { "poison?\n".to_owned() } else { format!("line {n}\n") };
    std::fs::write(dir.path().join("in.log"), (0..5000).map(line).collect::<String>()).unwrap();
    let runtime = runtime();
    let running = start(dir.path(), &endpoints, true, &runtime);
    runtime.block_on(running.finished(Duration::from_secs(60)));
    let snapshot = running.snapshot();
    runtime.block_on(running.stop(Duration::from_secs(20)));
    // The line is rejected once for each of the two sinks.
    assert_eq!(
        snapshot.components[0].counters.dropped_events.get("panic"),
        Some(&2),
        "{snapshot:?}"
    );
    for endpoint in &endpoints {
        let mut got = endpoint.lines();
        got.sort();
        got.dedup();
        assert_eq!(got.len(), 4999);
        assert!(!got.iter().any(|line| line.contains("poison")));
    }
}

#[test]
fn a_sink_that_is_down_for_thirty_seconds_delays_no_other_and_catches_up() {
    let dir = folder();
    let endpoints = [MemoryEndpoint::default(), MemoryEndpoint::default()];
    let runtime = runtime();
    let running = start(dir.path(), &endpoints, false, &runtime);
    let path = dir.path().join("in.log");
    let writer = std::thread::spawn(move || grow(&path, DEAD.as_secs() + 8));
    std::thread::sleep(Duration::from_secs(2));
    endpoints[1].stall(true);
    let before = (endpoints[0].lines().len(), Instant::now());
    std::thread::sleep(DEAD);
    let rate = (endpoints[0].lines().len() - before.0) as f64 / before.1.elapsed().as_secs_f64();
    let dead = endpoints[1].lines().len();
    endpoints[1].stall(false);
    let made = writer.join().unwrap();
    let begun = Instant::now();
    while endpoints[1].lines().len() < made && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let snapshot = running.snapshot();
    assert!(runtime.block_on(running.stop(Duration::from_secs(20))).drained);
    assert!(dead < made / 2, "the dead sink was dead");
    assert!(rate >= 0.95 * LINES_PER_SECOND as f64, "the other sink fell to {rate} lines/s");
    let expected = lines(&dir.path().join("in.log"));
    assert_eq!(expected.len(), made);
    for endpoint in &endpoints {
        let got = endpoint.lines();
        assert!(got == expected, "{} lines of {made}, {snapshot:?}", got.len());
    }
}
