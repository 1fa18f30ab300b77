//! Limits of the engine, with unit and reason.

use std::time::Duration;

/// Part of `limits.memory` that data in flight may take; the rest is for the program itself, the
/// state of components and what the allocator keeps.
pub const GRANT_PERCENT: u64 = 50;

/// Part of `limits.memory` that sinks may take beside what is in flight: the state of compressors.
pub const STATE_PERCENT: u64 = 25;

/// Bytes one sink may have waiting in its lanes at most, whatever the grant. Little, so that what
/// is delivered was encoded just before and is still in cache, and the buffers of all of it are
/// recycled: with 32 MiB the same load costs a tenth more CPU. More would not make a slow sink
/// faster; it is detached instead, and reads from the file again.
pub const SINK_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How long a sink may have no room before the sources go on without it. Long enough that a sink
/// with a slow disk is not detached at every sync, short enough that the others do not notice.
pub const DETACH_AFTER: Duration = Duration::from_millis(100);

/// How often a source that waits for room is asked again, in case nobody wakes it.
pub const ROOM_RETRY: Duration = Duration::from_millis(25);

/// How often checkpoints are committed, and utilisation is sampled.
pub const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// How often the log says that a full buffer drops events.
pub const SHED_AGAIN: Duration = Duration::from_secs(30);

/// How often the same trouble of a sink is said in the log.
pub const TROUBLE_AGAIN: Duration = Duration::from_secs(30);

/// Longest pause before a lane that panicked is opened again: the panic is about one payload, and
/// the others wait for it to be found.
pub const PANIC_PAUSE_MAX: Duration = Duration::from_millis(250);

/// How often an idle worker that does not lead looks at the timers: the leader may be held up in a
/// source whose disk hangs.
pub const FOLLOWER_LOOK: Duration = Duration::from_secs(1);

/// A sink whose queue has been full for this long is said to be in trouble: in `/ready`, in the
/// snapshot and in the log.
pub const FULL_AFTER: Duration = Duration::from_secs(5);
