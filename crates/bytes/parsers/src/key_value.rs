//! Parses key-value pairs: `a=b c="d e"`, logfmt, LTSV.

use crate::delimited::cast_column;
use crate::escapes::{is_escaped, remove_nulls, unescape};
use crate::keys::Key;
use crate::members::Members;
use crate::region::{Line, Region, Regions};
use crate::{Failure, Fields, Input, Parser, Reason, Type};
use millstream_columns::{Cell, Kind};
use millstream_scan::{ByteSet, find};
use std::sync::Arc;

#[cfg(test)]
mod tests;

const NO_PAIRS: Reason = "no_pairs";
const BAD_QUOTES: Reason = "bad_quotes";

/// How to handle a key without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bare {
    /// The key is ignored, like text between pairs.
    #[default]
    Ignore,
    /// The value is `true`, as in logfmt.
    True,
}

/// The line format of key-value pairs.
#[derive(Clone, Debug)]
pub struct KeyValueConfig {
    /// Delimiter between two pairs. Starts with an ASCII character, such as a space or `|`, and may
    /// be repeated.
    pub field_delimiter: String,
    /// Delimiter between a key and its value. Starts with an ASCII character, such as `=` or `:`.
    pub key_value_delimiter: String,
    /// Quotes around values that may contain delimiters. Empty disables quoting. A value ends with
    /// the same quote that begins it.
    pub quotes: Vec<u8>,
    /// Whether a backslash within quotes escapes quotes and the same characters as in JSON.
    pub escapes: bool,
    /// Whether to remove spaces and tabs around keys and values. Has no effect if the delimiter
    /// between pairs is a space.
    pub trim: bool,
    /// Unquoted values that are treated as absent.
    pub null_values: Vec<Vec<u8>>,
    /// How to handle a key without a value.
    pub bare: Bare,
    /// Types of fields. The default type is a string.
    pub types: Vec<(Arc<str>, Type)>,
}

impl Default for KeyValueConfig {
    /// Returns the format `a=b c="d e" f='g h'`.
    fn default() -> KeyValueConfig {
        let (field_delimiter, key_value_delimiter) = (" ".into(), "=".into());
        KeyValueConfig {
            field_delimiter,
            key_value_delimiter,
            quotes: b"\"'".to_vec(),
            escapes: true,
            trim: true,
            null_values: Vec::new(),
            bare: Bare::Ignore,
            types: Vec::new(),
        }
    }
}

impl KeyValueConfig {
    /// Returns the format of Go's logfmt library: `level=info msg="a text" done`.
    pub fn logfmt() -> KeyValueConfig {
        let quotes = b"\"".to_vec();
        KeyValueConfig { bare: Bare::True, quotes, ..KeyValueConfig::default() }
    }

    /// Returns the format of labeled tab-separated values: `host:a<tab>status:200`.
    pub fn ltsv() -> KeyValueConfig {
        let (field_delimiter, key_value_delimiter) = ("\t".into(), ":".into());
        KeyValueConfig {
            field_delimiter,
            key_value_delimiter,
            quotes: Vec::new(),
            trim: false,
            ..KeyValueConfig::default()
        }
    }
}

/// Parser for lines of key-value pairs.
///
/// A pair without a key, or with an empty unquoted value, is ignored. If a key occurs twice in a
/// line, the last value wins. A line without any pair does not match.
///
/// A line with an unclosed `"` does not match. Any other quote, such as an apostrophe, must be
/// closed before a delimiter or the end of the line. Otherwise, it is an ordinary character.
#[derive(Clone, Debug)]
pub struct KeyValue {
    config: KeyValueConfig,
    /// Whether to remove blanks around keys and values.
    trim: bool,
    /// Both delimiters, field delimiter first, if each of them is a single byte.
    single: Option<(u8, u8)>,
    set: ByteSet,
    marks: Vec<u32>,
    lines: Vec<Line>,
    /// The keys of the previous line's pairs.
    order: Vec<Key>,
    failures: Vec<Failure>,
    escaped: Vec<(usize, usize)>,
    /// Quote characters that are not closed in the rest of the line.
    unclosed: Vec<u8>,
    members: Members,
}

/// A parsed pair.
struct Pair {
    key_end: usize,
    /// Start and end of the value, or `None` for a key without a value.
    value: Option<(usize, usize)>,
    quoted: bool,
    /// Position at which the next pair can begin.
    end: usize,
}

