//! The fields that a parser extracts from lines.

use millstream_columns::{BLOCK_BYTES_MAX, COLUMNS_MAX, Cell, Column, Kind, VALUE_BYTES_MAX};
use std::sync::Arc;

/// Maximum bytes for the cells of a batch. Without this limit, short lines with many different
/// names would exhaust memory.
const CELL_BYTES_MAX: usize = 4 << 20;

/// The reason why a line does not match, as a metric label such as `not_json`.
pub type Reason = &'static str;

/// A row that does not match, entirely or in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Index of the row.
    pub row: usize,
    /// Why the row does not match.
    pub reason: Reason,
    /// Offset of the mismatch in the row's text.
    pub at: usize,
}

/// A parsed field.
#[derive(Debug)]
pub struct Field {
    /// Name of the field.
    pub name: Arc<str>,
    /// One cell per row.
    pub cells: Vec<Cell>,
}

/// The fields of all rows. The fields share one buffer for bytes that are not in the block.
#[derive(Debug, Default)]
pub struct Fields {
    rows: usize,
    list: Vec<Field>,
    own: Vec<u8>,
    failures: Vec<Failure>,
    bad_types: Vec<usize>,
    flaws: Vec<Failure>,
    /// Number of duplicate names within rows. The last value wins.
    pub duplicates: u64,
}

impl Fields {
    /// Creates an empty set for `rows` rows. Copies `own`, the buffer of the parsed column, so that
    /// cells that point into that buffer stay valid.
    pub fn new(rows: usize, own: &[u8]) -> Fields {
        Fields { rows, own: own.to_vec(), ..Fields::default() }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the index of a field, if it exists.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.list.iter().position(|field| field.name.as_bytes() == name)
    }

    /// Returns the index of a field that the configuration names. Adds a missing field regardless
    /// of the limit.
    pub fn named(&mut self, name: &Arc<str>) -> usize {
        self.find(name.as_bytes()).unwrap_or_else(|| self.add(name.clone()))
    }

    /// Returns the index of a field that a line names. Returns `None` if the limit is reached or
    /// the name is not UTF-8. `hint` is the index to try first, because neighboring lines usually
    /// have the same fields.
    #[inline]
    pub fn seen(&mut self, name: &[u8], hint: usize) -> Option<usize> {
        match self.list.get(hint) {
            Some(field) if field.name.as_bytes() == name => Some(hint),
            _ => self.find(name).or_else(|| self.add_seen(name)),
        }
    }

    #[cold]
    fn add_seen(&mut self, name: &[u8]) -> Option<usize> {
        let more = self.list.len() + 1;
        let fits = more <= COLUMNS_MAX && more * self.rows * size_of::<Cell>() <= CELL_BYTES_MAX;
        let name = std::str::from_utf8(name).ok().filter(|_| fits || self.list.is_empty())?;
        Some(self.add(name.into()))
    }

    fn add(&mut self, name: Arc<str>) -> usize {
        self.list.push(Field { name, cells: vec![Cell::ABSENT; self.rows] });
        self.list.len() - 1
    }

    /// Returns the fields.
    pub fn list(&mut self) -> &mut [Field] {
        &mut self.list
    }

    /// Returns the cells of several fields at once.
    ///
    /// # Panics
    ///
    /// Panics if an index is out of range or occurs twice.
    pub fn cells<const N: usize>(&mut self, indices: [usize; N]) -> [&mut [Cell]; N] {
        let fields = self.list.get_disjoint_mut(indices).expect("different fields");
        fields.map(|field| &mut field.cells[..])
    }

    /// Sets the value of a field in a row.
    #[inline(always)]
    pub fn set(&mut self, field: usize, row: usize, cell: Cell) {
        self.list[field].cells[row] = cell;
    }

    /// Returns the value of a field in a row.
    #[inline(always)]
    pub fn get(&self, field: usize, row: usize) -> Cell {
        self.list[field].cells[row]
    }

