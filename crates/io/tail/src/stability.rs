//! Detects compressed files and copies that are still being written.

use super::identity::Inode;
use millstream_model::{EngineTime, Now};
use rustix::fs::Stat;
use std::collections::HashMap;
use std::time::Duration;

/// A compressed file or copy is treated as complete once its size has not changed for this long.
pub const STABLE_AFTER: Duration = Duration::from_secs(2);

/// A file whose last write is at least this old is treated as complete immediately.
const OLD_AFTER: Duration = Duration::from_secs(10);

/// Sizes of files at their last check.
#[derive(Default)]
pub struct Stability(HashMap<Inode, Observation>);

struct Observation {
    size: u64,
    /// Time at which the current size was first observed.
    since: EngineTime,
    /// Whether the file was checked since the last sweep.
    checked: bool,
}

impl Stability {
    /// Records the size of a file; returns whether the file is complete, judged by a stable size or
    /// an old modification time.
    pub fn observe(&mut self, inode: Inode, stat: &Stat, now: Now) -> bool {
        let age_s = (now.unix_ns / 1_000_000_000).saturating_sub(stat.st_mtime);
        let now = now.since_start;
        let size = stat.st_size as u64;
        let new = Observation { size, since: now, checked: true };
        let last = self.0.entry(inode).or_insert(new);
        last.checked = true;
        if last.size != size {
            last.size = size;
            last.since = now;
        }
        let complete = age_s >= OLD_AFTER.as_secs() as i64 || now - last.since >= STABLE_AFTER;
        if complete {
            self.0.remove(&inode);
        }
        complete
    }

    /// Removes files that were not checked since the last sweep, because they no longer exist.
    pub fn sweep(&mut self) {
        self.0.retain(|_, last| std::mem::take(&mut last.checked));
    }
}
