//! Detects whether a file may have changed since it was read.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Two changes to a file within this time may leave the same timestamp. Kernel timestamps have a
/// granularity of up to 10 ms, and network file systems have a granularity of whole seconds.
const TIMESTAMP_STEP: Duration = Duration::from_secs(2);

/// Identifies one state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of the file at `path`, following links. Call this function before reading
    /// the file. [`None`] means that the file changed so recently that it must be reread next time.
    pub fn of(path: &Path) -> io::Result<Option<Stamp>> {
        let metadata = path.metadata()?;
        let stamp = Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        Ok(is_stable(&metadata).then_some(stamp))
    }
}

fn is_stable(metadata: &Metadata) -> bool {
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(metadata.ctime().max(0) as u64);
    changed.elapsed().is_ok_and(|age| age > TIMESTAMP_STEP)
}
