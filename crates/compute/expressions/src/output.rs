//! Conversion of computed values to cells.

use crate::eval::evaluate;
use crate::input::{Bound, Counts, Input, Raw, kind_of};
use crate::kernel::Selected;
use crate::node::Node;
use crate::time;
use crate::value::{Error, Value};
use crate::verdict::{TRUE, Verdict, error_of};
use millstream_columns::{Cell, ColumnBuilder, Kind, push_json_string};
use std::io::Write;

/// Evaluates an expression for each selected row.
pub fn compute(node: &Node, bound: &Bound<'_>, counts: &mut Counts) -> ColumnBuilder {
    let mut builder = ColumnBuilder::new(bound.input.rows);
    for (start, end) in bound.input.runs {
        for row in *start..*end {
            match cell(node, bound, row, &mut builder) {
                Ok(cell) => builder.set(row, cell),
                Err(error) => counts.add(error),
            }
        }
    }
    builder
}

/// Returns the results of a condition as cells, for the selected rows.
pub fn of_verdicts(verdicts: &[Verdict], input: &Input<'_>, counts: &mut Counts) -> ColumnBuilder {
    let mut builder = ColumnBuilder::new(input.rows);
    Selected::Runs(input.runs).each(|row| match error_of(verdicts[row]) {
        Some(error) => counts.add(error),
        None => builder.set(row, Cell::bool(verdicts[row] == TRUE)),
    });
    builder
}

fn cell(
    node: &Node,
    bound: &Bound<'_>,
    row: usize,
    out: &mut ColumnBuilder,
) -> Result<Cell, Error> {
    let block = bound.input.block;
    if let Node::Field(path) = node {
        return match bound.raw(*path, row).ok_or(Error::Missing)? {
            Raw::Time(ns) => Ok(write(&Value::Time(ns), block, out)),
            Raw::Cell(value) => {
                let (kind, bytes) = kind_of(value);
                Ok(cell_for(kind, bytes, block, out))
            }
        };
    }
    let value = evaluate(node, bound, row)?;
    match value {
        Value::Double(value) if !value.is_finite() => Err(Error::Arithmetic),
        value => Ok(write(&value, block, out)),
    }
}

/// Returns a cell for these bytes. If the bytes are inside the block, the cell refers to the block.
/// Otherwise, the bytes are copied.
fn cell_for(kind: Kind, bytes: &[u8], block: &[u8], out: &mut ColumnBuilder) -> Cell {
    if matches!(kind, Kind::Absent | Kind::Null | Kind::False | Kind::True) {
        return Cell::constant(kind);
    }
    let start = (bytes.as_ptr() as usize).wrapping_sub(block.as_ptr() as usize);
    let is_inside = start <= block.len() && bytes.len() <= block.len() - start;
    if is_inside { Cell::new(kind, start, bytes.len()) } else { out.push(kind, bytes) }
}

fn write(value: &Value<'_>, block: &[u8], out: &mut ColumnBuilder) -> Cell {
    match value {
        Value::Null => Cell::constant(Kind::Null),
        Value::Bool(value) => Cell::bool(*value),
        Value::Int(value) => out.int(*value),
        Value::Double(value) => out.float(*value),
        Value::Text(text) => cell_for(Kind::Text, text, block, out),
        Value::Time(ns) => out.write(Kind::Time, |own| time::push_timestamp(*ns, own)),
        Value::Duration(ns) => out.write(Kind::Text, |own| time::push_duration(*ns, own)),
        Value::Array(text) => cell_for(Kind::Array, text, block, out),
        Value::Object(text) => cell_for(Kind::Object, text, block, out),
        Value::List(_) => out.write(Kind::Array, |own| push_json(value, own)),
        Value::Map(_) => out.write(Kind::Object, |own| push_json(value, own)),
    }
}

/// Appends a value as JSON. NaN and infinite numbers become `null`.
pub fn push_json(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => _ = write!(out, "{value}"),
        Value::Int(value) => _ = write!(out, "{value}"),
        Value::Double(value) if value.is_finite() => _ = write!(out, "{value:?}"),
        Value::Double(_) => out.extend_from_slice(b"null"),
        Value::Text(text) => push_json_string(text, out),
        Value::Time(ns) => push_quoted(out, |out| time::push_timestamp(*ns, out)),
        Value::Duration(ns) => push_quoted(out, |out| time::push_duration(*ns, out)),
        Value::Array(text) | Value::Object(text) => out.extend_from_slice(text),
        Value::List(list) => {
            out.push(b'[');
            for (index, value) in list.iter().enumerate() {
                out.extend_from_slice(if index == 0 { b"" } else { b"," });
                push_json(value, out);
            }
            out.push(b']');
        }
        Value::Map(entries) => {
            out.push(b'{');
            for (index, (key, value)) in entries.iter().enumerate() {
                out.extend_from_slice(if index == 0 { b"" } else { b"," });
                push_key(key, out);
                out.push(b':');
                push_json(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Appends the name of a member, which must be a string in JSON. Other keys are converted.
fn push_key(key: &Value<'_>, out: &mut Vec<u8>) {
    match key {
        Value::Text(text) => push_json_string(text, out),
        key => push_quoted(out, |out| push_json(key, out)),
    }
}

fn push_quoted(out: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    push(out);
    out.push(b'"');
}
