//! What it takes to wait for descriptors.

use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Begins to wait for these events of a descriptor.
pub fn watch(
    epoll: &OwnedFd,
    fd: BorrowedFd<'_>,
    mark: u64,
    flags: epoll::EventFlags,
) -> io::Result<()> {
    Ok(epoll::add(epoll, fd, epoll::EventData::new_u64(mark), flags)?)
}

/// A time limit as the kernel takes it.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
