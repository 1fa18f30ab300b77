//! The `replace_dots` step: names without dots, including names within objects.

use super::{Noted, Step, change, put, rows};
use millstream_model::{Batch, Cell, CellKind, Column, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// Replaces dots in field names and in member names of objects, at any depth. A name keeps its dots
/// if the new name already exists in the same object.
pub(super) struct ReplaceDots(pub String);

/// A member's name in JSON text.
struct Name<'t> {
    /// Number of the object that contains the name.
    object: usize,
    /// Range of the name in the text, without the quotation marks.
    range: Range<usize>,
    text: Cow<'t, [u8]>,
}

impl Step for ReplaceDots {
    fn apply(&self, batch: &mut Batch, noted: &mut Noted) {
        let mut clashes = self.rename_members(batch);
        let names: Vec<_> = batch.fields.iter().map(|column| column.name.clone()).collect();
        for name in names.iter().filter(|name| name.contains('.')) {
            clashes += self.rename(batch, name);
        }
        noted.counters.noted("name_clash", clashes);
    }
}

impl ReplaceDots {
    /// Renames a field in the rows where no other field has the new name. Returns the number of
    /// rows where another field already has it.
    fn rename(&self, batch: &mut Batch, name: &str) -> u64 {
        let Some(column) = batch.fields.remove(name) else { return 0 };
        let new = name.replace('.', &self.0);
        let Some(other) = batch.fields.get(&new) else {
            put(batch, column.named(new.into()));
            return 0;
        };
        let (mut moved, mut kept) = (column.edit(), column.edit());
        let mut clashes = 0;
        for (row, cell) in column.cells().iter().enumerate() {
            let is_clash = cell.is_present() && other.cells()[row].is_present();
            clashes += u64::from(is_clash);
            if is_clash { &mut moved } else { &mut kept }.set(row, Cell::ABSENT);
        }
        put(batch, moved.finish(new.into()));
        if clashes > 0 {
            batch.fields.set(kept.finish(column.name));
        }
        clashes
    }

    /// Renames the members of objects in fields. Returns the number of names that keep their dots
    /// because of a clash.
    fn rename_members(&self, batch: &mut Batch) -> u64 {
        let has_members = |column: &&Column| column.cells().iter().any(|cell| is_nested(*cell));
        let columns: Vec<Column> = batch.fields.iter().filter(has_members).cloned().collect();
        columns.iter().map(|column| self.rename_within(batch, column)).sum()
    }

    fn rename_within(&self, batch: &mut Batch, column: &Column) -> u64 {
        let (name, fields) = (&column.name, batch.fields.clone());
        // The values are in row order.
        let present = rows(batch).filter(|row| column.cells()[*row].is_present());
        let mut present = present.collect::<Vec<_>>().into_iter();
        let mut clashes = 0;
        change(batch, name, name, |made, cell, bytes| {
            let row = present.next().unwrap_or_default();
            if !is_nested(cell) {
                return cell;
            }
            let is_taken = |new: &str| {
                let other = fields.get(new).filter(|_| cell.kind() == CellKind::Members);
                other.is_some_and(|other| other.cells()[row].is_present())
            };
            let (text, of_names) = replaced(bytes, &self.0, is_taken);
            clashes += of_names;
            text.map_or(cell, |text| made.push(cell.kind(), &text))
        });
        clashes
    }
}

/// Returns whether a value has members, or may contain values with members.
fn is_nested(cell: Cell) -> bool {
    matches!(cell.kind(), CellKind::Object | CellKind::Array | CellKind::Members)
}

