//! The engine's limits.

use std::time::Duration;

/// Percentage of `limits.memory` for data in flight. The remaining memory is for the program,
/// component state and allocator overhead.
pub const GRANT_PERCENT: u64 = 50;

/// Percentage of `limits.memory` for the state of sinks, such as compressors.
pub const STATE_PERCENT: u64 = 25;

/// Maximum bytes queued in one sink's lanes, regardless of the grant. The limit is small, so that
/// payloads are delivered while they are still in cache, and their buffers are recycled: with 32
/// MiB, the same load costs a tenth more CPU. A larger queue would not speed up a slow sink, which
/// is detached instead and rereads the data from the file.
pub const SINK_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How long a sink may lack capacity before the other sinks continue without it. The time is long
/// enough not to detach a sink with a slow disk during every sync, and too short to delay the other
/// sinks noticeably.
pub const DETACH_AFTER: Duration = Duration::from_millis(100);

/// How often a source under backpressure is polled, in case no event wakes it.
pub const ROOM_RETRY: Duration = Duration::from_millis(25);

/// How often checkpoints are committed and utilization is sampled.
pub const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// How often drops caused by a full buffer are logged.
pub const SHED_AGAIN: Duration = Duration::from_secs(30);

/// How often the same error from a sink is logged.
pub const ERROR_REPEAT: Duration = Duration::from_secs(30);

/// Maximum pause before a lane that panicked is reopened. One payload causes the panic, and the
/// other payloads wait until it is found.
pub const PANIC_PAUSE_MAX: Duration = Duration::from_millis(250);

/// How often an idle follower checks the timers. The leader may be stuck in a source whose disk
/// hangs.
pub const FOLLOWER_LOOK: Duration = Duration::from_secs(1);

/// A sink whose queue has been full for this long is reported in `/ready`, the snapshot and the
/// log.
pub const FULL_AFTER: Duration = Duration::from_secs(5);

/// Maximum number of serial and offload transforms in a source's chain. A set of them must fit into
/// one machine word.
pub const CUTS_MAX: usize = 64;

/// Calls for which tickets may wait at an offload transform, as a multiple of the concurrent calls:
/// the running call and the next one. A reload waits for all of them.
pub const CALLS_AHEAD: usize = 2;

/// Tickets that may be on their way to a transform or sink in addition to the tickets that wait
/// there: one or two per worker.
pub const TICKETS_ON_THE_WAY: u64 = 4;
