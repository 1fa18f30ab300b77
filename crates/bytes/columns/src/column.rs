//! Columns, which contain the values of one field in all rows, and the set of all columns.

use crate::cell::{Cell, Kind, VALUE_BYTES_MAX};
use crate::value::Value;
use bytes::Bytes;
use std::io::Write;
use std::sync::Arc;

/// Maximum number of columns that parsing may create in a batch. Additional fields stay together as
/// [`Kind::Members`].
pub const COLUMNS_MAX: usize = 256;

/// Maximum number of bytes that one edit may add to a column, so that strings that grow with each
/// edit cannot exhaust memory.
const ADDED_BYTES_MAX: usize = 32 << 20;

/// The values of a field in every row. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name of the field.
    pub name: Arc<str>,
    cells: Arc<Vec<Cell>>,
    own: Bytes,
}

impl Column {
    /// Creates a column whose cells refer to the block of its batch and to `own`.
    pub fn new(name: Arc<str>, cells: Vec<Cell>, own: impl Into<Bytes>) -> Column {
        Column { name, cells: Arc::new(cells), own: own.into() }
    }

    /// Returns the cells, one per row.
    #[inline(always)]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the buffer for values outside the block.
    pub fn own(&self) -> &Bytes {
        &self.own
    }

    /// Returns whether both columns share their cells. The values are not compared.
    pub fn is_same(&self, other: &Column) -> bool {
        Arc::ptr_eq(&self.cells, &other.cells)
    }

    /// Returns the bytes of a cell of this column in a batch over `block`.
    #[inline(always)]
    pub fn bytes<'a>(&'a self, block: &'a [u8], cell: Cell) -> &'a [u8] {
        self.view().bytes(block, cell)
    }

    /// Returns the value of a row in a batch over `block`.
    #[inline]
    pub fn value<'a>(&'a self, block: &'a [u8], row: usize) -> Value<'a> {
        self.view().value(block, row)
    }

    /// Returns a borrowed view of the cells and the buffer.
    #[inline]
    pub fn view(&self) -> ColumnView<'_> {
        ColumnView { cells: &self.cells, own: &self.own }
    }

    /// Returns the same column under another name.
    pub fn named(&self, name: Arc<str>) -> Column {
        Column { name, ..self.clone() }
    }

    /// Returns a builder for an edited copy.
    pub fn edit(&self) -> ColumnBuilder {
        let (own, initial_bytes) = (self.own.to_vec(), self.own.len());
        ColumnBuilder { cells: self.cells.to_vec(), own, initial_bytes, dropped: 0 }
    }

    /// Returns the column's memory use in bytes, excluding the block.
    pub fn memory_bytes(&self) -> usize {
        self.cells.len() * size_of::<Cell>() + self.own.len()
    }
}

/// A borrowed view of a field's values in every row, from a [`Column`] or from cells that are still
/// being computed.
#[derive(Clone, Copy, Debug)]
pub struct ColumnView<'a> {
    cells: &'a [Cell],
    own: &'a [u8],
}

