//! The state that a disk buffer's thread, the workers and the lanes share.

use super::files::Files;
use super::view::{View, age_seconds};
use super::window::{Label, Place, Tracked, Window};
use super::{Arrived, DiskBuffer, Shed, Target};
use crate::buffer::{Buffer, DiskMode, WhenFull};
use crate::lane::LaneQueue;
use crate::pace::Rate;
use millstream_model::snapshot::DiskBufferSnapshot;
use millstream_model::{BackpressureReason, Feed, Hold, OriginId, Outcome, Payload, Sink};
use millstream_spool::SourceRange;
use millstream_store::DiskBufferRecord;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a lane may have been failing before its entries and all later ones are written.
const FAILING_MAX: Duration = Duration::from_secs(1);

/// Maximum time that an entry may stay in memory before it is written. This is longer than sinks
/// wait to fill a request, or to spread the load from many hosts.
const MEMORY_TIME_MAX: Duration = Duration::from_secs(30);

/// An entry that has been abandoned this many times is treated as the cause of the panics.
const ATTEMPTS_MAX: u8 = 3;

pub(super) struct State {
    /// The files, until the thread takes them.
    pub files: Option<Files>,
    buffer: Buffer,
    target: Option<Target>,
    format: Arc<str>,
    pub window: Window,
    next_number: u64,
    /// Number after the last entry that a lane received.
    dealt_until: u64,
    /// Number of lanes that the sink had when the last dealt entry was encoded; 0 before the first
    /// entry.
    dealt_lanes: usize,
    /// Numbers of the entries to redeliver.
    pub again: BTreeSet<u64>,
    /// The files as the thread last saw them.
    pub view: View,
    /// The record as it was last saved.
    pub saved: DiskBufferRecord,
    /// Whether everything must be written and lanes receive no entries, because the process is
    /// about to exit or the sink is removed.
    is_flushing: bool,
    is_closing: bool,
    /// Whether there are entries that must be written.
    pub is_writing: bool,
    /// Whether there may be entries that are kept only in memory.
    keeps_in_memory: bool,
    pub has_ended: bool,
    pub rate: Option<Rate>,
    /// Whether the log has reported that events are waiting on disk.
    said_to_hold: bool,
    /// Counts the changes that the thread may have to act on.
    pub signals: u64,
}

/// How an entry ended.
pub(super) enum Ended {
    /// The segments were settled earlier, or the entry will be redelivered.
    Here,
    /// The segments must be settled with this outcome.
    Holds(Vec<Hold>, Outcome),
    /// The entry was abandoned too often and is treated as the cause of the panics. The segments
    /// were settled earlier.
    Poisoned { events: u64 },
}

impl Ended {
    /// Settles the segments. The state must not be locked.
    pub fn settle(self) {
        if let Ended::Holds(holds, outcome) = self {
            for hold in holds {
                hold.settle(outcome);
            }
        }
    }
}

impl State {
    pub fn new(buffer: Buffer, files: Files, saved: DiskBufferRecord) -> State {
        let settled = saved.position;
        let view = files.view();
        let next_number = files.next_number().max(settled);
        State {
            files: Some(files),
            buffer,
            target: None,
            format: "".into(),
            window: Window::default(),
            next_number,
            dealt_until: settled,
            dealt_lanes: 0,
            again: BTreeSet::new(),
            view,
            saved,
            is_flushing: false,
            is_closing: false,
            is_writing: false,
            keeps_in_memory: false,
            has_ended: false,
            rate: None,
            said_to_hold: false,
            signals: 0,
        }
    }

    pub fn attach(&mut self, target: Target) {
        self.buffer = target.buffer;
        self.format = target.sink.payload_format().into();
        let replay_rate = target.buffer.disk.and_then(|disk| disk.replay_rate);
        self.rate = replay_rate.map(Rate::new);
        self.target = Some(target);
        self.is_flushing = false;
        self.keeps_in_memory = true;
        if self.writes() && self.window.first_waiting().is_some() {
            self.want_all();
        }
    }

    pub fn detach(&mut self) {
        self.press(false);
        self.target = None;
        self.flush();
    }

