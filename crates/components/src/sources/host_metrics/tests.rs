//! Tests of the source with a tree of files instead of `/proc` and `/sys`.

use super::*;
use crate::component::{Component, SourceComponent};
use millstream_model::{Batch, SinkSet};
use millstream_testkit::SourceRig;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

fn config(options: serde_json::Value) -> HostMetricsConfig {
    serde_json::from_value(options).unwrap()
}

/// Returns options that collect load and pressure of a host with this `/proc/loadavg`.
fn host(base: &Path, loadavg: &str) -> HostMetricsConfig {
    std::fs::create_dir_all(base.join("proc")).unwrap();
    std::fs::write(base.join("proc/loadavg"), loadavg).unwrap();
    config(json!({
        "collect": ["load", "pressure"], "proc": base.join("proc"), "sys": base.join("sys"), "period": "10s"
    }))
}

fn texts(batch: &Batch) -> Vec<String> {
    (0..batch.rows()).map(|row| String::from_utf8_lossy(batch.text(row)).into_owned()).collect()
}

#[test]
fn metrics_are_emitted_at_the_end_of_each_period() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = SourceRig::new(&["out"]);
    let mut source = host(dir.path(), "0.5 1 2.25 1/2 3").open(rig.open()).unwrap();
    for _ in 0..2 {
        let Polled::Wait(left) = rig.poll(&mut *source) else { panic!("nothing yet") };
        assert!(!left.is_zero() && left <= Duration::from_secs(10));
        rig.advance(left);
        // The first poll starts the collection, and the second one takes its result.
        assert!(matches!(rig.poll(&mut *source), Polled::Wait(Duration::ZERO)));
        assert!(matches!(rig.poll(&mut *source), Polled::Wait(Duration::ZERO)));
        let Polled::Batch(batch, _) = rig.poll(&mut *source) else { panic!("the metrics") };
        assert_eq!(texts(&batch), ["host_load1 {} 0.5", "host_load5 {} 1", "host_load15 {} 2.25"]);
        assert_eq!(batch.time.as_ref().unwrap()[0] % 10_000_000_000, 0);
    }
    // A statistic that the kernel does not provide is counted once.
    assert_eq!(rig.counters.snapshot().errors["missing"], 1);
    std::fs::write(dir.path().join("proc/loadavg"), "much").unwrap();
    rig.until_eof = true;
    for _ in 0..2 {
        assert!(matches!(rig.poll(&mut *source), Polled::Wait(Duration::ZERO)));
    }
    assert!(matches!(rig.poll(&mut *source), Polled::Ended));
    let counters = rig.counters.snapshot();
    assert_eq!((counters.errors["missing"], counters.errors["malformed"]), (1, 1));
    assert_eq!((counters.sent_events, counters.received_events), (6, 6));
}

#[test]
fn nothing_is_collected_under_backpressure() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = SourceRig::new(&["out"]);
    (rig.until_eof, rig.ready) = (true, SinkSet::EMPTY);
    let mut source = host(dir.path(), "1 1 1 1/2 3").open(rig.open()).unwrap();
    for _ in 0..3 {
        assert!(matches!(rig.poll(&mut *source), Polled::Backpressure));
    }
    std::fs::write(dir.path().join("proc/loadavg"), "2 2 2 1/2 3").unwrap();
    rig.ready = rig.all();
    for _ in 0..2 {
        assert!(matches!(rig.poll(&mut *source), Polled::Wait(Duration::ZERO)));
    }
    let Polled::Batch(batch, _) = rig.poll(&mut *source) else { panic!("the metrics") };
    assert_eq!(texts(&batch)[0], "host_load1 {} 2");
}

