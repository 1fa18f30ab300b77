//! Measures typical costs of fleets: many files, slow writers, idle hours. The load runs on one
//! core, the agent on another.

use crate::Options;
use crate::header::Header;
use crate::measure::{pin, progress, sorted_quantile};
use crate::plot::{Axes, Series};
use crate::process::{Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use crate::variables::Variables;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const COLUMNS: &[&str] = &[
    "load",
    "CPU % of a core",
    "CPU target",
    "checkpoints % of that",
    "their target",
    "peak RSS MB",
    "RSS target",
    "delay p50 ms",
    "p99",
    "max",
    "p99 target",
    "lines",
    "lost",
    "repeated",
    "verdict",
];
/// Time for the agent to start and open its files, before the load starts.
const SETTLE: Duration = Duration::from_secs(3);
/// Time limit for the delivery of all lines after the last write.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Name of the agent's thread that commits checkpoints.
const CHECKPOINTS: &str = "checkpoint";
/// Maximum number of files that the load keeps open. With more files, each append opens its file,
/// as a program does that rarely logs.
const OPEN_FILES_MAX: usize = 500;

/// Describes how files are written.
#[derive(Clone, Copy)]
struct Load {
    files: usize,
    /// Number of files that grow.
    growing: usize,
    /// Appends per second over all growing files, round-robin; 0 writes nothing.
    appends_per_s: usize,
    lines_per_append: usize,
    /// Bytes per line, including the newline.
    line_bytes: usize,
    seconds: usize,
}

/// The results of one load.
struct Measured {
    cpu_percent: f64,
    /// CPU time of the thread that commits checkpoints, in percent of the agent's CPU time.
    checkpoint_percent: f64,
    rss_mb: f64,
    /// Line latencies, sorted; empty if the sink is not a file.
    delays_ms: Vec<f64>,
    written: u64,
    delivered: u64,
}

impl Load {
    fn of(header: &Header) -> io::Result<Load> {
        let number = |key: &str| header.required(key).map(|value| value as usize);
        Ok(Load {
            files: number("files")?,
            growing: header.count("growing", number("files")?)?,
            appends_per_s: number("appends_per_s")?,
            lines_per_append: number("lines_per_append")?,
            line_bytes: number("line_bytes")?,
            seconds: number("seconds")?,
        })
    }

    /// Returns the number of lines. This includes one line per file at the start, by which the
    /// agent identifies the file.
    fn lines_total(self) -> u64 {
        (self.files + self.appends_per_s * self.seconds * self.lines_per_append) as u64
    }
}

/// Measures the loads in `names`, or all loads.
pub fn run(
    options: &Options,
    names: &[String],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let mut table = Table::new("fleet", "What fleets pay for", COLUMNS);
    let mut delays = Vec::new();
    for header in Header::read_folder(&options.folder.join("fleet"), names)? {
        let measured = measure(options, &header, scratch)?;
        table.row(cells(&header, &measured)?);
        table.note(format!("{}: {}.", header.name, header.text("title")));
        if !measured.delays_ms.is_empty() {
            delays.push(delay_series(&header.name, &measured.delays_ms));
        }
    }
    report.add(table)?;
    if delays.is_empty() {
        return Ok(());
    }
    let label = |x: &f64| format!("{x:.0}%");
    let axes = Axes {
        title: "Delay from write to output",
        x: "share of the lines",
        y: "ms",
        x_label: &label,
    };
    report.plot("delay", &axes, &delays)
}

/// Returns the line latencies of a load in ms, sorted.
pub fn delays(options: &Options, header: &Header, scratch: &Scratch) -> io::Result<Vec<f64>> {
    measure(options, header, scratch).map(|measured| measured.delays_ms)
}

fn measure(options: &Options, header: &Header, scratch: &Scratch) -> io::Result<Measured> {
    let load = Load::of(header)?;
    progress(&format!("fleet: {}, {} s", header.name, load.seconds));
    let clock = Instant::now();
    let paths = create_files(&scratch.empty_folder("logs")?, load, clock)?;
    let input = scratch.path("logs/*.log");
    let variables = Variables::fresh(scratch, &input)?;
    let program =
        Program::start(&Subject::agent(&options.agent, "", header), &variables, &[options.core])?;
    let (stop, lines_seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let ((cpu_seconds, checkpoint_seconds), delays_ms) = thread::scope(|scope| {
        let tail = scope.spawn(|| {
            on_core(options.load_core, || tail(program.output(), clock, &stop, &lines_seen))
        });
        thread::sleep(SETTLE);
        let before = (program.cpu_seconds()?, program.thread_cpu_seconds(CHECKPOINTS)?);
        let written = scope
            .spawn(|| on_core(options.load_core, || write(&paths[..load.growing], load, clock)))
            .join();
        let after = (program.cpu_seconds(), program.thread_cpu_seconds(CHECKPOINTS));
        drain(load, program.output(), &lines_seen);
        stop.store(true, Ordering::Relaxed);
        let delays = tail.join();
        finished(written)?;
        Ok::<_, io::Error>(((after.0? - before.0, after.1? - before.1), finished(delays)?))
    })?;
    program.terminate()?;
    let outcome = program.wait(0)?;
    Ok(Measured {
        cpu_percent: cpu_seconds / load.seconds as f64 * 100.0,
        checkpoint_percent: checkpoint_seconds / cpu_seconds * 100.0,
        rss_mb: outcome.peak_rss_bytes as f64 / 1e6,
        delays_ms,
        written: load.lines_total(),
        delivered: outcome.lines,
    })
}

fn on_core<T>(core: usize, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    pin(core)?;
    work()
}

fn finished<T>(joined: thread::Result<io::Result<T>>) -> io::Result<T> {
    joined.unwrap_or_else(|_| Err(io::Error::other("a thread of the load has panicked")))
}

fn create_files(folder: &Path, load: Load, clock: Instant) -> io::Result<Vec<PathBuf>> {
    let create = |index: usize| {
        let path = folder.join(format!("app-{index:05}.log"));
        fs::write(&path, lines(load, 1, index, clock))?;
        Ok(path)
    };
    (0..load.files).map(create).collect()
}

/// Returns lines that contain a number and their write time, in ns since `clock`.
fn lines(load: Load, count: usize, number: usize, clock: Instant) -> Vec<u8> {
    let now_ns = clock.elapsed().as_nanos() as u64;
    let mut text = Vec::with_capacity(count * load.line_bytes);
    for index in 0..count {
        let line = format!("{now_ns:020} append {number} line {index} ");
        text.extend_from_slice(line.as_bytes());
        text.resize((index + 1) * load.line_bytes - 1, b'x');
        text.push(b'\n');
    }
    text
}

/// Appends at an even rate. Without appends the function waits for the duration of the load.
fn write(paths: &[PathBuf], load: Load, clock: Instant) -> io::Result<()> {
    let open = |path: &PathBuf| File::options().append(true).open(path);
    let keep_open = paths.len() <= OPEN_FILES_MAX;
    let mut files = if keep_open {
        paths.iter().map(open).collect::<io::Result<Vec<_>>>()?
    } else {
        Vec::new()
    };
    let start = Instant::now();
    for append in 0..load.appends_per_s * load.seconds {
        sleep_until(start + Duration::from_secs(1) * append as u32 / load.appends_per_s as u32);
        let text = lines(load, load.lines_per_append, append, clock);
        match files.get_mut(append % paths.len()) {
            Some(file) => file.write_all(&text)?,
            None => open(&paths[append % paths.len()])?.write_all(&text)?,
        }
    }
    sleep_until(start + Duration::from_secs(load.seconds as u64));
    Ok(())
}

fn sleep_until(time: Instant) {
    thread::sleep(time.saturating_duration_since(Instant::now()));
}

/// Waits until all lines are in the output, or until the time limit. If the sink is not a file, the
/// function waits for two seconds.
fn drain(load: Load, output: &Path, lines_seen: &AtomicU64) {
    let start = Instant::now();
    let wait = if output.exists() { DRAIN_MAX } else { Duration::from_secs(2) };
    while start.elapsed() < wait && lines_seen.load(Ordering::Relaxed) < load.lines_total() {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Follows the output until `stop` and returns the delays of its lines in ms, sorted. Lines that
/// were written before the load started are left out.
fn tail(
    output: &Path,
    clock: Instant,
    stop: &AtomicBool,
    lines_seen: &AtomicU64,
) -> io::Result<Vec<f64>> {
    let settled_ns = (clock.elapsed() + SETTLE).as_nanos() as u64;
    let mut file = None;
    let (mut block, mut pending, mut delays) = (vec![0; 256 << 10], Vec::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        file = file.or_else(|| File::open(output).ok());
        let len = file.as_mut().map_or(Ok(0), |file| file.read(&mut block))?;
        if len == 0 {
            thread::sleep(Duration::from_micros(500));
            continue;
        }
        let now_ns = clock.elapsed().as_nanos() as u64;
        pending.extend_from_slice(&block[..len]);
        let whole = millstream_scan::last_newline(&pending).map_or(0, |at| at + 1);
        for line in pending[..whole].split_inclusive(|byte| *byte == b'\n') {
            let written_ns = written_ns(line)?;
            if written_ns >= settled_ns {
                delays.push((now_ns - written_ns) as f64 / 1e6);
            }
            lines_seen.fetch_add(1, Ordering::Relaxed);
        }
        pending.drain(..whole);
    }
    delays.sort_by(f64::total_cmp);
    Ok(delays)
}

fn written_ns(line: &[u8]) -> io::Result<u64> {
    let digits = line.get(..20).and_then(|digits| std::str::from_utf8(digits).ok());
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| io::Error::other("a line of the output is torn"))
}

fn delay_series(name: &str, delays_ms: &[f64]) -> Series {
    let point = |percent: u32| {
        let delay = sorted_quantile(delays_ms, f64::from(percent) / 100.0).unwrap_or(0.0);
        (f64::from(percent), delay)
    };
    Series { label: name.to_owned(), points: (0..=100).map(point).collect() }
}

fn cells(header: &Header, measured: &Measured) -> io::Result<Vec<String>> {
    let (cpu_target, rss_target) =
        (header.number("target_cpu_percent")?, header.number("target_rss_mb")?);
    let p99_target = header.number("target_p99_ms")?;
    let checkpoint_target = header.number("target_checkpoint_percent")?;
    let delay = |quantile: f64| sorted_quantile(&measured.delays_ms, quantile);
    let (lost, repeated) = (
        measured.written.saturating_sub(measured.delivered),
        measured.delivered.saturating_sub(measured.written),
    );
    let met = |value: f64, target: Option<f64>| target.is_none_or(|target| value <= target);
    let all_met = met(measured.cpu_percent, cpu_target)
        && met(measured.checkpoint_percent, checkpoint_target)
        && met(measured.rss_mb, rss_target)
        && met(delay(0.99).unwrap_or(0.0), p99_target)
        && lost + repeated == 0;
    let target =
        |target: Option<f64>| target.map_or(String::new(), |target| format!("<= {target}"));
    let ms = |delay: Option<f64>| delay.map_or(String::new(), |ms| format!("{ms:.1}"));
    Ok(vec![
        header.name.clone(),
        format!("{:.3}", measured.cpu_percent),
        target(cpu_target),
        format!("{:.1}", measured.checkpoint_percent),
        target(checkpoint_target),
        format!("{:.1}", measured.rss_mb),
        target(rss_target),
        ms(delay(0.5)),
        ms(delay(0.99)),
        ms(delay(1.0)),
        target(p99_target),
        measured.written.to_string(),
        lost.to_string(),
        repeated.to_string(),
        if all_met { "holds" } else { "MISSED" }.to_owned(),
    ])
}
