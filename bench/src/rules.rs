//! Measures the tasks of `rules`: thousands of tasks over the same lines, compared with each task
//! alone, with plain loops, and with mtail; and whether the results arrive in time.

mod beside;
mod deadlines;
mod extractions;
mod groups;
mod lane;
mod lines;
mod searches;
mod vectorscan;

use crate::Options;
use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::peers::{TARGET_COLUMNS, Target};
use crate::plot::{Axes, Series};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use lane::{Contender, Figures, alternate};
use lines::{Block, Load, MANY_TASKS_PER_LINE};
use std::collections::HashMap;
use std::hint::black_box;
use std::io;
use std::rc::Rc;

/// Numbers of tasks to measure.
const TASKS: [usize; 5] = [1, 10, 100, 1000, 5000];
/// Number of tasks for the targets, and the number that their speed is compared with.
const TARGET_TASKS: usize = 1000;
const FEW_TASKS: usize = 10;
/// Maximum time of a match, in ns.
const TARGET_MATCH_NS: f64 = 40.0;
/// Minimum speed of one plan for all tasks, relative to one plan per task.
const TARGET_SHARED: f64 = 30.0;

/// Loads, with the letter of their targets: the minimum speed at 1,000 tasks in millions of lines
/// per second, and relative to 10 tasks.
const LOADS: [(&str, Load, f64, Option<f64>); 4] = [
    ("a: one field", Load::Equality, 2.0, Some(0.5)),
    ("b: five fields and a number", Load::FiveFields, 2.0, Some(0.5)),
    ("c: strings in lines", Load::Contains, 1.0, Some(0.3)),
    ("d: a tenth regular expressions", Load::Matches, 1.0, None),
];

const COLUMNS: [&str; 9] = [
    "load: tasks",
    "M lines/s",
    "ns per line",
    "min",
    "max",
    "evaluate ns",
    "merge ns",
    "matches per line",
    "plan ms",
];

/// Names of the parts other than [`LOADS`].
const PARTS: [&str; 6] = ["beside", "deadlines", "e", "g", "h", "i"];

/// Measures and reports the parts in `names`, or all parts.
pub fn run(
    options: &Options,
    names: &[String],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let known = || LOADS.iter().map(|(name, ..)| letter(name)).chain(PARTS);
    if let Some(name) = names.iter().find(|name| known().all(|known| known != **name)) {
        return Err(io::Error::other(format!("rules: there is no part {name}")));
    }
    let wants = |part: &str| names.is_empty() || names.iter().any(|name| name == part);
    let mut targets = Vec::new();
    // This part runs first, while the process is small: the kernel counts the memory of this
    // process as memory of the programs that it starts.
    if wants("beside") {
        targets.extend(beside::run(options, scratch, report)?);
    }
    if wants("deadlines") {
        targets.extend(deadlines::run(options, scratch, report)?);
    }
    targets.extend(in_memory(options.repetitions, wants, report)?);
    let mut table = Table::new("rules_targets", "The targets", TARGET_COLUMNS);
    targets.iter().for_each(|target| table.row(target.cells("rules")));
    report.add(table)
}

fn in_memory(
    repetitions: usize,
    wants: impl Fn(&str) -> bool,
    report: &mut Report,
) -> io::Result<Vec<Target>> {
    let mut targets = scaling(repetitions, &wants, report)?;
    if wants("e") {
        targets.push(many(repetitions, report)?);
    }
    if wants("g") {
        let (table, target) = extractions::measure(repetitions)?;
        report.add(table)?;
        targets.push(target);
    }
    if wants("h") {
        let (table, of_groups) = groups::measure(repetitions)?;
        report.add(table)?;
        targets.extend(of_groups);
    }
    if wants("i") {
        report.add(searches::table(&TASKS, repetitions)?)?;
    }
    Ok(targets)
}

