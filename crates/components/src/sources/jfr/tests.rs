//! Tests the source on files that grow, or are truncated, copied, deleted or damaged.

use super::*;
use crate::component::{Component, SourceComponent};
use millstream_model::{Batch, SinkSet};
use millstream_testkit::{FlightRecording, SourceRig};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Start time of the recordings: a boundary of every period.
const START_NS: u64 = 1_700_000_000_000_000_000;

struct Jvm {
    folder: tempfile::TempDir,
    recording: FlightRecording,
}

impl Jvm {
    fn start() -> Jvm {
        let recording = FlightRecording::begin(START_NS, 7, "shop");
        Jvm { folder: tempfile::tempdir().unwrap(), recording }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn flush(&mut self) {
        fs::write(self.path("a.jfr"), self.recording.flush()).unwrap();
    }

    fn complete(&mut self) {
        fs::write(self.path("a.jfr"), self.recording.complete()).unwrap();
    }

    fn open(&self, rig: &SourceRig) -> Box<dyn Source> {
        self.open_with(rig, json!({}))
    }

    fn open_with(&self, rig: &SourceRig, options: serde_json::Value) -> Box<dyn Source> {
        let mut all = json!({ "include": [format!("{}/*.jfr", self.folder.path().display())] });
        let map = all.as_object_mut().unwrap();
        map.extend(options.as_object().unwrap().clone());
        let config: JfrConfig = serde_json::from_value(all).unwrap();
        assert_eq!(config.check().len(), 0);
        config.open(rig.open()).unwrap()
    }
}

fn texts(batch: &Batch) -> Vec<String> {
    (0..batch.rows()).map(|row| String::from_utf8_lossy(batch.text(row)).into_owned()).collect()
}

/// Polls for this many seconds, settles the events, and returns all of them.
fn events(rig: &mut SourceRig, source: &mut dyn Source, seconds: u32) -> Vec<String> {
    let mut all = Vec::new();
    let mut left = Duration::from_secs(u64::from(seconds));
    loop {
        match rig.poll(source) {
            Polled::Batch(batch, _) => {
                all.extend(texts(&batch));
                batch.segments.iter().for_each(|segment| segment.ack.clone().finish());
            }
            Polled::Wait(Duration::ZERO) => {}
            Polled::Wait(_) | Polled::Backpressure if left.is_zero() => return all,
            Polled::Wait(_) | Polled::Backpressure => {
                rig.advance(Duration::from_millis(250));
                left -= Duration::from_millis(250);
            }
            Polled::Ended => return all,
        }
    }
}

/// Returns the sum of the written bytes by tags.
fn bytes_written(events: &[String]) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for event in events {
        let mut parts = event.split(' ');
        if parts.next() == Some("jvm.socket.write.bytes") {
            let tags = parts.next().unwrap_or_default();
            let value = parts.next().and_then(|value| value.parse::<f64>().ok());
            *sums.entry(tags.to_owned()).or_default() += value.unwrap();
        }
    }
    sums
}

fn total(events: &[String]) -> f64 {
    bytes_written(events).values().sum()
}

fn logs(events: &[String]) -> Vec<&String> {
    events.iter().filter(|event| event.starts_with("socket write")).collect()
}

#[test]
fn a_complete_recording_becomes_metrics_and_log_events() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 10);
    jvm.recording.write(2_000, 312, "cache", 20);
    jvm.recording.write(12_000, 7, "db", 30);
    jvm.complete();
    let mut source = jvm.open(&rig);
    let all = events(&mut rig, &mut *source, 1);
    let tags = |host: &str| {
        format!(
            "{{\"network.peer.address\":\"{host}\",\"network.peer.port\":\"5432\",\"process.pid\":\"7\",\"service.name\":\"shop\"}}"
        )
    };
    let expected = [(tags("cache"), 20.0), (tags("db"), 40.0)];
    assert_eq!(bytes_written(&all), BTreeMap::from(expected));
    assert_eq!(logs(&all), ["socket write to cache:5432 took 312.0 ms, 20 bytes"]);
    let maxima: Vec<&String> =
        all.iter().filter(|event| event.contains("write.duration_ms.max")).collect();
    let max = |host: &str, ms: u32| format!("jvm.socket.write.duration_ms.max {} {ms}", tags(host));
    assert_eq!(maxima, [&max("db", 5), &max("cache", 312), &max("db", 7)], "by window");
    assert!(rig.ledger.is_idle());
}

