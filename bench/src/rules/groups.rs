//! Measures one task that groups all lines by three keys.

use super::lane::{Contender, alternate};
use super::lines::{Block, between, count_and_sum};
use crate::measure::progress;
use crate::peers::Target;
use crate::report::Table;
use millstream_columns::Kind;
use millstream_rules::{FieldType, Task};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

/// Names of the keys, each with its number of distinct values.
const KEYS: [(&str, u32); 3] = [("zone", 10), ("host", 100), ("path", 100)];
const GROUPS: u32 = 100_000;
/// Number of blocks. Together they contain lines of nearly all groups.
const BLOCKS: u64 = 120;
const TARGET_ROWS_PER_S: f64 = 5e6;

fn line(random: &mut fastrand::Rng, out: &mut Vec<u8>) {
    let mut group = random.u32(..GROUPS);
    for (name, values) in KEYS {
        let _ = write!(out, "{name}={name}-{:06} ", group % values);
        group /= values;
    }
    let _ = write!(out, "cost={} ", random.u16(10..500));
}

fn blocks() -> Rc<[Block]> {
    let block = |seed| {
        let mut block = Block::of_lines(seed, line);
        KEYS.iter().for_each(|(name, _)| block.add_named_column(name, Kind::Text));
        block.add_named_column("cost", Kind::Int);
        block
    };
    (0..BLOCKS).map(block).collect()
}

/// Creates the task. With `is_extracted` the task takes the fields from the message itself.
fn task(is_extracted: bool) -> Arc<Task> {
    let keys: Vec<String> = KEYS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut fields = Vec::new();
    if is_extracted {
        fields.extend(keys.iter().map(|name| between(name, " ", FieldType::Text)));
        fields.push(between("cost", " ", FieldType::Int));
    }
    let inputs = count_and_sum("cost");
    Arc::new(Task { name: "t".into(), fields, condition: None, keys, inputs, window_ns: None })
}

/// Measures both variants of the task; returns the table and the targets.
pub fn measure(repetitions: usize) -> io::Result<(Table, Vec<Target>)> {
    progress("rules: three keys");
    let blocks = blocks();
    let mut columns = Contender::shared(&[task(false)], &blocks)?;
    let mut extracted = Contender::shared(&[task(true)], &blocks)?;
    alternate(&mut [&mut columns, &mut extracted], repetitions);
    let names =
        ["fields", "M rows/s", "ns per row", "evaluate ns", "merge ns", "min", "max", "groups"];
    let mut table = Table::new("rules_groups", "(h) One task, three keys", &names);
    let mut targets = Vec::new();
    for (name, of) in [("parsed before", &columns), ("left-index-right", &extracted)] {
        let figures = &of.figures;
        let ns = [&figures.ns, &figures.evaluate_ns, &figures.merge_ns].map(|of| of.median());
        let rows_per_s = figures.lines_per_s();
        let mut cells = vec![name.to_owned(), format!("{:.2}", rows_per_s / 1e6)];
        cells.extend(
            ns.iter().chain(&[figures.ns.min(), figures.ns.max()]).map(|ns| format!("{ns:.0}")),
        );
        cells.push(of.groups().to_string());
        table.row(cells);
        let what = format!("fields {name}, M rows/s");
        targets.push(Target::least(what, rows_per_s / 1e6, TARGET_ROWS_PER_S / 1e6));
    }
    table.note(format!(
        "Lines of 60 bytes in {BLOCKS} blocks, whose fields are columns, or are extracted by the task; count and sum."
    ));
    Ok((table, targets))
}
