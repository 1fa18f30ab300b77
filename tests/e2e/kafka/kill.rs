//! Tests an agent that is killed repeatedly, and a broker that is stopped and killed, under load.

use super::config;
use crate::e2e::kill::{check_json, write_load};
use crate::support::{Agent, folder};
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use millstream_testkit_servers::kafka::{Kafka, Record};
use std::collections::HashMap;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const KILLS: u64 = 20;

/// Downtime of a stopped broker.
const AWAY: Duration = Duration::from_secs(20);

/// Number of rounds, each with all kills.
const ROUNDS: TestSize = TestSize { gate: 1, long: 10 };

#[test]
fn lines_survive_twenty_kills_of_the_agent_and_two_of_the_broker() {
    Seed::of_test().cases(ROUNDS).for_each(survive_kills);
}

fn survive_kills(seed: u64) {
    let (dir, mut kafka) = (folder(), Kafka::start());
    kafka.create_topic("all", 4);
    fs::create_dir(dir.path().join("in")).unwrap();
    let (path, config) = (dir.path().to_path_buf(), all(&kafka));
    let writer = std::thread::spawn(move || {
        write_load(&path, Duration::from_secs(30), &AtomicBool::new(false))
    });
    let mut random = Rng::with_seed(seed);
    kill_agents(&dir, &config, &mut random, KILLS / 2);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    std::thread::sleep(Duration::from_millis(500));
    kafka.stop();
    std::thread::sleep(AWAY);
    kafka.restart();
    std::thread::sleep(Duration::from_millis(700));
    kafka.kill();
    kafka.restart();
    agent.kill();
    kill_agents(&dir, &config, &mut random, KILLS - KILLS / 2 - 1);
    writer.join().unwrap();
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    assert_eq!(agent.wait(Duration::from_secs(240)).code(), Some(0), "{}", agent.log());
    check(&kafka.read("all"));
}

fn all(kafka: &Kafka) -> String {
    let more = "compression: lz4, encoding: { metadata: [offset, id, file_id] }";
    config(&kafka.bootstrap(), "all", more).replace("DIR/in/*.log", "DIR/in/*.log*")
}

fn kill_agents(dir: &tempfile::TempDir, config: &str, random: &mut Rng, times: u64) {
    for _ in 0..times {
        let mut agent = Agent::start(dir.path(), config, &[]);
        std::thread::sleep(Duration::from_millis(250 + random.u64(..500)));
        agent.kill();
    }
}

/// Asserts that every line arrived. All records of a file go to one partition, so the order in the
/// topic is the order of arrival.
fn check(records: &[Record]) {
    let mut partitions: HashMap<String, i32> = HashMap::new();
    for record in records {
        let event: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
        let file_id = event["meta"]["file_id"].as_str().unwrap().to_owned();
        assert_eq!(*partitions.entry(file_id).or_insert(record.partition), record.partition);
    }
    check_json(records.iter().map(|record| &record.payload[..]));
}