impl<'a> ColumnView<'a> {
    /// Creates a view of cells that refer to their batch's block and to `own`.
    pub fn new(cells: &'a [Cell], own: &'a [u8]) -> ColumnView<'a> {
        ColumnView { cells, own }
    }

    /// Returns the cells, one per row.
    #[inline(always)]
    pub fn cells(self) -> &'a [Cell] {
        self.cells
    }

    /// Returns the bytes of a cell of this column in a batch over `block`.
    #[inline(always)]
    pub fn bytes(self, block: &'a [u8], cell: Cell) -> &'a [u8] {
        let buffer = if cell.is_own() { self.own } else { block };
        &buffer[cell.start()..cell.start() + cell.len()]
    }

    /// Returns the value of a row in a batch over `block`.
    #[inline]
    pub fn value(self, block: &'a [u8], row: usize) -> Value<'a> {
        let cell = self.cells[row];
        let bytes = self.bytes(block, cell);
        match cell.kind() {
            Kind::Absent => Value::Absent,
            Kind::Null => Value::Null,
            Kind::False => Value::Bool(false),
            Kind::True => Value::Bool(true),
            Kind::Int => Value::Int(bytes),
            Kind::Float => Value::Float(bytes),
            Kind::Time => Value::Time(bytes),
            Kind::Text => Value::Text(bytes),
            Kind::Escaped => Value::Escaped(bytes),
            Kind::Object => Value::Object(bytes),
            Kind::Array => Value::Array(bytes),
            Kind::Members => Value::Members(bytes),
        }
    }
}

/// Builds a column. Rows can be set in any order.
#[derive(Clone, Debug, Default)]
pub struct ColumnBuilder {
    cells: Vec<Cell>,
    own: Vec<u8>,
    /// Length of `own` when the edit began.
    initial_bytes: usize,
    dropped: u64,
}

impl ColumnBuilder {
    /// Creates a builder for a column of `rows` rows without values.
    pub fn new(rows: usize) -> ColumnBuilder {
        ColumnBuilder {
            cells: vec![Cell::ABSENT; rows],
            own: Vec::new(),
            initial_bytes: 0,
            dropped: 0,
        }
    }

    /// Returns the current cells for editing.
    pub fn cells(&mut self) -> &mut [Cell] {
        &mut self.cells
    }

    /// Sets the cell of a row. The cell must refer to the block or come from
    /// [`ColumnBuilder::push`].
    #[inline(always)]
    pub fn set(&mut self, row: usize, cell: Cell) {
        self.cells[row] = cell;
    }

    /// Copies `bytes` into the column's buffer and returns a cell for them. Several rows may use
    /// the cell. Truncates values longer than [`VALUE_BYTES_MAX`]. Returns an absent cell if the
    /// buffer is full.
    pub fn push(&mut self, kind: Kind, bytes: &[u8]) -> Cell {
        self.write(kind, |own| own.extend_from_slice(bytes))
    }

    /// Appends a value like [`ColumnBuilder::push`]; the closure appends the bytes.
    pub fn write(&mut self, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) -> Cell {
        let start = self.own.len();
        write(&mut self.own);
        self.own.truncate(start + VALUE_BYTES_MAX);
        if self.own.len() - self.initial_bytes > ADDED_BYTES_MAX {
            self.own.truncate(start);
            self.dropped += 1;
            return Cell::ABSENT;
        }
        Cell::own(kind, start, self.own.len() - start)
    }

    /// Returns the number of values that were dropped because the buffer was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Appends an integer and returns its cell.
    pub fn int(&mut self, value: i64) -> Cell {
        let mut digits = itoa::Buffer::new();
        self.push(Kind::Int, digits.format(value).as_bytes())
    }

    /// Appends a float in its shortest representation that parses as the same value, and returns
    /// its cell. Returns an absent cell if the float is not finite.
    pub fn float(&mut self, value: f64) -> Cell {
        match value.is_finite() {
            true => self.write(Kind::Float, |own| _ = write!(own, "{value:?}")),
            false => Cell::ABSENT,
        }
    }

    /// Sets the value of a row to text.
    pub fn text(&mut self, row: usize, text: &[u8]) {
        self.cells[row] = self.push(Kind::Text, text);
    }

    /// Returns the finished column.
    pub fn finish(self, name: Arc<str>) -> Column {
        Column::new(name, self.cells, self.own)
    }
}

/// All columns of a batch, in output order. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Columns(Arc<Vec<Column>>);

impl Columns {
    /// Returns the column of a field, if it exists.
    pub fn get(&self, name: &str) -> Option<&Column> {
        self.0.iter().find(|column| &*column.name == name)
    }

    /// Adds a column, or replaces the column with the same name.
    pub fn set(&mut self, column: Column) {
        let list = Arc::make_mut(&mut self.0);
        match list.iter_mut().find(|existing| existing.name == column.name) {
            Some(existing) => *existing = column,
            None => list.push(column),
        }
    }

    /// Adds a column. If a column with the same name exists, its values are kept in rows where the
    /// new column has no value.
    pub fn merge(&mut self, column: Column, block: &[u8]) {
        let Some(old) = self.get(&column.name) else { return self.set(column) };
        let mut merged = column.edit();
        for (row, cell) in old.cells().iter().enumerate() {
            if column.cells()[row].is_present() || !cell.is_present() {
                continue;
            }
            let kept = if cell.is_own() {
                merged.push(cell.kind(), old.bytes(block, *cell))
            } else {
                *cell
            };
            merged.set(row, kept);
        }
        self.set(merged.finish(column.name.clone()));
    }

    /// Removes the column of a field, if it exists, and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Column> {
        let index = self.0.iter().position(|column| &*column.name == name)?;
        Some(Arc::make_mut(&mut self.0).remove(index))
    }

    /// Keeps only the columns for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&Column) -> bool) {
        Arc::make_mut(&mut self.0).retain(keep);
    }

    /// Returns the columns in output order.
    pub fn iter(&self) -> std::slice::Iter<'_, Column> {
        self.0.iter()
    }

    /// Returns the number of columns.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<Column>> for Columns {
    /// Converts a list of columns with unique names.
    fn from(list: Vec<Column>) -> Columns {
        Columns(Arc::new(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn values_are_in_the_block_or_in_the_buffer_of_the_column() {
        let block = b"GET /index 200";
        let mut builder = ColumnBuilder::new(6);
        builder.set(0, Cell::new(Kind::Text, 4, 6));
        builder.set(1, Cell::new(Kind::Int, 11, 3));
        let (int, float) = (builder.int(-7), builder.float(1.0));
        builder.set(2, int);
        builder.set(3, float);
        builder.text(4, b"own");
        let column = builder.finish("x".into());
        let value = |row| column.value(block, row);
        assert_eq!(value(0), Value::Text(b"/index"));
        assert_eq!(value(1).number(), Some(Number::Int(200)));
        assert_eq!((value(2), value(3)), (Value::Int(b"-7"), Value::Float(b"1.0")));
        assert_eq!((value(4), value(5)), (Value::Text(b"own"), Value::Absent));
        let mut edit = column.edit();
        edit.text(0, b"changed");
        let changed = edit.finish("x".into());
        assert_eq!(
            (changed.value(block, 0), changed.value(block, 4)),
            (Value::Text(b"changed"), Value::Text(b"own"))
        );
        assert_eq!(value(0), Value::Text(b"/index"), "the original is unchanged");
        assert_eq!(ColumnBuilder::new(1).float(f64::NAN), Cell::ABSENT);
    }

    #[test]
    fn the_buffer_of_a_column_is_bounded() {
        let (mut builder, text) = (ColumnBuilder::new(1), vec![b'x'; ADDED_BYTES_MAX / 2]);
        assert!(
            builder.push(Kind::Text, &text).is_present()
                && builder.push(Kind::Text, &text).is_present()
        );
        assert_eq!((builder.push(Kind::Text, b"y"), builder.dropped()), (Cell::ABSENT, 1));
        assert!(builder.push(Kind::Text, b"").is_present());
    }

    #[test]
    fn merge_keeps_values_that_the_new_column_lacks() {
        let block = b"abc";
        let mut old = ColumnBuilder::new(3);
        old.set(0, Cell::new(Kind::Text, 0, 1));
        old.text(1, b"old");
        old.text(2, b"gone");
        let mut new = ColumnBuilder::new(3);
        new.text(2, b"new");
        let mut columns = Columns::default();
        columns.merge(old.finish("x".into()), block);
        columns.merge(new.finish("x".into()), block);
        let column = columns.get("x").unwrap();
        let values = [0, 1, 2].map(|row| column.value(block, row));
        assert_eq!(values, [Value::Text(b"a"), Value::Text(b"old"), Value::Text(b"new")]);
        assert_eq!(columns.len(), 1);
    }

    #[test]
    fn names_are_unique() {
        let column = |name: &str, rows| ColumnBuilder::new(rows).finish(name.into());
        let mut columns = Columns::from(vec![column("a", 1), column("b", 1)]);
        let before = columns.clone();
        columns.set(column("a", 2));
        columns.set(column("c", 2));
        let names: Vec<(&str, usize)> =
            columns.iter().map(|c| (&*c.name, c.cells().len())).collect();
        assert_eq!(names, [("a", 2), ("b", 1), ("c", 2)]);
        assert!(
            columns.remove("b").is_some()
                && columns.get("b").is_none()
                && columns.remove("b").is_none()
        );
        assert_eq!((before.len(), columns.len()), (2, 2));
    }
}
