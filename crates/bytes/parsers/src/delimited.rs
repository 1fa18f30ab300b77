//! Parses fields that are separated by delimiters, as in CSV and TSV.

use crate::escapes::{is_escaped, remove_nulls, unescape};
use crate::fields::{table, unseen};
use crate::region::{Bits, Line, Region, Regions};
use crate::{Failure, Fields, Input, Parser, Reason, Type};
use millstream_columns::{Cell, Kind};
use millstream_scan::{ByteSet, find};
use std::sync::Arc;

mod columned;

pub use columned::{ColumnNames, Columned};

#[cfg(test)]
mod tests;

pub(crate) const TOO_FEW: Reason = "too_few_fields";
const TOO_MANY: Reason = "too_many_fields";
const BAD_QUOTES: Reason = "bad_quotes";

/// How to handle a line with too many or too few fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unequal {
    /// The line does not match.
    Fail,
    /// Missing fields have no value, and extra fields are ignored.
    #[default]
    Ignore,
}

/// The line format of delimited fields.
#[derive(Clone, Debug)]
pub struct DelimitedConfig {
    /// The delimiter between two fields, such as `,`, a tab or `||`. Starts with an ASCII
    /// character.
    pub delimiter: String,
    /// The quote around fields that may contain delimiters. Within the field, the quote is doubled
    /// (RFC 4180).
    pub quote: Option<u8>,
    /// Whether a backslash escapes quotes, delimiters, and the same characters as in JSON.
    pub escapes: bool,
    /// Unquoted values that are treated as absent, in addition to the empty value.
    pub null_values: Vec<Vec<u8>>,
    /// The fields in order. A field with an empty name is skipped. The default type is a string.
    pub fields: Vec<(Arc<str>, Option<Type>)>,
    /// How to handle a line with too many fields.
    pub on_extra: Unequal,
    /// How to handle a line with too few fields.
    pub on_missing: Unequal,
    /// Whether to remove spaces and tabs around values.
    pub trim: bool,
}

impl Default for DelimitedConfig {
    /// Returns the format of CSV, with no fields.
    fn default() -> DelimitedConfig {
        let (on_extra, on_missing, fields) = Default::default();
        DelimitedConfig {
            delimiter: ",".into(),
            quote: Some(b'"'),
            escapes: false,
            null_values: Vec::new(),
            fields,
            on_extra,
            on_missing,
            trim: false,
        }
    }
}

/// Parser for lines whose fields are separated by delimiters.
///
/// An empty value without quotes is absent. A quoted value is never absent, even if it is empty or
/// one of the null values. The closing quote must be followed by a delimiter or the end of the
/// line.
#[derive(Clone, Debug)]
pub struct Delimited {
    config: DelimitedConfig,
    set: ByteSet,
    delimiter: ByteSet,
    /// Positions of quotes and, if escapes are enabled, of backslashes.
    quotes: Bits,
    marks: Vec<u32>,
    lines: Vec<Line>,
    failures: Vec<Failure>,
    rewritten: Vec<Rewritten>,
}

/// A value that contains doubled quotes or escapes.
#[derive(Clone, Copy, Debug)]
struct Rewritten {
    /// Index of the value's field in the line.
    field: usize,
    row: usize,
    quoted: bool,
}

