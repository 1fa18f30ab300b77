//! Runs a program under measurement: starts it on its cores, watches it from outside, and measures
//! it by the lines that it delivers.

use crate::delivered::{self, Delivered};
use crate::header::Header;
use crate::measure::pinned;
use crate::variables::Variables;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout for a run.
const RUN_MAX: Duration = Duration::from_secs(300);
/// Time without delivery after which a program counts as failed.
const STALLED: Duration = Duration::from_secs(20);
/// Duration of a run over an empty input, for a program that does not exit by itself.
const EMPTY_RUN: Duration = Duration::from_millis(1500);
/// Interval at which the log of a running program is read.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(10);
/// Pattern of the number of events in the log of the agent's blackhole sink.
const TOTAL: &str = "total #";

/// A program with its configuration: the agent with a scenario, or a peer.
pub struct Subject<'a> {
    /// Name of the program in the results.
    pub name: &'a str,
    /// Command line, in which variables are replaced.
    pub run: String,
    /// Location where the program shows its progress, if it does not exit by itself.
    pub until: &'a str,
    /// Environment variables as `NAME=value`, separated by spaces.
    pub env: &'a str,
    /// Text of the configuration.
    pub config: &'a str,
}

impl<'a> Subject<'a> {
    /// Returns the agent with a scenario's configuration.
    pub fn agent(agent: &Path, arguments: &str, scenario: &'a Header) -> Self {
        let run = format!("{} run -c ${{BENCH_CONFIG}} {arguments}", agent.display());
        Subject { name: AGENT, run, until: "", env: "", config: &scenario.config }
    }

    /// Returns a peer from its part of the scenario.
    pub fn peer(part: &'a Header) -> Self {
        let run = part.text("run").to_owned();
        Subject {
            name: &part.name,
            run,
            until: part.text("until"),
            env: part.text("env"),
            config: &part.config,
        }
    }

    /// Returns whether the program can be started.
    pub fn is_installed(&self) -> bool {
        let program = self.run.split_whitespace().next().unwrap_or_default();
        let folders = std::env::var_os("PATH").unwrap_or_default();
        Path::new(program).is_file()
            || std::env::split_paths(&folders)
                .chain(["/usr/sbin".into()])
                .any(|f| f.join(program).is_file())
    }
}

/// Name of the agent in the results.
pub const AGENT: &str = "millstream";

/// A running program, killed on drop.
pub struct Program {
    name: String,
    child: Child,
    pidfd: OwnedFd,
    started: Instant,
    log: PathBuf,
    output: PathBuf,
    until: Option<Delivered>,
    finished: bool,
}

/// The results of a finished program.
pub struct Outcome {
    /// User and system CPU time in seconds, of the process and of the children it has waited for.
    pub cpu_seconds: f64,
    /// The kernel's share of `cpu_seconds`.
    pub kernel_seconds: f64,
    /// Seconds from the start to the exit, or until everything was delivered if the program does
    /// not exit by itself.
    pub wall_seconds: f64,
    /// Maximum resident set in bytes.
    pub peak_rss_bytes: u64,
    /// Number of lines in the output file, or the number that the program publishes.
    pub lines: u64,
}

impl Program {
    /// Starts the program on `cores`.
    pub fn start(subject: &Subject, variables: &Variables, cores: &[usize]) -> io::Result<Self> {
        let (log, output) = (variables.path("LOG"), variables.path("OUTPUT"));
        fs::write(variables.path("CONFIG"), variables.fill(subject.config)?)?;
        let until = match subject.until {
            "" => None,
            until => Some(Delivered::of(&variables.fill(until)?, output.clone())?),
        };
        let words: Vec<String> = subject
            .run
            .split_whitespace()
            .map(|word| variables.fill(word))
            .collect::<io::Result<_>>()?;
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command
            .args(words.get(1..).unwrap_or_default())
            .envs(subject.env.split_whitespace().filter_map(|pair| pair.split_once('=')))
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?);
        let started = Instant::now();
        let child = pinned(cores, || command.spawn())
            .map_err(|error| io::Error::other(format!("{}: {error}", subject.run)))?;
        let pidfd = pidfd_open(pid_of(&child)?, PidfdFlags::empty())?;
        Ok(Program {
            name: subject.name.to_owned(),
            child,
            pidfd,
            started,
            log,
            output,
            until,
            finished: false,
        })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of the file sink's output.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Returns the CPU seconds of all threads so far.
    pub fn cpu_seconds(&self) -> io::Result<f64> {
        let (mut clock, mut time) = (0, MaybeUninit::<libc::timespec>::uninit());
        // SAFETY: both calls write to the variables that they are given, and the result of the
        // second call is read only if the call succeeded.
        let time = unsafe {
            if libc::clock_getcpuclockid(self.child.id() as libc::pid_t, &mut clock) != 0
                || libc::clock_gettime(clock, time.as_mut_ptr()) != 0
            {
                return Err(self.failure("has ended too early"));
            }
            time.assume_init()
        };
        Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
    }

