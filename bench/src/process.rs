//! A program under measurement: started on a core, watched from outside, counted by what it delivered.

use crate::scratch::Scratch;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running program. It is killed if it is dropped before [`Program::wait`].
pub struct Program {
    child: Child,
    log: PathBuf,
    output: PathBuf,
    finished: bool,
}

/// What a finished program has used and done.
pub struct Outcome {
    /// User and system CPU time in seconds.
    pub cpu_seconds: f64,
    /// The part of it that the kernel took on its behalf.
    pub kernel_seconds: f64,
    /// Largest resident set in bytes.
    pub peak_rss_bytes: u64,
    /// Lines in its output file, or the total that its blackhole sink logged.
    pub lines: u64,
}

impl Program {
    /// Starts the agent on the core of the calling thread, with a fresh data folder. The configuration finds
    /// its paths in the environment: `BENCH_INPUT`, `BENCH_OUTPUT`, `BENCH_DATA`.
    pub fn start(
        agent: &Path,
        arguments: &[&str],
        config: &Path,
        input: &Path,
        scratch: &Scratch,
    ) -> io::Result<Self> {
        let data = scratch.empty_folder("data")?;
        let output = scratch.empty_folder("out")?.join("out.log");
        let log = scratch.path("agent.log");
        let child = Command::new(agent)
            .arg("run")
            .arg("-c")
            .arg(config)
            .args(arguments)
            .env("BENCH_INPUT", input)
            .env("BENCH_OUTPUT", &output)
            .env("BENCH_DATA", data)
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?)
            .spawn()
            .map_err(|error| io::Error::other(format!("{}: {error}", agent.display())))?;
        Ok(Program { child, log, output, finished: false })
    }

    /// Where its file sink writes.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// CPU seconds of all its threads so far.
    pub fn cpu_seconds(&self) -> io::Result<f64> {
        let (mut clock, mut time) = (0, MaybeUninit::<libc::timespec>::uninit());
        // SAFETY: both calls write to the variables they are given, and the second one is read only if it did.
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

    /// Asks it to drain and exit.
    pub fn terminate(&self) -> io::Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).ok_or_else(|| io::Error::other("no process id"))?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    /// Waits for its end, which must be a success.
    pub fn wait(mut self) -> io::Result<Outcome> {
        let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::uninit());
        // SAFETY: `wait4` fills both variables when it returns the process's id, and only then they are read.
        let usage = unsafe {
            if libc::wait4(self.child.id() as libc::pid_t, &mut status, 0, usage.as_mut_ptr()) < 0 {
                return Err(io::Error::last_os_error());
            }
            usage.assume_init()
        };
        self.finished = true;
        if status != 0 {
            return Err(self.failure(&format!("has failed (wait status {status:#x})")));
        }
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Ok(Outcome {
            cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            kernel_seconds: seconds(usage.ru_stime),
            peak_rss_bytes: usage.ru_maxrss as u64 * 1024,
            lines: self.delivered()?,
        })
    }

    fn delivered(&self) -> io::Result<u64> {
        if self.output.exists() {
            count_lines(&self.output)
        } else {
            Ok(logged_total(&fs::read_to_string(&self.log)?))
        }
    }

    fn failure(&self, what: &str) -> io::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(10).collect();
        io::Error::other(format!(
            "the agent {what}; the end of its log:\n{}",
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

fn count_lines(path: &Path) -> io::Result<u64> {
    let (mut file, mut block, mut lines) = (File::open(path)?, vec![0; 256 << 10], 0);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(lines),
            len => lines += millstream_scan::count_newlines(&block[..len]) as u64,
        }
    }
}

/// The last number after "total" in the log of a blackhole sink with `report`; 0 if there is none.
fn logged_total(log: &str) -> u64 {
    let total = |line: &str| {
        let (_, rest) = line.split_once("total")?;
        let digits =
            rest.split(|character: char| !character.is_ascii_digit()).find(|part| !part.is_empty())?;
        digits.parse().ok()
    };
    log.lines().rev().find_map(total).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_total_counts() {
        assert_eq!(
            logged_total("sink out: 5 events/s, total 5 events\nsink out: 1 events/s, total=77 events\nbye"),
            77
        );
        assert_eq!(logged_total("nothing"), 0);
    }
}