    /// Appends bytes that are not in the line to the buffer. Truncates them to [`VALUE_BYTES_MAX`].
    /// Returns their cell, or an absent cell if the buffer is full.
    pub fn push(&mut self, kind: Kind, bytes: &[u8]) -> Cell {
        let start = self.own.len();
        let len = bytes.len().min(VALUE_BYTES_MAX);
        if start + len >= BLOCK_BYTES_MAX {
            return Cell::ABSENT;
        }
        self.own.extend_from_slice(&bytes[..len]);
        Cell::own(kind, start, len)
    }

    /// Returns the buffer for bytes that are not in the line.
    pub fn own(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// Returns the bytes of a cell in these fields.
    #[inline(always)]
    pub fn bytes<'a>(&'a self, block: &'a [u8], cell: Cell) -> &'a [u8] {
        let within = if cell.is_own() { &self.own[..] } else { block };
        &within[cell.start()..cell.start() + cell.len()]
    }

    /// Records that a row does not match, starting at byte `at` of its text. Removes the row's
    /// fields.
    #[cold]
    pub fn fail(&mut self, row: usize, reason: Reason, at: usize) {
        self.list.iter_mut().for_each(|field| field.cells[row] = Cell::ABSENT);
        self.bad_types.retain(|bad| *bad != row);
        self.flaws.retain(|flaw| flaw.row != row);
        self.failures.push(Failure { row, reason, at });
    }

    /// Records that a row matches except for a part at byte `at` of its text. The row keeps its
    /// fields.
    #[cold]
    pub fn flaw(&mut self, row: usize, reason: Reason, at: usize) {
        self.flaws.push(Failure { row, reason, at });
    }

    /// Takes the rows that match only in part.
    pub fn take_flaws(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.flaws)
    }

    /// Records that a value in a row does not have its configured type. Returns the cell to use
    /// instead.
    #[cold]
    pub fn bad_type(&mut self, row: usize) -> Cell {
        self.bad_types.push(row);
        Cell::constant(Kind::Null)
    }

    /// Returns the rows that have values with the wrong type.
    pub fn bad_types(&self) -> &[usize] {
        &self.bad_types
    }

    /// Takes the rows that have values with the wrong type.
    pub fn take_bad_types(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.bad_types)
    }

    /// Returns the rows that do not match, in the order in which they were recorded.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Takes the rows that do not match, so that another parser can try them.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.failures)
    }

    /// Returns the columns of all fields that have at least one value.
    pub fn finish(self) -> Vec<Column> {
        let own = bytes::Bytes::from(self.own);
        let used = |field: &Field| field.cells.iter().any(|cell| cell.is_present());
        let columns = self.list.into_iter().filter(used);
        columns.map(|field| Column::new(field.name, field.cells, own.clone())).collect()
    }
}

/// The cells of several fields.
pub(crate) type Table<'t> = Vec<&'t mut [Cell]>;

/// Borrows the cells of fields. The indices must be distinct. For a field without an index, a
/// column of `unseen` is used.
pub(crate) fn table<'t>(
    fields: &'t mut Fields,
    indices: &[Option<usize>],
    unseen: &'t mut [Vec<Cell>],
) -> Table<'t> {
    let mut list: Vec<Option<&mut [Cell]>> =
        fields.list().iter_mut().map(|field| Some(&mut field.cells[..])).collect();
    let mut unseen = unseen.iter_mut();
    let mut take = |index: &Option<usize>| match index {
        Some(index) => list[*index].take().unwrap_or_default(),
        None => unseen.next().map(|cells| &mut cells[..]).unwrap_or_default(),
    };
    indices.iter().map(&mut take).collect()
}

/// Creates one column per missing index (see [`table`]).
pub(crate) fn unseen(rows: usize, indices: &[Option<usize>]) -> Vec<Vec<Cell>> {
    vec![vec![Cell::ABSENT; rows]; indices.iter().filter(|index| index.is_none()).count()]
}