/// Returns the JSON with the new names, or [`None`] if no name changes, and the number of names
/// that clash. The text is an object, an array, or members without braces. In the last case,
/// `is_taken` tells whether another field has a name.
fn replaced(json: &[u8], with: &str, is_taken: impl Fn(&str) -> bool) -> (Option<Vec<u8>>, u64) {
    let names = names(json);
    let is_outer = |name: &Name<'_>| name.object == 0 && json.first() == Some(&b'"');
    let (mut out, mut copied, mut clashes) = (Vec::new(), 0, 0);
    let has_dots = |name: &&Name<'_>| name.text.contains(&b'.');
    if !names.iter().any(|name| has_dots(&name)) {
        return (None, 0);
    }
    // For each object, the current names and the new names so far.
    let mut all: HashSet<(usize, Cow<'_, [u8]>)> =
        names.iter().map(|name| (name.object, name.text.clone())).collect();
    for name in names.iter().filter(has_dots) {
        let new = String::from_utf8_lossy(&name.text).replace('.', with);
        let is_outer_taken = is_outer(name) && is_taken(&new);
        if is_outer_taken || !all.insert((name.object, new.clone().into_bytes().into())) {
            clashes += 1;
            continue;
        }
        out.extend_from_slice(&json[copied..name.range.start]);
        millstream_scan::escape_json(new.as_bytes(), &mut out);
        copied = name.range.end;
    }
    if copied == 0 {
        return (None, clashes);
    }
    out.extend_from_slice(&json[copied..]);
    (Some(out), clashes)
}

/// Returns the names of all members in valid JSON.
fn names(json: &[u8]) -> Vec<Name<'_>> {
    let (mut found, mut open, mut objects, mut at) = (Vec::new(), vec![0], 0, 0);
    while at < json.len() {
        match json[at] {
            b'{' | b'[' => {
                objects += 1;
                open.push(objects);
            }
            b'}' | b']' => {
                open.pop();
            }
            b'"' => {
                let start = at + 1;
                at = start + string_bytes(&json[start..]);
                let behind = json[at.min(json.len())..].iter().skip(1);
                if behind.copied().find(|byte| !byte.is_ascii_whitespace()) == Some(b':') {
                    let range = start..at;
                    let object = open.last().copied().unwrap_or_default();
                    let text = Value::Escaped(&json[range.clone()]).text().unwrap_or_default();
                    found.push(Name { object, range, text });
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the length of a string up to the closing quotation mark.
fn string_bytes(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> (String, u64) {
        let (new, clashes) = replaced(json.as_bytes(), "_", |name| name == "taken_1");
        (new.map_or(json.to_owned(), |new| String::from_utf8(new).unwrap()), clashes)
    }

    #[test]
    fn names_at_any_depth_lose_their_dots_and_values_stay() {
        for (json, expected) in [
            (r#"{"a.b":"c.d","e":[{"f.g.h" : 1.5}]}"#, r#"{"a_b":"c.d","e":[{"f_g_h" : 1.5}]}"#),
            (r#""a.b":{"x.y":"\".:"},"c":1"#, r#""a_b":{"x_y":"\".:"},"c":1"#),
            (r#"{"a\u002eb\n.":1}"#, r#"{"a_b\n_":1}"#),
            (r#"["a.b",{"é.ü":2}]"#, r#"["a.b",{"é_ü":2}]"#),
            (r#"{"a":1.5}"#, r#"{"a":1.5}"#),
        ] {
            assert_eq!(text(json), (expected.to_owned(), 0));
        }
    }

    #[test]
    fn an_object_with_many_names_loses_its_dots() {
        let json = |count: usize| {
            let members: Vec<String> = (0..count).map(|n| format!("\"a.{n}\":1")).collect();
            format!("{{{}}}", members.join(","))
        };
        let (new, clashes) = text(&json(50_000));
        assert!(!new.contains('.') && clashes == 0);
    }

    #[test]
    fn a_name_that_exists_is_not_made_again() {
        assert_eq!(text(r#"{"a.b":1,"a_b":2}"#), (r#"{"a.b":1,"a_b":2}"#.to_owned(), 1));
        assert_eq!(text(r#"{"a.b_c":1,"a_b.c":2}"#), (r#"{"a_b_c":1,"a_b.c":2}"#.to_owned(), 1));
        assert_eq!(text(r#""taken.1":1,"o":{"taken.1":2}"#).0, r#""taken.1":1,"o":{"taken_1":2}"#);
        assert_eq!(
            text(r#"{"a.b":1,"c":{"a_b":2}}"#),
            (r#"{"a_b":1,"c":{"a_b":2}}"#.to_owned(), 0)
        );
    }
}
