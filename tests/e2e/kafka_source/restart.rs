//! Tests an agent that is stopped and killed, and a broker that is unavailable for a while.

use super::{PATIENCE, assert_all, broker, config, events, ids, numbered, run};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_random::{Seed, TestSize};
use millstream_testkit_servers::kafka::Kafka;
use std::time::Duration;

#[test]
fn a_stop_and_a_start_repeat_nothing() {
    let (dir, kafka) = (folder(), broker());
    kafka.create_topic("resumed", 2);
    kafka.write("resumed", numbered(0..20_000, 2));
    let (out, config) = (dir.path().join("out.json"), config(kafka, "resumed", "resumed", ""));
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("some records", PATIENCE, || events(&out).len() > 500);
    assert!(agent.stop().success(), "{}", agent.log());
    let before = events(&out).len();
    kafka.write("resumed", numbered(20_000..22_000, 2));
    run(dir.path(), &config);
    let events = events(&out);
    assert_eq!(assert_all(kafka, "resumed", &events), 0);
    assert!(events.len() > before);
}

/// Number of kills of the agent while records are written.
const KILLS: usize = 5;

/// Number of rounds, each with all kills.
const ROUNDS: TestSize = TestSize { gate: 1, long: 10 };

/// The file sink truncates data that no checkpoint covers, so a committed offset must not be ahead
/// of the file.
#[test]
fn kills_lose_nothing_and_repeat_nothing_in_a_file() {
    Seed::of_test().cases(ROUNDS).for_each(survive_kills);
}

fn survive_kills(seed: u64) {
    let (dir, kafka, topic) = (folder(), broker(), format!("killed-{seed}"));
    kafka.create_topic(&topic, 3);
    let more = "commit_interval: 100ms, options: { group.instance.id: host },";
    let config = config(kafka, &topic, &topic, more);
    let written = topic.clone();
    let writer = std::thread::spawn(move || {
        for round in 0..25 {
            broker().write(&written, numbered(round * 4000..(round + 1) * 4000, 3));
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ahead = 0;
    let committed = || kafka.committed(&topic, &topic).into_values().sum::<i64>();
    for kill in 0..KILLS {
        let mut agent = Agent::start(dir.path(), &config, &[]);
        std::thread::sleep(Duration::from_millis(2000 + random.u64(..900)));
        // On a busy host the earlier kills may come before the agent reads.
        if kill + 1 == KILLS {
            wait_until("offsets are committed", PATIENCE, || committed() > 0);
        }
        agent.kill();
        ahead += usize::from(committed() > 0);
    }
    writer.join().unwrap();
    run(dir.path(), &config);
    assert!(ahead > 0, "offsets were committed before a kill");
    assert_eq!(assert_all(kafka, &topic, &events(&dir.path().join("out.json"))), 0);
}

#[test]
fn a_broker_that_restarts_under_load_is_waited_for() {
    let (dir, mut kafka) = (folder(), Kafka::start());
    kafka.create_topic("restarted", 2);
    kafka.write("restarted", numbered(0..30_000, 2));
    let (out, config) = (dir.path().join("out.json"), config(&kafka, "restarted", "g", ""));
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("some records", PATIENCE, || events(&out).len() > 100);
    kafka.kill();
    std::thread::sleep(Duration::from_millis(500));
    kafka.restart();
    kafka.write("restarted", numbered(30_000..31_000, 2));
    wait_until("all records", PATIENCE, || ids(&events(&out)).len() == 31_000);
    let count = |what: &str| agent.log().matches(what).count();
    let [error, end] = ["cannot reach Kafka", "is being read again"];
    let before = [error, end].map(count);
    kafka.kill();
    wait_until("the error", PATIENCE, || count(error) > before[0]);
    kafka.restart();
    wait_until("its end without a record", PATIENCE, || count(end) > before[1]);
    assert!(agent.stop().success(), "{}", agent.log());
    assert_all(&kafka, "restarted", &events(&out));
}

#[test]
fn a_stop_while_no_broker_answers_is_quick() {
    let dir = folder();
    let config = super::source("127.0.0.1:1", "t", "g", "")
        + "sinks: { out: { type: blackhole, inputs: [topic] } }\n";
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("the error", PATIENCE, || agent.log().contains("cannot reach Kafka at 127.0.0.1:1"));
    let begun = std::time::Instant::now();
    assert!(agent.stop().success(), "{}", agent.log());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}
