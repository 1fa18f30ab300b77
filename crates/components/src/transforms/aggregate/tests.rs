//! Tests of the results of aggregates, including after restarts and damage.

use super::AggregateConfig;
use crate::component::Component;
use crate::transforms::windows::Emit;
use crate::transforms::windows::rig::{self, merge};
use millstream_model::Sink;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;

fn sink(options: Value) -> Arc<dyn Sink> {
    merge::<AggregateConfig>(&serde_json::from_value(options).unwrap())
}

/// Creates rigs for aggregates.
struct Rig;

impl Rig {
    #[expect(clippy::new_ret_no_self, reason = "the rig of all merge transforms, for this one")]
    fn new(options: Value) -> rig::Rig {
        rig::Rig::new(sink, options)
    }
}

fn all() -> Value {
    json!({
        "group_by": ["status"],
        "emit": {
            "n": "count()", "sized": "count(bytes)", "sum": "sum(bytes)", "min": "min(bytes)",
            "max": "max( bytes )", "avg": "avg(bytes)",
        },
    })
}

fn count() -> Value {
    json!({ "group_by": ["status"], "emit": { "n": "count()" } })
}

#[tokio::test]
async fn a_window_has_one_result_for_each_group_and_aggregate() {
    let mut rig = Rig::new(all());
    rig.add(&[("200", "10"), ("404", "-"), ("200", "2.5"), ("-", "many")]).await;
    rig.add(&[("200", "-4")]).await;
    rig.settle().await;
    assert_eq!(rig.results(), [""; 0], "the window is open");
    rig.advance(10);
    rig.settle().await;
    assert_eq!(
        rig.results(),
        [
            "0: web.n {\"status\":\"200\"} 3 counter delta 10 at 10",
            "1: web.sized {\"status\":\"200\"} 3 counter delta 10 at 10",
            "2: web.sum {\"status\":\"200\"} 8.5 counter delta 10 at 10",
            "3: web.min {\"status\":\"200\"} -4 gauge - 10 at 10",
            "4: web.max {\"status\":\"200\"} 10 gauge - 10 at 10",
            "5: web.avg {\"status\":\"200\"} 2.8333333333333335 gauge - 10 at 10",
            "6: web.n {\"status\":\"404\"} 1 counter delta 10 at 10",
            "7: web.sized {\"status\":\"404\"} 0 counter delta 10 at 10",
            "8: web.n {} 1 counter delta 10 at 10",
            "9: web.sized {} 0 counter delta 10 at 10",
        ]
    );
    let noted = rig.counters.snapshot().noted_events;
    assert_eq!((noted["not_a_number"], noted["missing_field"]), (1, 1));
}

#[tokio::test]
async fn events_after_the_end_of_a_window_are_in_the_next_one() {
    let mut rig = Rig::new(count());
    rig.add(&[("200", "1")]).await;
    rig.advance(12);
    rig.add(&[("200", "1"), ("200", "1")]).await;
    rig.advance(8);
    rig.settle().await;
    assert_eq!(
        rig.results(),
        [
            "0: web.n {\"status\":\"200\"} 1 counter delta 10 at 10",
            "1: web.n {\"status\":\"200\"} 2 counter delta 10 at 20",
        ]
    );
}

#[tokio::test]
async fn a_result_waits_for_the_commit_of_its_snapshot() {
    let mut rig = Rig::new(count());
    rig.add(&[("200", "1")]).await;
    rig.advance(10);
    rig.lane().tick();
    assert!(rig.lane().wants_sync());
    rig.sync().await;
    rig.lane().tick();
    assert_eq!(rig.results(), [""; 0], "a crash would take it back");
    rig.commit();
    rig.lane().tick();
    assert_eq!(rig.results().len(), 1);
}

