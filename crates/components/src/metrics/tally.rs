//! What one receiver has to count, added to the component's counters once a round.

use millstream_model::Counters;
use millstream_points::{Fault, Note};
use std::sync::Arc;

/// How often something that was left out is shown in the log, for each reason, in nanoseconds.
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
    /// By fault, the arrival before which none is shown.
    silent_until: [u64; Fault::ALL.len()],
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
            silent_until: [0; Fault::ALL.len()],
            arrived: 0,
        }
    }

    /// Counts what was left out.
    pub fn fault(&mut self, fault: Fault, text: &[u8]) {
        self.points += 1;
        self.faults[fault as usize] += 1;
        self.has_some = true;
        let silent_until = &mut self.silent_until[fault as usize];
        if self.arrived >= *silent_until {
            *silent_until = self.arrived + SHOW_EVERY_NS;
            let start = &text[..text.len().min(SHOWN_BYTES)];
            self.shown.push((fault, start.escape_ascii().to_string()));
        }
    }

    /// Counts what was taken and is not as it should be.
    pub fn note(&mut self, note: Note) {
        self.notes[note as usize] += 1;
        self.has_some = true;
    }

    /// Adds a round of so many bytes, which arrived at a time in nanoseconds, to the counters.
    pub fn end_round(&mut self, bytes: u64, arrived: u64) {
        self.counters.received(std::mem::take(&mut self.points), bytes);
        self.arrived = arrived;
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
