//! The result of an operator call.

use bytes::Bytes;
use millstream_columns::Cell;
use std::sync::Arc;
use std::time::Duration;

/// The changes that an operator made to the selected rows of a batch.
#[derive(Debug)]
pub struct Answer {
    /// Columns that are changed or new. All other columns are the same as in the input. In emitted
    /// events, columns that are not in this list are absent, except `message`, which is copied from
    /// the row for which the event was emitted.
    pub columns: Vec<ChangedColumn>,
    /// Buffer with the values of these columns that are not in the block.
    pub buffer: Bytes,
    /// For each emitted event, the row for which it was emitted; ascending.
    pub emitted: Vec<u32>,
    /// Dropped rows, ascending. Events that were emitted for a dropped row remain.
    pub dropped: Vec<u32>,
    /// Failed rows, ascending. A failed row is neither changed nor dropped, and no events were
    /// emitted for it.
    pub failed: Vec<RowFailure>,
    /// Duration of the call.
    pub duration: Duration,
}

/// A column that an operator changed or created.
#[derive(Clone, Debug)]
pub struct ChangedColumn {
    /// The column's place in the input or in its fields.
    pub place: ColumnPlace,
    /// One cell per row of the input, followed by one cell per emitted event. The cells refer to
    /// the block and to [`Answer::buffer`], including cells that the operator did not change.
    pub cells: Vec<Cell>,
    /// For a new column: rows in which the field was removed, ascending. These rows are needed if
    /// the field was among the members without a column.
    pub removed: Vec<u32>,
}

/// The place of a changed column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ColumnPlace {
    /// Index of a column in the input.
    Existing(usize),
    /// Name of a new column. The name `timestamp` means the event time; all its cells are of kind
    /// `Time`.
    New(Arc<str>),
}

/// A row for which a rule failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFailure {
    /// Index of the row.
    pub row: u32,
    /// The kind of failure.
    pub reason: FailureReason,
    /// Index of the rule.
    pub rule: u32,
    /// Text of the exception: its class and message.
    pub message: Arc<str>,
}

/// The reason why a row failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The rule threw an exception.
    Exception,
    /// The row exceeded its time limit.
    Timeout,
    /// A value has a type that no field can have.
    WrongType,
    /// Java ran out of memory.
    OutOfMemory,
    /// The stack overflowed.
    StackOverflow,
    /// The output exceeded its limit.
    OutputFull,
}
