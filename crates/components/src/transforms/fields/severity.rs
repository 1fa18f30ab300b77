//! The `severity` step: normalizes levels of different sources to one scale.

use super::{Noted, Step, column, put, rows};
use millstream_model::{Batch, Cell, CellKind, Column, ColumnBuilder};
use millstream_parsers::{Severity, SeverityScale};
use std::sync::Arc;

/// Fields that usually contain a level, in the order in which they are read.
pub const FIELDS: [&str; 9] = [
    "level",
    "severity",
    "severity_text",
    "log.level",
    "loglevel",
    "levelname",
    "lvl",
    "priority",
    "PRIORITY",
];

/// Sets the name of the level and the number of the severity.
pub struct Normalize {
    /// Fields to read; the first field with a value counts.
    pub fields: Vec<String>,
    pub scale: SeverityScale,
    /// Field for the name of the level.
    pub level: Arc<str>,
    /// Field for the number. An event that already has a number keeps it.
    pub number: Arc<str>,
}

impl Step for Normalize {
    fn apply(&self, batch: &mut Batch, noted: &mut Noted) {
        let numbers = column(batch, &self.number);
        let sources: Vec<Column> =
            self.fields.iter().filter_map(|name| column(batch, name)).collect();
        if numbers.is_none() && sources.is_empty() {
            return;
        }
        let mut made = Made::new(batch.rows());
        let mut unknown = 0;
        for row in rows(batch) {
            let known = numbers.as_ref().and_then(|column| {
                read(batch, column, row, SeverityScale::Otel).and_then(Result::ok)
            });
            let found = known
                .map(Ok)
                .or_else(|| sources.iter().find_map(|column| read(batch, column, row, self.scale)));
            match found {
                Some(Ok(severity)) => made.set(row, severity),
                Some(Err(Unknown)) => unknown += 1,
                None => {}
            }
        }
        noted.counters.noted("unknown_severity", unknown);
        if made.is_empty() {
            return;
        }
        put(batch, made.levels.finish(self.level.clone()));
        put(batch, made.numbers.finish(self.number.clone()));
    }
}

/// The value is not a known severity.
struct Unknown;

/// Reads the severity in a row of a column. Returns `None` if the row has no value.
fn read(
    batch: &Batch,
    column: &Column,
    row: usize,
    scale: SeverityScale,
) -> Option<Result<Severity, Unknown>> {
    let text = batch.value(column, row).plain()?;
    Some(Severity::parse(&text, scale).ok_or(Unknown))
}

/// The new columns. Each value is stored once for all rows.
struct Made {
    levels: ColumnBuilder,
    numbers: ColumnBuilder,
    /// Cells of the level and the number, by number.
    cells: [Option<(Cell, Cell)>; Severity::COUNT],
}

impl Made {
    fn new(rows: usize) -> Made {
        Made {
            levels: ColumnBuilder::new(rows),
            numbers: ColumnBuilder::new(rows),
            cells: [None; Severity::COUNT],
        }
    }

    fn set(&mut self, row: usize, severity: Severity) {
        let (level, number) =
            *self.cells[usize::from(severity.number())].get_or_insert_with(|| {
                let level = self.levels.push(CellKind::Text, severity.level().as_bytes());
                (level, self.numbers.int(severity.number().into()))
            });
        self.levels.set(row, level);
        self.numbers.set(row, number);
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(Option::is_none)
    }
}
