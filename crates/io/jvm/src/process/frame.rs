//! Frames between the agent and a child, over Unix sockets.
//!
//! A frame consists of a head of 32 bytes and a payload, possibly with a descriptor. A response
//! carries the request's number, so that the agent notices if a child omits, adds or repeats a
//! response.

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

const HEAD_BYTES: usize = 32;

/// Maximum payload size in bytes, which is enough for an operator's scripts and statistics on ten
/// thousand scripts.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Bytes by which a payload's buffer grows.
const PIECE_BYTES: usize = 256 << 10;

/// Interval at which a waiting thread checks whether the other process is alive. Waiting for the
/// socket to close is not sufficient, because a process that the child started may keep it open.
const LOOK: Duration = Duration::from_millis(500);

/// Type of a request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// On the control socket: start the JVM with the settings in the payload.
    Start = 1,
    /// On the control socket: serve the attached connection, on a thread with the name in the
    /// payload.
    Connect,
    /// On the control socket: remove an operator. Has no response.
    Remove,
    /// On the control socket: exit after the removed operators are closed. Has no response.
    End,
    /// On the control socket: pass on the collectors' chunks over the attached connection. Has no
    /// response.
    Chunks,
    /// On the control socket: call a collector. Has no response.
    StartCollector,
    /// On the control socket: remove a collector. Has no response.
    StopCollector,
    /// Compile the operator in the payload.
    Register,
    /// Compile the collector in the payload.
    RegisterCollector,
    /// Return statistics about an operator.
    Stats,
    /// Return statistics about the collectors.
    CollectorStats,
    /// Return statistics about the JVM.
    Process,
    /// With the value 1: collect garbage and return memory to the system. With the value 0: let the
    /// heap keep as much memory as its options allow.
    Heap,
    /// Map the attached memory, whose size is in the frame. The response contains the address.
    Attach,
    /// Call an operator with the request at an offset in the memory. The response contains the
    /// offset of the operator's answer in the buffer.
    Call,
    /// Call a Java method that does nothing.
    Noop,
    /// Response: the request succeeded.
    Done,
    /// Response: the operator is not registered.
    UnknownOperator,
    /// Response: the call failed as a whole. The payload contains the reason.
    Failed,
    /// Response: Java threw an exception. The payload contains its text.
    Exception,
    /// Response: the thread cannot call the JVM. The payload contains the reason.
    NotAttached,
    /// From the child, for chunks: events from a collector. The offset field contains the number of
    /// events.
    Chunk,
    /// From the child, for chunks: the collector will make no more calls.
    Stopped,
    /// Response to a chunk: it was taken.
    Taken,
    /// Response to a chunk: it was not taken, and the collector must stop.
    Stopping,
}

const KINDS: [Kind; 25] = [
    Kind::Start,
    Kind::Connect,
    Kind::Remove,
    Kind::End,
    Kind::Chunks,
    Kind::StartCollector,
    Kind::StopCollector,
    Kind::Register,
    Kind::RegisterCollector,
    Kind::Stats,
    Kind::CollectorStats,
    Kind::Process,
    Kind::Heap,
    Kind::Attach,
    Kind::Call,
    Kind::Noop,
    Kind::Done,
    Kind::UnknownOperator,
    Kind::Failed,
    Kind::Exception,
    Kind::NotAttached,
    Kind::Chunk,
    Kind::Stopped,
    Kind::Taken,
    Kind::Stopping,
];

/// A frame without its descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    /// Request number on the connection.
    pub request: u64,
    /// Id of an operator or collector, a size, or an address.
    pub subject: i64,
    /// An offset, or a number of events.
    pub offset: i64,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Creates a frame without a payload.
    pub fn new(kind: Kind, subject: i64) -> Frame {
        Frame { kind, request: 0, subject, offset: 0, payload: Vec::new() }
    }

    /// Creates a frame with a payload.
    pub fn with(kind: Kind, payload: Vec<u8>) -> Frame {
        Frame { payload, ..Frame::new(kind, 0) }
    }

    /// Returns the payload as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }

    fn head(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(self.kind as u32).to_ne_bytes());
        head[4..8].copy_from_slice(&(self.payload.len() as u32).to_ne_bytes());
        head[8..16].copy_from_slice(&self.request.to_ne_bytes());
        head[16..24].copy_from_slice(&self.subject.to_ne_bytes());
        head[24..].copy_from_slice(&self.offset.to_ne_bytes());
        head
    }

    /// Parses a head. Returns the frame without its payload, and the length of the payload.
    fn of_head(head: &[u8; HEAD_BYTES]) -> Result<(Frame, usize), Broken> {
        let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| head[at + i]));
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| head[at + i]));
        let kind = KINDS.into_iter().find(|kind| *kind as u32 == half(0));
        let kind = kind.ok_or(Broken::Garbage("a frame of an unknown kind"))?;
        let (subject, offset) = (word(16) as i64, word(24) as i64);
        let frame = Frame { kind, request: word(8), subject, offset, payload: Vec::new() };
        match half(4) as usize {
            len if len <= PAYLOAD_BYTES_MAX => Ok((frame, len)),
            _ => Err(Broken::Garbage("a frame that is too long")),
        }
    }
}

