//! Plans of tasks. The lines of an input up to an empty line are tasks; the remaining lines are
//! evaluated. A task consists of the strings left and right of its field, separated by `|`, the
//! occurrence of the left string, the type, and the condition, in which the field is `f`. If the
//! occurrence is `j`, the field is the JSON value at the path on the left.

use crate::cells::is_json;
use millstream_columns::{Cell, Column, ColumnBuilder, Kind, Number, Step, parse_int};
use millstream_expressions::{
    Counts, Expression, Field as ColumnField, Input as Columns, json_path,
};
use millstream_rules::{
    Accumulator, BatchRows, Evaluator, Extraction, Field, FieldType, Input, Partial, PartialReader,
    Plan, Task,
};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

pub const WORDS: &[&[u8]] = &[
    b"|",
    b"\n",
    b"\n\n",
    b"|0|",
    b"|1|",
    b"|i|",
    b"|f|",
    b"f == 'pay'",
    b"f == 7",
    b"f in ['pay', 7]",
    b"message.contains('err')",
    b"f.startsWith('pay')",
    b"f.endsWith('day')",
    b"message.matches('a(bc|de)+f?')",
    b" && ",
    b" || ",
    b"!(",
    b")",
    b"f > 2.5",
    b"has(f)",
    b"svc=",
    b" ",
    b",",
    b"pay",
    b"7.0",
    b"error",
    b"abcdef",
    b"a||j||",
    b"a.b[0]||j|f|",
    b"[\"a.b\"]||j|i|",
    b"{\"a\":\"pay\"}",
    b"{\"a\":{\"b\":[7,null]}}",
    b"\"a.b\":7,",
    b"[[1],{\"a\":true}]",
    b"\\u0061",
];

/// Maximum number of tasks in an input.
const TASKS_MAX: usize = 32;

/// Maximum number of lines that are evaluated.
const LINES_MAX: usize = 200;

/// A task and its condition.
struct Case {
    task: Arc<Task>,
    condition: Arc<Expression>,
}

/// Compares the rows that a plan of all tasks finds with the rows of each task alone.
pub fn rules(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let cases: Vec<Case> = lines
        .by_ref()
        .take_while(|line| !line.is_empty())
        .take(TASKS_MAX)
        .filter_map(case)
        .collect();
    let lines: Vec<&[u8]> = lines.take(LINES_MAX).collect();
    let (block, message) = message(&lines);
    let tasks: Vec<Arc<Task>> = cases.iter().map(|case| case.task.clone()).collect();
    let plan = Plan::new(&tasks).expect("fields between strings can be computed");
    let field = |name: &str| (name == "message").then(|| ColumnField::from(&message));
    let runs = [(0, lines.len())];
    let input = columns(&block, lines.len(), &runs, &field);
    let times = vec![0; lines.len()];
    let rows = BatchRows { input: &input, times: &times, place: &|row| (0, row.into()) };
    let (mut evaluator, mut found) = (Evaluator::default(), vec![Vec::new(); tasks.len()]);
    evaluator.matches(&plan, &rows, |task, rows| found[task] = rows.to_vec());
    for (case, found) in cases.iter().zip(&found) {
        let mut expected = alone(case, &lines, &block, &message);
        let mut compared = found.clone();
        if is_of_json(case) {
            let is_compared = |row: &u32| is_comparable(lines[*row as usize]);
            expected.retain(is_compared);
            compared.retain(is_compared);
        }
        assert_eq!(compared, expected, "{}", case.condition);
    }
    let mut partial = Partial::default();
    evaluator.add_up(&plan, &rows, &mut partial);
    let bytes = partial.into_bytes();
    let mut reader = PartialReader::new(&bytes).expect("partial results can be read");
    let mut events = vec![0; tasks.len()];
    while let Some(of_task) = reader.next(&plan) {
        events[of_task.task] += of_task.events();
    }
    let expected: Vec<u64> = found.iter().map(|rows| rows.len() as u64).collect();
    assert_eq!(events, expected);
}

fn case(line: &[u8]) -> Option<Case> {
    let mut parts = line.splitn(5, |byte| *byte == b'|');
    let (left, right) = (parts.next()?.to_vec(), parts.next()?.to_vec());
    let index = *parts.next()?.first()?;
    let kind = match parts.next()? {
        b"i" => FieldType::Int,
        b"f" => FieldType::Float,
        _ => FieldType::Text,
    };
    let condition = Expression::condition(std::str::from_utf8(parts.next()?).ok()?).ok()?;
    let condition = Arc::new(condition);
    let from = "message".to_owned();
    let extraction = if index == b'j' {
        Extraction::Json { from, path: json_path(std::str::from_utf8(&left).ok()?).ok()? }
    } else {
        Extraction::Between { from, left, index: u32::from(index.wrapping_sub(b'0') & 7), right }
    };
    let task = Task {
        name: "task".into(),
        fields: vec![("f".to_owned(), Field { extraction, kind })],
        condition: Some(condition.clone()),
        keys: vec!["f".to_owned()],
        inputs: vec![Input { accumulator: Accumulator::Sum, field: Some("f".to_owned()) }],
        window_ns: None,
    };
    Some(Case { task: Arc::new(task), condition })
}

