//! What is to be parsed.

use millstream_columns::Cell;

/// Texts to be parsed: one per row, of which some are chosen.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The block most texts lie in.
    pub block: &'a [u8],
    /// The buffer the others lie in.
    pub own: &'a [u8],
    /// Where each row's text lies.
    pub cells: &'a [Cell],
    /// The rows to parse, as runs `(first, after last)`, ascending.
    pub runs: &'a [(usize, usize)],
    /// When the texts were read, in nanoseconds since 1970: for times without a year.
    pub read_ns: i64,
}

impl<'a> Input<'a> {
    /// The text of a cell.
    #[inline(always)]
    pub fn text(&self, cell: Cell) -> &'a [u8] {
        let within = if cell.is_own() { self.own } else { self.block };
        &within[cell.start()..cell.start() + cell.len()]
    }

    /// The chosen rows in order: index, cell, text.
    #[inline(always)]
    pub fn rows(&self) -> impl Iterator<Item = (usize, Cell, &'a [u8])> + '_ {
        let rows = self.runs.iter().flat_map(|(begin, end)| *begin..*end);
        rows.map(|row| (row, self.cells[row], self.text(self.cells[row])))
    }
}
