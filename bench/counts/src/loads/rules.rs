//! Load that evaluates a thousand tasks over the same lines.

use crate::load::Load;
use crate::text::{BLOCK_BYTES, lines};
use fastrand::Rng;
use millstream_columns::{Cell, Column, ColumnBuilder, Kind};
use millstream_expressions::{Expression, Field, Input};
use millstream_groups::{Accumulator, Groups};
use millstream_rules::{
    BatchRows, Evaluator, Extraction, FieldType, FrequentKeys, Input as TaskInput, KeyGroups,
    MergeBuffers, MergeTarget, Partial, PartialReader, Plan, Task,
};
use std::fmt::Write;
use std::sync::Arc;

const TASKS: usize = 1000;
/// Number of distinct values per field. Each value belongs to one task.
const VALUES: usize = TASKS / FIELDS.len();
/// Maximum number of groups per task.
const GROUPS_MAX: usize = 1 << 20;
/// Fields of a line that the conditions compare.
const FIELDS: [&str; 5] = ["svc", "zone", "user", "code", "rack"];

/// Evaluates a plan of a thousand tasks over a block and merges the partial results. The conditions
/// compare fields and numbers; some search for a string, some for a pattern.
pub fn rules() -> Load {
    let tasks: Vec<Arc<Task>> = (0..TASKS).map(|number| Arc::new(task(number))).collect();
    let plan = Plan::new(&tasks).expect("a plan");
    let layouts = plan.tasks().iter().map(|task| task.layout().clone());
    let tables = layouts.map(|layout| {
        let groups = Groups::new(layout.clone(), 1, GROUPS_MAX);
        (groups, Groups::new(layout, 0, 1), KeyGroups::default())
    });
    let mut state = State {
        tables: tables.collect(),
        frequent: FrequentKeys::new(&plan),
        plan,
        evaluator: Evaluator::default(),
        buffers: MergeBuffers::default(),
        bytes: Vec::new(),
    };
    let block = Block::new();
    Load::new("line", move || {
        state.evaluate(&block);
        state.merge();
        block.rows as u64
    })
}

/// A plan with its tables.
struct State {
    plan: Plan,
    evaluator: Evaluator,
    /// The groups of each task, and the overflow group for events beyond the limit.
    tables: Vec<(Groups, Groups, KeyGroups)>,
    frequent: FrequentKeys,
    buffers: MergeBuffers,
    bytes: Vec<u8>,
}

impl State {
    fn evaluate(&mut self, block: &Block) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut partial = Partial::new(bytes);
        block.with_rows(|rows| self.evaluator.add_up(&self.plan, rows, &mut partial));
        let matched: u64 = self.evaluator.take_counts().map(|(_, counts)| counts.matched).sum();
        assert!(matched as usize > block.rows, "several tasks match a line");
        self.bytes = partial.into_bytes();
    }

    /// Merges the partial results as a lane does.
    fn merge(&mut self) {
        let mut reader = PartialReader::new(&self.bytes).expect("results");
        reader.number_keys(&mut self.frequent);
        while let Some(section) = reader.next(&self.plan) {
            let (groups, overflow, of_keys) = &mut self.tables[section.task];
            let target = MergeTarget { groups, overflow, of_keys, may_add: true };
            section.merge(&reader, target, &mut self.buffers);
        }
    }
}

/// Returns a task that groups by the path and sums the cost.
fn task(number: usize) -> Task {
    let mut fields: Vec<(String, millstream_rules::Field)> =
        FIELDS.iter().map(|name| between(name, " ", FieldType::Text)).collect();
    fields.push(between("path", " ", FieldType::Text));
    fields.push(between("cost", "ms", FieldType::Float));
    Task {
        name: format!("t{number}").into(),
        fields,
        condition: Some(Arc::new(Expression::condition(&condition(number)).expect("a condition"))),
        keys: vec!["path".to_owned()],
        inputs: vec![
            TaskInput { accumulator: Accumulator::Count, field: None },
            TaskInput { accumulator: Accumulator::Sum, field: Some("cost".to_owned()) },
        ],
        window_ns: None,
    }
}

fn condition(number: usize) -> String {
    let field = FIELDS[number % FIELDS.len()];
    let value = value(field, number / FIELDS.len());
    match number % 20 {
        0 => format!("message.contains('{}')", word(number / 20)),
        1 => format!("message.matches('{} [a-z]+$')", word(number / 20)),
        2..10 => format!("{field} == '{value}'"),
        _ => format!("{field} == '{value}' && cost > {}", number % 10),
    }
}

/// Returns the field `name=VALUE` of the message.
fn between(name: &str, right: &str, kind: FieldType) -> (String, millstream_rules::Field) {
    let extraction = Extraction::Between {
        from: "message".to_owned(),
        left: format!("{name}=").into(),
        index: 0,
        right: right.into(),
    };
    (name.to_owned(), millstream_rules::Field { extraction, kind })
}

fn line(line: &mut String, random: &mut Rng, _: usize) {
    line.push_str("2025-11-14T12:00:00.123Z INFO host-17 app[2231]:");
    for field in FIELDS {
        let _ = write!(line, " {field}={}", value(field, random.usize(..VALUES)));
    }
    let (path, cost) = (random.u8(..20), random.u16(10..500));
    let _ = write!(line, " path=/api/v1/orders/{path} cost={cost}ms");
    let _ = write!(line, " upstream=10.0.0.{} bytes={}", random.u8(..), random.u32(..100_000));
    let (first, last) = (word(random.usize(..TASKS / 20)), word(random.usize(..TASKS / 20)));
    let _ = write!(line, " {first} {last}");
}

fn value(field: &str, number: usize) -> String {
    format!("{}{number:04}", &field[..1])
}

/// Returns a word of random letters.
fn word(number: usize) -> String {
    let mut random = Rng::with_seed(number as u64 + 1);
    (0..10).map(|_| random.lowercase()).collect()
}

/// A block of lines as a column.
struct Block {
    text: Vec<u8>,
    rows: usize,
    message: Column,
    times: Vec<i64>,
}

impl Block {
    fn new() -> Block {
        let text = lines(BLOCK_BYTES, line);
        let mut ends = Vec::new();
        millstream_scan::newlines(&text, &mut ends);
        let rows = ends.len();
        let mut column = ColumnBuilder::new(rows);
        let mut start = 0;
        for (row, end) in ends.into_iter().enumerate() {
            column.set(row, Cell::new(Kind::Text, start, end as usize - start));
            start = end as usize + 1;
        }
        Block { text, rows, message: column.finish("message".into()), times: vec![0; rows] }
    }

    /// Calls `run` with the rows.
    fn with_rows(&self, run: impl FnOnce(&BatchRows<'_, '_>)) {
        let field = |name: &str| (name == "message").then(|| Field::from(&self.message));
        let runs = [(0, self.rows)];
        let input =
            Input { block: &self.text, rows: self.rows, runs: &runs, field: &field, rest: None };
        let place = |row: u32| (1, u64::from(row));
        run(&BatchRows { input: &input, times: &self.times, place: &place });
    }
}
