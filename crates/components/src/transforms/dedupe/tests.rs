//! Events that `dedupe` passes and drops.

use super::*;
use crate::component::{BuildCx, Component, TransformComponent};
use millstream_model::{EngineTime, Grant, Ledger, Transform};
use millstream_testkit::{Rows, batch};
use serde_json::{Value, json};

fn of(parts: &[(&str, &str)]) -> Batch {
    let rows: Vec<Rows<'_>> =
        parts.iter().map(|(name, text)| Rows { name, text: text.as_bytes() }).collect();
    batch(&rows, 1000, &Grant::new(1 << 30), &Ledger::new())
}

fn dedupe(options: Value) -> Box<dyn Serial> {
    let config: DedupeConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.check(), []);
    let Transform::Serial(serial) = config.build(&BuildCx::default()).unwrap() else {
        panic!("not serial")
    };
    serial
}

fn at(serial: &mut dyn Serial, seconds: u64, batch: Batch) -> (Vec<usize>, u64) {
    let mut out = Outputs::default();
    serial
        .apply(
            Now { since_start: EngineTime::at(Duration::from_secs(seconds)), unix_ns: 0 },
            batch,
            &mut out,
        )
        .unwrap();
    let [(0, batch)] = &out.batches[..] else { panic!("one batch at the main output") };
    let rows = (0..batch.rows()).filter(|row| batch.is_selected(*row)).collect();
    (rows, out.counters.snapshot().dropped_events.get("duplicate").copied().unwrap_or(0))
}

#[test]
fn duplicates_within_the_window_are_dropped_and_counted() {
    let mut dedupe = dedupe(json!({ "window": "10s" }));
    assert_eq!(at(&mut *dedupe, 0, of(&[("a", "x\ny\nx\n"), ("b", "y\nz\n")])), (vec![0, 1, 4], 2));
    assert_eq!(at(&mut *dedupe, 9, of(&[("c", ""), ("d", "x\n")])).0, [0; 0]);
    assert_eq!(at(&mut *dedupe, 10, of(&[("c", ""), ("d", "x\n")])).0, [0]);
}

/// A range that is reread has the same ids, so it passes again.
#[test]
fn an_event_that_is_read_again_is_not_a_duplicate() {
    let mut dedupe = dedupe(json!({}));
    let batch = of(&[("a", "x\ny\nx\n")]);
    assert_eq!(at(&mut *dedupe, 0, batch.clone()).0, [0, 1]);
    assert_eq!(at(&mut *dedupe, 5, batch.clone()).0, [0, 1]);
    let mut last = batch;
    last.select_range(2, 3);
    assert_eq!(at(&mut *dedupe, 6, last).0, [0; 0]);
}

#[test]
fn events_with_the_same_key_are_duplicates() {
    let mut dedupe = dedupe(json!({ "key": "{{ file }}" }));
    assert_eq!(at(&mut *dedupe, 0, of(&[("a", "1\n2\n"), ("b", "3\n")])).0, [0, 2]);
}

#[test]
fn the_oldest_key_is_evicted_at_the_limit() {
    let mut dedupe = dedupe(json!({ "keys_max": 2, "window": "1h" }));
    assert_eq!(at(&mut *dedupe, 0, of(&[("a", "1\n2\n3\n2\n1\n")])).0, [0, 1, 2, 4]);
}

#[test]
fn invalid_options_are_rejected() {
    let config: DedupeConfig = serde_json::from_value(json!({ "keys_max": 0 })).unwrap();
    assert_eq!(config.check()[0].pointer, "/keys_max");
}
