//! Parses lines that are JSON objects.
//!
//! Each member of the object becomes a field. Its value is a slice of the line that is validated
//! (RFC 8259) but not converted. Strings lose their quotes; numbers, objects and arrays stay
//! unchanged.
//!
//! | input | result |
//! |---|---|
//! | whitespace around the object or between its tokens | is allowed |
//! | an empty line, or only whitespace | `not_json` |
//! | an array, string, number or literal | `not_object` |
//! | bytes after the object, a trailing comma, a byte below 0x20 in a string, an unknown escape, a byte order mark | `not_json` |
//! | invalid UTF-8 anywhere in the line | `not_utf8` |
//! | more levels than [`JsonConfig::depth_max`] | `too_deep` |
//! | a number of any size or precision | is kept as it is written |
//! | a lone surrogate such as `\ud800` | is kept in a value; in a name it becomes U+FFFD |
//! | a duplicate name | the last value wins, and [`Fields::duplicates`] is incremented |
//! | a name that is empty, exceeds 1024 bytes or finds no free column | the member is kept as it is written in the field of the empty name, [`Kind::Members`] |
//! | a nested object | is one field, or with [`JsonConfig::flatten`] a field per member; an empty one stays one field |

#[cfg(test)]
#[rustfmt::skip] // Tables.
mod cases;
mod cursor;
mod members;
mod names;
mod paths;
#[cfg(test)]
mod tests;

use crate::Parser;
use crate::fields::{Fields, Reason};
use crate::input::Input;
use crate::types::Type;
pub use cursor::Cursor;
use cursor::DEPTH_MAX;
use cursor::{NOT_JSON, TOO_DEEP};
pub use members::json_members;
use millstream_columns::{Cell, Kind, push_json_string, unescape};
use names::{MEMBERS, Names, ROOT, UNKNOWN, UNWANTED, Wanted};
pub use paths::JsonPaths;
use std::sync::Arc;

/// Valid JSON, but not an object.
const NOT_OBJECT: Reason = "not_object";
/// Not UTF-8.
const NOT_UTF8: Reason = "not_utf8";

/// Default nesting limit for objects and arrays.
pub const JSON_DEPTH_MAX: u32 = 64;

/// Options for the parser.
#[derive(Clone, Debug)]
pub struct JsonConfig {
    /// Whether members of nested objects become fields named `outer.inner`.
    pub flatten: bool,
    /// Separator between the name parts of a flattened field.
    pub separator: String,
    /// The fields to keep, by their names after flattening. A name also selects everything nested
    /// in the field. An empty list selects all fields.
    pub fields: Vec<String>,
    /// Types of fields.
    pub types: Vec<(String, Type)>,
    /// Nesting limit for objects and arrays, including the line's outermost object: 1 to 128.
    pub depth_max: u32,
}

impl Default for JsonConfig {
    fn default() -> JsonConfig {
        JsonConfig {
            flatten: false,
            separator: ".".into(),
            fields: Vec::new(),
            types: Vec::new(),
            depth_max: JSON_DEPTH_MAX,
        }
    }
}

/// Parser for lines that are JSON objects.
pub struct Json {
    wanted: Arc<Wanted>,
    depth_max: u32,
    names: Names,
    /// Name indices of the enclosing objects.
    around: Vec<usize>,
    /// The line's members that have no column.
    members: Vec<u8>,
}

/// Where parsed values are stored.
struct Target<'a> {
    row: usize,
    read_ns: i64,
    fields: &'a mut Fields,
}

