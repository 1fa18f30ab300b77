//! The run: writers, rotations, kills, and the waits that make deleting a file fair.

use super::agent::Agent;
use super::endpoint::Endpoint;
use super::expire::{End, Expired, Expiry};
use super::lines::Lines;
use super::logfile::Written;
use super::progress::Progress;
use super::rotation::Rotation;
use super::scratch::Scratch;
use super::sink::Sink;
use super::tally::Tally;
use super::writer::Writer;
use crate::random::{Random, mix};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Tick of the run.
const TICK: Duration = Duration::from_millis(5);

/// Shortest time between two rotations, and the random part added to it, in milliseconds.
const ROTATE_MS: Range<u64> = 150..350;

/// Shortest time between two exits of the agent, and the random part added to it, in milliseconds.
const END_MS: Range<u64> = 500..2000;

/// One exit in this many is caused by SIGTERM, all other exits by SIGKILL.
const TERM_ONE_IN: u64 = 4;

/// Longest downtime after a kill, in milliseconds.
const AWAY_MS_MAX: u64 = 400;

/// Interval between pauses of all writers, in which files can be deleted.
const REST_EVERY: Duration = Duration::from_secs(15);

/// Longest time between two rounds of [`Rotation::Expire`]; a quarter of a short run.
const EXPIRE_EVERY: Duration = Duration::from_secs(10);

/// How long the lag must be zero before the agent has certainly found every file.
const KNOWN_AFTER: Duration = Duration::from_secs(1);

/// How long the lag must be zero before the checkpoints are certain to include all lines.
/// Checkpoints are committed once a second.
const SAVED_AFTER: Duration = Duration::from_millis(2500);

/// Timeout for the delivery of all lines.
const REST_MAX: Duration = Duration::from_secs(60);

/// At the end: time without progress after which missing lines are treated as lost.
const DRAIN_MAX: Duration = Duration::from_secs(20);

/// At the end: time to wait for repeated lines after every line has arrived.
const REPEATS_MAX: Duration = Duration::from_millis(1500);

/// The plan of a run.
pub struct Plan {
    /// Writing time.
    pub duration: Duration,
    /// Lines per second of all writers.
    pub rate: u64,
    /// Number of writers.
    pub files: usize,
    /// Rotations to alternate.
    pub rotations: Vec<Rotation>,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Plan {
    /// Returns whether files are deleted while the sink is behind.
    pub fn expires(&self) -> bool {
        self.rotations.contains(&Rotation::Expire)
    }
}

/// The writes and actions of a run.
pub struct Done {
    /// Lines that each writer has written. The writers of [`Rotation::Expire`] come last.
    pub written: Vec<Written>,
    /// Other actions.
    pub deeds: Deeds,
    /// Files deleted while the sink was behind.
    pub expired: Expired,
}

/// Actions other than writing.
#[derive(Debug, Default)]
pub struct Deeds {
    /// Number of rotations, one entry per kind.
    pub rotations: Vec<Rotation>,
    /// Number of SIGKILLs.
    pub kills: u64,
    /// Number of SIGTERMs.
    pub stops: u64,
    /// Exits of the agent while it held deleted files.
    pub rounds: Vec<End>,
    /// Number of times that some lines were not delivered within a minute without writing.
    pub unrest: u64,
    /// Total duration of pauses.
    pub resting: Duration,
}

/// A run in progress.
pub struct Drive<'a> {
    plan: &'a Plan,
    scratch: &'a Scratch,
    agent: &'a mut Agent,
    interrupts: &'a AtomicUsize,
    writers: Vec<Writer>,
    expiry: Option<Expiry<'a>>,
    random: Random,
    begun: Instant,
    deeds: Deeds,
}

