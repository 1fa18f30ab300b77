//! Tests the position at which reading starts, the topics that are read, and records without a
//! value.

use super::{PATIENCE, broker, config, events, ids, numbered, run, text};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::kafka::Written;
use serde_json::Value;
use std::path::Path;

fn texts(dir: &Path) -> Vec<String> {
    events(&dir.join("out.json")).iter().map(|event| text(event).to_owned()).collect()
}

#[test]
fn reading_starts_at_the_end_a_time_or_an_offset() {
    let kafka = broker();
    kafka.create_topic("starts", 1);
    let record = |n: i64| Written { timestamp: Some(1_795_000_000_000 + n * 1000), ..of(n) };
    kafka.write("starts", (0..100).map(record));
    for (name, from, first) in [
        ("at-offset", "{ offset: 40 }", 40),
        ("at-time", "{ time: '2026-11-18T11:07:10Z' }", 30),
        ("at-beginning", "beginning", 0),
        ("at-a-late-time", "{ time: '2027-01-01T00:00:00Z' }", 100),
    ] {
        let dir = folder();
        run(dir.path(), &config(kafka, "starts", name, &format!("read_from: {from},")));
        let expected: Vec<String> = (first..100).map(|n| format!("n{n}")).collect();
        assert_eq!(texts(dir.path()), expected, "{name}");
    }
    let dir = folder();
    let config =
        config(kafka, "starts", "at-end", "read_from: end, options: { session.timeout.ms: 6000 },");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    // The agent commits the position although no record has arrived yet.
    wait_until("the position", PATIENCE, || {
        kafka.committed("at-end", "starts").get(&0) == Some(&100)
    });
    agent.kill();
    kafka.write("starts", (100..103).map(of));
    run(dir.path(), &config);
    assert_eq!(texts(dir.path()), ["n100", "n101", "n102"]);
}

fn of(n: i64) -> Written {
    Written::text(format!("n{n}"))
}

#[test]
fn a_topic_that_is_created_again_is_read_from_its_beginning() {
    let (dir, kafka) = (folder(), broker());
    kafka.create_topic("again", 1);
    kafka.write("again", (0..100).map(of));
    let mut agent = Agent::start(dir.path(), &config(kafka, "again", "again", ""), &[]);
    wait_until("the first topic", PATIENCE, || texts(dir.path()).len() == 100);
    kafka.delete_topic("again");
    kafka.create_topic("again", 1);
    // The new topic has more records than the old one, so that the old offset also exists in the
    // new topic.
    kafka.write("again", (100..400).map(of));
    let distinct = || texts(dir.path()).into_iter().collect::<std::collections::BTreeSet<_>>();
    wait_until("the second topic", PATIENCE, || distinct().len() == 400);
    assert!(agent.stop().success(), "{}", agent.log());
    agent.assert_logs("was deleted and recreated");
    assert_eq!(kafka.committed("again", "again")[&0], 300);
}

#[test]
fn a_pattern_finds_topics_that_are_created_later() {
    let (dir, kafka) = (folder(), broker());
    kafka.create_topic("late-a", 1);
    kafka.write("late-a", [Written::text("first")]);
    let more = "options: { topic.metadata.refresh.interval.ms: 300 },";
    let config = config(kafka, "'^late-.*'", "late", more);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the first topic", PATIENCE, || texts(dir.path()).len() == 1);
    kafka.create_topic("late-b", 2);
    kafka.write("late-b", [Written::text("second").to(1)]);
    wait_until("the second topic", PATIENCE, || texts(dir.path()).len() == 2);
    assert!(agent.stop().success(), "{}", agent.log());
    assert_eq!(texts(dir.path()), ["first", "second"]);
    assert_eq!(ids(&events(&dir.path().join("out.json"))).len(), 2);
}

