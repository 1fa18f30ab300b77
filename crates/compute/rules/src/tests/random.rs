//! Random tasks and lines that often match each other.

use crate::{Extraction, Field, FieldType, Input, Task};
use fastrand::Rng;
use millstream_expressions::{Expression, json_path};
use millstream_groups::Accumulator;
use std::sync::Arc;

/// Chooses an element of a list.
pub fn pick<T: Copy>(random: &mut Rng, list: &[T]) -> T {
    list[random.usize(..list.len())]
}

const LEFTS: &[&str] = &["a=", "b=", ",", " ", "a", "==", ""];
const RIGHTS: &[&str] = &[" ", ",", "", "a=", "b"];
const PATTERNS: &[(&str, &str)] = &[
    ("a=(?P<v>[a-z]+)", "v"),
    ("a=(?P<v>[a-z]+)", "0"),
    ("([0-9]+) *,(x)?", "1"),
    ("([0-9]+) *,(x)?", "2"),
];
const WORDS: &[&str] = &[
    "pay",
    "cart",
    "error",
    "errors",
    "12",
    "7",
    "7.0",
    "-3",
    "x",
    "",
    "aba",
    "9007199254740993",
    "9007199254740992.0",
];
const EVENTS: &[&str] =
    &["message", "status", "kind", "none", "user-agent", "object.part", "extra"];
/// Numbers used in conditions. As floats, 2^53 + 1 and 2^53 are equal.
const NUMBERS: &[&str] = &["7", "12", "-3", "7.0", "200", "9007199254740993"];
const TEXTS: &[&str] = &["pay", "error", "err", "a=", "cart", "12", "7", "zzz", "", "bab"];

const PATHS: &[&str] =
    &["a", "b.a", "b[1]", "b[0].a", "[\"a.b\"]", "[0]", "a.b.a", "b.b[2][0]", "part", "b"];
const SCALARS: &[&str] = &[
    "null",
    "true",
    "7",
    "12",
    "-3",
    "7.0",
    "\"pay\"",
    "\"error\"",
    r#""a=\nb\\""#,
    "\"12\"",
    "\"\"",
];

/// Returns a random line: text with separators, or JSON.
pub fn line(random: &mut Rng) -> String {
    if random.u32(..3) == 0 {
        return document(random);
    }
    let separators = ["a=", "b=", ",", " ", "a=", " b=", "=="];
    let parts = (0..random.usize(..8))
        .map(|_| format!("{}{}", pick(random, &separators), pick(random, WORDS)));
    parts.collect()
}