/// Returns the lines as a block, and as a column.
fn message(lines: &[&[u8]]) -> (Vec<u8>, Column) {
    let (mut block, mut column) = (Vec::new(), ColumnBuilder::new(lines.len()));
    for (row, line) in lines.iter().enumerate() {
        column.set(row, Cell::new(Kind::Text, block.len(), line.len()));
        block.extend_from_slice(line);
    }
    (block, column.finish("message".into()))
}

fn columns<'a>(
    block: &'a [u8],
    rows: usize,
    runs: &'a [(usize, usize)],
    field: &'a dyn Fn(&str) -> Option<ColumnField<'a>>,
) -> Columns<'a> {
    Columns { block, rows, runs, field, rest: None }
}

/// Evaluates the condition of a task over values that are searched for line by line.
fn alone(case: &Case, lines: &[&[u8]], block: &[u8], message: &Column) -> Vec<u32> {
    let (_, field) = &case.task.fields[0];
    let mut column = ColumnBuilder::new(lines.len());
    for (row, line) in lines.iter().enumerate() {
        let value = value(line, &field.extraction);
        let kind = value.as_ref().and_then(|value| kind_of(field.kind, value));
        if let (Some(value), Some(kind)) = (value, kind) {
            let cell = column.push(kind, &value);
            column.set(row, cell);
        }
    }
    let own = column.finish("f".into());
    let of_name = |name: &str| match name {
        "f" => Some(ColumnField::from(&own)),
        "message" => Some(ColumnField::from(message)),
        _ => None,
    };
    let runs = [(0, lines.len())];
    let input = columns(block, lines.len(), &runs, &of_name);
    let (mut words, mut counts) = (Vec::new(), Counts::default());
    case.condition.matches(&input, &mut words, &mut counts);
    let is_set = |row: &u32| words[*row as usize / 64] >> (row % 64) & 1 == 1;
    (0..lines.len() as u32).filter(is_set).collect()
}

fn kind_of(kind: FieldType, text: &[u8]) -> Option<Kind> {
    match kind {
        FieldType::Text => Some(Kind::Text),
        FieldType::Int => parse_int(text).map(|_| Kind::Int),
        FieldType::Float if parse_int(text).is_some() => Some(Kind::Int),
        FieldType::Float => Number::parse(text).map(|_| Kind::Float),
    }
}

fn is_of_json(case: &Case) -> bool {
    matches!(case.task.fields[0].1.extraction, Extraction::Json { .. })
}

/// Returns whether a line is not JSON, or is JSON in the format of `serde_json`: only then are the
/// texts of numbers and objects comparable.
fn is_comparable(line: &[u8]) -> bool {
    let Ok(document) = serde_json::from_slice::<Value>(line) else { return !is_json(line) };
    document.to_string().as_bytes() == line
}

fn value<'l>(line: &'l [u8], extraction: &Extraction) -> Option<Cow<'l, [u8]>> {
    match extraction {
        Extraction::Json { path, .. } => at_path(line, path).map(Cow::Owned),
        extraction => between(line, extraction).map(Cow::Borrowed),
    }
}

/// Returns the value at a path in JSON.
fn at_path(text: &[u8], path: &[Step]) -> Option<Vec<u8>> {
    let document: Value = serde_json::from_slice(text).ok()?;
    let value = path.iter().try_fold(&document, |value, step| match step {
        Step::Member(name) => value.as_object()?.get(name),
        Step::Element(index) => value.as_array()?.get(*index as usize),
    });
    match value? {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        other => Some(other.to_string().into_bytes()),
    }
}

fn between<'l>(line: &'l [u8], extraction: &Extraction) -> Option<&'l [u8]> {
    let Extraction::Between { left, index, right, .. } = extraction else { return None };
    let mut rest = line;
    match left.is_empty() {
        true if *index > 0 => return None,
        true => {}
        false => {
            for _ in 0..=*index {
                rest = &rest[position(rest, left)? + left.len()..];
            }
        }
    }
    let end = position(rest, right).filter(|_| !right.is_empty());
    Some(&rest[..end.unwrap_or(rest.len())])
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    (0..=text.len().checked_sub(part.len())?).find(|at| text[*at..].starts_with(part))
}