    pub fn feed(&self) -> Option<Arc<Feed>> {
        self.target.as_ref().map(|target| target.feed.clone())
    }

    /// Returns whether the buffer may write. If the sink's buffer is now configured to be in
    /// memory, the disk is only emptied, unless the process is about to exit.
    fn writes(&self) -> bool {
        self.buffer.disk.is_some() || self.is_flushing
    }

    pub fn is_always(&self) -> bool {
        self.buffer.disk.is_some_and(|disk| disk.mode == DiskMode::Always)
    }

    /// Returns the lanes that receive entries; empty while there is no sink.
    fn lanes(&self) -> &[Arc<LaneQueue>] {
        self.target.as_ref().map_or(&[], |target| target.lanes.as_slice())
    }

    /// Returns the maximum bytes that may wait in memory.
    fn share(&self) -> u64 {
        self.target.as_ref().map_or(0, |target| target.share)
    }

    /// Returns the formats of the entries that must be delivered as they are: the entries on disk,
    /// and the entries in memory if the lanes cannot deliver them soon.
    pub fn formats(&self) -> Vec<Arc<str>> {
        let all_get_on = self.lanes().iter().all(|lane| lane.gets_on());
        let stays = |entry: &&Tracked| entry.place == Place::Disk || !all_get_on;
        let unsettled = self.window.iter().filter(|entry| !entry.is_settled);
        let in_memory = unsettled.filter(stays).map(|entry| entry.label.format.clone());
        let unread = self.view.formats.iter().filter(|_| self.view.unread_entries > 0);
        unread.cloned().chain(in_memory).collect()
    }

    pub fn format(&self) -> Arc<str> {
        self.format.clone()
    }

    pub fn sink(&self) -> Option<Arc<dyn Sink>> {
        self.target.as_ref().map(|target| target.sink.clone())
    }

    pub fn has_target(&self) -> bool {
        self.target.is_some()
    }

    /// Returns whether the oldest entries on disk must be dropped.
    pub fn drops_oldest(&self) -> bool {
        let drops = self.buffer.when_full == WhenFull::DropOldest && !self.is_in_memory();
        drops && self.is_disk_full() && self.view.unread_entries > 0
    }

