//! The agent over one big file, with a client of its API beside it.

use crate::Options;
use crate::header::Header;
use crate::measure::pinned;
use crate::process::{Program, Subject};
use crate::scratch::{Input, Scratch};
use crate::variables::Variables;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two attempts of a client to reach an agent that is just starting.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(20);

/// A client that runs for so long was answered.
const ANSWERED_AFTER: Duration = Duration::from_millis(500);

/// An agent to be measured.
pub struct Beside<'a> {
    /// The scenario.
    pub scenario: &'a Header,
    /// Its configuration.
    pub config: &'a str,
    /// Its environment.
    pub env: &'a str,
    /// A command of the agent that asks it from its start to its end, without the one for its folder.
    pub client: Option<&'a [&'a str]>,
}

impl Beside<'_> {
    /// Returns the CPU time per event of the second half, so without the start, in nanoseconds.
    ///
    /// # Errors
    ///
    /// An event is missing, or the client did not run until the end.
    pub fn ns_per_event(
        &self,
        options: &Options,
        input: &Input,
        scratch: &Scratch,
    ) -> io::Result<f64> {
        let variables = Variables::fresh(scratch, &input.path)?;
        let mut subject = Subject::agent(&options.agent, "--until-eof", self.scenario);
        (subject.config, subject.env) = (self.config, self.env);
        let program = Program::start(&subject, &variables, &[options.core])?;
        let points = match self.client {
            Some(args) => asked(options, args, &program, &variables.path("DATA"))?,
            None => program.progress()?,
        };
        let outcome = program.wait(input.lines)?;
        let (events, seconds) = points[points.len() - 1];
        if outcome.lines != input.lines || events == 0 {
            let lines = outcome.lines;
            return Err(io::Error::other(format!("{lines} of {} lines are counted", input.lines)));
        }
        let is_half = |(reached, _): &&(u64, f64)| *reached >= events / 2;
        let (half_events, half_seconds) = points.iter().find(is_half).copied().unwrap_or_default();
        Ok((seconds - half_seconds) * 1e9 / (events - half_events) as f64)
    }
}

/// Lets a client ask the agent from its start to its end.
fn asked(
    options: &Options,
    args: &[&str],
    program: &Program,
    data_dir: &Path,
) -> io::Result<Vec<(u64, f64)>> {
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = scope.spawn(|| ask_until(&has_ended, options, args, data_dir));
        let points = program.progress();
        has_ended.store(true, Ordering::Release);
        let has_asked = client.join().unwrap_or_else(|_| Err(io::Error::other("a panic")))?;
        match has_asked {
            true => points,
            false => Err(io::Error::other("the client did not reach the agent")),
        }
    })
}

/// Starts a client as soon as the agent answers. The agent's end ends it. Returns whether it ran for
/// as long as a client runs that is answered.
fn ask_until(
    has_ended: &AtomicBool,
    options: &Options,
    args: &[&str],
    data_dir: &Path,
) -> io::Result<bool> {
    let mut longest = Duration::ZERO;
    while !has_ended.load(Ordering::Acquire) {
        let mut client = client(options, args, data_dir)?;
        let begun = Instant::now();
        while client.try_wait()?.is_none() && !has_ended.load(Ordering::Acquire) {
            thread::sleep(ATTEMPT_PAUSE);
        }
        longest = longest.max(begun.elapsed());
        client.kill()?;
        client.wait()?;
    }
    Ok(longest >= ANSWERED_AFTER)
}

fn client(options: &Options, args: &[&str], data_dir: &Path) -> io::Result<Child> {
    let mut command = Command::new(&options.agent);
    command.args(args).arg("--data-dir").arg(data_dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    pinned(&[options.load_core], || command.spawn())
}