impl<'a> Drive<'a> {
    /// Starts the writers.
    pub fn new(
        plan: &'a Plan,
        scratch: &'a Scratch,
        agent: &'a mut Agent,
        interrupts: &'a AtomicUsize,
        lines: &Arc<Lines>,
        slow: Option<&'a Endpoint>,
    ) -> Result<Drive<'a>, String> {
        let rate = plan.rate as f64 / plan.files as f64;
        let start = |index| Writer::start(&scratch.path, index, rate, lines.clone(), plan.seed);
        let writers = (0..plan.files).map(start).collect::<Result<_, _>>().map_err(writing)?;
        let create = |endpoint| {
            Expiry::create(&scratch.path, plan.files, lines, plan.seed, endpoint, interrupts)
        };
        let expiry = slow.map(create).transpose().map_err(writing)?;
        let random = Random::new(mix(plan.seed));
        Ok(Drive {
            plan,
            scratch,
            agent,
            interrupts,
            writers,
            expiry,
            random,
            begun: Instant::now(),
            deeds: Deeds::default(),
        })
    }

    /// Writes, rotates and kills until the time has elapsed or Ctrl-C is pressed. Returns the
    /// writes and actions.
    pub fn run(mut self) -> Result<Done, String> {
        let mut progress = Progress::new();
        let mut rotate_at = self.later(ROTATE_MS);
        let mut end_at = self.later(END_MS);
        let mut rest_at = Instant::now() + REST_EVERY.min(self.plan.duration / 2);
        let mut expire_at = self.next_round();
        while self.begun.elapsed() < self.plan.duration
            && self.interrupts.load(Ordering::Relaxed) == 0
        {
            std::thread::sleep(TICK);
            self.agent.look()?;
            let now = Instant::now();
            if rotate_at <= now {
                self.rotate()?;
                rotate_at = self.later(ROTATE_MS);
            }
            if end_at <= now && self.agent.is_up() {
                self.end_agent();
                end_at = self.later(END_MS);
            }
            if expire_at <= now {
                self.expire()?;
                expire_at = self.next_round();
            }
            if rest_at <= now {
                self.rest()?;
                rest_at = Instant::now() + REST_EVERY;
            }
            progress.show(|| self.state());
        }
        self.end()
    }

    fn end(self) -> Result<Done, String> {
        let ended: Result<Vec<Written>, _> = self.writers.into_iter().map(Writer::end).collect();
        let mut written = ended.map_err(writing)?;
        let mut expired =
            self.expiry.map_or_else(Expired::default, |expiry| expiry.end(&self.agent.log()));
        written.append(&mut expired.written);
        Ok(Done { written, deeds: self.deeds, expired })
    }

    fn next_round(&self) -> Instant {
        Instant::now() + EXPIRE_EVERY.min(self.plan.duration / 4)
    }

    /// Lets files expire while the sink is behind, and stops the agent while the agent holds the
    /// files, with SIGKILL and with SIGTERM.
    fn expire(&mut self) -> Result<(), String> {
        [End::Kill, End::Stop].into_iter().try_for_each(|end| self.expire_and_end(end))
    }

    fn expire_and_end(&mut self, end: End) -> Result<(), String> {
        let Some(expiry) = &mut self.expiry else { return Ok(()) };
        self.agent.await_up()?;
        let rotations = expiry.run_round(self.agent)?;
        self.deeds.rotations.extend(std::iter::repeat_n(Rotation::Expire, rotations));
        if self.interrupts.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        match end {
            End::Kill => self.kill_agent(),
            End::Stop => self.stop_agent(),
        }
        self.deeds.rounds.push(end);
        self.expiry.iter_mut().for_each(|expiry| expiry.ended(end));
        self.agent.await_up()
    }

    /// Returns a random time in the future, within a range in milliseconds.
    fn later(&mut self, ms: Range<u64>) -> Instant {
        let random = self.random.below(ms.end - ms.start);
        Instant::now() + Duration::from_millis(ms.start + random)
    }

    fn state(&self) -> String {
        let lines: u64 = self.writers.iter().map(Writer::lines).sum();
        let Deeds { rotations, kills, stops, .. } = &self.deeds;
        format!(
            "{:.0} s: {lines} lines written, {} rotations, {kills} kills, {stops} stops",
            self.begun.elapsed().as_secs_f64(),
            rotations.len()
        )
    }

    /// Alternates files and rotations so that each file goes through each kind of rotation.
    /// [`Drive::rest`] handles deletions, and [`Rotation::Expire`] has separate logs.
    fn rotate(&mut self) -> Result<(), String> {
        let is_in_turn = |kind: &Rotation| !matches!(kind, Rotation::Delete | Rotation::Expire);
        let kinds: Vec<Rotation> = self.plan.rotations.iter().copied().filter(is_in_turn).collect();
        if kinds.is_empty() {
            return Ok(());
        }
        let (turn, files) = (self.deeds.rotations.len(), self.writers.len());
        let kind = kinds[(turn % files + turn / files) % kinds.len()];
        self.writers[turn % files].rotate(kind).map_err(writing)?;
        self.deeds.rotations.push(kind);
        Ok(())
    }

    fn end_agent(&mut self) {
        // The first exit is a kill, so that a short run also has one.
        if self.deeds.kills > 0 && self.random.below(TERM_ONE_IN) == 0 {
            self.stop_agent();
        } else {
            self.kill_agent();
        }
    }

    fn stop_agent(&mut self) {
        self.deeds.stops += 1;
        self.agent.terminate();
    }

    fn kill_agent(&mut self) {
        self.deeds.kills += 1;
        self.agent.kill(Duration::from_millis(self.random.below(AWAY_MS_MAX)));
    }

    /// Deletes a file that the agent has not read to its end, and the rotated files. No agent can
    /// deliver a file that is deleted while no agent is running or before the agent has found it.
    /// Therefore all lines are delivered first, and there is no kill until the deleted data is also
    /// delivered.
    fn rest(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        self.writers.iter().try_for_each(Writer::pause).map_err(writing)?;
        let deletes = self.plan.rotations.contains(&Rotation::Delete);
        if self.settled(KNOWN_AFTER)? && deletes {
            let file = self.random.below(self.writers.len() as u64) as usize;
            self.writers[file].rotate(Rotation::Delete).map_err(writing)?;
            self.deeds.rotations.push(Rotation::Delete);
        }
        match self.settled(SAVED_AFTER)? {
            true => self.scratch.sweep().map_err(writing)?,
            false => self.deeds.unrest += 1,
        }
        self.deeds.resting += begun.elapsed();
        self.writers.iter().try_for_each(Writer::resume).map_err(writing)
    }

    /// Waits until the lag has been zero for `quiet` while the agent was running. Returns `false`
    /// after [`REST_MAX`] or an interrupt.
    fn settled(&mut self, quiet: Duration) -> Result<bool, String> {
        let (begun, mut since) = (Instant::now(), None);
        while begun.elapsed() < REST_MAX && self.interrupts.load(Ordering::Relaxed) == 0 {
            self.agent.look()?;
            let is_still = self.agent.is_up() && self.agent.lag() == Some(0);
            since = if is_still { since.or(Some(Instant::now())) } else { None };
            if since.is_some_and(|since| since.elapsed() >= quiet) {
                return Ok(true);
            }
            std::thread::sleep(TICK * 10);
        }
        Ok(false)
    }
}