#[test]
fn a_growing_recording_is_emitted_once_each_period() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.flush();
    let mut source = jvm.open(&rig);
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0]);
    jvm.recording.write(1_000, 5, "db", 10);
    jvm.flush();
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0], "the period is not over");
    assert_eq!(total(&events(&mut rig, &mut *source, 10)), 10.0);
    jvm.recording.write(13_000, 200, "db", 20);
    jvm.flush();
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0], "log events wait, too");
    let all = events(&mut rig, &mut *source, 10);
    assert_eq!((total(&all), logs(&all).len()), (20.0, 1));
    jvm.recording.write(14_000, 1, "db", 30);
    jvm.complete();
    assert_eq!(total(&events(&mut rig, &mut *source, 2)), 30.0, "nothing more will come");
}

#[test]
fn a_restart_in_mid_chunk_loses_and_repeats_nothing() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 200, "db", 1);
    jvm.flush();
    let mut source = jvm.open(&rig);
    assert_eq!(total(&events(&mut rig, &mut *source, 1)), 1.0);
    rig.commit();
    jvm.recording.write(2_000, 5, "db", 2);
    jvm.flush();
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0], "it is awaited until the period ends");
    drop(source);
    jvm.recording.write(3_000, 300, "db", 4);
    jvm.flush();
    let mut rig = rig.restart();
    let mut source = jvm.open(&rig);
    let all = events(&mut rig, &mut *source, 1);
    assert_eq!(total(&all), 6.0);
    assert!(
        all.iter().all(|event| !event.contains('{') || event.contains("\"service.name\":\"shop\""))
    );
    rig.commit();
    drop(source);
    let mut rig = rig.restart();
    let mut source = jvm.open(&rig);
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0]);
}

#[test]
fn a_chunk_is_read_once_in_all_of_its_copies() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    jvm.complete();
    // A dump contains the chunks of the repository, one after another.
    let mut next = FlightRecording::begin(START_NS + 1, 7, "shop");
    next.write(1_000, 5, "db", 2);
    let dump = [jvm.recording.complete(), next.complete()].concat();
    fs::write(jvm.path("b.jfr"), dump).unwrap();
    let mut source = jvm.open(&rig);
    let all = events(&mut rig, &mut *source, 5);
    assert!(total(&all) == 3.0, "{all:?}");
    rig.commit();
    fs::rename(jvm.path("b.jfr"), jvm.path("c.jfr")).unwrap();
    let mut rig = rig.restart();
    let mut source = jvm.open(&rig);
    assert_eq!(events(&mut rig, &mut *source, 5), [""; 0]);
}

#[test]
fn a_recording_that_is_being_copied_is_waited_for() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    let whole = jvm.recording.complete().to_vec();
    let mut source = jvm.open(&rig);
    for len in [10, 68, whole.len() / 2, whole.len() - 1] {
        fs::write(jvm.path("a.jfr"), &whole[..len]).unwrap();
        assert_eq!(events(&mut rig, &mut *source, 2), [""; 0], "{len} bytes");
    }
    fs::write(jvm.path("a.jfr"), &whole).unwrap();
    assert_eq!(total(&events(&mut rig, &mut *source, 2)), 1.0);
    assert_eq!(rig.counters.snapshot().errors.len(), 0);
}

#[test]
fn a_stale_copy_hides_no_growing_recording() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    // The name of the outdated copy sorts first.
    let early = jvm.recording.flush().to_vec();
    fs::write(jvm.path("a.jfr"), &early).unwrap();
    fs::write(jvm.path("b.jfr"), &early).unwrap();
    let mut source = jvm.open(&rig);
    assert_eq!(total(&events(&mut rig, &mut *source, 2)), 1.0);
    jvm.recording.write(2_000, 5, "db", 2);
    fs::write(jvm.path("b.jfr"), jvm.recording.complete()).unwrap();
    fs::remove_file(jvm.path("b.jfr")).unwrap();
    assert_eq!(total(&events(&mut rig, &mut *source, 90)), 2.0);
}

