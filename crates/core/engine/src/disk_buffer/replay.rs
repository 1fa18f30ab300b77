//! Passes entries to the lanes: returned entries first, then entries on disk, then entries that are
//! waiting in memory.

use super::state::{Ended, State};
use super::window::{Label, Place, Tracked};
use super::worker::Worker;
use crate::index::LaneIndex;
use millstream_model::{Outcome, Payload, RowSource, Sink};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use millstream_spool::Entry;
use std::io;
use std::time::Instant;

/// The next action of a replay.
enum Next {
    /// No entry is waiting, or the lanes have no room.
    Nothing,
    /// An entry in memory was passed to its lane.
    Dealt,
    /// An entry ended without being passed to a lane.
    Ended(Ended),
    /// An entry must be reread.
    ReadAgain(u64),
    /// The next entry on disk must be read.
    Read,
}

impl Worker {
    /// Passes entries to the lanes while they have room.
    pub fn replay(&mut self) {
        loop {
            let mut state = self.buffer.lock();
            let next = state.next(self.next.as_ref(), &self.buffer.me);
            drop(state);
            let goes_on = match next {
                Next::Nothing => false,
                Next::Dealt => true,
                Next::Ended(ended) => {
                    ended.settle();
                    true
                }
                Next::ReadAgain(number) => self.read_again(number),
                Next::Read => self.read_next(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Rereads an entry that a lane has returned; returns whether there may be more.
    fn read_again(&mut self, number: u64) -> bool {
        let Some(sink) = self.buffer.lock().sink() else { return false };
        let timer = recorder::start(EventKind::Spool);
        let read = match self.files.read(number) {
            Ok(Some(entry)) => {
                self.record(timer, "read", entry.payload_bytes());
                self.payload_of(entry, &*sink)
            }
            Ok(None) => {
                // The entry was readable before, so it has been damaged since then.
                let events = self.buffer.lock().events_of(number);
                self.damaged(1, events);
                None
            }
            Err(error) => {
                self.cannot_read(&error);
                return false;
            }
        };
        let mut state = self.buffer.lock();
        let Some((_, payload)) = read else {
            state.again.remove(&number);
            state.settle(number, Outcome::Rejected);
            return true;
        };
        if let Some(entry) = state.window.get(number) {
            entry.paid = Some(self.buffer.grant.set_aside(payload.bytes));
            entry.payload = Some(payload);
        }
        true
    }

    /// Reads the next entry, and passes it to its lane if the lane has room.
    fn read_next(&mut self) -> bool {
        if self.next.is_none() && !self.may_read() {
            return false;
        }
        let Some(sink) = self.buffer.lock().sink() else { return false };
        let entry =
            match self.next.take().map_or_else(|| self.read_entry(), |entry| Ok(Some(entry))) {
                Ok(Some(entry)) => entry,
                Ok(None) => {
                    self.publish();
                    return false;
                }
                Err(error) => {
                    self.cannot_read(&error);
                    return false;
                }
            };
        if !self.is_paused() {
            self.recovered();
        }
        let bytes = entry.payload_bytes();
        if !self.buffer.lock().may_deal(usize::from(entry.meta.lanes), bytes) {
            self.next = Some(entry);
            return false;
        }
        let number = entry.meta.number.0;
        if let Some((label, payload)) = self.payload_of(entry, &*sink) {
            let mut state = self.buffer.lock();
            let paid = self.buffer.grant.set_aside(bytes);
            if let Some(rate) = &mut state.rate {
                rate.read(self.now(), bytes);
            }
            state.restore(number, label, payload).paid = Some(paid);
            // All of this happens under one lock, so that a record counts the entry exactly once.
            state.view.renew(self.seen());
            state.deal(number, &self.buffer.me);
        }
        self.publish();
        true
    }

    /// Reads the next entry that no lane has received.
    fn read_entry(&mut self) -> io::Result<Option<Entry>> {
        let timer = recorder::start(EventKind::Spool);
        let entry = self.files.next()?;
        if let Some(entry) = &entry {
            self.record(timer, "read", entry.payload_bytes());
        }
        Ok(entry)
    }

    /// Returns whether the rate limit and the disk allow a read now.
    fn may_read(&mut self) -> bool {
        if self.read_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        let now = self.now();
        let mut state = self.buffer.lock();
        let asked = state.rate.as_mut().map_or(Ok(Default::default()), |rate| rate.ask(now));
        drop(state);
        self.read_at = asked.err().map(|wait| Instant::now() + wait);
        self.read_at.is_none()
    }

    /// Returns an entry's payload. If the sink cannot read the entry, the entry is treated as
    /// damaged, and the result is `None`.
    fn payload_of(&mut self, entry: Entry, sink: &dyn Sink) -> Option<(Label, Payload)> {
        let events = entry.meta.events;
        let read = payload_of(entry, sink);
        if let Err(error) = &read {
            log::error!(
                "sink {}: cannot read an entry of the disk buffer: {error}",
                self.buffer.sink_id
            );
            self.damaged(1, events);
        }
        read.ok()
    }

    /// Counts entries that cannot be delivered.
    fn damaged(&mut self, entries: u64, events: u64) {
        self.files.note_damaged(entries);
        self.buffer.damaged(entries, events);
    }
}

/// Recreates an entry's payload.
fn payload_of(entry: Entry, sink: &dyn Sink) -> Result<(Label, Payload), String> {
    let Entry { meta, parts, routing, rows } = entry;
    let read = super::files::payload_of(meta.events, parts, &routing, sink);
    let mut payload = read.map_err(|error| error.to_string())?;
    payload.sources = RowSource::read_all(&rows).ok_or("its rows cannot be read")?.into();
    let label = Label {
        lane: LaneIndex::new(usize::from(meta.lane)),
        lanes: usize::from(meta.lanes),
        format: meta.format,
        ranges: meta.ranges,
        completes: meta.completes,
        since_ms: meta.written_ms,
    };
    Ok((label, payload))
}

impl State {
    /// Finds the next entry for a lane. An entry in memory is passed to its lane immediately.
    /// `read` is the next entry on disk, if it has already been read.
    fn next(&mut self, read: Option<&Entry>, buffer: &std::sync::Weak<super::DiskBuffer>) -> Next {
        if !self.deals() {
            return Next::Nothing;
        }
        if let Some(number) = self.again.first().copied() {
            return self.next_again(number, buffer);
        }
        if read.is_some() || self.view.unread_entries > 0 {
            return Next::Read;
        }
        let needs_disk = self.is_always() && !self.is_in_memory();
        let waiting = self.window.first_waiting().filter(|entry| !needs_disk || entry.is_ready());
        let waiting = waiting.map(|entry| (entry.number, entry.label.lanes, entry.bytes));
        let Some((number, ..)) = waiting.filter(|(_, lanes, bytes)| self.may_deal(*lanes, *bytes))
        else {
            return Next::Nothing;
        };
        self.deal(number, buffer);
        Next::Dealt
    }

    /// Passes a returned entry to its lane.
    fn next_again(&mut self, number: u64, buffer: &std::sync::Weak<super::DiskBuffer>) -> Next {
        let format = self.format();
        let Some(entry) = self.window.get(number) else {
            self.again.remove(&number);
            return Next::Dealt;
        };
        let bytes = entry.bytes;
        let has_payload = entry.payload.is_some();
        if entry.is_gone() || entry.label.format != format && entry.place != Place::Disk {
            // The payload is no longer in memory, or it was encoded for the sink before a reload.
            // The source rereads the events if possible.
            let holds = std::mem::take(&mut entry.holds);
            entry.is_settled = true;
            self.again.remove(&number);
            self.window.trim();
            return Next::Ended(Ended::Holds(holds, Outcome::Returned));
        }
        if !self.has_room(bytes) {
            return Next::Nothing;
        }
        if !has_payload {
            return Next::ReadAgain(number);
        }
        self.again.remove(&number);
        self.deal(number, buffer);
        Next::Dealt
    }

    /// Returns the number of events in an unsettled entry.
    fn events_of(&mut self, number: u64) -> u64 {
        self.window.get(number).map_or(0, |entry| entry.events)
    }

    /// Adds an entry that was read from disk.
    fn restore(&mut self, number: u64, label: Label, payload: Payload) -> &mut Tracked {
        self.window.restore(Tracked {
            number,
            label,
            events: payload.events,
            bytes: payload.queue_bytes(),
            payload: Some(payload),
            holds: Vec::new(),
            place: Place::Disk,
            is_dealt: false,
            is_kept: false,
            is_settled: false,
            attempts: 0,
            paid: None,
        })
    }
}
