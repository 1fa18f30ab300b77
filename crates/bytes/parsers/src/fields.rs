//! What was found in lines.

use millstream_columns::{BLOCK_BYTES_MAX, COLUMNS_MAX, Cell, Column, Kind, VALUE_BYTES_MAX};
use std::sync::Arc;

/// Bytes that the cells of one batch may take: short rows with many names must not fill the memory.
const CELL_BYTES_MAX: usize = 4 << 20;

/// Why a line does not fit, as it is counted: a word such as `not_json`.
pub type Reason = &'static str;

/// A row that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub row: usize,
    /// Why.
    pub reason: Reason,
    /// From which byte of its text on.
    pub at: usize,
}

/// A field that was found.
#[derive(Debug)]
pub struct Field {
    /// What it is called.
    pub name: Arc<str>,
    /// A cell per row.
    pub cells: Vec<Cell>,
}

/// The fields of all rows. All share one buffer for what does not lie in the block.
#[derive(Debug, Default)]
pub struct Fields {
    rows: usize,
    list: Vec<Field>,
    own: Vec<u8>,
    failures: Vec<Failure>,
    bad_types: Vec<usize>,
    /// Names that came twice in a row; the last value counts.
    pub duplicates: u64,
}

impl Fields {
    /// No fields of `rows` rows. `own` is the buffer of the column that is parsed: cells that
    /// lie in it stay valid.
    pub fn new(rows: usize, own: &[u8]) -> Fields {
        Fields { rows, own: own.to_vec(), ..Fields::default() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Index of the field of this name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.list.iter().position(|field| field.name.as_bytes() == name)
    }

    /// Index of a field that a configuration names: it is there however many there are.
    pub fn named(&mut self, name: &Arc<str>) -> usize {
        self.find(name.as_bytes()).unwrap_or_else(|| self.add(name.clone()))
    }

    /// Index of a field that a line names; `None` if there is no room for one more, or it is no
    /// UTF-8. `hint` is where it is looked for first: lines that follow each other mostly look
    /// alike.
    #[inline]
    pub fn seen(&mut self, name: &[u8], hint: usize) -> Option<usize> {
        match self.list.get(hint) {
            Some(field) if field.name.as_bytes() == name => Some(hint),
            _ => self.find(name).or_else(|| self.admit(name)),
        }
    }

    #[cold]
    fn admit(&mut self, name: &[u8]) -> Option<usize> {
        let more = self.list.len() + 1;
        let fits = more <= COLUMNS_MAX && more * self.rows * size_of::<Cell>() <= CELL_BYTES_MAX;
        let name = std::str::from_utf8(name).ok().filter(|_| fits || self.list.is_empty())?;
        Some(self.add(name.into()))
    }

    fn add(&mut self, name: Arc<str>) -> usize {
        self.list.push(Field { name, cells: vec![Cell::ABSENT; self.rows] });
        self.list.len() - 1
    }

    /// The fields.
    pub fn list(&mut self) -> &mut [Field] {
        &mut self.list
    }

    /// The cells of several fields at once.
    ///
    /// # Panics
    /// If an index is out of range or there twice.
    pub fn cells<const N: usize>(&mut self, indices: [usize; N]) -> [&mut [Cell]; N] {
        let fields = self.list.get_disjoint_mut(indices).expect("different fields");
        fields.map(|field| &mut field.cells[..])
    }

    /// Puts a value into a row.
    #[inline(always)]
    pub fn set(&mut self, field: usize, row: usize, cell: Cell) {
        self.list[field].cells[row] = cell;
    }

    /// The value of a row.
    #[inline(always)]
    pub fn get(&self, field: usize, row: usize) -> Cell {
        self.list[field].cells[row]
    }

    /// Keeps bytes that do not lie in the line; a cell for them, or none if there is no room.
    pub fn push(&mut self, kind: Kind, bytes: &[u8]) -> Cell {
        let start = self.own.len();
        let len = bytes.len().min(VALUE_BYTES_MAX);
        if start + len >= BLOCK_BYTES_MAX {
            return Cell::ABSENT;
        }
        self.own.extend_from_slice(&bytes[..len]);
        Cell::own(kind, start, len)
    }

    /// The buffer for what does not lie in the line.
    pub fn own(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// The bytes of a cell of these fields.
    #[inline(always)]
    pub fn bytes<'a>(&'a self, block: &'a [u8], cell: Cell) -> &'a [u8] {
        let within = if cell.is_own() { &self.own[..] } else { block };
        &within[cell.start()..cell.start() + cell.len()]
    }

    /// Notes that a row does not fit from byte `at` of its text on, and takes back what was found
    /// in it.
    #[cold]
    pub fn fail(&mut self, row: usize, reason: Reason, at: usize) {
        self.list.iter_mut().for_each(|field| field.cells[row] = Cell::ABSENT);
        self.bad_types.retain(|bad| *bad != row);
        self.failures.push(Failure { row, reason, at });
    }

    /// Notes that a value of a row is not of the type it should be; a cell to take its place.
    #[cold]
    pub fn bad_type(&mut self, row: usize) -> Cell {
        self.bad_types.push(row);
        Cell::constant(Kind::Null)
    }

    /// The rows with such values.
    pub fn bad_types(&self) -> &[usize] {
        &self.bad_types
    }

    /// Takes them.
    pub fn take_bad_types(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.bad_types)
    }

    /// The rows that do not fit, in the order they were noted.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Takes the rows that do not fit, for another parser to try.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.failures)
    }

    /// The columns of fields that have a value in some row.
    pub fn finish(self) -> Vec<Column> {
        let own = bytes::Bytes::from(self.own);
        let used = |field: &Field| field.cells.iter().any(|cell| cell.is_present());
        let columns = self.list.into_iter().filter(used);
        columns.map(|field| Column::new(field.name, field.cells, own.clone())).collect()
    }
}

/// The cells of some fields.
pub(crate) type Table<'t> = Vec<&'t mut [Cell]>;

/// The cells of fields, each of which is there once. Where there is no index they are some of
/// `unseen`.
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

/// Cells for each index that is not there, see [`table`].
pub(crate) fn unseen(rows: usize, indices: &[Option<usize>]) -> Vec<Vec<Cell>> {
    vec![vec![Cell::ABSENT; rows]; indices.iter().filter(|index| index.is_none()).count()]
}