#[test]
fn records_without_a_value_are_dropped_and_counted_or_kept() {
    let kafka = broker();
    kafka.create_topic("tombs", 1);
    let tomb = || Written { key: Some(b"k".to_vec()), ..Written::default() };
    kafka.write(
        "tombs",
        [Written::text("a"), tomb(), Written::text(""), Written::text("b"), tomb()],
    );
    let dir = folder();
    run(dir.path(), &config(kafka, "tombs", "tombs-drop", ""));
    assert_eq!(texts(dir.path()), ["a", "", "b"]);
    assert_eq!(kafka.committed("tombs-drop", "tombs")[&0], 5, "what is dropped is settled");
    let dir = folder();
    run(dir.path(), &config(kafka, "tombs", "tombs-keep", "tombstones: keep,"));
    assert_eq!(texts(dir.path()), ["a", "", "", "b", ""]);
}

#[test]
fn records_deleted_before_they_were_read_are_counted_and_skipped() {
    let (dir, kafka) = (folder(), broker());
    kafka.create_topic("expired", 1);
    kafka.write("expired", numbered(0..1000, 1));
    kafka.reset("expired", "expired", 10);
    kafka.delete_records("expired", 0, 700);
    let mut agent = Agent::start(dir.path(), &config(kafka, "expired", "expired", ""), &[]);
    wait_until("the rest", PATIENCE, || texts(dir.path()).len() == 300);
    wait_until("the others are counted", PATIENCE, || {
        let metrics = agent.get("/metrics").unwrap_or_default();
        let dropped = metrics.lines().find(|line| line.contains("reason=\"expired\""));
        dropped.is_some_and(|line| line.ends_with(" 690"))
    });
    assert!(agent.stop().success());
    agent.assert_logs("690 records were deleted");
}

#[test]
fn a_group_that_an_operator_moves_back_is_read_again_under_the_same_ids() {
    let (dir, kafka) = (folder(), broker());
    kafka.create_topic("moved", 2);
    kafka.write("moved", numbered(0..500, 2));
    let config = config(kafka, "moved", "moved", "");
    run(dir.path(), &config);
    kafka.reset("moved", "moved", 100);
    run(dir.path(), &config);
    let events = events(&dir.path().join("out.json"));
    assert_eq!((events.len(), ids(&events).len()), (500 + 300, 500));
}

#[test]
fn a_topic_that_does_not_exist_yet_is_waited_for_and_said() {
    let (dir, kafka) = (folder(), broker());
    let more = "options: { topic.metadata.refresh.interval.ms: 300 },";
    let mut agent = Agent::start(dir.path(), &config(kafka, "absent", "absent", more), &[]);
    wait_until("the error", PATIENCE, || agent.log().contains("cannot read topic absent"));
    kafka.create_topic("absent", 1);
    kafka.write("absent", [Written::text("here")]);
    wait_until("its record", PATIENCE, || texts(dir.path()) == ["here"]);
    assert!(agent.stop().success());
    assert!(agent.log().matches("cannot read topic").count() <= 2, "{}", agent.log());
}

#[test]
fn an_id_that_came_with_the_record_is_kept_over_hops() {
    let kafka = broker();
    kafka.create_topic("hops", 1);
    let nested = r#"{"message":"m","meta":{"host":"h","offset":3,"id":"00000000deadbeef-3"}}"#;
    kafka.write(
        "hops",
        [
            Written::text("a").header("millstream-id", "upstream-7"),
            Written::text(nested),
            Written::text("c").header("millstream-id", "not plain\n"),
            Written::text("d").header("other", "x1"),
        ],
    );
    for (mode, given) in [
        ("id: auto,", [Some("upstream-7"), Some("00000000deadbeef-3"), None, None]),
        ("id: header,", [Some("upstream-7"), None, None, None]),
        ("id: header, id_header: other,", [None, None, None, Some("x1")]),
        ("id: field,", [None, Some("00000000deadbeef-3"), None, None]),
        ("id: offset,", [None; 4]),
    ] {
        let dir = folder();
        let group = format!("hops-{}", mode.len());
        run(dir.path(), &config(kafka, "hops", &group, mode));
        let events = events(&dir.path().join("out.json"));
        let id = |event: &Value| event["meta"]["id"].as_str().unwrap().to_owned();
        for (n, (event, given)) in events.iter().zip(given).enumerate() {
            match given {
                Some(given) => assert_eq!(id(event), given, "{mode}"),
                None => assert!(id(event).ends_with(&format!("-{n}")), "{mode} {n}"),
            }
        }
    }
}
