//! A disk buffer's thread, which writes and syncs entries, passes them to the lanes, and removes
//! files.

use super::DiskBuffer;
use super::files::Files;
use super::state::State;
use super::window::{Label, Place};
use millstream_model::{EngineTime, Hold, Outcome, Payload};
use millstream_recorder::record;
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use millstream_spool::{Entry, OldestEntries};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a written entry may wait for its sync, so that one sync serves many entries.
const SYNC_AFTER: Duration = Duration::from_millis(100);

/// Bytes after which written entries are synced immediately.
const SYNC_BYTES: u64 = 4 << 20;

/// Maximum bytes to write before the thread does other work.
const WRITE_BYTES: u64 = 4 << 20;

/// Pause after a disk failure.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Interval at which the thread checks whether the lanes of a replaced sink have ended.
const LANES_LOOK: Duration = Duration::from_millis(20);

/// Interval at which the thread checks for room in the lanes while entries are waiting. Lanes that
/// are older than the buffer do not wake the thread.
const ROOM_LOOK: Duration = Duration::from_millis(100);

/// An entry to write.
struct Due {
    number: u64,
    label: Label,
    payload: Payload,
}

pub(super) struct Worker {
    pub buffer: Arc<DiskBuffer>,
    pub files: Files,
    /// The next entry on disk, if it was read while no lane had room.
    pub next: Option<Entry>,
    /// Numbers of the entries that are written but not synced.
    appended: Vec<u64>,
    appended_bytes: u64,
    appended_since: Option<Instant>,
    /// When the disk may be tried again after a failure.
    pub retry_at: Option<Instant>,
    /// Reason why the disk failed.
    pub error: Option<String>,
    /// When the next entry may be read, after a failed read or because of the rate limit.
    pub read_at: Option<Instant>,
    started: Instant,
    /// Files whose entries all come before this number have already been removed.
    released: u64,
}

impl DiskBuffer {
    /// Runs the thread's loop.
    pub(super) fn run(self: Arc<Self>, files: Files) {
        let mut worker = Worker {
            buffer: self,
            files,
            next: None,
            appended: Vec::new(),
            appended_bytes: 0,
            appended_since: None,
            retry_at: None,
            error: None,
            read_at: None,
            started: Instant::now(),
            released: 0,
        };
        loop {
            let signals = worker.buffer.lock().signals;
            worker.round();
            if worker.ends() {
                break;
            }
            worker.wait(signals);
        }
        worker.end();
    }
}

impl Worker {
    fn round(&mut self) {
        let is_over = |at: &mut Instant| *at <= Instant::now();
        self.retry_at.take_if(is_over);
        self.read_at.take_if(is_over);
        if !self.is_paused() {
            self.make_room();
            self.write();
            self.sync();
            self.forget_error();
        }
        // Continue here even after a disk failure, because deliveries make room on a full disk.
        self.release();
        self.replay();
        self.publish();
    }

    /// Returns whether writing is paused after a recent disk failure.
    pub fn is_paused(&self) -> bool {
        self.retry_at.is_some_and(|at| Instant::now() < at)
    }

    /// Returns the time since the start, for the rate limit.
    pub fn now(&self) -> EngineTime {
        EngineTime::at(self.started.elapsed())
    }

    /// Waits for a signal, the next sync, or the end of a pause.
    fn wait(&self, signals: u64) {
        let sync_at = self.appended_since.map(|since| since + SYNC_AFTER);
        let mut state = self.buffer.lock();
        if state.signals != signals || state.is_writing && !self.is_paused() {
            return;
        }
        let lanes_at = state.waits_for_lanes().then(|| Instant::now() + LANES_LOOK);
        let times = [sync_at, self.retry_at, self.read_at, lanes_at];
        let due = times.into_iter().flatten().min();
        let look_at = state.is_behind().then(|| Instant::now() + ROOM_LOOK);
        match due.into_iter().chain(look_at).min() {
            Some(due) => _ = self.buffer.changed.wait_until(&mut state, due),
            None => self.buffer.changed.wait(&mut state),
        }
    }

    /// Drops the oldest entries if the disk buffer is full and configured to do so. Entries that
    /// were passed to lanes stay, together with all other entries in their segments.
    fn make_room(&mut self) {
        while self.buffer.lock().drops_oldest() {
            let Some(oldest) = self.files.oldest() else { return };
            self.save_without(&oldest);
            // The count comes first, so that a kill after the removal does not hide the loss.
            self.buffer.dropped_oldest(oldest.events);
            self.files.drop_oldest(&oldest);
            self.publish();
        }
    }

