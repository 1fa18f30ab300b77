//! Conditions and computed fields.

use crate::cells::{Found, found, json};
use millstream_columns::{Cell, Column, ColumnBuilder, Kind};
use millstream_expressions::{Counts, Expression, Field, Input, canonical};
use std::sync::LazyLock;

pub const WORDS: &[&[u8]] = &[
    b"a",
    b"m",
    b"text",
    b"n",
    b"a.b",
    b"a.c.d",
    b"when",
    b"source",
    b"rest",
    b"none",
    b"event",
    b"event[\"m\"]",
    b"event[text]",
    b"1",
    b"-1",
    b"2.5",
    b"0x1F",
    b"7u",
    b"1e308",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"\"t\"",
    b"'s'",
    b"r'\\d'",
    b"'''",
    b"b'x'",
    b"null",
    b"true",
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"?",
    b".",
    b"!",
    b"-",
    b"+",
    b"*",
    b"/",
    b"%",
    b"==",
    b"!=",
    b"<",
    b">=",
    b" in ",
    b" && ",
    b" || ",
    b"has(",
    b".size()",
    b"size(",
    b"int(",
    b"double(",
    b"string(",
    b"dyn(",
    b"timestamp(\"2026-01-02T03:04:05Z\")",
    b"duration('1h2m')",
    b".map(x, x)",
    b".filter(x, x > 1)",
    b".exists(x, ",
    b".all(x, ",
    b".contains(\"error\")",
    b".startsWith('GET')",
    b".endsWith('x')",
    b".matches(\"^G\")",
    b".getFullYear()",
    b"`q-r`",
    b" ",
    b"\\",
    "\u{FC}".as_bytes(),
    b"//c\n",
    b"=",
];

/// Number of rows in the table: more than the bits of one word.
const ROWS: usize = 70;

