//! Measures the newline scanner by block size, compared with plain loops, and the JSON escape by
//! line length.

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::plot::{Axes, Series};
use crate::report::{Report, Table};
use crate::weblog::WebLog;
use memchr::memchr_iter;
use millstream_scan::kernels::{self, Kernel};
use std::hint::black_box;
use std::io;

/// Number of bytes of log text from which the blocks are taken. The text fits into the L2 cache,
/// like a block that was just read, and has too many lines for the branch predictor to learn.
const TEXT_BYTES: usize = 512 << 10;
const BIG_BLOCK_BYTES: usize = 256 << 10;
/// Minimum CPU seconds of one sample.
const SAMPLE_SECONDS: f64 = 0.003;
const REPETITIONS: usize = 11;

type Find = Box<dyn Fn(&[u8], &mut Vec<u32>)>;

/// Returns the compared loops. The first is the reference, and [`PUBLIC`] is the function that the
/// agent calls.
fn contenders() -> Vec<(&'static str, Find)> {
    let mut contenders: Vec<(&'static str, Find)> = vec![
        ("byte loop", Box::new(byte_loop)),
        ("vectorised loop", Box::new(vectorised_loop)),
        ("memchr_iter", Box::new(memchr_loop)),
        (PUBLIC, Box::new(millstream_scan::newlines)),
    ];
    for kernel in kernels::available() {
        contenders.push((kernel.name(), Box::new(move |block, out| kernel.newlines(block, out))));
    }
    contenders
}

const PUBLIC: &str = "scan::newlines";
const BYTE_LOOP: usize = 0;
const MEMCHR: usize = 2;
const OURS: usize = 3;

fn byte_loop(block: &[u8], out: &mut Vec<u32>) {
    for (at, byte) in block.iter().enumerate() {
        if *byte == b'\n' {
            out.push(at as u32);
        }
    }
}

/// Collects newlines with a loop over 64 bytes that the compiler vectorizes. If the loop finds a
/// newline, the positions are collected byte by byte.
fn vectorised_loop(block: &[u8], out: &mut Vec<u32>) {
    for (index, chunk) in block.chunks(64).enumerate() {
        let hits: u8 = chunk.iter().map(|byte| u8::from(*byte == b'\n')).sum();
        if hits > 0 {
            let base = index as u32 * 64;
            out.extend((base..).zip(chunk).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at));
        }
    }
}

fn memchr_loop(block: &[u8], out: &mut Vec<u32>) {
    out.extend(memchr_iter(b'\n', block).map(|at| at as u32));
}

/// Measures and reports both scanners.
pub fn run(report: &mut Report) -> io::Result<()> {
    let mut text = Vec::new();
    WebLog::new(2).write(TEXT_BYTES, &mut text)?;
    newlines(&text, report)?;
    escapes(&text, report)
}

fn newlines(text: &[u8], report: &mut Report) -> io::Result<()> {
    let contenders = contenders();
    let sizes: Vec<usize> = (1..=12).map(|power| 1 << power).chain([BIG_BLOCK_BYTES]).collect();
    let rows: Vec<Vec<f64>> =
        sizes.iter().map(|size| ns_by_contender(text, *size, &contenders)).collect();
    let names: Vec<&str> = contenders.iter().map(|(name, _)| *name).collect();
    report.add(newline_table(&names, &sizes, &rows))?;
    let label = |x: &f64| format!("{}", 2_f64.powf(*x).round());
    let axes = Axes { title: "Newline scan", x: "block size in bytes", y: "MB/s", x_label: &label };
    let series = |index: usize| Series {
        label: names[index].to_owned(),
        points: sizes
            .iter()
            .zip(&rows)
            .map(|(size, ns)| ((*size as f64).log2(), *size as f64 / ns[index] * 1e3))
            .collect(),
    };
    report.plot("scan", &axes, &(0..names.len()).map(series).collect::<Vec<_>>())
}

/// Returns the ns per call of each contender for blocks of `size` bytes, with interleaved samples.
fn ns_by_contender(text: &[u8], size: usize, contenders: &[(&str, Find)]) -> Vec<f64> {
    progress(&format!("scan: blocks of {size} bytes"));
    let mut samples = vec![Samples::default(); contenders.len()];
    let mut out = Vec::new();
    for _ in 0..REPETITIONS {
        for ((_, find), samples) in contenders.iter().zip(&mut samples) {
            samples.push(ns_per_item(text.len() / size, || {
                for block in text.chunks_exact(size) {
                    out.clear();
                    find(black_box(block), &mut out);
                    black_box(&mut out);
                }
            }));
        }
    }
    samples.iter().map(Samples::median).collect()
}

