//! A sink's disk buffer: payloads that wait on disk while the sink cannot take them.
//!
//! The buffer takes responsibility for payloads whose sources cannot reread them. A payload's debts
//! are settled when it is durable on disk or delivered, whichever comes first. In `overflow` mode,
//! a payload goes to its lane if the lane has room and no entry is waiting. Otherwise the payload
//! is written, together with everything in the lanes, so that nothing in memory prevents a source
//! from being settled. In `always` mode, each payload is written first.
//!
//! Entries are numbered in the order of their arrival, and lanes receive them in this order. If a
//! lane returns an entry, the buffer delivers the entry again.

mod files;
mod replay;
mod state;
mod view;
mod window;
mod worker;

use crate::buffer::Buffer;
use crate::error::EngineError;
use crate::index::LaneIndex;
use crate::lane::LaneQueue;
use files::Files;
use millstream_model::snapshot::DiskBufferSnapshot;
use millstream_model::{Counters, EntryLedger, Feed, Grant, Hold, Outcome, Payload, Sink};
use millstream_store::DiskBufferRecord;
use parking_lot::{Condvar, Mutex, MutexGuard};
use state::{Ended, State};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One sink's disk buffer. It survives a reload that replaces the sink.
pub(crate) struct DiskBuffer {
    sink_id: Arc<str>,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether entries are waiting for their lanes. Both the thread and the call that adds the
    /// first entry set this flag.
    is_behind: AtomicBool,
    counters: Arc<Counters>,
    grant: Arc<Grant>,
    /// Wakes the sources that are waiting for room.
    on_room: Box<dyn Fn() + Send + Sync>,
    /// Commits the checkpoints that have moved, with the record of the entries on disk.
    commit: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    /// The buffer itself, for the holds on the entries.
    me: Weak<DiskBuffer>,
}

/// The sink that receives the entries, and its limits.
#[derive(Clone)]
pub(crate) struct Target {
    pub sink: Arc<dyn Sink>,
    pub lanes: Vec<Arc<LaneQueue>>,
    /// Lanes that still have earlier entries and must end first.
    pub after: Vec<Arc<LaneQueue>>,
    /// Takes the events that the encoder rejected.
    pub feed: Arc<Feed>,
    /// Maximum bytes in the lanes' queues. The same limit applies to the entries that wait in
    /// memory.
    pub share: u64,
    pub buffer: Buffer,
}

/// A payload that arrives from a source.
pub(crate) struct Arrived<'a> {
    pub source: &'a Arc<str>,
    pub lane: LaneIndex,
    pub payload: Payload,
    /// Whether this is the last payload that covers its ranges for the sink.
    pub completes: bool,
}

/// The inputs that are needed to open a disk buffer.
pub(crate) struct Opening {
    pub sink_id: Arc<str>,
    pub folder: PathBuf,
    pub buffer: Buffer,
    /// The buffer's record as the previous process saved it.
    pub record: DiskBufferRecord,
    pub counters: Arc<Counters>,
    pub grant: Arc<Grant>,
    pub on_room: Box<dyn Fn() + Send + Sync>,
    pub commit: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
}

