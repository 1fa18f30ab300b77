//! Handling of events that a transform cannot process.

use crate::util::excerpt::excerpt;
use millstream_model::{Batch, CellKind, Column, ColumnBuilder, Outputs, Selection};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;

/// Maximum number of bytes of a line that the log shows.
const SHOWN_BYTES_MAX: usize = 200;

/// Name of the side output for rejected events.
pub const REJECTED: &str = "rejected";

/// Name of the field that contains the reason for a rejection.
const REASON: &str = "reason";

/// What happens to an event that a transform cannot process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The event passes through unchanged and is counted.
    #[default]
    Pass,
    /// The event is dropped and counted.
    Drop,
    /// The event goes to the side output `rejected` with a `reason` field, and is counted.
    Reject,
}

impl OnError {
    /// Returns the side outputs of a component with this option.
    pub fn outputs(self) -> Vec<String> {
        if self == OnError::Reject { vec![REJECTED.to_owned()] } else { Vec::new() }
    }
}

/// The rows of a batch that failed.
#[derive(Debug, Default)]
pub struct Failed {
    rows: Vec<(usize, &'static str)>,
    /// Detailed reasons of rows, for the readers of rejected events.
    words: HashMap<usize, String>,
    /// Details about the first failure, for the log.
    detail: Option<String>,
    /// Number of events that were examined; `None` if this is all events of the batch.
    examined: Option<usize>,
}

impl Failed {
    /// Records a failed row and the reason under which it is counted.
    pub fn add(&mut self, row: usize, reason: &'static str) {
        self.rows.push((row, reason));
    }

    /// Records a failed row, the reason under which it is counted, and a detailed reason.
    pub fn add_in_words(&mut self, row: usize, reason: &'static str, words: String) {
        self.add(row, reason);
        self.words.entry(row).or_insert(words);
    }

    /// Sets the details for the log, unless they are already set.
    pub fn explain(&mut self, detail: impl FnOnce() -> String) {
        self.detail.get_or_insert_with(detail);
    }

    /// Sets the number of examined events, for a batch that also contains other events.
    pub fn examined(&mut self, events: usize) {
        self.examined = Some(events);
    }

    /// Returns whether no row failed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the failed rows as a selection in a batch of `rows` rows.
    pub fn selection(&mut self, rows: usize) -> Selection {
        self.tidy();
        let mut failed = self.rows.iter().peekable();
        Selection::collect_bool(rows, |row| failed.next_if(|(failed, _)| *failed == row).is_some())
    }

    /// Sorts the rows, and keeps only the first reason of each row.
    fn tidy(&mut self) {
        if !self.rows.is_sorted_by(|a, b| a.0 < b.0) {
            self.rows.sort_by_key(|(row, _)| *row);
            self.rows.dedup_by_key(|(row, _)| *row);
        }
    }

    /// Sends the batch on, and handles failed rows according to `on_error`.
    pub fn settle(mut self, mut batch: Batch, on_error: OnError, out: &mut Outputs) {
        self.tidy();
        if self.rows.is_empty() {
            return out.send(0, batch);
        }
        out.warning = Some(self.message(&batch));
        for (reason, count) in self.reasons() {
            match on_error {
                OnError::Drop => out.counters.dropped_on_error(reason, count),
                OnError::Pass | OnError::Reject => out.counters.noted(reason, count),
            }
        }
        let failed = self.selection(batch.rows());
        if on_error == OnError::Reject {
            let mut rejected = batch.clone();
            rejected.fields.set(self.reason_column(batch.rows()));
            rejected.select(failed.clone());
            out.rejected = Some(1);
            out.send(1, rejected);
        }
        if on_error != OnError::Pass {
            batch.select(!&failed);
        }
        out.send(0, batch);
    }

    fn reasons(&self) -> Vec<(&'static str, u64)> {
        let mut reasons: Vec<(&'static str, u64)> = Vec::new();
        for (_, reason) in &self.rows {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        reasons
    }

    fn reason_column(&self, rows: usize) -> Column {
        let mut column = ColumnBuilder::new(rows);
        for (reason, _) in self.reasons() {
            let cell = column.push(CellKind::Text, reason.as_bytes());
            self.rows
                .iter()
                .filter(|(_, other)| *other == reason)
                .for_each(|(row, _)| column.set(*row, cell));
        }
        for (row, words) in &self.words {
            let cell = column.push(CellKind::Text, words.as_bytes());
            column.set(*row, cell);
        }
        column.finish(REASON.into())
    }

    /// Describes the failure for the log, with the first failed line.
    fn message(&self, batch: &Batch) -> String {
        let (row, reason) = self.rows[0];
        let reason = self.words.get(&row).map_or(reason, String::as_str);
        let detail = self.detail.as_deref().map_or(String::new(), |detail| format!(": {detail}"));
        format!(
            "{} of {} events: {reason}{detail} {}",
            self.rows.len(),
            self.examined.unwrap_or_else(|| batch.events()),
            shown(batch, row)
        )
    }
}

/// Formats a row for the log: its position and first bytes, without secrets.
pub fn shown(batch: &Batch, row: usize) -> String {
    let segment =
        batch.segments.iter().find(|s| (s.first_row..s.first_row + s.rows).contains(&row));
    let place = segment.map_or(String::new(), |s| {
        let is_named = !s.origin.name.is_empty();
        let name = if is_named { &*s.origin.name } else { &*batch.source.id };
        format!("{name} offset {}", batch.offset(s, row))
    });
    format!("({place}): {:?}", excerpt(batch.text(row), SHOWN_BYTES_MAX))
}
