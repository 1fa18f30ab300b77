//! Measures, on the sender's side, how long a datagram waits until the receiver reads it: on a Unix
//! socket, the kernel charges a datagram to its sender until it is received.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Time between two probes.
const EVERY_S: f64 = 0.001;
/// A separate point, which leaves the sums of the load unchanged.
const POINT: &[u8] = b"probe:1|g";

/// Sends single datagrams, one at a time.
pub struct Probe {
    socket: UnixDatagram,
    /// Time at which the pending datagram was sent.
    sent_s: Option<f64>,
    next_s: f64,
    /// Seconds that each datagram waited.
    pub delays_s: Vec<f64>,
}

impl Probe {
    /// Creates a probe that sends to the socket at `path`, starting at `start_s`.
    pub fn new(path: &Path, start_s: f64) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Probe { socket, sent_s: None, next_s: start_s, delays_s: Vec::new() })
    }

    /// Returns whether a datagram is pending.
    pub fn is_waiting(&self) -> bool {
        self.sent_s.is_some()
    }

    /// Returns the time at which the next datagram is sent.
    pub fn next_s(&self) -> f64 {
        self.next_s
    }

    /// Checks whether the last datagram was received, and sends the next one. `now` reads the
    /// clock: a measured time includes the system calls.
    pub fn step(&mut self, now: impl Fn() -> f64) -> io::Result<()> {
        if let Some(sent_s) = self.sent_s {
            if self.unread_bytes()? > 0 {
                return Ok(());
            }
            self.delays_s.push(now() - sent_s);
            self.sent_s = None;
        }
        let now_s = now();
        if now_s >= self.next_s {
            self.next_s = now_s.max(self.next_s + EVERY_S);
            self.sent_s = Some(now_s);
            self.socket.send(POINT)?;
        }
        Ok(())
    }

    fn unread_bytes(&self) -> io::Result<i32> {
        let mut bytes = 0;
        // SAFETY: TIOCOUTQ, which is SIOCOUTQ, writes one int to the variable.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) } {
            0 => Ok(bytes),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_datagram_waits_until_it_is_received() {
        let path =
            std::env::temp_dir().join(format!("millstream-bench-probe-{}", std::process::id()));
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut probe = Probe::new(&path, 0.0).unwrap();
        std::fs::remove_file(&path).unwrap();
        let clock = Cell::new(0.0);
        for now_s in [0.0, 0.0002, 0.0004] {
            clock.set(now_s);
            probe.step(|| clock.get()).unwrap();
            assert!(probe.is_waiting());
        }
        receiver.recv(&mut [0; 64]).unwrap();
        clock.set(0.0005);
        probe.step(|| clock.get()).unwrap();
        assert_eq!((probe.delays_s.as_slice(), probe.is_waiting()), ([0.0005].as_slice(), false));
    }
}
