//! `millstream verify`: proves on a host that no data is lost.
//!
//! An agent runs as a child over log files that are written and rotated in different ways. It is
//! killed repeatedly, and the delivered lines are compared with the written lines.

mod agent;
mod drive;
mod endpoint;
mod expire;
mod keep;
mod lines;
mod logfile;
mod progress;
mod rotation;
mod scratch;
mod show;
mod sink;
mod tally;
mod writer;

pub use agent::end_with_parent;

use crate::exit::{DONE, FAILED, USAGE};
use crate::random::{Random, mix};
use agent::Agent;
use drive::{Done, Drive, Plan, drain};
use endpoint::Endpoint;
use lines::Lines;
use millstream_model::Interval;
use rotation::Rotation;
use scratch::Scratch;
use show::Report;
use sink::{Sink, Target};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tally::Tally;

/// The end of the help.
pub const HELP: &str = "Example:\n  \
    millstream verify -d 60s\n  \
    millstream verify -d 5m --dir /var/log --sink kafka://127.0.0.1:9092/verify\n\n\
    The command writes numbered lines to files in a temporary folder, rotates the files, kills and\n\
    stops an agent that delivers the lines, and compares the results line by line. Ctrl-C ends the run\n\
    with the report so far. The rotation expire deletes files while a sink is slow. Lines that only an\n\
    open descriptor held cannot survive a kill; they are counted separately, not as lost.\n\
    The run needs 10 MB of disk space per second at the default rate; a Kafka topic must exist.\n\
    The last line is: lost N repeated N torn N\n\
    Exit status: 0 no line was lost or torn; 1 a line was lost or torn, two lines had the same id, the\n\
    agent counted a wrong number of losses, or the run failed; 2 usage.";

/// Options for `verify`.
#[derive(clap::Args)]
pub struct VerifyArgs {
    /// Duration for which lines are written
    #[arg(short, long, default_value = "60s")]
    duration: Interval,
    /// Destination: file:///PATH or kafka://HOST:PORT/TOPIC [default: a file in the folder]
    #[arg(long, value_name = "URI")]
    sink: Option<Target>,
    /// Total lines per second
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Files written at a time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=99))]
    files: u8,
    /// Kinds of rotation to alternate: rename, date, copytruncate, move, delete, gzip, and expire,
    /// which deletes files while the sink is behind
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "rename,date,copytruncate,move,delete,gzip,expire"
    )]
    rotate: Vec<Rotation>,
    /// Hide lines from the verifier, to test that it notices: lose=N
    #[arg(long, value_name = "lose=N", value_parser = injected)]
    inject: Option<u64>,
    /// Parent of the temporary folder; its file system is tested [default: the system's]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the temporary folder with every rotated file; it is always kept after a failure
    #[arg(long)]
    keep: bool,
    /// Random seed; the same seed repeats a run's choices, but not its timing [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

fn injected(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("lose=").and_then(|number| number.parse().ok());
    number.ok_or_else(|| "use lose= and a number, such as lose=3".into())
}

/// Runs the verification; returns the exit status.
pub fn verify(args: &VerifyArgs) -> u8 {
    let (mut scratch, sink) = match prepare(args) {
        Ok(prepared) => prepared,
        Err((status, message)) => {
            eprintln!("{message}");
            return status;
        }
    };
    let passed = prove(args, &scratch, sink).unwrap_or_else(|message| {
        eprintln!("{message}");
        false
    });
    scratch.keep |= !passed;
    if scratch.keep {
        eprintln!("files are kept in {}", scratch.path.display());
    }
    if passed { DONE } else { FAILED }
}

fn prepare(args: &VerifyArgs) -> Result<(Scratch, Sink), (u8, String)> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::make(&parent, args.keep).map_err(|message| (USAGE, message))?;
    let target = args.sink.clone().unwrap_or_else(|| Target::File(scratch.path.join("out.json")));
    let sink = Sink::open(target).map_err(|message| (FAILED, message))?;
    Ok((scratch, sink))
}

/// Returns whether no line was lost, torn, or delivered with the id of another line.
fn prove(args: &VerifyArgs, scratch: &Scratch, sink: Sink) -> Result<bool, String> {
    let seed = args.seed.unwrap_or_else(|| mix(logfile::now().as_nanos() as u64) % 1_000_000);
    eprintln!("seed {seed}, folder {}", scratch.path.display());
    let plan = Plan {
        duration: args.duration.0,
        rate: args.rate,
        files: args.files.into(),
        rotations: args.rotate.clone(),
        seed,
    };
    let interrupts = crate::interrupts::count()
        .map_err(|error| format!("cannot install signal handlers: {error}"))?;
    let lines = Arc::new(Lines::new(seed));
    let behind = scratch.path.join("behind.json");
    let start = || {
        Endpoint::start(&behind).map_err(|error| format!("cannot start the slow endpoint: {error}"))
    };
    let slow = plan.expires().then(start).transpose()?;
    let mut sinks = vec![sink];
    let mut agent = Agent::start(&scratch.path, &sinks[0], slow.as_ref())?;
    let done = Drive::new(&plan, scratch, &mut agent, &interrupts, &lines, slow.as_ref())?.run()?;
    if slow.is_some() {
        sinks.push(Sink::appended(behind));
    }
    let mut tally = tally_of(&done, &lines);
    tally.hide(args.inject.unwrap_or(0), &mut Random::new(seed));
    drain(&mut agent, &mut sinks, &mut tally, &interrupts)?;
    let interrupted = interrupts.load(Ordering::Relaxed) > 0;
    let (starts, tally) = (agent.starts, &tally);
    let report =
        Report { plan: &plan, scratch, done: &done, starts, tally, lines: &lines, interrupted };
    // A closed pipe does not change the result.
    let _ = io::stdout().write_all(report.text().as_bytes());
    let agrees = report.disagreements().is_empty();
    Ok(tally.lost() == 0 && tally.torn == 0 && tally.shadowed() == 0 && agrees)
}

fn tally_of(done: &Done, lines: &Arc<Lines>) -> Tally {
    let counts = done.written.iter().map(|written| written.lines).collect();
    let mut tally = Tally::new(lines.clone(), counts);
    for file in done.expired.deleted.iter().filter(|file| file.is_at_risk()) {
        tally.excuse(file.writer, file.lines.clone());
    }
    tally
}
