//! Plays corpora and changes of them until the time is up.

use clap::Parser;
use millstream_fuzz::{
    Crash, Mutator, Random, TARGETS, Target, corpus, folder, smallest, try_input,
};
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Gives the corpus of a target and random changes of it to the target. Inputs at which it panics
/// are made small and kept in fuzz/crashes.
#[derive(Parser)]
struct Options {
    /// Only this target; all, one after the other, if none is given.
    target: Option<String>,
    /// How long each target is played, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Where the random numbers begin; from the clock if it is not given.
    #[arg(long)]
    seed: Option<u64>,
}

/// Different failures of a target that are kept before the next one gets its turn.
const CRASHES_MAX: usize = 10;

fn main() -> ExitCode {
    let options = Options::parse();
    let is_chosen =
        |target: &&Target| options.target.as_ref().is_none_or(|name| name == target.name);
    let chosen: Vec<&Target> = TARGETS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("there is no such target; write one of {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seed = options.seed.unwrap_or(since_1970.as_secs());
    println!("seed {seed}; inputs are not guided by the code that they reach");
    // What a target says is told once it is small.
    std::panic::set_hook(Box::new(|_| {}));
    let crashes: usize =
        chosen.iter().map(|target| play(target, seed, Duration::from_secs(options.seconds))).sum();
    if crashes == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays one target, and tells what came of it; how many inputs failed.
fn play(target: &Target, seed: u64, time: Duration) -> usize {
    let entries: Vec<Vec<u8>> = match corpus(target) {
        Ok(entries) => entries.into_iter().map(|(_, entry)| entry).collect(),
        Err(error) => {
            println!("{}: its corpus cannot be read: {error}", target.name);
            return 1;
        }
    };
    let (begin, mut tried, mut crashes, mut slowest) = (Instant::now(), 0_u64, 0, Duration::ZERO);
    let mut mutator = Mutator::new(&entries, target.words, seed);
    let mut corpus = entries.iter();
    while begin.elapsed() < time && crashes < CRASHES_MAX {
        let input = corpus.next().cloned().unwrap_or_else(|| mutator.input());
        let start = Instant::now();
        if let Err(crash) = try_input(target, &input) {
            crashes += 1;
            keep(target, &input, &crash);
        }
        slowest = slowest.max(start.elapsed());
        tried += 1;
    }
    let rate = tried as f64 / begin.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
    println!(
        "{:12} {tried:>9} inputs, {rate:>8.0}/s, slowest {:>7.1} ms, {crashes} failed",
        target.name,
        slowest.as_secs_f64() * 1e3
    );
    crashes
}

/// Keeps an input that failed, as small as it can be made.
fn keep(target: &Target, input: &[u8], crash: &Crash) {
    let small = smallest(target, input);
    let crash = try_input(target, &small).err().unwrap_or_else(|| crash.clone());
    let name = format!("{}-{:012x}", target.name, Random::of(&small).draw());
    let path = folder("crashes").join(name);
    let kept = fs::create_dir_all(folder("crashes")).and_then(|()| fs::write(&path, &small));
    println!("{}: {crash}\n  {}", target.name, String::from_utf8_lossy(&small).escape_debug());
    match kept {
        Ok(()) => println!("  kept as {}", path.display()),
        Err(error) => println!("  it could not be kept as {}: {error}", path.display()),
    }
}
