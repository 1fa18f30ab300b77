//! A disk buffer's entries in memory: entries that were passed to lanes, and entries that are
//! waiting.

use crate::index::LaneIndex;
use millstream_model::{Aside, Hold, Payload};
use millstream_spool::SourceRange;
use std::collections::VecDeque;
use std::sync::Arc;

/// Describes an entry's payload: its lane, its encoding, and the ranges its events come from.
#[derive(Clone)]
pub(super) struct Label {
    /// The lane for which the payload was encoded.
    pub lane: LaneIndex,
    /// Number of lanes that the sink had at that time.
    pub lanes: usize,
    /// See [`millstream_model::Sink::payload_format`].
    pub format: Arc<str>,
    /// The source ranges that the payload's events come from.
    pub ranges: Vec<SourceRange>,
    /// Whether this is the last payload that covers its ranges for the sink.
    pub completes: bool,
    /// Arrival time of the payload, in milliseconds since 1970.
    pub since_ms: i64,
}

/// An entry in memory.
pub(super) struct Tracked {
    pub number: u64,
    pub label: Label,
    pub events: u64,
    pub bytes: u64,
    /// The payload. `None` if it was passed to a lane and is on disk, or is no longer kept.
    pub payload: Option<Payload>,
    /// The debts for the segments, until the entry is durable or settled.
    pub holds: Vec<Hold>,
    pub place: Place,
    /// Whether the entry was passed to a lane.
    pub is_dealt: bool,
    /// Whether the entry's bytes are counted in [`Window::kept_bytes`].
    pub is_kept: bool,
    pub is_settled: bool,
    /// Number of times that the entry has been abandoned.
    pub attempts: u8,
    /// Accounts for the payload's memory if the payload was read from disk.
    pub paid: Option<Aside>,
}

impl Tracked {
    /// Drops the payload if it is kept; returns its size in bytes.
    fn let_go(&mut self) -> u64 {
        if !std::mem::take(&mut self.is_kept) {
            return 0;
        }
        self.payload = None;
        self.bytes
    }

    /// Returns whether the payload is gone, so that its events must be reread from the source.
    pub fn is_gone(&self) -> bool {
        self.payload.is_none() && self.place == Place::Memory
    }

    /// Returns whether the entry is durable, or does not need to be.
    pub fn is_ready(&self) -> bool {
        matches!(self.place, Place::Disk | Place::Memory)
    }
}

/// Where an entry's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Only in memory, and need not be written.
    Memory,
    /// Must be written.
    Wanted,
    /// Written but not synced.
    Appended,
    /// Durable.
    Disk,
}

/// The entries in memory, by ascending number.
#[derive(Default)]
pub(super) struct Window {
    entries: VecDeque<Tracked>,
    /// Bytes of the entries that no lane has received.
    waiting_bytes: u64,
    /// Bytes of the payloads that are kept after they were passed to lanes.
    kept_bytes: u64,
    /// Number of the first entry whose payload may still be kept.
    kept_from: u64,
}

impl Window {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the bytes of the entries that no lane has received.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Appends an entry. Its number must be the highest so far.
    pub fn push(&mut self, entry: Tracked) {
        debug_assert!(self.entries.back().is_none_or(|last| last.number < entry.number));
        self.waiting_bytes += if entry.is_dealt { 0 } else { entry.bytes };
        self.entries.push_back(entry);
    }

    /// Adds an entry that was read from disk. Entries that arrived later may wait in memory.
    pub fn restore(&mut self, entry: Tracked) -> &mut Tracked {
        let index = self.entries.partition_point(|other| other.number < entry.number);
        self.waiting_bytes += entry.bytes;
        self.entries.insert(index, entry);
        &mut self.entries[index]
    }

