//! Tests of tasks, their windows, and their limits.

use super::RulesConfig;
use crate::component::Component;
use crate::transforms::windows::rig::{BEGIN_NS, Rig, events, merge};
use arrow_buffer::ScalarBuffer;
use millstream_model::{Batch, Pressure, Sink};
use serde_json::{Value, json};
use std::sync::Arc;

fn sink(options: Value) -> Arc<dyn Sink> {
    merge::<RulesConfig>(&serde_json::from_value(options).unwrap())
}

/// Returns a lane of tasks over the fields `status` and `bytes`.
fn rig(tasks: Value) -> Rig {
    Rig::new(sink, json!({ "tasks": tasks }))
}

/// Returns events with times in seconds since the start.
fn timed(rows: &[(&str, &str, i64)]) -> Batch {
    let fields: Vec<(&str, &str)> =
        rows.iter().map(|(status, bytes, _)| (*status, *bytes)).collect();
    let mut batch = events(&fields);
    let times: ScalarBuffer<i64> =
        rows.iter().map(|(_, _, seconds)| BEGIN_NS + seconds * 1_000_000_000).collect();
    batch.time = Some(times);
    batch
}

/// Returns the results without their sequence numbers.
fn results(rig: &Rig) -> Vec<String> {
    let text = |result: &String| result.split_once(": ").unwrap().1.to_owned();
    rig.results().iter().map(text).collect()
}

fn logged(window: &str, lateness: &str) -> Value {
    json!([{
        "name": "t", "group_by": ["status"], "emit": { "n": "count()" },
        "window": window, "time": "log", "lateness": lateness,
    }])
}

#[tokio::test]
async fn each_task_has_its_results() {
    let mut rig = rig(json!([
        { "name": "ok", "where": "status == '200'", "emit": { "n": "count()", "per": "rate()" }, "window": "10s" },
        { "name": "all", "emit": { "top": "top(status, 1)", "kinds": "distinct(status)" }, "window": "10s" },
        {
            "name": "big", "fields": { "size": { "field": "bytes", "type": "int" } },
            "where": "size > 5", "group_by": ["size"],
            "emit": { "p50": "quantile(size, 0.5)", "last": "last(size)" }, "window": "10s",
        },
    ]));
    rig.add(&[("200", "9"), ("404", "1"), ("200", "x"), ("200", "9")]).await;
    rig.advance(10);
    rig.settle().await;
    assert_eq!(
        results(&rig),
        [
            "ok.n {} 3 counter delta 10 at 10",
            "ok.per {} 0.3 gauge - 10 at 10",
            "all.top {\"status\":\"200\"} 3 counter delta 10 at 10",
            "all.kinds {} 2 gauge - 10 at 10",
            "big.p50 {\"size\":\"9\"} 9 gauge - 10 at 10",
            "big.last {\"size\":\"9\"} 9 gauge - 10 at 10",
        ]
    );
}

#[tokio::test]
async fn a_window_by_log_time_ends_when_its_origins_have_passed_it() {
    let mut rig = rig(logged("10s", "5s"));
    rig.add_batch(&timed(&[("a", "-", 1), ("a", "-", 12), ("b", "-", 9)])).await;
    rig.settle().await;
    assert_eq!(results(&rig), [""; 0], "the origin has passed the end, not the lateness");
    rig.add_batch(&timed(&[("a", "-", 3), ("a", "-", 15)])).await;
    rig.settle().await;
    assert_eq!(
        results(&rig),
        [
            "t.n {\"status\":\"a\"} 2 counter delta 10 at 10",
            "t.n {\"status\":\"b\"} 1 counter delta 10 at 10",
        ]
    );
}

#[tokio::test]
async fn a_quiet_window_by_log_time_ends_by_the_clock() {
    let mut rig = rig(logged("10s", "5s"));
    rig.add_batch(&timed(&[("a", "-", 9)])).await;
    rig.advance(14);
    rig.settle().await;
    assert_eq!(results(&rig), [""; 0]);
    rig.advance(1);
    rig.settle().await;
    assert_eq!(results(&rig), ["t.n {\"status\":\"a\"} 1 counter delta 10 at 10"]);
}

#[tokio::test]
async fn late_events_are_another_result_of_their_window() {
    let mut rig = rig(logged("10s", "1s"));
    rig.add_batch(&timed(&[("a", "-", 1), ("a", "-", 30)])).await;
    rig.settle().await;
    rig.add_batch(&timed(&[("a", "-", 2), ("a", "-", -1_000_000)])).await;
    rig.advance(60);
    rig.settle().await;
    assert_eq!(
        results(&rig),
        [
            "t.n {\"status\":\"a\"} 1 counter delta 10 at 10",
            "t.n {\"status\":\"a\"} 1 counter delta 10 at -999990",
            "t.n {\"status\":\"a\"} 1 counter delta 10 at 10",
            "t.n {\"status\":\"a\"} 1 counter delta 10 at 40",
        ]
    );
    assert_eq!(rig.counters.snapshot().noted_events["late_event"], 2);
}

