//! Checks that a plan produces the same results as evaluating each task by itself.

use super::random::{fields, line, pick, task};
use super::reference::{Outcome, Place, Table, evaluate};
use crate::{
    BatchRows, Evaluator, FrequentKeys, KeyGroups, MergeBuffers, MergeTarget, Partial,
    PartialReader, Plan, Task,
};
use fastrand::Rng;
use millstream_columns::{Cell, Column, ColumnBuilder, Kind};
use millstream_groups::{Accumulator, Groups, Samples, Side, hash};
use millstream_testkit_random::{Seed, TestSize};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Returns a table of random lines, and of columns as a parser would produce them.
fn table(random: &mut Rng) -> Table {
    let rows = random.usize(..50);
    let (mut block, mut message) = (Vec::new(), ColumnBuilder::new(rows));
    for row in 0..rows {
        let text = line(random);
        if random.u32(..20) == 0 {
            message.text(row, text.as_bytes());
        } else {
            message.set(row, Cell::new(Kind::Text, block.len(), text.len()));
            block.extend_from_slice(text.as_bytes());
            block.push(b'\n');
        }
    }
    let mut columns = vec![message.finish("message".into())];
    for name in ["status", "kind", "user-agent", "object", "extra"] {
        if random.u32(..5) > 0 {
            columns.push(column(random, name, rows));
        }
    }
    let has_rest = random.u32(..4) == 0;
    let rest = has_rest.then(|| rest(random, rows));
    let mut runs = Vec::new();
    let mut start = 0;
    while start < rows {
        let end = start + random.usize(1..60);
        runs.push((start, end.min(rows)));
        start = end + random.usize(1..5) * random.usize(..2);
    }
    let times = (0..rows).map(|_| random.i64(-100_000..100_000)).collect();
    Table { block, rows, runs, columns, rest, times }
}

