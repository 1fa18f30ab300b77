//! The input of an operator call.

use crate::error::CallError;
use crate::layout;
use millstream_columns::Cell;
use std::time::Duration;

/// Events for an operator. All parts must describe one batch: [`crate::Operator::call`] verifies
/// that before it passes addresses to Java.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The text to which cells refer.
    pub block: &'a [u8],
    /// Number of rows, selected or not.
    pub rows: usize,
    /// The rows to transform, ascending.
    pub selected: &'a [u32],
    /// The columns, starting with `message`.
    pub columns: &'a [InputColumn<'a>],
    /// Time of each row in nanoseconds since 1970, or [`crate::TIME_UNKNOWN`] for a row without a
    /// time; `None` if no row has a time.
    pub times: Option<&'a [i64]>,
    /// Time at which the rows were read, in nanoseconds since 1970.
    pub read_ns: i64,
    /// Runs of rows from one source, in ascending order, with the source's attributes and `meta`
    /// fields.
    pub segments: &'a [InputSegment<'a>],
    /// Maximum total size, in bytes, of the values in an answer.
    pub output_bytes_max: usize,
    /// Maximum time for a call to a JVM in a separate process. The process is killed after this
    /// time. The JVM inside the agent ignores the limit.
    pub deadline: Option<Duration>,
}

/// A column of an [`Input`].
#[derive(Clone, Copy, Debug)]
pub struct InputColumn<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// One cell per row.
    pub cells: &'a [Cell],
    /// Buffer for the values that are not in the block.
    pub own: &'a [u8],
}

/// Consecutive rows from one source.
#[derive(Clone, Copy, Debug)]
pub struct InputSegment<'a> {
    /// Index of the first row.
    pub first_row: usize,
    /// Number of rows.
    pub rows: usize,
    /// Names and values that all rows share.
    pub constants: &'a [(&'a str, &'a str)],
}

/// Number of columns for which an answer has space in addition to the input's columns.
const NEW_COLUMNS: usize = 64;

impl Input<'_> {
    /// Returns the maximum size of an answer in bytes: its values, and the cells of its columns.
    pub(crate) fn answer_bytes_max(&self) -> usize {
        let columns = self.columns.len() + NEW_COLUMNS;
        let cells = columns * self.rows * size_of::<Cell>();
        self.output_bytes_max.saturating_add(cells).min(layout::OUT_BYTES_MAX as usize)
    }

    /// Checks that all rows and cells are within their limits, because Java reads this memory by
    /// address.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        let is_ascending = self.selected.is_sorted_by(|a, b| a < b);
        let is_within = self.selected.last().is_none_or(|last| (*last as usize) < self.rows);
        let has_message = self.columns.first().is_some_and(|column| column.name == "message");
        let is_segment = |segment: &InputSegment<'_>| {
            segment.first_row.checked_add(segment.rows).is_some_and(|end| end <= self.rows)
        };
        for (is_right, fault) in [
            (is_ascending && is_within, "selected rows must be ascending and exist"),
            (has_message, "the first column must be `message`"),
            (self.times.is_none_or(|times| times.len() == self.rows), "one time per row is needed"),
            (self.segments.iter().all(is_segment), "a segment contains rows that do not exist"),
            (self.columns.iter().all(|column| self.is_complete(column)), "a cell is out of bounds"),
        ] {
            if !is_right {
                return Err(CallError::Input(fault));
            }
        }
        Ok(())
    }

    /// Returns whether a column has one cell per row, each within its buffer. The loop has no
    /// branches, so that the CPU can check two cells at a time. All cells are checked, even in
    /// columns that the operator does not use.
    fn is_complete(&self, column: &InputColumn<'_>) -> bool {
        let (block, own) = (self.block.len() as i64, column.own.len() as i64);
        // Becomes negative if, for any cell, the distance from the end of its value to the limit is
        // negative.
        let mut distances = 0;
        for cell in column.cells {
            let is_own = i64::from(cell.is_own()).wrapping_neg();
            let limit = block ^ ((block ^ own) & is_own);
            distances |= limit - (cell.start() + cell.len()) as i64;
        }
        column.cells.len() == self.rows && distances >= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_columns::Kind;

    #[test]
    fn an_input_that_contradicts_itself_is_refused() {
        let cells = [Cell::new(Kind::Text, 0, 4), Cell::own(Kind::Text, 0, 3)];
        let columns = [InputColumn { name: "message", cells: &cells, own: b"own" }];
        let segments = [InputSegment { first_row: 0, rows: 2, constants: &[] }];
        let right = Input {
            block: b"text",
            rows: 2,
            selected: &[0, 1],
            columns: &columns,
            times: Some(&[1, 2]),
            read_ns: 0,
            segments: &segments,
            output_bytes_max: 1 << 20,
            deadline: None,
        };
        assert_eq!(right.check(), Ok(()));
        let long = [InputSegment { first_row: 1, rows: usize::MAX, constants: &[] }];
        let renamed = [InputColumn { name: "other", ..columns[0] }];
        let short = [InputColumn { own: b"ow", ..columns[0] }];
        for wrong in [
            Input { block: b"tex", ..right },
            Input { rows: 3, ..right },
            Input { selected: &[1, 1], ..right },
            Input { selected: &[1, 0], ..right },
            Input { selected: &[2], ..right },
            Input { times: Some(&[1]), ..right },
            Input { segments: &long, ..right },
            Input { columns: &renamed, ..right },
            Input { columns: &[], ..right },
            Input { columns: &short, ..right },
        ] {
            assert!(matches!(wrong.check(), Err(CallError::Input(_))), "{wrong:?}");
        }
    }
}
