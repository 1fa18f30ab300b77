//! Minimal receivers: single-threaded loops that only receive datagrams.

use super::socket::force_receive_buffer;
use crate::measure::{pin, thread_cpu_seconds};
use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use std::hash::Hasher;
use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of datagrams per call, and the buffer size of each.
const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 9 << 10;
/// Pause of the loop after it has emptied its socket. The agent makes the same pause under such
/// loads; with a wake-up per datagram the loop would not be a limit.
const GATHER: Duration = Duration::from_millis(1);
/// Interval at which the loop checks whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// Work of a loop for each datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Discards the datagram.
    Drop,
    /// Finds the lines and hashes all bytes of each line once.
    Hash,
}

/// The results of a loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub datagrams: u64,
    pub lines: u64,
    pub cpu_seconds: f64,
}

/// A running loop on a separate thread.
pub struct Running {
    /// Address of the loop's socket.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Done>>,
}

impl Limit {
    /// Returns the loop with the name that a scenario gives.
    pub fn named(name: &str) -> io::Result<Self> {
        match name {
            "drop" => Ok(Limit::Drop),
            "hash" => Ok(Limit::Hash),
            _ => Err(io::Error::other(format!("limit {name}: write drop or hash"))),
        }
    }

    /// Starts the loop on `core` with a receive buffer of `buffer_bytes`.
    pub fn start(self, core: usize, buffer_bytes: usize) -> io::Result<Running> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(LOOK))?;
        force_receive_buffer(&socket, buffer_bytes)?;
        let (address, stop) = (socket.local_addr()?, Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            pin(core)?;
            self.receive(&socket, &stopped)
        });
        Ok(Running { address, stop, thread })
    }

    fn receive(self, socket: &UdpSocket, stop: &AtomicBool) -> io::Result<Done> {
        let mut room = vec![[0_u8; DATAGRAM_BYTES]; BATCH];
        let mut parts: Vec<libc::iovec> = room
            .iter_mut()
            .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: DATAGRAM_BYTES })
            .collect();
        // SAFETY: zeros are a message header without address, data and control data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (header, part) in headers.iter_mut().zip(&mut parts) {
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let mut done = Done::default();
        let start = thread_cpu_seconds();
        while !stop.load(Ordering::Relaxed) {
            let count = receive_some(socket, &mut headers)?;
            done.datagrams += count as u64;
            if self == Limit::Hash {
                for (room, header) in room.iter().zip(&headers[..count]) {
                    done.lines += hash_lines(&room[..header.msg_len as usize]);
                }
            }
            if count < BATCH {
                std::thread::sleep(GATHER);
            }
        }
        done.cpu_seconds = thread_cpu_seconds() - start;
        Ok(done)
    }
}

impl Running {
    /// Gives the loop time to receive the last datagrams, and ends it.
    pub fn finish(self) -> io::Result<Done> {
        std::thread::sleep(LOOK);
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("a limit has panicked")))
    }
}

/// Waits for the first datagram, and receives it and all others that are available, up to
/// [`BATCH`]. Returns 0 if nothing arrives for a while.
fn receive_some(socket: &UdpSocket, headers: &mut [libc::mmsghdr; BATCH]) -> io::Result<usize> {
    let flags = libc::MSG_WAITFORONE;
    let (fd, most) = (socket.as_raw_fd(), BATCH as libc::c_uint);
    // SAFETY: every header points to a separate buffer of the stated length. The buffers outlive
    // the call and are not used elsewhere meanwhile.
    let count = unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), most, flags, ptr::null_mut()) };
    match usize::try_from(count) {
        Ok(count) => Ok(count),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            error => Err(error),
        },
    }
}

/// Hashes every line, discards the hashes and returns the number of lines.
fn hash_lines(bytes: &[u8]) -> u64 {
    let (mut lines, mut start) = (0, 0);
    for end in memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]) {
        let mut hasher = FoldHasher::with_seed(7, SharedSeed::global_fixed());
        hasher.write(&bytes[start..end]);
        black_box(hasher.finish());
        start = end + 1;
        lines += 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_takes_what_is_sent() {
        for (limit, lines) in [(Limit::Drop, 0), (Limit::Hash, 300)] {
            let running = limit.start(0, 1 << 20).unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..100 {
                socket.send_to(b"a:1|c\nb:1|c\nc:1|c", running.address).unwrap();
            }
            let done = running.finish().unwrap();
            assert_eq!((done.datagrams, done.lines), (100, lines));
        }
    }
}
