//! Tests files that are renamed and compressed while the agent is killed repeatedly.

use super::config;
use crate::support::{Agent, folder, lines};
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Seconds of writing, rotating and killing.
const SECONDS: TestSize = TestSize { gate: 5, long: 120 };

/// Number of log files of a case.
const FILES: TestSize = TestSize { gate: 4, long: 20 };

/// Number of concurrent cases per test.
const CASES: TestSize = TestSize { gate: 4, long: 2 };

/// Time limit for the next delivery while undelivered lines remain.
const PATIENCE: Duration = Duration::from_secs(60);

/// A log file with its writer, which rotates it like logrotate with `create` and `compress`.
struct Log {
    path: PathBuf,
    file: File,
    name: u64,
    number: usize,
    random: Rng,
}

impl Log {
    fn new(dir: &Path, name: u64, seed: u64) -> Log {
        let path = dir.join(format!("in/app{name}.log"));
        let random = Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(name));
        Log { file: create(&path), path, name, number: 0, random }
    }

    fn write(&mut self, lines: usize) {
        let numbers = self.number..self.number + lines;
        let text: String = numbers.map(|number| line(self.name, number) + "\n").collect();
        self.file.write_all(text.as_bytes()).unwrap();
        self.number += lines;
    }

    fn generation(&self, number: usize, ending: &str) -> PathBuf {
        PathBuf::from(format!("{}.{number}{ending}", self.path.display()))
    }

    /// Shifts the compressed generations, renames the log, continues to write to the renamed file
    /// for a moment, and compresses it.
    fn rotate(&mut self) {
        let oldest = (1..).find(|number| !self.generation(*number, ".gz").exists()).unwrap();
        for number in (1..oldest).rev() {
            fs::rename(self.generation(number, ".gz"), self.generation(number + 1, ".gz")).unwrap();
        }
        let rotated = self.generation(1, "");
        fs::rename(&self.path, &rotated).unwrap();
        self.write_late();
        self.file = create(&self.path);
        let packed = Command::new("gzip").arg("-1f").arg(&rotated).status().unwrap();
        assert!(packed.success(), "gzip {}", rotated.display());
    }

    fn write_late(&mut self) {
        for _ in 0..self.random.u64(..3) {
            let lines = self.random.u64(..100) as usize;
            self.write(lines);
            thread::sleep(Duration::from_millis(self.random.u64(..10)));
        }
    }

    /// Writes and rotates for `time`; returns the number of lines. The first rotation takes place
    /// only after the agent knows all files.
    fn run(mut self, time: Duration, are_known: &AtomicBool) -> usize {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let rotation = Instant::now() + Duration::from_millis(300 + self.random.u64(..1200));
            while Instant::now() < rotation || !are_known.load(Ordering::Relaxed) {
                let lines = 1 + self.random.u64(..60) as usize;
                self.write(lines);
                thread::sleep(Duration::from_millis(10));
            }
            self.rotate();
        }
        self.write(10);
        self.number
    }
}

fn create(path: &Path) -> File {
    OpenOptions::new().create_new(true).append(true).open(path).unwrap()
}

/// Returns the beginning of each line of a file.
fn file(name: u64) -> String {
    format!("file {name:02} ")
}

fn line(name: u64, number: usize) -> String {
    format!("{}line {number:07} and some words behind it", file(name))
}

/// Starts the agent for the first time, and waits until it has delivered a line of every file.
/// Before that, the agent does not search for the rotated names of a file.
fn start(dir: &Path, config: &str) -> Agent {
    let agent = Agent::start(dir, config, &[]);
    let is_known = |name: u64| delivered(dir).keys().any(|line| line.starts_with(&file(name)));
    while !(0..FILES.per_case()).all(is_known) {
        thread::sleep(Duration::from_millis(20));
    }
    agent
}

/// Kills the agent after a random time and restarts it after another random time, until the writers
/// are finished.
fn kill_while(
    mut agent: Agent,
    dir: &Path,
    config: &str,
    seed: u64,
    writers: &[JoinHandle<usize>],
) {
    let mut random = Rng::with_seed(seed);
    let pause = |ms: u64| thread::sleep(Duration::from_millis(ms));
    while writers.iter().any(|writer| !writer.is_finished()) {
        agent.kill();
        pause(random.u64(..1200));
        agent = Agent::start(dir, config, &[]);
        pause(150 + random.u64(..1350));
    }
    agent.kill();
}