impl Json {
    /// Creates a parser.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid. The error says what to use instead.
    pub fn new(config: &JsonConfig) -> Result<Json, String> {
        if !(1..=DEPTH_MAX).contains(&config.depth_max) {
            let given = config.depth_max;
            return Err(format!("invalid depth {given}; use a number from 1 to {DEPTH_MAX}"));
        }
        if config.flatten && config.separator.is_empty() {
            return Err(
                "the separator is empty, which makes names ambiguous; use, for example, `.`".into(),
            );
        }
        if config.fields.iter().any(String::is_empty) {
            return Err("cannot select the field with the empty name; remove it".into());
        }
        let wanted = Wanted {
            separator: config.flatten.then(|| config.separator.clone()),
            fields: config.fields.clone(),
            types: config.types.clone(),
        };
        Ok(Json::of(wanted.into(), config.depth_max))
    }

    fn of(wanted: Arc<Wanted>, depth_max: u32) -> Json {
        let names = Names::new(wanted.clone());
        Json { wanted, depth_max, names, around: Vec::new(), members: Vec::new() }
    }

    #[inline]
    fn line(&mut self, cursor: &mut Cursor<'_>, target: &mut Target<'_>) -> Result<(), Reason> {
        check_utf8(cursor)?;
        if cursor.token() != b'{' {
            return self.not_object(cursor);
        }
        cursor.at += 1;
        if cursor.token() == b'}' {
            cursor.at += 1;
        } else {
            self.object(cursor, target)?;
        }
        check_end(cursor)
    }

    /// Determines the reason why a line that does not begin with a brace does not match.
    #[cold]
    fn not_object(&self, cursor: &mut Cursor<'_>) -> Result<(), Reason> {
        let (first, start) = (cursor.token(), cursor.at);
        cursor.value(first, 0, self.depth_max)?;
        check_end(cursor)?;
        cursor.at = start;
        Err(NOT_OBJECT)
    }

    /// Parses the members of the line's object, whose opening brace is already skipped, including
    /// the members of flattened nested objects.
    #[inline]
    fn object(&mut self, cursor: &mut Cursor<'_>, target: &mut Target<'_>) -> Result<(), Reason> {
        let (mut parent, mut last) = (ROOT, ROOT);
        self.around.clear();
        self.members.clear();
        loop {
            last = self.names.read(cursor, parent, last)?;
            let first = cursor.token();
            if first == b'{' && self.names.is_opened(last) && self.enter(cursor)? {
                self.around.push(parent);
                parent = last;
                continue;
            }
            self.member(cursor, first, last, target)?;
            loop {
                let byte = cursor.token();
                cursor.at += 1;
                match (byte, self.around.is_empty()) {
                    (b',', _) => break,
                    (b'}', true) => {
                        self.keep_members(target);
                        return Ok(());
                    }
                    (b'}', false) => parent = self.around.pop().unwrap_or(ROOT),
                    _ => {
                        cursor.at -= 1;
                        return Err(NOT_JSON);
                    }
                }
            }
            cursor.token();
        }
    }

    /// Skips an opening brace, unless the object is empty. Returns whether the brace was skipped.
    fn enter(&self, cursor: &mut Cursor<'_>) -> Result<bool, Reason> {
        if self.depth() >= self.depth_max {
            return Err(TOO_DEEP);
        }
        let brace = cursor.at;
        cursor.at += 1;
        let is_empty = cursor.token() == b'}';
        if is_empty {
            cursor.at = brace;
        }
        Ok(!is_empty)
    }

    /// Returns the number of objects that enclose the current member.
    #[inline(always)]
    fn depth(&self) -> u32 {
        self.around.len() as u32 + 1
    }

    #[inline(always)]
    fn member(
        &mut self,
        cursor: &mut Cursor<'_>,
        first: u8,
        index: usize,
        target: &mut Target<'_>,
    ) -> Result<(), Reason> {
        let start = cursor.at;
        let mut cell = cursor.value(first, self.depth(), self.depth_max)?;
        let mut field = self.names.get(index).field;
        if field >= UNKNOWN {
            if field == UNKNOWN {
                field = self.names.find_field(index, target.fields);
            }
            if field == MEMBERS {
                self.add_member(index, &cursor.text[start..cursor.at]);
            }
            if field >= UNWANTED {
                return Ok(());
            }
        }
        if let Some(field_type) = &self.names.get(index).cast {
            cell = cast(field_type, cursor, cell, target);
        }
        let slot = &mut target.fields.list()[field].cells[target.row];
        let is_duplicate = slot.is_present();
        *slot = cell;
        target.fields.duplicates += u64::from(is_duplicate);
        Ok(())
    }