impl KeyValue {
    /// Creates a parser.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid. The error says what to use instead.
    pub fn new(config: KeyValueConfig) -> Result<KeyValue, String> {
        let first = |name: &str, text: &str| match text.as_bytes() {
            [first, ..] if first.is_ascii() => Ok(*first),
            _ => Err(format!(
                "{name} must begin with an ASCII character; use, for example, ' ' or '='"
            )),
        };
        let field = first("field_delimiter", &config.field_delimiter)?;
        let pair = first("key_value_delimiter", &config.key_value_delimiter)?;
        if field == pair {
            return Err(
                "field_delimiter and key_value_delimiter begin with the same byte; use different \
                 ones"
                    .into(),
            );
        }
        let is_wrong = |quote: &u8| !quote.is_ascii() || [field, pair, b'\\'].contains(quote);
        if config.quotes.iter().any(is_wrong) {
            return Err("a quote must be ASCII, but not a delimiter or backslash; use '\"'".into());
        }
        let set = ByteSet::new(&[&[field, pair], &config.quotes[..]].concat());
        let trim = config.trim && config.field_delimiter != " ";
        let is_single = config.field_delimiter.len() == 1
            && config.key_value_delimiter.len() == 1
            && !(trim && is_blank(pair));
        let single = is_single.then_some((field, pair));
        let (marks, lines, order, failures, escaped) = Default::default();
        let (unclosed, members) = Default::default();
        Ok(KeyValue {
            config,
            trim,
            single,
            set,
            marks,
            lines,
            order,
            failures,
            escaped,
            unclosed,
            members,
        })
    }

    fn find(&mut self, input: &Input<'_>, fields: &mut Fields) {
        let mut regions = Regions::new(input);
        while let Some(region) = regions.next(&mut self.lines) {
            self.marks.clear();
            find(region.text(), &self.set, &mut self.marks);
            self.marks.extend_from_slice(&[u32::MAX; 2]);
            let mut index = 0;
            for line in 0..self.lines.len() {
                self.line(&region, self.lines[line], &mut index, fields);
            }
        }
    }

    /// Parses a line. Advances `index`, the index of the next structural.
    fn line(&mut self, region: &Region<'_>, line: Line, index: &mut usize, fields: &mut Fields) {
        let text = &region.bytes[..line.end as usize];
        let (mut at, mut pairs, mut found) = (line.begin as usize, 0, false);
        self.unclosed.clear();
        while at < text.len() {
            while (self.marks[*index] as usize) < at {
                *index += 1;
            }
            let before = pairs;
            let rest = Line { at: at as u32, ..line };
            at = match self.trim {
                true => self.predicted::<true>(region, rest, index, &mut pairs, fields),
                false => self.predicted::<false>(region, rest, index, &mut pairs, fields),
            };
            found |= pairs > before;
            if self.trim {
                at = self.skip_blanks(text, at);
            }
            if at >= text.len() {
                break;
            }
            let pair = match self.pair(text, at, index) {
                Ok(pair) => pair,
                Err(place) => {
                    let at = place - line.begin as usize;
                    self.failures.push(Failure { row: line.row as usize, reason: BAD_QUOTES, at });
                    return;
                }
            };
            found |= pair.value.is_some() && pair.key_end > at;
            if pair.key_end > at {
                self.keep(region, line.row as usize, at, &pair, &mut pairs, fields);
            }
            at = pair.end;
        }
        if !found {
            self.failures.push(Failure { row: line.row as usize, reason: NO_PAIRS, at: 0 });
        }
    }

    /// Parses pairs while they are plain and have the same keys as in the previous line. Returns
    /// the position at which the next pair can begin.
    #[inline(always)]
    fn predicted<const TRIM: bool>(
        &self,
        region: &Region<'_>,
        line: Line,
        index: &mut usize,
        pairs: &mut usize,
        fields: &mut Fields,
    ) -> usize {
        let (mut at, end, row) = (line.at as usize, line.end as usize, line.row as usize);
        let Some((field, key_value)) = self.single else { return at };
        let mut duplicates = 0;
        for (key, marks) in self.order[*pairs..].iter().zip(self.marks[*index..].chunks_exact(2)) {
            let (key_end, value_end) = (marks[0] as usize, (marks[1] as usize).min(end));
            if TRIM {
                at = self.skip_blanks(&region.bytes[..end], at);
            }
            let is_pair = key_end + 1 < value_end && region.bytes[key_end] == key_value;
            if TRIM && is_pair && has_blank_edge(&region.bytes[key_end + 1..value_end]) {
                break;
            }
            let is_end = value_end == end || region.bytes[value_end] == field;
            if !(is_pair && is_end && key.is(region.bytes, at, key_end - at)) {
                break;
            }
            let cell = &mut fields.list()[key.field].cells[row];
            duplicates += u64::from(cell.is_present());
            *cell = region.part(Kind::Text, key_end + 1, value_end);
            *pairs += 1;
            at = value_end + 1;
            if value_end == end {
                *index += 1;
                break;
            }
            *index += 2;
        }
        fields.duplicates += duplicates;
        at
    }

