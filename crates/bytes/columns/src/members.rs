//! Members of JSON objects that have no column.

use crate::cell::{Cell, Kind};
use crate::column::{Column, ColumnBuilder, Columns};
use crate::text::unescape;
use crate::value::Value;
use std::sync::Arc;

/// Name of the column that contains these members.
pub const MEMBERS: &str = "";

/// Iterates over the members in a cell of [`Kind::Members`]. Yields the contents of each name,
/// still escaped, and each value as JSON.
struct MemberIter<'a>(&'a [u8]);

impl<'a> Iterator for MemberIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.0.strip_prefix(b",").unwrap_or(self.0);
        let name_end = string_end(text)?;
        let (name, rest) = (&text[1..name_end - 1], text[name_end..].strip_prefix(b":")?);
        let (value, rest) = rest.split_at(value_end(rest));
        self.0 = rest;
        Some((name, value))
    }
}

/// Returns the length of the string at the start of `text`, including its quotes. Returns `None` if
/// there is no complete string.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    text.first().filter(|byte| **byte == b'"')?;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the length of the value at the start of `text`.
fn value_end(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0usize);
    while at < text.len() {
        match text[at] {
            b'"' => {
                at += string_end(&text[at..]).unwrap_or(text.len() - at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => break,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Returns the kind of a JSON value, and the bytes for a cell of this kind.
fn kind_of(value: &[u8]) -> (Kind, &[u8]) {
    match value {
        [b'"', contents @ .., b'"'] if contents.contains(&b'\\') => (Kind::Escaped, contents),
        [b'"', contents @ .., b'"'] => (Kind::Text, contents),
        [b'{', ..] => (Kind::Object, value),
        [b'[', ..] => (Kind::Array, value),
        [b't', ..] => (Kind::True, &[]),
        [b'f', ..] => (Kind::False, &[]),
        [b'n', ..] => (Kind::Null, &[]),
        _ if value.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => (Kind::Float, value),
        _ => (Kind::Int, value),
    }
}

/// Appends a member. `name` is already escaped.
pub fn push_member(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value);
}

impl Columns {
    /// Returns the value of a member that has no column, in a row of a batch over `block`. If the
    /// name is repeated, the last member counts. Returns `None` if the row has no such member.
    pub fn member<'a>(&'a self, name: &str, block: &'a [u8], row: usize) -> Option<Value<'a>> {
        let column = self.get(MEMBERS)?;
        let cell = column.cells()[row];
        let members =
            MemberIter(column.bytes(block, cell)).filter(|_| cell.kind() == Kind::Members);
        let (_, value) = members.filter(|(key, _)| *unescape(key) == *name.as_bytes()).last()?;
        Some(match kind_of(value) {
            (Kind::Text, text) => Value::Text(text),
            (Kind::Escaped, text) => Value::Escaped(text),
            (Kind::Object, text) => Value::Object(text),
            (Kind::Array, text) => Value::Array(text),
            (Kind::True, _) => Value::Bool(true),
            (Kind::False, _) => Value::Bool(false),
            (Kind::Float, text) => Value::Float(text),
            (Kind::Int, text) => Value::Int(text),
            _ => Value::Null,
        })
    }

    /// Moves members with these names to columns, so that a field can be found by name regardless
    /// of the number of other fields.
    pub fn lift<'n>(&mut self, names: impl IntoIterator<Item = &'n str>, block: &[u8]) {
        let Some(rest) = self.get(MEMBERS).cloned() else { return };
        let rows = rest.cells().len();
        let mut lifted: Vec<(&str, ColumnBuilder)> =
            names.into_iter().map(|name| (name, ColumnBuilder::new(rows))).collect();
        let (mut remaining, mut text) = (rest.edit(), Vec::new());
        for (row, cell) in
            rest.cells().iter().enumerate().filter(|(_, cell)| cell.kind() == Kind::Members)
        {
            let mut is_changed = false;
            text.clear();
            for (name, value) in MemberIter(rest.bytes(block, *cell)) {
                match lifted.iter_mut().find(|(wanted, _)| *unescape(name) == *wanted.as_bytes()) {
                    None => push_member(name, value, &mut text),
                    Some((_, column)) => {
                        let (kind, bytes) = kind_of(value);
                        let cell = column.push(kind, bytes);
                        column.set(row, cell);
                        is_changed = true;
                    }
                }
            }
            if is_changed {
                let cell = if text.is_empty() {
                    Cell::ABSENT
                } else {
                    remaining.push(Kind::Members, &text)
                };
                remaining.set(row, cell);
            }
        }
        let found = |column: &Column| column.cells().iter().any(|cell| cell.is_present());
        let columns = lifted.into_iter().map(|(name, column)| column.finish(Arc::from(name)));
        let columns: Vec<Column> = columns.filter(found).collect();
        if !columns.is_empty() {
            self.set(remaining.finish(rest.name.clone()));
        }
        columns.into_iter().for_each(|column| self.merge_below(column, block));
    }

    /// Adds a column. Where a column with the same name already has a value, that value is kept,
    /// because the parser found it later.
    fn merge_below(&mut self, column: Column, block: &[u8]) {
        let later = self.get(&column.name).cloned();
        self.set(column);
        later.into_iter().for_each(|later| self.merge(later, block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(rows: &[&str]) -> Columns {
        let mut column = ColumnBuilder::new(rows.len());
        for (row, text) in rows.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            let cell = column.push(Kind::Members, text.as_bytes());
            column.set(row, cell);
        }
        Columns::from(vec![column.finish(MEMBERS.into())])
    }

    const ROW: &str = r#""a":1,"b\"c":"x,\"y","n":{"a":[1,{"b":"}"}]},"p\u0061ss":"secret","t":true,"f":-1.5e3,"a":2"#;

    #[test]
    fn members_are_found_by_name() {
        let columns = columns(&["", ROW]);
        let find = |name| columns.member(name, b"", 1);
        assert_eq!(find("a"), Some(Value::Int(b"2")), "the last one counts");
        assert_eq!(find("b\"c"), Some(Value::Escaped(br#"x,\"y"#)));
        assert_eq!(find("n"), Some(Value::Object(br#"{"a":[1,{"b":"}"}]}"#)));
        assert_eq!(find("pass"), Some(Value::Text(b"secret")));
        assert_eq!(
            (find("t"), find("f")),
            (Some(Value::Bool(true)), Some(Value::Float(b"-1.5e3")))
        );
        assert_eq!((find("x"), columns.member("a", b"", 0)), (None, None));
    }

    #[test]
    fn lift_keeps_the_values_of_existing_columns() {
        let mut columns = columns(&[r#""a":1"#, r#""a":2"#]);
        let mut column = ColumnBuilder::new(2);
        column.text(1, b"later");
        columns.set(column.finish("a".into()));
        columns.lift(["a"], b"");
        let value = |row| columns.get("a").unwrap().value(b"", row);
        assert_eq!([value(0), value(1)], [Value::Int(b"1"), Value::Text(b"later")]);
        assert_eq!(columns.get(MEMBERS).unwrap().value(b"", 1), Value::Absent);
    }

    #[test]
    fn lift_moves_only_the_named_members() {
        let mut columns = columns(&["", ROW, r#""a":3"#]);
        columns.lift(["a", "pass", "x"], b"");
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["", "a", "pass"]);
        let value = |name, row| columns.get(name).unwrap().value(b"", row);
        assert_eq!(
            [0, 1, 2].map(|row| value("a", row)),
            [Value::Absent, Value::Int(b"2"), Value::Int(b"3")]
        );
        let rest = br#""b\"c":"x,\"y","n":{"a":[1,{"b":"}"}]},"t":true,"f":-1.5e3"#;
        assert_eq!([1, 2].map(|row| value("", row)), [Value::Members(rest), Value::Absent]);
    }
}