#[test]
fn a_copy_that_grows_later_repeats_nothing() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    let early = jvm.recording.flush().to_vec();
    fs::write(jvm.path("a.jfr"), &early).unwrap();
    fs::write(jvm.path("b.jfr"), &early).unwrap();
    let mut source = jvm.open(&rig);
    assert_eq!(total(&events(&mut rig, &mut *source, 2)), 1.0);
    jvm.recording.write(2_000, 5, "db", 2);
    jvm.complete();
    assert_eq!(total(&events(&mut rig, &mut *source, 15)), 2.0);
    fs::copy(jvm.path("a.jfr"), jvm.path("b.jfr")).unwrap();
    assert_eq!(total(&events(&mut rig, &mut *source, 90)), 0.0);
}

#[test]
fn a_cut_last_chunk_is_waited_for_and_ends_with_until_eof() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    jvm.flush();
    // A JVM wrote more data after its last flush and was then killed.
    let cut = [jvm.recording.flush(), b"\x20\x64\x00\x00"].concat();
    fs::write(jvm.path("a.jfr"), cut).unwrap();
    rig.until_eof = true;
    let mut source = jvm.open(&rig);
    assert_eq!(total(&events(&mut rig, &mut *source, 1)), 1.0);
    assert!(matches!(rig.poll(&mut *source), Polled::Ended));
    assert_eq!(rig.counters.snapshot().errors.len(), 0);
}

#[test]
fn a_damaged_chunk_is_counted_and_the_next_one_is_read() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    jvm.flush();
    let good = jvm.recording.flush().len();
    jvm.recording.write(2_000, 5, "db", 2);
    let mut bytes = jvm.recording.complete().to_vec();
    bytes[good..good + 4].fill(0);
    let mut next = FlightRecording::begin(START_NS + 1, 7, "shop");
    next.write(1_000, 5, "db", 4);
    fs::write(jvm.path("a.jfr"), [&bytes, next.complete()].concat()).unwrap();
    let mut source = jvm.open(&rig);
    assert_eq!(total(&events(&mut rig, &mut *source, 2)), 5.0);
    let errors = rig.counters.snapshot().errors;
    assert_eq!(errors.get("corrupt"), Some(&1), "{errors:?}");
    assert!(rig.ledger.is_idle());
}

#[test]
fn what_is_no_recording_is_reported_once() {
    let (jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    fs::write(jvm.path("a.jfr"), "not a recording, however long it is".repeat(10)).unwrap();
    fs::write(jvm.path("b.jfr"), "FL").unwrap();
    let mut source = jvm.open(&rig);
    assert_eq!(events(&mut rig, &mut *source, 5), [""; 0]);
    assert_eq!(rig.counters.snapshot().errors.get("not_a_recording"), Some(&1));
    let unreadable = rig.unreadable.list();
    let reason = &unreadable[&jvm.path("a.jfr").display().to_string()];
    assert!(reason.contains("not a flight recording"), "{unreadable:?}");
}

#[test]
fn a_deleted_recording_is_read_to_its_end() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    jvm.flush();
    let mut source = jvm.open(&rig);
    assert_eq!(total(&events(&mut rig, &mut *source, 1)), 1.0);
    jvm.recording.write(2_000, 5, "db", 2);
    jvm.flush();
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0], "the period is not over");
    jvm.complete();
    fs::remove_file(jvm.path("a.jfr")).unwrap();
    assert!(source.close(true), "the next start could not read it");
    assert_eq!(total(&events(&mut rig, &mut *source, 2)), 2.0);
    assert!(matches!(rig.poll(&mut *source), Polled::Ended));
    let left = source.leave().unwrap();
    assert_eq!((left.lost.bytes, left.waiting.bytes), (0, 0));
}

#[test]
fn a_recording_deleted_after_the_close_is_counted_as_lost() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    jvm.flush();
    let mut source = jvm.open(&rig);
    assert_eq!(total(&events(&mut rig, &mut *source, 1)), 1.0);
    jvm.recording.write(2_000, 5, "db", 2);
    jvm.flush();
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0], "the period is not over");
    assert!(!source.close(true), "the next start can read it");
    fs::remove_file(jvm.path("a.jfr")).unwrap();
    let left = source.leave().unwrap();
    assert!(left.lost.bytes > 0);
    let counted = rig.counters.snapshot();
    assert_eq!(counted.dropped_bytes, [("deleted_undelivered", left.lost.bytes)].into());
    assert_eq!(counted.errors.get("deleted_undelivered"), Some(&1));
}

