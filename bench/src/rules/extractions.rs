//! Measures many left-index-right extractions of each line: in one plan, in one plan per
//! extraction, and by plain searches.

use super::lane::{Contender, Figures, alternate};
use super::lines::{Block, condition};
use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::peers::Target;
use crate::report::Table;
use memchr::memmem::Finder;
use millstream_groups::Accumulator;
use millstream_rules::{Extraction, Field, FieldType, Input, Task};
use std::hint::black_box;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

/// Number of distinct strings before a value.
const LEFTS: usize = 20;
/// Number of occurrences of each string in a line.
const OCCURRENCES: u32 = 2;
/// Strings after a value.
const RIGHTS: [&str; 5] = [",", ";", "|", " ", " k"];
/// Minimum speed of one plan, relative to one plan per extraction.
const TARGET_RATIO: f64 = 5.0;

/// A value to take from a line.
struct Between {
    left: String,
    index: u32,
    right: &'static str,
}

fn all() -> Vec<Between> {
    let lefts = (0..LEFTS).flat_map(|left| (0..OCCURRENCES).map(move |index| (left, index)));
    let one =
        |(left, index)| RIGHTS.map(|right| Between { left: format!("k{left:02}="), index, right });
    lefts.flat_map(one).collect()
}

fn line(random: &mut fastrand::Rng, out: &mut Vec<u8>) {
    for _ in 0..OCCURRENCES {
        for left in 0..LEFTS {
            let [a, b, c, d] = [(); 4].map(|()| random.u8(10..100));
            let _ = write!(out, "k{left:02}={a},{b};{c}|{d} ");
        }
    }
}

/// Creates a task that compares the value with a string that no line contains, so that the value is
/// looked up once per line.
fn task(number: usize, of: &Between) -> Arc<Task> {
    let extraction = Extraction::Between {
        from: "message".to_owned(),
        left: of.left.clone().into(),
        index: of.index,
        right: of.right.into(),
    };
    Arc::new(Task {
        name: format!("t{number}").into(),
        fields: vec![("value".to_owned(), Field { extraction, kind: FieldType::Text })],
        condition: Some(Arc::new(condition("value == 'none'"))),
        keys: Vec::new(),
        inputs: vec![Input { accumulator: Accumulator::Count, field: None }],
        window_ns: None,
    })
}

/// Measures the extractions; returns the table and the target.
pub fn measure(repetitions: usize) -> io::Result<(Table, Target)> {
    progress("rules: extractions");
    let blocks: Rc<[Block]> = (0..2).map(|seed| Block::of_lines(seed, line)).collect();
    let extractions = all();
    let tasks: Vec<Arc<Task>> =
        extractions.iter().enumerate().map(|(number, of)| task(number, of)).collect();
    let mut shared = Contender::shared(&tasks, &blocks)?;
    let mut alone = Contender::alone(&tasks, &blocks)?;
    let mut plain = Samples::default();
    for _ in 0..repetitions {
        alternate(&mut [&mut shared, &mut alone], 1);
        plain.push(plain_ns(&extractions, &blocks));
    }
    let speedup = alone.figures.ns.median() / shared.figures.ns.median();
    let table = table(&shared.figures, &alone.figures, &plain, extractions.len());
    let what = format!("{} extractions, times a plan each", extractions.len());
    Ok((table, Target::least(what, speedup, TARGET_RATIO)))
}

fn table(shared: &Figures, alone: &Figures, plain: &Samples, extractions: usize) -> Table {
    let columns = ["extractions", "ns per line", "min", "max", "ns per value", "times one plan"];
    let mut table = Table::new("rules_extractions", "(g) Many values of each line", &columns);
    let rows = [("one plan", &shared.ns), ("a plan each", &alone.ns), ("memmem each", plain)];
    for (name, ns) in rows {
        let per_line = [ns.median(), ns.min(), ns.max()].map(|ns| format!("{ns:.0}"));
        let per_value = format!("{:.1}", ns.median() / extractions as f64);
        let times = format!("{:.2}", ns.median() / shared.ns.median());
        let [median, min, max] = per_line;
        table.row(vec![name.to_owned(), median, min, max, per_value, times]);
    }
    table.note(format!(
        "{extractions} values of a line, after {LEFTS} distinct strings that occur {OCCURRENCES} \
         times each; plans look each value up in an index, the plain searches only find it."
    ));
    table
}

/// Returns the ns per line of plain searches.
fn plain_ns(extractions: &[Between], blocks: &[Block]) -> f64 {
    let finders: Vec<(Finder<'_>, u32, Finder<'_>)> = extractions
        .iter()
        .map(|of| (Finder::new(&of.left), of.index, Finder::new(of.right)))
        .collect();
    let lines: usize = blocks.iter().map(|block| block.rows).sum();
    let start = thread_cpu_seconds();
    for line in blocks.iter().flat_map(Block::lines) {
        for (left, index, right) in &finders {
            black_box(find(line, left, *index, right));
        }
    }
    (thread_cpu_seconds() - start) * 1e9 / lines as f64
}

fn find<'l>(line: &'l [u8], left: &Finder<'_>, index: u32, right: &Finder<'_>) -> Option<&'l [u8]> {
    let mut rest = line;
    for _ in 0..=index {
        rest = &rest[left.find(rest)? + left.needle().len()..];
    }
    Some(&rest[..right.find(rest).unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_searches_find_the_values() {
        let block = Block::of_lines(1, line);
        let line = block.lines().next().expect("a line");
        let values: Vec<_> = all()
            .iter()
            .map(|of| find(line, &Finder::new(&of.left), of.index, &Finder::new(of.right)))
            .collect();
        assert_eq!(values.len(), 200);
        assert!(values.iter().flatten().all(|value| (2..=12).contains(&value.len())));
        assert_eq!(values.iter().flatten().count(), 200);
    }
}
