//! Lines and tasks of each load.

use millstream_columns::{Cell, Column, ColumnBuilder, Kind};
use millstream_expressions::{Expression, Field, Input};
use millstream_groups::Accumulator;
use millstream_rules::{BatchRows, Extraction, FieldType, Input as TaskInput, Task};
use std::sync::Arc;

/// Size of a block in bytes, as the file source reads it.
const BLOCK_BYTES: usize = 256 << 10;
/// Number of blocks. Together they fit into the second-level cache, like a block that was just
/// read, and have too many lines for the branch predictor to learn.
const BLOCKS: u64 = 2;
/// Fields of a line that conditions compare. The first letter of a name is also the first letter of
/// the field's values.
const FIELDS: [&str; 5] = ["svc", "zone", "user", "code", "rack"];
/// Number of words in a line that conditions search for.
const WORDS: u64 = 3;
/// Number of letters in a word.
const WORD_BYTES: usize = 10;
/// Number of tasks that match a line, if there are that many tasks.
const TASKS_PER_LINE: usize = 3;
/// Number of services in the lines of [`Load::Many`]; each line has one of them.
const MANY_SERVICES: usize = 3;
/// Number of tasks of [`Load::Many`] that match a line.
pub const MANY_TASKS_PER_LINE: usize = 300;

/// Kind of test in the conditions of the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Equality of one field.
    Equality,
    /// Equality of one of five fields, and a number.
    FiveFields,
    /// A string somewhere in the line.
    Contains,
    /// A regular expression in a tenth of the tasks, otherwise equality.
    Matches,
    /// Equality of one field that many tasks share.
    Many,
}

impl Load {
    /// Creates tasks, each of which groups by the path and has two accumulators.
    pub fn tasks(self, tasks: usize) -> Vec<Arc<Task>> {
        (0..tasks).map(|task| Arc::new(self.task(task))).collect()
    }

    fn task(self, number: usize) -> Task {
        let mut fields: Vec<(String, millstream_rules::Field)> =
            FIELDS.iter().map(|name| between(name, " ", FieldType::Text)).collect();
        fields.push(between("path", " ", FieldType::Text));
        fields.push(between("cost", "ms", FieldType::Float));
        Task {
            name: format!("t{number}").into(),
            fields,
            condition: Some(Arc::new(condition(&self.condition(number)))),
            keys: vec!["path".to_owned()],
            inputs: count_and_sum("cost"),
            window_ns: None,
        }
    }

    fn condition(self, task: usize) -> String {
        let of_three = task / TASKS_PER_LINE;
        match self {
            Load::Equality => format!("svc == '{}'", value(0, of_three)),
            Load::FiveFields => {
                let field = task % FIELDS.len();
                let (name, value) = (FIELDS[field], value(field, task / FIELDS.len()));
                format!("{name} == '{value}' && cost > {}", task % 10)
            }
            Load::Contains => format!("message.contains('{}')", literal(task)),
            Load::Matches if task.is_multiple_of(10) => {
                format!("message.matches('{} [a-z]+ [a-z]+')", word(0, of_three as u64))
            }
            Load::Matches => Load::Equality.condition(task),
            Load::Many => format!("svc == '{}'", value(0, task / MANY_TASKS_PER_LINE)),
        }
    }

    /// Creates the lines for a number of tasks. About [`TASKS_PER_LINE`] tasks match each line; for
    /// [`Load::Many`], [`MANY_TASKS_PER_LINE`] do.
    pub fn blocks(self, tasks: usize) -> Vec<Block> {
        let values = match self {
            Load::Many => MANY_SERVICES,
            _ => (tasks / TASKS_PER_LINE).max(1),
        };
        (0..BLOCKS)
            .map(|seed| Block::of_lines(seed, |random, out| line(values, random, out)))
            .collect()
    }
}

/// Returns the string that a task of [`Load::Contains`] searches for.
pub fn literal(task: usize) -> String {
    word((task % TASKS_PER_LINE) as u64, (task / TASKS_PER_LINE) as u64)
}

/// Returns the accumulators of all loads.
pub fn count_and_sum(field: &str) -> Vec<TaskInput> {
    vec![
        TaskInput { accumulator: Accumulator::Count, field: None },
        TaskInput { accumulator: Accumulator::Sum, field: Some(field.to_owned()) },
    ]
}

