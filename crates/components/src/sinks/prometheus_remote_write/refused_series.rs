//! Remembers the series that the endpoint rejects. Otherwise, every request with samples of these
//! series would be rejected and split again.
//!
//! The rejection of a single sample indicates that its series is rejected if the response mentions
//! labels, or if a second sample is also rejected, because one sample may be out of order. A late
//! sample indicates nothing: after an outage, samples of healthy series are rejected for their age.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::{Arc, LazyLock};

/// Maximum number of series that are remembered. An entry takes about 100 bytes, and its reason up
/// to 800 more.
pub const SERIES_MAX: usize = 100_000;

/// Maximum number of series whose reasons are kept; all other series have [`OTHER_REASON`].
const REASONS_MAX: usize = 10_000;

/// Reason for series beyond [`REASONS_MAX`].
const OTHER_REASON: &str = "the endpoint rejected an earlier sample of this series";

/// How long the samples of a rejected series are omitted, in milliseconds.
const AGE_MS: u64 = 10 * 60 * 1000;

/// Maximum age of a sample at packing, in milliseconds and in addition to two periods, for its
/// rejection to count against the series.
const LATE_MS: i64 = 60 * 1000;

/// Lowercase words that mark a rejection as being about labels.
const OF_LABELS: [&str; 2] = ["label", "metric name"];

/// Lowercase words that mark a rejection as being about a sample.
const OF_SAMPLE: [&str; 7] = [
    "sample",
    "timestamp",
    "out of order",
    "out-of-order",
    "out of bounds",
    "too old",
    "duplicate",
];

/// Key of a series: the hash of its name and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesKey(pub [u64; 2]);

/// A sample of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Key of the series.
    pub series: SeriesKey,
    /// Timestamp of the sample, in milliseconds since 1970.
    pub time_ms: i64,
    /// Length of the period in milliseconds; 0 if unknown.
    pub interval_ms: u32,
}

/// How to treat the samples of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The samples are sent.
    Send,
    /// The samples are sent in separate requests, so that a rejection delays no other series.
    SendApart,
    /// The samples are rejected for this reason.
    Refuse(Arc<str>),
}

/// The known state of a series.
enum State {
    /// The series was in a rejected request that was not split further, or a late sample of the
    /// series was rejected.
    Suspect,
    /// One sample of the series was rejected.
    RefusedOnce,
    /// The series is rejected for this reason.
    Refused(Arc<str>),
}

struct Entry {
    state: State,
    /// Time when the request that led to this state was packed, in milliseconds since 1970.
    packed_ms: i64,
}

impl Entry {
    fn age(&self, now_ms: i64) -> u64 {
        // The clock may have been set back.
        self.packed_ms.abs_diff(now_ms)
    }

    /// Returns the time in milliseconds for which the entry is kept. The samples of a rejected
    /// series are first omitted, and then sent in separate requests.
    fn kept_for(&self) -> u64 {
        if matches!(self.state, State::Refused(_)) { 2 * AGE_MS } else { AGE_MS }
    }
}

/// The series that the endpoint rejects.
#[derive(Default)]
pub struct RefusedSeries {
    entries: HashMap<SeriesKey, Entry>,
    /// Whether the memory is full of rejected series.
    is_full: bool,
}

impl RefusedSeries {
    /// Removes expired series. Here and below, `now_ms` is in milliseconds since 1970.
    pub fn sweep(&mut self, now_ms: i64) {
        self.entries.retain(|_, entry| entry.age(now_ms) < entry.kept_for());
        self.is_full &= self.entries.len() >= SERIES_MAX;
    }

    /// Returns whether the endpoint rejects more series than fit into the memory.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns how to treat the samples of a series.
    #[inline]
    pub fn treatment(&self, series: SeriesKey, now_ms: i64) -> Treatment {
        if self.entries.is_empty() {
            return Treatment::Send;
        }
        match self.entries.get(&series) {
            None => Treatment::Send,
            Some(Entry { state: State::Refused(reason), packed_ms })
                if packed_ms.abs_diff(now_ms) < AGE_MS =>
            {
                Treatment::Refuse(reason.clone())
            }
            Some(_) => Treatment::SendApart,
        }
    }

