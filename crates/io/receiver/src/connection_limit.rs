//! Enforces the maximum number of open connections across a receiver's threads, and detects
//! connections that their peers have closed.

use crate::epoll::{register, timespec};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::epoll::{self, EventFlags};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of closed connections collected per `epoll_wait`.
const EVENTS_MAX: usize = 256;

/// Limits a receiver's open connections. The epoll instance watches only for hang-ups, so that
/// finding closed connections does not require a scan of the open ones.
#[derive(Debug)]
pub struct ConnectionLimit {
    epoll: OwnedFd,
    held: Mutex<Tokens>,
}

/// Tokens of the connections that occupy a slot. Each token is removed once, either when the
/// hang-up is found or when the [`Slot`] is dropped.
#[derive(Debug)]
struct Tokens {
    next_token: u64,
    tokens: HashSet<u64>,
}

/// An open connection's share of the limit. Dropping this value frees the slot, unless the slot was
/// already freed because of a hang-up; by then, another connection may occupy it.
#[derive(Debug)]
pub struct Slot {
    limit: Arc<ConnectionLimit>,
    token: u64,
}

impl Slot {
    /// Returns the token, which is unique within the receiver.
    pub fn token(&self) -> u64 {
        self.token
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limit.held().tokens.remove(&self.token);
    }
}

impl ConnectionLimit {
    /// Creates a limit with no connections. Tokens start at `first_token`.
    pub fn new(first_token: u64) -> io::Result<ConnectionLimit> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let held = Mutex::new(Tokens { next_token: first_token, tokens: HashSet::new() });
        Ok(ConnectionLimit { epoll, held })
    }

    fn held(&self) -> MutexGuard<'_, Tokens> {
        self.held.lock()
    }

    /// Returns the number of connections that occupy a slot.
    pub fn open(&self) -> usize {
        self.held().tokens.len()
    }

    /// Reserves a slot for the connection and watches it for a hang-up until it is closed or
    /// unregistered. Returns `None` if `slots_max` connections are open. To make space, the slots
    /// of closed connections are freed. The tokens of these connections are also returned, each
    /// token once.
    pub fn acquire(
        self: &Arc<ConnectionLimit>,
        connection: &OwnedFd,
        slots_max: usize,
    ) -> io::Result<Option<(Slot, Vec<u64>)>> {
        // One lock covers all steps, so that no other thread counts a connection whose hang-up
        // cannot be found yet, or takes the slots that are reclaimed here.
        let mut held = self.held();
        let closed = self.reclaim(&mut held.tokens, slots_max);
        if held.tokens.len() >= slots_max {
            return Ok(None);
        }
        let token = held.next_token;
        // The watch is one-shot. Otherwise, connections whose hang-ups were already reported, but
        // that are not closed yet, would hide later ones.
        register(&self.epoll, connection.as_fd(), token, EventFlags::RDHUP | EventFlags::ONESHOT)?;
        held.next_token += 1;
        held.tokens.insert(token);
        Ok(Some((Slot { limit: self.clone(), token }, closed)))
    }

    /// If the limit is reached, frees the slots of closed connections. Returns the tokens of these
    /// connections.
    fn reclaim(&self, tokens: &mut HashSet<u64>, slots_max: usize) -> Vec<u64> {
        let mut closed = Vec::new();
        while tokens.len() >= slots_max {
            let hung_up = self.take_hung_up();
            if hung_up.is_empty() {
                break;
            }
            // A missing token belongs to a connection that is being closed.
            closed.extend(hung_up.into_iter().filter(|token| tokens.remove(token)));
        }
        closed
    }

    /// Returns the tokens of connections that the peer has closed, but that this side has not
    /// closed yet, without duplicates.
    fn take_hung_up(&self) -> Vec<u64> {
        let mut closed = Vec::with_capacity(EVENTS_MAX);
        let spare = rustix::buffer::spare_capacity(&mut closed);
        let _ = epoll::wait(&self.epoll, spare, Some(&timespec(Duration::ZERO)));
        closed.iter().map(|event| event.data.u64()).collect()
    }

    /// Stops watching a connection that is moving to another receiver.
    pub fn unregister(&self, connection: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair() -> (OwnedFd, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        (here.into(), there)
    }

    #[test]
    fn each_slot_is_freed_once() {
        let limit = Arc::new(ConnectionLimit::new(7).unwrap());
        let ((first, other), (second, _stays), (third, _stays_too)) = (pair(), pair(), pair());
        let (first_slot, closed) = limit.acquire(&first, 2).unwrap().unwrap();
        let (second_slot, _) = limit.acquire(&second, 2).unwrap().unwrap();
        assert_eq!(
            (first_slot.token(), second_slot.token(), closed, limit.open()),
            (7, 8, vec![], 2)
        );
        assert!(limit.acquire(&third, 2).unwrap().is_none());
        drop(other);
        let (third_slot, closed) = limit.acquire(&third, 2).unwrap().unwrap();
        assert_eq!((closed, limit.open()), (vec![7], 2));
        // This side has not closed the first connection yet, but the third connection occupies its
        // slot.
        drop(first_slot);
        assert_eq!(limit.open(), 2);
        drop(second_slot);
        assert_eq!(limit.open(), 1);
        drop(third_slot);
        assert_eq!(limit.open(), 0);
    }

    /// More connections have hung up than one `epoll_wait` returns, and this side has closed none
    /// of them.
    #[test]
    fn reported_hang_ups_do_not_hide_others() {
        let limit = Arc::new(ConnectionLimit::new(0).unwrap());
        let mut here = Vec::new();
        for _ in 0..EVENTS_MAX + 10 {
            let (connection, _) = pair();
            let (slot, _) = limit.acquire(&connection, 1).unwrap().unwrap();
            here.push((slot, connection));
        }
        assert_eq!(limit.open(), 1);
    }

    #[test]
    fn an_unwatchable_descriptor_takes_no_slot() {
        let limit = Arc::new(ConnectionLimit::new(0).unwrap());
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        assert!(limit.acquire(&file, 1).is_err(), "epoll rejects regular files");
        assert_eq!(limit.open(), 0);
    }
}
