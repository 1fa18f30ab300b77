//! What a call returns.

use bytes::Bytes;
use millstream_columns::Cell;
use std::sync::Arc;
use std::time::Duration;

/// What an operator did to the selected rows of a batch.
#[derive(Debug)]
pub struct Answer {
    /// The columns that were changed or are new. Others are as in the input; in the emitted events
    /// they are absent, but for `message`, which is that of the row for which the event was emitted.
    pub columns: Vec<ChangedColumn>,
    /// The own buffer of all these columns.
    pub buffer: Bytes,
    /// The row for which each event was emitted, ascending.
    pub emitted: Vec<u32>,
    /// The dropped rows, ascending. Events that were emitted for them remain.
    pub dropped: Vec<u32>,
    /// The failed rows, ascending: nothing of them was changed, dropped or emitted.
    pub failed: Vec<RowFailure>,
    /// Duration of the call.
    pub duration: Duration,
}

/// A column that an operator changed or made.
#[derive(Clone, Debug)]
pub struct ChangedColumn {
    /// Which one it is.
    pub place: ColumnPlace,
    /// A cell per row of the input, and then one per emitted event. They refer to the block and to
    /// [`Answer::buffer`], also where the operator changed nothing.
    pub cells: Vec<Cell>,
    /// Of a new column: rows in which the field was removed, ascending. They matter if the field is
    /// among the members without a column.
    pub removed: Vec<u32>,
}

/// The place of a changed column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ColumnPlace {
    /// Index of a column of the input.
    Existing(usize),
    /// The name of a new column, or `timestamp`, which has cells of kind `Time` only.
    New(Arc<str>),
}

/// A row whose rule failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFailure {
    /// The row.
    pub row: u32,
    /// The kind of failure.
    pub reason: FailureReason,
    /// Number of the rule.
    pub rule: u32,
    /// The exception and its message.
    pub message: Arc<str>,
}

/// Why a row failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The rule threw an exception.
    Exception,
    /// The row took longer than its timeout.
    Timeout,
    /// A value has a type that no field can have.
    WrongType,
    /// Java had no memory left.
    OutOfMemory,
    /// The stack was full.
    StackOverflow,
    /// The output exceeds its limit.
    OutputFull,
}