#[tokio::test]
async fn times_that_are_far_off_have_a_window() {
    let mut rig = rig(logged("1s", "1s"));
    let mut batch = events(&[("a", "-"), ("b", "-")]);
    batch.time = Some(ScalarBuffer::from(vec![i64::MIN + 1, i64::MAX]));
    rig.add_batch(&batch).await;
    rig.feed.end_input();
    rig.settle().await;
    assert_eq!(results(&rig).len(), 2);
}

#[tokio::test]
async fn windows_of_unchanged_tasks_continue_when_others_change() {
    let task =
        |name: &str, emit: &str| json!({ "name": name, "emit": { "n": emit }, "window": "10s" });
    let mut rig =
        rig(json!([task("kept", "count()"), task("changed", "count()"), task("gone", "count()")]));
    rig.add(&[("200", "7")]).await;
    rig.sync().await;
    rig.commit();
    rig.options = json!({ "tasks": [task("new", "count()"), task("changed", "sum(bytes)"), task("kept", "count()")] });
    rig.start(0);
    rig.settle().await;
    assert_eq!(
        results(&rig),
        ["changed.n {} 1 counter delta 10 at 0", "gone.n {} 1 counter delta 10 at 0"],
        "these get no more events"
    );
    rig.add(&[("200", "5")]).await;
    rig.advance(10);
    rig.settle().await;
    assert_eq!(
        results(&rig)[2..],
        [
            "kept.n {} 2 counter delta 10 at 10",
            "new.n {} 1 counter delta 10 at 10",
            "changed.n {} 5 counter delta 10 at 10",
        ]
    );
}

#[tokio::test]
async fn results_of_a_large_window_come_in_parts_and_once() {
    let mut rig = rig(json!([{
        "name": "t", "group_by": ["status"], "emit": { "n": "count()" }, "window": "10s",
    }]));
    let names: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let rows: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "-")).collect();
    rig.add(&rows).await;
    rig.advance(10);
    rig.lane().tick();
    rig.sync().await;
    rig.commit();
    rig.lane().tick();
    let first = results(&rig).len();
    assert!((1..5000).contains(&first), "{first}");
    rig.start(0);
    while results(&rig).len() < 5000 {
        rig.settle().await;
    }
    let mut all = results(&rig);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5000, "each group once");
}

#[tokio::test]
async fn windows_of_any_number_of_times_end_early_when_memory_is_short() {
    let mut rig = Rig::new(sink, json!({ "tasks": logged("1s", "1h"), "memory": "1MiB" }));
    let mut second = 0;
    for _ in 0..10 {
        let rows: Vec<(&str, &str, i64)> = (0..1000)
            .map(|_| {
                second += 1;
                ("a", "-", second)
            })
            .collect();
        rig.add_batch(&timed(&rows)).await;
    }
    rig.settle().await;
    let early = rig.results().len();
    assert!((1..10_000).contains(&early), "{early}");
    assert_eq!(rig.counters.snapshot().noted_events["early_window"], early as u64);
    rig.feed.end_input();
    assert_eq!(all_results(&mut rig).await.len(), 10_000, "each window has its event once");
}

#[tokio::test]
async fn results_wait_while_no_sink_settles_them() {
    let task = json!({
        "name": "t", "group_by": ["status"], "emit": { "n": "count()" },
        "window": "10s", "groups_max": 100_000,
    });
    let mut rig = Rig::new(sink, json!({ "tasks": [task], "memory": "5MiB" }));
    let names: Vec<String> = (0..30_000).map(|n| n.to_string()).collect();
    for part in names.chunks(1000) {
        let rows: Vec<(&str, &str)> = part.iter().map(|name| (name.as_str(), "-")).collect();
        rig.add(&rows).await;
    }
    rig.feed.end_input();
    rig.settle().await;
    rig.settle().await;
    assert!((10_000..15_000).contains(&rig.results().len()), "{}", rig.results().len());
    assert!(rig.feed.is_full(), "no more events come");
    assert!(!rig.feed.is_finished(), "more are made when these are settled");
    assert_eq!(all_results(&mut rig).await.len(), 30_000);
    assert!(rig.feed.is_finished());
}

/// Settles results like a sink does until there are no more, and returns all of them.
async fn all_results(rig: &mut Rig) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        rig.settle().await;
        let some = results(rig);
        if some.is_empty() {
            return all;
        }
        all.extend(some);
        rig.feed.settle(all.len() as u64);
    }
}

