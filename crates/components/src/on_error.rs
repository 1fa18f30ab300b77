//! What becomes of events that a transform cannot work on.

use millstream_model::{Batch, CellKind, Column, ColumnBuilder, Outputs, Selection};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;

/// Bytes of a line that are shown in the log.
const SHOWN_BYTES_MAX: usize = 200;

/// Name of the side output for events that are refused.
pub const REJECTED: &str = "rejected";

/// The field that says why an event was refused.
const REASON: &str = "reason";

/// What becomes of an event that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It goes on as it came, and is counted.
    #[default]
    Pass,
    /// It is dropped and counted.
    Drop,
    /// It goes to the side output `rejected`, with a field `reason`, and is counted.
    Reject,
}

impl OnError {
    /// Side outputs of a component with this option.
    pub fn outputs(self) -> Vec<String> {
        if self == OnError::Reject { vec![REJECTED.to_owned()] } else { Vec::new() }
    }
}

/// The rows of a batch that do not fit.
#[derive(Debug, Default)]
pub struct Failed {
    rows: Vec<(usize, &'static str)>,
    /// More about the reasons of rows, for who reads their events.
    words: HashMap<usize, String>,
    /// What is wrong with the first, in words.
    detail: Option<String>,
}

impl Failed {
    /// Notes a row, and why it does not fit, as it is counted.
    pub fn add(&mut self, row: usize, reason: &'static str) {
        self.rows.push((row, reason));
    }

    /// Notes a row, why it does not fit, as it is counted, and in more words.
    pub fn add_in_words(&mut self, row: usize, reason: &'static str, words: String) {
        self.add(row, reason);
        self.words.entry(row).or_insert(words);
    }

    /// Says in words what is wrong, if nothing was said yet.
    pub fn explain(&mut self, detail: impl FnOnce() -> String) {
        self.detail.get_or_insert_with(detail);
    }

    /// Whether all rows fit.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows that do not fit, of `rows`.
    pub fn selection(&mut self, rows: usize) -> Selection {
        self.tidy();
        let mut failed = self.rows.iter().peekable();
        Selection::collect_bool(rows, |row| failed.next_if(|(failed, _)| *failed == row).is_some())
    }

    /// In rising order, and each row once, with the reason that was noted first.
    fn tidy(&mut self) {
        if !self.rows.is_sorted_by(|a, b| a.0 < b.0) {
            self.rows.sort_by_key(|(row, _)| *row);
            self.rows.dedup_by_key(|(row, _)| *row);
        }
    }

    /// Sends the batch on, and the rows that do not fit as `on_error` says.
    pub fn settle(mut self, mut batch: Batch, on_error: OnError, out: &mut Outputs) {
        self.tidy();
        if self.rows.is_empty() {
            return out.send(0, batch);
        }
        out.warning = Some(self.message(&batch));
        for (reason, count) in self.reasons() {
            match on_error {
                OnError::Drop => out.counters.dropped(reason, count),
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
            match reasons.iter_mut().find(|(of, _)| of == reason) {
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
                .filter(|(_, of)| *of == reason)
                .for_each(|(row, _)| column.set(*row, cell));
        }
        for (row, words) in &self.words {
            let cell = column.push(CellKind::Text, words.as_bytes());
            column.set(*row, cell);
        }
        column.finish(REASON.into())
    }

    /// Says what is wrong, and shows the first line.
    fn message(&self, batch: &Batch) -> String {
        let (row, reason) = self.rows[0];
        let reason = self.words.get(&row).map_or(reason, String::as_str);
        let detail = self.detail.as_deref().map_or(String::new(), |detail| format!(": {detail}"));
        format!(
            "{} of {} events: {reason}{detail} {}",
            self.rows.len(),
            batch.events(),
            shown(batch, row)
        )
    }
}

/// A row as the log shows it: where it stands, and its first bytes.
pub fn shown(batch: &Batch, row: usize) -> String {
    let segment =
        batch.segments.iter().find(|s| (s.first_row..s.first_row + s.rows).contains(&row));
    let place = segment
        .map_or(String::new(), |s| format!("{} offset {}", s.origin.name, batch.offset(s, row)));
    let text = batch.text(row);
    let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES_MAX)]);
    format!("({place}): {shown:?}")
}
