//! Measures tables of groups: memory and updates of ten million groups, compared with random reads.

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::report::{Report, Table};
use millstream_groups::{Accumulator, Groups, Layout};
use std::fs;
use std::hint::black_box;
use std::io;
use std::sync::Arc;

/// Number of rows in a batch.
const BATCH_ROWS: usize = 5000;
/// Number of batches in a sample of updates.
const SAMPLE_BATCHES: usize = 100;
/// Number of samples of updates; the table shows the median.
const SAMPLES: usize = 15;
/// Length of a key in bytes.
const KEY_BYTES: usize = 12;
/// Number of sums per group.
const SUMS: usize = 4;
/// Number of cache lines that are prefetched together for the limit.
const AHEAD: usize = 64;

/// A table of groups to measure.
struct Load {
    name: &'static str,
    /// Number of distinct strings in each key column.
    keys: &'static [u64],
    groups: u64,
    updates_per_s_target: f64,
    rss_mib_target: Option<f64>,
    /// Number of cache lines that an update reads in the parts of the table that exceed the
    /// second-level cache. A dictionary or the index takes one line, a row two.
    lines: usize,
}

const LOADS: [Load; 2] = [
    Load {
        name: "ten keys",
        keys: &[10, 10, 100, 100, 1000, 1000, 10_000, 100_000, 1_000_000, 10_000_000],
        groups: 10_000_000,
        updates_per_s_target: 3e6,
        rss_mib_target: Some(1525.0),
        lines: 6,
    },
    Load {
        name: "three keys",
        keys: &[10, 100, 100],
        groups: 100_000,
        updates_per_s_target: 5e6,
        rss_mib_target: None,
        lines: 3,
    },
];

/// Rows as columns of strings, with their words.
struct Batch {
    texts: Vec<Vec<[u8; KEY_BYTES]>>,
    words: Vec<u64>,
    groups: Vec<u32>,
}

/// Results of one load.
struct Figures {
    inserts_per_s: f64,
    updates_per_s: Samples,
    rss_mib: f64,
    bytes_per_group: f64,
    limit_per_s: f64,
}

/// Measures and reports all loads.
pub fn run(report: &mut Report) -> io::Result<()> {
    let columns = [
        "keys",
        "groups",
        "inserts/s",
        "updates/s",
        "target",
        "limit/s",
        "RSS MiB",
        "target",
        "bytes per group",
    ];
    let mut table = Table::new("rows", "Tables of groups: rows in millions per second", &columns);
    for load in &LOADS {
        let figures = load.measure()?;
        let updates = figures.updates_per_s.median();
        let millions = |rate: f64| format!("{:.2}", rate / 1e6);
        let verdict = |target: f64, holds: bool| match holds {
            true => format!("{target} holds"),
            false => format!("{target} MISSED"),
        };
        // Only the first table has a memory target: the memory of a later table would include
        // memory that the allocator keeps from earlier tables.
        let rss = load.rss_mib_target.map(|target| {
            [format!("{:.0}", figures.rss_mib), verdict(target, figures.rss_mib <= target)]
        });
        let [rss_mib, rss_verdict] = rss.unwrap_or_default();
        table.row(vec![
            load.name.to_owned(),
            load.groups.to_string(),
            millions(figures.inserts_per_s),
            millions(updates),
            verdict(load.updates_per_s_target / 1e6, updates >= load.updates_per_s_target),
            millions(figures.limit_per_s),
            rss_mib,
            rss_verdict,
            format!("{:.1}", figures.bytes_per_group),
        ]);
    }
    table.note(format!(
        "Batches of {BATCH_ROWS} rows: keys of {KEY_BYTES} bytes, {SUMS} sums. The limit: random \
         reads of the cache lines that exceed the second-level cache, with prefetches. RSS is that \
         of the process, which does nothing else."
    ));
    report.add(table)
}

impl Load {
    fn measure(&self) -> io::Result<Figures> {
        let layout = Arc::new(Layout::new(&[Accumulator::Sum; SUMS]));
        let mut groups = Groups::new(layout, self.keys.len(), usize::MAX);
        let mut batch = Batch::new(self.keys.len());
        let mut seconds = 0.0;
        for from in (0..self.groups).step_by(BATCH_ROWS) {
            progress(&format!("rows: {}, {from} groups", self.name));
            batch.fill(self, (from..self.groups).take(BATCH_ROWS));
            seconds += batch.merge(&mut groups);
        }
        assert_eq!(groups.len() as u64, self.groups, "{}", self.name);
        let rss_mib = rss_mib()?;
        let (mut updates_per_s, mut random) = (Samples::default(), 1);
        for _ in 0..SAMPLES {
            progress(&format!("rows: {}, updates", self.name));
            updates_per_s.push(self.update(&mut groups, &mut batch, &mut random));
        }
        let bytes = groups.memory_bytes();
        drop(groups);
        Ok(Figures {
            inserts_per_s: self.groups as f64 / seconds,
            updates_per_s,
            rss_mib,
            bytes_per_group: bytes as f64 / self.groups as f64,
            limit_per_s: random_lines_per_s(bytes) / self.lines as f64,
        })
    }