#[tokio::test]
async fn a_crash_takes_back_what_was_not_committed() {
    let mut rig = Rig::new(count());
    rig.add(&[("200", "1"), ("500", "1")]).await;
    rig.sync().await;
    rig.commit();
    rig.add(&[("200", "1")]).await;
    rig.sync().await;
    // The events of the window are reread.
    rig.start(0);
    rig.add(&[("200", "1")]).await;
    rig.sync().await;
    rig.commit();
    rig.start(0);
    rig.add(&[("200", "1")]).await;
    rig.advance(10);
    rig.settle().await;
    assert_eq!(
        rig.results(),
        [
            "0: web.n {\"status\":\"200\"} 3 counter delta 10 at 10",
            "1: web.n {\"status\":\"500\"} 1 counter delta 10 at 10",
        ]
    );
}

#[tokio::test]
async fn results_stay_until_every_sink_has_them() {
    let mut rig = Rig::new(count());
    for _ in 0..3 {
        rig.add(&[("200", "1")]).await;
        rig.advance(10);
        rig.settle().await;
    }
    // The first result is settled, so it is not in the next snapshot.
    rig.feed.settle(1);
    rig.sync().await;
    rig.commit();
    rig.start(1);
    rig.lane().tick();
    let left = rig.results();
    assert_eq!(left.iter().map(|result| &result[..2]).collect::<Vec<_>>(), ["1:", "2:"]);
    rig.feed.settle(3);
    rig.sync().await;
    rig.commit();
    rig.start(3);
    rig.lane().tick();
    assert_eq!((rig.results(), rig.feed.first()), (vec![], Some(3)));
}

#[tokio::test]
async fn a_window_that_ended_while_the_agent_was_down_ends_at_the_start() {
    let mut rig = Rig::new(count());
    rig.add(&[("200", "1")]).await;
    rig.sync().await;
    rig.commit();
    rig.advance(3600);
    rig.start(0);
    rig.add(&[("200", "1")]).await;
    rig.settle().await;
    assert_eq!(rig.results(), ["0: web.n {\"status\":\"200\"} 1 counter delta 10 at 10"]);
}

#[tokio::test]
async fn a_window_ends_under_the_options_it_began_with() {
    let mut rig = Rig::new(count());
    rig.add(&[("200", "1"), ("404", "2")]).await;
    rig.sync().await;
    rig.commit();
    rig.options = json!({ "emit": { "bytes": "sum(bytes)" }, "window": "60s" });
    rig.start(0);
    rig.add(&[("200", "7")]).await;
    rig.advance(60);
    rig.settle().await;
    assert_eq!(
        rig.results(),
        [
            "0: web.n {\"status\":\"200\"} 1 counter delta 10 at 0",
            "1: web.n {\"status\":\"404\"} 1 counter delta 10 at 0",
            "2: web.bytes {} 7 counter delta 60 at 60",
        ]
    );
}

#[tokio::test]
async fn groups_beyond_the_limit_are_counted_together() {
    let mut options = count();
    options["groups_max"] = 2.into();
    let mut rig = Rig::new(options);
    rig.add(&[("1", "-"), ("2", "-")]).await;
    rig.add(&[("3", "-"), ("4", "-"), ("2", "-"), ("3", "-")]).await;
    rig.advance(10);
    rig.settle().await;
    assert_eq!(
        rig.results(),
        [
            "0: web.n {\"status\":\"1\"} 1 counter delta 10 at 10",
            "1: web.n {\"status\":\"2\"} 2 counter delta 10 at 10",
            "2: web.n {\"overflow\":\"true\"} 3 counter delta 10 at 10",
        ]
    );
    assert_eq!(rig.counters.snapshot().noted_events["overflow"], 3);
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_window() {
    let mut rig = Rig::new(count());
    rig.add(&[("200", "1")]).await;
    rig.feed.end_input();
    rig.lane().tick();
    assert!(!rig.feed.is_finished());
    rig.settle().await;
    assert!(rig.feed.is_finished());
    assert_eq!(rig.results().len(), 1);
}

#[tokio::test]
async fn a_segment_is_replaced_when_it_is_long_and_removed_after_the_commit() {
    let mut rig = Rig::new(count());
    let names: Vec<String> = (0..2000).map(|n| format!("{n:0>20}")).collect();
    let rows: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "-")).collect();
    let mut seen = Vec::new();
    for _ in 0..100 {
        rig.add(&rows).await;
        rig.sync().await;
        seen.push(rig.segments());
        rig.commit();
        rig.lane().tick();
        assert_eq!(rig.segments().len(), 1);
    }
    assert!(seen.contains(&vec!["1.segment".to_owned(), "2.segment".to_owned()]), "{seen:?}");
    rig.start(0);
    rig.advance(10);
    rig.settle().await;
    let results = rig.results();
    assert_eq!(results.len(), 2000);
    assert!(results.iter().all(|result| result.contains("\"} 100 counter")), "{}", results[0]);
}

