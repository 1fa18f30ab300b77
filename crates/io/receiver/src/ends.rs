//! The places that connections of a receiver take, and which of them have ended, whichever thread
//! has them.

use crate::wait::{timespec, watch};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::epoll::{self, EventFlags};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Ended connections that are found at once: enough to make room for one more.
const FOUND_MAX: usize = 256;

/// The ends of connections, apart from what they send: to find those that have ended takes no look
/// at the others.
#[derive(Debug)]
pub struct Ends {
    epoll: OwnedFd,
    taken: Mutex<Taken>,
}

/// The marks of connections that have a place. Each is removed once: by whoever finds the end, or
/// with its [`Place`].
#[derive(Debug)]
struct Taken {
    next_mark: u64,
    marks: HashSet<u64>,
}

/// A connection among those that may be open. Dropping it hands the place back, unless the end of
/// the connection has been found before: then somebody else may have it already.
#[derive(Debug)]
pub struct Place {
    ends: Arc<Ends>,
    mark: u64,
}

impl Place {
    /// What tells its connection from all others of the receiver.
    pub fn mark(&self) -> u64 {
        self.mark
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ends.taken().marks.remove(&self.mark);
    }
}

impl Ends {
    /// No connections yet; their marks begin with this one.
    pub fn new(first_mark: u64) -> io::Result<Ends> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let taken = Mutex::new(Taken { next_mark: first_mark, marks: HashSet::new() });
        Ok(Ends { epoll, taken })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }

    /// How many connections have a place.
    pub fn open(&self) -> usize {
        self.taken().marks.len()
    }

    /// Gives the connection a place and begins to watch for its end, until it is closed or
    /// forgotten. None if so many are open. Those that have ended make room: their marks are
    /// returned as well, each once.
    pub fn place(
        self: &Arc<Ends>,
        connection: &OwnedFd,
        places_max: usize,
    ) -> io::Result<Option<(Place, Vec<u64>)>> {
        // Under one lock: no other thread counts a connection before its end can be found, or takes
        // the room made here.
        let mut taken = self.taken();
        let ended = self.make_room(&mut taken.marks, places_max);
        if taken.marks.len() >= places_max {
            return Ok(None);
        }
        let mark = taken.next_mark;
        // Once: places of ends that were found are back, and many that are not closed yet would
        // hide the next ones.
        watch(&self.epoll, connection.as_fd(), mark, EventFlags::RDHUP | EventFlags::ONESHOT)?;
        taken.next_mark += 1;
        taken.marks.insert(mark);
        Ok(Some((Place { ends: self.clone(), mark }, ended)))
    }

    /// Hands back the places of connections that have ended, if all are taken; returns their marks.
    fn make_room(&self, marks: &mut HashSet<u64>, places_max: usize) -> Vec<u64> {
        let mut ended = Vec::new();
        while marks.len() >= places_max {
            let found = self.find();
            if found.is_empty() {
                break;
            }
            // One that is not there any more is just being closed.
            ended.extend(found.into_iter().filter(|mark| marks.remove(mark)));
        }
        ended
    }

    /// Marks of connections whose other end is closed and that are still open here, each once.
    fn find(&self) -> Vec<u64> {
        let mut ended = Vec::with_capacity(FOUND_MAX);
        let room = rustix::buffer::spare_capacity(&mut ended);
        let _ = epoll::wait(&self.epoll, room, Some(&timespec(Duration::ZERO)));
        ended.iter().map(|event| event.data.u64()).collect()
    }

    /// Leaves a connection to another receiver.
    pub fn forget(&self, connection: &OwnedFd) {
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
    fn each_place_is_handed_back_once() {
        let ends = Arc::new(Ends::new(7).unwrap());
        let ((first, other), (second, _stays), (third, _stays_too)) = (pair(), pair(), pair());
        let (first_place, ended) = ends.place(&first, 2).unwrap().unwrap();
        let (second_place, _) = ends.place(&second, 2).unwrap().unwrap();
        assert_eq!(
            (first_place.mark(), second_place.mark(), ended, ends.open()),
            (7, 8, vec![], 2)
        );
        assert!(ends.place(&third, 2).unwrap().is_none());
        drop(other);
        let (third_place, ended) = ends.place(&third, 2).unwrap().unwrap();
        assert_eq!((ended, ends.open()), (vec![7], 2));
        // The first is still open here, but its place has gone to the third.
        drop(first_place);
        assert_eq!(ends.open(), 2);
        drop(second_place);
        assert_eq!(ends.open(), 1);
        drop(third_place);
        assert_eq!(ends.open(), 0);
    }

    /// More than are found at once have ended, and none of them is closed here.
    #[test]
    fn ends_that_were_found_do_not_hide_others() {
        let ends = Arc::new(Ends::new(0).unwrap());
        let mut here = Vec::new();
        for _ in 0..FOUND_MAX + 10 {
            let (connection, _) = pair();
            let (place, _) = ends.place(&connection, 1).unwrap().unwrap();
            here.push((place, connection));
        }
        assert_eq!(ends.open(), 1);
    }

    #[test]
    fn what_cannot_be_watched_takes_no_place() {
        let ends = Arc::new(Ends::new(0).unwrap());
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        assert!(ends.place(&file, 1).is_err(), "the kernel cannot wait for a plain file");
        assert_eq!(ends.open(), 0);
    }
}