    /// Returns the CPU seconds so far of the threads with this name.
    pub fn thread_cpu_seconds(&self, name: &str) -> io::Result<f64> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let folder = thread?.path();
            // A thread can end between the two reads.
            if fs::read_to_string(folder.join("comm")).unwrap_or_default().trim() == name {
                let times = fs::read_to_string(folder.join("schedstat"))?;
                let running = times.split(' ').next().and_then(|time| time.parse::<u64>().ok());
                nanoseconds += running.ok_or_else(|| io::Error::other("schedstat has no times"))?;
            }
        }
        Ok(nanoseconds as f64 / 1e9)
    }

    /// Waits until the program ends. Whenever the number of events in its log has grown, records
    /// this number and the program's CPU seconds at that time. Returns these points.
    pub fn progress(&self) -> io::Result<Vec<(u64, f64)>> {
        let mut points = vec![(0, 0.0)];
        while !self.ends_within(PROGRESS_INTERVAL)? && self.started.elapsed() < RUN_MAX {
            let seconds = self.cpu_seconds()?;
            let events = delivered::last_number(&fs::read_to_string(&self.log)?, TOTAL);
            if points.last().is_some_and(|(known, _)| *known < events) {
                points.push((events, seconds));
            }
        }
        Ok(points)
    }

    /// Waits for `time`. Returns an error if the program exits in the meantime.
    pub fn stays_for(&self, time: Duration) -> io::Result<()> {
        if self.ends_within(time)? { Err(self.failure("has ended too early")) } else { Ok(()) }
    }

    /// Asks the program to drain and exit.
    pub fn terminate(&self) -> io::Result<()> {
        Ok(kill_process(pid_of(&self.child)?, Signal::TERM)?)
    }

    /// Waits for the program's successful exit. A program that does not exit by itself is stopped
    /// once it has delivered `expected` lines or makes no progress.
    pub fn wait(mut self, expected: u64) -> io::Result<Outcome> {
        let mut seen = 0;
        let wall_seconds = match self.until.take() {
            Some(mut delivered) => {
                let last = self.deliver(&mut delivered, expected)?;
                seen = delivered.lines()?.max(seen);
                self.terminate()?;
                Some(last.duration_since(self.started).as_secs_f64())
            }
            None => None,
        };
        if !self.ends_within(RUN_MAX)? {
            return Err(self.failure("does not end"));
        }
        let wall_seconds = wall_seconds.unwrap_or_else(|| self.started.elapsed().as_secs_f64());
        let usage = self.reap()?;
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Ok(Outcome {
            cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            kernel_seconds: seconds(usage.ru_stime),
            wall_seconds,
            peak_rss_bytes: usage.ru_maxrss as u64 * 1024,
            lines: self.delivered(seen)?,
        })
    }

    /// Waits until everything is delivered, and returns the time of the last line.
    fn deliver(&self, delivered: &mut Delivered, expected: u64) -> io::Result<Instant> {
        let (mut lines, mut last) = (0, Instant::now());
        let patience = if expected == 0 { EMPTY_RUN } else { STALLED };
        while last.elapsed() < patience && self.started.elapsed() < RUN_MAX {
            if self.ends_within(delivered.interval())? {
                return Err(self.failure("has ended too early"));
            }
            let now = delivered.lines()?;
            if now != lines {
                (lines, last) = (now, Instant::now());
            }
            if expected > 0 && lines >= expected {
                break;
            }
        }
        Ok(last)
    }

    fn ends_within(&self, time: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
        Ok(poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&timeout))? > 0)
    }

    fn reap(&mut self) -> io::Result<libc::rusage> {
        let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::uninit());
        // SAFETY: `wait4` fills both variables when it returns the id of the process, and only then
        // are they read.
        let usage = unsafe {
            if libc::wait4(self.child.id() as libc::pid_t, &mut status, 0, usage.as_mut_ptr()) < 0 {
                return Err(io::Error::last_os_error());
            }
            usage.assume_init()
        };
        self.finished = true;
        match status {
            0 => Ok(usage),
            _ => Err(self.failure(&format!("has failed (wait status {status:#x})"))),
        }
    }

    fn delivered(&self, seen: u64) -> io::Result<u64> {
        if self.output.exists() {
            delivered::lines_of(&self.output)
        } else if seen > 0 {
            Ok(seen)
        } else {
            Ok(delivered::last_number(&fs::read_to_string(&self.log)?, TOTAL))
        }
    }

    fn failure(&self, what: &str) -> io::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(10).collect();
        io::Error::other(format!(
            "{} {what}; the end of its log:\n{}",
            self.name,
            tail.into_iter().rev().collect::<Vec<_>>().join("\n")
        ))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.child.kill().and_then(|()| self.child.wait());
        }
    }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    Pid::from_raw(child.id() as i32).ok_or_else(|| io::Error::other("no process id"))
}
