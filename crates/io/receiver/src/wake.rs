//! Wakes a thread that is waiting for its sockets.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An eventfd that is readable from a wake-up until the next reset.
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        // The write fails only if the counter is at its maximum, and in that case the thread is
        // being woken anyway.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub fn reset(&self) {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.0, &mut counter);
    }
}