/// Reads back until every line has arrived or there is no more progress, then stops the agent.
pub fn drain(
    agent: &mut Agent,
    sinks: &mut [Sink],
    tally: &mut Tally,
    interrupts: &AtomicUsize,
) -> Result<(), String> {
    let reading = |error| format!("cannot read the delivered events: {error}");
    let (mut heard, before) = (Instant::now(), interrupts.load(Ordering::Relaxed));
    let mut progress = Progress::new();
    // After a kill, the restarted agent truncates a file to its synced length. No line is read
    // before that.
    let mut has_started = false;
    loop {
        agent.look()?;
        has_started = has_started || agent.is_up() && agent.lag().is_some();
        for sink in sinks.iter_mut().filter(|_| has_started) {
            if sink.read(|event| tally.count(event)).map_err(reading)? > 0 {
                heard = Instant::now();
            }
        }
        let limit = if tally.is_complete() { REPEATS_MAX } else { DRAIN_MAX };
        if heard.elapsed() > limit || interrupts.load(Ordering::Relaxed) > before {
            break;
        }
        progress.show(|| format!("reading back: {} of {} lines", tally.found, tally.written()));
        std::thread::sleep(TICK * 10);
    }
    agent.stop()?;
    for sink in sinks {
        sink.read(|event| tally.count(event)).map_err(reading)?;
    }
    Ok(())
}

fn writing(error: std::io::Error) -> String {
    format!("cannot write the log files: {error}")
}
