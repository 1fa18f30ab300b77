//! Tests that this build continues in the folder of an earlier program while a log grows and
//! rotates, the endpoint is away at times, and the agent is killed repeatedly.

use super::folders::held_lines;
use super::input::{Log, Written};
use super::world::{End, World};
use super::{READ, archives, unpack};
use crate::e2e::rules::Stop;
use crate::support::{lines, millstream};
use millstream_testkit_random::{Seed, TestSize};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Number of runs in each folder. Most runs end with a kill.
const RUNS: TestSize = TestSize { gate: 3, long: 40 };

/// Returns the ids that the earlier program gave to the lines of the log.
fn old_ids(dir: &Path) -> HashMap<String, String> {
    let parse = |line: &String| serde_json::from_str::<Value>(line).unwrap();
    let entry = |event: Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&event["message"]), text(&event["meta"]["id"]))
    };
    lines(&dir.join("ids.json")).iter().map(parse).map(entry).collect()
}

/// Returns the id of the file in an event id.
fn file_of(id: &str) -> &str {
    id.rsplit_once('-').unwrap().0
}

/// Writes, rotates and kills in the folder; returns all lines.
fn play(world: &mut World, seed: u64) -> Vec<Written> {
    let mut log = Log::new(world.path(), seed);
    // The unpacked log has another inode and path, and is found as a rotated file by its content.
    log.rotate();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| log.run(&stop));
        let stopping = Stop(&stop);
        for run in 1..=RUNS.get() {
            let end = if run % 8 == 0 { End::Stop } else { End::Kill };
            world.run(&millstream(), end).unwrap();
        }
        drop(stopping);
        writer.join().unwrap()
    })
}

/// Runs one case in the folder of an archive. Returns whether the folder contains the log, which
/// early archives lack.
fn continues(name: &str, seed: u64) -> bool {
    let mut world = World::new(unpack(name), seed);
    let ids = old_ids(world.path());
    if ids.is_empty() {
        return false;
    }
    assert_eq!(ids.len(), READ);
    let mut late: Vec<String> = held_lines(world.path()).into_keys().collect();
    let written = play(&mut world, seed);
    world.finish(&millstream());
    world.check(&written);
    late.extend(world.small_logs.lines());
    world.check_messages("/late", &late);
    let piped: Vec<String> = (1..=500).map(|number| format!("piped {number}")).collect();
    world.check_messages("/kept", &piped);
    // The lines that follow in the old file have the file id of the earlier program.
    let new = old_ids(world.path());
    let file = file_of(ids.values().next().unwrap());
    for line in written.iter().filter(|line| line.generation == 0) {
        assert_eq!(file_of(&new[&line.text]), file, "{name}: {:?}", line.text);
    }
    true
}

#[test]
fn folders_of_earlier_programs_are_continued_under_load() {
    let seed = Seed::of_test();
    let names = archives();
    let played: u64 = std::thread::scope(|scope| {
        let start = |case: u64, name: &str| {
            let (name, value) = (name.to_owned(), seed.value().wrapping_add(case));
            scope.spawn(move || continues(&name, value))
        };
        let threads: Vec<_> = (0..).zip(&names).map(|(case, name)| start(case, name)).collect();
        threads.into_iter().map(|thread| u64::from(thread.join().expect("no panic"))).sum()
    });
    assert!(played >= 2, "{played} of {names:?} contain the log");
    seed.count(RUNS.get() * played);
}
