//! Checks that every example on the documentation page has the documented value.

use crate::eval::evaluate;
use crate::functions::FUNCTIONS;
use crate::input::{Bound, Field, Input};
use crate::json::Walk;
use crate::value::{Value, is_equal};
use crate::{Expression, NESTING_MAX};
use millstream_columns::{Column, ColumnBuilder};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/expressions.md");

/// Returns a one-row column for each member of the page's event.
fn columns(json: &str) -> Vec<Column> {
    let mut walk = Walk::container(json.as_bytes());
    let column = |(name, value): (&[u8], millstream_columns::Value<'_>)| {
        let mut builder = ColumnBuilder::new(1);
        let (kind, bytes) = crate::input::kind_of(value);
        let cell = builder.push(kind, bytes);
        builder.set(0, cell);
        builder.finish(String::from_utf8_lossy(name).into())
    };
    std::iter::from_fn(|| walk.member()).map(column).collect()
}

/// Returns the examples and their values, with line numbers.
fn examples(page: &str) -> Vec<(usize, String, String)> {
    let code = |cell: &str| cell.trim().trim_matches('`').replace('\u{1}', "|");
    let rows = page.lines().enumerate().filter(|(_, line)| line.starts_with('|')).filter_map(
        |(at, line)| {
            let line = line.replace("\\|", "\u{1}");
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let is_example = |cell: &&str| cell.trim().starts_with('`');
            let [_, example, value] = cells[..] else { return None };
            // A code span that contains backticks is delimited by two backticks, with a space
            // before the closing ones.
            is_example(&example).then(|| {
                let inner =
                    example.trim().strip_prefix("``").and_then(|cell| cell.strip_suffix(" ``"));
                (at + 1, inner.map_or_else(|| code(example), str::to_owned), code(value))
            })
        },
    );
    rows.collect()
}

#[test]
fn every_example_has_the_documented_value() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let json = page.split("```json\n").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let columns = columns(json);
    let field = |name: &str| columns.iter().find(|column| &*column.name == name).map(Field::from);
    let input = Input { block: b"", rows: 1, runs: &[(0, 1)], field: &field, rest: None };
    let with_value = |text: &str, visit: &mut dyn FnMut(Option<Value<'_>>)| {
        let expression = Expression::new(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        let bound = Bound::new(&expression.compiled.paths, &input);
        visit(evaluate(&expression.compiled.node, &bound, 0).ok());
    };
    let mut faults = Vec::new();
    let examples = examples(&page);
    for (line, example, expected) in &examples {
        with_value(example, &mut |found| {
            let shown = format!("{found:?}");
            let mut holds = expected == "no value" && found.is_none();
            if let Some(found) = found.filter(|_| expected != "no value") {
                with_value(expected, &mut |value| {
                    holds = value.is_some_and(|value| {
                        value.types() == found.types() && is_equal(&value, &found) == Ok(true)
                    });
                });
            }
            faults.extend(
                (!holds).then(|| format!("line {line}: `{example}` is {shown}, not {expected}")),
            );
        });
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(examples.len() > 90, "{} examples", examples.len());
}

#[test]
fn every_function_and_limit_is_documented() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let others = ["has", "matches", "all", "exists", "exists_one", "filter", "map"];
    for name in FUNCTIONS.iter().map(|function| function.name).chain(others) {
        assert!(page.contains(&format!("{name}(")), "{name} has no example");
    }
    assert!(page.contains(&format!("{NESTING_MAX} levels of parentheses")));
    assert!(page.contains(&format!("{} levels of operators", crate::HEIGHT_MAX)));
    assert!(page.contains(&format!("{} KiB", crate::TEXT_BYTES_MAX >> 10)));
    let cases = include_str!("conformance.txt").matches(" => ").count();
    assert!(page.contains(&format!("{cases} cases")), "{cases} cases");
}
