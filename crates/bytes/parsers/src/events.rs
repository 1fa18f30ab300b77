//! Common parts of CEF and LEEF: a header separated by pipes, followed by key-value pairs.

mod header;

pub(crate) use header::{Header, Signature};

use crate::delimited::cast_column;
use crate::escapes::remove_nulls;
use crate::keys::Key;
use crate::members::Members;
use crate::{Fields, Input, Type};
use memchr::memchr;
use millstream_columns::{Cell, Kind};
use std::sync::Arc;

/// Prefix for a key that is also the name of a header field.
const TAKEN_PREFIX: &[u8] = b"ext_";

/// How to handle values in CEF and LEEF.
#[derive(Clone, Debug, Default)]
pub struct EventConfig {
    /// Whether to decode `\=`, `\\`, `\n` and `\r` in the values of pairs.
    pub escapes: bool,
    /// Values that are treated as absent.
    pub null_values: Vec<Vec<u8>>,
    /// Types of fields. The default type is a string.
    pub types: Vec<(Arc<str>, Type)>,
}

/// Start and end of part of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub begin: usize,
    pub end: usize,
}

impl Span {
    pub fn len(self) -> usize {
        self.end - self.begin
    }

    /// Returns the span without trailing blanks.
    pub fn trim_end(self, text: &[u8]) -> Span {
        let len = text[self.begin..self.end].trim_ascii_end().len();
        Span { end: self.begin + len, ..self }
    }

    /// Returns the span without leading and trailing blanks.
    pub fn trim(self, text: &[u8]) -> Span {
        let span = self.trim_end(text);
        let len = text[span.begin..span.end].trim_ascii_start().len();
        Span { begin: span.end - len, ..span }
    }
}

/// A line, its row and its cell.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    row: usize,
    cell: Cell,
    /// Bytes of the line, without trailing blanks.
    pub text: &'a [u8],
    has_backslash: bool,
}

impl<'a> Line<'a> {
    pub fn new(row: usize, cell: Cell, text: &'a [u8]) -> Line<'a> {
        let text = text.trim_ascii_end();
        let has_backslash = memchr(b'\\', text).is_some();
        Line { row, cell, text, has_backslash }
    }

    fn bytes(&self, span: Span) -> &'a [u8] {
        &self.text[span.begin..span.end]
    }

    fn part(&self, span: Span) -> Cell {
        self.cell.part(Kind::Text, span.begin, span.len())
    }

    fn has_escape(&self, span: Span) -> bool {
        self.has_backslash && memchr(b'\\', self.bytes(span)).is_some()
    }
}

/// Stores headers and pairs as fields.
#[derive(Clone, Debug)]
pub(crate) struct EventFields {
    config: EventConfig,
    /// Names of the header fields: the prefix, the version, and the header values in order.
    names: Vec<Arc<str>>,
    /// Field indices of the header fields.
    columns: Vec<usize>,
    /// The key of each pair in the previous line.
    order: Vec<Key>,
    /// Number of pairs so far in this line.
    pairs: usize,
    members: Members,
    /// Buffer for renamed keys and unescaped values.
    buffer: Vec<u8>,
}

impl EventFields {
    pub fn new(config: EventConfig, names: &[&str]) -> EventFields {
        let names = names.iter().map(|name| (*name).into()).collect();
        let (columns, order, pairs, members, buffer) = Default::default();
        EventFields { config, names, columns, order, pairs, members, buffer }
    }

    /// Prepares for a new batch.
    pub fn begin(&mut self, fields: &mut Fields) {
        // Field indices are valid only for this batch.
        self.order.clear();
        self.columns.clear();
        self.columns.extend(self.names.iter().map(|name| fields.named(name)));
    }

    /// Begins a line and stores its header.
    pub fn put_header<const N: usize>(
        &mut self,
        line: &Line<'_>,
        header: &Header<N>,
        fields: &mut Fields,
    ) {
        self.pairs = 0;
        if header.prefix.len() > 0 {
            fields.set(self.columns[0], line.row, line.part(header.prefix));
        }
        fields.set(self.columns[1], line.row, line.part(header.version));
        for (index, value) in header.values.into_iter().enumerate() {
            let cell = self.cell(line, value, header::escape, fields);
            fields.set(self.columns[2 + index], line.row, cell);
        }
    }