/// Returns the ns per item of a pass over `items`, measured for at least [`SAMPLE_SECONDS`].
pub fn ns_per_item(items: usize, mut pass: impl FnMut()) -> f64 {
    let (start, mut passes) = (thread_cpu_seconds(), 0);
    loop {
        pass();
        passes += 1;
        let seconds = thread_cpu_seconds() - start;
        if seconds >= SAMPLE_SECONDS {
            return seconds * 1e9 / (passes * items) as f64;
        }
    }
}

fn newline_table(names: &[&str], sizes: &[usize], rows: &[Vec<f64>]) -> Table {
    let columns: Vec<&str> =
        ["block bytes"].into_iter().chain(names.iter().copied()).chain(["target"]).collect();
    let mut table = Table::new("scan", "Newline scan: ns per call (GB/s)", &columns);
    for (size, ns) in sizes.iter().zip(rows) {
        let cell = |ns: &f64| format!("{ns:.1} ({:.2})", *size as f64 / ns);
        let verdict = if keeps_up(*size, ns) { "holds" } else { "MISSED" };
        table.row(
            [vec![size.to_string()], ns.iter().map(cell).collect(), vec![verdict.to_owned()]]
                .concat(),
        );
    }
    let missed = sizes.iter().zip(rows).filter(|(size, ns)| !keeps_up(**size, ns)).count();
    table.note(format!(
        "Target: {PUBLIC} never more than 5% or 1 ns slower than the byte loop, and at 256 KiB faster than memchr_iter: {}.",
        if missed == 0 { "holds at every size".to_owned() } else { format!("MISSED at {missed} sizes") },
    ));
    table
}

fn keeps_up(size: usize, ns: &[f64]) -> bool {
    let allowed = (ns[BYTE_LOOP] * 1.05).max(ns[BYTE_LOOP] + 1.0);
    ns[OURS] <= allowed && (size < BIG_BLOCK_BYTES || ns[OURS] < ns[MEMCHR])
}

/// Measures the escape of whole lines of the web log, and of ends of these lines with fixed
/// lengths.
fn escapes(text: &[u8], report: &mut Report) -> io::Result<()> {
    let lines: Vec<&[u8]> =
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let kernels = kernels::available();
    let columns: Vec<&str> =
        ["text"].into_iter().chain(kernels.iter().map(|kernel| kernel.name())).collect();
    let mut table = Table::new("escape", "JSON escape: ns per call", &columns);
    for len in [usize::MAX, 0, 8, 16, 32, 64, 128] {
        let texts: Vec<&[u8]> =
            lines.iter().map(|line| &line[line.len().saturating_sub(len)..]).collect();
        let mean = texts.iter().map(|text| text.len()).sum::<usize>() / texts.len();
        let name = if len == usize::MAX {
            format!("web log line, {mean} bytes")
        } else {
            format!("{mean} bytes")
        };
        progress(&format!("escape: {name}"));
        let cells = escape_ns(&texts, &kernels).into_iter().map(|ns| format!("{ns:.1}"));
        table.row([name].into_iter().chain(cells).collect());
    }
    report.add(table)
}

/// Returns the ns per string of each kernel, with interleaved samples.
fn escape_ns(texts: &[&[u8]], kernels: &[Kernel]) -> Vec<f64> {
    let mut samples = vec![Samples::default(); kernels.len()];
    let mut out = Vec::new();
    for _ in 0..REPETITIONS {
        for (kernel, samples) in kernels.iter().zip(&mut samples) {
            samples.push(ns_per_item(texts.len(), || {
                out.clear();
                texts.iter().for_each(|text| kernel.escape_json(black_box(text), &mut out));
                black_box(&mut out);
            }));
        }
    }
    samples.iter().map(Samples::median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contenders_agree() {
        let mut text = Vec::new();
        WebLog::new(3).write(5_000, &mut text).expect("to memory");
        for len in [0, 1, 63, 64, 65, 4_999] {
            let mut expected = Vec::new();
            byte_loop(&text[..len], &mut expected);
            for (name, find) in contenders() {
                let mut out = Vec::new();
                find(&text[..len], &mut out);
                assert_eq!(out, expected, "{name}");
            }
        }
    }
}