#[tokio::test]
async fn a_damaged_segment_is_set_aside_and_its_numbers_stay_used() {
    let mut rig = Rig::new(count());
    rig.add(&[("200", "1")]).await;
    rig.advance(10);
    rig.settle().await;
    rig.add(&[("200", "1")]).await;
    rig.sync().await;
    rig.commit();
    let segment = rig.path().join("1.segment");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[20] ^= 1;
    fs::write(&segment, bytes).unwrap();
    rig.start(1);
    assert_eq!(rig.counters.snapshot().errors["snapshot"], 1);
    assert_eq!(rig.segments(), ["1.damaged"]);
    rig.add(&[("404", "1")]).await;
    rig.advance(10);
    rig.settle().await;
    assert_eq!(rig.results(), ["1: web.n {\"status\":\"404\"} 1 counter delta 10 at 20"]);
    assert_eq!(rig.segments(), ["1.damaged", "2.segment"]);
}

#[tokio::test]
async fn a_failed_write_is_tried_again() {
    let mut rig = Rig::new(count());
    rig.add(&[("200", "1")]).await;
    fs::write(rig.path(), "in the way").unwrap();
    let error = rig.lane().sync().await.unwrap_err();
    assert!(error.retry && error.to_string().starts_with("cannot write the snapshot: "), "{error}");
    fs::remove_file(rig.path()).unwrap();
    rig.sync().await;
    rig.commit();
    rig.start(0);
    rig.advance(10);
    rig.settle().await;
    assert_eq!(rig.results(), ["0: web.n {\"status\":\"200\"} 1 counter delta 10 at 10"]);
}

#[test]
fn invalid_options_are_rejected() {
    for (options, pointer) in [
        (json!({ "emit": {} }), "/emit"),
        (json!({ "emit": { "a.b": "count()" } }), "/emit/a.b"),
        (json!({ "emit": { "n": "count()" }, "window": "500ms" }), "/window"),
        (json!({ "emit": { "n": "count()" }, "window": "25h" }), "/window"),
        (json!({ "emit": { "n": "count()" }, "group_by": ["a", "a"] }), "/group_by/1"),
        (json!({ "emit": { "n": "count()" }, "group_by": ["{{ a }}"] }), "/group_by/0"),
        (json!({ "emit": { "n": "count()" }, "group_by": ["overflow"] }), "/group_by/0"),
        (
            json!({ "emit": { "n": "count()" }, "group_by": (0..17).map(|n| n.to_string()).collect::<Vec<_>>() }),
            "/group_by",
        ),
        (json!({ "emit": { "n": "count()" }, "groups_max": 0 }), "/groups_max"),
        (json!({ "emit": { "n": "count()" }, "groups_max": 1_000_001 }), "/groups_max"),
    ] {
        let config: AggregateConfig = serde_json::from_value(options).unwrap();
        assert_eq!(config.check()[0].pointer, pointer);
    }
}

#[test]
fn an_aggregate_is_a_function_of_a_field() {
    for text in ["count()", "count(a)", "sum(a.b)", "min(x)", "max(x)", "avg(x)"] {
        assert_eq!(text.parse::<Emit>().unwrap().to_string(), text);
    }
    for (text, what) in [
        ("count", "`count` is not an aggregate"),
        ("sum()", "`sum()` names no field"),
        ("count(*)", "`*` is not a field"),
        ("sum(a >= 5)", "`a >= 5` is not a field"),
        ("median(x)", "`median` is not an aggregate"),
    ] {
        let error = text.parse::<Emit>().unwrap_err();
        assert!(error.starts_with(what) && error.contains("; use count()"), "{error}");
    }
}
