//! Finds the rows that contain a string, with one search over the block instead of one search per
//! row.

use crate::verdict::{FALSE, MISSING, TRUE, Verdict};
use memchr::memmem::Finder;
use millstream_columns::{Cell, ColumnView, Kind, Value};

/// A string to search for.
pub struct Search(pub Finder<'static>);

impl std::fmt::Debug for Search {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", String::from_utf8_lossy(self.0.needle()))
    }
}

/// Searches the block from the first to the last selected cell. Returns false if one search per
/// cell would be faster, because the string is empty, or because the cells are not in block order
/// or cover less than half of the searched span. In that case, the verdicts in `out` are invalid.
/// `of_cell` evaluates cells that are not plain strings in the block.
pub fn contains(
    search: &Search,
    block: &[u8],
    column: ColumnView<'_>,
    runs: &[(usize, usize)],
    out: &mut [Verdict],
    of_cell: impl Fn(Value<'_>) -> Verdict,
) -> bool {
    if search.0.needle().is_empty() {
        return false;
    }
    let Some(span) = prepare(block, column, runs, out, of_cell) else { return false };
    let mut rows = runs.iter().flat_map(|(start, end)| *start..*end);
    let mut from = span.0;
    while let Some(hit) = search.0.find(&block[from..span.1]).map(|at| at + from) {
        let ends_after_hit = |row: &usize| {
            let cell = column.cells()[*row];
            is_plain(cell) && cell.start() + cell.len() > hit
        };
        let Some(row) = rows.find(ends_after_hit) else { break };
        let cell = column.cells()[row];
        let end = cell.start() + cell.len();
        from = next_start(search, block, hit, cell.start(), end, &mut out[row]);
    }
    true
}

/// Sets the verdict of the row whose cell is the first to end after a hit. Returns the position at
/// which to continue the search.
fn next_start(
    search: &Search,
    block: &[u8],
    hit: usize,
    start: usize,
    end: usize,
    out: &mut Verdict,
) -> usize {
    // The hit can be before the cell or extend past its end. In that case, the cell is searched
    // separately.
    let is_inside = hit >= start && hit + search.0.needle().len() <= end;
    *out = if is_inside || search.0.find(&block[start..end]).is_some() { TRUE } else { FALSE };
    end
}

#[inline(always)]
fn is_plain(cell: Cell) -> bool {
    cell.kind() == Kind::Text && !cell.is_own()
}

/// Evaluates the cells that are not plain strings, and sets the verdicts of all other cells to
/// [`FALSE`]. Returns the span of the plain cells if they are in block order and cover at least
/// half of the span.
fn prepare(
    block: &[u8],
    column: ColumnView<'_>,
    runs: &[(usize, usize)],
    out: &mut [Verdict],
    of_cell: impl Fn(Value<'_>) -> Verdict,
) -> Option<(usize, usize)> {
    let (mut first, mut last, mut bytes, mut is_ascending) = (usize::MAX, 0, 0, true);
    for (start, end) in runs {
        for (at, (cell, verdict)) in
            column.cells()[*start..*end].iter().zip(&mut out[*start..*end]).enumerate()
        {
            if !is_plain(*cell) {
                *verdict = match column.value(block, start + at) {
                    Value::Absent => MISSING,
                    value => of_cell(value),
                };
                continue;
            }
            *verdict = FALSE;
            is_ascending &= cell.start() >= last;
            last = cell.start() + cell.len();
            first = first.min(cell.start());
            bytes += cell.len();
        }
    }
    (is_ascending && first < last && bytes * 2 >= last - first).then_some((first, last))
}
