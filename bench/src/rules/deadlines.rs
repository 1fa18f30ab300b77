//! Measures whether results arrive in time: a thousand tasks over a web log that grows at a large
//! share of the speed that the agent can reach.

use crate::Options;
use crate::measure::{Samples, pin, progress};
use crate::peers::Target;
use crate::process::{AGENT, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use crate::variables::Variables;
use crate::weblog::{PATHS, WebLog};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TASKS: usize = 1000;
/// Length of the windows in seconds.
const WINDOW_S: u64 = 10;
/// Number of whole windows in a run; another window begins before them.
const WINDOWS: u64 = 6;
/// Time after the last window for its results to arrive.
const AFTER: Duration = Duration::from_secs(4);
/// Megabytes that the agent reads to measure its speed.
const INPUT_MB: usize = 400;
/// Rate at which the log grows, as a share of the agent's speed.
const SHARE: f64 = 0.8;
/// Pause between two writes.
const STEP: Duration = Duration::from_millis(10);
/// Bytes of text that the log repeats.
const TEXT_BYTES: usize = 16 << 20;
/// Size in bytes at which the log is rotated, and number of rotated files that are kept.
const ROTATION_BYTES: u64 = 128 << 20;
const ROTATIONS_KEPT: usize = 4;
/// Timeout for a response from the agent.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum 99th percentile of the delay, in seconds.
const TARGET_P99_S: f64 = 1.0;
/// Maximum delay of a task: this multiple of the median task's delay, or this many seconds if that
/// is more.
const TARGET_TIMES_MEDIAN: f64 = 3.0;
const TARGET_WORST_S: f64 = 0.2;

const COLUMNS: [&str; 10] = [
    "speed measured, lines/s",
    "fed, lines/s",
    "windows",
    "p50 s",
    "p99 s",
    "max s",
    "median task's longest s",
    "worst task's longest s",
    "overdue",
    "MB behind at the end",
];

/// Returns the configuration of the agent. Each task groups the lines of a path by their status.
fn config(until_eof: bool) -> String {
    let task = |task: usize| {
        let literal = format!(" {}/{}", PATHS[task % PATHS.len()], task / PATHS.len() + 1);
        format!(
            "      - {{ name: t{task}, where: \"message.contains('{literal}')\", \
             fields: {{ status: {{ delimited: {{ delimiter: ' ', index: 8 }} }} }}, \
             group_by: [status], emit: {{ n: count() }}, window: {WINDOW_S}s, due: 1s }}\n"
        )
    };
    let tasks: String = (0..TASKS).map(task).collect();
    let read_from = if until_eof { "beginning" } else { "end" };
    format!(
        "data_dir: ${{BENCH_DATA}}\n\
         api: {{ listen: \"127.0.0.1:${{BENCH_PORT}}\" }}\n\
         sources:\n  web: {{ type: file, include: [\"${{BENCH_INPUT}}\"], read_from: {read_from} }}\n\
         transforms:\n  counts:\n    type: rules\n    inputs: [web]\n    tasks:\n{tasks}\
         sinks:\n  out: {{ inputs: [counts], type: blackhole, report: 1s }}\n"
    )
}

/// Delays in one run.
#[derive(Debug, Default, PartialEq)]
struct Delays {
    /// Upper bounds of the histogram buckets in seconds, with the number of windows up to each
    /// bound.
    buckets: Vec<(f64, f64)>,
    /// Maximum delay of each task in seconds, ascending.
    tasks_s: Vec<f64>,
    overdue: u64,
    behind_bytes: f64,
}

impl Delays {
    /// Reads the pages `/metrics` and `/api/rules`.
    fn of(metrics: &str, rules: &str) -> Delays {
        let mut delays = Delays::default();
        for line in metrics.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let value: f64 = value.parse().unwrap_or(f64::NAN);
            if series.starts_with("millstream_component_emit_delay_seconds_bucket{") {
                let bound = series.split("le=\"").nth(1).and_then(|of| of.split('"').next());
                let bound = bound.map_or(f64::NAN, |of| of.parse().unwrap_or(f64::INFINITY));
                delays.buckets.push((bound, value));
            }
            if series.starts_with("millstream_source_lag_bytes{") && series.contains("\"web\"") {
                delays.behind_bytes += value;
            }
        }
        delays.tasks_s = numbers(rules, "\"emit_delay_seconds_max\":");
        delays.tasks_s.sort_by(f64::total_cmp);
        delays.overdue = numbers(rules, "\"overdue_windows\":").iter().sum::<f64>() as u64;
        delays
    }

    fn windows(&self) -> f64 {
        self.buckets.last().map_or(0.0, |(_, windows)| *windows)
    }

    /// Returns a quantile of the delay in seconds, interpolated within its bucket but not above the
    /// maximum delay.
    fn quantile(&self, quantile: f64) -> f64 {
        let rank = quantile * self.windows();
        let (mut low_s, mut below) = (0.0, 0.0);
        for (bound_s, windows) in &self.buckets {
            if *windows >= rank && *windows > below {
                let share = (rank - below) / (windows - below);
                let high_s = bound_s.min(self.worst_s());
                return low_s + (high_s - low_s).max(0.0) * share;
            }
            (low_s, below) = (*bound_s, *windows);
        }
        f64::NAN
    }

    fn worst_s(&self) -> f64 {
        self.tasks_s.last().copied().unwrap_or(f64::NAN)
    }

    fn median_task_s(&self) -> f64 {
        self.tasks_s.get(self.tasks_s.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn cells(&self, [measured, fed]: [f64; 2]) -> Vec<String> {
        let mut cells = vec![format!("{measured:.0}"), format!("{fed:.0}")];
        cells.push(format!("{:.0}", self.windows()));
        let seconds = [
            self.quantile(0.5),
            self.quantile(0.99),
            self.worst_s(),
            self.median_task_s(),
            self.worst_s(),
        ];
        cells.extend(seconds.map(|seconds| format!("{seconds:.3}")));
        cells.push(self.overdue.to_string());
        cells.push(format!("{:.1}", self.behind_bytes / 1e6));
        cells
    }

    fn targets(&self) -> [Target; 2] {
        let worst_s = (TARGET_TIMES_MEDIAN * self.median_task_s()).max(TARGET_WORST_S);
        let what = "deadlines, worst task / max(3 x median task, 200 ms)";
        [
            Target::most("deadlines, p99 s", self.quantile(0.99), TARGET_P99_S),
            Target::most(what, self.worst_s() / worst_s, 1.0),
        ]
    }
}

/// Returns the numbers that follow the text `before`.
fn numbers(page: &str, before: &str) -> Vec<f64> {
    let number = |rest: &str| {
        let end = rest.find([',', '}']).unwrap_or(rest.len());
        rest[..end].trim().parse().ok()
    };
    page.split(before).skip(1).filter_map(number).collect()
}

/// Measures the agent's speed, and then the delay at a share of this speed. Adds the table and
/// returns the targets.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<[Target; 2]> {
    let (measured, bytes_per_line) = speed(options, scratch)?;
    let fed = measured * SHARE;
    let delays = delays(options, scratch, fed * bytes_per_line)?;
    let mut table = Table::new("rules_deadlines", "Result latency", &COLUMNS);
    table.row(delays.cells([measured, fed]));
    table.note(format!(
        "File to {TASKS} tasks with windows of {WINDOW_S} s by arrival to blackhole, on one core; the \
         load writes and rotates the log on another. A delay is from the end of a window until its \
         last result is emitted: p50 and p99 of all windows of all tasks, from a histogram; the \
         longest of each task. `due` is 1 s. The speed is measured over a whole file with --until-eof, \
         minus the run over an empty file, as the median of {}.",
        options.repetitions
    ));
    report.add(table)?;
    Ok(delays.targets())
}

/// Returns the lines per second that the agent can evaluate, and the bytes of a line.
fn speed(options: &Options, scratch: &Scratch) -> io::Result<(f64, f64)> {
    let bytes = options.input_mb.unwrap_or(INPUT_MB) * 1_000_000;
    let input = Input::weblog(scratch, bytes, 1)?;
    let empty = Input::empty(scratch)?;
    let (mut full_s, mut empty_s) = (Samples::default(), Samples::default());
    for repetition in 1..=options.repetitions {
        progress(&format!("rules: deadlines, speed {repetition}"));
        empty_s.push(seconds(options, scratch, &empty.path)?);
        full_s.push(seconds(options, scratch, &input.path)?);
    }
    Input::remove(scratch)?;
    let lines = input.lines as f64;
    Ok((lines / (full_s.median() - empty_s.median()), input.bytes as f64 / lines))
}

/// Runs the agent over a file to its end, and returns the wall time in seconds.
fn seconds(options: &Options, scratch: &Scratch, input: &Path) -> io::Result<f64> {
    let variables = Variables::fresh(scratch, input)?;
    let program = agent(options, &variables, true)?;
    Ok(program.wait(0)?.wall_seconds)
}

fn agent(options: &Options, variables: &Variables, until_eof: bool) -> io::Result<Program> {
    let flag = if until_eof { "--until-eof" } else { "" };
    let run = format!("{} run -c ${{BENCH_CONFIG}} {flag}", options.agent.display());
    let config = config(until_eof);
    let subject = Subject { name: AGENT, run, until: "", env: "", config: &config };
    Program::start(&subject, variables, &[options.core])
}

/// Runs the agent over a growing log and returns the delays.
fn delays(options: &Options, scratch: &Scratch, bytes_per_s: f64) -> io::Result<Delays> {
    let folder = scratch.empty_folder("growing")?;
    let mut log = GrowingLog::new(folder, bytes_per_s)?;
    let variables = Variables::fresh(scratch, &log.path())?;
    let program = agent(options, &variables, false)?;
    program.stays_for(Duration::from_secs(1))?;
    let seconds = Duration::from_secs((WINDOWS + 1) * WINDOW_S);
    let is_done = AtomicBool::new(false);
    let pages = thread::scope(|scope| {
        let load = scope.spawn(|| {
            pin(options.load_core)?;
            log.grow(&is_done)
        });
        progress(&format!("rules: deadlines, {} s", seconds.as_secs()));
        let stays = program.stays_for(seconds + AFTER);
        let socket = variables.path("DATA").join("control.sock");
        let pages =
            stays.and_then(|()| Ok([page(&socket, "/metrics")?, page(&socket, "/api/rules")?]));
        is_done.store(true, Ordering::Relaxed);
        let load = load.join().map_err(|_| io::Error::other("the load has panicked"))?;
        load.and(pages)
    })?;
    program.terminate()?;
    drop(program);
    scratch.empty_folder("growing")?;
    Ok(Delays::of(&pages[0], &pages[1]))
}

/// Returns a page of the agent.
fn page(socket: &Path, path: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.lines().next().unwrap_or_default();
    if status.contains(" 200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(format!("{path}: {status}")))
    }
}

/// A log that grows at an even rate and is rotated by renaming.
struct GrowingLog {
    folder: PathBuf,
    bytes_per_s: f64,
    /// Whole lines, which are written repeatedly.
    text: Vec<u8>,
    /// Offset in `text` at which the next write begins.
    at: usize,
    file: File,
    /// Number of bytes in the file.
    len: u64,
    rotations: usize,
}

impl GrowingLog {
    fn new(folder: PathBuf, bytes_per_s: f64) -> io::Result<GrowingLog> {
        let mut text = BufWriter::new(Vec::new());
        WebLog::new(2).write(TEXT_BYTES, &mut text)?;
        let text = text.into_inner()?;
        let file = File::create(folder.join("web.log"))?;
        Ok(GrowingLog { folder, bytes_per_s, text, at: 0, file, len: 0, rotations: 0 })
    }

    fn path(&self) -> PathBuf {
        self.folder.join("web.log")
    }

    /// Writes the bytes that are due every [`STEP`] until `is_done`.
    fn grow(&mut self, is_done: &AtomicBool) -> io::Result<()> {
        let begun = Instant::now();
        let mut written = 0;
        while !is_done.load(Ordering::Relaxed) {
            let due = (begun.elapsed().as_secs_f64() * self.bytes_per_s) as u64;
            while written < due {
                written += self.append((due - written) as usize)?;
            }
            thread::sleep(STEP);
        }
        Ok(())
    }

    /// Appends whole lines of about `bytes` in total, but at least one line. Returns the number of
    /// bytes.
    fn append(&mut self, bytes: usize) -> io::Result<u64> {
        if self.len >= ROTATION_BYTES {
            self.rotate()?;
        }
        let rest = &self.text[self.at..];
        let cut = bytes.clamp(1, rest.len());
        let end = memchr::memchr(b'\n', &rest[cut - 1..]).map_or(rest.len(), |end| cut + end);
        self.file.write_all(&rest[..end])?;
        self.at = (self.at + end) % self.text.len();
        self.len += end as u64;
        Ok(end as u64)
    }

    /// Starts a new file with a different head, because files with equal heads count as one.
    fn rotate(&mut self) -> io::Result<()> {
        let rotated = |number: usize| self.folder.join(format!("web.log.{number}"));
        fs::rename(self.path(), rotated(self.rotations))?;
        if let Some(old) = self.rotations.checked_sub(ROTATIONS_KEPT) {
            fs::remove_file(rotated(old))?;
        }
        self.rotations += 1;
        self.file = File::create(self.path())?;
        let head = format!("web log, part {}\n", self.rotations);
        self.file.write_all(head.as_bytes())?;
        self.len = head.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
# TYPE millstream_component_emit_delay_seconds histogram
millstream_component_emit_delay_seconds_bucket{component_id=\"counts\",le=\"0.1\"} 0
millstream_component_emit_delay_seconds_bucket{component_id=\"counts\",le=\"0.25\"} 5
millstream_component_emit_delay_seconds_bucket{component_id=\"counts\",le=\"0.5\"} 9
millstream_component_emit_delay_seconds_bucket{component_id=\"counts\",le=\"+Inf\"} 10
millstream_source_lag_bytes{component_id=\"web\",sink=\"counts\"} 2000000
millstream_source_lag_bytes{component_id=\"counts\",sink=\"out\"} 7
";
    const RULES: &str = "[{\"tasks\":[{\"emit_delay_seconds_max\":0.9,\"overdue_windows\":1},\
        {\"emit_delay_seconds_max\":0.2,\"overdue_windows\":0},\
        {\"emit_delay_seconds_max\":0.25,\"overdue_windows\":2}]}]";

    #[test]
    fn delays_are_read_from_the_pages_of_the_agent() {
        let delays = Delays::of(METRICS, RULES);
        assert_eq!((delays.windows(), delays.overdue, delays.behind_bytes), (10.0, 3, 2e6));
        assert_eq!(delays.tasks_s, [0.2, 0.25, 0.9]);
        assert_eq!(
            (delays.quantile(0.5), delays.median_task_s(), delays.worst_s()),
            (0.25, 0.25, 0.9)
        );
        assert!((0.85..0.9).contains(&delays.quantile(0.99)), "{}", delays.quantile(0.99));
        let verdicts = delays.targets().map(|target| target.cells("rules").pop().unwrap());
        assert_eq!(verdicts, ["holds", "MISSED"]);
    }

    #[test]
    fn a_log_grows_by_whole_lines() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.empty_folder("growing").unwrap();
        let mut log = GrowingLog::new(folder, 1.0).unwrap();
        let written: u64 = (0..100).map(|_| log.append(1000).unwrap()).sum();
        log.rotate().unwrap();
        log.append(1).unwrap();
        let text = fs::read_to_string(log.folder.join("web.log.0")).unwrap();
        assert!(text.ends_with('\n') && text.len() as u64 == written && written < 130_000);
        assert_eq!(fs::read_to_string(log.path()).unwrap().lines().count(), 2);
    }
}