fn column(random: &mut Rng, name: &str, rows: usize) -> Column {
    let mut column = ColumnBuilder::new(rows);
    for row in 0..rows {
        let (kind, text) = match (name, random.u32(..6)) {
            (_, 0) => continue,
            ("object", 1..4) => {
                (Kind::Object, pick(random, &[r#"{"part":"pay"}"#, r#"{"part":7}"#, "{}"]))
            }
            (_, 1) => (Kind::Int, pick(random, &["200", "7", "12"])),
            (_, 2) => (Kind::Float, pick(random, &["7.0", "0.5", "2e2"])),
            (_, 3) => (Kind::Escaped, pick(random, &[r"p\u0061y", "error", r"a=\n"])),
            (_, 4) => (Kind::True, ""),
            _ => (Kind::Text, pick(random, &["pay", "error", "errors a=b", ""])),
        };
        let cell = match kind {
            Kind::True => Cell::constant(kind),
            _ => column.push(kind, text.as_bytes()),
        };
        column.set(row, cell);
    }
    column.finish(name.into())
}

fn rest(random: &mut Rng, rows: usize) -> Column {
    let mut column = ColumnBuilder::new(rows);
    for row in 0..rows {
        let text = pick(
            random,
            &[r#""extra":"pay""#, r#""status":7,"f0":"pay""#, r#""none":"x","user-agent":"y""#],
        );
        let cell = column.push(Kind::Members, text.as_bytes());
        column.set(row, cell);
    }
    column.finish("".into())
}

/// The tables of a task: groups by window, and the number of events for which there was no space.
#[derive(Default)]
struct Tables {
    windows: BTreeMap<Option<i64>, (Groups, KeyGroups)>,
    overflow: Option<Groups>,
    overflows: u64,
}

/// Merges the partial results of all tasks, with or without numbering frequent keys.
fn merged(
    plan: &Plan,
    (partials, groups_max): (&[Vec<u8>], usize),
    mut frequent: Option<FrequentKeys>,
) -> Vec<Tables> {
    let mut tables: Vec<Tables> = plan.tasks().iter().map(|_| Tables::default()).collect();
    let mut buffers = MergeBuffers::default();
    for bytes in partials {
        let mut reader = PartialReader::new(bytes).expect("a partial result");
        frequent.iter_mut().for_each(|frequent| reader.number_keys(frequent));
        while let Some(section) = reader.next(plan) {
            let of_task = &plan.tasks()[section.task];
            let layout = of_task.layout();
            let Tables { windows, overflow, overflows } = &mut tables[section.task];
            let (groups, of_keys) = windows.entry(section.window).or_insert_with(|| {
                let groups = Groups::new(layout.clone(), of_task.task.keys.len(), groups_max);
                (groups, KeyGroups::default())
            });
            let overflow = overflow.get_or_insert_with(|| Groups::new(layout.clone(), 0, 1));
            let target = MergeTarget { groups, overflow, of_keys, may_add: true };
            *overflows += section.merge(&reader, target, &mut buffers).overflows;
        }
    }
    tables
}

/// The keys and words of a group.
type Content<'g> = (Vec<Option<&'g [u8]>>, Vec<u64>);

/// Returns the keys and words of all groups in key order, except references to sides.
fn content(groups: &Groups) -> Vec<Content<'_>> {
    let accumulators = groups.layout().accumulators().iter().zip(groups.layout().offsets());
    let sides =
        accumulators.filter(|(accumulator, _)| accumulator.is_side()).map(|(_, offset)| *offset);
    let sides: Vec<usize> = sides.collect();
    let of_group = |group: u32| {
        let keys = (0..groups.keys()).map(|key| groups.key(group, key)).collect();
        let words = groups.words(group).iter().enumerate();
        (keys, words.filter(|(at, _)| !sides.contains(at)).map(|(_, word)| *word).collect())
    };
    let mut content: Vec<_> = (0..groups.len() as u32).map(of_group).collect();
    content.sort();
    content
}

/// Compares merging with numbered frequent keys and merging without them.
fn compare_merges(plan: &Plan, partials: &[Vec<u8>], groups_max: usize, at: &str) {
    let with = merged(plan, (partials, usize::MAX), Some(FrequentKeys::new(plan)));
    let without = merged(plan, (partials, usize::MAX), None);
    let limited = merged(plan, (partials, groups_max), Some(FrequentKeys::new(plan)));
    for (task, ((with, without), limited)) in with.iter().zip(&without).zip(&limited).enumerate() {
        let at = format!("{at}, task {task}");
        assert_eq!((with.overflows, without.overflows), (0, 0), "{at}: overflow");
        let windows = with.windows.iter().zip(&without.windows);
        for ((window, (with, _)), (_, (without, _))) in windows {
            assert_eq!(content(with), content(without), "{at}, window {window:?}");
        }
        assert_eq!(limited.events(), without.events(), "{at}: events of {groups_max} groups");
        let mut of_windows = limited.windows.values();
        assert!(of_windows.all(|(groups, _)| groups.len() <= groups_max), "{at}: limit");
    }
}

impl Tables {
    /// Returns the number of events if the task counts events.
    fn events(&self) -> Option<u64> {
        let tables = self.windows.values().map(|(groups, _)| groups).chain(&self.overflow);
        let of_table = |groups: &Groups| {
            let is_count = |accumulator: &Accumulator| *accumulator == Accumulator::Count;
            let count = groups.layout().accumulators().iter().position(is_count)?;
            let offset = groups.layout().offsets()[count];
            Some((0..groups.len() as u32).map(|group| groups.words(group)[offset]).sum::<u64>())
        };
        tables.map(of_table).sum()
    }
}

/// Compares a task's groups with the result of evaluating the task by its definition.
fn compare(
    task: &Task,
    windows: &BTreeMap<Option<i64>, (Groups, KeyGroups)>,
    outcome: &Outcome,
    table: &Table,
    at: &str,
) {
    let mut seen: HashSet<Place> = HashSet::new();
    for (window, (groups, _)) in windows {
        for group in 0..groups.len() as u32 {
            let key = (0..groups.keys())
                .map(|index| groups.key(group, index).map(<[u8]>::to_vec))
                .collect();
            let place = (*window, key);
            let rows = outcome.groups.get(&place).unwrap_or_else(|| panic!("{at}: no {place:?}"));
            for (number, input) in task.inputs.iter().enumerate() {
                let column = outcome.inputs[number].as_ref();
                compare_input(
                    input.accumulator,
                    (groups, group, number),
                    (column, rows),
                    table,
                    at,
                );
            }
            seen.insert(place);
        }
    }
    assert_eq!(seen.len(), outcome.groups.len(), "{at}: groups");
}

fn compare_input(
    accumulator: Accumulator,
    (groups, group, number): (&Groups, u32, usize),
    (column, rows): (Option<&Column>, &[u32]),
    table: &Table,
    at: &str,
) {
    let words = &groups.words(group)[groups.layout().offsets()[number]..];
    let Some(column) = column else {
        return assert_eq!(words[0], rows.len() as u64, "{at}: events");
    };
    let text = |row: &u32| column.value(&table.block, *row as usize).plain();
    let parsed = |row: &u32| {
        let number = millstream_columns::Number::parse(&text(row)?)?.as_f64();
        Some((*row, number))
    };
    let numbers: Vec<(u32, f64)> = rows.iter().filter_map(parsed).collect();
    let values = || numbers.iter().map(|(_, value)| *value);
    let float = f64::from_bits(words[0]);
    let or_nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
    match accumulator {
        Accumulator::Count => assert_eq!(words[0], numbers.len() as u64, "{at}: numbers"),
        Accumulator::Sum => {
            let sum = or_nan((!numbers.is_empty()).then(|| values().sum()));
            assert!(
                (float - sum).abs() < 1e-6 || float.is_nan() && sum.is_nan(),
                "{at}: {float} {sum}"
            );
        }
        Accumulator::Min => {
            let min = or_nan(values().reduce(f64::min));
            assert_eq!(float.to_bits(), min.to_bits(), "{at}: min");
        }
        Accumulator::Max => {
            let max = or_nan(values().reduce(f64::max));
            assert_eq!(float.to_bits(), max.to_bits(), "{at}: max");
        }
        Accumulator::Last => {
            let last = numbers.iter().max_by_key(|(row, _)| (table.times[*row as usize], *row));
            let last = or_nan(last.map(|(_, value)| *value));
            assert_eq!(float.to_bits(), last.to_bits(), "{at}: last");
        }
        Accumulator::Distinct => {
            let distinct: HashSet<u64> =
                rows.iter().filter_map(text).map(|text| hash(&text)).collect();
            let estimate = match groups.side(group, number) {
                Some(Side::Distinct(hll)) => hll.estimate().round() as usize,
                _ => 0,
            };
            assert_eq!(estimate, distinct.len(), "{at}: distinct");
        }
        Accumulator::Samples { size } => {
            let mut expected = Samples::new(size);
            for row in rows {
                let add = |text: std::borrow::Cow<'_, [u8]>| {
                    expected.add(table.times[*row as usize], 1, u64::from(*row), &text);
                };
                text(row).into_iter().for_each(add);
            }
            match groups.side(group, number) {
                Some(Side::Samples(samples)) => assert_eq!(*samples, expected, "{at}: samples"),
                _ => assert!(expected.samples().is_empty(), "{at}: samples"),
            }
        }
        _ => {}
    }
}

/// Evaluates random tasks on random tables. Returns the number of rows that matched.
fn run(seed: u64) -> usize {
    let random = &mut Rng::with_seed(seed);
    let fields = fields(random);
    let tasks: Vec<Arc<Task>> =
        (0..random.usize(1..10)).map(|number| Arc::new(task(random, number, &fields))).collect();
    let plan = Plan::new(&tasks).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let mut evaluator = Evaluator::default();
    let (mut matched, mut partials) = (0, Vec::new());
    // Later batches use the buffers that the first batch has left behind.
    for number in 0..2 {
        let table = table(random);
        let (mut found, mut partial) = (vec![Vec::new(); tasks.len()], Partial::default());
        table.with_input(&[], |input| {
            let place = |row: u32| (1, u64::from(row));
            let rows = BatchRows { input, times: &table.times, place: &place };
            evaluator.matches(&plan, &rows, |task, rows| found[task] = rows.to_vec());
            evaluator.add_up(&plan, &rows, &mut partial);
        });
        partials.push(partial.into_bytes());
        let frequent = Some(FrequentKeys::new(&plan));
        let tables = merged(&plan, (&partials[number..], usize::MAX), frequent);
        for (index, (task, found)) in tasks.iter().zip(&found).enumerate() {
            let outcome = evaluate(task, &table);
            let at = format!(
                "seed {seed}, table {number}, task {index}: {:?}",
                task.condition.as_ref().map(|condition| condition.to_string())
            );
            assert_eq!(*found, outcome.rows, "{at}");
            compare(task, &tables[index].windows, &outcome, &table, &at);
            matched += found.len();
        }
    }
    (0..6).for_each(|_| partials.push(partials[random.usize(..2)].clone()));
    compare_merges(&plan, &partials, random.usize(1..20), &format!("seed {seed}"));
    matched
}

/// Number of plans. Each runs on two tables.
const CASES: TestSize = TestSize { gate: 3000, long: 200_000 };

#[test]
fn a_plan_gives_the_results_of_each_task_alone() {
    let matched: usize = Seed::of_test_or(1).cases(CASES).map(run).sum();
    assert!(matched > CASES.count(), "{matched} rows matched");
}
