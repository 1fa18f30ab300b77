//! Checks that any text is parsed without a panic, and that every expression survives formatting
//! and reparsing.

use super::value_of;
use crate::Expression;
use crate::ast::Expr;
use crate::parser::{HEIGHT_MAX, NESTING_MAX, parse};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

/// Tokens of the language.
const WORDS: &[&str] = &[
    "a",
    "b.c",
    "event",
    "1",
    "-1",
    "2.5",
    "0x1F",
    "7u",
    "\"t\"",
    "'s'",
    "r'\\d'",
    "null",
    "true",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    "in",
    "&&",
    "||",
    "has(",
    ".size()",
    ".map(x, x)",
    "`q-r`",
    " ",
    "\\",
    "\u{FC}",
    "'''",
    "b'x'",
    "//c\n",
    "=",
    "matches",
    "exists(",
];

fn shown(expr: &Expr) -> String {
    expr.to_string()
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn no_input_panics(text in ".{0,60}") {
        _ = Expression::new(&text);
    }

    #[test]
    fn formatted_expressions_parse_as_the_same_expression(picks in prop::collection::vec(0..WORDS.len(), 0..14)) {
        let text: Vec<&str> = picks.iter().map(|pick| WORDS[*pick]).collect();
        let text = text.concat();
        if let Err(fault) = Expression::new(&text) {
            prop_assert!(fault.line > 0 && fault.column > 0 && fault.at <= text.len(), "{text}: {fault}");
        }
        if let Ok(expr) = parse(&text) {
            let written = shown(&expr);
            let again = parse(&written).map_err(|fault| TestCaseError::fail(format!("{text}: {written}: {fault}")))?;
            prop_assert_eq!(shown(&again), written);
        }
    }
}

#[test]
fn deep_and_long_expressions_are_rejected_or_evaluated() {
    let nested = |open: &str, close: &str, times: usize| {
        [open.repeat(times), "1".into(), close.repeat(times)].concat()
    };
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("-", ""),
        ("!", ""),
        ("{1:", "}"),
        ("size(", ")"),
        ("true?1:", ""),
    ] {
        assert!(Expression::new(&nested(open, close, 10_000)).is_err(), "{open}");
        assert!(parse(&nested(open, close, NESTING_MAX - 1)).is_ok(), "{open}");
    }
    for chain in ["+1", "-1", "[1]", ".a", ".size()", " in [1]", "==1"] {
        assert!(Expression::new(&format!("x{}", chain.repeat(9_000))).is_err(), "{chain}");
    }
    let sum = format!("1{}", "+1".repeat(HEIGHT_MAX - 2));
    assert_eq!(value_of(&sum, true).unwrap().unwrap().1, (HEIGHT_MAX - 1).to_string());
    let any = format!("x == 1{}", " || x == 1".repeat(5_000));
    assert!(Expression::new(&any).is_ok());
    assert!(Expression::new(&"x".repeat(70_000)).is_err());
}

#[test]
fn errors_have_a_position_and_advice() {
    let cases = [
        ("status = 500", "line 1, column 8: unexpected character `=`; use `==` to compare"),
        (
            "a == 1\n and b",
            "line 2, column 2: expected an operator or the end, found `and`; use `&&`",
        ),
        ("a & b", "line 1, column 3: unexpected character `&`; use `&&`"),
        (
            "\"a\" + 1",
            "line 1, column 5: `+` is not defined for a string and an int; string(x) converts a number to a string",
        ),
        (
            "path.startWith(\"/\")",
            "line 1, column 6: unknown function `startWith`; did you mean `startsWith`?",
        ),
        (
            "path.contains()",
            "line 1, column 6: `contains` takes 1 arguments, not 0; see the example in docs/expressions.md",
        ),
        (
            "startsWith(path, \"/\")",
            "line 1, column 1: `startsWith` cannot be called this way; use x.startsWith(...)",
        ),
        ("status && true", ""),
        (
            "size(path) && true",
            "line 1, column 1: a condition takes a boolean, not an int; compare it with something, as in `x != 0`",
        ),
        (
            "size(1)",
            "line 1, column 6: `size` takes a string or a list or a map, not an int; string(x) converts it to a string",
        ),
        (
            "1 == \"1\"",
            "line 1, column 3: `==` is not defined for an int and a string; compare values of one type; convert with int(x) or string(x)",
        ),
        (
            "path.matches(\"(\")",
            r"line 1, column 14: invalid pattern: unclosed group at `(`; close it with `)`, or use `\(` for the character",
        ),
        (
            "package == 1",
            "line 1, column 1: `package` is a reserved word; use `event.package` for a field of \
             this name",
        ),
        (
            "1 / 0",
            "line 1, column 3: this never has a value: a number is out of range or divided by \
             zero; use a value that has one",
        ),
        ("\"open", "line 1, column 1: unterminated string; close it with \""),
        (
            "event",
            "line 1, column 1: the event itself is not a value; use a field, as in event.status",
        ),
        (
            "9223372036854775808",
            "line 1, column 1: this number is too large; integers are limited to 64 bits; use 1e20 \
             for a larger number",
        ),
        (
            "n < 1e309",
            "line 1, column 5: this number is too large; numbers are written as 12, 0x1F, 1.5 or 1e3",
        ),
        (
            "\"\\d\"",
            "line 1, column 2: unknown escape; use \\\\ for a backslash, or r\"...\" for a string \
             without escapes",
        ),
    ];
    for (text, expected) in cases {
        let fault = Expression::new(text).err().map_or(String::new(), |fault| fault.to_string());
        assert_eq!(fault, expected, "{text}");
    }
    let fault = Expression::condition("size(path)").unwrap_err().to_string();
    assert_eq!(
        fault,
        "line 1, column 1: the result is an int, not true or false; compare it with something, as \
         in `x != 0`"
    );
}

#[test]
fn fields_returns_each_name_once() {
    let expression =
        Expression::new("a.b == event.c[\"d e\"] && has(x) && [1].all(y, y > z || a.b)").unwrap();
    assert_eq!(expression.fields().collect::<Vec<_>>(), ["a.b", "c.d e", "x", "z"]);
}
