//! The lines that a tap shows for a sample: the events that its condition selects, redacted.

use super::escape::{cut_note, push_json, push_text};
use millstream_components::codec::Encoding;
use millstream_components::util::condition::Condition;
use millstream_console::TapFormat;
use millstream_model::{
    Batch, BlockPool, CellKind, Counters, EncodeCx, Encoder, EventSample, Grant, Map, Outputs,
    Payload, VALUE_BYTES_MAX, char_boundary,
};
use std::sync::Arc;

/// Number of bytes that are omitted at the end of a truncated message, because a secret that
/// crosses the end is not found. The margin is longer than tokens and keys.
const CUT_MARGIN_BYTES: usize = 8 << 10;

/// The beginning of a JSON line about the tap itself.
pub const NOTE: &str = "{\"tap\":";

/// Turns samples into lines.
pub struct View {
    redactions: Vec<Box<dyn Map>>,
    condition: Option<Condition>,
    format: TapFormat,
    encoder: Box<dyn Encoder>,
    pool: Arc<BlockPool>,
    grant: Arc<Grant>,
    counters: Arc<Counters>,
}

/// The lines of a sample.
#[derive(Default)]
pub struct Shown {
    /// Lines, one per event.
    pub lines: Vec<u8>,
    /// Number of events.
    pub events: u64,
    /// Reason why the condition has no result for some events.
    pub warning: Option<String>,
}

impl View {
    /// Creates a view that applies these redactions.
    pub fn new(
        redactions: Vec<Box<dyn Map>>,
        condition: Option<Condition>,
        format: TapFormat,
    ) -> View {
        View {
            redactions,
            condition,
            format,
            encoder: Encoding::default().encoder(),
            // Samples are small, so their memory is not counted.
            pool: BlockPool::new(),
            grant: Grant::new(u64::MAX),
            counters: Arc::default(),
        }
    }

    /// Returns the lines for at most `limit` events from several samples.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`View::show`].
    pub fn show_all(&mut self, samples: Vec<EventSample>, limit: u64) -> Result<Shown, String> {
        let mut all = Shown::default();
        for sample in samples {
            if all.events == limit {
                break;
            }
            let Shown { mut lines, events, warning } = self.show(sample, limit - all.events)?;
            all.lines.append(&mut lines);
            all.events += events;
            all.warning = all.warning.or(warning);
        }
        Ok(all)
    }

    /// Selects the events that satisfy the condition. Returns the reason why the condition has no
    /// result for some events.
    fn select(&self, batch: &mut Batch) -> Option<String> {
        let mut out = Outputs { counters: self.counters.clone(), ..Outputs::default() };
        let kept = self.condition.as_ref()?.holds(batch, &mut out);
        batch.select(kept);
        out.warning
    }

    /// Returns the row and the line of the first event that satisfies the condition, if any.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`View::show`].
    pub fn first(&mut self, sample: EventSample) -> Result<(Option<usize>, Shown), String> {
        let mut batch = sample.batch.clone();
        let warning = self.select(&mut batch);
        let first = (0..batch.rows()).find(|row| batch.is_selected(*row));
        let Some(row) = first else { return Ok((None, Shown { warning, ..Shown::default() })) };
        let EventSample { mut batch, cut, bytes } = sample;
        batch.select_range(row, row + 1);
        let shown = self.show(EventSample { batch, cut, bytes }, 1)?;
        Ok((Some(row), Shown { warning, ..shown }))
    }

    /// Returns the lines of at most `limit` events.
    ///
    /// # Errors
    ///
    /// Returns an error if the events cannot be redacted or encoded. In this case, no event is
    /// shown.
    pub fn show(&mut self, sample: EventSample, limit: u64) -> Result<Shown, String> {
        let EventSample { mut batch, cut, .. } = sample;
        let warning = self.select(&mut batch);
        let after = (0..batch.rows()).filter(|row| batch.is_selected(*row)).nth(limit as usize);
        batch.select_range(0, after.unwrap_or(batch.rows()));
        let events = batch.events() as u64;
        if events == 0 {
            return Ok(Shown { warning, ..Shown::default() });
        }
        let batch = self.redacted(batch)?;
        let lines = match self.format {
            TapFormat::Json => self.json(batch, &cut)?,
            TapFormat::Text => text(&batch, &cut),
        };
        Ok(Shown { lines, events, warning })
    }