#[tokio::test]
async fn groups_beyond_the_memory_are_counted_together() {
    let task = |name: &str, priority: i32| {
        json!({
            "name": name, "group_by": ["status"], "emit": { "n": "count()" },
            "window": "10s", "groups_max": 1_000_000, "priority": priority,
        })
    };
    let mut rig =
        Rig::new(sink, json!({ "tasks": [task("low", 0), task("high", 1)], "memory": "1MiB" }));
    let names: Vec<String> = (0..40_000).map(|n| n.to_string()).collect();
    for part in names.chunks(1000) {
        let rows: Vec<(&str, &str)> = part.iter().map(|name| (name.as_str(), "-")).collect();
        rig.add(&rows).await;
    }
    rig.feed.end_input();
    let all = all_results(&mut rig).await;
    let count = |name: &str| all.iter().filter(|result| result.starts_with(name)).count();
    assert!(
        count("low") < count("high") && count("high") < 40_000,
        "{} {}",
        count("low"),
        count("high")
    );
    let total = |name: &str| -> u64 {
        let values = all.iter().filter(|result| result.starts_with(name));
        values.map(|result| result.split(' ').nth(2).unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!((total("low"), total("high")), (40_000, 40_000), "no event is lost");
}

#[tokio::test]
async fn the_largest_window_ends_early_while_the_memory_pressure_is_high() {
    let task = |name: &str, field: &str| {
        json!({
            "name": name, "group_by": [field], "emit": { "n": "count()" }, "window": "1h",
            "groups_max": 1_000_000,
        })
    };
    let tasks = json!([task("small", "bytes"), task("large", "status")]);
    let mut rig = Rig::new(sink, json!({ "tasks": tasks, "memory": "64MiB" }));
    let names: Vec<String> = (0..40_000).map(|n| n.to_string()).collect();
    let add = async |rig: &mut Rig, names: &[String]| {
        for part in names.chunks(1000) {
            let rows: Vec<(&str, &str)> = part.iter().map(|name| (name.as_str(), "1")).collect();
            rig.add(&rows).await;
        }
    };
    add(&mut rig, &names).await;
    rig.pressure.set(Pressure::High);
    rig.settle().await;
    add(&mut rig, &["new".to_owned()]).await;
    assert_eq!(rig.counters.snapshot().noted_events["early_window"], 1);
    let early = all_results(&mut rig).await;
    assert_eq!(early.len(), 40_000);
    assert!(early.iter().all(|result| result.starts_with("large")), "{:?}", early.first());
    rig.pressure.set(Pressure::Normal);
    add(&mut rig, &["0".to_owned()]).await;
    rig.feed.end_input();
    rig.settle().await;
    let mut rest = results(&rig);
    rest.retain(|result| result.starts_with("large"));
    assert_eq!(rest.len(), 2, "{rest:?}: a new group overflows while it is high");
    assert_eq!(rig.counters.snapshot().noted_events["overflow"], 1);
}

#[tokio::test]
async fn the_delay_of_a_window_ends_when_its_results_are_in_the_feed() {
    let mut rig = rig(json!([{
        "name": "t", "emit": { "n": "count()" }, "window": "10s", "due": "4s",
    }]));
    assert_eq!(rig.delays(), (0, 0.0), "it is shown from the start");
    for (sync_after, commit_after, delay_s, overdue) in [(1, 1, 4.0, 0), (2, 1, 5.0, 1)] {
        rig.add(&[("200", "7")]).await;
        rig.advance(12);
        rig.lane().tick();
        rig.advance(sync_after);
        rig.lane().tick();
        rig.sync().await;
        rig.advance(commit_after);
        rig.lane().tick();
        let before = rig.delays().0;
        rig.commit();
        rig.lane().tick();
        assert_eq!(rig.delays().0, before + 1, "only what is committed is in the feed");
        let task = rig.task();
        assert_eq!((task.emit_delay_seconds_max, task.overdue_windows), (delay_s, overdue));
        assert_eq!(
            rig.counters.snapshot().noted_events.get("overdue_window"),
            Some(&overdue).filter(|count| **count > 0)
        );
        rig.advance(20 - 12 - sync_after - commit_after);
        rig.lane().tick();
    }
    assert_eq!(rig.delays(), (2, 9.0));
}

#[tokio::test]
async fn the_delay_of_a_window_by_log_time_counts_from_when_it_ended() {
    let mut rig = rig(logged("10s", "1s"));
    rig.add_batch(&timed(&[("a", "-", -9_000)])).await;
    rig.advance(5);
    rig.add_batch(&timed(&[("a", "-", -8_000)])).await;
    rig.lane().tick();
    rig.sync().await;
    rig.advance(2);
    rig.commit();
    rig.lane().tick();
    assert_eq!(rig.delays(), (1, 2.0));
}

#[tokio::test]
async fn the_time_in_which_the_agent_is_down_is_a_delay_of_windows_by_arrival() {
    let mut rig = rig(json!([{ "name": "t", "emit": { "n": "count()" }, "window": "10s" }]));
    rig.add(&[("200", "7")]).await;
    rig.sync().await;
    rig.commit();
    rig.advance(70);
    rig.start(0);
    rig.settle().await;
    assert_eq!((rig.delays(), rig.task().emit_delay_seconds_max), ((1, 60.0), 60.0));
}

#[tokio::test]
async fn values_in_json_are_fields() {
    let json = |path: &str| json!({ "json": path, "from": "bytes" });
    let mut rig = rig(json!([{
        "name": "t", "fields": { "item": json("items[1].name"), "cost": json("cost") },
        "where": "item != 'x'", "group_by": ["item"], "emit": { "n": "sum(cost)" }, "window": "10s",
    }]));
    rig.add(&[
        ("-", r#"{"cost":1.5,"items":[{},{"name":"caf\u00e9"}]}"#),
        ("-", r#"{"cost":"2","items":[{},{"name":"café"}]}"#),
        ("-", r#"{"cost":4,"items":[{},{"name":"x"}]}"#),
        ("-", r#"{"cost":8,"items":[{},{"name":"café"}]"#),
        ("-", "item=x"),
    ])
    .await;
    rig.advance(10);
    rig.settle().await;
    assert_eq!(results(&rig), ["t.n {\"item\":\"café\"} 3.5 counter delta 10 at 10"]);
}

#[test]
fn invalid_tasks_are_rejected() {
    let task = |changes: Value| {
        let mut task = json!({ "name": "t", "emit": { "n": "count()" } });
        changes.as_object().unwrap().iter().for_each(|(key, value)| task[key] = value.clone());
        json!({ "tasks": [task] })
    };
    for (options, pointer) in [
        (task(json!({ "name": "a b" })), "/tasks/0/name"),
        (task(json!({ "emit": {} })), "/tasks/0/emit"),
        (task(json!({ "window": "1500ms" })), "/tasks/0/window"),
        (task(json!({ "window": "25h" })), "/tasks/0/window"),
        (task(json!({ "lateness": "5s" })), "/tasks/0/lateness"),
        (task(json!({ "groups_max": 0 })), "/tasks/0/groups_max"),
        (task(json!({ "samples": 101 })), "/tasks/0/samples"),
        (task(json!({ "group_by": ["a", "a"] })), "/tasks/0/group_by/1"),
        (task(json!({ "group_by": ["overflow"] })), "/tasks/0/group_by/0"),
        (task(json!({ "fields": { "f": {} } })), "/tasks/0/fields/f"),
        (task(json!({ "fields": { "a.b": { "field": "x" } } })), "/tasks/0/fields/a.b"),
        (
            task(json!({ "fields": { "f": { "between": { "index": 1 } } } })),
            "/tasks/0/fields/f/between/index",
        ),
        (
            task(json!({ "fields": { "f": { "delimited": { "delimiter": "", "index": 1 } } } })),
            "/tasks/0/fields/f/delimited/delimiter",
        ),
        (
            task(json!({ "fields": { "f": { "regex": { "pattern": "a(" } } } })),
            "/tasks/0/fields/f/regex/pattern",
        ),
        (
            task(json!({ "fields": { "f": { "regex": { "pattern": "a" } } } })),
            "/tasks/0/fields/f/regex/group",
        ),
        (
            task(json!({ "fields": { "f": { "field": "x", "from": "y" } } })),
            "/tasks/0/fields/f/from",
        ),
        (task(json!({ "fields": { "f": { "json": "a.0" } } })), "/tasks/0/fields/f/json"),
        (
            task(json!({ "fields": { "f": { "json": "a", "regex": { "pattern": "(a)" } } } })),
            "/tasks/0/fields/f",
        ),
        (json!({ "tasks": [], "memory": "1KiB" }), "/memory"),
    ] {
        let config: RulesConfig = serde_json::from_value(options.clone()).unwrap();
        let pointers: Vec<String> = config.check().into_iter().map(|error| error.pointer).collect();
        assert_eq!(pointers, [pointer], "{options}");
    }
    let twice = json!({ "tasks": [
        { "name": "t", "emit": { "n": "count()" } }, { "name": "t", "emit": { "n": "count()" } },
    ] });
    let config: RulesConfig = serde_json::from_value(twice).unwrap();
    assert_eq!(config.check()[0].pointer, "/tasks/1/name");
}
