//! Whether a file may have changed since it was read.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How long after its last change a file may change again without another time stamp: kernels note
/// times in steps of up to 10 ms, and network file systems in whole seconds.
const STEP: Duration = Duration::from_secs(2);

/// What tells one state of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of the file at `path` (links are followed), taken before it is read.
    /// [`None`] for one that was changed a moment ago: it has to be read again next time.
    pub fn of(path: &Path) -> io::Result<Option<Stamp>> {
        let about = path.metadata()?;
        let stamp = Stamp {
            device: about.dev(),
            inode: about.ino(),
            bytes: about.len(),
            changed: (about.ctime(), about.ctime_nsec()),
        };
        Ok(has_settled(&about).then_some(stamp))
    }
}

fn has_settled(about: &Metadata) -> bool {
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(about.ctime().max(0) as u64);
    changed.elapsed().is_ok_and(|age| age > STEP)
}