    /// Saves a record without the entries that are about to be dropped, so that a restart after a
    /// kill does not count them as damaged. If this fails, the restarted agent may still count
    /// them.
    fn save_without(&self, oldest: &OldestEntries) {
        let mut state = self.buffer.lock();
        let view = &mut state.view;
        view.unread_entries = view.unread_entries.saturating_sub(oldest.entries);
        view.unread_events = view.unread_events.saturating_sub(oldest.events);
        drop(state);
        if let Err(error) = (self.buffer.commit)() {
            log::debug!("sink {}: disk buffer: {error}", self.buffer.sink_id);
        }
    }

    /// Writes entries that are only in memory.
    fn write(&mut self) {
        let due = self.buffer.lock().take_due(WRITE_BYTES);
        for due in due {
            let Due { number, label, payload } = due;
            if number < self.files.next_number() {
                // The entry was encoded for a format that a reload replaced and a later reload
                // restored. Later entries are already on disk, which takes entries only in order.
                self.buffer.lock().keep_in_memory(number);
                continue;
            }
            let timer = recorder::start(EventKind::Spool);
            if let Err(error) = self.files.append(number, &label, &payload) {
                return self.failed("write", &error);
            }
            self.record(timer, "append", payload.bytes);
            self.appended.push(number);
            self.appended_bytes += payload.bytes;
            self.appended_since.get_or_insert_with(Instant::now);
        }
    }

    /// Syncs the written entries if a sync is due, and settles their holds.
    fn sync(&mut self) {
        let Some(since) = self.appended_since else { return };
        let is_urgent = self.buffer.lock().is_urgent();
        if !is_urgent && self.appended_bytes < SYNC_BYTES && since.elapsed() < SYNC_AFTER {
            return;
        }
        if let Err(error) = self.files.sync() {
            return self.failed("sync", &error);
        }
        self.appended_bytes = 0;
        self.appended_since = None;
        self.recovered();
        let holds = self.make_durable();
        for traced in holds.iter().filter_map(Hold::trace) {
            traced.buffered();
        }
        for hold in holds {
            hold.settle(Outcome::Delivered);
        }
        (self.buffer.on_room)();
    }

    /// Marks the written entries as durable. While the lanes have room and no entry on disk comes
    /// first, the lanes get the entries from memory; the other entries are read from disk later.
    /// Returns the debts that are settled.
    fn make_durable(&mut self) -> Vec<Hold> {
        let mut state = self.buffer.lock();
        let mut is_behind = self.next.is_some() || state.view.unread_entries > 0;
        let mut holds = Vec::new();
        for number in std::mem::take(&mut self.appended) {
            let waits = state.synced(number, &mut holds);
            let goes = waits && !is_behind && state.may_deal_from_memory(number);
            if goes {
                state.deal(number, &self.buffer.me);
            }
            is_behind |= waits && !goes;
            if !waits || goes {
                self.files.skip(number);
            }
        }
        state.leave_to_disk();
        state.view.renew(self.seen());
        self.buffer.publish(&state);
        holds
    }

    /// Removes files whose entries are all settled according to the saved record.
    fn release(&mut self) {
        let committed = self.buffer.lock().saved.position;
        if committed <= self.released {
            return;
        }
        let timer = recorder::start(EventKind::Spool);
        match self.files.release(committed) {
            Ok(()) => {
                let entries = (committed - self.released) as usize;
                self.released = committed;
                record::spool(timer, self.buffer.counters.subject(), "release", entries, 0);
            }
            Err(error) => log::debug!("sink {}: disk buffer: {error}", self.buffer.sink_id),
        }
    }

    /// Records that one payload was written or read.
    pub fn record(&self, timer: Timer, operation: &str, bytes: u64) {
        record::spool(timer, self.buffer.counters.subject(), operation, 1, bytes as usize);
    }

