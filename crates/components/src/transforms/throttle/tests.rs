//! Events that `throttle` passes.

use super::*;
use crate::component::{BuildCx, Component, TransformComponent};
use millstream_model::{EngineTime, Grant, Ledger, Transform};
use millstream_testkit::{Rows, batch};
use serde_json::{Value, json};

fn of(text: &str) -> Batch {
    let rows = [Rows { name: "/a.log", text: text.as_bytes() }];
    batch(&rows, 1000, &Grant::new(1 << 30), &Ledger::new())
}

fn throttle(options: Value) -> Box<dyn Serial> {
    let config: ThrottleConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.check(), []);
    let Transform::Serial(serial) = config.build(&BuildCx::default()).unwrap() else {
        panic!("not serial")
    };
    serial
}

/// Returns the rows that pass, the number dropped, and the pause.
fn at(serial: &mut dyn Serial, ms: u64, text: &str) -> (Vec<usize>, u64, Option<Duration>) {
    let mut out = Outputs::default();
    let now = Now { since_start: EngineTime::at(Duration::from_millis(ms)), unix_ns: 0 };
    serial.apply(now, of(text), &mut out).unwrap();
    let [(0, batch)] = &out.batches[..] else { panic!("one batch at the main output") };
    let rows = (0..batch.rows()).filter(|row| batch.is_selected(*row)).collect();
    (rows, out.counters.snapshot().dropped_events.get("throttled").copied().unwrap_or(0), out.pause)
}

#[test]
fn excess_events_are_dropped_and_counted() {
    let mut throttle = throttle(json!({ "events": 3, "window": "3s" }));
    assert_eq!(at(&mut *throttle, 0, "1\n2\n3\n4\n5\n"), (vec![0, 1, 2], 2, None));
    assert_eq!(at(&mut *throttle, 500, "1\n").0, [0; 0]);
    // After one share of the window, one event may pass.
    assert_eq!(at(&mut *throttle, 1000, "1\n2\n").0, [0]);
    assert_eq!(at(&mut *throttle, 60_000, "1\n2\n3\n4\n").0, [0, 1, 2]);
}

#[test]
fn each_key_has_its_own_window() {
    let mut throttle = throttle(json!({ "events": 1, "window": "1m", "key": "{{ message }}" }));
    assert_eq!(at(&mut *throttle, 0, "a\nb\na\nc\nb\n").0, [0, 1, 3]);
    assert_eq!(at(&mut *throttle, 60_000, "a\na\n").0, [0]);
}

/// Keys beyond the limit share a window; expired keys are evicted.
#[test]
fn keys_are_bounded() {
    let mut throttle =
        throttle(json!({ "events": 1, "window": "1s", "key": "{{ message }}", "keys_max": 2 }));
    assert_eq!(at(&mut *throttle, 0, "a\nb\nc\nd\na\n").0, [0, 1, 2]);
    assert_eq!(at(&mut *throttle, 2000, "c\nd\ne\n").0, [0, 1, 2]);
}

#[test]
fn a_source_is_slowed_and_nothing_dropped() {
    let mut throttle = throttle(json!({ "events": 2, "window": "2s", "on_excess": "slow" }));
    assert_eq!(at(&mut *throttle, 0, "1\n2\n"), (vec![0, 1], 0, None));
    let ahead = Some(Duration::from_secs(3));
    assert_eq!(at(&mut *throttle, 0, "1\n2\n3\n"), (vec![0, 1, 2], 0, ahead));
    assert_eq!(at(&mut *throttle, 3000, "").2, None);
}

#[test]
fn invalid_options_are_rejected() {
    for (options, pointer) in [
        (json!({ "events": 0 }), "/events"),
        (json!({ "events": 1, "keys_max": 0 }), "/keys_max"),
        (json!({ "events": 1, "key": "x", "on_excess": "slow" }), "/on_excess"),
    ] {
        let config: ThrottleConfig = serde_json::from_value(options).unwrap();
        assert_eq!(config.check()[0].pointer, pointer);
    }
}
