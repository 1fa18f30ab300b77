//! Starts a program that receives a load, measures it from outside, and queries its counts.

use super::send::{Load, Sent};
use super::socket::{granted_bytes, row};
use crate::delivered;
use crate::header::Header;
use crate::process::{Program, Subject};
use crate::scratch::Scratch;
use crate::variables::Variables;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limits for a program to open its socket, and to process what it has received.
const START_MAX: Duration = Duration::from_secs(10);
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Idle time after the start.
const SETTLE: Duration = Duration::from_millis(500);
/// Period and share of a core: a program that used less CPU time in such a period has processed
/// everything.
const IDLE_LOOK: Duration = Duration::from_millis(200);
const IDLE_SHARE: f64 = 0.03;

/// The results of a program under a load.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub sent: Sent,
    /// User and system CPU time, from before the load until everything is processed.
    pub cpu_seconds: f64,
    /// Voluntary and involuntary context switches of all threads, in the same time.
    pub switches: u64,
    /// Resident memory before and after the load.
    pub rss_bytes: [u64; 2],
    pub peak_rss_bytes: u64,
    /// Datagrams dropped because the socket buffer was full.
    pub drops: u64,
    /// Receive buffer that the kernel granted.
    pub granted_bytes: usize,
    /// Sum of the emitted counters.
    pub counted: u64,
}

impl Measured {
    /// Returns the number of counters that were sent but not emitted.
    pub fn lost(&self) -> u64 {
        self.sent.counters.saturating_sub(self.counted)
    }

    /// Returns the share of the load that was lost, 0 to 1.
    pub fn lost_share(&self) -> f64 {
        self.lost() as f64 / self.sent.counters.max(1) as f64
    }

    /// Returns the number of points that the program received.
    pub fn points(&self) -> f64 {
        self.sent.points as f64 * (1.0 - self.lost_share())
    }

    /// Returns the number of points per CPU second.
    pub fn points_per_cpu_s(&self) -> f64 {
        self.points() / self.cpu_seconds
    }
}

/// Cores of the programs and the loads, and the folder for their files.
pub struct Bench<'a> {
    pub scratch: &'a Scratch,
    /// Core of the program.
    pub core: usize,
    /// Core of the load.
    pub load_core: usize,
}

impl Bench<'_> {
    /// Returns the variables of a program, including its port.
    pub fn variables(&self) -> io::Result<Variables> {
        Variables::fresh(self.scratch, &self.scratch.path("none"))?.with_sockets(self.scratch)
    }

    /// Starts `subject`, sends `load` to its port and reads the results. The program shows its
    /// counts at `counted`.
    pub fn run(
        &self,
        subject: &Subject,
        counted: &str,
        variables: &Variables,
        load: &Load,
    ) -> io::Result<Measured> {
        let port: u16 = variables.fill("${BENCH_UDP}")?.parse().map_err(io::Error::other)?;
        let program = Program::start(subject, variables, &[self.core])?;
        await_socket(&program, port)?;
        let mut measured =
            Measured { granted_bytes: granted_bytes(program.id(), port)?, ..Measured::default() };
        let [rss, _] = memory_bytes(program.id())?;
        let (cpu_seconds, switches) = (program.cpu_seconds()?, switches(program.id())?);
        measured.sent = load.run(self.load_core)?;
        measured.cpu_seconds = await_rest(&program, port)? - cpu_seconds;
        measured.switches = self::switches(program.id())? - switches;
        measured.drops = row(port)?.map_or(0, |row| row.drops);
        let [after, peak] = memory_bytes(program.id())?;
        (measured.rss_bytes, measured.peak_rss_bytes) = ([rss, after], peak);
        let counted = variables.fill(counted)?;
        if counted.starts_with("http://") {
            measured.counted = delivered::sum(&counted, program.output())?.0;
        }
        let output = program.output().to_owned();
        program.terminate()?;
        program.wait(0)?;
        if !counted.is_empty() && !counted.starts_with("http://") {
            measured.counted = delivered::sum(&counted, &output)?.0;
        }
        Ok(measured)
    }
}

/// Returns the load of a scenario with the destination `to`.
pub fn load(scenario: &Header, to: &str) -> io::Result<Load> {
    let content = super::load::Content {
        series: scenario.count("series", 1000)?,
        lines: scenario.count("lines", 10)?,
        fill_bytes: scenario.count("fill_bytes", 0)?,
        gauges: scenario.text("gauges") == "true",
        sorted: scenario.text("sorted") == "true",
    };
    let datagram_bytes =
        content.lines() * (super::load::Content::context_bytes() + ":1|c|#\n".len());
    let per_s = match scenario.number("mib_per_s")? {
        Some(mib) => mib * f64::from(1 << 20) / datagram_bytes as f64,
        None => scenario.number("datagrams_per_s")?.unwrap_or(0.0),
    };
    Ok(Load {
        to: to.to_owned(),
        per_s,
        seconds: scenario.required("seconds")?,
        burst: scenario.count("burst", 1)?,
        segment: scenario.text("segment") == "true",
        probe: None,
        probe_after: 0.0,
        content,
    })
}

/// Waits until the program listens, and a short time longer.
pub fn await_socket(program: &Program, port: u16) -> io::Result<()> {
    let start = Instant::now();
    while row(port)?.is_none() {
        if start.elapsed() > START_MAX {
            return Err(io::Error::other(format!("no socket listens at port {port}")));
        }
        program.stays_for(Duration::from_millis(10))?;
    }
    program.stays_for(SETTLE)
}

/// Waits until the socket is empty and the program is idle, or until a time limit. Returns the
/// program's CPU seconds until then.
pub fn await_rest(program: &Program, port: u16) -> io::Result<f64> {
    let start = Instant::now();
    let mut before = program.cpu_seconds()?;
    loop {
        let is_empty = row(port)?.is_none_or(|row| row.queued_bytes == 0);
        sleep(IDLE_LOOK);
        let now = program.cpu_seconds()?;
        let is_idle = now - before < IDLE_SHARE * IDLE_LOOK.as_secs_f64();
        if (is_empty && is_idle) || start.elapsed() > DRAIN_MAX {
            return Ok(before);
        }
        before = now;
    }
}

/// Returns the current resident set size and its peak.
pub fn memory_bytes(pid: u32) -> io::Result<[u64; 2]> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(["VmRSS:", "VmHWM:"].map(|key| number_of(&text, key) * 1024))
}

/// Returns the context switches of all threads of a process.
fn switches(pid: u32) -> io::Result<u64> {
    let mut switches = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread can end between the two reads.
        let text = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        switches += number_of(&text, "voluntary_ctxt_switches:")
            + number_of(&text, "nonvoluntary_ctxt_switches:");
    }
    Ok(switches)
}

fn number_of(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_kernel_says_what_a_process_takes() {
        let [rss, peak] = memory_bytes(std::process::id()).unwrap();
        assert!(rss > 1 << 20 && peak >= rss, "{rss} {peak}");
    }

    /// Uses a process with one thread. In the process of the test, threads of other tests end,
    /// which reduces the sum.
    #[test]
    fn the_kernel_counts_the_context_switches_of_a_process() {
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", "while :; do sleep 0.01; done"]).spawn().unwrap();
        let before = switches(child.id()).unwrap();
        let has_more = (0..1000).any(|_| {
            sleep(Duration::from_millis(5));
            switches(child.id()).unwrap() > before
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_more);
    }
}