    pub fn get(&mut self, number: u64) -> Option<&mut Tracked> {
        let index = self.entries.binary_search_by_key(&number, |entry| entry.number).ok()?;
        self.entries.get_mut(index)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tracked> {
        self.entries.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tracked> {
        self.entries.iter_mut()
    }

    /// Returns the first entry that no lane has received. Lanes receive entries in order.
    pub fn first_waiting(&self) -> Option<&Tracked> {
        self.entries.get(self.entries.partition_point(|entry| entry.is_dealt))
    }

    /// Returns the number before which every entry is settled; `None` if there are no entries.
    /// `dealt_until` is the number after the last entry that a lane received.
    ///
    /// An entry that waits in memory may come before an entry that was read from disk, if a reload
    /// replaced the format of the entry in memory and a later reload restored the format.
    pub fn settled_until(&self, dealt_until: u64) -> Option<u64> {
        let first = self.entries.front()?;
        Some(if first.is_dealt { first.number } else { first.number.min(dealt_until) })
    }

    /// Returns the number of the first unsettled entry that was passed to a lane. Settled entries
    /// at the front have been removed.
    pub fn first_unsettled(&self) -> Option<u64> {
        self.entries.front().filter(|entry| entry.is_dealt).map(|entry| entry.number)
    }

    /// Records that an entry is passed to its lane; returns the entry.
    pub fn deal(&mut self, number: u64) -> Option<&mut Tracked> {
        let index = self.entries.binary_search_by_key(&number, |entry| entry.number).ok()?;
        let entry = self.entries.get_mut(index)?;
        if !std::mem::replace(&mut entry.is_dealt, true) {
            self.waiting_bytes -= entry.bytes;
        }
        Some(entry)
    }

    /// Keeps the payload of an entry that was passed to a lane. If more than `bytes_max` bytes are
    /// kept, the oldest payloads are dropped: their lanes have already passed them on, for example
    /// to a file that is synced later.
    pub fn keep(&mut self, number: u64, bytes_max: u64) {
        let bytes = self.get(number).map_or(0, |entry| {
            entry.is_kept = true;
            entry.bytes
        });
        self.kept_bytes += bytes;
        while self.kept_bytes > bytes_max && self.kept_from < number {
            let index = self.entries.partition_point(|entry| entry.number < self.kept_from);
            let Some(entry) = self.entries.get_mut(index) else { return };
            self.kept_from = entry.number + 1;
            let bytes = entry.let_go();
            self.kept_bytes -= bytes;
        }
    }

    /// Stops counting an entry's bytes as kept, because the entry is settled or will be written.
    pub fn uncount(&mut self, number: u64) {
        let Some(entry) = self.get(number) else { return };
        let bytes = if std::mem::take(&mut entry.is_kept) { entry.bytes } else { 0 };
        self.kept_bytes -= bytes;
    }

    /// Removes the settled entries at the front.
    pub fn trim(&mut self) {
        while self.entries.pop_front_if(|entry| entry.is_settled).is_some() {}
    }

    /// Removes and returns the entries that `goes` selects.
    pub fn remove(&mut self, mut goes: impl FnMut(&Tracked) -> bool) -> Vec<Tracked> {
        let (gone, stay) = self.entries.drain(..).partition(|entry| goes(entry));
        self.entries = stay;
        let gone: VecDeque<Tracked> = gone;
        let waiting = gone.iter().filter(|entry| !entry.is_dealt);
        self.waiting_bytes -= waiting.map(|entry| entry.bytes).sum::<u64>();
        gone.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Tracked {
        let label = Label {
            lane: LaneIndex::default(),
            lanes: 1,
            format: "fake/1".into(),
            ranges: Vec::new(),
            completes: true,
            since_ms: 0,
        };
        Tracked {
            number,
            label,
            events: 1,
            bytes: 1,
            payload: None,
            holds: Vec::new(),
            place: Place::Memory,
            is_dealt: false,
            is_kept: false,
            is_settled: false,
            attempts: 0,
            paid: None,
        }
    }

    #[test]
    fn a_position_never_passes_an_entry_that_waits() {
        let mut window = Window::default();
        assert_eq!(window.settled_until(3), None);
        window.push(entry(7));
        assert_eq!(window.settled_until(3), Some(3), "entries from 3 to 6 are on disk");
        window.restore(entry(9));
        window.deal(9);
        assert_eq!(window.settled_until(10), Some(7));
        window.deal(7);
        window.get(7).unwrap().is_settled = true;
        window.trim();
        assert_eq!(window.settled_until(10), Some(9));
    }
}
