//! Tests of the whole crate.

mod conformance;
mod differential;
mod fields;
mod grammar;
mod page;
mod table;

use crate::compile::compile;
use crate::eval::evaluate;
use crate::input::{Bound, Field, Input};
use crate::output::push_json;
use crate::parser::parse;
use crate::value::{Error, is_equal};

/// Resolves the fields of an event without fields.
fn no_fields(_: &str) -> Option<Field<'static>> {
    None
}

/// Evaluates an expression for one event without fields. Returns the type and the JSON of the
/// value.
fn value_of(text: &str, strict: bool) -> Result<Result<(String, String), Error>, crate::Fault> {
    let compiled = compile(&parse(text)?, strict)?;
    let input = Input { block: b"", rows: 1, runs: &[(0, 1)], field: &no_fields, rest: None };
    let bound = Bound::new(&compiled.paths, &input);
    Ok(evaluate(&compiled.node, &bound, 0).map(|value| {
        let mut json = Vec::new();
        push_json(&value, &mut json);
        (value.types().words(), String::from_utf8(json).expect("JSON is UTF-8"))
    }))
}

/// Returns whether two expressions without fields have equal values of the same type.
fn have_equal_values(a: &str, b: &str) -> bool {
    let [a, b] =
        [a, b].map(|text| compile(&parse(text).expect("an expression"), false).expect("sound"));
    let input = Input { block: b"", rows: 1, runs: &[(0, 1)], field: &no_fields, rest: None };
    let (bound_a, bound_b) = (Bound::new(&a.paths, &input), Bound::new(&b.paths, &input));
    match (evaluate(&a.node, &bound_a, 0), evaluate(&b.node, &bound_b, 0)) {
        (Ok(a), Ok(b)) => a.types() == b.types() && is_equal(&a, &b) == Ok(true),
        _ => false,
    }
}
