//! Shutdown steps: hold undelivered deleted files until the agent restarts, and count lost data.

use super::copy_search::CopySearch;
use super::history::History;
use super::holding::HELD_MAX;
use super::orphans::count_truncated;
use super::retention::Retention;
use super::scope::Scope;
use super::tails::Tails;
use super::unsettled::{DeletedFile, count_lost, is_reachable, rest_of, unsettled};
use crate::tail::Tail;
use millstream_model::{EngineTime, Leftover, OriginId, Owed, Remainder};
use std::time::Instant;

/// Drop reason for data in deleted files that could not be held during shutdown.
const NOT_HELD: &str = "deleted_undelivered";

/// The parts of the source that change during shutdown.
pub(super) struct Stop<'a> {
    pub scope: &'a Scope,
    pub files: &'a mut Tails,
    pub history: &'a mut History,
    pub retention: &'a mut Retention,
}

impl Stop<'_> {
    /// Links or copies undelivered deleted files that only their descriptors hold. The newest files
    /// come first, so that the oldest are lost if disk space or time runs out.
    pub(super) fn hold_deleted(&mut self, deadline: Instant) {
        self.retention.begin_stop(deadline);
        self.finish_copies(deadline);
        self.hold_unreachable(deadline);
    }

    /// Completes the copies that were made while the source ran.
    fn finish_copies(&mut self, deadline: Instant) {
        let source = &self.scope.open.info.id;
        self.retention.stop_copies();
        while let Some(report) = self.retention.wait_for_report(deadline) {
            let tail = self.files.get_mut(report.id);
            self.retention.note_report(report, tail, EngineTime::ZERO, source);
        }
        for id in self.retention.copied_files() {
            if let Some(tail) = self.files.get_mut(id) {
                self.retention.finish_copy(tail, deadline, source);
            }
        }
    }

    fn hold_unreachable(&mut self, deadline: Instant) {
        for tail in self.files.iter_mut() {
            self.retention.check(tail);
            if !is_reachable(tail) && !tail.check_same().unwrap_or(true) {
                self.retention.note_rewritten(tail.id());
            }
        }
        let unreachable = self.unreachable();
        let held = self.files.iter().filter(|tail| tail.held().is_some());
        let held_bytes = held.filter_map(DeletedFile::of).map(|file| file.bytes).sum();
        let mut space = self.retention.bytes_max().saturating_sub(held_bytes);
        let open = &self.scope.open;
        for (_, id) in unreachable.into_iter().rev() {
            let Some(tail) = self.files.get_mut(id) else { continue };
            let copied = self.retention.hold(tail, space, deadline, &open.ledger, &open.info.id);
            space = space.saturating_sub(copied);
        }
        self.retention.sync(&open.info.id);
    }

    /// Returns the undelivered files that the agent could not find again after a restart, oldest
    /// deletion first.
    fn unreachable(&self) -> Vec<(EngineTime, OriginId)> {
        let mut unreachable: Vec<(EngineTime, OriginId)> = Vec::new();
        let is_free = |tail: &&Tail| tail.held().is_none() && !self.retention.is_unheld(tail.id());
        for tail in self.files.iter().filter(is_free) {
            let owed = self.owed(tail);
            if owed.is_some_and(|owed| unsettled(tail, &owed) > 0) && !is_reachable(tail) {
                unreachable.push((tail.gone_since().unwrap_or_default(), tail.id()));
            }
        }
        unreachable.sort_unstable();
        unreachable
    }

    /// Returns the amount of data that stays unsettled, either waiting on disk or lost. Removes
    /// links and copies of settled files.
    pub(super) fn leave_behind(&mut self) -> Leftover {
        // More files may have been deleted since the sources were closed.
        if let Some(deadline) = self.retention.deadline() {
            self.hold_unreachable(deadline);
        }
        let open = &self.scope.open;
        let mut left = Leftover::default();
        let mut settled = Vec::new();
        left.lost += self.count_unseen_truncations();
        for tail in self.files.iter() {
            let Some(owed) = self.owed(tail) else { continue };
            let bytes = unsettled(tail, &owed);
            if bytes == 0 {
                settled.push(tail.id());
                continue;
            }
            let lost = self.lost_of(tail, &owed);
            count_lost(tail, lost, NOT_HELD, open);
            if lost.bytes > 0 {
                left.lost += lost;
            }
            if bytes > lost.bytes {
                left.waiting.add_file(bytes - lost.bytes, 0);
            }
        }
        self.history.orphans.count_all(open);
        left.lost += self.count_in_flight();
        for id in settled {
            if self.scope.is_committed(id)
                && let Some(tail) = self.files.get_mut(id)
            {
                self.retention.release(tail);
            }
        }
        left
    }

    /// Counts the data of dropped files that was in flight when they were dropped, and is still
    /// undelivered.
    fn count_in_flight(&self) -> Remainder {
        let open = &self.scope.open;
        let lost = self.retention.lost_in_flight(&open.ledger);
        open.counters.dropped(HELD_MAX, lost.events);
        open.counters.dropped_bytes(HELD_MAX, lost.bytes);
        lost
    }

    /// Returns the unsettled ranges of a file.
    fn owed(&self, tail: &Tail) -> Option<Owed> {
        self.retention.owed(tail.id(), &self.scope.open.ledger)
    }

    /// Returns the data of an undelivered file that the agent cannot read after a restart.
    fn lost_of(&self, tail: &Tail, owed: &Owed) -> Remainder {
        if tail.held().is_some() {
            let copied_to = self.retention.copied_to(tail.id());
            return copied_to.map_or_else(Remainder::default, |end| rest_of(tail, end));
        }
        if is_reachable(tail) {
            return Remainder::default();
        }
        rest_of(tail, owed.settled)
    }
}

