//! One field of all rows, and all fields of all rows.

use crate::cell::{Cell, Kind, VALUE_BYTES_MAX};
use crate::value::Value;
use bytes::Bytes;
use std::io::Write;
use std::sync::Arc;

/// Columns that what is found in lines may make in one batch; the rest stays together as
/// [`Kind::Members`].
pub const COLUMNS_MAX: usize = 256;

/// Bytes that a change of one field of one batch may add to it: texts that grow from step to step
/// must not fill the memory.
const OWN_BYTES_MAX: usize = 32 << 20;

/// A field of every row. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Column {
    /// What the field is called.
    pub name: Arc<str>,
    cells: Arc<Vec<Cell>>,
    own: Bytes,
}

impl Column {
    /// A column whose cells lie in the block of its batch and in `own`.
    pub fn new(name: Arc<str>, cells: Vec<Cell>, own: impl Into<Bytes>) -> Column {
        Column { name, cells: Arc::new(cells), own: own.into() }
    }

    /// A cell per row.
    #[inline(always)]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The buffer for what does not lie in the block.
    pub fn own(&self) -> &Bytes {
        &self.own
    }

    /// Whether it is the same column, without looking at its values.
    pub fn is_same(&self, other: &Column) -> bool {
        Arc::ptr_eq(&self.cells, &other.cells)
    }

    /// The bytes of a cell of this column, in a batch over `block`.
    #[inline(always)]
    pub fn bytes<'a>(&'a self, block: &'a [u8], cell: Cell) -> &'a [u8] {
        let within = if cell.is_own() { &self.own[..] } else { block };
        &within[cell.start()..cell.start() + cell.len()]
    }

    /// The value of a row, in a batch over `block`.
    #[inline]
    pub fn value<'a>(&'a self, block: &'a [u8], row: usize) -> Value<'a> {
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

    /// The same under another name.
    pub fn named(&self, name: Arc<str>) -> Column {
        Column { name, ..self.clone() }
    }

    /// To change some of its rows.
    pub fn edit(&self) -> ColumnBuilder {
        let (own, began) = (self.own.to_vec(), self.own.len());
        ColumnBuilder { cells: self.cells.to_vec(), own, began, left_out: 0 }
    }

    /// Bytes of memory it holds, beside the block.
    pub fn memory_bytes(&self) -> usize {
        self.cells.len() * size_of::<Cell>() + self.own.len()
    }
}

/// Makes a column, row by row in any order.
#[derive(Clone, Debug, Default)]
pub struct ColumnBuilder {
    cells: Vec<Cell>,
    own: Vec<u8>,
    /// Bytes of `own` that were there before.
    began: usize,
    left_out: u64,
}

impl ColumnBuilder {
    /// A column of `rows` without a value.
    pub fn new(rows: usize) -> ColumnBuilder {
        ColumnBuilder { cells: vec![Cell::ABSENT; rows], own: Vec::new(), began: 0, left_out: 0 }
    }

    /// The cells so far.
    pub fn cells(&mut self) -> &mut [Cell] {
        &mut self.cells
    }

    /// Puts a cell that lies in the block, or that [`ColumnBuilder::push`] made, into a row.
    #[inline(always)]
    pub fn set(&mut self, row: usize, cell: Cell) {
        self.cells[row] = cell;
    }

    /// Keeps `bytes` in the column's own buffer; a cell for them. Cells can share it. What is
    /// longer than a value may be is cut, and once the buffer is full there is no value.
    pub fn push(&mut self, kind: Kind, bytes: &[u8]) -> Cell {
        self.write(kind, |own| own.extend_from_slice(bytes))
    }

    /// The same for what `write` appends.
    pub fn write(&mut self, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) -> Cell {
        let start = self.own.len();
        write(&mut self.own);
        self.own.truncate(start + VALUE_BYTES_MAX);
        if self.own.len() - self.began > OWN_BYTES_MAX {
            self.own.truncate(start);
            self.left_out += 1;
            return Cell::ABSENT;
        }
        Cell::own(kind, start, self.own.len() - start)
    }

    /// Values for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// A cell for a whole number.
    pub fn int(&mut self, value: i64) -> Cell {
        self.write(Kind::Int, |own| _ = write!(own, "{value}"))
    }

    /// A cell for a number, in the shortest text that reads back as the same; none for what is not
    /// finite.
    pub fn float(&mut self, value: f64) -> Cell {
        match value.is_finite() {
            true => self.write(Kind::Float, |own| _ = write!(own, "{value:?}")),
            false => Cell::ABSENT,
        }
    }

    /// Puts text into a row.
    pub fn text(&mut self, row: usize, text: &[u8]) {
        self.cells[row] = self.push(Kind::Text, text);
    }

    /// The column.
    pub fn finish(self, name: Arc<str>) -> Column {
        Column::new(name, self.cells, self.own)
    }
}

/// All fields of all rows, in the order they are written. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Columns(Arc<Vec<Column>>);

impl Columns {
    /// The column of a field.
    pub fn get(&self, name: &str) -> Option<&Column> {
        self.0.iter().find(|column| &*column.name == name)
    }

    /// Puts a column in, in the place of one of the same name.
    pub fn set(&mut self, column: Column) {
        let list = Arc::make_mut(&mut self.0);
        match list.iter_mut().find(|there| there.name == column.name) {
            Some(there) => *there = column,
            None => list.push(column),
        }
    }

    /// Puts a column in, in the place of one of the same name, whose values stay where the new one
    /// has none.
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

    /// Takes a column out.
    pub fn remove(&mut self, name: &str) -> Option<Column> {
        let index = self.0.iter().position(|column| &*column.name == name)?;
        Some(Arc::make_mut(&mut self.0).remove(index))
    }

    /// Keeps only the columns for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&Column) -> bool) {
        Arc::make_mut(&mut self.0).retain(keep);
    }

    /// The columns, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Column> {
        self.0.iter()
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<Column>> for Columns {
    /// Columns of different names.
    fn from(list: Vec<Column>) -> Columns {
        Columns(Arc::new(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn values_lie_in_the_block_or_in_the_columns_own_buffer() {
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
        assert_eq!(value(0), Value::Text(b"/index"), "the other is not changed");
        assert_eq!(ColumnBuilder::new(1).float(f64::NAN), Cell::ABSENT);
    }

    #[test]
    fn a_buffer_of_ones_own_is_bounded() {
        let (mut builder, text) = (ColumnBuilder::new(1), vec![b'x'; OWN_BYTES_MAX / 2]);
        assert!(
            builder.push(Kind::Text, &text).is_present()
                && builder.push(Kind::Text, &text).is_present()
        );
        assert_eq!((builder.push(Kind::Text, b"y"), builder.left_out()), (Cell::ABSENT, 1));
        assert!(builder.push(Kind::Text, b"").is_present());
    }

    #[test]
    fn what_a_new_column_does_not_have_stays() {
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
    fn a_name_is_there_once() {
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
