//! Measures cost and benefit of compression: the agent's libraries and others, over typical user
//! data.

mod encoded;
mod libraries;
pub mod payloads;

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::peers::{TARGET_COLUMNS, Target};
use crate::plot::{Axes, Series};
use crate::report::{Report, Table};
use bytes::Bytes;
use libraries::{METHODS, Method, PLAIN, plain_version};
use millstream_compression::Algorithm;
use std::hint::black_box;
use std::io;

const COLUMNS: &[&str] = &[
    "payload",
    "KiB",
    "library",
    "level",
    "% of the size",
    "ns per byte",
    "min",
    "max",
    "MB per CPU s",
    "CPU, times plain zlib 6",
    "kept KiB",
];
/// Columns of bytes per event: uncompressed, and compressed at the default levels.
const SIZE_COLUMNS: &[&str] = &["payload", "as it is", "zlib", "zstd", "snappy", "LZ4"];
const REPETITIONS: usize = 3;
/// Minimum CPU seconds of one sample, which takes at least one round over all buffers.
const SAMPLE_S: f64 = 0.03;
/// Sizes of the buffers in bytes, each with a number of buffers that is too large for a library to
/// learn them.
const SIZES: [(usize, usize); 2] = [(64 << 10, 16), (1 << 20, 3)];
/// Maximum CPU time of the agent's zlib, relative to plain zlib.
const TARGET_ZLIB: f64 = 0.4;
/// Maximum output size at a comparable level, relative to plain zlib at its default level.
const COMPARABLE: f64 = 1.02;