    /// Records the rejection of a sample that was alone in its request. The request was packed at
    /// `packed_ms`.
    pub fn note_alone(&mut self, sample: Sample, reason: &str, packed_ms: i64) {
        let known = self.entries.get(&sample.series);
        let refused = || State::Refused(self.kept_reason(reason));
        let state = if is_of_labels(reason) {
            refused()
        } else {
            match known {
                // Another sample that was packed at the same time does not count again.
                Some(known) if known.packed_ms == packed_ms => return,
                _ if is_late(sample, packed_ms) => State::Suspect,
                Some(Entry { state: State::RefusedOnce | State::Refused(_), .. }) => refused(),
                _ => State::RefusedOnce,
            }
        };
        if known.is_some() || self.make_room() {
            self.entries.insert(sample.series, Entry { state, packed_ms });
        }
    }

    fn kept_reason(&self, reason: &str) -> Arc<str> {
        if self.entries.len() < REASONS_MAX {
            return reason.into();
        }
        static OTHER: LazyLock<Arc<str>> = LazyLock::new(|| OTHER_REASON.into());
        OTHER.clone()
    }

    /// Records that a sample was in a rejected request that is not split further. Has no effect
    /// when the memory is full.
    pub fn note_unsplit(&mut self, sample: Sample, packed_ms: i64) {
        let is_full = self.entries.len() >= SERIES_MAX;
        if let Slot::Vacant(slot) = self.entries.entry(sample.series)
            && !is_full
        {
            slot.insert(Entry { state: State::Suspect, packed_ms });
        }
    }

    /// Removes the suspects if the memory is full. Returns whether there is space for another
    /// series. Rejected series stay, because their samples would otherwise be resent.
    fn make_room(&mut self) -> bool {
        if self.entries.len() < SERIES_MAX {
            return true;
        }
        if !self.is_full {
            self.entries.retain(|_, entry| matches!(entry.state, State::Refused(_)));
            self.is_full = self.entries.len() >= SERIES_MAX;
        }
        !self.is_full
    }
}

/// Returns whether the reason for a rejection is about a series' labels, not about a sample.
fn is_of_labels(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    let has = |word: &&str| reason.contains(*word);
    OF_LABELS.iter().any(has) && !OF_SAMPLE.iter().any(has)
}