    /// Parses the pair at `at`.
    #[inline(always)]
    fn pair(&mut self, text: &[u8], at: usize, index: &mut usize) -> Result<Pair, usize> {
        let (key_end, value_end) = (self.marks[*index] as usize, self.marks[*index + 1] as usize);
        if let Some((field, key_value)) = self.single
            && key_end < text.len()
            && text[key_end] == key_value
            && (value_end >= text.len() || text[value_end] == field)
            && !(self.trim
                && (has_blank_edge(&text[at..key_end])
                    || has_blank_edge(&text[key_end + 1..value_end.min(text.len())])))
        {
            let value_end = value_end.min(text.len());
            let value = Some((key_end + 1, value_end));
            return Ok(Pair { key_end, value, quoted: false, end: value_end + 1 });
        }
        self.slow_pair(text, at, index)
    }

    #[inline(never)]
    fn slow_pair(&mut self, text: &[u8], at: usize, index: &mut usize) -> Result<Pair, usize> {
        let (field, key_value) =
            (self.config.field_delimiter.as_bytes(), self.config.key_value_delimiter.as_bytes());
        let (field_len, key_value_len) = (field.len(), key_value.len());
        let is_end = |rest: &[u8]| rest.starts_with(field) || rest.starts_with(key_value);
        let text_end = self.next(text, at, index, is_end);
        let has_value = text[text_end..].starts_with(key_value);
        let key_end = self.trim_end(text, at, text_end);
        if !has_value {
            return Ok(Pair { key_end, value: None, quoted: false, end: text_end + field_len });
        }
        let begin = text_end + key_value_len;
        let start = if self.trim { self.skip_blanks(text, begin) } else { begin };
        if let Some(end) = self.closing_quote(text, start, index)? {
            let behind = if self.trim { self.skip_blanks(text, end + 1) } else { end + 1 };
            let is_field = text[behind..].starts_with(self.config.field_delimiter.as_bytes());
            let next = if is_field { behind + field_len } else { behind };
            return Ok(Pair { key_end, value: Some((start + 1, end)), quoted: true, end: next });
        }
        let field = self.config.field_delimiter.as_bytes();
        let end = self.next(text, begin, index, |rest| rest.starts_with(field));
        let value = (start, self.trim_end(text, start, end));
        Ok(Pair { key_end, value: Some(value), quoted: false, end: end + field_len })
    }

    /// Finds the quote that closes the quote at `begin`. Returns `None` if the byte at `begin` is
    /// an ordinary character. The error is the offset of an unclosed `"`.
    fn closing_quote(
        &mut self,
        text: &[u8],
        begin: usize,
        index: &mut usize,
    ) -> Result<Option<usize>, usize> {
        let quote = text.get(begin).copied().filter(|byte| self.config.quotes.contains(byte));
        let Some(quote) = quote.filter(|quote| !self.unclosed.contains(quote)) else {
            return Ok(None);
        };
        let (before, mut end) = (*index, begin);
        loop {
            end = self.next(text, end + 1, index, |rest| rest[0] == quote);
            if end >= text.len() {
                break;
            }
            let is_escaped = self.config.escapes && is_escaped(text, begin + 1, end);
            if !is_escaped && (quote == b'"' || self.is_pair_end(text, end + 1)) {
                return Ok(Some(end));
            }
        }
        if quote == b'"' {
            return Err(begin);
        }
        // Remember the quote, so that the parser does not search the line again for each
        // apostrophe.
        self.unclosed.push(quote);
        *index = before;
        Ok(None)
    }

    /// Returns whether a pair can end at `at`.
    fn is_pair_end(&self, text: &[u8], at: usize) -> bool {
        let at = if self.trim { self.skip_blanks(text, at) } else { at };
        at == text.len() || text[at..].starts_with(self.config.field_delimiter.as_bytes())
    }

