//! Tests oversized records, missing topics, and brokers that go down.

use super::{PATIENCE, config, finish, numbered, start, texts, wait_for_error, write};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_servers::kafka::{Kafka, KafkaOptions};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

const DROPPED: &str = "millstream_component_dropped_events_total{";

/// Returns the number of events that the sink dropped for `reason`.
fn dropped(agent: &Agent, reason: &str) -> f64 {
    let metrics = agent.get("/metrics").unwrap_or_default();
    let of_sink = |line: &&str| line.starts_with(DROPPED) && line.contains("component_id=\"out\"");
    let line =
        metrics.lines().filter(of_sink).find(|line| line.contains(&format!("reason=\"{reason}\"")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

fn append(dir: &Path, file: &str, text: &str) {
    let mut file = OpenOptions::new().append(true).open(dir.join("in").join(file)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn oversized_records_are_rejected_alone_and_the_others_arrive_in_order() {
    let (dir, kafka) = (folder(), Kafka::shared());
    // The broker's limit is lower than the client's limit, so the broker rejects whole batches.
    kafka.create_topic_with("small", 1, &[("max.message.bytes", "4000")]);
    let large = |n: usize| n % 1000 == 500;
    let line = |n: usize| if large(n) { "x".repeat(5000 + n) } else { format!("line {n:07}") };
    write(dir.path(), "a.log", (0..6000).map(line));
    // This record is above the client's limit.
    append(dir.path(), "a.log", &format!("{}\nlast\n", "y".repeat(1_500_000)));
    let begun = std::time::Instant::now();
    let mut agent = Agent::start(
        dir.path(),
        &config(&kafka.bootstrap(), "small", "encoding: { codec: text }"),
        &[],
    );
    wait_until("all records", PATIENCE, || kafka.count("small") >= 5995);
    wait_until("the refused ones", PATIENCE, || dropped(&agent, "too_large") >= 7.0);
    append(dir.path(), "a.log", "later\n");
    wait_until("the next line", PATIENCE, || kafka.count("small") >= 5996);
    assert!(agent.stop().success());
    let expected: Vec<String> = (0..6000).filter(|n| !large(*n)).map(line).collect();
    let records = kafka.read("small");
    let texts = texts(&records);
    let (lines, rest) = texts.split_at(expected.len());
    assert!(lines.iter().eq(expected.iter()), "no gap, no repeat, in order\n{}", agent.log());
    assert_eq!(rest, ["last", "later"]);
    // The agent logs the rejection at most once in 30 s.
    let said_max = 1 + begun.elapsed().as_secs() as usize / 30;
    assert!(
        (1..=said_max).contains(&agent.log().matches("-byte record").count()),
        "said at a limited rate\n{}",
        agent.log()
    );
}

#[test]
fn a_missing_topic_is_waited_for() {
    let (dir, kafka) = (folder(), Kafka::shared());
    write(dir.path(), "a.log", numbered(1000));
    let begun = std::time::Instant::now();
    let agent = start(dir.path(), &config(&kafka.bootstrap(), "late", "encoding: { codec: text }"));
    wait_for_error(&agent, "topic late");
    kafka.create_topic("late", 1);
    let agent = finish(agent);
    assert!(texts(&kafka.read("late")).iter().copied().eq(numbered(1000)));
    assert!(
        agent.log().matches("retrying").count() <= 3 + begun.elapsed().as_secs() as usize / 30,
        "said at a limited rate\n{}",
        agent.log()
    );
}

#[test]
fn a_broker_that_is_down_at_the_start_is_waited_for() {
    let (dir, mut kafka) = (folder(), Kafka::start());
    kafka.create_topic("down", 1);
    kafka.stop();
    write(dir.path(), "a.log", numbered(1000));
    let agent = start(dir.path(), &config(&kafka.bootstrap(), "down", "encoding: { codec: text }"));
    wait_for_error(&agent, "cannot reach kafka");
    wait_for_error(&agent, "refused");
    kafka.restart();
    finish(agent);
    assert!(texts(&kafka.read("down")).iter().copied().eq(numbered(1000)));
}

#[test]
fn a_stop_does_not_wait_for_a_broker_that_is_down() {
    let (dir, mut kafka) = (folder(), Kafka::start());
    kafka.create_topic("down", 1);
    kafka.stop();
    write(dir.path(), "a.log", numbered(1000));
    let config = config(&kafka.bootstrap(), "down", "encoding: { codec: text }");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_for_error(&agent, "cannot reach kafka");
    let begun = std::time::Instant::now();
    assert!(agent.stop().success(), "{}", agent.log());
    assert!(begun.elapsed().as_secs() < 12, "{:?}", begun.elapsed());
    agent.assert_logs("not everything was delivered (sink out: ");
    kafka.restart();
    finish(start(dir.path(), &config));
    assert!(texts(&kafka.read("down")).iter().copied().eq(numbered(1000)));
}

#[test]
fn a_disk_buffer_keeps_what_a_broker_that_is_down_cannot_take() {
    let (dir, mut kafka) = (folder(), Kafka::start());
    kafka.create_topic("down", 1);
    kafka.stop();
    write(dir.path(), "a.log", numbered(1000));
    let sink = "encoding: { codec: text }, buffer: { type: disk, max: 64MiB, mode: always }";
    let config = "shutdown_timeout: 2s\n".to_owned() + &config(&kafka.bootstrap(), "down", sink);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let on_disk = || agent.metric("millstream_disk_buffer_events{") == Some(1000.0);
    wait_until("everything is in the buffer", PATIENCE, on_disk);
    wait_for_error(&agent, "cannot reach kafka");
    assert!(agent.stop().success(), "everything is on disk\n{}", agent.log());
    std::fs::remove_dir_all(dir.path().join("in")).unwrap();
    kafka.restart();
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let is_sent = || agent.metric("millstream_disk_buffer_events{") == Some(0.0);
    wait_until("the buffer is empty", PATIENCE, is_sent);
    assert!(agent.stop().success(), "{}", agent.log());
    assert!(texts(&kafka.read("down")).iter().copied().eq(numbered(1000)));
}

#[test]
fn a_deleted_topic_does_not_affect_the_others() {
    let (dir, kafka) = (folder(), Kafka::shared());
    kafka.create_topic("gone", 1);
    write(dir.path(), "a.log", numbered(1000));
    let mut agent = Agent::start(
        dir.path(),
        &config(&kafka.bootstrap(), "gone", "encoding: { codec: text }"),
        &[],
    );
    wait_until("the first lines", PATIENCE, || kafka.count("gone") == 1000);
    kafka.delete_topic("gone");
    append(dir.path(), "a.log", "after the deletion\n");
    wait_for_error(&agent, "topic gone");
    kafka.create_topic("gone", 1);
    wait_until("the line in the new topic", PATIENCE * 2, || {
        texts(&kafka.read("gone")).contains(&"after the deletion")
    });
    assert!(agent.stop().success());
}

#[test]
fn distinct_topics_are_bounded() {
    let properties = vec!["auto.create.topics.enable=true".into()];
    let (dir, kafka) = (folder(), Kafka::with(KafkaOptions { properties, ..Default::default() }));
    write(dir.path(), "a.log", (0..40).map(|n| format!("{n}")));
    let more = "topics_max: 5, encoding: { codec: text }";
    let topic = "many-{{ message }}";
    let agent = Agent::start(dir.path(), &config(&kafka.bootstrap(), topic, more), &[]);
    wait_until("those over the bound are counted", PATIENCE, || {
        dropped(&agent, "too_many_topics") == 35.0
    });
    wait_until("the others", PATIENCE, || (0..5).all(|n| kafka.count(&format!("many-{n}")) == 1));
}
