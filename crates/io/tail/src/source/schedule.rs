//! The schedule for polling a source's files, and the files that are due to be read.

use super::decompression::Decompression;
use super::files::Files;
use super::queue::ReadQueue;
use super::{PAUSE_MAX, PAUSE_MIN};
use crate::tail::Tail;
use crate::watch::Watch;
use millstream_model::{EngineTime, OriginId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Poll interval for growing files. Ten polls per second keep the delay low, and cost less than one
/// wakeup per write.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Maximum number of polls per tick. With more growing files, the tick is longer, so that 10,000
/// slowly growing files cost no more than 1,000.
const POLLS_PER_TICK: u32 = 1000;

/// A file that has not grown for this long is quiet, and is left to inotify.
pub(super) const QUIET_AFTER: Duration = Duration::from_secs(5);

/// A file is quiet after this shorter time while many files are polled, because an inotify watch
/// costs less than many polls.
const QUIET_AFTER_CROWDED: Duration = Duration::from_millis(250);

/// Number of polled files above which [`QUIET_AFTER_CROWDED`] applies.
const CROWD: u32 = 250;

/// Poll interval for a quiet file that inotify cannot watch.
pub(super) const UNWATCHED_POLL: Duration = Duration::from_secs(1);

/// Maximum number of polls per second for quiet files that inotify does not watch, until the
/// interval reaches [`QUIET_POLL`]. Each poll may have to open the file.
const UNWATCHED_POLLS_PER_SECOND: u32 = 2000;

/// Poll interval for any quiet file, because inotify events can be lost.
pub(super) const QUIET_POLL: Duration = Duration::from_secs(30);

/// A file that has not grown for this long is idle: no copy in progress can lack its last bytes.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(60);

/// The poll times, and the queue of files to read.
#[derive(Default)]
pub(super) struct Schedule {
    due: ReadQueue,
    /// Poll times and file ids, earliest first. An entry is stale unless its time equals the file's
    /// `next`.
    polls: BinaryHeap<Reverse<(EngineTime, OriginId)>>,
    /// Number of files that inotify does not watch, so that they are polled.
    active: u32,
    decompression: Decompression,
}

// Polls.
impl Schedule {
    /// Adds a file, which is due immediately. `quiet_after` is the time without growth after which
    /// it becomes quiet.
    pub(super) fn add(&mut self, tail: &mut Tail, now: EngineTime, quiet_after: Duration) {
        tail.start(now, quiet_after);
        self.due.push_back(tail);
        self.active += 1;
    }

    /// Removes a file that is no longer read. Its entries in the list of polls are skipped.
    pub(super) fn remove(&mut self, tail: &Tail) {
        self.active -= u32::from(!tail.is_watched());
        self.decompression.remove(tail.id());
    }

    /// Sets the next poll of a file.
    pub(super) fn poll_at(&mut self, tail: &mut Tail, next: EngineTime) {
        tail.set_next(next);
        self.polls.push(Reverse((next, tail.id())));
    }

    /// Polls a file immediately, because inotify reported a write.
    pub(super) fn note_write(&mut self, tail: &mut Tail, now: EngineTime) {
        self.unwatch(tail);
        self.poll_at(tail, now);
    }

    /// Starts polling a file again instead of waiting for inotify.
    pub(super) fn unwatch(&mut self, tail: &mut Tail) {
        self.active += u32::from(tail.unwatch());
    }

    /// Records that a read found new data.
    pub(super) fn note_growth(&self, tail: &mut Tail, now: EngineTime) {
        let is_crowded = self.active > CROWD;
        tail.note_growth(now, if is_crowded { QUIET_AFTER_CROWDED } else { QUIET_AFTER });
    }

    /// Sets the next poll of a file that was read to its end. If the file has an incomplete last
    /// line, `overdue` is when that line times out. Adds an inotify watch if the file is quiet.
    pub(super) fn poll_for_more(
        &mut self,
        tail: &mut Tail,
        watch: &mut Watch,
        now: EngineTime,
        overdue: Option<EngineTime>,
    ) {
        let next = now + self.pause_after(tail, watch, now);
        let overdue = overdue.filter(|overdue| now < *overdue);
        self.poll_at(tail, overdue.map_or(next, |overdue| overdue.min(next)));
    }

    fn pause_after(&mut self, tail: &mut Tail, watch: &mut Watch, now: EngineTime) -> Duration {
        if tail.gone_since().is_some() {
            return UNWATCHED_POLL;
        }
        if !tail.is_quiet(now) || tail.is_open() {
            return TICK * (1 + self.active / POLLS_PER_TICK);
        }
        if now - tail.grown() >= IDLE_AFTER {
            tail.forget_recent();
        }
        if tail.is_watched() {
            return QUIET_POLL;
        }
        let is_watched = tail.watch(watch);
        self.active -= u32::from(is_watched);
        // One more poll finds data that was written just before the watch was added.
        if is_watched { TICK } else { unwatched_poll(self.active) }
    }

    /// Returns the time until a file's next poll, limited so that inotify is checked often enough.
    pub(super) fn pause(&self, now: EngineTime) -> Duration {
        let next = self.polls.peek().map_or(EngineTime::MAX, |Reverse((next, _))| *next);
        (next - now).clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

/// Returns the poll interval for a quiet file that inotify does not watch, given the number of
/// polled files.
fn unwatched_poll(active: u32) -> Duration {
    (UNWATCHED_POLL * (1 + active / UNWATCHED_POLLS_PER_SECOND)).min(QUIET_POLL)
}

// The queue of files to read.
impl Schedule {
    /// Queues every file whose poll is due.
    pub(super) fn queue_due(&mut self, files: &mut Files, now: EngineTime) {
        while let Some(Reverse((next, id))) =
            self.polls.peek().copied().filter(|poll| poll.0.0 <= now)
        {
            self.polls.pop();
            if let Some(tail) = files.get_mut(id).filter(|tail| tail.next() == next)
                && tail.enqueue()
            {
                self.due.push_back(tail);
            }
        }
    }

    /// Frees the memory that removed files used.
    pub(super) fn shrink(&mut self, files: &Files) {
        let is_current = |next, id| files.get(id).is_some_and(|tail| tail.next() == next);
        self.polls.retain(|Reverse((next, id))| is_current(*next, *id));
        self.polls.shrink_to(2 * self.polls.len());
        self.due.shrink();
    }

    /// Returns whether any file is due.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns the number of files that are due.
    pub(super) fn due_files(&self) -> usize {
        self.due.len()
    }

    /// Takes the next file to read off the queue.
    pub(super) fn pop(&mut self, files: &Files) -> Option<OriginId> {
        self.due.pop_front(|id| files.get(id).map(Tail::path))
    }

    /// Returns whether a compressed file may be read now. One file is decompressed at a time; other
    /// files are queued after it.
    pub(super) fn may_decompress(&mut self, id: OriginId) -> bool {
        self.decompression.admit(id)
    }

    /// Queues the next compressed file if this file was read to its end.
    pub(super) fn finish_decompressing(&mut self, id: OriginId, files: &Files) {
        if let Some(next) = self.decompression.finish(id) {
            self.push_back(next, files);
        }
    }

    /// Lets another compressed file be read instead of this file, which is waiting for sinks.
    /// Returns `false` if there is no other file for which `is_readable` is true.
    pub(super) fn pass_decompression_on(
        &mut self,
        id: OriginId,
        files: &mut Files,
        is_readable: impl Fn(&mut Tail) -> bool,
    ) -> bool {
        let is_readable = |id| files.get_mut(id).is_some_and(&is_readable);
        let Some(next) = self.decompression.pass_on(id, is_readable) else { return false };
        if let Some(tail) = files.get_mut(id) {
            tail.release_decoder();
        }
        self.push_back(next, files);
        true
    }

    /// Adds a file to the end of the queue.
    pub(super) fn push_back(&mut self, id: OriginId, files: &Files) {
        if let Some(tail) = files.get(id) {
            self.due.push_back(tail);
        }
    }

    /// Adds a file to the front of the queue.
    pub(super) fn push_front(&mut self, tail: &Tail) {
        self.due.push_front(tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_unwatched_files_are_polled_less_often() {
        assert_eq!(unwatched_poll(1999), UNWATCHED_POLL);
        assert_eq!(unwatched_poll(10_000), 6 * UNWATCHED_POLL);
        assert_eq!(unwatched_poll(200_000), QUIET_POLL);
    }
}