/// The reason why a connection can no longer be used.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The other end was closed.
    #[error("the other end closed the connection")]
    Ended,
    /// The other end was already closed before the request was sent.
    #[error("the other end has exited")]
    Unreachable,
    /// There was no response in time.
    #[error("there was no response in time")]
    Late,
    /// The other end violates the protocol.
    #[error("the other end sent {0}")]
    Garbage(&'static str),
    /// A system call failed.
    #[error(transparent)]
    System(io::Error),
}

impl From<Errno> for Broken {
    fn from(error: Errno) -> Broken {
        match error {
            Errno::PIPE | Errno::CONNRESET => Broken::Ended,
            error => Broken::System(error.into()),
        }
    }
}

/// Determines how long to wait for the other end.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// End of the wait; `None` for no limit.
    pub until: Option<Instant>,
    /// Function that returns whether the other end is known to have exited.
    pub is_over: Option<&'a dyn Fn() -> bool>,
}

impl Patience<'_> {
    /// Waits without a limit.
    pub const ENDLESS: Patience<'static> = Patience { until: None, is_over: None };

    fn is_endless(&self) -> bool {
        self.until.is_none() && self.is_over.is_none()
    }
}

/// One end of a connection.
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// Creates a connection. Returns this end and the other end.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    pub fn pair() -> io::Result<(Channel, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Channel { socket }, other))
    }

    /// Creates an end from a socket.
    pub fn of(socket: OwnedFd) -> Channel {
        Channel { socket }
    }

    /// Returns another handle for this end.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    pub fn try_clone(&self) -> io::Result<Channel> {
        self.socket.try_clone().map(Channel::of)
    }

    /// Closes the connection for all handles on both ends.
    pub fn shut_down(&self) {
        _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Sends a frame, possibly with a descriptor.
    ///
    /// # Errors
    /// Returns an error if the other end has exited, or does not read.
    pub fn send(
        &self,
        frame: &Frame,
        descriptor: Option<BorrowedFd<'_>>,
        patience: Patience<'_>,
    ) -> Result<(), Broken> {
        self.send_all(&frame.head(), descriptor, patience)?;
        match frame.payload.is_empty() {
            true => Ok(()),
            false => self.send_all(&frame.payload, None, patience),
        }
    }

    fn send_all(
        &self,
        mut bytes: &[u8],
        mut descriptor: Option<BorrowedFd<'_>>,
        patience: Patience<'_>,
    ) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let passed = descriptor.map(|descriptor| [descriptor]);
            if let Some(passed) = &passed {
                control.push(SendAncillaryMessage::ScmRights(passed));
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(sent) => {
                    bytes = &bytes[sent..];
                    descriptor = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, patience)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives a frame, and the descriptor that is attached to it.
    ///
    /// # Errors
    /// Returns an error if the other end has exited, does not respond in time, or violates the
    /// protocol.
    pub fn receive(&self, patience: Patience<'_>) -> Result<(Frame, Option<OwnedFd>), Broken> {
        let (mut head, mut descriptor) = ([0; HEAD_BYTES], None);
        self.receive_all(&mut head, &mut descriptor, patience)?;
        let (mut frame, len) = Frame::of_head(&head)?;
        self.receive_payload(&mut frame.payload, len, &mut descriptor, patience)?;
        Ok((frame, descriptor))
    }

    /// Receives a payload of `len` bytes. The buffer grows as bytes arrive, so that a head whose
    /// payload does not follow takes no memory.
    fn receive_payload(
        &self,
        payload: &mut Vec<u8>,
        len: usize,
        descriptor: &mut Option<OwnedFd>,
        patience: Patience<'_>,
    ) -> Result<(), Broken> {
        while payload.len() < len {
            let received = payload.len();
            payload.resize(len.min(received + PIECE_BYTES), 0);
            self.receive_all(&mut payload[received..], descriptor, patience)?;
        }
        Ok(())
    }

    fn receive_all(
        &self,
        mut bytes: &mut [u8],
        descriptor: &mut Option<OwnedFd>,
        patience: Patience<'_>,
    ) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let mut flags = RecvFlags::CMSG_CLOEXEC;
            if !patience.is_endless() {
                self.wait(PollFlags::IN, patience)?;
                flags |= RecvFlags::DONTWAIT;
            }
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(bytes)];
            match recvmsg(&self.socket, &mut parts, &mut control, flags) {
                Ok(received) if received.bytes == 0 => return Err(Broken::Ended),
                Ok(received) => {
                    for message in control.drain() {
                        if let RecvAncillaryMessage::ScmRights(passed) = message {
                            *descriptor = passed.last();
                        }
                    }
                    bytes = &mut bytes[received.bytes..];
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until the socket is ready or closed.
    fn wait(&self, flags: PollFlags, patience: Patience<'_>) -> Result<(), Broken> {
        loop {
            let left = patience.until.map(|until| until.saturating_duration_since(Instant::now()));
            let time = left.map_or(LOOK, |left| left.min(LOOK));
            let time = Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as i64 };
            match poll(&mut [PollFd::new(&self.socket, flags)], Some(&time)) {
                Ok(0) if left.is_some_and(|left| left.is_zero()) => return Err(Broken::Late),
                Ok(0) if patience.is_over.is_some_and(|is_over| is_over()) => {
                    return Err(Broken::Ended);
                }
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::write;

    fn pair() -> (Channel, Channel) {
        let (one, other) = Channel::pair().unwrap();
        (one, Channel::of(other))
    }

    fn soon() -> Patience<'static> {
        let until = Some(Instant::now() + Duration::from_millis(50));
        Patience { until, is_over: None }
    }

    #[test]
    fn frames_arrive_with_their_payload_and_descriptor() {
        let (one, other) = pair();
        let large = Frame { request: 7, ..Frame::with(Kind::Register, vec![5; 1 << 20]) };
        let (first, second) = (Frame::new(Kind::Call, -3), large.clone());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                one.send(&first, Some(one.as_fd()), Patience::ENDLESS).unwrap();
                one.send(&second, None, Patience::ENDLESS).unwrap();
            });
            let (frame, descriptor) = other.receive(Patience::ENDLESS).unwrap();
            assert_eq!((frame, descriptor.is_some()), (first.clone(), true));
            let (frame, descriptor) = other.receive(Patience::ENDLESS).unwrap();
            assert_eq!((frame, descriptor.is_some()), (large, false));
        });
        drop(one);
        assert!(matches!(other.receive(Patience::ENDLESS), Err(Broken::Ended)));
        let sent = other.send(&Frame::new(Kind::Noop, 0), None, Patience::ENDLESS);
        assert!(matches!(sent, Err(Broken::Ended)));
    }

    #[test]
    fn an_end_that_is_silent_or_does_not_read_is_late() {
        let (one, other) = pair();
        assert!(matches!(other.receive(soon()), Err(Broken::Late)));
        let large = Frame::with(Kind::Register, vec![5; 8 << 20]);
        assert!(matches!(one.send(&large, None, soon()), Err(Broken::Late)));
        let gone = Patience { until: None, is_over: Some(&|| true) };
        let (_one, other) = pair();
        assert!(matches!(other.receive(gone), Err(Broken::Ended)));
    }

    #[test]
    fn frames_that_make_no_sense_are_refused() {
        for (head, part) in [([0xff; HEAD_BYTES], "unknown kind"), (too_long(), "too long")] {
            let (one, other) = pair();
            write(&one, &head).unwrap();
            let Err(Broken::Garbage(why)) = other.receive(soon()) else { panic!() };
            assert!(why.contains(part), "{why}");
        }
        let (one, other) = pair();
        write(&one, &too_long()[..9]).unwrap();
        drop(one);
        assert!(matches!(other.receive(soon()), Err(Broken::Ended)), "a truncated frame");
    }

    #[test]
    fn a_payload_takes_memory_only_as_it_arrives() {
        let (one, other) = pair();
        write(&one, &[7; 1000]).unwrap();
        let mut payload = Vec::new();
        let received = other.receive_payload(&mut payload, PAYLOAD_BYTES_MAX, &mut None, soon());
        assert!(matches!(received, Err(Broken::Late)));
        assert!(payload.capacity() <= 2 * PIECE_BYTES, "{} bytes", payload.capacity());
    }

    fn too_long() -> [u8; HEAD_BYTES] {
        let mut head = Frame::new(Kind::Done, 0).head();
        head[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        head
    }
}
