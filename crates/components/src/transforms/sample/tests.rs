//! Events that `sample` keeps.

use super::*;
use crate::component::{BuildCx, Component, TransformComponent};
use millstream_model::{Counters, Grant, Ledger, Transform};
use millstream_testkit::{Rows, batch};
use serde_json::{Value, json};
use std::sync::Arc;

fn of(text: &str) -> Batch {
    let rows = [Rows { name: "/a.log", text: text.as_bytes() }];
    batch(&rows, 1000, &Grant::new(1 << 30), &Ledger::new())
}

fn kept(options: Value, batch: Batch) -> (Vec<usize>, Arc<Counters>) {
    let config: SampleConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.check(), []);
    let Transform::Map(make) = config.build(&BuildCx::default()).unwrap() else { panic!("no map") };
    let mut out = Outputs::default();
    make().apply(batch, &mut out).unwrap();
    let [(0, batch)] = &out.batches[..] else { panic!("one batch at the main output") };
    ((0..batch.rows()).filter(|row| batch.is_selected(*row)).collect(), out.counters)
}

fn lines(count: usize) -> String {
    (0..count).map(|n| format!("{n}\n")).collect()
}

#[test]
fn about_one_in_n_is_kept_and_the_choice_repeats() {
    let (rows, counters) = kept(json!({ "one_in": 10 }), of(&lines(10_000)));
    assert!((850..1150).contains(&rows.len()), "{}", rows.len());
    assert_eq!(counters.snapshot().dropped_events["sampled"], 10_000 - rows.len() as u64);
    assert_eq!(kept(json!({ "one_in": 10 }), of(&lines(10_000))).0, rows);
    // The result does not depend on how rows are divided into batches.
    let mut second = of(&lines(10_000));
    second.select_range(5000, 10_000);
    let of_second: Vec<usize> = rows.into_iter().filter(|row| *row >= 5000).collect();
    assert_eq!(kept(json!({ "one_in": 10 }), second).0, of_second);
    assert_eq!(kept(json!({ "one_in": 1 }), of(&lines(100))).0.len(), 100);
}

#[test]
fn events_of_a_key_stay_together() {
    let text: String = (0..4000).map(|n| format!("user{}\n", n % 40)).collect();
    let (rows, _) = kept(json!({ "one_in": 4, "key": "{{ message }}" }), of(&text));
    assert!(!rows.is_empty() && rows.len() < 4000);
    let users: std::collections::BTreeSet<usize> = rows.iter().map(|row| row % 40).collect();
    assert_eq!(rows.len(), users.len() * 100, "all of a user or none");
}

#[test]
fn one_in_zero_is_rejected() {
    let config: SampleConfig = serde_json::from_value(json!({ "one_in": 0 })).unwrap();
    assert_eq!(config.check()[0].pointer, "/one_in");
}