    /// Stores a pair. If several pairs have the same key, the last one wins.
    pub fn put(&mut self, line: &Line<'_>, key: Span, value: Span, fields: &mut Fields) {
        if self.pairs == self.order.len() {
            self.order.push(Key::NONE);
        }
        let mut known = self.order[self.pairs];
        if !known.is(line.text, key.begin, key.len()) {
            let name = line.bytes(key);
            let Some(field) = self.column(name, known.field, fields) else {
                return self.put_member(line, name, value);
            };
            known = Key::new(name, field);
            self.order[self.pairs] = known;
        }
        self.pairs += 1;
        let cell = match self.config.escapes {
            true => self.cell(line, value, escape, fields),
            false => line.part(value),
        };
        fields.duplicates += u64::from(fields.get(known.field, line.row).is_present());
        fields.set(known.field, line.row, cell);
    }

    /// Returns the field for a key, or `None` if the key has no column.
    fn column(&mut self, key: &[u8], hint: usize, fields: &mut Fields) -> Option<usize> {
        let field = fields.seen(key, hint)?;
        match self.columns.contains(&field) {
            true => fields.seen(self.renamed(key), hint),
            false => Some(field),
        }
    }

    /// Returns the new name for a key that is also the name of a header field.
    fn renamed(&mut self, key: &[u8]) -> &[u8] {
        self.buffer.clear();
        self.buffer.extend_from_slice(TAKEN_PREFIX);
        self.buffer.extend_from_slice(key);
        &self.buffer
    }

    /// Stores a pair that has no column.
    #[cold]
    fn put_member(&mut self, line: &Line<'_>, key: &[u8], value: Span) {
        let text = line.bytes(value);
        if self.config.null_values.iter().any(|null| null == text) {
            return;
        }
        let mut plain = Vec::new();
        match self.config.escapes {
            true => unescape(text, escape, &mut plain),
            false => plain.extend_from_slice(text),
        }
        let is_taken = self.names.iter().any(|name| name.as_bytes() == key);
        let key = if is_taken { self.renamed(key).to_vec() } else { key.to_vec() };
        self.members.add(line.row, &key, Some(&plain));
    }

    /// Returns the cell for a value. A value that contains escapes is copied.
    #[inline]
    fn cell(&mut self, line: &Line<'_>, value: Span, escape: Escape, fields: &mut Fields) -> Cell {
        if !line.has_escape(value) {
            return line.part(value);
        }
        self.buffer.clear();
        unescape(line.bytes(value), escape, &mut self.buffer);
        fields.push(Kind::Text, &self.buffer)
    }

    /// Finishes a batch: removes null values and casts the remaining values.
    pub fn finish(&mut self, input: &Input<'_>, fields: &mut Fields) {
        self.members.put(fields);
        if !self.config.null_values.is_empty() {
            for field in 0..fields.len() {
                remove_nulls(&self.config.null_values, b"", field, input, fields);
            }
        }
        for (name, field_type) in &self.config.types {
            if let Some(index) = fields.find(name.as_bytes()) {
                cast_column(field_type, index, input, fields);
            }
        }
    }
}

/// Returns the byte that an escape represents, given the byte after the backslash. Returns `None`
/// if the backslash is an ordinary character.
type Escape = fn(u8) -> Option<u8>;

/// The [`Escape`] function for the value of a pair.
fn escape(byte: u8) -> Option<u8> {
    match byte {
        b'=' | b'\\' => Some(byte),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        _ => None,
    }
}

/// Unescapes a value and appends the result to `out`.
fn unescape(text: &[u8], escape: Escape, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let decoded = rest.get(at + 1).and_then(|byte| escape(*byte));
        out.push(decoded.unwrap_or(b'\\'));
        rest = &rest[at + 1 + usize::from(decoded.is_some())..];
    }
    out.extend_from_slice(rest);
}
