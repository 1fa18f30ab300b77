//! Measures conditions over the columns of a web log. A search is compared with the same search
//! over the plain block; other conditions are measured per row.

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::report::{Report, Table};
use crate::weblog::WebLog;
use memchr::memmem::Finder;
use millstream_columns::{Cell, Column, ColumnBuilder, Kind};
use millstream_expressions::{Counts, Expression, Field, Input};
use std::hint::black_box;
use std::io;

/// Size of a block in bytes, as the file source reads it.
const BLOCK_BYTES: usize = 256 << 10;
/// Number of blocks. Together they fit into the L2 cache, like a block that was just parsed, and
/// have too many rows for the branch predictor to learn.
const BLOCKS: usize = 2;
/// Passes over the blocks in one sample.
const PASSES: usize = 50;
/// Minimum speed of a search, relative to the plain search.
const TARGET_RATIO: f64 = 0.6;
/// Maximum time of a condition per row, in ns.
const TARGET_ROW_NS: f64 = 8.0;

/// A string that occurs in no line.
const RARE: &str = "needle in a haystack";

/// Conditions, and whether they have a target.
const CONDITIONS: &[(&str, bool)] = &[
    ("status >= 500", true),
    ("status == 500", true),
    ("message.startsWith('10.')", true),
    ("path.startsWith('/api')", true),
    ("method == 'POST'", true),
    ("source == '/var/log/access.log'", true),
    ("status in [500, 502, 503]", false),
    ("method in ['POST', 'PUT']", false),
    ("status >= 500 && path.startsWith('/api') && !agent.contains('Bot')", false),
    ("path.matches('^/api/v[0-9]+/')", false),
    ("took > 0.5", false),
    ("status / 100 == 5", false),
];

/// A parsed block of the web log.
struct Block {
    text: Vec<u8>,
    rows: usize,
    columns: Vec<Column>,
}

impl Block {
    fn new(seed: u64) -> io::Result<Block> {
        let mut text = Vec::new();
        let (_, rows) = WebLog::new(seed).write(BLOCK_BYTES, &mut text)?;
        let names = ["message", "status", "path", "method", "agent", "took"];
        let mut builders = names.map(|_| ColumnBuilder::new(rows));
        let mut start = 0;
        for (row, line) in text.split(|byte| *byte == b'\n').take(rows).enumerate() {
            for (builder, cell) in builders.iter_mut().zip(cells(line, start)) {
                builder.set(row, cell);
            }
            let took = builders[5].float((row % 1000) as f64 / 1000.0);
            builders[5].set(row, took);
            start += line.len() + 1;
        }
        let columns =
            names.into_iter().zip(builders).map(|(name, builder)| builder.finish(name.into()));
        Ok(Block { columns: columns.collect(), text, rows })
    }