    /// Pauses reading after a failure. If the files have disappeared, their unread entries are
    /// counted as damaged.
    pub fn cannot_read(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            return self.begin_again();
        }
        self.read_at = Some(Instant::now() + RETRY_AFTER);
        self.report(format!("the disk buffer cannot read: {error}"));
    }

    /// Pauses after a failure. Entries that were written but not synced are rewritten.
    fn failed(&mut self, what: &'static str, error: &io::Error) {
        self.write_again();
        self.retry_at = Some(Instant::now() + RETRY_AFTER);
        if error.kind() == io::ErrorKind::NotFound {
            return self.begin_again();
        }
        self.report(format!("the disk buffer cannot {what}: {error}"));
    }

    /// Counts the unread entries as damaged, because the files or their folder have disappeared,
    /// and starts new files.
    fn begin_again(&mut self) {
        let view = self.files.view();
        if view.unread_entries > 0 {
            self.buffer.damaged(view.unread_entries, view.unread_events);
        }
        self.files.begin_again();
        self.write_again();
        self.publish();
    }

    /// Schedules entries that were written but not synced to be rewritten.
    fn write_again(&mut self) {
        self.buffer.lock().unwritten();
        self.appended.clear();
        self.appended_bytes = 0;
        self.appended_since = None;
    }

    /// Counts a failure, and logs it if it differs from the last one.
    fn report(&mut self, text: String) {
        self.buffer.counters.error("disk_buffer");
        if self.error.as_ref() != Some(&text) {
            let id = &self.buffer.sink_id;
            let rule = self.buffer.lock().rule();
            log::error!("sink {id}: {text}; until the disk buffer works again, {rule}");
        }
        self.error = Some(text);
    }

    /// Clears the recorded failure if nothing is left to write or read.
    fn forget_error(&mut self) {
        let state = self.buffer.lock();
        let is_done = !state.is_writing && state.is_empty();
        drop(state);
        if is_done && !self.is_paused() {
            self.recovered();
        }
    }

    pub fn recovered(&mut self) {
        self.retry_at = None;
        if self.error.take().is_some() {
            log::info!("sink {}: the disk buffer works again", self.buffer.sink_id);
        }
    }

    pub fn seen(&self) -> super::view::View {
        let view = self.files.view();
        let held_back = u64::from(self.next.is_some());
        let events = self.next.as_ref().map_or(0, |entry| entry.meta.events);
        super::view::View {
            unread_entries: view.unread_entries + held_back,
            unread_events: view.unread_events + events,
            error: self.error.clone(),
            ..view
        }
    }

    /// Publishes the state of the disk, and reports damaged entries.
    pub fn publish(&mut self) {
        let (entries, events) = self.files.take_damage();
        if entries > 0 {
            self.buffer.damaged(entries, events);
        }
        let mut state = self.buffer.lock();
        state.view.renew(self.seen());
        self.buffer.publish(&state);
    }

    /// Returns whether the thread must exit: it was asked to, and everything is durable or the disk
    /// has failed.
    fn ends(&self) -> bool {
        let state = self.buffer.lock();
        state.is_closing() && (self.error.is_some() || state.is_durable())
    }

    fn end(mut self) {
        self.release();
        self.publish();
        if let Err(error) = self.files.finish() {
            log::debug!("sink {}: disk buffer: {error}", self.buffer.sink_id);
        }
        let Worker { buffer, files, .. } = self;
        // The lock on the folder must be free before the folder is reopened.
        drop(files);
        buffer.lock().has_ended = true;
    }
}

impl State {
    /// Takes entries to write, oldest first, with a total of about `bytes_max` bytes.
    fn take_due(&mut self, bytes_max: u64) -> Vec<Due> {
        let mut due = Vec::new();
        let mut bytes = 0;
        self.is_writing = false;
        let wanted = self.window.iter_mut().filter(|entry| entry.place == Place::Wanted);
        for entry in wanted {
            if bytes >= bytes_max {
                self.is_writing = true;
                return due;
            }
            let Some(payload) = entry.payload.as_ref().filter(|_| !entry.is_settled) else {
                continue;
            };
            bytes += entry.bytes;
            entry.place = Place::Appended;
            let number = entry.number;
            let label = entry.label.clone();
            due.push(Due { number, label, payload: payload.copy() });
        }
        due
    }

    /// Marks an entry as one that stays in memory.
    fn keep_in_memory(&mut self, number: u64) {
        if let Some(entry) = self.window.get(number) {
            entry.place = Place::Memory;
        }
    }

    /// Marks a written entry as durable; returns whether it is waiting for its lane.
    fn synced(&mut self, number: u64, holds: &mut Vec<Hold>) -> bool {
        let Some(entry) = self.window.get(number) else { return false };
        entry.place = Place::Disk;
        holds.append(&mut entry.holds);
        if entry.is_dealt {
            entry.payload = None;
        }
        !entry.is_dealt
    }

    /// Returns whether a lane has room for a waiting entry.
    fn may_deal_from_memory(&mut self, number: u64) -> bool {
        let entry = self.window.get(number).map(|entry| (entry.label.lanes, entry.bytes));
        self.deals() && entry.is_some_and(|(lanes, bytes)| self.may_deal(lanes, bytes))
    }

    /// Forgets the durable entries that no lane has received. They are read from disk when their
    /// turn comes.
    fn leave_to_disk(&mut self) {
        drop(self.window.remove(|entry| entry.place == Place::Disk && !entry.is_dealt));
    }

    /// Records that the entries that were written but not synced are not on disk.
    fn unwritten(&mut self) {
        self.is_writing = true;
        for entry in self.window.iter_mut() {
            if entry.place == Place::Appended {
                entry.place = Place::Wanted;
            }
        }
    }
}
