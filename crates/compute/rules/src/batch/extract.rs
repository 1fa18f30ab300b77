//! Extraction of values from text.

use crate::plan::{Left, Right};
use crate::task::FieldType;
use memchr::memchr;
use millstream_columns::{Cell, ColumnView, Kind, Number, parse_int, unescape};
use std::borrow::Cow;
use std::ops::Range;

/// A column and the block to which its cells refer.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub column: ColumnView<'a>,
    pub block: &'a [u8],
}

impl<'a> Source<'a> {
    /// Returns the value of a row as text, or `None` if the row has no value in plain form.
    #[inline(always)]
    pub fn plain(&self, row: u32) -> Option<Cow<'a, [u8]>> {
        self.column.value(self.block, row as usize).plain()
    }
}

/// The text in a row.
#[derive(Clone, Copy)]
pub struct Text<'t> {
    pub bytes: &'t [u8],
    /// Position of the text in the block, if the block contains the text unchanged.
    pub cell: Option<Cell>,
}

impl Text<'_> {
    /// Represents a row without text.
    pub const NONE: Text<'static> = Text { bytes: &[], cell: None };
}

/// Selects a value that is between two strings.
pub struct Between<'p> {
    pub left: &'p Left,
    /// Positions of `left` that are already found.
    pub positions: &'p mut Positions,
    /// Number of occurrences of `left` to skip before the occurrence that precedes the value.
    pub index: u32,
    pub right: &'p Right,
}

/// Extracted values, which are parts of a block or copies.
#[derive(Default)]
pub struct Values {
    pub cells: Vec<Cell>,
    pub own: Vec<u8>,
}

impl Values {
    /// Makes room for `rows` values. Until a value is set, it is left over from an earlier batch.
    pub fn begin(&mut self, rows: usize) {
        self.cells.resize(rows, Cell::ABSENT);
        self.own.clear();
    }

    pub fn view(&self) -> ColumnView<'_> {
        ColumnView::new(&self.cells, &self.own)
    }

    /// Sets a row's value to part of the row's text.
    #[inline(always)]
    pub fn set(&mut self, row: u32, text: Text<'_>, place: Option<Range<usize>>, kind: FieldType) {
        let typed = place.and_then(|place| typed(text.bytes, place, kind));
        self.set_typed(row, text, typed);
    }

    /// Sets the value of a row like [`Values::set`], but the kind of the part is already
    /// determined.
    #[inline(always)]
    pub fn set_typed(&mut self, row: u32, text: Text<'_>, typed: Option<(Kind, Range<usize>)>) {
        self.cells[row as usize] = match (typed, text.cell) {
            (None, _) => Cell::ABSENT,
            (Some((kind, place)), Some(cell)) => cell.part(kind, place.start, place.len()),
            (Some((kind, place)), None) => self.copy(kind, &text.bytes[place]),
        };
    }

    /// Sets the value of a row to a value found in a JSON document.
    #[inline]
    pub fn set_json(&mut self, row: u32, text: Text<'_>, found: Cell, kind: FieldType) {
        let place = found.start()..found.start() + found.len();
        self.cells[row as usize] = match (found.kind(), text.cell) {
            (Kind::Absent, _) => Cell::ABSENT,
            // The value is unescaped when it is used.
            (Kind::Escaped, Some(cell)) if kind == FieldType::Text => {
                cell.part(Kind::Escaped, place.start, place.len())
            }
            (Kind::Escaped, _) => {
                let text = unescape(&text.bytes[place]);
                kind_of(kind, &text).map_or(Cell::ABSENT, |kind| self.copy(kind, &text))
            }
            _ => return self.set(row, text, Some(place), kind),
        };
    }

    fn copy(&mut self, kind: Kind, text: &[u8]) -> Cell {
        let start = self.own.len();
        self.own.extend_from_slice(text);
        Cell::own(kind, start, text.len())
    }
}

/// Returns a part of the text and its kind, or `None` if the part is not a value of this type.
#[inline(always)]
pub fn typed(text: &[u8], place: Range<usize>, kind: FieldType) -> Option<(Kind, Range<usize>)> {
    Some((kind_of(kind, &text[place.clone()])?, place))
}

/// Returns the kind of `text` for this type, or `None` if the text is not a value of this type.
#[inline(always)]
fn kind_of(kind: FieldType, text: &[u8]) -> Option<Kind> {
    match kind {
        FieldType::Text => Some(Kind::Text),
        FieldType::Int => parse_int(text).map(|_| Kind::Int),
        FieldType::Float => match Number::parse(text)? {
            Number::Int(_) => Some(Kind::Int),
            Number::Float(_) => Some(Kind::Float),
        },
    }
}

/// Calls `run` with the text in a row, or with `None` if the row has no value or a value of a kind
/// without text, such as an object.
#[inline(always)]
pub fn with_text<T>(source: Source<'_>, row: u32, run: impl FnOnce(Option<Text<'_>>) -> T) -> T {
    let cell = source.column.cells()[row as usize];
    let bytes = source.column.bytes(source.block, cell);
    match cell.kind() {
        Kind::Text | Kind::Int | Kind::Float | Kind::Time => {
            run(Some(Text { bytes, cell: Some(cell).filter(|cell| !cell.is_own()) }))
        }
        Kind::Escaped => run(Some(Text { bytes: &unescape(bytes), cell: None })),
        _ => run(None),
    }
}

