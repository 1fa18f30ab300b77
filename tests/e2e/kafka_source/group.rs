//! Tests several agents in one group.

use super::{PATIENCE, assert_all, broker, config, events, ids, numbered};
use crate::support::{Agent, folder, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

fn all(folders: &[&Path]) -> Vec<Value> {
    folders.iter().flat_map(|dir| events(&dir.join("out.json"))).collect()
}

/// Returns the number of events in the output of an agent.
fn count(dir: &Path) -> usize {
    events(&dir.join("out.json")).len()
}

const SHORT: &str = "options: { session.timeout.ms: 1000 },";

#[test]
fn members_that_come_stop_and_are_killed_lose_nothing_and_repeat_under_the_same_ids() {
    let (kafka, one, two, three) = (broker(), folder(), folder(), folder());
    kafka.create_topic("shared", 6);
    let config = config(kafka, "shared", "shared", SHORT);
    let writer = std::thread::spawn(|| {
        for round in 0..30 {
            broker().write("shared", numbered(round * 1800..(round + 1) * 1800, 6));
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let start = |dir: &tempfile::TempDir| Agent::start(dir.path(), &config, &[]);
    let mut first = start(&one);
    wait_until("the first reads", PATIENCE, || count(one.path()) > 0);
    let mut second = start(&two);
    wait_until("the second reads", PATIENCE, || count(two.path()) > 0);
    second.kill();
    let third = start(&three);
    wait_until("the third reads", PATIENCE, || count(three.path()) > 0);
    // The third agent is stopped for longer than its session timeout. Its partitions go to the
    // first agent, and the third agent learns of the loss too late.
    third.send(Signal::STOP);
    std::thread::sleep(Duration::from_millis(1600));
    third.send(Signal::CONT);
    writer.join().unwrap();
    let folders = [one.path(), two.path(), three.path()];
    wait_until("every record", PATIENCE, || ids(&all(&folders)).len() == 54_000);
    let mut third = third;
    assert!(first.stop().success(), "{}", first.log());
    assert!(third.stop().success(), "{}", third.log());
    assert_all(kafka, "shared", &all(&folders));
}

/// Session options for a busy host, where a heartbeat can be late by seconds: a member whose
/// session expires would repeat records.
const MEMBER: &str = "options: { session.timeout.ms: 10000, heartbeat.interval.ms: 500 },";

#[test]
fn a_member_that_joins_takes_over_without_repeats() {
    let (kafka, one, two) = (broker(), folder(), folder());
    kafka.create_topic("joined", 4);
    kafka.write("joined", numbered(0..4000, 4));
    let config = config(kafka, "joined", "joined", MEMBER);
    let mut first = Agent::start(one.path(), &config, &[]);
    wait_until("the first part", PATIENCE, || count(one.path()) == 4000);
    let mut second = Agent::start(two.path(), &config, &[]);
    let mut next = 4000;
    wait_until("the second reads", PATIENCE, || {
        kafka.write("joined", numbered(next..next + 400, 4));
        next += 400;
        count(two.path()) > 0
    });
    let folders = [one.path(), two.path()];
    wait_until("every record", PATIENCE, || ids(&all(&folders)).len() == next as usize);
    assert!(first.stop().success() && second.stop().success());
    assert_eq!(assert_all(kafka, "joined", &all(&folders)), 0, "drained and committed");
}
