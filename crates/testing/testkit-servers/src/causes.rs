//! Injects causes of late, lost or wrong data into running agents, and checks the output of
//! `millstream diagnose`.

mod agent;
mod healthy;
mod matrix;
mod plants;
mod writer;

pub use matrix::Matrix;
pub use plants::{ALONE, INPUT, ON_THE_WAY, Plant};

use agent::World;
use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Running time of an agent before a cause is injected.
const WARM_UP: Duration = Duration::from_secs(4);

/// Time after the injection at which the verdict counts.
pub const VERDICT: Duration = Duration::from_secs(30);

/// Interval between two requests of the diagnosis.
const LOOK: Duration = Duration::from_secs(1);

/// Maximum additional time for the verdict of a healthy run, because a source may still be
/// starting.
const STARTS: Duration = Duration::from_secs(60);

/// How long the run continues after all injected causes have been named, so that any wrong cause
/// has time to appear.
const SETTLES: Duration = Duration::from_secs(4);

/// One run of an agent.
#[derive(Clone, Debug)]
pub struct Run {
    /// Seed of its random numbers.
    pub seed: u64,
    /// What was done to the agent.
    pub what: String,
    /// The causes that must be named; empty for a healthy run.
    pub expected: BTreeSet<&'static str>,
    /// The causes that were named at the verdict, in order. For a healthy run, the causes that were
    /// named at any time.
    pub named: Vec<String>,
    /// Seconds from the injection until all expected causes were named; `None` if they were not.
    pub seconds: Option<f64>,
    /// The last diagnosis and the end of the agent's log.
    pub report: String,
}

impl Run {
    /// Returns whether exactly the expected causes were named at the verdict.
    pub fn is_right(&self) -> bool {
        self.expected.iter().all(|cause| self.named.iter().any(|named| named == cause))
            && self.named.iter().all(|named| self.expected.contains(named.as_str()))
    }

    /// Returns whether the first named cause is an expected one.
    pub fn is_first_right(&self) -> bool {
        self.named.first().is_some_and(|first| self.expected.contains(first.as_str()))
    }
}

/// Injects the causes into a new agent, and waits for the verdict.
///
/// # Panics
/// Panics if the agent cannot be started.
pub fn planted(program: &Path, plants: &[&Plant], seed: u64) -> Run {
    let mut world = World::start(program, seed, |setup| {
        plants.iter().for_each(|plant| (plant.configure)(setup));
    });
    thread::sleep(WARM_UP);
    plants.iter().for_each(|plant| (plant.begin)(&mut world));
    let expected: BTreeSet<&'static str> =
        plants.iter().flat_map(|plant| plant.expected.iter().copied()).collect();
    let (begun, mut complete) = (Instant::now(), None);
    let mut named = Vec::new();
    let may_look = || begun.elapsed() + LOOK < VERDICT;
    while may_look() && complete.is_none_or(|at: Instant| at.elapsed() < SETTLES) {
        thread::sleep(LOOK);
        let asked = Instant::now();
        named = world.causes();
        let has_all = expected.iter().all(|cause| named.iter().any(|named| named == cause));
        complete = has_all.then(|| complete.unwrap_or(asked));
    }
    let what = plants.iter().map(|plant| plant.name).collect::<Vec<_>>().join(" + ");
    let seconds = complete.map(|at| (at - begun).as_secs_f64());
    Run { seed, what, expected, named, seconds, report: world.report() }
}

/// Runs an agent with events that are normal on healthy hosts: bursts, quiet times, slow starts,
/// rotations, reloads, a few odd lines, short outages.
///
/// # Panics
/// Panics if the agent cannot be started, or if a source takes too long to start, because there is
/// then no verdict.
pub fn healthy(program: &Path, seed: u64) -> Run {
    let events = healthy::chosen(seed);
    let what = events.iter().map(|event| event.name).collect::<Vec<_>>().join(" + ");
    let mut world = World::start(program, seed, |setup| {
        events.iter().for_each(|event| (event.configure)(setup));
    });
    events.iter().for_each(|event| (event.at_start)(&mut world));
    let (begun, least) = (Instant::now(), WARM_UP + VERDICT);
    let (mut named, mut tick) = (BTreeSet::new(), 0);
    while begun.elapsed() < least || world.is_starting() {
        assert!(begun.elapsed() < least + STARTS, "no verdict: {}", world.report());
        thread::sleep(LOOK);
        tick += 1;
        events.iter().for_each(|event| (event.each_second)(&mut world, tick));
        named.extend(world.alarms());
    }
    let (expected, named) = (BTreeSet::new(), named.into_iter().collect());
    Run { seed, what, expected, named, seconds: None, report: world.report() }
}
