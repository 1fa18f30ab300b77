//! Measures the agent over one big file while a client uses its API.

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

/// Pause between a client's attempts to reach an agent that is starting.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(20);

/// Minimum duration of a client that received responses. An earlier exit means that the client
/// could not reach the agent.
const ANSWERED_AFTER: Duration = Duration::from_millis(500);

/// An agent to be measured.
pub struct Beside<'a> {
    /// Scenario to run.
    pub scenario: &'a Header,
    /// Configuration of the agent.
    pub config: &'a str,
    /// Environment of the agent.
    pub env: &'a str,
    /// Arguments of the agent's client command that runs during the measurement, without the option
    /// for the data folder.
    pub client: Option<&'a [&'a str]>,
}

impl Beside<'_> {
    /// Returns the CPU time per event in nanoseconds, for the second half of the input, which
    /// excludes the start.
    ///
    /// # Errors
    ///
    /// Returns an error if an event is missing, or if the client did not reach the agent.
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

/// Runs a client from the start of the agent until the agent exits. Returns the agent's
/// [`Program::progress`].
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

/// Starts a client, and starts it again when it exits, until the agent has ended. Returns whether a
/// client ran long enough to have received responses.
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
