//! Transform `parse`: what a line says of itself. Today that is its time.

mod config;

pub use config::{LineFormat, OnError, ParseConfig, TimeConfig};

use millstream_framing::{TimeReader, Unread};
use millstream_model::{Batch, ComponentError, Map, Outputs, Selection, TIME_UNKNOWN};

/// Bytes of a line that are shown in the log.
const SHOWN_BYTES_MAX: usize = 200;

/// The transform.
struct Parse {
    time: TimeReader,
    on_error: OnError,
}

/// The lines of a batch that have no time.
#[derive(Default)]
struct Failed {
    rows: Vec<usize>,
    first: Option<Unread>,
}

impl Parse {
    /// The times of the selected rows. A row that fails keeps what an earlier transform found.
    fn times(&mut self, batch: &Batch, failed: &mut Failed) -> Vec<i64> {
        let mut times = match &batch.time {
            Some(times) => times.to_vec(),
            None => vec![TIME_UNKNOWN; batch.rows()],
        };
        for (begin, end) in batch.runs(0, batch.rows()) {
            for (row, time) in (begin..end).zip(&mut times[begin..end]) {
                match self.time.time(batch.text(row), batch.read_ns) {
                    Ok(ns) => *time = ns,
                    Err(why) => {
                        failed.rows.push(row);
                        failed.first.get_or_insert(why);
                    }
                }
            }
        }
        times
    }
}

impl Failed {
    /// Says what was wrong with the first of them.
    fn message(&self, batch: &Batch) -> Option<String> {
        let (row, why) = (*self.rows.first()?, self.first.as_ref()?);
        let segment = batch.segments.iter().find(|s| (s.first_row..s.first_row + s.rows).contains(&row));
        let place =
            segment.map_or(String::new(), |s| format!("{} offset {}", s.origin.name, batch.offset(s, row)));
        let text = batch.text(row);
        let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES_MAX)]);
        Some(format!(
            "no time in {} of {} events: {why} ({place}): {shown:?}",
            self.rows.len(),
            batch.events()
        ))
    }

    /// The rows that have not failed.
    fn others(&self, rows: usize) -> Selection {
        let mut failed = self.rows.iter().peekable();
        Selection::collect_bool(rows, |row| failed.next_if(|failed| **failed == row).is_none())
    }
}

impl Map for Parse {
    fn apply(&mut self, mut batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let mut failed = Failed::default();
        let times = self.times(&batch, &mut failed);
        let count = failed.rows.len();
        for segment in batch.segments.iter() {
            let rows = segment.first_row..segment.first_row + segment.rows;
            segment.origin.state.saw_times(segment.ack.range(), &times[rows]);
        }
        // Without one time, rows need not be looked at one by one behind here.
        if count < batch.events() {
            batch.time = Some(times.into());
        }
        if let Some(message) = failed.message(&batch) {
            out.warning = Some(message);
            match self.on_error {
                OnError::Pass => out.counters.noted("bad_time", count as u64),
                OnError::Drop => {
                    out.counters.dropped("bad_time", count as u64);
                    batch.select(failed.others(batch.rows()));
                }
            }
        }
        out.send(0, batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