    /// Returns the log text for the behavior while nothing can be written.
    pub fn rule(&self) -> &'static str {
        match self.buffer.when_full {
            WhenFull::Block => "sources wait once its memory is full",
            WhenFull::DropNewest => "new events are dropped once its memory is full",
            WhenFull::DropOldest => "the oldest events are dropped once its memory is full",
        }
    }

    /// Returns whether entries are waiting for their lanes.
    pub fn is_behind(&self) -> bool {
        self.view.unread_entries > 0
            || self.window.first_waiting().is_some()
            || !self.again.is_empty()
            || !self.is_target_free()
    }

    /// Returns whether the previous sink's lanes have ended, so that the current lanes can receive
    /// entries.
    fn is_target_free(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.after.iter().all(|lane| lane.has_ended()))
    }

    /// Returns whether entries are waiting until the lanes of a replaced sink have ended.
    pub fn waits_for_lanes(&self) -> bool {
        self.has_target() && !self.is_target_free()
    }

    /// Returns whether lanes receive entries.
    pub fn deals(&self) -> bool {
        self.has_target() && !self.is_flushing
    }

    /// Returns whether the lanes have room for a payload. A single payload always fits.
    pub fn has_room(&self, bytes: u64) -> bool {
        let Some(target) = &self.target else { return false };
        let queued: u64 = target.lanes.iter().map(|lane| lane.bytes()).sum();
        self.is_target_free() && (queued == 0 || queued + bytes <= target.share)
    }

    /// Tells the lanes whether an entry is waiting for them.
    fn press(&self, waits: bool) {
        for lane in self.lanes() {
            lane.press(BackpressureReason::DiskBuffer, waits);
        }
    }

    /// Returns whether the disk is full, counting the entries that must still be written.
    fn is_disk_full(&self) -> bool {
        let bytes_max = self.buffer.disk.map_or(0, |disk| disk.bytes_max);
        self.view.bytes + self.window.waiting_bytes() >= bytes_max
    }

    /// Returns whether nothing can be written, so that the rules for a memory buffer apply.
    pub fn is_in_memory(&self) -> bool {
        self.buffer.disk.is_none() || self.view.error.is_some()
    }

    pub fn is_full(&self, unreleased: u64) -> bool {
        let waiting = self.window.waiting_bytes() + unreleased;
        let is_memory_full = waiting >= self.share();
        let is_disk_full = !self.is_in_memory() && self.is_disk_full();
        let is_feed_full = self.target.as_ref().is_some_and(|target| target.feed.is_full());
        let blocks = self.buffer.when_full == WhenFull::Block;
        // If the disk works, it soon takes the entries that fill the memory. The source waits for
        // this instead of having events dropped.
        is_feed_full || is_memory_full && (blocks || !self.is_in_memory()) || is_disk_full && blocks
    }

    /// Takes a payload, and passes it to its lane if possible; returns the events that were
    /// dropped.
    pub fn put(&mut self, arrived: Arrived<'_>, buffer: &Weak<DiskBuffer>) -> Shed {
        let bytes = arrived.payload.queue_bytes();
        if arrived.payload.is_empty() {
            arrived.payload.settle(Outcome::Delivered);
            return Shed::default();
        }
        let passes = self.passes(bytes);
        if !passes && self.sheds(bytes) {
            return Shed::of(arrived.payload);
        }
        let shed = if passes { Shed::default() } else { self.shed_oldest(bytes) };
        let number = self.track(arrived);
        if passes {
            self.deal(number, buffer);
            // This limit covers all payloads that are queued or in flight.
            self.window.keep(number, self.share() + bytes);
            self.keeps_in_memory = true;
        } else if self.writes() && self.keeps_in_memory {
            self.want_all();
        } else if self.writes() {
            self.want(number);
        }
        shed
    }

    /// Returns whether a new payload goes to its lane immediately.
    fn passes(&self, bytes: u64) -> bool {
        let lanes = self.target.as_ref().map_or(1, |target| target.lanes.len());
        let is_free = !self.is_always() && !self.is_behind() && self.deals() && !self.is_failing();
        is_free && self.may_deal(lanes, bytes)
    }

    /// Returns whether a lane has failed for so long that entries must not stay in memory.
    fn is_failing(&self) -> bool {
        let longest = self.lanes().iter().filter_map(|lane| lane.failing_for()).max();
        self.writes() && longest.is_some_and(|failing| failing >= FAILING_MAX)
    }

    /// Makes the thread write entries that have been in memory for too long.
    pub fn write_late(&mut self) {
        let in_memory = |entry: &&Tracked| {
            entry.place == Place::Memory && !entry.is_settled && entry.payload.is_some()
        };
        let Some(oldest) = self.window.iter().find(in_memory) else { return };
        let age_ms = unix_ms() - oldest.label.since_ms;
        let is_late = age_ms > MEMORY_TIME_MAX.as_millis() as i64;
        if self.writes() && (is_late || self.is_failing()) {
            self.want_all();
        }
    }

    /// Drops the oldest entries in memory to make room for a new payload, while nothing can be
    /// written.
    fn shed_oldest(&mut self, bytes: u64) -> Shed {
        let is_due = self.buffer.when_full == WhenFull::DropOldest && self.is_in_memory();
        let excess = (self.window.waiting_bytes() + bytes).saturating_sub(self.share());
        if !is_due || excess == 0 {
            return Shed::default();
        }
        let mut freed = 0;
        let shed = self.window.remove(|entry| {
            let goes = freed < excess && !entry.is_dealt && entry.place != Place::Disk;
            freed = if goes { freed + entry.bytes } else { freed };
            goes
        });
        let events = shed.iter().map(|entry| entry.events).sum();
        Shed { events, holds: shed.into_iter().flat_map(|entry| entry.holds).collect() }
    }

    /// Returns whether a new payload is dropped.
    fn sheds(&self, bytes: u64) -> bool {
        if self.buffer.when_full != WhenFull::DropNewest {
            return false;
        }
        if self.is_in_memory() {
            self.window.waiting_bytes() + bytes > self.share()
        } else {
            self.is_disk_full()
        }
    }

    /// Adds a payload to the waiting entries; returns the entry's number.
    fn track(&mut self, arrived: Arrived<'_>) -> u64 {
        let Arrived { source, lane, mut payload, completes } = arrived;
        let range = |(origin, range): (OriginId, Range<u64>)| SourceRange {
            source: source.clone(),
            origin: origin.0,
            start: range.start,
            end: range.end,
        };
        let number = self.next_number;
        self.next_number += 1;
        let lanes = self.target.as_ref().map_or(1, |target| target.lanes.len());
        let label = Label {
            lane,
            lanes,
            format: self.format.clone(),
            ranges: payload.ranges().map(range).collect(),
            completes,
            since_ms: unix_ms(),
        };
        self.window.push(Tracked {
            number,
            label,
            events: payload.events,
            bytes: payload.queue_bytes(),
            holds: payload.take_holds(),
            payload: Some(payload),
            place: Place::Memory,
            is_dealt: false,
            is_kept: false,
            is_settled: false,
            attempts: 0,
            paid: None,
        });
        number
    }

    /// Makes the thread write all entries that are only in memory.
    fn want_all(&mut self) {
        self.is_writing = true;
        self.keeps_in_memory = false;
        let format = self.format.clone();
        let fits = |entry: &&mut Tracked| {
            let is_in_memory = entry.place == Place::Memory && entry.payload.is_some();
            is_in_memory && !entry.is_settled && entry.label.format == format
        };
        let mut wanted = Vec::new();
        for entry in self.window.iter_mut().filter(fits) {
            entry.place = Place::Wanted;
            wanted.push(entry.number);
        }
        for number in wanted {
            self.window.uncount(number);
        }
    }

    /// Makes the thread write a waiting entry.
    fn want(&mut self, number: u64) {
        self.is_writing = true;
        if let Some(entry) = self.window.get(number) {
            entry.place = Place::Wanted;
        }
    }

    /// Passes an entry in memory to its lane, which has room.
    pub fn deal(&mut self, number: u64, buffer: &Weak<DiskBuffer>) {
        let (Some(target), Some(ledger)) = (&self.target, buffer.upgrade()) else { return };
        let Some(entry) = self.window.deal(number) else { return };
        let Some(mut payload) = entry.payload.as_ref().map(Payload::copy) else { return };
        let lane = entry.label.lane.get() % target.lanes.len();
        if entry.place == Place::Disk {
            entry.payload = None;
        }
        self.dealt_lanes = entry.label.lanes;
        self.dealt_until = self.dealt_until.max(number + 1);
        payload.owe([Hold::of_entry(ledger, number)]);
        target.lanes[lane].push(payload);
    }

    /// Returns whether a lane may receive an entry that was encoded for `lanes` lanes. If the
    /// number of lanes has changed, an origin may move to another lane, where its events must not
    /// overtake earlier ones.
    pub fn is_in_turn(&self, lanes: usize) -> bool {
        self.dealt_lanes == 0
            || self.dealt_lanes == lanes
            || self.window.first_unsettled().is_none()
    }

    /// Returns whether the lanes can receive an entry now. Also tells the lanes whether an entry is
    /// waiting for them.
    pub fn may_deal(&self, lanes: usize, bytes: u64) -> bool {
        let may = self.has_room(bytes) && self.is_in_turn(lanes);
        self.press(!may);
        may
    }

    /// Handles an entry's outcome: ends the entry, or schedules it for redelivery. Returns how the
    /// entry ended.
    pub fn settle(&mut self, number: u64, outcome: Outcome) -> Ended {
        let Some(entry) = self.window.get(number) else { return Ended::Here };
        let is_lost = outcome == Outcome::Abandoned;
        entry.attempts += u8::from(is_lost);
        let is_poisoned = entry.attempts >= ATTEMPTS_MAX;
        if outcome > Outcome::Rejected && !is_poisoned {
            self.again.insert(number);
            return Ended::Here;
        }
        let holds = std::mem::take(&mut entry.holds);
        let events = entry.events;
        self.window.uncount(number);
        let Some(entry) = self.window.get(number) else { return Ended::Here };
        entry.is_settled = true;
        entry.payload = None;
        entry.paid = None;
        self.window.trim();
        if !is_poisoned {
            return Ended::Holds(holds, outcome);
        }
        if holds.is_empty() {
            return Ended::Poisoned { events };
        }
        // The source rereads the entry, one half at a time.
        Ended::Holds(holds, Outcome::Abandoned)
    }

    /// Returns the number before which every entry is settled.
    pub fn settled_until(&self) -> u64 {
        match self.window.settled_until(self.dealt_until) {
            Some(position) => position,
            None if self.is_behind() => self.dealt_until,
            None => self.next_number,
        }
    }

    /// Returns the record to save, if it has changed. A buffer without files needs no record once
    /// its end is saved.
    pub fn unsaved(&self) -> Option<DiskBufferRecord> {
        let record = self.record();
        let is_used = self.view.bytes > 0 || self.saved.entries > 0;
        (is_used && record != self.saved).then_some(record)
    }

    /// Returns a record of the entries on disk.
    fn record(&self) -> DiskBufferRecord {
        let position = self.settled_until().max(self.saved.position);
        let is_held = |entry: &&Tracked| entry.place == Place::Disk && entry.number >= position;
        let mut record = DiskBufferRecord {
            position,
            end: self.view.end.max(position),
            entries: self.view.unread_entries,
            events: self.view.unread_events,
        };
        for entry in self.window.iter().filter(is_held) {
            record.entries += 1;
            record.events += entry.events;
        }
        record
    }

    /// Returns the number of unsettled events.
    pub fn events(&self) -> u64 {
        let in_memory = self.window.iter().filter(|entry| !entry.is_settled);
        self.view.unread_events + in_memory.map(|entry| entry.events).sum::<u64>()
    }

    pub fn is_empty(&self) -> bool {
        self.window.is_empty() && self.view.unread_entries == 0
    }

    pub fn flush(&mut self) {
        self.is_flushing = true;
        self.want_all();
    }

    pub fn is_durable(&self) -> bool {
        self.window.iter().all(|entry| entry.is_settled || entry.place == Place::Disk)
    }

    pub fn close(&mut self) {
        self.is_closing = true;
        self.flush();
    }

    /// Returns whether the thread exits once it has written what it can.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns whether the thread must write and sync without delay.
    pub fn is_urgent(&self) -> bool {
        self.is_flushing || self.window.waiting_bytes() >= self.share() / 2
    }

    /// Returns whether the thread has work to do.
    pub fn has_work(&self) -> bool {
        self.is_closing || self.is_writing || self.is_behind() || self.view.bytes > 0
    }

    pub fn snapshot(&self, unix_ns: i64) -> DiskBufferSnapshot {
        let bytes_max = self.buffer.disk.map_or(0, |disk| disk.bytes_max);
        let shown = self.view.snapshot(bytes_max, unix_ns);
        let on_disk = |entry: &&Tracked| entry.place == Place::Disk && !entry.is_settled;
        let in_flight: Vec<&Tracked> = self.window.iter().filter(on_disk).collect();
        let oldest = in_flight.first().map(|entry| age_seconds(entry.label.since_ms, unix_ns));
        DiskBufferSnapshot {
            entries: shown.entries + in_flight.len() as u64,
            events: shown.events + in_flight.iter().map(|entry| entry.events).sum::<u64>(),
            oldest_seconds: oldest.unwrap_or(shown.oldest_seconds),
            ..shown
        }
    }

    /// Returns `true` if the buffer has started to keep events since the last call, and `false` if
    /// it has delivered all of them.
    pub fn turns(&mut self) -> Option<bool> {
        let waits = self.view.unread_entries > 0;
        let is_over = !waits && self.window.iter().all(|entry| entry.place != Place::Disk);
        let turns = if self.said_to_hold { is_over } else { waits };
        self.said_to_hold ^= turns;
        turns.then_some(self.said_to_hold)
    }
}

pub(super) fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
