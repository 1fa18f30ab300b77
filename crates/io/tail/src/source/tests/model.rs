//! Model test: random operations on files and the agent, in any order; the output is compared with
//! the written lines.
//!
//! A failure prints its seed and the shortest failing list of operations. `MODEL_LOG=1` prints the
//! agent's own log.

mod disk;
mod found;
mod oracle;
mod world;

use super::*;
use disk::{Heads, NAMES};
use millstream_testkit_random::{Seed, TestSize};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use world::World;

/// Number of cases with all operations.
const CASES: TestSize = TestSize { gate: 500, long: 50_000 };

/// Number of cases with rotations.
const ROTATIONS: TestSize = TestSize { gate: 200, long: 20_000 };

/// Number of concurrent cases. Each case mostly waits for the kernel to close its inotify instance.
const THREADS: usize = 8;

/// Maximum number of operations in a case.
const OPERATIONS_MAX: usize = 40;

/// An operation on files or the agent. A leading `usize` is the index of a log in [`NAMES`].
#[derive(Clone, Debug)]
enum Operation {
    /// Appends complete lines; a late writer appends to the most recently renamed file.
    Append(usize, Late, usize),
    /// Appends the beginning of a line.
    Begin(usize, Late),
    /// Appends the end of a line.
    Complete(usize, Late),
    /// Renames `.1` to `.2` and so on, and the log to `.1`.
    Rotate(usize),
    /// Renames the log to a name with a date.
    Date(usize),
    /// Copies and truncates, with or without a poll in between.
    CopyTruncate(usize, bool),
    /// Copies and truncates; the copy gets its name only through `Appear`, at a start, or before a
    /// long pause.
    CopyAway(usize),
    Appear,
    /// Truncates the file, and writes content of this size.
    Rewrite(usize, Size),
    Delete(usize),
    /// Deletes and recreates the file. If the file system reuses the inode number, an agent that
    /// was down cannot distinguish this from `Rewrite`.
    Replace(usize),
    HardLink(usize),
    /// Points the log's symlink at a new file.
    Switch,
    /// Compresses a rotated file, immediately or slowly, then deletes the original.
    Compress(usize, bool),
    Poll(usize),
    /// Advances the time by this many milliseconds.
    Advance(u64),
    /// Delivers batches in flight.
    Deliver(usize),
    /// Abandons a batch in flight; the flag is true if its content is the cause.
    Lose(bool),
    Commit,
    /// Removes the files that the agent holds.
    RemoveHeld,
    Stop(Ending),
    Start,
    /// Polls and advances time until nothing is pending, and delivers everything.
    Settle,
}

/// How the agent stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// All data in flight is delivered.
    Drained,
    /// No data in flight is delivered before the deadline.
    TimedOut,
    Killed,
}

/// Whether the writer still has the renamed file open.
type Late = bool;

/// Size of a file's new content, compared with the old size.
#[derive(Clone, Copy, Debug)]
enum Size {
    Same,
    Longer,
    Shorter,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let name = || 0..NAMES.len();
    let late = || prop::bool::weighted(0.15);
    let size = prop::sample::select(vec![Size::Same, Size::Longer, Size::Shorter]);
    let pause = prop::sample::select(vec![60, 200, 1100, 2500, 6000, 12_000, 35_000]);
    let files = prop_oneof![
        12 => (name(), late(), 1..40usize).prop_map(|(name, late, lines)| Append(name, late, lines)),
        3 => (name(), late()).prop_map(|(name, late)| Begin(name, late)),
        2 => (name(), late()).prop_map(|(name, late)| Complete(name, late)),
        4 => name().prop_map(Rotate),
        1 => name().prop_map(Date),
        4 => (name(), any::<bool>()).prop_map(|(name, polled)| CopyTruncate(name, polled)),
        2 => name().prop_map(CopyAway),
        2 => Just(Appear),
        3 => (name(), size).prop_map(|(name, size)| Rewrite(name, size)),
        1 => name().prop_map(Delete),
        2 => name().prop_map(Replace),
        1 => name().prop_map(HardLink),
        1 => Just(Switch),
        2 => (name(), any::<bool>()).prop_map(|(name, slowly)| Compress(name, slowly)),
    ];
    let agent = prop_oneof![
        8 => (1..4usize).prop_map(Poll),
        5 => pause.prop_map(Advance),
        5 => (1..4usize).prop_map(Deliver),
        2 => any::<bool>().prop_map(Lose),
        3 => Just(Commit),
        1 => Just(RemoveHeld),
        3 => ending().prop_map(Stop),
        4 => Just(Start),
        2 => Just(Settle),
    ];
    prop_oneof![files, agent]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop::sample::select(vec![Ending::Drained, Ending::TimedOut, Ending::Killed])
}

fn heads() -> impl Strategy<Value = Heads> {
    prop_oneof![2 => Just(Heads::Differ), 1 => Just(Heads::Short), 1 => Just(Heads::Long)]
}