    /// Returns the offset of the first byte at or after `at` that is not blank or that begins a
    /// delimiter.
    #[inline(always)]
    fn skip_blanks(&self, text: &[u8], mut at: usize) -> usize {
        let field = self.config.field_delimiter.as_bytes();
        while at < text.len() && is_blank(text[at]) && !text[at..].starts_with(field) {
            at += 1;
        }
        at
    }

    /// Returns the end of the text in `start..end` after removing trailing blanks.
    fn trim_end(&self, text: &[u8], start: usize, end: usize) -> usize {
        let blanks = text[start.min(end)..end].iter().rev().take_while(|byte| is_blank(**byte));
        if self.trim { end - blanks.count() } else { end }
    }

    /// Finds the first structural at or after `at` for which `is` accepts the text that begins
    /// there, or the end of the text.
    fn next(&self, text: &[u8], at: usize, index: &mut usize, is: impl Fn(&[u8]) -> bool) -> usize {
        while (self.marks[*index] as usize) < text.len() {
            let mark = self.marks[*index] as usize;
            if mark >= at && is(&text[mark..]) {
                return mark;
            }
            *index += 1;
        }
        text.len()
    }

    /// Stores a pair in the field for its key.
    #[inline(always)]
    fn keep(
        &mut self,
        region: &Region<'_>,
        row: usize,
        at: usize,
        pair: &Pair,
        pairs: &mut usize,
        fields: &mut Fields,
    ) {
        let cell = match pair.value {
            Some((start, end)) if start == end && !pair.quoted => return,
            Some((start, end)) => region.part(Kind::Text, start, end),
            None if self.config.bare == Bare::True => Cell::constant(Kind::True),
            None => return,
        };
        if *pairs == self.order.len() {
            self.order.push(Key::NONE);
        }
        let known = &mut self.order[*pairs];
        *pairs += 1;
        if !known.is(region.bytes, at, pair.key_end - at) {
            let key = &region.bytes[at..pair.key_end];
            let Some(field) = fields.seen(key, known.field) else {
                return self.keep_member(region, row, key, pair);
            };
            *known = Key::new(key, field);
        }
        let field = known.field;
        fields.duplicates += u64::from(fields.get(field, row).is_present());
        fields.set(field, row, cell);
        if pair.quoted && self.config.escapes && region.bytes[cell_range(pair)].contains(&b'\\') {
            self.escaped.push((field, row));
        }
    }

    /// Keeps a pair for which there is no column.
    #[cold]
    fn keep_member(&mut self, region: &Region<'_>, row: usize, key: &[u8], pair: &Pair) {
        let text = &region.bytes[cell_range(pair)];
        if pair.value.is_none() {
            return self.members.add(row, key, None);
        }
        if !pair.quoted && self.config.null_values.iter().any(|null| null == text) {
            return;
        }
        match pair.quoted && self.config.escapes {
            true => self.members.add(row, key, Some(&unescape(text, &self.config.quotes, None))),
            false => self.members.add(row, key, Some(text)),
        }
    }

    /// Unescapes the values that contain escapes.
    fn unescape(&mut self, input: &Input<'_>, fields: &mut Fields) {
        for (field, row) in std::mem::take(&mut self.escaped) {
            let cell = fields.get(field, row);
            // A later pair with the same key might have replaced the value.
            if cell.kind() == Kind::Text && (!cell.is_own() || cell.start() < input.own.len()) {
                let cell =
                    fields.push(Kind::Text, &unescape(input.text(cell), &self.config.quotes, None));
                fields.set(field, row, cell);
            }
        }
    }
}

/// Returns whether the byte is a space or a tab.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns whether the text begins or ends with a blank.
#[inline(always)]
fn has_blank_edge(text: &[u8]) -> bool {
    matches!(text, [first, .., last] if is_blank(*first) || is_blank(*last))
        || matches!(text, [only] if is_blank(*only))
}

fn cell_range(pair: &Pair) -> std::ops::Range<usize> {
    pair.value.map_or(0..0, |(start, end)| start..end)
}

impl Parser for KeyValue {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        // Field indices are valid only for this batch.
        self.order.clear();
        self.find(input, fields);
        for failure in std::mem::take(&mut self.failures) {
            fields.fail(failure.row, failure.reason, failure.at);
        }
        self.members.put(fields);
        if !self.config.null_values.is_empty() {
            for field in 0..fields.len() {
                remove_nulls(&self.config.null_values, &self.config.quotes, field, input, fields);
            }
        }
        self.unescape(input, fields);
        for (name, field_type) in &self.config.types {
            if let Some(index) = fields.find(name.as_bytes()) {
                cast_column(field_type, index, input, fields);
            }
        }
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}