impl Delimited {
    /// Creates a parser.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid. The error says what to use instead.
    pub fn new(config: DelimitedConfig) -> Result<Delimited, String> {
        let first = match config.delimiter.as_bytes() {
            [] => return Err("delimiter is empty; use, for example, ','".into()),
            [first, ..] if !first.is_ascii() => {
                return Err("delimiter begins with a non-ASCII byte; use, for example, ','".into());
            }
            [first, ..] => *first,
        };
        if config.fields.is_empty() {
            return Err("fields is empty; list the field names in the order of the line".into());
        }
        let mut names: Vec<&str> =
            config.fields.iter().map(|(name, _)| &**name).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("duplicate field {:?}; use a unique name for each field", pair[0]));
        }
        let set = match config.quote {
            Some(quote) if quote == first || !quote.is_ascii() => {
                return Err(
                    "quote must be an ASCII character other than the first of the delimiter; use \
                     '\"'"
                        .into(),
                );
            }
            _ if config.escapes && (first == b'\\' || config.quote == Some(b'\\')) => {
                return Err(
                    "a backslash cannot escape and be a delimiter or quote; use escapes: false"
                        .into(),
                );
            }
            Some(quote) => ByteSet::new(&[first, quote]),
            None => ByteSet::new(&[first]),
        };
        let (marks, lines, failures, rewritten) = Default::default();
        let backslash: &[u8] = if config.escapes { b"\\" } else { b"" };
        let quotes = Bits::new(&[config.quote.as_slice(), backslash].concat());
        let delimiter = ByteSet::new(&[first]);
        Ok(Delimited { config, set, delimiter, quotes, marks, lines, failures, rewritten })
    }

    fn find(&mut self, input: &Input<'_>, table: &mut [&mut [Cell]]) {
        let mut regions = Regions::new(input);
        // Neighboring lines are similar. If a region is not plain, the regions that follow are
        // probably not plain either.
        let mut plain = self.config.delimiter.len() == 1 && !self.config.trim && table.len() > 1;
        while let Some(region) = regions.next(&mut self.lines) {
            plain = plain && self.parse_plain(&region, table);
            if !plain {
                self.parse_mixed(&region, table);
            }
        }
    }

    /// Parses a region in which every line has exactly the expected delimiters and no quotes. For
    /// any other region, returns false without an effect.
    fn parse_plain(&mut self, region: &Region<'_>, table: &mut [&mut [Cell]]) -> bool {
        self.marks.clear();
        find(region.text(), &self.delimiter, &mut self.marks);
        if self.config.quote.is_some() || self.config.escapes {
            self.quotes.build(region.text());
        }
        let (last, count) = (table.len() - 1, self.lines.len());
        let (row, marks) = (self.lines[0].row as usize, self.marks.chunks_exact(last));
        let follow = self.lines[count - 1].row as usize + 1 == row + count;
        if !follow || !self.quotes.is_empty() || self.marks.len() != count * last {
            return false;
        }
        let mut pairs = self.lines.iter().zip(marks.clone());
        if !pairs.all(|(line, marks)| marks[0] >= line.begin && marks[last - 1] < line.end) {
            return false;
        }
        for (field, cells) in table.iter_mut().enumerate() {
            let lines = cells[row..row + count].iter_mut().zip(&mut self.lines);
            match field == last {
                true => lines.for_each(|(cell, line)| *cell = value_to(region, line, line.end)),
                false => lines
                    .zip(marks.clone())
                    .for_each(|((cell, line), marks)| *cell = value_to(region, line, marks[field])),
            }
        }
        true
    }

    /// Parses a region with any kind of line.
    fn parse_mixed(&mut self, region: &Region<'_>, table: &mut [&mut [Cell]]) {
        self.marks.clear();
        find(region.text(), &self.set, &mut self.marks);
        // Padding, so that reading a full line's structurals past the last one stays in bounds.
        self.marks.resize(self.marks.len() + table.len() + 1, u32::MAX);
        self.quotes.build(region.text());
        self.parse_irregular(region, table);
        self.columns(region, table);
    }

    /// Parses the lines that have quotes or an unexpected number of fields. The other lines stay in
    /// `lines`, with the index of their first structural as their start.
    fn parse_irregular(&mut self, region: &Region<'_>, table: &mut [&mut [Cell]]) {
        let is_simple = self.config.delimiter.len() == 1 && !self.config.trim;
        let has_quotes =
            (self.config.quote.is_some() || self.config.escapes) && !self.quotes.is_empty();
        let mut lines = std::mem::take(&mut self.lines);
        let (mut first, mut kept) = (0, 0);
        for index in 0..lines.len() {
            let mut line = lines[index];
            while self.marks[first] < line.begin {
                first += 1;
            }
            let last = first + table.len() - 1;
            let has_all =
                self.marks[last] >= line.end && (last == first || self.marks[last - 1] < line.end);
            let is_quoted = has_quotes && self.quotes.find(line.begin as usize) < line.end as usize;
            if is_simple && has_all && !is_quoted {
                line.begin = first as u32;
                lines[kept] = line;
                kept += 1;
                first = last;
            } else {
                first = self.slow_line(region, line, first, table);
            }
        }
        lines.truncate(kept);
        self.lines = lines;
    }

    /// Parses column by column, so that the CPU overlaps the work on several lines.
    fn columns(&mut self, region: &Region<'_>, table: &mut [&mut [Cell]]) {
        let Some(last) = table.len().checked_sub(1) else { return };
        for (field, cells) in table.iter_mut().enumerate() {
            let marks = &self.marks[field..];
            for line in &mut self.lines {
                let end = if field == last { line.end } else { marks[line.begin as usize] };
                cells[line.row as usize] = value_to(region, line, end);
            }
        }
    }

    #[inline(never)]
    fn slow_line(
        &mut self,
        region: &Region<'_>,
        line: Line,
        mut index: usize,
        table: &mut [&mut [Cell]],
    ) -> usize {
        if let Err((reason, at)) = self.values(region, line, &mut index, table) {
            let at = at - line.begin as usize;
            self.failures.push(Failure { row: line.row as usize, reason, at });
        }
        index
    }

    /// Parses the values of a line one by one. The error consists of the reason and the offset of
    /// the mismatch.
    fn values(
        &mut self,
        region: &Region<'_>,
        line: Line,
        index: &mut usize,
        table: &mut [&mut [Cell]],
    ) -> Result<(), (Reason, usize)> {
        let (row, text) = (line.row as usize, &region.bytes[..line.end as usize]);
        let (mut at, fields) = (line.begin as usize, table.len());
        for (field, cells) in table.iter_mut().enumerate() {
            let found = value(&self.config, &self.marks, index, text, at);
            let (place, end) = found.map_err(|at| (BAD_QUOTES, at))?;
            if place.quoted || place.end > place.begin {
                cells[row] = region.part(Kind::Text, place.begin, place.end);
            }
            if place.is_rewritten {
                self.rewritten.push(Rewritten { field, row, quoted: place.quoted });
            }
            at = end + self.config.delimiter.len();
            let (is_last, is_end) = (field + 1 == fields, end == text.len());
            match (is_last, is_end) {
                (false, true) if self.config.on_missing == Unequal::Fail => {
                    return Err((TOO_FEW, end));
                }
                (true, false) if self.config.on_extra == Unequal::Fail => {
                    return Err((TOO_MANY, end));
                }
                (_, true) => break,
                (_, false) => {}
            }
        }
        Ok(())
    }

    /// Removes null values, and unescapes and casts the remaining values.
    fn finish(&mut self, input: &Input<'_>, fields: &mut Fields, indices: &[Option<usize>]) {
        let (quote, nulls) = (self.config.quote, &self.config.null_values);
        for index in indices.iter().flatten().filter(|_| !nulls.is_empty()) {
            remove_nulls(nulls, quote.as_slice(), *index, input, fields);
        }
        let delimiter = self.config.delimiter.as_bytes()[0];
        let special = [delimiter, quote.unwrap_or(delimiter)];
        for Rewritten { field, row, quoted } in std::mem::take(&mut self.rewritten) {
            let Some(index) = indices[field] else { continue };
            let cell = fields.get(index, row);
            if cell.is_present() {
                let text = input.text(cell);
                let plain = match quote.filter(|_| quoted) {
                    Some(quote) if !self.config.escapes => undouble(text, quote),
                    doubled => unescape(text, &special, doubled),
                };
                let cell = fields.push(Kind::Text, &plain);
                fields.set(index, row, cell);
            }
        }
        for ((_, field_type), index) in self.config.fields.iter().zip(indices) {
            if let (Some(field_type), Some(index)) = (field_type, index) {
                cast_column(field_type, *index, input, fields);
            }
        }
    }
}