#[test]
fn abandoned_data_is_counted_during_a_collection() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = SourceRig::new(&["out"]);
    let mut source = host(dir.path(), "1 1 1 1/2 3").open(rig.open()).unwrap();
    let Polled::Wait(left) = rig.poll(&mut *source) else { panic!("nothing yet") };
    rig.advance(left);
    for _ in 0..2 {
        assert!(matches!(rig.poll(&mut *source), Polled::Wait(Duration::ZERO)));
    }
    let Polled::Batch(batch, _) = rig.poll(&mut *source) else { panic!("the metrics") };
    rig.advance(Duration::from_secs(10));
    assert!(matches!(rig.poll(&mut *source), Polled::Wait(Duration::ZERO)));
    drop(batch);
    assert!(matches!(rig.poll(&mut *source), Polled::Wait(Duration::ZERO)));
    let counters = rig.counters.snapshot();
    assert_eq!(
        (counters.errors.get("abandoned"), counters.dropped_events.get("abandoned")),
        (Some(&1), Some(&1))
    );
}

#[test]
fn file_systems_are_collected_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    let proc = dir.path().join("proc/self");
    std::fs::create_dir_all(&proc).unwrap();
    std::fs::write(proc.join("mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda rw\n").unwrap();
    let options = json!({ "collect": ["filesystems"], "proc": dir.path().join("proc") });
    let options = config(options).options().unwrap();
    let (sender, answer) = std::sync::mpsc::channel();
    let answer = parking_lot::Mutex::new(answer);
    let ask = move |_: &Path| {
        let _ = answer.lock().recv();
        millstream_host::space(Path::new("/"))
    };
    let mut rig = SourceRig::new(&["out"]);
    rig.until_eof = true;
    let open = rig.open();
    let numbers = Numbers::new(&open, Duration::from_secs(10)).unwrap();
    let host = Host::new(options, std::sync::Arc::new(ask), open.wake);
    let mut source = HostMetrics::new(host, numbers);
    assert!(matches!(rig.poll(&mut source), Polled::Wait(Duration::ZERO)));
    for _ in 0..3 {
        assert!(
            matches!(rig.poll(&mut source), Polled::Wait(left) if left == Duration::from_secs(1))
        );
    }
    sender.send(()).unwrap();
    rig.wait_for_wake(Duration::from_secs(60));
    assert!(matches!(rig.poll(&mut source), Polled::Wait(Duration::ZERO)));
    let Polled::Batch(batch, _) = rig.poll(&mut source) else { panic!("the metrics") };
    assert!(
        texts(&batch)[0].starts_with(
            "host_filesystem_total_bytes {\"device\":\"/dev/sda\",\"fstype\":\"ext4\""
        )
    );
    assert!(matches!(rig.poll(&mut source), Polled::Ended));
}

#[test]
fn errors_that_the_schema_cannot_express_are_checked() {
    let faults = |options| {
        config(options).check().into_iter().map(|error| error.pointer).collect::<Vec<_>>()
    };
    assert_eq!(faults(json!({})), Vec::<String>::new());
    let options = json!({
        "period": "1500ms",
        "disks": { "include": ["sd*", "[x"] },
        "filesystems": { "timeout": "1ms" },
        "cgroups": { "root": "/../..", "depth": 17 },
        "root": "host"
    });
    let expected = [
        "/period",
        "/disks/include/1",
        "/filesystems/timeout",
        "/cgroups/depth",
        "/cgroups/root",
        "/root",
    ];
    assert_eq!(faults(options), expected);
}

/// Returns the metric names in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter))
        .filter(|word| word.starts_with("host_") && *word != "host_metrics")
        .collect()
}

#[test]
fn the_page_lists_every_metric_and_no_other() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../io/host/tests/tree");
    let options = config(json!({
        "proc": tree.join("proc"), "sys": tree.join("sys"), "cgroups": { "root": "/", "depth": 2 },
        "processes": { "include": ["*"] }
    }));
    let space = millstream_host::Space { size: 9, free: 5, available: 3, files: 2, files_free: 1 };
    let ask = std::sync::Arc::new(move |_: &Path| Ok(space));
    let mut host = Host::new(options.options().unwrap(), ask, std::sync::Arc::new(|| {}));
    host.begin(Duration::ZERO);
    let readings = loop {
        match host.finish(Duration::ZERO) {
            Ok(readings) => break readings,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert_eq!(readings.faults, []);
    let page = include_str!("README.md");
    let metrics = &page[page.find("## Metrics").unwrap()..page.find("### File systems").unwrap()];
    assert_eq!(names(metrics), readings.numbers.iter().map(|number| number.name).collect());
}