fn is_late(sample: Sample, packed_ms: i64) -> bool {
    let age = packed_ms.saturating_sub(sample.time_ms);
    age > LATE_MS + 2 * i64::from(sample.interval_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;
    const AGE: i64 = AGE_MS as i64;
    const LABELS: &str = "400: label value too long";
    const OTHER: &str = "400: Bad Request";

    fn sample(series: u64) -> Sample {
        Sample { series: SeriesKey([series, 0]), time_ms: NOW, interval_ms: 10_000 }
    }

    fn treatment(memory: &RefusedSeries, series: u64, now_ms: i64) -> Treatment {
        memory.treatment(sample(series).series, now_ms)
    }

    fn refuse(reason: &str) -> Treatment {
        Treatment::Refuse(reason.into())
    }

    #[test]
    fn a_series_with_refused_labels_is_left_out_at_once() {
        let mut memory = RefusedSeries::default();
        memory.note_alone(sample(1), LABELS, NOW);
        assert_eq!(treatment(&memory, 1, NOW + 1), refuse(LABELS));
        assert_eq!(treatment(&memory, 2, NOW + 1), Treatment::Send);
    }

    #[test]
    fn a_series_with_refused_samples_is_left_out_from_the_second_pack_on() {
        for reason in [OTHER, "400: out of order sample", "400: sample of {label=\"x\"} too old"] {
            let mut memory = RefusedSeries::default();
            memory.note_alone(sample(1), reason, NOW);
            memory.note_alone(sample(1), reason, NOW);
            assert_eq!(treatment(&memory, 1, NOW), Treatment::SendApart, "of one pack");
            memory.note_alone(sample(1), reason, NOW + 1);
            assert_eq!(treatment(&memory, 1, NOW + 1), refuse(reason));
        }
    }

    #[test]
    fn refused_late_samples_never_mean_their_series() {
        let mut memory = RefusedSeries::default();
        for pack in 1..9 {
            memory.note_alone(sample(1), OTHER, NOW + 80_000 + pack);
        }
        assert_eq!(treatment(&memory, 1, NOW + 80_009), Treatment::SendApart);
        memory.note_alone(sample(1), LABELS, NOW + 80_009);
        assert_eq!(treatment(&memory, 1, NOW + 80_009), refuse(LABELS));
    }

    #[test]
    fn a_refused_series_gets_another_chance_apart_after_its_age() {
        let mut memory = RefusedSeries::default();
        let at = |memory: &mut RefusedSeries, now_ms| {
            memory.sweep(now_ms);
            treatment(memory, 1, now_ms)
        };
        memory.note_alone(sample(1), LABELS, NOW);
        assert_eq!(at(&mut memory, NOW + AGE - 1), refuse(LABELS));
        assert_eq!(at(&mut memory, NOW + AGE), Treatment::SendApart);
        let again = NOW + AGE + 5;
        let current = Sample { time_ms: again, ..sample(1) };
        memory.note_alone(current, OTHER, again);
        assert_eq!(at(&mut memory, again + AGE - 1), refuse(OTHER), "once is enough now");
        assert_eq!(at(&mut memory, again + 2 * AGE - 1), Treatment::SendApart);
        assert_eq!(at(&mut memory, again + 2 * AGE), Treatment::Send, "it was not refused again");
        assert!(memory.entries.is_empty());
    }

    #[test]
    fn the_memory_ends_when_the_clock_is_set_back() {
        let mut memory = RefusedSeries::default();
        memory.note_alone(sample(1), LABELS, NOW);
        memory.sweep(NOW - 2 * AGE);
        assert!(memory.entries.is_empty());
    }

    #[test]
    fn refused_series_stay_in_a_full_memory() {
        let mut memory = RefusedSeries::default();
        for series in 0..SERIES_MAX as u64 + 3 {
            memory.note_alone(sample(series), LABELS, NOW + series as i64);
        }
        assert_eq!((memory.entries.len(), memory.is_full()), (SERIES_MAX, true));
        assert_eq!(treatment(&memory, 0, NOW), refuse(LABELS));
        let last = SERIES_MAX as u64 - 1;
        assert_eq!(treatment(&memory, last, NOW), refuse(OTHER_REASON));
        assert_eq!(treatment(&memory, last + 1, NOW), Treatment::Send);
        memory.note_unsplit(sample(u64::MAX), NOW + AGE);
        assert_eq!(treatment(&memory, u64::MAX, NOW), Treatment::Send, "suspects find no place");
        memory.note_unsplit(sample(3), NOW + AGE);
        assert_eq!(treatment(&memory, 3, NOW), refuse(LABELS), "and change nothing");
        memory.note_alone(sample(9), "400: label", NOW + AGE);
        assert_eq!(treatment(&memory, 9, NOW + AGE), refuse(OTHER_REASON), "it keeps its place");
        memory.sweep(NOW + 2 * AGE);
        assert!(!memory.is_full(), "the first is forgotten");
        memory.note_alone(sample(last + 1), LABELS, NOW + 2 * AGE);
        assert_eq!(treatment(&memory, last + 1, NOW + 2 * AGE), refuse(OTHER_REASON));
    }

    #[test]
    fn suspects_leave_a_full_memory() {
        let mut memory = RefusedSeries::default();
        memory.note_alone(sample(0), LABELS, NOW);
        for series in 1..SERIES_MAX as u64 {
            memory.note_unsplit(sample(series), NOW + series as i64);
        }
        assert_eq!(treatment(&memory, 1, NOW), Treatment::SendApart);
        memory.note_alone(sample(u64::MAX), LABELS, NOW + AGE);
        assert_eq!(treatment(&memory, 0, NOW), refuse(LABELS));
        assert_eq!(treatment(&memory, u64::MAX, NOW + AGE), refuse(OTHER_REASON));
        assert_eq!(treatment(&memory, 1, NOW), Treatment::Send);
        assert!(!memory.is_full());
    }
}
