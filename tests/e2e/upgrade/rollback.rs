//! Tests upgrades and rollbacks under load: an earlier program and this build run in turn in one
//! folder, and each is killed repeatedly.
//!
//! `MILLSTREAM_PREVIOUS` is the path of the earlier program. Without it, the test is skipped.

use super::fixture;
use super::input::{Log, Written};
use super::world::{End, World};
use crate::e2e::rules::Stop;
use crate::support::{folder, millstream};
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The environment variable with the path of the earlier program.
const VARIABLE: &str = "MILLSTREAM_PREVIOUS";

/// Number of changes between the programs: twice from the old one to the new one and back.
const TURNS: usize = 8;

/// Number of runs in each turn. All but the last run of a turn end with a kill.
const RUNS: TestSize = TestSize { gate: 2, long: 4 };

/// Number of folders.
const CASES: TestSize = TestSize { gate: 1, long: 3 };

/// The two programs, and the refusals of the earlier one.
struct Programs {
    old: PathBuf,
    new: PathBuf,
    starts: usize,
    refusals: Vec<String>,
}

impl Programs {
    /// Runs the programs in turn.
    fn alternate(&mut self, world: &mut World, random: &mut Rng) {
        for turn in 0..TURNS {
            for run in 1..=RUNS.per_case() {
                let is_last = run == RUNS.per_case();
                let end = if is_last && random.bool() { End::Stop } else { End::Kill };
                if turn % 2 == 1 {
                    world.run(&self.new, end).unwrap();
                } else {
                    self.run_old(world, end);
                }
            }
        }
    }

    fn run_old(&mut self, world: &mut World, end: End) {
        self.starts += 1;
        if let Err(log) = world.run(&self.old, end) {
            self.refusals.push(refusal(&log));
        }
    }
}

/// Returns the message with which a program refuses a folder, and checks that it names the format.
fn refusal(log: &str) -> String {
    let message = log.lines().rev().find(|line| line.contains("format"));
    message.unwrap_or_else(|| panic!("no clear message:\n{log}")).to_owned()
}

/// Writes and rotates while the programs alternate; returns all lines.
fn play(world: &mut World, programs: &mut Programs, seed: u64) -> Vec<Written> {
    let log = Log::new(world.path(), seed);
    let (mut random, stop) = (Rng::with_seed(seed), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| log.run(&stop));
        let stopping = Stop(&stop);
        programs.alternate(world, &mut random);
        drop(stopping);
        writer.join().unwrap()
    })
}

#[test]
fn an_earlier_program_and_this_one_take_turns() {
    let Some(old) = std::env::var_os(VARIABLE) else {
        return eprintln!("skipped: {VARIABLE} is not set to the path of an earlier program");
    };
    let old = Path::new(&old).canonicalize().expect("MILLSTREAM_PREVIOUS is a program");
    let mut programs = Programs { old, new: millstream(), starts: 0, refusals: Vec::new() };
    let (mut lines, mut deleted) = (0, 0);
    for seed in Seed::of_test().cases(CASES) {
        let dir = folder();
        fs::copy(fixture("millstream.yaml"), dir.path().join("millstream.yaml")).unwrap();
        let mut world = World::new(dir, seed);
        let written = play(&mut world, &mut programs, seed);
        world.finish(&programs.new);
        world.check(&written);
        world.check_messages("/late", &world.small_logs.lines());
        lines += written.len();
        deleted += world.small_logs.deleted;
    }
    let Programs { old, starts, refusals, .. } = programs;
    let (count, messages) = (refusals.len(), refusals.into_iter().collect::<BTreeSet<_>>());
    eprintln!(
        "{}: {starts} starts, {count} refused {messages:?}; {lines} lines and {deleted} held files, \
         nothing lost",
        old.display()
    );
}
