//! Fields of events: where they are found, missing fields, and the kinds of computed fields.

use crate::input::{Counts, Field, Input};
use crate::{Expression, HEIGHT_MAX};
use millstream_columns::{Cell, Column, ColumnBuilder, Kind, Value};

/// Returns the columns for one event with these fields.
fn columns(fields: &[(&str, Kind, &str)]) -> Vec<Column> {
    let column = |(name, kind, text): &(&str, Kind, &str)| {
        let mut builder = ColumnBuilder::new(1);
        let cell = builder.push(*kind, text.as_bytes());
        builder.set(0, cell);
        builder.finish((*name).into())
    };
    fields.iter().map(column).collect()
}

fn with_input<T>(columns: &[Column], visit: impl FnOnce(&Input<'_>) -> T) -> T {
    let find = |name: &str| columns.iter().find(|column| &*column.name == name);
    let field = |name: &str| find(name).map(Field::from);
    visit(&Input { block: b"", rows: 1, runs: &[(0, 1)], field: &field, rest: find("*") })
}

fn event() -> Vec<Column> {
    columns(&[
        ("status", Kind::Int, "404"),
        ("user-agent", Kind::Text, "curl"),
        ("a", Kind::Object, r#"{"b": {"c": [1, 2.5, "x\"y"]}, "k\"": 7, "n": null}"#),
        ("a.flat", Kind::Text, "column"),
        ("big", Kind::Int, "123456789012345678901234567890"),
        ("time", Kind::Time, "2026-11-22T10:00:00.250Z"),
        ("s", Kind::Escaped, r"tab\there"),
        ("raw", Kind::Text, "x"),
        ("*", Kind::Members, r#""left": "over", "deep": {"er": 1}"#),
    ])
}

fn holds(text: &str) -> (bool, Counts) {
    let expression = Expression::new(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    let (mut words, mut counts) = (Vec::new(), Counts::default());
    with_input(&event(), |input| expression.matches(input, &mut words, &mut counts));
    (words == [1], counts)
}

fn computed(text: &str) -> (Kind, String, Counts) {
    let (expression, mut counts) = (Expression::new(text).unwrap(), Counts::default());
    let column =
        with_input(&event(), |input| expression.compute(input, &mut counts)).finish("x".into());
    let cell = column.cells()[0];
    (cell.kind(), String::from_utf8_lossy(column.bytes(b"", cell)).into_owned(), counts)
}

#[test]
fn fields_are_found_in_columns_objects_and_other_members() {
    for text in [
        "status == 404 && event.status == 404 && event[\"status\"] == 404.0",
        "event[\"user-agent\"] == \"curl\"",
        "a.b.c == [1, 2.5, \"x\\\"y\"] && a.b.c[2].endsWith('\"y') && a[\"k\\\"\"] == 7",
        "a.flat == \"column\" && event[\"a\" + \".flat\"] == \"column\"",
        "a.n == null && has(a.n) && !has(a.m) && !has(event.nothing) && has(left) && !has(left.x)",
        "left == \"over\" && deep.er == 1 && event[\"le\" + \"ft\"] == \"over\"",
        "\"status\" in event && !(\"x\" in event) && \"b\" in a",
        "a.b.c.exists(x, x == 2.5) && a.exists(k, k == \"n\") && size(a) == 3",
        "big > 1e29 && time.getMilliseconds() == 250 && time > timestamp(\"2026-11-22T09:00:00Z\")",
        "s == \"tab\\there\" && s.contains(\"\\t\") && s.size() == 8",
    ] {
        assert_eq!(holds(text), (true, Counts::default()), "{text}");
    }
}

#[test]
fn a_condition_without_a_result_is_false_and_counted_once() {
    let missing = Counts { missing_field: 1, ..Counts::default() };
    let mistyped = Counts { type_error: 1, ..Counts::default() };
    let arithmetic = Counts { arithmetic_error: 1, ..Counts::default() };
    for (text, counts) in [
        ("none == 1", missing),
        ("!(none == 1)", missing),
        ("none == 1 && none == 2 && other", missing),
        ("a.b.c[3] == 1", missing),
        ("status.contains(\"4\")", mistyped),
        ("status", mistyped),
        ("raw < 1 || none", mistyped),
        ("raw + 1 == 2", mistyped),
        ("int(raw) == 2", mistyped),
        ("status / (status - 404) > 0", arithmetic),
        ("status * 9223372036854775807 > 0", arithmetic),
        ("none == 1 && status == 1", Counts::default()),
        ("status == \"404\"", Counts::default()),
    ] {
        assert_eq!(holds(text), (false, counts), "{text}");
    }
    assert_eq!(holds("none == 1 || status == 404"), (true, Counts::default()));
}

#[test]
fn computed_fields_keep_their_types() {
    for (text, kind, value) in [
        ("status * 2", Kind::Int, "808"),
        ("status / 8.0", Kind::Float, "50.5"),
        ("status > 400", Kind::True, ""),
        ("a.n", Kind::Null, ""),
        ("big", Kind::Int, "123456789012345678901234567890"),
        ("s", Kind::Escaped, r"tab\there"),
        ("raw + \"y\"", Kind::Text, "xy"),
        ("time + duration(\"1h\")", Kind::Time, "2026-11-22T11:00:00.25Z"),
        ("duration(\"1500ms\")", Kind::Text, "1.5s"),
        ("a.b", Kind::Object, r#"{"c": [1, 2.5, "x\"y"]}"#),
        ("a.b.c.map(x, string(x))", Kind::Array, r#"["1","2.5","x\"y"]"#),
        (
            "{\"k\": [status], 1: null, true: time}",
            Kind::Object,
            r#"{"k":[404],"1":null,"true":"2026-11-22T10:00:00.25Z"}"#,
        ),
    ] {
        assert_eq!(computed(text), (kind, value.to_owned(), Counts::default()), "{text}");
    }
    let counts = Counts { arithmetic_error: 1, ..Counts::default() };
    assert_eq!(computed("1.0 / (status - 404)"), (Kind::Absent, String::new(), counts));
}

#[test]
fn values_inside_the_block_are_not_copied() {
    let block = b"GET /api/items";
    let mut builder = ColumnBuilder::new(1);
    builder.set(0, millstream_columns::Cell::new(Kind::Text, 4, 10));
    let path = builder.finish("path".into());
    let field = |_: &str| Some(Field::from(&path));
    let input = Input { block, rows: 1, runs: &[(0, 1)], field: &field, rest: None };
    for (text, value) in
        [("path", "/api/items"), ("path.substring(5)", "items"), ("path.split(\"/\")[1]", "api")]
    {
        let column = Expression::new(text)
            .unwrap()
            .compute(&input, &mut Counts::default())
            .finish("x".into());
        assert_eq!(column.value(block, 0), Value::Text(value.as_bytes()));
        assert!(!column.cells()[0].is_own(), "{text}");
    }
}

#[test]
fn evaluation_of_hostile_values_terminates() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let long = format!("[{}1]", "1,".repeat(100_000));
    let columns = columns(&[
        ("deep", Kind::Array, &deep),
        ("long", Kind::Array, &long),
        ("t", Kind::Text, &"x".repeat(60_000)),
    ]);
    let arithmetic = Counts { arithmetic_error: 1, ..Counts::default() };
    let steps = Counts { step_limit: 1, ..Counts::default() };
    let grown = format!("t{}.size() > 0", ".replace(\"\", t)".repeat(HEIGHT_MAX - 10));
    for (text, expected) in [
        ("deep == [deep][0]", arithmetic),
        ("long.all(x, long.all(y, x == y))", steps),
        ("long.all(x, x in long)", steps),
        (&grown, arithmetic),
    ] {
        let (mut words, mut counts) = (Vec::new(), Counts::default());
        with_input(&columns, |input| {
            Expression::new(text).unwrap().matches(input, &mut words, &mut counts)
        });
        assert_eq!((&words[..], counts), (&[0][..], expected), "{text}");
    }
}

#[test]
fn invalid_utf8_is_compared_bytewise() {
    let mut builder = ColumnBuilder::new(1);
    builder.text(0, b"caf\xE9 au lait");
    let column = builder.finish("m".into());
    let field = |_: &str| Some(Field::from(&column));
    let input = Input { block: b"", rows: 1, runs: &[(0, 1)], field: &field, rest: None };
    for text in [
        "m.startsWith(\"caf\")",
        "m.contains(\" au\")",
        "m.size() == 12",
        "m.indexOf(\"au\") == 5",
        "m != \"cafe\"",
        "m.matches(\"^caf. *\") || true",
        "m.substring(5) == \"au lait\"",
    ] {
        let mut words = Vec::new();
        Expression::new(text).unwrap().matches(&input, &mut words, &mut Counts::default());
        assert_eq!(words, [1], "{text}");
    }
}

#[test]
fn strings_and_prefixes_of_every_length_are_compared_at_any_position() {
    let block = b"GET /static/js/app";
    for (start, end) in
        (0..block.len()).flat_map(|start| (start..=block.len()).map(move |end| (start, end)))
    {
        let column =
            Column::new("m".into(), vec![Cell::new(Kind::Text, start, end - start)], Vec::new());
        let field = |_: &str| Some(Field::from(&column));
        let input = Input { block, rows: 1, runs: &[(0, 1)], field: &field, rest: None };
        for until in start..=block.len() {
            let prefix = std::str::from_utf8(&block[start..until]).unwrap();
            let others = [
                (prefix.to_owned(), until <= end, until == end),
                (format!("{prefix}#"), false, false),
            ];
            for (text, begins, equals) in others {
                let conditions = [
                    (format!("m.startsWith({text:?})"), begins),
                    (format!("m == {text:?}"), equals),
                    (format!("m != {text:?}"), !equals),
                ];
                for (condition, holds) in conditions {
                    let mut words = Vec::new();
                    let expression = Expression::new(&condition).unwrap();
                    expression.matches(&input, &mut words, &mut Counts::default());
                    assert_eq!(words, [u64::from(holds)], "{condition} at {start} to {end}");
                }
            }
        }
    }
}

/// Evaluates a condition for an event whose field `m` is a line with this many bytes.
fn holds_for_line(bytes: usize, text: &str) -> (bool, Counts) {
    let expression = Expression::condition(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    let line = "x".repeat(bytes);
    let columns = columns(&[("m", Kind::Text, &line), ("status", Kind::Int, "404")]);
    let (mut words, mut counts) = (Vec::new(), Counts::default());
    with_input(&columns, |input| expression.matches(input, &mut words, &mut counts));
    (words == [1], counts)
}

/// Without a shared limit, nested macros would run for minutes on one long line.
#[test]
fn macros_have_a_step_limit_per_event() {
    let none = (false, Counts { step_limit: 1, ..Counts::default() });
    for text in [
        r#"m.split("").exists(a, m.split("").exists(b, m.contains(a + b + "~")))"#,
        r#"m.split("").all(a, m.split("").all(b, m.replace(a, b) == m))"#,
        r#"!m.split("").exists(a, m.matches("y$"))"#,
        r#"m.split("").map(a, m + a).size() > 0"#,
        r#"m.split("").exists(a, m.split("").exists(b, b == "y")) || status == 0"#,
    ] {
        assert_eq!(holds_for_line(20_000, text), none, "{text}");
        assert_eq!(holds_for_line(20, text).1, Counts::default(), "{text}");
    }
}

#[test]
fn all_macros_of_an_expression_share_the_step_limit() {
    let one = r#"m.split("").all(a, a != "y" && a != "z")"#;
    let none = (false, Counts { step_limit: 1, ..Counts::default() });
    assert_eq!(holds_for_line(20_000, one), (true, Counts::default()));
    let apart = format!("({one} && status == 404)");
    for text in [
        [one; 20].join(" && "),
        [&*apart; 20].join(" && "),
        format!("!({})", [one; 20].join(" && ")),
    ] {
        assert_eq!(holds_for_line(20_000, &text), none, "{text}");
        assert_eq!(holds_for_line(20, &text).1, Counts::default(), "{text}");
    }
    // If a condition is false regardless of its macros, the macros are not evaluated.
    assert_eq!(
        holds_for_line(20_000, &format!("status == 1 && {}", [one; 20].join(" && "))).1,
        Counts::default()
    );
}