/// Calls `run` with the text in a row to parse as JSON; the text is empty if there is none.
#[inline(always)]
pub fn with_json(source: Source<'_>, row: u32, run: impl FnOnce(Text<'_>)) {
    let cell = source.column.cells()[row as usize];
    match cell.kind() {
        Kind::Object | Kind::Array => {
            let bytes = source.column.bytes(source.block, cell);
            run(Text { bytes, cell: Some(cell).filter(|cell| !cell.is_own()) });
        }
        _ => with_text(source, row, |text| run(text.unwrap_or(Text::NONE))),
    }
}

/// Positions of a string in a batch's rows, as far as they have been found.
#[derive(Default)]
pub struct Positions {
    batch: u64,
    kept: usize,
    /// Ends of the occurrences, with space for `kept` occurrences per row.
    ends: Vec<u32>,
    /// Number of occurrences found in each row. [`ALL`] is added if there are no more.
    known: Vec<u8>,
}

const ALL: u8 = 0x80;

impl Positions {
    pub fn begin(&mut self, batch: u64, kept: usize, rows: usize) {
        if self.batch == batch || kept == 0 {
            return;
        }
        (self.batch, self.kept) = (batch, kept);
        self.ends.resize(rows * kept, 0);
        self.known.clear();
        self.known.resize(rows, 0);
    }

    /// Returns the end of the occurrence at `index` in a row's text; `None` if there are fewer
    /// occurrences.
    #[inline]
    fn end(&mut self, left: &Left, row: u32, text: &[u8], index: u32) -> Option<usize> {
        let ends = &mut self.ends[row as usize * self.kept..][..self.kept];
        let known = &mut self.known[row as usize];
        while index >= u32::from(*known & !ALL) {
            if *known & ALL != 0 {
                return None;
            }
            let number = usize::from(*known);
            let from = number.checked_sub(1).map_or(0, |last| ends[last] as usize);
            match next_end(left, text, from, number) {
                Some(end) => {
                    ends[number] = end as u32;
                    *known += 1;
                }
                None => *known |= ALL,
            }
        }
        Some(ends[index as usize] as usize)
    }
}

/// Returns the end of the next occurrence after `from`. `number` is the number of earlier
/// occurrences. Returns `None` if there is no other occurrence.
#[inline(always)]
fn next_end(left: &Left, text: &[u8], from: usize, number: usize) -> Option<usize> {
    let len = left.finder.needle().len();
    if len == 0 {
        // An empty string occurs only once, at the beginning of the text.
        return (number == 0).then_some(0);
    }
    left.finder.find(&text[from..]).map(|at| from + at + len)
}

/// Returns the end of the occurrence at `index`, without storing the positions. Returns `None` if
/// there are fewer occurrences.
fn search_end(left: &Left, text: &[u8], index: u32) -> Option<usize> {
    let mut end = 0;
    for number in 0..=index {
        end = next_end(left, text, end, number as usize)?;
    }
    Some(end)
}

/// Sets the values of rows to the text between two strings.
pub fn between(
    source: Source<'_>,
    rows: &[u32],
    mut value: Between<'_>,
    kind: FieldType,
    out: &mut Values,
) {
    for row in rows {
        with_text(source, *row, |text| {
            let place = text.and_then(|text| value.place(text.bytes, *row));
            out.set(*row, text.unwrap_or(Text::NONE), place, kind);
        });
    }
}

impl Between<'_> {
    /// Returns the range of the value in a row's text; `None` if the text does not contain the
    /// value.
    #[inline(always)]
    pub fn place(&mut self, text: &[u8], row: u32) -> Option<Range<usize>> {
        let start = match self.left.kept {
            0 => search_end(self.left, text, self.index)?,
            _ => self.positions.end(self.left, row, text, self.index)?,
        };
        Some(start..value_end(self.right, text, start))
    }
}

#[inline(always)]
fn value_end(right: &Right, text: &[u8], start: usize) -> usize {
    let rest = &text[start..];
    let found = match right {
        Right::None => None,
        Right::Byte(byte) => find_byte(*byte, rest),
        Right::Text(finder) => finder.find(rest),
    };
    found.map_or(text.len(), |at| start + at)
}

/// Finds a byte. Values are short, so the first bytes are searched inline.
#[inline(always)]
fn find_byte(byte: u8, text: &[u8]) -> Option<usize> {
    const ONES: u128 = u128::MAX / 0xFF;
    let Some((first, rest)) = text.split_first_chunk::<16>() else { return memchr(byte, text) };
    let differing = u128::from_le_bytes(*first) ^ (ONES * u128::from(byte));
    // The lowest set bit marks the first zero byte (Mycroft's test).
    match differing.wrapping_sub(ONES) & !differing & (ONES << 7) {
        0 => memchr(byte, rest).map(|at| at + first.len()),
        zeros => Some(zeros.trailing_zeros() as usize / 8),
    }
}

/// Sets the values of rows to the values in a column, converted to another type.
pub fn cast(source: Source<'_>, rows: &[u32], kind: FieldType, out: &mut Values) {
    for row in rows {
        with_text(source, *row, |text| {
            let place = text.map(|text| 0..text.bytes.len());
            out.set(*row, text.unwrap_or(Text::NONE), place, kind);
        });
    }
}

/// Returns the number in a row, or NaN if the value is not a finite number.
#[inline(always)]
pub fn number_of(source: Source<'_>, row: u32) -> f64 {
    let number = source.plain(row).and_then(|text| Number::parse(&text));
    number.map(Number::as_f64).filter(|number| number.is_finite()).unwrap_or(f64::NAN)
}