/// Returns random JSON, sometimes with a repeated name, whitespace, or an error.
fn document(random: &mut Rng) -> String {
    let text = value(random, 3);
    match (random.u32(..8), text.strip_prefix("{\""), text.strip_suffix("\"}")) {
        (0, Some(members), _) => {
            let first = pick(random, &["7", r#""\u0037""#, r#""p\u0061y""#, r#""a=\u0020""#]);
            format!(" {{ \"\\u0061\" : {first} , \"{members}\t")
        }
        (1, _, Some(members)) => format!("{members}\",\"b\":{} }}", value(random, 2)),
        (2, ..) => text[..text.len() - 1].to_owned(),
        (3, ..) => format!("{text},"),
        _ => text,
    }
}

/// Returns a JSON value with at most `levels` nested levels, in the format of `serde_json`.
fn value(random: &mut Rng, levels: u32) -> String {
    let (is_object, is_array) = (random.u32(..4) > 0, random.u32(..2) == 0);
    if levels == 0 || !is_object && !is_array {
        return pick(random, SCALARS).to_owned();
    }
    let mut names = vec!["a", "b", "a.b", "x", "part"];
    let mut parts = Vec::new();
    for _ in 0..random.usize(..4) {
        let name = names.swap_remove(random.usize(..names.len()));
        let part = value(random, levels - 1);
        parts.push(if is_object { format!("\"{name}\":{part}") } else { part });
    }
    let parts = parts.join(",");
    if is_object { format!("{{{parts}}}") } else { format!("[{parts}]") }
}

fn json(random: &mut Rng) -> Extraction {
    let from = pick(random, &["message", "message", "message", "object", "kind"]);
    let path = json_path(pick(random, PATHS)).expect("a path");
    Extraction::Json { from: from.to_owned(), path }
}

fn extraction(random: &mut Rng) -> Extraction {
    let from = || "message".to_owned();
    match random.u32(..11) {
        0 => Extraction::Event(pick(random, EVENTS).to_owned()),
        1 => Extraction::Part {
            from: from(),
            delimiter: pick(random, &[",", " ", "=="]).into(),
            index: random.u32(..4),
        },
        2 => {
            let (pattern, group) = pick(random, PATTERNS);
            Extraction::Group { from: from(), pattern: pattern.into(), group: group.into() }
        }
        3..6 => json(random),
        _ => Extraction::Between {
            from: if random.u32(..8) == 0 { "kind".to_owned() } else { from() },
            left: pick(random, LEFTS).into(),
            index: random.u32(..3),
            right: pick(random, RIGHTS).into(),
        },
    }
}

/// Returns fields to choose from, so that tasks share some of them.
pub fn fields(random: &mut Rng) -> Vec<Field> {
    let number = random.usize(1..8);
    let field = |_| {
        let kind =
            pick(random, &[FieldType::Text, FieldType::Text, FieldType::Int, FieldType::Float]);
        Field { extraction: extraction(random), kind }
    };
    (0..number).map(field).collect()
}

fn condition(random: &mut Rng, depth: u32) -> String {
    if depth > 0 && random.u32(..3) > 0 {
        let (a, b) = (condition(random, depth - 1), condition(random, depth - 1));
        return match random.u32(..8) {
            0 => format!("({a} || {b})"),
            1 => format!("!({a})"),
            2 => format!("({a} && {b}) && {}", condition(random, depth - 1)),
            _ => format!("{a} && {b}"),
        };
    }
    let names = ["f0", "f1", "f2", "message", "status", "kind", "object.part", "extra", "f0.part"];
    let (name, text) = (pick(random, &names), pick(random, TEXTS));
    match random.u32(..12) {
        0 | 1 => format!("{name} == '{text}'"),
        2 => format!("{name} == {}", pick(random, NUMBERS)),
        3 => format!("{name} in ['{text}', '{}', 7, 200]", pick(random, TEXTS)),
        4 | 5 => format!("{name}.contains('{text}')"),
        6 => format!("{name}.startsWith('{text}')"),
        7 => format!("{name}.endsWith('{text}')"),
        8 => format!(
            "{name}.matches('{}')",
            pick(random, &["err+ors", "(pay|cart)", "[0-9]+", "abab?"])
        ),
        9 => format!("{name} > {}", random.i32(-5..300)),
        10 => format!("has({name})"),
        _ => format!("size({name}) > 3 || [1, 2].exists(x, x == {name})"),
    }
}

/// Returns a task. The task uses the names `f0` to `f2` and the names of the event's fields.
pub fn task(random: &mut Rng, number: usize, fields: &[Field]) -> Task {
    let own = (0..random.usize(1..4)).map(|at| {
        let name = if random.u32(..10) == 0 { "status".to_owned() } else { format!("f{at}") };
        (name, fields[random.usize(..fields.len())].clone())
    });
    let own: Vec<(String, Field)> = own.collect();
    let text = condition(random, 2);
    let names = ["f0", "f1", "f2", "message", "status", "user-agent", "object.part"];
    let keys = (0..random.usize(..4)).map(|_| pick(random, &names).to_owned()).collect();
    let accumulators = [
        Accumulator::Count,
        Accumulator::Sum,
        Accumulator::Min,
        Accumulator::Max,
        Accumulator::Last,
        Accumulator::Distinct,
        Accumulator::Samples { size: 2 },
    ];
    let inputs = (0..random.usize(1..5)).map(|_| match random.u32(..3) {
        0 => Input { accumulator: Accumulator::Count, field: None },
        _ => {
            let field = Some(pick(random, &names).to_owned());
            Input { accumulator: pick(random, &accumulators), field }
        }
    });
    Task {
        name: format!("task{number}").into(),
        fields: own,
        condition: Expression::condition(&text).ok().map(Arc::new),
        keys,
        inputs: inputs.collect(),
        window_ns: pick(random, &[None, None, Some(1_000), Some(60_000)]),
    }
}
