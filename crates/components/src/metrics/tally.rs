//! What one receiver has to count, added to the component's counters once a round.

use millstream_model::Counters;
use millstream_points::{Fault, Note};
use std::sync::Arc;

/// How often something that was left out is shown in the log, for each reason, in nanoseconds. By the wall
/// clock, which is at hand: whichever way it steps, what comes after is shown.
const SHOW_EVERY_NS: u64 = 1_000_000_000;

/// Bytes of it that are shown.
const SHOWN_BYTES: usize = 100;

/// Counts of one round.
pub struct Tally {
    source: String,
    counters: Arc<Counters>,
    /// Points, events and service checks.
    pub points: u64,
    /// Events and service checks for which there was no room.
    pub notices_lost: u64,
    faults: [u64; Fault::ALL.len()],
    notes: [u64; Note::ALL.len()],
    /// Whether one of `faults` or `notes` is not zero.
    has_some: bool,
    /// Faults of the round to be shown.
    shown: Vec<(Fault, String)>,
    /// By fault, the arrival of the one that was shown last.
    shown_at: [Option<u64>; Fault::ALL.len()],
    arrived: u64,
}

impl Tally {
    /// Nothing yet; `source` is the component's id.
    pub fn new(source: String, counters: Arc<Counters>) -> Tally {
        Tally {
            source,
            counters,
            points: 0,
            notices_lost: 0,
            faults: [0; Fault::ALL.len()],
            notes: [0; Note::ALL.len()],
            has_some: false,
            shown: Vec::new(),
            shown_at: [None; Fault::ALL.len()],
            arrived: 0,
        }
    }

    /// Counts what was left out.
    pub fn fault(&mut self, fault: Fault, text: &[u8]) {
        self.points += 1;
        self.faults[fault as usize] += 1;
        self.has_some = true;
        let shown_at = &mut self.shown_at[fault as usize];
        if shown_at.is_none_or(|at| self.arrived.abs_diff(at) >= SHOW_EVERY_NS) {
            *shown_at = Some(self.arrived);
            let start = &text[..text.len().min(SHOWN_BYTES)];
            self.shown.push((fault, start.escape_ascii().to_string()));
        }
    }

    /// Counts what was taken and is not as it should be.
    pub fn note(&mut self, note: Note) {
        self.notes[note as usize] += 1;
        self.has_some = true;
    }

    /// Begins a round that arrived at this time, in nanoseconds since 1970.
    pub fn begin_round(&mut self, arrived: u64) {
        self.arrived = arrived;
    }

    /// Adds a round of so many bytes to the counters.
    pub fn end_round(&mut self, bytes: u64) {
        self.counters.received(std::mem::take(&mut self.points), bytes);
        if std::mem::take(&mut self.has_some) {
            self.end_faults();
        }
        if self.notices_lost > 0 {
            self.counters.dropped("too_many_events", std::mem::take(&mut self.notices_lost));
        }
    }

    #[cold]
    fn end_faults(&mut self) {
        for (fault, count) in Fault::ALL.iter().zip(&mut self.faults) {
            self.counters.dropped(fault.name(), std::mem::take(count));
        }
        for (note, count) in Note::ALL.iter().zip(&mut self.notes) {
            self.counters.noted(note.name(), std::mem::take(count));
        }
        for (fault, text) in self.shown.drain(..) {
            log::warn!("source {}: {}: \"{text}\"; left out and counted", self.source, fault.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// How many of the bad lines that arrive one by one, at these times in seconds, are shown.
    fn shown(arrivals: &[u64]) -> usize {
        let mut tally = Tally::new("dogs".into(), Arc::default());
        let mut shown = 0;
        for arrived in arrivals {
            tally.begin_round(arrived * S);
            tally.fault(Fault::ALL[0], b"x");
            shown += tally.shown.len();
            tally.end_round(1);
        }
        shown
    }

    #[test]
    fn one_bad_line_a_second_is_shown_for_each_reason() {
        assert_eq!(shown(&[5000, 5000, 5000, 5001, 5001, 5002]), 3);
        let mut tally = Tally::new("dogs".into(), Arc::default());
        tally.begin_round(S);
        Fault::ALL.iter().for_each(|fault| tally.fault(*fault, b"x"));
        assert_eq!(tally.shown.len(), Fault::ALL.len());
    }

    #[test]
    fn a_clock_that_is_set_back_silences_nothing() {
        assert_eq!(shown(&[5000, 1400, 1400, 1401]), 3);
    }
}
