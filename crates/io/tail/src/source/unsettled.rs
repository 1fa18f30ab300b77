//! How much of a file is still undelivered, and whether the agent can read it after a restart.

use crate::content::Content;
use crate::identity::Inode;
use crate::tail::Tail;
use millstream_model::{EngineTime, OriginId, Owed, Remainder, SinkSet, SourceCx, SourceOpen};
use rustix::fs::fstat;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A rotated file is linked or copied once its oldest unsettled range is this old, even if every sink is
/// ready. This is longer than the latency of a sink that syncs every second.
const LINK_AFTER: Duration = Duration::from_millis(1500);

/// Maximum number of bytes in which lines are counted. For more bytes, the count is extrapolated.
const COUNT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes per read when counting lines.
const COUNT_BYTES: usize = 256 * 1024;

/// A deleted file. Deleted files are ordered by their time of deletion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeletedFile {
    /// When the file was deleted.
    pub since: EngineTime,
    pub id: OriginId,
    /// Bytes on disk.
    pub bytes: u64,
}

impl DeletedFile {
    /// Describes a file; `None` if the file is not deleted.
    pub(super) fn of(tail: &Tail) -> Option<DeletedFile> {
        let content = tail.open_content().filter(|_| tail.is_rotated())?;
        let stat = fstat(content.file()).ok()?;
        if !tail.is_deleted() {
            return None;
        }
        Some(DeletedFile {
            since: tail.gone_since().unwrap_or(tail.grown()),
            id: tail.id(),
            // Count blocks instead of using the size, because a copy has a hole in place of its
            // settled bytes.
            bytes: stat.st_blocks as u64 * 512,
        })
    }
}

/// Returns whether delivery of a rotated file is so late that the file should be linked or copied:
/// data has been in flight for a long time, or there is unread data and a sink is not among the
/// `ready` ones.
pub(super) fn is_late(tail: &Tail, owed: &Owed, ready: SinkSet, cx: &SourceCx<'_>) -> bool {
    let age = |issued| cx.now.since_start - issued;
    let is_blocked = !cx.sinks.is_subset(ready);
    let is_old = owed.oldest.is_some_and(|issued| age(issued) >= LINK_AFTER);
    is_old || is_blocked && tail.has_unread() && unsettled(tail, owed) > 0
}

/// Returns the number of bytes in a file that at least one sink has not settled; for a compressed
/// file, this is its size, or 0 if everything is settled.
pub(super) fn unsettled(tail: &Tail, owed: &Owed) -> u64 {
    let Some(content) = tail.open_content() else {
        return tail.origin().state.size.load(Relaxed).saturating_sub(owed.settled);
    };
    let size = fstat(content.file()).map_or(0, |stat| stat.st_size as u64);
    if !content.is_compressed() {
        return size.saturating_sub(owed.settled);
    }
    let is_settled =
        tail.end().is_some_and(|end| end <= owed.settled && !tail.cursors().is_behind(end));
    if is_settled { 0 } else { size }
}

/// Returns whether the agent can find the file after a restart: by a matching name, or in the
/// folder in which the file was first seen.
pub(super) fn is_reachable(tail: &Tail) -> bool {
    if tail.gone_since().is_none() || tail.is_deleted() {
        return !tail.is_deleted();
    }
    let is_it =
        |path: &Path| rustix::fs::stat(path).is_ok_and(|stat| Inode::of(&stat) == tail.inode());
    let name = Path::new(tail.descriptor().name());
    let folder = name.parent();
    let Some(entries) = folder.and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return false;
    };
    is_it(name) || entries.flatten().any(|entry| is_it(&entry.path()))
}

/// Returns the number of bytes after offset `from` in a file, and the number of lines in them.
pub(super) fn rest_of(tail: &Tail, from: u64) -> Remainder {
    let Some(content) = tail.open_content() else {
        let bytes = tail.origin().state.size.load(Relaxed).saturating_sub(from);
        return Remainder { files: 1, bytes, events: u64::from(bytes > 0) };
    };
    let size = fstat(content.file()).map_or(0, |stat| stat.st_size as u64);
    let is_read = content.is_compressed() && tail.end().is_some_and(|end| end <= from);
    let bytes = if is_read {
        0
    } else if content.is_compressed() {
        size
    } else {
        size.saturating_sub(from)
    };
    let events = if bytes == 0 { 0 } else { count_lines(content.duplicate(), from, bytes) };
    Remainder { files: u64::from(bytes > 0), bytes, events }
}

/// Returns the number of lines after offset `from`. Beyond [`COUNT_BYTES_MAX`], the number is an
/// estimate. A last line without a line ending counts.
fn count_lines(mut content: Content, from: u64, bytes: u64) -> u64 {
    let mut buffer = vec![0; COUNT_BYTES];
    let mut at = from;
    let mut lines = 0;
    let mut last = b'\n';
    while at - from < COUNT_BYTES_MAX {
        match content.read_at(&mut buffer, at) {
            Ok(n) if n > 0 => {
                lines += millstream_scan::count_newlines(&buffer[..n]) as u64;
                last = buffer[n - 1];
                at += n as u64;
            }
            _ => return lines + u64::from(last != b'\n'),
        }
    }
    let counted = at - from;
    (lines as u128 * u128::from(bytes.max(counted)) / u128::from(counted)) as u64
}

/// Counts and logs the lost data of a deleted file.
pub(super) fn count_lost(tail: &Tail, lost: Remainder, reason: &'static str, open: &SourceOpen) {
    if lost.bytes == 0 {
        return;
    }
    let counters = &open.counters;
    counters.error(reason);
    counters.dropped(reason, lost.events);
    counters.dropped_bytes(reason, lost.bytes);
    log::error!(
        "source {}: lost {} bytes ({} lines) of the deleted file {} ({reason})",
        open.info.id,
        lost.bytes,
        lost.events,
        tail.path().display()
    );
}