// Files truncated after the last poll.
impl Stop<'_> {
    /// Counts the unread data of files truncated after the last poll.
    fn count_unseen_truncations(&mut self) -> Remainder {
        let mut lost = Remainder::default();
        for (id, bytes) in self.unseen_truncations() {
            self.retention.note_rewritten(id);
            let search = CopySearch { scope: self.scope, files: self.files, history: self.history };
            // A copy that was deleted is lost when the process exits.
            if search.find_copy(id).is_none_or(|copy| copy.candidate.stat.st_nlink == 0) {
                let name = self.files.get(id).map_or("", Tail::name);
                count_truncated(name, bytes, &self.scope.open);
                lost.add_file(bytes, 1);
            }
        }
        lost
    }

    /// Returns the undelivered files that no longer contain what was read from them, each with its
    /// number of known undelivered bytes.
    fn unseen_truncations(&mut self) -> Vec<(OriginId, u64)> {
        let undelivered = |tail: &Tail| {
            let settled = self.scope.open.ledger.owed(tail.id())?.settled;
            let bytes = tail.known_size().saturating_sub(settled);
            (bytes > 0 && tail.gone_since().is_none()).then_some((tail.id(), bytes))
        };
        let mut undelivered: Vec<(OriginId, u64)> =
            self.files.iter().filter_map(undelivered).collect();
        undelivered.retain(|(id, _)| self.was_rewritten(*id));
        undelivered
    }

    /// Returns whether a file no longer contains what was read from it. A file that is closed
    /// because of the limit on open files is opened for the check, and is closed again unless it
    /// was rewritten.
    fn was_rewritten(&mut self, id: OriginId) -> bool {
        let closed = self.files.get(id).filter(|tail| tail.open_content().is_none());
        let reopened = closed.and_then(|tail| self.scope.open_inode(tail.path(), tail.inode()));
        let Some(tail) = self.files.get_mut(id) else { return false };
        let Some(content) = reopened else { return !tail.check_same().unwrap_or(true) };
        tail.reopen(content);
        let is_same = tail.check_same().unwrap_or(true);
        if is_same {
            tail.park();
        }
        !is_same
    }
}
