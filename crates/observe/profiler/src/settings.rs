//! Settings for a profile, and the reasons why a profile cannot start.

use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// Minimum interval, because the kernel's ticks, at which it checks timers, are 1 to 10 ms apart.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Maximum interval. With a longer interval, a profile of a few seconds would have no samples.
pub(crate) const INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Minimum buffer size in bytes: enough for about 60 samples of the deepest stacks.
pub(crate) const BUFFER_BYTES_MIN: usize = 64 << 10;

/// Maximum buffer size in bytes. 4 MiB is enough for 100 ms of samples from a hundred threads at an
/// interval of 1 ms.
pub(crate) const BUFFER_BYTES_MAX: usize = 256 << 20;

/// The event at which threads are sampled.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownEvent, parse_err_fn = unknown_event)]
pub enum Event {
    /// A thread is sampled each time it has used one interval of CPU time.
    Cpu,
    /// A thread is sampled once per interval of wall time, even while it waits. System calls that
    /// the kernel does not restart, such as `epoll_wait`, return `EINTR`.
    Wall,
    /// A thread is sampled about once per [`ALLOC_BYTES`] of objects that it allocates in a
    /// [`Runtime`](crate::Runtime). The interval is ignored.
    Alloc,
}

/// Number of allocated bytes that one [`Event::Alloc`] sample represents.
pub const ALLOC_BYTES: u64 = 512 << 10;

/// The error for text that is not the name of an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown event `{0}`; use `cpu`, `wall` or `alloc`")]
pub struct UnknownEvent(String);

fn unknown_event(text: &str) -> UnknownEvent {
    UnknownEvent(text.to_owned())
}

/// The settings for a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The event to sample.
    pub event: Event,
    /// CPU time or wall time between two samples of a thread: 1 ms to 1 s.
    pub interval: Duration,
    /// Bytes of the buffer, which must have room for about 100 ms of samples: 64 KiB to 256 MiB,
    /// rounded down to a power of two. A sample takes 16 bytes plus 8 bytes per frame.
    pub buffer_bytes: usize,
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), StartError> {
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&self.interval) {
            return Err(StartError::Interval(self.interval));
        }
        if !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&self.buffer_bytes) {
            return Err(StartError::Buffer(self.buffer_bytes));
        }
        Ok(())
    }
}

/// Reason why a profile did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Allocations can be sampled only in a runtime, but the process has no runtime.
    #[error("`alloc` samples objects of the JVM inside the agent, but the agent runs no JVM")]
    NoRuntime,
    /// The interval is out of range.
    #[error("the interval {0:?} is out of range; use 1 ms to 1 s")]
    Interval(Duration),
    /// The buffer size is out of range.
    #[error("a buffer of {0} bytes is out of range; use 64 KiB to 256 MiB")]
    Buffer(usize),
    /// Another profile is running in this process.
    #[error("another profile is running in this process; retry after it ends")]
    Running,
    /// Another library handles the signal that is used for sampling.
    #[error(
        "another library in this process, such as a JVM profiler, handles SIGPROF; stop that \
         profiler, then retry"
    )]
    ForeignHandler,
    /// The system rejected an action.
    #[error("cannot {action}: {source}")]
    System {
        /// The action that was rejected.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl StartError {
    /// Returns a function that creates the error for a rejected action.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> StartError {
        move |source| StartError::System { action, source }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Settings, StartError};
    use std::time::Duration;

    #[test]
    fn events_have_names() {
        for event in [Event::Cpu, Event::Wall, Event::Alloc] {
            assert_eq!(event.to_string().parse::<Event>().unwrap(), event);
            assert_eq!(serde_json::to_string(&event).unwrap(), format!("\"{event}\""));
        }
        let unknown = "lock".parse::<Event>().unwrap_err();
        assert_eq!(unknown.to_string(), "unknown event `lock`; use `cpu`, `wall` or `alloc`");
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let good = Settings {
            event: Event::Cpu,
            interval: Duration::from_millis(1),
            buffer_bytes: 1 << 20,
        };
        assert!(good.check().is_ok());
        for interval in [Duration::from_micros(999), Duration::from_millis(1001)] {
            let refused = Settings { interval, ..good }.check();
            assert!(matches!(refused, Err(StartError::Interval(_))), "{refused:?}");
        }
        for buffer_bytes in [0, 65_535, (256 << 20) + 1] {
            let refused = Settings { buffer_bytes, ..good }.check();
            assert!(matches!(refused, Err(StartError::Buffer(_))), "{refused:?}");
        }
    }
}
