//! Which connections of a receiver have ended, whichever thread has them.

use crate::sys::{timespec, watch};
use rustix::event::epoll::{self, EventFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

/// Ended connections that are found at once: enough to make room for one more.
const FOUND_MAX: usize = 256;

/// The ends of connections, apart from what they send: to find those that have ended takes no look at the others.
#[derive(Debug)]
pub struct Ends {
    epoll: OwnedFd,
    next_mark: AtomicU64,
    /// How many were closed so far.
    closed: AtomicUsize,
}

impl Ends {
    /// No connections yet; their marks begin with this one.
    pub fn new(first_mark: u64) -> io::Result<Ends> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Ends { epoll, next_mark: AtomicU64::new(first_mark), closed: AtomicUsize::new(0) })
    }

    /// Begins to watch a connection, until it is closed or forgotten; returns its mark, which no other one has.
    pub fn watch(&self, connection: &OwnedFd) -> io::Result<u64> {
        let mark = self.next_mark.fetch_add(1, Relaxed);
        watch(&self.epoll, connection.as_fd(), mark, EventFlags::RDHUP)?;
        Ok(mark)
    }

    /// Closes a connection.
    pub fn close(&self, connection: OwnedFd) {
        // First: whoever does not find it any more knows then that it was closed.
        self.closed.fetch_add(1, SeqCst);
        drop(connection);
    }

    /// How many were closed so far.
    pub fn closed(&self) -> usize {
        self.closed.load(SeqCst)
    }

    /// Leaves a connection to another receiver.
    pub fn forget(&self, connection: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, connection);
    }

    /// Marks of connections whose other end is closed and that are still open here.
    pub fn find(&self) -> Vec<u64> {
        let mut ended = Vec::with_capacity(FOUND_MAX);
        let room = rustix::buffer::spare_capacity(&mut ended);
        let _ = epoll::wait(&self.epoll, room, Some(&timespec(Duration::ZERO)));
        ended.iter().map(|event| event.data.u64()).collect()
    }
}