    /// Returns the updates per second in one sample.
    fn update(&self, groups: &mut Groups, batch: &mut Batch, random: &mut u64) -> f64 {
        let mut seconds = 0.0;
        for _ in 0..SAMPLE_BATCHES {
            let numbers = (0..BATCH_ROWS).map(|_| below(self.groups, next(random)));
            batch.fill(self, numbers);
            seconds += batch.merge(groups);
        }
        (SAMPLE_BATCHES * BATCH_ROWS) as f64 / seconds
    }

    /// Returns the number of a group's string in a column. In the table with three keys, all
    /// columns together identify the group.
    fn text(&self, column: usize, group: u64) -> u64 {
        let before: u64 = self.keys[..column].iter().product();
        match self.keys[column] {
            keys if keys >= self.groups => group,
            keys if self.keys.len() == 3 => group / before % keys,
            keys => below(keys, mix(group * self.keys.len() as u64 + column as u64)),
        }
    }
}

impl Batch {
    fn new(keys: usize) -> Batch {
        Batch { texts: vec![Vec::new(); keys], words: Vec::new(), groups: Vec::new() }
    }

    /// Replaces the rows with rows of the given groups.
    fn fill(&mut self, load: &Load, groups: impl Iterator<Item = u64>) {
        self.texts.iter_mut().for_each(Vec::clear);
        self.words.clear();
        for group in groups {
            for (column, texts) in self.texts.iter_mut().enumerate() {
                texts.push(text(column, load.text(column, group)));
            }
            self.words.extend((0..SUMS as u64).map(|sum| ((group + sum) as f64).to_bits()));
        }
        self.groups.resize(self.texts[0].len(), 0);
    }

    /// Merges the rows into a table; returns the CPU seconds.
    fn merge(&mut self, groups: &mut Groups) -> f64 {
        let columns: Vec<Vec<Option<&[u8]>>> =
            self.texts.iter().map(|texts| options(texts)).collect();
        let columns: Vec<&[Option<&[u8]>]> = columns.iter().map(|column| &column[..]).collect();
        let before = thread_cpu_seconds();
        groups.merge_rows(&columns, &self.words, &mut self.groups);
        thread_cpu_seconds() - before
    }
}

/// Returns strings as an event field that every event has.
fn options(texts: &[[u8; KEY_BYTES]]) -> Vec<Option<&[u8]>> {
    texts.iter().map(|text| Some(&text[..])).collect()
}

/// Returns the text of [`KEY_BYTES`] for a number: the column, then letters.
fn text(column: usize, mut number: u64) -> [u8; KEY_BYTES] {
    let mut text = [b'k'; KEY_BYTES];
    text[1] = b'0' + column as u8;
    for letter in text[2..].iter_mut().rev() {
        *letter = b'a' + (number % 26) as u8;
        number /= 26;
    }
    text
}

/// Mixes the bits of a number (the finalizer of MurmurHash3).
fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    number = (number ^ number >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    number ^ number >> 33
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mix(*random)
}

/// Scales random bits to a number below `end`.
fn below(end: u64, random: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

/// Returns how many random cache lines per second are read, with prefetches, from a buffer of
/// `bytes`.
fn random_lines_per_s(bytes: usize) -> f64 {
    let lines = vec![[1_u64; 8]; (bytes / 64).max(1)];
    let (mut random, mut sum, mut places) = (1, 0, [0; AHEAD]);
    let rounds = 100_000;
    let before = thread_cpu_seconds();
    for _ in 0..rounds {
        for place in &mut places {
            *place = below(lines.len() as u64, next(&mut random)) as usize;
            millstream_scan::prefetch(&lines[*place]);
        }
        sum += places.iter().map(|place| lines[*place][0]).sum::<u64>();
    }
    black_box(sum);
    (rounds * AHEAD) as f64 / (thread_cpu_seconds() - before)
}

/// Returns the resident memory of the process.
fn rss_mib() -> io::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
}