    /// Counts the rows for which a condition holds.
    fn matches(&self, condition: &Expression, words: &mut Vec<u64>) -> usize {
        let constants = [(0, "/var/log/access.log")];
        let field = |name: &str| match name {
            "source" => Some(Field::Constants(&constants)),
            name => self.columns.iter().find(|column| &*column.name == name).map(Field::from),
        };
        let runs = [(0, self.rows)];
        let input =
            Input { block: &self.text, rows: self.rows, runs: &runs, field: &field, rest: None };
        condition.matches(&input, words, &mut Counts::default());
        words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// Returns message, status, path, method and agent of a line.
fn cells(line: &[u8], start: usize) -> [Cell; 5] {
    let quotes: Vec<usize> =
        line.iter().enumerate().filter(|(_, b)| **b == b'"').map(|(at, _)| at).collect();
    let cell = |kind, from: usize, to: usize| Cell::new(kind, start + from, to - from);
    let blank =
        |from: usize| from + line[from..].iter().position(|byte| *byte == b' ').unwrap_or(0);
    let method_end = blank(quotes[0]);
    let status = quotes[1] + 2;
    [
        cell(Kind::Text, 0, line.len()),
        cell(Kind::Int, status, blank(status)),
        cell(Kind::Text, method_end + 1, blank(method_end + 1)),
        cell(Kind::Text, quotes[0] + 1, method_end),
        cell(Kind::Text, quotes[4] + 1, quotes[5]),
    ]
}

/// Measures and reports all conditions.
pub fn run(repetitions: usize, report: &mut Report) -> io::Result<()> {
    progress("expressions");
    let blocks =
        (1..=BLOCKS).map(|seed| Block::new(seed as u64)).collect::<io::Result<Vec<Block>>>()?;
    report.add(search(&blocks, repetitions))?;
    report.add(conditions(&blocks, repetitions))
}

fn search(blocks: &[Block], repetitions: usize) -> Table {
    let columns = ["condition", "GB/s", "memmem GB/s", "ratio", "target"];
    let mut table = Table::new(
        "search",
        "A rare text in the message: GB of the block per CPU second",
        &columns,
    );
    let text = format!("message.contains('{RARE}')");
    let (condition, finder) = (read(&text), Finder::new(RARE));
    let (mut ours, mut bare, mut words) = (Samples::default(), Samples::default(), Vec::new());
    for _ in 0..repetitions {
        bare.push(seconds(|| {
            each(blocks, |block| _ = black_box(finder.find(black_box(&block.text))))
        }));
        ours.push(seconds(|| {
            each(blocks, |block| _ = black_box(block.matches(&condition, &mut words)))
        }));
    }
    let bytes = PASSES * blocks.iter().map(|block| block.text.len()).sum::<usize>();
    let speed = |seconds: f64| format!("{:.2}", bytes as f64 / seconds / 1e9);
    let ratio = bare.median() / ours.median();
    let target = if ratio >= TARGET_RATIO { "holds" } else { "MISSED" };
    table.row(vec![
        text,
        speed(ours.median()),
        speed(bare.median()),
        format!("{ratio:.2}"),
        target.into(),
    ]);
    table.note(format!("Target: at least {TARGET_RATIO} of memmem over the bare block."));
    table
}

fn conditions(blocks: &[Block], repetitions: usize) -> Table {
    let columns = ["condition", "ns per row", "rows that hold", "target"];
    let mut table = Table::new("conditions", "Conditions over columns", &columns);
    let rows = PASSES * blocks.iter().map(|block| block.rows).sum::<usize>();
    for (text, has_target) in CONDITIONS {
        let (condition, mut samples, mut words, mut held) =
            (read(text), Samples::default(), Vec::new(), 0);
        for _ in 0..repetitions {
            held = 0;
            samples.push(seconds(|| {
                each(blocks, |block| held += block.matches(&condition, &mut words))
            }));
        }
        let ns = samples.median() * 1e9 / rows as f64;
        let verdict = if ns <= TARGET_ROW_NS { "holds" } else { "MISSED" };
        let target = if *has_target { verdict } else { "" };
        let share = format!("{:.1}%", held as f64 * 100.0 / rows as f64);
        table.row(vec![(*text).to_owned(), format!("{ns:.1}"), share, target.to_owned()]);
    }
    table.note(format!("Target: at most {TARGET_ROW_NS} ns for a row."));
    table
}

fn read(text: &str) -> Expression {
    Expression::condition(text).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

/// Runs `PASSES` passes over all blocks.
fn each(blocks: &[Block], mut see: impl FnMut(&Block)) {
    (0..PASSES).for_each(|_| blocks.iter().for_each(&mut see));
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = thread_cpu_seconds();
    work();
    thread_cpu_seconds() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conditions_hold_for_the_rows_that_plain_loops_find() {
        let block = Block::new(3).expect("to memory");
        let lines: Vec<&str> = std::str::from_utf8(&block.text).expect("ASCII").lines().collect();
        let held = |text: &str| block.matches(&read(text), &mut Vec::new());
        let plain = |test: &dyn Fn(&str) -> bool| lines.iter().filter(|line| test(line)).count();
        assert_eq!(lines.len(), block.rows);
        assert_eq!(held("status == 500"), plain(&|line| line.contains("\" 500 ")));
        assert_eq!(held("path.startsWith('/api')"), plain(&|line| line.contains(" /api/")));
        assert_eq!(held("method == 'POST'"), plain(&|line| line.contains("\"POST ")));
        assert_eq!(held("agent.contains('Bot')"), plain(&|line| line.contains("ExampleBot")));
        assert_eq!(held("message.contains('Firefox')"), plain(&|line| line.contains("Firefox")));
        assert_eq!(
            (held(&format!("message.contains('{RARE}')")), held("source.endsWith('.log')")),
            (0, block.rows)
        );
    }
}