/// Values of each field, which are repeated for all rows. [`Kind::Absent`] is a missing value.
const VALUES: [(&str, &[(Kind, &str)]); 8] = [
    (
        "a",
        &[
            (Kind::Object, r#"{"b":1,"c":{"d":"x"},"t":"error"}"#),
            (Kind::Int, "200"),
            (Kind::Absent, ""),
        ],
    ),
    (
        "m",
        &[
            (Kind::Array, r#"[200,"GET /api",null]"#),
            (Kind::Text, "m"),
            (Kind::Null, ""),
            (Kind::Object, "{}"),
        ],
    ),
    (
        "text",
        &[
            (Kind::Text, "GET /api error"),
            (Kind::Escaped, r"m\n\u00e9"),
            (Kind::Text, ""),
            (Kind::Text, "\u{FC}"),
        ],
    ),
    (
        "n",
        &[
            (Kind::Int, "200"),
            (Kind::Float, "0.25"),
            (Kind::Int, "9223372036854775808"),
            (Kind::Int, "-3"),
        ],
    ),
    (
        "a.b",
        &[
            (Kind::Absent, ""),
            (Kind::Int, "7"),
            (Kind::True, ""),
            (Kind::Absent, ""),
            (Kind::False, ""),
        ],
    ),
    (
        "rest",
        &[(Kind::Time, "2026-01-02T03:04:05.000Z"), (Kind::Float, "1e999"), (Kind::Text, "12")],
    ),
    (
        "e",
        &[
            (Kind::Escaped, r#"error \"x\""#),
            (Kind::Text, "true"),
            (Kind::Absent, ""),
            (Kind::Float, "-0.0"),
        ],
    ),
    ("members", &[(Kind::Members, r#""z":1,"y":{"x":"error"}"#), (Kind::Members, r#""z":"GET""#)]),
];

struct Table {
    block: Vec<u8>,
    columns: Vec<Column>,
    times: Vec<i64>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut block = Vec::new();
    let columns = VALUES.iter().map(|(name, values)| column(name, values, &mut block)).collect();
    let times = (0..ROWS as i64).map(|row| row * 30_000_000_000_000_001).collect();
    Table { block, columns, times }
});

fn column(name: &str, values: &[(Kind, &str)], block: &mut Vec<u8>) -> Column {
    let mut builder = ColumnBuilder::new(ROWS);
    for row in 0..ROWS {
        let (kind, text) = values[row % values.len()];
        let cell = match kind {
            Kind::Absent => continue,
            Kind::Null | Kind::False | Kind::True => Cell::constant(kind),
            // Every third value is in the column's own buffer, like a computed value.
            _ if row % 3 == 2 => builder.push(kind, text.as_bytes()),
            _ => Cell::new(kind, block.len(), text.len()),
        };
        block.extend_from_slice(text.as_bytes());
        builder.set(row, cell);
    }
    builder.finish(name.into())
}

/// Calls `with` with the table, in which some rows are not selected.
fn with_table<T>(with: impl FnOnce(&Input<'_>) -> T) -> T {
    let table = &*TABLE;
    let (members, columns) = table.columns.split_last().expect("columns");
    let field = |name: &str| match name {
        "when" => Some(Field::Times(&table.times)),
        "source" => Some(Field::Constants(&[(3, "GET /api"), (40, "error")])),
        name => columns.iter().find(|column| &*column.name == name).map(Field::from),
    };
    let runs = &[(0, 20), (21, 63), (64, ROWS)];
    with(&Input { block: &table.block, rows: ROWS, runs, field: &field, rest: Some(members) })
}

/// Checks that a parsed expression can be written and parsed again as the same expression, that
/// faults have a position in the text, and that evaluation by column and by row gives the same
/// result.
pub fn expressions(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let expression = match Expression::new(text) {
        Ok(expression) => expression,
        Err(fault) => {
            let is_placed = fault.line > 0
                && fault.column > 0
                && text.is_char_boundary(fault.at.min(text.len()));
            return assert!(is_placed && fault.at <= text.len(), "{text}: {fault}");
        }
    };
    let (values, counts) = values(&expression);
    json(values.iter().flatten().map(|found| ("x", found)));
    let written = canonical(text).expect("valid when read");
    // With all parentheses, the expression might be too long or too deep to parse.
    if let Ok(again) = Expression::new(&written) {
        assert_eq!(canonical(&written).ok().as_ref(), Some(&written), "{text}");
        assert_eq!(self::values(&again), (values, counts), "{text} is written as {written}");
    } else {
        assert!(is_deep(&written), "{text} is written as {written}, which is not read");
    }
    holds_as_it_is_computed(text);
}

/// Returns whether a text might be too long or too deep to parse.
fn is_deep(text: &str) -> bool {
    text.len() > millstream_expressions::TEXT_BYTES_MAX
        || text.matches(['(', '[', '{']).count() + 4 > millstream_expressions::NESTING_MAX
}

/// Returns the value of each row, if it has one.
fn values(expression: &Expression) -> (Vec<Option<Found>>, Counts) {
    with_table(|input| {
        let mut counts = Counts::default();
        let column = expression.compute(input, &mut counts).finish("x".into());
        let value = |cell: &Cell| cell.is_present().then(|| found(&column, *cell, input.block));
        (column.cells().iter().map(value).collect(), counts)
    })
}

/// Checks that a condition over columns holds exactly for the rows in which its computed value is
/// true.
fn holds_as_it_is_computed(text: &str) {
    let Ok(condition) = Expression::condition(text) else { return };
    // A comment at the end needs a separate line.
    let Ok(choice) = Expression::new(&format!("(({text}\n)) ? true : false")) else { return };
    let (values, expected) = values(&choice);
    let (mut words, mut counts) = (Vec::new(), Counts::default());
    with_table(|input| condition.matches(input, &mut words, &mut counts));
    let holds: Vec<bool> = (0..ROWS).map(|row| words[row / 64] >> (row % 64) & 1 == 1).collect();
    let computed = values.iter().map(|value| matches!(value, Some((Kind::True, _))));
    assert!(computed.eq(holds.iter().copied()), "{text}: {holds:?} instead of {values:?}");
    assert_eq!(counts, expected, "{text}");
}