/// Parses a valid condition.
pub fn condition(text: &str) -> Expression {
    Expression::condition(text).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

/// Returns the field `name=VALUE` of the message.
pub fn between(name: &str, right: &str, kind: FieldType) -> (String, millstream_rules::Field) {
    let extraction = Extraction::Between {
        from: "message".to_owned(),
        left: format!("{name}=").into(),
        index: 0,
        right: right.into(),
    };
    (name.to_owned(), millstream_rules::Field { extraction, kind })
}

fn line(values: usize, random: &mut fastrand::Rng, out: &mut Vec<u8>) {
    let mut add = |text: String| out.extend_from_slice(text.as_bytes());
    add("2026-11-25T12:00:00.123Z INFO host-17 app[2231]:".to_owned());
    for (field, name) in FIELDS.iter().enumerate() {
        add(format!(" {name}={}", value(field, random.usize(..values))));
    }
    add(format!(" path=/api/v1/orders/{} cost={}ms", random.u8(..20), random.u16(10..500)));
    for series in 0..WORDS {
        add(format!(" {}", word(series, random.u64(..values as u64))));
    }
    add(format!(" upstream=10.0.0.{} bytes={}", random.u8(..), random.u32(..100_000)));
}

fn value(field: usize, number: usize) -> String {
    format!("{}{number:04}", &FIELDS[field][..1])
}

/// Returns a word of random letters.
fn word(series: u64, number: u64) -> String {
    let mut random = fastrand::Rng::with_seed(number * WORDS + series + 1);
    (0..WORD_BYTES).map(|_| random.lowercase()).collect()
}

/// A block of lines with fields of the events.
pub struct Block {
    /// The lines.
    pub text: Vec<u8>,
    /// Number of lines.
    pub rows: usize,
    /// Start and end of each line.
    pub lines: Vec<(usize, usize)>,
    columns: Vec<Column>,
    times: Vec<i64>,
}

impl Block {
    /// Creates a block of lines that `write` appends without the newline.
    pub fn of_lines(seed: u64, mut write: impl FnMut(&mut fastrand::Rng, &mut Vec<u8>)) -> Block {
        let (mut text, mut lines) = (Vec::new(), Vec::new());
        let mut random = fastrand::Rng::with_seed(seed);
        while text.len() < BLOCK_BYTES {
            let start = text.len();
            write(&mut random, &mut text);
            lines.push((start, text.len()));
            text.push(b'\n');
        }
        let rows = lines.len();
        let mut block = Block { text, rows, times: vec![0; rows], lines, columns: Vec::new() };
        block.add_column("message", |start, line| (Kind::Text, start, line.len()));
        block
    }

    /// Adds a column. Given the start of a line and the line, `find` returns the kind of the value,
    /// its start in the block, and its length.
    pub fn add_column(&mut self, name: &str, find: impl Fn(usize, &[u8]) -> (Kind, usize, usize)) {
        let mut column = ColumnBuilder::new(self.rows);
        for (row, (start, end)) in self.lines.iter().enumerate() {
            let (kind, at, len) = find(*start, &self.text[*start..*end]);
            column.set(row, Cell::new(kind, at, len));
        }
        self.columns.push(column.finish(name.into()));
    }

    /// Adds a column of the values `name=VALUE`, which end with a space.
    pub fn add_named_column(&mut self, name: &str, kind: Kind) {
        let finder = memchr::memmem::Finder::new(name.as_bytes()).into_owned();
        self.add_column(name, |start, line| {
            let from = finder.find(line).map_or(0, |at| at + name.len() + 1);
            let len = memchr::memchr(b' ', &line[from..]).unwrap_or(line.len() - from);
            (kind, start + from, len)
        });
    }

    /// Calls `run` with the rows.
    pub fn with_rows<T>(&self, run: impl FnOnce(&BatchRows<'_, '_>) -> T) -> T {
        let field =
            |name: &str| self.columns.iter().find(|column| &*column.name == name).map(Field::from);
        let runs = [(0, self.rows)];
        let input =
            Input { block: &self.text, rows: self.rows, runs: &runs, field: &field, rest: None };
        let place = |row: u32| (1, u64::from(row));
        run(&BatchRows { input: &input, times: &self.times, place: &place })
    }

    /// Returns the lines.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|(start, end)| &self.text[*start..*end])
    }
}