/// A kind of payload: its name, and a function that creates a buffer from a seed and a size. The
/// function also returns the number of events in the buffer.
pub type Payload = (&'static str, fn(u64, usize) -> (Vec<u8>, usize));

const PAYLOADS: &[Payload] = &[
    ("metrics as JSON", payloads::json),
    ("metrics as msgpack", encoded::msgpack),
    ("metrics as remote write", encoded::remote_write),
    ("logs as JSON", payloads::logs),
];

/// Measures and reports all methods over all payloads; returns the targets.
pub fn run(report: &mut Report) -> io::Result<Vec<Vec<String>>> {
    let mut table = Table::new("compression", "Compression by library and level", COLUMNS);
    let mut all = Vec::new();
    for &(payload, make) in PAYLOADS {
        for (bytes, count) in SIZES {
            let (buffers, numbers): (Vec<Bytes>, Vec<usize>) = (1..=count as u64)
                .map(|seed| make(seed, bytes))
                .map(|(text, number)| (text.into(), number))
                .unzip();
            progress(&format!("compression: {payload}, {} KiB", bytes >> 10));
            let measured = measure(&buffers)?;
            let plain = find(&measured, PLAIN).ns.median();
            measured.iter().for_each(|of| table.row(of.cells(payload, bytes, plain)));
            let each = total(&buffers) as f64 / numbers.iter().sum::<usize>() as f64;
            all.push((payload, bytes, measured, each));
        }
    }
    table.note(format!(
        "Medians of {REPETITIONS}. Plain zlib is {}; all keep their state from one buffer to the next; *kept* is the size of \
         this state and of their buffers.",
        plain_version()
    ));
    report.add(table)?;
    let mut sizes =
        Table::new("compression_bytes", "Bytes of an event, in buffers of 1 MiB", SIZE_COLUMNS);
    for (payload, _, measured, each) in all.iter().filter(|(_, bytes, ..)| *bytes == SIZES[1].0) {
        plot(payload, measured, report)?;
        sizes.row(size_cells(payload, measured, *each));
    }
    report.add(sizes)?;
    Ok(all
        .iter()
        .flat_map(|(payload, bytes, measured, _)| targets(payload, *bytes, measured))
        .collect())
}

/// Results of one method over one payload.
struct Measured {
    method: Method,
    /// Output bytes per input byte.
    share: f64,
    ns: Samples,
    kept_bytes: usize,
}

impl Measured {
    fn cells(&self, payload: &str, bytes: usize, plain_ns: f64) -> Vec<String> {
        let ns = self.ns.median();
        let mut cells =
            vec![payload.to_owned(), (bytes >> 10).to_string(), self.method.library().to_owned()];
        cells.push(self.method.level().map_or(String::new(), |level| level.to_string()));
        cells.push(format!("{:.1}", self.share * 100.0));
        cells.extend([ns, self.ns.min(), self.ns.max()].map(|ns| format!("{ns:.2}")));
        cells.push(format!("{:.0}", 1e3 / ns));
        cells.push(format!("{:.2}", ns / plain_ns));
        cells.push((self.kept_bytes >> 10).to_string());
        cells
    }
}

/// Measures all methods alternately, so that a change of the host's speed affects all of them.
fn measure(buffers: &[Bytes]) -> io::Result<Vec<Measured>> {
    let mut all = Vec::new();
    for method in METHODS {
        let (kept_bytes, share) = kept(*method, buffers)?;
        all.push(Measured { method: *method, share, ns: Samples::default(), kept_bytes });
    }
    for _ in 0..REPETITIONS {
        for measured in &mut all {
            measured.ns.push(sample(measured.method, buffers)?);
        }
    }
    Ok(all)
}

/// Measures the memory that a method keeps between buffers, and its output per input byte.
fn kept(method: Method, buffers: &[Bytes]) -> io::Result<(usize, f64)> {
    let (before, mut output) = (allocated_bytes(), 0);
    let mut work = method.start()?;
    for buffer in buffers {
        output += work(buffer)?.len();
    }
    let kept = allocated_bytes().saturating_sub(before);
    Ok((kept, output as f64 / total(buffers) as f64))
}

/// Measures ns per byte, with warm state.
fn sample(method: Method, buffers: &[Bytes]) -> io::Result<f64> {
    let mut work = method.start()?;
    work(&buffers[0])?;
    let (start, mut rounds) = (thread_cpu_seconds(), 0);
    loop {
        for buffer in buffers {
            black_box(work(black_box(buffer))?);
        }
        rounds += 1;
        let seconds = thread_cpu_seconds() - start;
        if seconds >= SAMPLE_S {
            return Ok(seconds * 1e9 / (rounds * total(buffers)) as f64);
        }
    }
}

fn total(buffers: &[Bytes]) -> usize {
    buffers.iter().map(Bytes::len).sum()
}

/// Returns the bytes that the process has allocated, in C and in Rust.
fn allocated_bytes() -> usize {
    // SAFETY: `mallinfo2` has no preconditions.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

fn find(measured: &[Measured], method: Method) -> &Measured {
    let found = measured.iter().find(|of| of.method == method);
    found.expect("every method named here is in METHODS")
}

/// Returns the cells with the bytes per event; `each` is the size before compression.
fn size_cells(payload: &str, measured: &[Measured], each: f64) -> Vec<String> {
    let share = |algorithm: Algorithm| {
        let level = algorithm.levels().map(|(_, default)| default);
        find(measured, Method::Agent(algorithm, level)).share
    };
    let compressed =
        [Algorithm::Zlib, Algorithm::Zstd, Algorithm::Snappy, Algorithm::Lz4].map(share);
    let sizes = std::iter::once(1.0).chain(compressed).map(|share| format!("{:.1}", share * each));
    std::iter::once(payload.to_owned()).chain(sizes).collect()
}

/// Plots size over CPU time, with one line per library.
fn plot(payload: &str, measured: &[Measured], report: &mut Report) -> io::Result<()> {
    let mut series: Vec<Series> = Vec::new();
    for of in measured {
        let point = (of.ns.median().log10(), of.share * 100.0);
        match series.last_mut().filter(|last| last.label == of.method.library()) {
            Some(last) => last.points.push(point),
            None => {
                series.push(Series { label: of.method.library().to_owned(), points: vec![point] })
            }
        }
    }
    let label = |x: &f64| format!("{:.1}", 10_f64.powf(*x));
    let title = format!("{payload}, 1 MiB: size over CPU time, level by level");
    let axes = Axes { title: &title, x: "ns per byte", y: "% of the size", x_label: &label };
    report.plot(
        &format!("compression_{}", payload.replace(' ', "_").to_lowercase()),
        &axes,
        &series,
    )
}

/// Compares the agent's zlib with plain zlib at its default level: the CPU time of the agent's
/// fastest level with a comparable size, and the size at the agent's default level.
fn targets(payload: &str, bytes: usize, measured: &[Measured]) -> Vec<Vec<String>> {
    let plain = find(measured, PLAIN);
    let (_, default) = Algorithm::Zlib.levels().expect("zlib has levels");
    let own = find(measured, Method::Agent(Algorithm::Zlib, Some(default)));
    let is_zlib = |of: &&Measured| matches!(of.method, Method::Agent(Algorithm::Zlib, _));
    let comparable =
        measured.iter().filter(is_zlib).filter(|of| of.share <= plain.share * COMPARABLE);
    let fastest = comparable.map(|of| of.ns.median()).fold(f64::NAN, f64::min);
    let what = format!("{payload}, {} KiB", bytes >> 10);
    [
        Target::most(
            "CPU of zlib at comparable size, times plain zlib 6",
            fastest / plain.ns.median(),
            TARGET_ZLIB,
        ),
        Target::most(
            "size of the default zlib, times plain zlib 6",
            own.share / plain.share,
            COMPARABLE,
        ),
    ]
    .map(|target| target.cells(&what))
    .to_vec()
}

/// Measures compression alone and writes the table of targets.
pub fn run_alone(report: &mut Report) -> io::Result<()> {
    let mut targets =
        Table::new("compression_targets", "The targets of compression", TARGET_COLUMNS);
    run(report)?.into_iter().for_each(|row| targets.row(row));
    report.add(targets)
}
