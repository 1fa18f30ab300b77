//! What `dedupe` lets pass.

use super::*;
use crate::registry::{Component, TransformComponent};
use millstream_model::{Grant, Ledger, Transform};
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
    let Transform::Serial(serial) = config.build().unwrap() else { panic!("not serial") };
    serial
}

fn at(serial: &mut dyn Serial, seconds: u64, batch: Batch) -> (Vec<usize>, u64) {
    let mut out = Outputs::default();
    serial
        .apply(Now { since_start: Duration::from_secs(seconds), unix_ns: 0 }, batch, &mut out)
        .unwrap();
    let [(0, batch)] = &out.batches[..] else { panic!("one batch at the main output") };
    let rows = (0..batch.rows()).filter(|row| batch.is_selected(*row)).collect();
    (rows, out.counters.snapshot().dropped_events.get("duplicate").copied().unwrap_or(0))
}

#[test]
fn what_came_within_the_window_is_dropped_and_counted() {
    let mut dedupe = dedupe(json!({ "window": "10s" }));
    assert_eq!(at(&mut *dedupe, 0, of(&[("a", "x\ny\nx\n"), ("b", "y\nz\n")])), (vec![0, 1, 4], 2));
    assert_eq!(at(&mut *dedupe, 9, of(&[("c", ""), ("d", "x\n")])).0, [0; 0]);
    assert_eq!(at(&mut *dedupe, 10, of(&[("c", ""), ("d", "x\n")])).0, [0]);
}

/// A range that is read again has the ids it had: it passes as it did.
#[test]
fn an_event_is_no_repetition_of_itself() {
    let mut dedupe = dedupe(json!({}));
    let batch = of(&[("a", "x\ny\nx\n")]);
    assert_eq!(at(&mut *dedupe, 0, batch.clone()).0, [0, 1]);
    assert_eq!(at(&mut *dedupe, 5, batch.clone()).0, [0, 1]);
    let mut last = batch;
    last.select_range(2, 3);
    assert_eq!(at(&mut *dedupe, 6, last).0, [0; 0]);
}

#[test]
fn a_key_says_what_is_the_same() {
    let mut dedupe = dedupe(json!({ "key": "{{ file }}" }));
    assert_eq!(at(&mut *dedupe, 0, of(&[("a", "1\n2\n"), ("b", "3\n")])).0, [0, 2]);
}

#[test]
fn the_oldest_is_forgotten_when_there_are_too_many() {
    let mut dedupe = dedupe(json!({ "keys_max": 2, "window": "1h" }));
    assert_eq!(at(&mut *dedupe, 0, of(&[("a", "1\n2\n3\n2\n1\n")])).0, [0, 1, 2, 4]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let config: DedupeConfig = serde_json::from_value(json!({ "keys_max": 0 })).unwrap();
    assert_eq!(config.check()[0].0, "/keys_max");
}
