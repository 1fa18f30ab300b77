//! The input of a parser.

use millstream_columns::Cell;

/// The text of each row, and the rows to parse.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The block that contains most of the text.
    pub block: &'a [u8],
    /// The buffer that contains the text that is not in the block.
    pub own: &'a [u8],
    /// The text of each row.
    pub cells: &'a [Cell],
    /// The rows to parse, as ascending ranges `(first, last + 1)`.
    pub runs: &'a [(usize, usize)],
    /// Time at which the lines were read, in nanoseconds since 1970. It determines the year of
    /// times without a year.
    pub read_ns: i64,
}

impl<'a> Input<'a> {
    /// Returns the text of a cell.
    #[inline(always)]
    pub fn text(&self, cell: Cell) -> &'a [u8] {
        let within = if cell.is_own() { self.own } else { self.block };
        &within[cell.start()..cell.start() + cell.len()]
    }

    /// Returns the selected rows in order: index, cell, text.
    #[inline(always)]
    pub fn rows(&self) -> impl Iterator<Item = (usize, Cell, &'a [u8])> + '_ {
        let rows = self.runs.iter().flat_map(|(begin, end)| *begin..*end);
        rows.map(|row| (row, self.cells[row], self.text(self.cells[row])))
    }
}