/// Returns the value between the line's read position and `end`, and moves the read position past
/// `end`.
#[inline(always)]
fn value_to(region: &Region<'_>, line: &mut Line, end: u32) -> Cell {
    let start = std::mem::replace(&mut line.at, end + 1);
    let cell = region.part(Kind::Text, start as usize, end as usize);
    if start == end { Cell::ABSENT } else { cell }
}

/// Casts all values of a field to its type.
pub(crate) fn cast_column(field_type: &Type, index: usize, input: &Input<'_>, fields: &mut Fields) {
    if matches!(field_type, Type::Text) {
        return;
    }
    for row in input.runs.iter().flat_map(|run| run.0..run.1) {
        let cell = fields.get(index, row);
        if cell.is_present() {
            cast(field_type, cell, index, row, input, fields);
        }
    }
}

/// Casts a value to its type.
fn cast(
    field_type: &Type,
    cell: Cell,
    index: usize,
    row: usize,
    input: &Input<'_>,
    fields: &mut Fields,
) {
    let copy;
    let own_start = input.own.len();
    let text = match cell.is_own() && cell.start() >= own_start {
        true => {
            copy = fields.bytes(input.block, cell).to_vec();
            &copy[..]
        }
        false => input.text(cell),
    };
    let new = field_type.cast(text, cell, input.read_ns, fields);
    let new = new.unwrap_or_else(|| fields.bad_type(row));
    fields.set(index, row, new);
}