/// Returns the ids with which each line was delivered.
fn delivered(dir: &Path) -> HashMap<String, HashSet<String>> {
    let mut delivered = HashMap::<String, HashSet<String>>::new();
    for event in lines(&dir.join("out.json")) {
        // The last line may be incomplete while the file is being written.
        let Ok(event) = serde_json::from_str::<serde_json::Value>(&event) else { continue };
        let id = event["meta"]["id"].as_str().unwrap().to_owned();
        delivered.entry(event["message"].as_str().unwrap().to_owned()).or_default().insert(id);
    }
    delivered
}

/// Runs one case. The error describes the lost and repeated lines.
fn play(include: &str, seed: u64) -> Result<(), String> {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let config = config(include);
    let time = Duration::from_secs(SECONDS.per_case());
    let logs = (0..FILES.per_case()).map(|name| Log::new(dir.path(), name, seed));
    let are_known = Arc::new(AtomicBool::new(false));
    let spawn = |log: Log| {
        let are_known = are_known.clone();
        thread::spawn(move || log.run(time, &are_known))
    };
    let writers: Vec<JoinHandle<usize>> = logs.map(spawn).collect();
    let agent = start(dir.path(), &config);
    are_known.store(true, Ordering::Relaxed);
    kill_while(agent, dir.path(), &config, seed, &writers);
    let counts: Vec<usize> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    let numbers =
        |(name, count): (usize, &usize)| (0..*count).map(move |number| line(name as u64, number));
    let written: Vec<String> = counts.iter().enumerate().flat_map(numbers).collect();
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_for(dir.path(), &written);
    agent.stop();
    judge(seed, &written, &delivered(dir.path()), &agent)
}

/// Waits until all lines are delivered, or until nothing has been delivered for a long time.
fn wait_for(dir: &Path, written: &[String]) {
    let size = || fs::metadata(dir.join("out.json")).map_or(0, |meta| meta.len());
    let (mut last, mut grown) = (size(), Instant::now());
    while grown.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(700));
        let now = size();
        if now != last {
            (last, grown) = (now, Instant::now());
            continue;
        }
        let out = delivered(dir);
        if written.iter().all(|line| out.contains_key(line)) {
            return;
        }
    }
}

fn judge(
    seed: u64,
    written: &[String],
    out: &HashMap<String, HashSet<String>>,
    agent: &Agent,
) -> Result<(), String> {
    let lost: Vec<&String> = written.iter().filter(|line| !out.contains_key(*line)).collect();
    let repeated: Vec<&String> =
        written.iter().filter(|line| out.get(*line).is_some_and(|ids| ids.len() > 1)).collect();
    if lost.is_empty() && repeated.is_empty() {
        return Ok(());
    }
    if let Some(folder) = std::env::var_os("CRASH_LOGS") {
        fs::write(Path::new(&folder).join(format!("{seed}.log")), agent.log()).unwrap();
        fs::write(
            Path::new(&folder).join(format!("{seed}.lost")),
            format!("{lost:#?}\n{repeated:#?}"),
        )
        .unwrap();
    }
    Err(format!(
        "seed {seed}: of {} lines {} are lost, such as {:?}, and {} came under several ids, such as {:?}",
        written.len(),
        lost.len(),
        lost.first(),
        repeated.len(),
        repeated.first()
    ))
}

/// Runs all cases concurrently.
fn run(include: &str) {
    let first = Seed::of_test_or(1);
    let seeds: Vec<u64> = (0..CASES.get()).map(|case| first.value().wrapping_add(case)).collect();
    first.count(CASES.get());
    let played: Vec<Result<(), String>> = thread::scope(|scope| {
        let play = |seed: &u64| play(include, *seed);
        let threads: Vec<_> = seeds.iter().map(|seed| scope.spawn(move || play(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut failures = Vec::new();
    for (seed, result) in seeds.iter().zip(played) {
        failures.extend(result.err().inspect(|_| first.set_value(*seed)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn nothing_is_lost_over_crashes_with_rotated_names_matched() {
    run("['DIR/in/*.log*']");
}

#[test]
fn nothing_is_lost_over_crashes_with_rotated_names_not_matched() {
    run("['DIR/in/*.log']");
}