/// Returns the letter of a load in its targets.
fn letter(name: &'static str) -> &'static str {
    name.split(':').next().unwrap_or(name)
}

/// Measures the loads by the number of tasks, and one plan per task.
fn scaling(
    repetitions: usize,
    wants: impl Fn(&str) -> bool,
    report: &mut Report,
) -> io::Result<Vec<Target>> {
    let mut table = Table::new("rules_scaling", "Tasks over the same lines", &COLUMNS);
    let (mut targets, mut curves) = (Vec::new(), Vec::new());
    for (name, load, speed, share) in LOADS.into_iter().filter(|(name, ..)| wants(letter(name))) {
        progress(&format!("rules: {name}"));
        let (all, alone) = by_tasks(load, repetitions)?;
        for (tasks, figures) in &all {
            table.row(cells(&format!("{name}: {tasks}"), figures));
        }
        if let Some(alone) = &alone {
            table.row(cells(&format!("f: a plan for each task of a: {TARGET_TASKS}"), alone));
        }
        targets.extend(targets_of(letter(name), &all, alone.as_ref(), speed, share));
        let point =
            |(tasks, of): &(usize, Figures)| ((*tasks as f64).log10(), of.lines_per_s() / 1e3);
        curves.push(Series { label: name.to_owned(), points: all.iter().map(point).collect() });
    }
    if curves.is_empty() {
        return Ok(targets);
    }
    table.note(scaling_note(repetitions));
    report.add(table)?;
    let title = "Lines over the number of tasks";
    let axes = Axes { title, x: "tasks", y: "thousand lines/s", x_label: &power_of_ten };
    report.plot("rules_scaling", &axes, &curves)?;
    Ok(targets)
}

fn scaling_note(repetitions: usize) -> String {
    format!(
        "CPU time of one thread on one core over blocks of 256 KiB, medians of {repetitions}. \
         Evaluation includes the partial results; the merge is into a table for each task. Each task \
         groups by a field with 20 values, counts and adds up a number."
    )
}

/// Figures by the number of tasks.
type ByTasks = Vec<(usize, Figures)>;

/// Measures a load by the number of tasks; load (a) also with one plan per task.
fn by_tasks(load: Load, repetitions: usize) -> io::Result<(ByTasks, Option<Figures>)> {
    let (mut shared, mut alone) = (Vec::new(), None);
    for tasks in TASKS {
        let (of_load, blocks) = (load.tasks(tasks), Rc::from(load.blocks(tasks)));
        shared.push(Contender::shared(&of_load, &blocks)?);
        if load == Load::Equality && tasks == TARGET_TASKS {
            alone = Some(Contender::alone(&of_load, &blocks)?);
        }
    }
    alternate(&mut shared.iter_mut().chain(&mut alone).collect::<Vec<_>>(), repetitions);
    let figures = TASKS.into_iter().zip(shared.into_iter().map(|of| of.figures)).collect();
    Ok((figures, alone.map(|of| of.figures)))
}

fn targets_of(
    name: &str,
    all: &[(usize, Figures)],
    alone: Option<&Figures>,
    speed: f64,
    share: Option<f64>,
) -> Vec<Target> {
    let at = |tasks| {
        let found = all.iter().find(|(of, _)| *of == tasks);
        found.map_or(f64::NAN, |(_, figures)| figures.lines_per_s())
    };
    let many = at(TARGET_TASKS);
    let mut targets = vec![Target::least(format!("{name}, M lines/s"), many / 1e6, speed)];
    let of_few = format!("{name}, times {FEW_TASKS} tasks");
    targets.extend(share.map(|share| Target::least(of_few, many / at(FEW_TASKS), share)));
    let of_alone = format!("{name}, times a plan each");
    targets.extend(
        alone.map(|alone| Target::least(of_alone, many / alone.lines_per_s(), TARGET_SHARED)),
    );
    targets
}

fn cells(name: &str, figures: &Figures) -> Vec<String> {
    let ns = [figures.ns.median(), figures.ns.min(), figures.ns.max()];
    let parts = [figures.evaluate_ns.median(), figures.merge_ns.median()];
    let mut cells = vec![name.to_owned(), format!("{:.3}", figures.lines_per_s() / 1e6)];
    cells.extend(ns.iter().chain(&parts).map(|ns| format!("{ns:.0}")));
    cells.push(format!("{:.2}", figures.matches));
    cells.push(format!("{:.1}", figures.plan_ms));
    cells
}

/// Measures a match when many tasks match each line, and compares it with an update of a hash
/// table.
fn many(repetitions: usize, report: &mut Report) -> io::Result<Target> {
    progress("rules: many matches");
    let blocks: Rc<[Block]> = Load::Many.blocks(TARGET_TASKS).into();
    let mut contender = Contender::shared(&Load::Many.tasks(TARGET_TASKS), &blocks)?;
    let (mut limit, mut tables) = (Samples::default(), HashMap::default());
    for _ in 0..repetitions {
        contender.sample();
        limit.push(update_ns(&blocks, &mut tables));
    }
    let figures = &contender.figures;
    let ns = figures.ns.median() / figures.matches;
    let columns = ["a match", "ns", "min", "max", "matches per line"];
    let mut table = Table::new("rules_matches", "(e) Many tasks match a line", &columns);
    let matches = format!("{:.1}", figures.matches);
    let mut row = |name: &str, [median, min, max]: [f64; 3]| {
        let [median, min, max] = [median, min, max].map(|ns| format!("{ns:.1}"));
        table.row(vec![name.to_owned(), median, min, max, matches.clone()]);
    };
    let all = |of: &Samples, by: f64| [of.median() / by, of.min() / by, of.max() / by];
    row("of a task", all(&figures.ns, figures.matches));
    row("its evaluation", all(&figures.evaluate_ns, figures.matches));
    row("its merge", all(&figures.merge_ns, figures.matches));
    row("limit: an update", all(&limit, 1.0));
    table.note(format!(
        "{TARGET_TASKS} tasks, of which {MANY_TASKS_PER_LINE} match each line. The limit is a loop \
         that adds 1 and a number to an entry of a hash table by task and group; reading \
         the line is not part of it."
    ));
    report.add(table)?;
    Ok(Target::most("e, ns per match", ns, TARGET_MATCH_NS))
}

/// Counts and sums by task and group.
type Updates = HashMap<(u32, u32), (u64, f64), foldhash::fast::RandomState>;

/// Returns the ns of a hash table update per match.
fn update_ns(blocks: &[Block], table: &mut Updates) -> f64 {
    let mut random = fastrand::Rng::with_seed(5);
    let tasks = MANY_TASKS_PER_LINE as u32;
    let line = |_| (random.u32(..3) * tasks, random.u32(..20), random.f64());
    let lines = blocks.iter().map(|block| block.rows).sum();
    let lines: Vec<(u32, u32, f64)> = (0..lines).map(line).collect();
    let start = thread_cpu_seconds();
    for (first, group, value) in &lines {
        for task in *first..first + tasks {
            let (count, sum) = table.entry((task, *group)).or_default();
            *count += 1;
            *sum += value;
        }
    }
    black_box(&table);
    (thread_cpu_seconds() - start) * 1e9 / (lines.len() * MANY_TASKS_PER_LINE) as f64
}

/// Formats a number, given its decimal logarithm.
fn power_of_ten(log: &f64) -> String {
    format!("{:.0}", 10_f64.powf(*log))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(load: Load, tasks: usize) -> f64 {
        let blocks: Rc<[Block]> = load.blocks(tasks).into();
        let mut contender = Contender::shared(&load.tasks(tasks), &blocks).expect("a plan");
        contender.sample();
        contender.figures.matches
    }

    #[test]
    fn three_tasks_match_a_line_or_many() {
        for (name, load, ..) in LOADS {
            for tasks in [10, 100, 1000] {
                let found = matches(load, tasks);
                assert!((2.8..3.4).contains(&found), "{name}, {tasks} tasks: {found}");
            }
        }
        assert_eq!(matches(Load::Many, TARGET_TASKS), MANY_TASKS_PER_LINE as f64);
    }
}
