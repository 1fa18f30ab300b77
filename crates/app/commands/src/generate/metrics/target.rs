//! Destinations of a load: sockets of every kind, a file, standard output.

use millstream_receiver::Address;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketType,
};
use std::fs::OpenOptions;
use std::io::{self, IoSlice, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum wait in one call, after which an interrupt is noticed.
const WAIT: Duration = Duration::from_millis(100);
/// Maximum time that a Unix socket may be without a receiver, for example while an agent restarts.
const ABSENT_MAX: Duration = Duration::from_secs(10);

/// Packets in one buffer.
#[derive(Debug, Default)]
pub struct Batch {
    /// Bytes of the packets.
    pub bytes: Vec<u8>,
    /// End of each packet in the bytes.
    pub ends: Vec<usize>,
}

impl Batch {
    fn packet(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[begin..self.ends[index]]
    }
}

/// An open target.
pub struct Target {
    sink: Sink,
    interrupts: Arc<AtomicUsize>,
    /// Number of times that the host reported that the UDP port is closed.
    pub refused: u64,
}

enum Sink {
    Udp(OwnedFd),
    Unix(OwnedFd, PathBuf, SocketType),
    Stream { out: Box<dyn Write>, has_lengths: bool },
}

impl Target {
    /// Connects; `interrupts` counts interrupts, which stop the sending.
    pub fn connect(address: &Address, interrupts: Arc<AtomicUsize>) -> io::Result<Target> {
        let sink = match address {
            Address::Udp(at) => {
                let any = if at.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(at)?;
                socket.set_write_timeout(Some(WAIT))?;
                Sink::Udp(socket.into())
            }
            Address::Tcp(at) => {
                let stream = TcpStream::connect(at)?;
                stream.set_write_timeout(Some(WAIT))?;
                Sink::Stream { out: Box::new(stream), has_lengths: false }
            }
            Address::UnixDatagram(path) => unix(path, SocketType::DGRAM)?,
            Address::UnixPacket(path) => unix(path, SocketType::SEQPACKET)?,
            Address::UnixStream(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(WAIT))?;
                Sink::Stream { out: Box::new(stream), has_lengths: true }
            }
        };
        Ok(Target { sink, interrupts, refused: 0 })
    }

    /// Appends to a file, or writes to standard output if `None`. Writes a length before each
    /// packet if the format does not mark the end of a packet.
    pub fn write_to(
        path: Option<&Path>,
        has_lengths: bool,
        interrupts: Arc<AtomicUsize>,
    ) -> io::Result<Target> {
        let out: Box<dyn Write> = match path {
            Some(path) => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
            None => Box::new(io::stdout().lock()),
        };
        Ok(Target { sink: Sink::Stream { out, has_lengths }, interrupts, refused: 0 })
    }

    /// Returns whether sending must stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupts.load(Ordering::Relaxed) > 0
    }

    /// Sends packets and waits for capacity. `sent` counts the sent packets: all of them unless
    /// there is an error or an interrupt.
    pub fn send(&mut self, batch: &Batch, sent: &mut usize) -> io::Result<()> {
        if let Sink::Stream { has_lengths, .. } = self.sink {
            return self.write_all(batch, has_lengths, sent);
        }
        let mut absent_since = None;
        while *sent < batch.ends.len() && !self.is_interrupted() {
            match self.send_some(batch, *sent) {
                Ok(count) => {
                    *sent += count;
                    absent_since = None;
                }
                Err(error) => self.wait(error, &mut absent_since)?,
            }
        }
        Ok(())
    }

    fn send_some(&self, batch: &Batch, from: usize) -> Result<usize, Errno> {
        let (Sink::Udp(socket) | Sink::Unix(socket, ..)) = &self.sink else { return Ok(0) };
        let parts: Vec<[IoSlice<'_>; 1]> =
            (from..batch.ends.len()).map(|index| [IoSlice::new(batch.packet(index))]).collect();
        let mut controls: Vec<_> = parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<MMsgHdr<'_>> = parts
            .iter()
            .zip(&mut controls)
            .map(|(part, control)| MMsgHdr::new(part, control))
            .collect();
        rustix::net::sendmmsg(socket, &mut messages, SendFlags::NOSIGNAL)
    }

    /// Waits until a retry makes sense.
    ///
    /// # Errors
    /// Returns an error if a retry does not make sense.
    fn wait(&mut self, error: Errno, absent_since: &mut Option<Instant>) -> io::Result<()> {
        match (&self.sink, error) {
            // The call timed out without capacity.
            (_, Errno::INTR | Errno::AGAIN) => Ok(()),
            (_, Errno::NOBUFS) => {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }
            // The error concerns an earlier packet, so send this packet now.
            (Sink::Udp(_), Errno::CONNREFUSED) => {
                self.refused += 1;
                Ok(())
            }
            (
                Sink::Unix(_, path, SocketType::DGRAM),
                Errno::CONNREFUSED | Errno::NOTCONN | Errno::CONNRESET | Errno::PIPE,
            ) => {
                if absent_since.get_or_insert_with(Instant::now).elapsed() > ABSENT_MAX {
                    return Err(error.into());
                }
                std::thread::sleep(Duration::from_millis(20));
                if let Ok(sink) = unix(path, SocketType::DGRAM) {
                    self.sink = sink;
                }
                Ok(())
            }
            _ => Err(error.into()),
        }
    }

    /// Writes packets to a stream as a whole, unless interrupted.
    fn write_all(&mut self, batch: &Batch, has_lengths: bool, sent: &mut usize) -> io::Result<()> {
        let (mut framed, mut ends) = (Vec::with_capacity(batch.bytes.len()), Vec::new());
        for index in 0..batch.ends.len() {
            let packet = batch.packet(index);
            if has_lengths {
                framed.extend_from_slice(&(packet.len() as u32).to_le_bytes());
            }
            framed.extend_from_slice(packet);
            ends.push(framed.len());
        }
        let mut written = 0;
        let result = self.write(&framed, &mut written);
        *sent = ends.partition_point(|end| *end <= written);
        result
    }

    fn write(&mut self, bytes: &[u8], written: &mut usize) -> io::Result<()> {
        let Sink::Stream { out, .. } = &mut self.sink else { return Ok(()) };
        while *written < bytes.len() {
            match out.write(&bytes[*written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.interrupts.load(Ordering::Relaxed) > 0 {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Flushes all buffers.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stream { out, .. } => out.flush(),
            _ => Ok(()),
        }
    }
}

fn unix(path: &Path, kind: SocketType) -> io::Result<Sink> {
    let socket: OwnedFd = match kind {
        SocketType::DGRAM => {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            socket.into()
        }
        _ => {
            let socket = rustix::net::socket(AddressFamily::UNIX, kind, None)?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            socket
        }
    };
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Send,
        Some(WAIT),
    )?;
    Ok(Sink::Unix(socket, path.to_owned(), kind))
}
