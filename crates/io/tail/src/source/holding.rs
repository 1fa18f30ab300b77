//! Holds undelivered rotated files while the source runs, and drops the files beyond the limit.
//!
//! A file is linked while it still has a name. A file that is deleted without a link is copied.

use super::history::History;
use super::orphans::Orphan;
use super::retention::Retention;
use super::scope::Scope;
use super::tails::{Reopening, Tails};
use super::unsettled::{DeletedFile, count_lost, is_late, rest_of, unsettled};
use crate::records::forget;
use crate::tail::Tail;
use millstream_model::{HeldFiles, OriginId, SourceCx};

/// Drop reason for data in deleted files that exceed the limit `held.max`.
pub(super) const HELD_MAX: &str = "held_max";

/// The parts of the source that change when a file is held or dropped.
pub(super) struct Holding<'a> {
    pub scope: &'a Scope,
    pub files: &'a mut Tails,
    pub history: &'a mut History,
    pub retention: &'a mut Retention,
}

impl Holding<'_> {
    /// Links undelivered files that have just been renamed or have lost their last name.
    pub(super) fn pin_moved(&mut self, cx: &SourceCx<'_>) {
        let now = cx.now.since_start;
        let has_moved = |tail: &&mut Tail| tail.has_moved(now) && tail.held().is_none();
        for tail in self.files.iter_mut().filter(has_moved) {
            tail.clear_moved();
            if cx.ledger.owed(tail.id()).is_some_and(|owed| is_late(tail, &owed, cx.ready, cx)) {
                self.retention.pin(tail, &cx.info.id);
            }
        }
        self.retention.sync(&cx.info.id);
    }

    /// Links undelivered rotated files, and releases settled ones.
    pub(super) fn update_held(&mut self, cx: &SourceCx<'_>) {
        let mut settled = Vec::new();
        for tail in self.files.iter_mut().filter(|tail| tail.held().is_some() || tail.is_rotated())
        {
            let Some(owed) = cx.ledger.owed(tail.id()) else { continue };
            self.retention.check(tail);
            tail.update_status();
            if tail.held().is_some() {
                if unsettled(tail, &owed) == 0 {
                    settled.push((tail.id(), owed));
                }
            } else if is_late(tail, &owed, cx.ready, cx) {
                self.retention.pin(tail, &cx.info.id);
            }
        }
        self.retention.sync(&cx.info.id);
        for (id, owed) in settled {
            // A link or copy that the source reads stays until the file is closed.
            let is_source = |tail: &Tail| tail.is_deleted() && !self.retention.has_copy(id);
            if !owed.moved
                && self.scope.open.store.is_committed(id)
                && let Some(tail) = self.files.get_mut(id).filter(|tail| !is_source(tail))
            {
                self.retention.release(tail);
            }
        }
    }

    /// Drops deleted files, starting with the oldest deletion, until the remaining files are within
    /// the limit.
    pub(super) fn bound_held(&mut self, cx: &SourceCx<'_>) {
        let mut deleted: Vec<DeletedFile> = self.files.iter().filter_map(DeletedFile::of).collect();
        deleted.sort_unstable();
        let mut held = HeldFiles {
            files: deleted.len() as u64,
            bytes: deleted.iter().map(|file| file.bytes).sum(),
            copied_bytes: 0,
            bytes_max: self.retention.bytes_max(),
        };
        let mut kept = &deleted[..];
        while let Some((file, newer)) = kept.split_first()
            && held.bytes > held.bytes_max
        {
            kept = newer;
            held.files -= 1;
            held.bytes -= file.bytes;
            self.give_up(file.id, HELD_MAX, cx);
        }
        let space = held.bytes_max.saturating_sub(held.bytes);
        held.copied_bytes = self.copy_deleted(kept, space, cx);
        self.retention.forget_delivered(cx.ledger);
        cx.counters.set_held(held);
        self.retention.note_usage(held, cx.now.since_start, &cx.info.id);
    }

    /// Copies deleted files that have no link and are delivered late, within `space` bytes; returns
    /// the size of all copies. If there is not enough space, the files that were deleted first have
    /// no copy.
    fn copy_deleted(&mut self, deleted: &[DeletedFile], space: u64, cx: &SourceCx<'_>) -> u64 {
        self.take_copy_reports(cx);
        let now = cx.now.since_start;
        let open = &self.scope.open;
        // Disk buffers take the rest of a file that is to be spooled.
        let ready = cx.ready | cx.overflow;
        let mut used = 0;
        for file in deleted.iter().rev() {
            let Some(tail) = self.files.get_mut(file.id) else { continue };
            if self.retention.has_copy(file.id) {
                let left = space.saturating_sub(used);
                used += self.retention.follow_copy(tail, left, now, &cx.info.id);
            } else if tail.held().is_none()
                && let Some(owed) = cx.ledger.owed(file.id)
                && is_late(tail, &owed, ready, cx)
            {
                let left = space.saturating_sub(used);
                used += self.retention.begin_copy(tail, &owed, left, now, open);
            }
        }
        used
    }

    fn take_copy_reports(&mut self, cx: &SourceCx<'_>) {
        while let Some(report) = self.retention.next_copy_report() {
            let tail = self.files.get_mut(report.id);
            self.retention.note_report(report, tail, cx.now.since_start, &cx.info.id);
        }
        self.retention.sync(&cx.info.id);
    }

    /// Drops a file; counts and logs its unread data.
    fn give_up(&mut self, id: OriginId, reason: &'static str, cx: &SourceCx<'_>) {
        let generations = &mut self.history.records.generations;
        let Some(mut tail) = self.files.remove(id, generations) else { return };
        let open = &self.scope.open;
        let from = tail.cursors().list().iter().map(|cursor| cursor.position).min();
        let lost = rest_of(&tail, from.unwrap_or(0));
        count_lost(&tail, lost, reason, open);
        if let Some(owed) = cx.ledger.owed(id).filter(|owed| owed.in_flight > 0) {
            self.retention.note_given_up(id, rest_of(&tail, owed.settled));
            log::warn!(
                "source {}: dropped {} ({reason}); {} bytes of the file are in flight and are lost \
                 if the agent stops before delivery",
                cx.info.id,
                tail.name(),
                owed.in_flight
            );
        }
        self.retention.release(&mut tail);
        self.history.orphans.close(id);
        forget(&[id], &*open.store, &cx.info.id);
        // Keep the file's record for a while, so that a compressed copy is recognized and its lines
        // are not read as new.
        tail.update_fingerprint();
        let orphan = Orphan::new(tail, &open.sinks, cx.now.since_start);
        self.history.orphans.push(orphan.without_loss());
    }

    /// Reopens a file that was closed because of the limit on open files; returns whether it can be
    /// read. The files in `beside` stay open. Drops the file if no path refers to it.
    pub(super) fn reopen(&mut self, id: OriginId, beside: &[OriginId], cx: &SourceCx<'_>) -> bool {
        let held = self.files.get(id).and_then(Tail::held);
        let held = held.map(|file| self.retention.path_of(file));
        match self.files.reopen(id, beside, held, self.scope, cx.now.since_start) {
            Reopening::Open => true,
            Reopening::Later => {
                cx.counters.error("read");
                false
            }
            Reopening::Gone => {
                self.give_up(id, "closed_unread", cx);
                false
            }
        }
    }
}
