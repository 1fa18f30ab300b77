//! Outputs that `route` sends events to.

use super::*;
use crate::component::{BuildCx, Component, TransformComponent};
use millstream_model::{Grant, Ledger, Transform};
use millstream_testkit::{Rows, batch};
use serde_json::{Value, json};

fn outputs(options: Value, text: &str) -> Outputs {
    let config: RouteConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.check(), []);
    let Transform::Map(make) = config.build(&BuildCx::default()).unwrap() else { panic!("no map") };
    let rows = [Rows { name: "/a.log", text: text.as_bytes() }];
    let mut out = Outputs::default();
    make().apply(batch(&rows, 1000, &Grant::new(1 << 30), &Ledger::new()), &mut out).unwrap();
    out
}

/// Returns the rows at each output.
fn routed(options: Value, text: &str) -> Vec<(usize, Vec<usize>)> {
    let out = outputs(options, text);
    let rows = |batch: &Batch| (0..batch.rows()).filter(|row| batch.is_selected(*row)).collect();
    out.batches.iter().map(|(output, batch)| (*output, rows(batch))).collect()
}

const LINES: &str = "error disk\nwarning disk\ninfo\nerror net\n";

#[test]
fn an_event_goes_to_every_matching_output_or_to_the_main_output() {
    let routes = json!({ "z": "message.startsWith('error')", "a": "message.contains('disk')" });
    let expected = [(1, vec![0, 3]), (2, vec![0, 1]), (0, vec![2])];
    assert_eq!(routed(json!({ "routes": routes }), LINES), expected);
}

#[test]
fn an_event_goes_to_the_first_matching_output_if_configured() {
    let routes = json!({ "z": "message.startsWith('error')", "a": "message.contains('disk')" });
    let expected = [(1, vec![0, 3]), (2, vec![1]), (0, vec![2])];
    assert_eq!(routed(json!({ "routes": routes, "match": "first" }), LINES), expected);
    let all = json!({ "all": "true" });
    assert_eq!(routed(json!({ "routes": all, "match": "first" }), LINES), [(1, vec![0, 1, 2, 3])]);
}

#[test]
fn outputs_have_the_names_and_order_of_the_routes() {
    let options = json!({ "routes": { "z": "true", "a": "false" } });
    let config: RouteConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.outputs(), ["z", "a"]);
    for (routes, pointer) in [(json!({}), "/routes"), (json!({ "a.b": "true" }), "/routes/a.b")] {
        let config: RouteConfig = serde_json::from_value(json!({ "routes": routes })).unwrap();
        assert_eq!(config.check()[0].pointer, pointer);
    }
}

#[test]
fn events_that_no_condition_has_a_result_for_are_counted() {
    let noted = |routes: Value, matching: &str| {
        let out = outputs(json!({ "routes": routes, "match": matching }), LINES);
        out.counters.snapshot().noted_events.get("no_result").copied().unwrap_or(0)
    };
    for matching in ["all", "first"] {
        assert_eq!(noted(json!({ "a": "event.a == 'x'", "b": "event.b == 'x'" }), matching), 4);
        let one_has = json!({ "a": "event.a == 'x'", "b": "message.startsWith('error')" });
        assert_eq!(noted(one_has, matching), 0, "{matching}");
    }
}