    /// Keeps a member for which there is no column.
    #[cold]
    fn add_member(&mut self, index: usize, value: &[u8]) {
        if !self.members.is_empty() {
            self.members.push(b',');
        }
        let name = self.names.get(index);
        if name.parent == ROOT {
            self.members.extend_from_slice(&name.raw);
        } else {
            push_json_string(name.full.as_bytes(), &mut self.members);
            self.members.push(b':');
        }
        self.members.extend_from_slice(value);
    }

    /// Stores the members that have no column in the column with the empty name.
    #[inline(always)]
    fn keep_members(&self, target: &mut Target<'_>) {
        if !self.members.is_empty() {
            let cell = target.fields.push(Kind::Members, &self.members);
            let field = target.fields.named(&"".into());
            target.fields.set(field, target.row, cell);
        }
    }
}

/// Checks that the line is UTF-8.
#[inline(always)]
pub fn check_utf8(cursor: &mut Cursor<'_>) -> Result<(), Reason> {
    if simdutf8::basic::from_utf8(cursor.text).is_err() {
        cursor.at =
            std::str::from_utf8(cursor.text).map_or_else(|error| error.valid_up_to(), str::len);
        return Err(NOT_UTF8);
    }
    Ok(())
}

/// Checks that only whitespace follows.
#[inline(always)]
pub fn check_end(cursor: &mut Cursor<'_>) -> Result<(), Reason> {
    cursor.token();
    if cursor.at == cursor.text.len() { Ok(()) } else { Err(NOT_JSON) }
}

/// Casts a value to its type. A value that cannot be cast becomes null and is counted.
#[inline(never)]
fn cast(field_type: &Type, cursor: &Cursor<'_>, cell: Cell, target: &mut Target<'_>) -> Cell {
    let line = &cursor.text[cell.start().saturating_sub(cursor.line.start())..];
    let text = line.get(..cell.len()).unwrap_or_default();
    let (read_ns, fields) = (target.read_ns, &mut *target.fields);
    let cast = match (field_type, cell.kind()) {
        (_, Kind::Null) | (Type::Text, Kind::Text | Kind::Escaped) => Some(cell),
        (Type::Bool, Kind::True | Kind::False) => Some(cell),
        (Type::Text, Kind::True) => Some(fields.push(Kind::Text, b"true")),
        (Type::Text, Kind::False) => Some(fields.push(Kind::Text, b"false")),
        (Type::Text, _) => Some(cell.with_kind(Kind::Text)),
        (_, Kind::Text | Kind::Int | Kind::Float) => {
            field_type.cast(text, cell.with_kind(Kind::Text), read_ns, fields)
        }
        (_, Kind::Escaped) => {
            let text = unescape(text);
            let cell = fields.push(Kind::Text, &text);
            field_type.cast(&text, cell, read_ns, fields)
        }
        _ => None,
    };
    cast.unwrap_or_else(|| fields.bad_type(target.row))
}

impl Parser for Json {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        self.names.forget_fields();
        for (row, line, text) in input.rows() {
            self.names.make_room();
            let counted = fields.duplicates;
            let mut cursor = Cursor { text, line, at: 0 };
            let mut target = Target { row, read_ns: input.read_ns, fields };
            if let Err(reason) = self.line(&mut cursor, &mut target) {
                fields.duplicates = counted;
                fields.fail(row, reason, cursor.at);
            }
        }
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(Json::of(self.wanted.clone(), self.depth_max))
    }
}
