//! Copies of undelivered deleted files, which a thread makes while the source runs.
//!
//! A deleted file without a link exists only while the agent has it open. Its unsettled remainder
//! is therefore copied to `data_dir`, so that it survives `kill -9`. The copy follows the file if
//! the file still grows. The source continues reading the file itself.

use super::FINISH_SILENCE;
use crate::copier::{Copier, NewCopy, Order, Report, Work};
use crate::held::copy::{CopySource, HeldCopy};
use crate::tail::Tail;
use millstream_model::{EngineTime, OriginId, SourceOpen};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time after which a failed copy is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// File systems allocate blocks of at least this size, in bytes.
const BLOCK_BYTES: u64 = 4096;

/// The copies of one source.
#[derive(Default)]
pub(super) struct BackgroundCopies {
    /// The thread, once there was something to copy.
    copier: Option<Copier>,
    copies: HashMap<OriginId, BackgroundCopy>,
    /// Files that could not be copied, each with the time at which to try again.
    failed: HashMap<OriginId, EngineTime>,
    /// Reports that arrived while a test waited for the thread.
    #[cfg(test)]
    arrived: std::collections::VecDeque<Report>,
}

/// A copy of one file.
struct BackgroundCopy {
    /// Stops the order that the thread is working on.
    stop: Arc<AtomicBool>,
    /// The copy; `None` while the thread is working on it.
    idle: Option<HeldCopy>,
    /// Whether the copy is not needed anymore.
    is_discarded: bool,
    /// Whether the copy was logged.
    is_logged: bool,
    /// The end in the last order.
    ordered: CopyEnd,
    /// Size of the file in bytes.
    size: u64,
    /// Time since which the file has had this size.
    since: EngineTime,
    /// Disk space, in bytes, that the copy needs.
    bytes: u64,
}

/// The end of a file up to which a copy was ordered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct CopyEnd {
    /// Size of the file in bytes.
    size: u64,
    /// Whether a last line without a line ending belongs to the copy.
    unfinished: bool,
}

/// A file that is to be copied.
pub(super) struct CopyRequest<'a> {
    pub tail: &'a Tail,
    /// Size of the file in bytes.
    pub size: u64,
    /// Disk space, in bytes, that the copy needs.
    pub bytes: u64,
    pub now: EngineTime,
}

impl BackgroundCopies {
    /// Returns whether the file has a copy.
    pub(super) fn has(&self, id: OriginId) -> bool {
        self.copies.contains_key(&id)
    }

    /// Returns the disk space in bytes that a copy needs; 0 if the file has no copy.
    pub(super) fn bytes_of(&self, id: OriginId) -> u64 {
        self.copies.get(&id).map_or(0, |copy| copy.bytes)
    }

    /// Returns whether a copy of the file failed a short time ago.
    pub(super) fn must_wait(&self, id: OriginId, now: EngineTime) -> bool {
        self.failed.get(&id).is_some_and(|retry_at| now < *retry_at)
    }

    /// Forgets that copies of the file have failed.
    pub(super) fn forget_failure(&mut self, id: OriginId) {
        self.failed.remove(&id);
    }

    /// Records that a file could not be copied; returns whether this is the first time.
    pub(super) fn note_failed(&mut self, id: OriginId, now: EngineTime) -> bool {
        self.failed.insert(id, now + RETRY_AFTER).is_none()
    }