#[test]
fn a_blocked_sink_delays_no_other_and_catches_up() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["good", "slow"]));
    jvm.recording.write(1_000, 5, "db", 1);
    jvm.complete();
    let mut source = jvm.open(&rig);
    let slow = SinkSet::one(rig.sinks[1].0);
    rig.ready = SinkSet::one(rig.sinks[0].0);
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0], "it is not blocked for long yet");
    rig.blocked = slow;
    assert_eq!(total(&events(&mut rig, &mut *source, 1)), 1.0);
    rig.ready = slow;
    rig.blocked = SinkSet::EMPTY;
    assert_eq!(total(&events(&mut rig, &mut *source, 1)), 1.0);
    assert!(rig.ledger.is_idle());
}

#[test]
fn an_abandoned_range_is_read_again() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 200, "db", 1);
    jvm.complete();
    let mut source = jvm.open(&rig);
    let mut batches = Vec::new();
    while batches.is_empty() {
        if let Polled::Batch(batch, _) = rig.poll(&mut *source) {
            batches.push(texts(&batch));
            // The batch is dropped unsettled.
        }
    }
    let again = events(&mut rig, &mut *source, 1);
    assert_eq!(again, batches[0]);
    assert!(rig.ledger.is_idle());
}

#[test]
fn ten_thousand_remotes_make_a_hundred_series() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    for n in 0..10_000 {
        jvm.recording.write(1_000, 5, &format!("host{n}"), 1);
    }
    jvm.complete();
    let mut source = jvm.open(&rig);
    let all = events(&mut rig, &mut *source, 1);
    let sums = bytes_written(&all);
    assert_eq!(sums.len(), 101);
    let other = sums.iter().find(|(tags, _)| tags.contains("\"other\"")).unwrap();
    assert_eq!((*other.1, sums.values().sum::<f64>()), (9_900.0, 10_000.0));
}

#[test]
fn what_exists_at_the_first_start_can_be_skipped() {
    let (mut jvm, mut rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording.write(1_000, 5, "db", 1);
    jvm.flush();
    let mut source = jvm.open_with(&rig, json!({ "read_from": "end", "log_threshold": "off" }));
    assert_eq!(events(&mut rig, &mut *source, 1), [""; 0]);
    jvm.recording.write(2_000, 500, "db", 2);
    jvm.complete();
    let all = events(&mut rig, &mut *source, 1);
    assert_eq!((total(&all), logs(&all).len()), (2.0, 0));
}

#[test]
fn a_call_that_began_before_its_chunk_has_its_time() {
    let (mut jvm, rig) = (Jvm::start(), SourceRig::new(&["out"]));
    jvm.recording = FlightRecording::begin_at(START_NS, 1_000_000_000, 7, "shop");
    jvm.recording.write(800, 300, "db", 1);
    jvm.complete();
    let mut source = jvm.open(&rig);
    let mut times = Vec::new();
    while times.is_empty() {
        if let Polled::Batch(batch, _) = rig.poll(&mut *source) {
            times.push(batch.event_ns(0));
        }
    }
    assert_eq!(times, [START_NS as i64 - 200_000_000]);
}

#[test]
fn options_are_checked() {
    let error = |options: serde_json::Value| {
        let config: JfrConfig = serde_json::from_value(options).unwrap();
        config.check().remove(0)
    };
    assert_eq!(error(json!({ "include": ["relative.jfr"] })).pointer, "/include/0");
    let bad = error(json!({ "include": ["/a.jfr"], "period": "1500ms" }));
    assert_eq!(bad.pointer, "/period");
    let config: JfrConfig = serde_json::from_value(json!({ "include": ["/a/*.jfr"] })).unwrap();
    assert!(config.reads(Path::new("/a/b.jfr")) && !config.reads(Path::new("/b.jfr")));
}
