//! Measures how often the diagnosis is right.

use super::{ALONE, INPUT, ON_THE_WAY, Plant, Run, healthy, planted};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of agents that run at a time.
const AT_ONCE: usize = 16;

/// The kind of a run.
enum Play {
    Planted(Vec<&'static Plant>),
    Healthy,
}

/// The runs and their verdicts.
#[derive(Debug, Default)]
pub struct Matrix {
    /// The runs, in the order in which they ended.
    pub runs: Vec<Run>,
}

/// Figures of one cause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Number of runs in which the cause was injected and named.
    pub right: u64,
    /// Number of runs in which the cause was named but not injected.
    pub false_alarms: u64,
    /// Number of runs in which the cause was injected but not named.
    pub missed: u64,
}

impl Figures {
    /// Returns the harmonic mean of precision and recall.
    pub fn f1(self) -> f64 {
        let all = 2 * self.right + self.false_alarms + self.missed;
        if all == 0 { 1.0 } else { 2.0 * self.right as f64 / all as f64 }
    }
}

impl Matrix {
    /// Runs every cause, or only the cause `only`, `singles` times, and the given numbers of pairs
    /// and healthy runs.
    ///
    /// # Panics
    /// Panics if an agent cannot be started.
    pub fn play(
        program: &Path,
        seed: u64,
        (singles, pairs, healthy): (u64, u64, u64),
        only: Option<&str>,
    ) -> Matrix {
        let is_meant = |plant: &&Plant| only.is_none_or(|only| plant.name == only);
        let all = || INPUT.iter().chain(ON_THE_WAY).chain(ALONE).filter(is_meant);
        let mut plays: Vec<Play> =
            (0..singles).flat_map(|_| all().map(|plant| Play::Planted(vec![plant]))).collect();
        plays.extend((0..pairs).map(|number| pair(seed + number)));
        plays.extend((0..healthy).map(|_| Play::Healthy));
        let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(plays.len()) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(play) = plays.get(number) else { break };
                        let run = run(program, play, seed.wrapping_add(number as u64));
                        runs.lock().push(run);
                    }
                });
            }
        });
        Matrix { runs: runs.into_inner() }
    }

    fn planted(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.expected.is_empty())
    }

    /// Returns the figures of each cause.
    pub fn figures(&self) -> BTreeMap<String, Figures> {
        let mut figures: BTreeMap<String, Figures> = BTreeMap::new();
        for run in &self.runs {
            let named: BTreeSet<&str> = run.named.iter().map(String::as_str).collect();
            for cause in &run.expected {
                let figure = figures.entry((*cause).to_owned()).or_default();
                figure.right += u64::from(named.contains(cause));
                figure.missed += u64::from(!named.contains(cause));
            }
            for cause in named.iter().filter(|cause| !run.expected.contains(*cause)) {
                figures.entry((*cause).to_owned()).or_default().false_alarms += 1;
            }
        }
        figures
    }

    /// Returns the mean F1 score over all causes.
    pub fn macro_f1(&self) -> f64 {
        let figures = self.figures();
        figures.values().map(|figure| figure.f1()).sum::<f64>() / figures.len().max(1) as f64
    }

    /// Returns the share of the runs with an injected cause whose first named cause is an injected
    /// one.
    pub fn first_right(&self) -> f64 {
        let right = self.planted().filter(|run| run.is_first_right()).count();
        right as f64 / self.planted().count().max(1) as f64
    }

    /// Returns the healthy runs in which any cause was named.
    pub fn false_alarms(&self) -> Vec<&Run> {
        let healthy = self.runs.iter().filter(|run| run.expected.is_empty());
        healthy.filter(|run| !run.named.is_empty()).collect()
    }

    /// Returns the runs with an injected cause that were diagnosed incorrectly.
    pub fn wrong(&self) -> Vec<&Run> {
        self.planted().filter(|run| !run.is_right() || !run.is_first_right()).collect()
    }

    /// Returns the longest time until all injected causes were named, in seconds.
    pub fn seconds_max(&self) -> f64 {
        self.planted().filter_map(|run| run.seconds).fold(0.0, f64::max)
    }

    /// Returns, for each kind of run, the number of runs and how often each cause was named in
    /// them. The kind is the injected causes, or `healthy`.
    pub fn confusion(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut confusion: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for run in &self.runs {
            let what = if run.expected.is_empty() { "healthy" } else { run.what.as_str() };
            let row = confusion.entry(what.to_owned()).or_default();
            *row.entry("runs".to_owned()).or_default() += 1;
            run.named.iter().for_each(|named| *row.entry(named.clone()).or_default() += 1);
        }
        confusion
    }
}

/// Returns a cause in the input together with a cause on the way to the endpoint. Leaves out pairs
/// of a cause in the timestamps and a slow endpoint: the timestamps are useless while a slow
/// endpoint delays reading.
fn pair(number: u64) -> Play {
    let (input, way) = (INPUT.len() as u64, ON_THE_WAY.len() as u64);
    let (first, second) = (number % input, (number / input + number) % way);
    let plants = vec![&INPUT[first as usize], &ON_THE_WAY[second as usize]];
    let needs_times = ["application_writes_late", "clock_off"].contains(&plants[0].name);
    match needs_times && plants[1].name == "endpoint_slow" {
        true => pair(number + 1),
        false => Play::Planted(plants),
    }
}

fn run(program: &Path, play: &Play, seed: u64) -> Run {
    match play {
        Play::Planted(plants) => planted(program, plants, seed),
        Play::Healthy => healthy(program, seed),
    }
}