    fn redacted(&mut self, mut batch: Batch) -> Result<Batch, String> {
        for redaction in &mut self.redactions {
            let mut out = Outputs { counters: self.counters.clone(), ..Outputs::default() };
            redaction.apply(batch, &mut out).map_err(|error| error.to_string())?;
            let made = out.batches.pop().ok_or("the redaction produced no events")?;
            batch = made.1;
        }
        Ok(batch)
    }

    fn json(&mut self, batch: Batch, cut: &[u64]) -> Result<Vec<u8>, String> {
        let batch = with_cuts(batch, cut);
        let mut permit = self.grant.try_take(0).ok_or("out of memory")?;
        let mut payload = Payload::new(0);
        let mut cx = EncodeCx {
            pool: &self.pool,
            permit: &mut permit,
            counters: &self.counters,
            refused: None,
        };
        let encoded = self.encoder.encode(&batch, &mut payload, &mut cx);
        encoded.map_err(|error| error.to_string())?;
        let (encoded, mut lines) = (payload.parts.concat(), Vec::new());
        for line in encoded.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match line.strip_prefix(b"{") {
                // An event whose first member has the name of a note must not look like a note.
                Some(rest) if line.starts_with(NOTE.as_bytes()) => {
                    lines.extend_from_slice(b"{ ");
                    push_json(rest, &mut lines);
                }
                _ => push_json(line, &mut lines),
            }
            lines.push(b'\n');
        }
        Ok(lines)
    }
}

/// Returns the shown part of a message that lacks `cut` bytes, and the total number of missing
/// bytes.
fn shortened(message: &[u8], cut: u64) -> (&[u8], u64) {
    if cut == 0 {
        return (message, 0);
    }
    // Redactions may have made the message shorter.
    let len =
        message.len().saturating_sub(CUT_MARGIN_BYTES).min(VALUE_BYTES_MAX - CUT_MARGIN_BYTES);
    let len = char_boundary(message, len);
    (&message[..len], cut + (message.len() - len) as u64)
}

fn text(batch: &Batch, cut: &[u64]) -> Vec<u8> {
    let mut lines = Vec::new();
    for row in (0..batch.rows()).filter(|row| batch.is_selected(*row)) {
        let (message, more) = shortened(batch.text(row), cut[row]);
        push_text(message, more, &mut lines);
        lines.push(b'\n');
    }
    lines
}

/// Adds the number of missing bytes to each cut message.
fn with_cuts(mut batch: Batch, cut: &[u64]) -> Batch {
    if cut.iter().all(|cut| *cut == 0) {
        return batch;
    }
    let mut edit = batch.message.edit();
    for (row, cut) in cut.iter().enumerate().filter(|(_, cut)| **cut > 0) {
        let (message, more) = shortened(batch.text(row), *cut);
        let shown = edit.push(CellKind::Text, &[message, cut_note(more).as_bytes()].concat());
        edit.set(row, shown);
    }
    batch.message = edit.finish(batch.message.name.clone());
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_cut_message_is_not_shown_though_redactions_have_shortened_it() {
        let message = vec![b'a'; VALUE_BYTES_MAX];
        let shown = |len: usize| {
            let (shown, more) = shortened(&message[..len], 100);
            (shown.len(), more)
        };
        assert_eq!(shown(VALUE_BYTES_MAX), (56 << 10, 100 + (8 << 10)));
        assert_eq!(shown(40 << 10), (32 << 10, 100 + (8 << 10)));
        assert_eq!(shown(1000), (0, 1100));
        assert_eq!(shortened(&message, 0), (&message[..], 0));
    }
}