/// How deleted files are retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    /// By hard links.
    Links,
    /// By open descriptors, and by copies at a clean shutdown, because no link can be created.
    Copies,
    /// By hard links, with space for one file.
    Little,
}

fn holding() -> impl Strategy<Value = Holding> {
    prop_oneof![3 => Just(Holding::Links), 2 => Just(Holding::Copies), 1 => Just(Holding::Little)]
}

/// Returns operations on logs of which only the current names are included; the files are renamed
/// and compressed while the agent is up or down.
fn rotation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let name = || 0..NAMES.len() - 1;
    let pause = prop::sample::select(vec![60, 200, 1100, 2500, 12_000, 35_000]);
    prop_oneof![
        10 => (name(), 1..40usize).prop_map(|(name, lines)| Append(name, false, lines)),
        6 => name().prop_map(Rotate),
        6 => name().prop_map(|name| Compress(name, false)),
        5 => (1..4usize).prop_map(Poll),
        4 => pause.prop_map(Advance),
        4 => (1..4usize).prop_map(Deliver),
        3 => Just(Commit),
        4 => ending().prop_map(Stop),
        4 => Just(Start),
        2 => Just(Settle),
    ]
}

/// Which idle files are finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finishing {
    All,
    AllButTwo,
    Nothing,
}

fn finishing() -> impl Strategy<Value = Finishing> {
    prop_oneof![
        2 => Just(Finishing::All),
        1 => Just(Finishing::AllButTwo),
        1 => Just(Finishing::Nothing),
    ]
}

/// Runs one case of [`rotation`] operations, after the agent has seen every name.
fn play_rotations(finishing: Finishing, operations: &[Operation]) -> Result<(), String> {
    let mut world = World::over("*.log", Heads::Differ, Holding::Links, finishing);
    let begin = (0..NAMES.len()).map(|name| Operation::Append(name, false, 1));
    for operation in begin.chain([Operation::Settle]).chain(operations.iter().cloned()) {
        world.step(&operation)?;
    }
    world.finish()
}

/// Runs one case.
fn play(
    heads: Heads,
    holding: Holding,
    finishing: Finishing,
    operations: &[Operation],
) -> Result<(), String> {
    let mut world = World::over("*.log*", heads, holding, finishing);
    for operation in operations {
        world.step(operation)?;
    }
    world.finish()
}

/// Runs the case of one seed. If it fails, returns an error with the shortest failing case.
fn try_seed(seed: u64) -> Result<(), String> {
    let cases = (heads(), holding(), finishing(), vec(operation(), 1..OPERATIONS_MAX));
    try_cases(seed, cases, |(heads, holding, finishing, operations)| {
        play(*heads, *holding, *finishing, operations)
    })
}

/// Runs the case for one seed with rotation operations, like [`try_seed`].
fn try_rotations(seed: u64) -> Result<(), String> {
    let cases = (finishing(), vec(rotation(), 1..OPERATIONS_MAX));
    try_cases(seed, cases, |(finishing, operations)| play_rotations(*finishing, operations))
}

fn try_cases<S: Strategy>(
    seed: u64,
    cases: S,
    play: impl Fn(&S::Value) -> Result<(), String>,
) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = ProptestConfig {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let played = runner.run(&cases, |case| play(&case).map_err(TestCaseError::fail));
    played.map_err(|error| match error {
        TestError::Fail(reason, case) => format!("{reason}\nwith {case:#?}"),
        TestError::Abort(reason) => reason.to_string(),
    })
}

/// Prints the log of the agent.
struct AgentLog;

impl log::Log for AgentLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{}", record.args());
    }

    fn flush(&self) {}
}

#[test]
fn every_readable_line_is_emitted_with_one_id() {
    play_all(CASES, try_seed);
}

#[test]
fn unseen_generations_are_read_once() {
    play_all(ROTATIONS, try_rotations);
}

/// Runs cases on several threads until one fails.
fn play_all(cases: TestSize, try_seed: impl Fn(u64) -> Result<(), String> + Sync) {
    if std::env::var_os("MODEL_LOG").is_some() {
        log::set_max_level(log::LevelFilter::Debug);
        _ = log::set_logger(&AgentLog);
    }
    let seeds = Seed::of_test_or(0);
    let end = seeds.value().saturating_add(cases.get());
    let (next, failed) = (AtomicU64::new(seeds.value()), AtomicBool::new(false));
    let play = || {
        while !failed.load(Relaxed) {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                return Ok(());
            }
            seeds.count(1);
            try_seed(seed).map_err(|error| {
                failed.store(true, Relaxed);
                (seed, error)
            })?;
        }
        Ok(())
    };
    let played: Vec<Result<(), (u64, String)>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(play)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let failures: Vec<(u64, String)> = played.into_iter().filter_map(Result::err).collect();
    failures.iter().for_each(|(seed, _)| seeds.set_value(*seed));
    let texts: Vec<String> =
        failures.iter().map(|(seed, text)| format!("seed {seed}: {text}")).collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
}