    /// Begins a copy in `folder`.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn begin(
        &mut self,
        request: &CopyRequest<'_>,
        folder: &Path,
        open: &SourceOpen,
    ) -> io::Result<()> {
        let tail = request.tail;
        let Some(content) = tail.open_content() else { return Ok(()) };
        let new = NewCopy {
            source: CopySource::new(tail.id(), content),
            sinks: open.sinks.iter().map(|(_, sink)| sink.clone()).collect(),
            start: tail.descriptor().start,
        };
        let copier = match &mut self.copier {
            Some(copier) => copier,
            None => self.copier.insert(Copier::start(folder.to_path_buf(), open.store.clone())?),
        };
        let stop = Arc::<AtomicBool>::default();
        let order = Order { work: Work::Begin(new), unfinished: false, stop: stop.clone() };
        if copier.order(order) {
            let copy = BackgroundCopy {
                stop,
                idle: None,
                is_discarded: false,
                is_logged: false,
                ordered: CopyEnd { size: request.size, unfinished: false },
                size: request.size,
                since: request.now,
                bytes: request.bytes,
            };
            self.copies.insert(tail.id(), copy);
        } else {
            // The thread has panicked. The next attempt starts another one.
            self.copier = None;
        }
        Ok(())
    }

    /// Continues the copy of a file with this size, if the file has grown. The last line of a file
    /// that no longer grows is treated as complete.
    pub(super) fn follow(&mut self, id: OriginId, size: u64, now: EngineTime) {
        let Some(copier) = &mut self.copier else { return };
        let Some(copy) = self.copies.get_mut(&id) else { return };
        if size != copy.size {
            copy.size = size;
            copy.since = now;
        }
        let end = CopyEnd { size, unfinished: now - copy.since >= FINISH_SILENCE };
        let Some(idle) = copy.idle.take_if(|idle| end != copy.ordered && !idle.has_all(size))
        else {
            return;
        };
        copy.stop = Arc::default();
        copy.bytes += whole_blocks(size.saturating_sub(idle.synced()));
        copy.ordered = end;
        let work = Work::Continue(idle);
        let order = Order { work, unfinished: end.unfinished, stop: copy.stop.clone() };
        if !copier.order(order) {
            self.copies.remove(&id);
        }
    }

    /// Records that a copy is logged if it is whole for the first time; returns whether it is.
    pub(super) fn note_logged(&mut self, id: OriginId) -> bool {
        let Some(copy) = self.copies.get_mut(&id) else { return false };
        let is_whole = copy.idle.as_ref().is_some_and(HeldCopy::is_whole);
        is_whole && !std::mem::replace(&mut copy.is_logged, true)
    }

    /// Returns the next report of the thread, if there is one.
    pub(super) fn next_report(&mut self) -> Option<Report> {
        #[cfg(test)]
        if let Some(report) = self.arrived.pop_front() {
            return Some(report);
        }
        self.copier.as_mut()?.next_report()
    }

    /// Takes the copy out of a report; returns `false` if it is not needed anymore.
    pub(super) fn note_report(&mut self, report: &mut Report) -> bool {
        let Some(copy) = self.copies.get_mut(&report.id) else { return false };
        let is_discarded = copy.is_discarded;
        if let Some(outcome) = &mut report.outcome {
            copy.idle = outcome.copy.take();
            match &copy.idle {
                Some(idle) if !is_discarded => {
                    copy.bytes = idle.disk_bytes();
                    if !idle.is_whole() {
                        copy.ordered = CopyEnd::default();
                    }
                }
                _ => _ = self.copies.remove(&report.id),
            }
        }
        !is_discarded
    }

    /// Discards the copy of a file, because it is not needed or not valid. Returns `false` if the
    /// thread is still working on it.
    pub(super) fn discard(&mut self, id: OriginId) -> bool {
        let Some(copy) = self.copies.get_mut(&id) else { return true };
        copy.is_discarded = true;
        copy.bytes = 0;
        copy.stop.store(true, Relaxed);
        let is_idle = copy.idle.is_some();
        if is_idle {
            self.copies.remove(&id);
        }
        is_idle
    }

    /// Stops the thread's work, so that it returns all copies.
    pub(super) fn stop(&self) {
        self.copies.values().for_each(|copy| copy.stop.store(true, Relaxed));
    }

    /// Waits until `deadline` for the next report. Returns `None` if the thread has no more work.
    pub(super) fn wait_for_report(&mut self, deadline: Instant) -> Option<Report> {
        #[cfg(test)]
        if let Some(report) = self.arrived.pop_front() {
            return Some(report);
        }
        self.copier.as_mut()?.wait_for_report(deadline)
    }

    /// Returns the ids of the files with a copy.
    pub(super) fn ids(&self) -> Vec<OriginId> {
        self.copies.keys().copied().collect()
    }

    /// Returns a copy, unless the thread is working on it.
    pub(super) fn idle_copy(&mut self, id: OriginId) -> Option<&mut HeldCopy> {
        self.copies.get_mut(&id)?.idle.as_mut()
    }

    /// Waits until the thread has no more work. The next poll of the source processes the reports.
    #[cfg(test)]
    pub(super) fn settle(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let Some(copier) = &mut self.copier else { return };
        while let Some(report) = copier.wait_for_report(deadline) {
            self.arrived.push_back(report);
        }
    }
}

impl Drop for BackgroundCopies {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Rounds a number of bytes up to whole blocks.
pub(super) fn whole_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}