impl DiskBuffer {
    /// Opens the buffer. Nothing is created on disk before the first entry is written. Entries that
    /// the record counts but the files lack are counted as damaged.
    ///
    /// # Errors
    ///
    /// Returns an error if another agent uses the folder, if a newer release wrote it, or if the
    /// folder cannot be read.
    pub fn open(opening: Opening) -> Result<Arc<DiskBuffer>, EngineError> {
        let Opening { sink_id, folder, buffer, record, counters, grant, on_room, commit } = opening;
        let refused = |error| EngineError::DiskBuffer { id: sink_id.to_string(), error };
        let files = Files::open(folder, buffer.segment_bytes(), &record).map_err(refused)?;
        let is_behind = AtomicBool::new(files.has_unread());
        counters.register_drop_reasons(&["buffer_full", "buffer_damaged"]);
        let missing = files.missing();
        let state = Mutex::new(State::new(buffer, files, record));
        let opened = Arc::new_cyclic(|me| DiskBuffer {
            sink_id,
            state,
            changed: Condvar::new(),
            is_behind,
            counters,
            grant,
            on_room,
            commit,
            me: me.clone(),
        });
        if missing.entries > 0 {
            opened.damaged(missing.entries, missing.events);
        }
        Ok(opened)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Checks that a sink with this payload format can deliver the entries on disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the entries have another format because the sink's type, or the way in
    /// which it frames payloads, has changed.
    pub fn check_format(&self, format: &str) -> Result<(), EngineError> {
        let state = self.lock();
        let Some(found) = state.formats().into_iter().find(|found| **found != *format) else {
            return Ok(());
        };
        Err(EngineError::DiskBufferFormat {
            id: self.sink_id.to_string(),
            events: state.events(),
            found: found.to_string(),
            format: format.to_owned(),
            folder: state.view.folder.clone(),
        })
    }

    /// Makes `target` the sink that receives the entries. The first call starts the buffer's
    /// thread.
    pub fn attach(self: &Arc<Self>, target: Target) {
        let mut state = self.lock();
        state.attach(target);
        self.note(&mut state);
        let files = state.files.take();
        drop(state);
        if let Some(files) = files {
            let buffer = self.clone();
            crate::thread::spawn("disk-buffer", move || buffer.run(files));
        }
    }

    /// Stops passing entries to the lanes, because a reload is removing the sink. Entries that
    /// lanes return stay on disk.
    pub fn detach(&self) {
        self.change(State::detach);
    }

    /// Returns whether the disk buffer takes payloads from a source. If the source can reread them
    /// (not `overflows`) and no entry is waiting, the sink's memory queue takes them.
    pub fn takes(&self, overflows: bool) -> bool {
        overflows || self.is_behind()
    }

    /// Takes a payload for its lane or for the disk; returns the events that were dropped.
    pub fn put(&self, mut arrived: Arrived<'_>) -> Shed {
        let mut state = self.lock();
        let refused = arrived.payload.take_refused();
        let feed = state.feed();
        let shed = state.put(arrived, &self.me);
        self.note(&mut state);
        drop(state);
        if let Some(feed) = feed {
            for event in refused {
                feed.push(event);
            }
        }
        shed
    }

    /// Publishes whether entries are waiting.
    fn publish(&self, state: &State) {
        self.is_behind.store(state.is_behind(), Ordering::Release);
    }

    /// Publishes whether entries are waiting, and wakes the thread if it has work.
    fn note(&self, state: &mut State) {
        self.publish(state);
        if state.has_work() {
            state.signals += 1;
            self.changed.notify_all();
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.note(&mut state);
    }

    /// Returns whether entries are waiting for their lanes, so that new payloads must wait behind
    /// them.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Acquire)
    }

    /// Returns whether a source must wait. A source waits if the memory is full of entries that are
    /// not written yet, or if the disk is full and the buffer blocks.
    pub fn is_full(&self, unreleased: u64) -> bool {
        self.lock().is_full(unreleased)
    }

    /// Checks for room in the lanes, after bytes have left them.
    pub fn on_left(&self) {
        if self.is_behind() {
            self.change(|_| {});
        }
    }

    /// Returns the record to save, if it has changed.
    pub fn unsaved(&self) -> Option<DiskBufferRecord> {
        self.lock().unsaved()
    }

    /// Returns a number that changes whenever an entry is settled.
    pub fn progress(&self) -> u64 {
        self.lock().settled_until()
    }

    /// Stores the record that was saved. Entries before its position can be removed from disk.
    pub fn saved(&self, record: DiskBufferRecord) {
        self.change(|state| state.saved = record);
    }

    /// Returns whether nothing is left to deliver.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Starts writing all unsettled entries, regardless of the mode, because the process is about
    /// to exit.
    pub fn flush(&self) {
        self.change(State::flush);
    }

    /// Returns whether all unsettled entries are durable.
    pub fn is_durable(&self) -> bool {
        self.lock().is_durable()
    }

    /// Ends the thread after it has written the waiting entries. Entries that lanes return stay on
    /// disk.
    pub fn close(&self) {
        self.change(State::close);
    }

    /// Returns whether the thread has exited.
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Counts events that were dropped from a full disk buffer.
    fn dropped_oldest(&self, events: u64) {
        self.counters.dropped("buffer_full", events);
        log::warn!(
            "sink {}: the disk buffer is full; the oldest {events} events in it are dropped \
             (when_full)",
            self.sink_id
        );
    }

    /// Counts entries that cannot be read.
    fn damaged(&self, entries: u64, events: u64) {
        self.counters.errors("disk_buffer_damaged", entries);
        self.counters.dropped("buffer_damaged", events);
        let id = &self.sink_id;
        let folder = self.lock().view.folder.clone();
        log::error!(
            "sink {id}: {entries} entries in the disk buffer are damaged or missing and lost (at \
             least {events} events); damaged files are kept in {}",
            folder.display()
        );
    }

    /// Closes a sampling interval.
    pub fn sample(&self, interval: Duration) {
        let mut state = self.lock();
        state.view.sample(interval);
        state.write_late();
        if state.is_writing {
            self.note(&mut state);
        }
        let turn = state.turns();
        let events = state.events();
        drop(state);
        let id = &self.sink_id;
        match turn {
            Some(true) => log::warn!("sink {id}: {events} events are waiting in the disk buffer"),
            Some(false) => log::info!("sink {id}: all events in the disk buffer are delivered"),
            None => {}
        }
    }

    /// Returns the reason why the buffer cannot write or read; `None` if there is no failure.
    pub fn error(&self) -> Option<String> {
        self.lock().view.error.clone()
    }

    /// Returns a snapshot of the buffer.
    pub fn snapshot(&self, unix_ns: i64) -> DiskBufferSnapshot {
        self.lock().snapshot(unix_ns)
    }
}

/// Events dropped to make room for a payload, or the payload's events if the payload itself was
/// dropped.
#[derive(Default)]
pub(crate) struct Shed {
    pub events: u64,
    pub holds: Vec<Hold>,
}

impl Shed {
    fn of(mut payload: Payload) -> Shed {
        Shed { events: payload.events, holds: payload.take_holds() }
    }
}

impl EntryLedger for DiskBuffer {
    fn settle(&self, entry: u64, outcome: Outcome) {
        let mut state = self.lock();
        let ended = state.settle(entry, outcome);
        self.note(&mut state);
        drop(state);
        if let Ended::Poisoned { events } = &ended {
            self.counters.error("panic");
            self.counters.dropped("panic", *events);
            let id = &self.sink_id;
            log::error!(
                "sink {id}: dropped {events} events from the disk buffer because delivery panicked"
            );
        }
        ended.settle();
    }
}
