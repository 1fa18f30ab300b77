//! Helpers for epoll.

use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Registers a descriptor for these events. Its events carry `mark`.
pub fn register(
    epoll: &OwnedFd,
    fd: BorrowedFd<'_>,
    mark: u64,
    flags: epoll::EventFlags,
) -> io::Result<()> {
    Ok(epoll::add(epoll, fd, epoll::EventData::new_u64(mark), flags)?)
}

/// Converts a duration to the kernel's type.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
