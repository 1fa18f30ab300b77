//! Measures the tag scanner by number and length of the tags, compared with a scanner that works
//! byte by byte.

use crate::measure::{Samples, progress};
use crate::peers::Target;
use crate::plot::{Axes, Series};
use crate::report::{Report, Table};
use crate::scan::ns_per_item;
use fastrand::Rng;
use millstream_scan::{TagOffsets, TagSyntax, scalar};
use std::hint::black_box;
use std::io;

const COUNTS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Length of a tag in bytes, and the minimum ratio of the byte-by-byte scanner's time to the
/// scanner's time for 1,024 tags.
const SIZES: [(usize, f64); 3] = [(10, 5.0), (24, 7.0), (64, 14.0)];
/// Length of a string below which the only target is that the scanner is not slower.
const SHORT_BYTES: usize = 16;
/// Minimum ratio for realistic tags.
const REAL_TARGET: f64 = 2.0;
/// Bytes of all strings of one measurement. They fit into the L2 cache, and have too many tags for
/// the branch predictor to learn.
const TEXTS_BYTES: usize = 256 << 10;
const REPETITIONS: usize = 15;

type Find = fn(&[u8], &TagSyntax, &mut TagOffsets);

/// Measures and reports the scanner, and returns its targets.
pub fn run(report: &mut Report) -> io::Result<Vec<Vec<String>>> {
    let mut targets = Vec::new();
    let mut table = Table::new(
        "tags",
        "Tags: ns per text",
        &["tags", "bytes of a tag", "bytes", "scalar", "scan::tags", "ratio", "target"],
    );
    let mut curves = Vec::new();
    for (size, target) in SIZES {
        let rows: Vec<[f64; 2]> = COUNTS.iter().map(|count| ns(&texts(*count, size))).collect();
        for (count, ns) in COUNTS.iter().zip(&rows) {
            let bytes = count * (size + 1) - 1;
            row(&mut table, [*count, size, bytes], *ns, (*count == 1024).then_some(target));
        }
        let [scalar, simd] = rows[COUNTS.len() - 1];
        targets.push(Target::least(
            format!("1,024 of {size} bytes, times the twin"),
            scalar / simd,
            target,
        ));
        let points = |at: usize| {
            COUNTS
                .iter()
                .zip(&rows)
                .map(|(count, ns)| ((*count as f64).log2(), ns[at].log10()))
                .collect()
        };
        for (at, name) in ["scalar", "scan::tags"].into_iter().enumerate() {
            curves.push(Series { label: format!("{name}, {size} bytes"), points: points(at) });
        }
    }
    let mut behind_ns = f64::MIN;
    for len in [1, 2, 4, 8, 12, 15] {
        let [scalar, simd] = ns(&texts(1, len));
        row(&mut table, [1, len, len], [scalar, simd], None);
        behind_ns = behind_ns.max(simd - (scalar * 1.05).max(scalar + 1.0));
    }
    targets.push(Target::most(
        "below 16 bytes, ns behind the twin with 5% or 1 ns",
        behind_ns,
        0.0,
    ));
    let [scalar, simd] = ns(&real());
    row(&mut table, [5, 19, 99], [scalar, simd], Some(REAL_TARGET));
    targets.push(Target::least(
        "five of 19 bytes, times the twin".to_owned(),
        scalar / simd,
        REAL_TARGET,
    ));
    table.note(
        "The last row: keys of 6 bytes, values of 12. Below 16 bytes at most 5% or 1 ns more."
            .to_owned(),
    );
    report.add(table)?;
    let label = |x: &f64| format!("{}", 2_f64.powf(*x).round());
    report.plot(
        "tags",
        &Axes {
            title: "Tags of a string",
            x: "tags",
            y: "log10 of ns per string",
            x_label: &label,
        },
        &curves,
    )?;
    Ok(targets.iter().map(|target| target.cells("tags")).collect())
}

fn row(
    table: &mut Table,
    [count, size, bytes]: [usize; 3],
    [scalar, simd]: [f64; 2],
    target: Option<f64>,
) {
    let holds = match target {
        Some(target) => scalar / simd >= target,
        None if bytes < SHORT_BYTES => simd <= (scalar * 1.05).max(scalar + 1.0),
        None => true,
    };
    let target = match (target, holds) {
        (Some(target), true) => format!("{target} holds"),
        (Some(target), false) => format!("{target} MISSED"),
        (None, true) if bytes >= SHORT_BYTES => String::new(),
        (None, true) => "holds".to_owned(),
        (None, false) => "MISSED".to_owned(),
    };
    let figures = [format!("{scalar:.1}"), format!("{simd:.1}"), format!("{:.1}", scalar / simd)];
    let what = [count, size, bytes].map(|n| n.to_string());
    table.row(what.into_iter().chain(figures).chain([target]).collect());
}

/// Creates strings of `count` tags of `size` bytes each, split at random positions.
fn texts(count: usize, size: usize) -> Vec<Vec<u8>> {
    let mut random = Rng::with_seed((count * 100 + size) as u64);
    let texts = (TEXTS_BYTES / (count * (size + 1))).clamp(4, 4096);
    let mut tag = || {
        let mut tag = letters(&mut random, size);
        let split = random.u64(..size as u64) as usize;
        tag[split] = b'=';
        tag
    };
    (0..texts).map(|_| (0..count).map(|_| tag()).collect::<Vec<_>>().join(&b'|')).collect()
}

/// Creates realistic strings of five tags, with 6-byte keys and 12-byte values.
fn real() -> Vec<Vec<u8>> {
    let mut random = Rng::with_seed(1);
    let mut tag = || [letters(&mut random, 6), letters(&mut random, 12)].join(&b'=');
    (0..2048).map(|_| (0..5).map(|_| tag()).collect::<Vec<_>>().join(&b'|')).collect()
}

fn letters(random: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| b'a' + random.u64(..26) as u8).collect()
}

/// Returns the ns per string of the byte-by-byte scanner and of the scanner, with interleaved
/// samples.
fn ns(texts: &[Vec<u8>]) -> [f64; 2] {
    progress(&format!("tags: {} strings of {} bytes", texts.len(), texts[0].len()));
    let finds: [Find; 2] = [scalar::tags, millstream_scan::tags];
    let mut samples = [Samples::default(), Samples::default()];
    let mut variables = TagOffsets::default();
    for _ in 0..REPETITIONS {
        for (find, samples) in finds.iter().zip(&mut samples) {
            samples.push(ns_per_item(texts.len(), || {
                for text in texts {
                    find(black_box(text), &TagSyntax::PAIRS, &mut variables);
                    black_box(&mut variables);
                }
            }));
        }
    }
    samples.map(|samples| samples.median())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_have_the_tags_that_the_table_says() {
        let mut variables = TagOffsets::default();
        for (texts, count, bytes) in [(texts(8, 24), 8, 199), (texts(1, 1), 1, 1), (real(), 5, 99)]
        {
            for text in &texts {
                millstream_scan::tags(text, &TagSyntax::PAIRS, &mut variables);
                assert_eq!((variables.ends.len(), text.len()), (count, bytes));
            }
        }
    }
}
