//! `millstream rules`: shows what task files compute, and the cost of the tasks.

use crate::exit::{DONE, FAILED, USAGE};
use millstream_columns::{Cell, Column, ColumnBuilder, Kind as CellKind};
use millstream_components::transforms::rules::{Planned, RulesConfig};
use millstream_config::{self as config, Registry};
use millstream_expressions::{Field, Input};
use millstream_model::Kind;
use millstream_rules::{BatchRows, Evaluator, Partial, Sampling, TaskCounts};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;

/// Number of line bytes that are evaluated at a time, the same as in the file source.
const BLOCK_BYTES: usize = 512 << 10;

/// Maximum number of tasks whose cost is listed.
const LISTED_MAX: usize = 20;

/// The arguments of `rules explain`.
#[derive(clap::Args)]
pub struct ExplainArgs {
    /// Task files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Log lines to measure the tasks: events that each task examined and matched, and its time
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

/// Prints the plan of task files; returns the exit status.
pub fn explain(args: &ExplainArgs) -> u8 {
    let planned = match planned(&args.files) {
        Ok(planned) => planned,
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
            return USAGE;
        }
    };
    let measured = args.input.as_ref().map(|input| measure(&planned, input));
    let printed = match measured.transpose() {
        Ok(cost) => print(&planned, cost.as_ref()),
        Err(error) => {
            let input = args.input.clone().unwrap_or_default();
            eprintln!("{}: {error}", input.display());
            return FAILED;
        }
    };
    // The pipe was closed.
    if printed.is_err() { FAILED } else { DONE }
}

fn planned(files: &[PathBuf]) -> Result<Planned, Vec<config::Fault>> {
    let options = config::options_of(files, Kind::Transform, "rules", &Registry)?;
    let fault = |message: String| vec![config::Fault::anywhere(message, "")];
    let config: RulesConfig =
        serde_json::from_value(options).map_err(|error| fault(error.to_string()))?;
    config.plan().map_err(|error| fault(error.to_string()))
}

/// Cost of running the tasks over a file's lines.
#[derive(Default)]
struct Cost {
    lines: u64,
    ns: u64,
    tasks: Vec<TaskCounts>,
}

fn print(planned: &Planned, cost: Option<&Cost>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{}", planned.plan.explain())?;
    let Some(cost) = cost else { return Ok(()) };
    let per_line = |ns: u64| ns as f64 / cost.lines.max(1) as f64;
    let of_tasks: u64 = cost.tasks.iter().map(|task| task.measured_ns).sum();
    let others: Vec<&str> =
        planned.names.iter().map(String::as_str).filter(|name| *name != "message").collect();
    if !others.is_empty() {
        let unset = others.join(", ");
        writeln!(out, "\nthe lines are not parsed, so these fields have no value: {unset}")?;
    }
    writeln!(
        out,
        "\n{} lines, {:.0} ns per line: {:.0} ns to find candidates, {:.0} ns in the tasks",
        cost.lines,
        per_line(cost.ns),
        per_line(cost.ns.saturating_sub(of_tasks)),
        per_line(of_tasks)
    )?;
    writeln!(out, "{:>10} {:>10} {:>9} {:>6}  task", "examined", "matched", "ns/line", "share")?;
    let mut order: Vec<usize> = (0..cost.tasks.len()).collect();
    order.sort_by_key(|task| std::cmp::Reverse(cost.tasks[*task].measured_ns));
    for task in order.iter().take(LISTED_MAX) {
        let TaskCounts { examined, matched, measured_ns, .. } = cost.tasks[*task];
        let share = 100.0 * measured_ns as f64 / cost.ns.max(1) as f64;
        let (ns, name) = (per_line(measured_ns), planned.plan.tasks()[*task].name());
        writeln!(out, "{examined:>10} {matched:>10} {ns:>9.1} {share:>5.1}%  {name}")?;
    }
    match order.len().checked_sub(LISTED_MAX) {
        Some(more) if more > 0 => writeln!(out, "... and {more} more"),
        _ => Ok(()),
    }
}

/// Evaluates the tasks over the lines of a file.
fn measure(planned: &Planned, path: &Path) -> io::Result<Cost> {
    let mut lines = BufReader::with_capacity(BLOCK_BYTES, File::open(path)?);
    let mut evaluator = Evaluator::with_sampling(Sampling { now: monotonic_ns, every: 1 });
    let mut cost =
        Cost { tasks: vec![TaskCounts::default(); planned.plan.tasks().len()], ..Cost::default() };
    let (mut block, mut cells, mut partial) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        read_block(&mut lines, &mut block, &mut cells)?;
        if cells.is_empty() {
            break;
        }
        cost.lines += cells.len() as u64;
        let (message, times) = (column(&cells), vec![0; cells.len()]);
        let field = |name: &str| (name == "message").then(|| Field::from(&message));
        let runs = [(0, cells.len())];
        let input =
            Input { block: &block, rows: cells.len(), runs: &runs, field: &field, rest: None };
        let rows = BatchRows { input: &input, times: &times, place: &|row| (0, row.into()) };
        partial.clear();
        let begun = Instant::now();
        let mut results = Partial::new(std::mem::take(&mut partial));
        evaluator.add_up(&planned.plan, &rows, &mut results);
        cost.ns += begun.elapsed().as_nanos() as u64;
        partial = results.into_bytes();
        evaluator.take_counts().for_each(|(task, counts)| cost.tasks[task].add(&counts));
    }
    Ok(cost)
}

/// Reads lines until the block is full.
fn read_block(
    lines: &mut impl BufRead,
    block: &mut Vec<u8>,
    cells: &mut Vec<Cell>,
) -> io::Result<()> {
    block.clear();
    cells.clear();
    while block.len() < BLOCK_BYTES {
        let start = block.len();
        if lines.read_until(b'\n', block)? == 0 {
            break;
        }
        let len = block.len() - start - usize::from(block.ends_with(b"\n"));
        cells.push(Cell::new(CellKind::Text, start, len));
    }
    Ok(())
}

fn column(cells: &[Cell]) -> Column {
    let mut column = ColumnBuilder::new(cells.len());
    column.cells().copy_from_slice(cells);
    column.finish("message".into())
}

fn monotonic_ns() -> u64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().as_nanos() as u64
}
