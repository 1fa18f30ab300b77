//! Tells whether a compressed file is still being written.

use super::identity::Inode;
use millstream_model::Now;
use rustix::fs::Stat;
use std::collections::HashMap;
use std::time::Duration;

/// Time without a change of size after which a compressed file is complete.
pub const STABLE_AFTER: Duration = Duration::from_secs(2);

/// Age of the last write from which on a file is complete at first sight.
const OLD_AFTER: Duration = Duration::from_secs(10);

/// The sizes of compressed files at the last checks.
#[derive(Default)]
pub struct Stability(HashMap<Inode, Seen>);

struct Seen {
    size: u64,
    /// Since when it has that size.
    since: Duration,
    /// Whether it was checked since the last sweep.
    looked_at: bool,
}

impl Stability {
    /// Checks a file; returns whether it is complete: its size is stable, or its last write is long
    /// ago.
    pub fn observe(&mut self, inode: Inode, stat: &Stat, now: Now) -> bool {
        let age_s = (now.unix_ns / 1_000_000_000).saturating_sub(stat.st_mtime);
        let (now, size) = (now.since_start, stat.st_size as u64);
        let seen = self.0.entry(inode).or_insert(Seen { size, since: now, looked_at: true });
        seen.looked_at = true;
        if seen.size != size {
            (seen.size, seen.since) = (size, now);
        }
        let complete =
            age_s >= OLD_AFTER.as_secs() as i64 || now.saturating_sub(seen.since) >= STABLE_AFTER;
        if complete {
            self.0.remove(&inode);
        }
        complete
    }

    /// Forgets files that were not checked since the last sweep: they are gone.
    pub fn sweep(&mut self) {
        self.0.retain(|_, seen| std::mem::take(&mut seen.looked_at));
    }
}