/// Copies the bytes between the quotes and replaces each doubled quote with one.
fn undouble(text: &[u8], quote: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        out.push(*byte);
        if *byte == quote {
            rest.next();
        }
    }
    out
}

/// Bounds of a value.
struct Bounds {
    begin: usize,
    end: usize,
    quoted: bool,
    /// Whether the value contains doubled quotes or escapes.
    is_rewritten: bool,
}

/// Returns the value at `at`, and the end of the value including quotes and spaces. Advances
/// `index`, the index of the next structural. The error is the offset of an invalid quote.
fn value(
    config: &DelimitedConfig,
    marks: &[u32],
    index: &mut usize,
    text: &[u8],
    at: usize,
) -> Result<(Bounds, usize), usize> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let mut begin = at;
    if config.trim {
        begin += text[at.min(text.len())..].iter().take_while(|byte| is_space(byte)).count();
    }
    let quoted = config.quote.is_some() && text.get(begin) == config.quote.as_ref();
    if !quoted {
        let end = next_delimiter(config, marks, index, text, at);
        let is_rewritten = config.escapes && text[begin.min(end)..end].contains(&b'\\');
        let mut last = end;
        begin = begin.min(end);
        if config.trim {
            last -= text[begin..end].iter().rev().take_while(|byte| is_space(byte)).count();
        }
        return Ok((Bounds { begin, end: last, quoted, is_rewritten }, end));
    }
    let (last, doubled) = closing_quote(config, marks, index, text, begin).ok_or(begin)?;
    let is_rewritten = doubled || config.escapes && text[begin..last].contains(&b'\\');
    let end = next_delimiter(config, marks, index, text, last + 1);
    let between = &text[last + 1..end];
    let is_clean = between.is_empty() || (config.trim && between.iter().all(is_space));
    if is_clean {
        Ok((Bounds { begin: begin + 1, end: last, quoted, is_rewritten }, end))
    } else {
        Err(last + 1)
    }
}

/// Finds the first delimiter at or after `at`, or the end of the text.
fn next_delimiter(
    config: &DelimitedConfig,
    marks: &[u32],
    index: &mut usize,
    text: &[u8],
    at: usize,
) -> usize {
    while let Some(mark) =
        marks.get(*index).map(|mark| *mark as usize).filter(|mark| *mark < text.len())
    {
        if mark >= at
            && text[mark..].starts_with(config.delimiter.as_bytes())
            && !(config.escapes && is_escaped(text, at, mark))
        {
            return mark;
        }
        *index += 1;
    }
    text.len()
}

/// Finds the closing quote for the quote at `begin`. Also returns whether there are doubled quotes
/// between them.
fn closing_quote(
    config: &DelimitedConfig,
    marks: &[u32],
    index: &mut usize,
    text: &[u8],
    begin: usize,
) -> Option<(usize, bool)> {
    let (quote, mut doubled, mut from) = (text[begin], false, begin + 1);
    while let Some(mark) =
        marks.get(*index).map(|mark| *mark as usize).filter(|mark| *mark < text.len())
    {
        *index += 1;
        let is_escaped = config.escapes && mark > from && is_escaped(text, from, mark);
        if mark < from || text[mark] != quote || is_escaped {
            continue;
        }
        if text.get(mark + 1) != Some(&quote) {
            return Some((mark, doubled));
        }
        (doubled, from) = (true, mark + 2);
    }
    None
}

impl Parser for Delimited {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        let named =
            |(name, _): &(Arc<str>, Option<Type>)| (!name.is_empty()).then(|| fields.named(name));
        let indices: Vec<Option<usize>> = self.config.fields.iter().map(named).collect();
        let mut unseen = unseen(fields.rows(), &indices);
        let mut table = table(fields, &indices, &mut unseen);
        self.find(input, &mut table);
        for failure in std::mem::take(&mut self.failures) {
            fields.fail(failure.row, failure.reason, failure.at);
        }
        self.finish(input, fields, &indices);
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}
