//! Receives many datagrams per system call: the buffers, and the headers that describe them to the
//! kernel.

use crate::Options;
use crate::messages::Batch;
use crate::senders::Senders;
use crate::sys::Mapping;
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use rustix::io::Errno;
use std::io;
use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Maximum number of buffers per round. The cost per datagram is the same with 64, 256 and 1,024
/// buffers, and every buffer keeps a page resident.
const BUFFERS_MAX: usize = 256;

/// Size of a buffer in bytes. It fits the largest UDP datagram, and the maximum that the kernel
/// merges into one.
const BUFFER_BYTES_MIN: usize = 64 << 10;

/// Difference between the offsets of two buffers within a page, in bytes: three cache lines of 64
/// bytes. Without this difference, the first cache lines of the buffers would compete for the same
/// few cache sets.
const STAGGER_BYTES: usize = 192;

/// Maximum address space of all buffers in bytes. Untouched pages are not resident.
const MAPPING_BYTES_MAX: usize = 64 << 20;

/// Target size of a round in bytes, which fits into the L2 cache along with other data. Datagrams
/// of 8,000 bytes cost a quarter more with rounds of 2 MB.
const ROUND_BYTES: usize = 128 << 10;

/// Number of touched bytes, beyond each buffer's first page, above which these pages are released.
const TOUCHED_BYTES_MAX: usize = 4 << 20;

const PAGE_BYTES: usize = 4096;

/// Space for a sender's address, in bytes: a `struct sockaddr_in6`, which has 28, at an aligned
/// position.
const NAME_BYTES: usize = 32;

/// Space for control messages, in bytes: the sender's credentials or the length of merged
/// datagrams. File descriptors that a sender passes do not fit, so the kernel closes them.
const CONTROL_BYTES: usize = 32;

/// The message headers for all buffers.
struct Headers {
    headers: Vec<libc::mmsghdr>,
    /// Buffer vectors that the headers point to. The list must never grow, because that would move
    /// the vectors.
    _vectors: Vec<libc::iovec>,
    /// Control buffers that the headers point to.
    controls: Mapping,
    /// Address buffers that the headers point to, if addresses are enabled.
    names: Option<Mapping>,
}

/// The result of one `recvmmsg` call.
#[derive(Debug, Default, Clone, Copy)]
pub struct Received {
    /// Number of filled buffers. If there are fewer than requested, the socket is empty.
    pub buffers: usize,
    /// Number of datagrams that were dropped because they exceed the limit.
    pub truncated: usize,
    /// Number of buffers without data. The end of a connection also produces such a buffer.
    pub empty: usize,
}

/// The receive buffers of one thread.
pub struct ReceiveBuffers {
    mapping: Mapping,
    /// Headers with space for control messages.
    with_control: Headers,
    /// Headers without space for control messages.
    without_control: Headers,
    stride: usize,
    message_bytes_max: usize,
    truncates: bool,
    /// Number of bytes that have been written to each buffer, but at least a page.
    touched: Vec<u32>,
    touched_bytes: usize,
    depth: usize,
}

impl ReceiveBuffers {
    pub fn new(options: &Options) -> io::Result<ReceiveBuffers> {
        let Options { message_bytes_max, truncates, addresses, .. } = *options;
        let buffer_bytes = message_bytes_max.max(BUFFER_BYTES_MIN).next_multiple_of(PAGE_BYTES);
        let stride = buffer_bytes + STAGGER_BYTES;
        let count = (MAPPING_BYTES_MAX / stride).clamp(1, BUFFERS_MAX);
        let mapping = Mapping::new(stride * count)?;
        let with_control = Headers::new(&mapping, (buffer_bytes, count), CONTROL_BYTES, addresses)?;
        let without_control = Headers::new(&mapping, (buffer_bytes, count), 0, addresses)?;
        let touched = vec![PAGE_BYTES as u32; count];
        Ok(ReceiveBuffers {
            mapping,
            with_control,
            without_control,
            stride,
            message_bytes_max,
            truncates,
            touched,
            touched_bytes: 0,
            depth: count,
        })
    }

    pub fn memory(&self) -> &[u8] {
        self.mapping.bytes()
    }

    /// Returns how many buffers the next round should use, so that its data fits into the cache.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Receives up to `max` waiting datagrams, and adds them to the batch. Records the call with
    /// the subject `peer` and the bytes that were received, without the truncated ones.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        max: usize,
        ancillary: Ancillary<'_>,
        peer: &Subject,
        batch: &mut Batch,
    ) -> Result<Received, Errno> {
        let headers = match ancillary {
            Ancillary::Plain(_) => &mut self.without_control,
            _ => &mut self.with_control,
        };
        let max = max.min(headers.headers.len());
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        let first = headers.headers.as_mut_ptr();
        let timer = recorder::start(EventKind::SocketRead);
        // SAFETY: `first` points to at least `max` headers. Their vectors point to buffers within
        // the mapping, their control addresses into `controls`, and their names into `names`, with
        // the lengths of all three. All of that lives as long as `self`, and `&mut self` rules out
        // views into the buffers.
        let received = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), first, max as u32, flags as _, ptr::null_mut())
        };
        match usize::try_from(received) {
            Ok(filled) => {
                headers.record(timer, filled, peer);
                Ok(self.collect(filled, ancillary, batch))
            }
            Err(_) => Err(last_error()),
        }
    }

    /// Adds the received datagrams to the batch and resets the headers for the next round.
    fn collect(
        &mut self,
        filled: usize,
        mut ancillary: Ancillary<'_>,
        batch: &mut Batch,
    ) -> Received {
        let headers = if matches!(ancillary, Ancillary::Plain(_)) {
            &mut self.without_control
        } else {
            &mut self.with_control
        };
        let mut received = Received { buffers: filled, ..Received::default() };
        let mut longest = 0;
        let controls = headers.controls.bytes();
        for (index, header) in headers.headers[..filled].iter_mut().enumerate() {
            let len = header.msg_len as usize;
            let control = &controls[index * CONTROL_BYTES..][..CONTROL_BYTES];
            let (segment, sender) = ancillary.read(&mut header.msg_hdr, control, batch);
            let origin = match &headers.names {
                Some(names) => named(&mut header.msg_hdr, names, index, batch).unwrap_or(sender),
                None => sender,
            };
            longest = longest.max(len);
            if len > self.touched[index] as usize {
                self.touched_bytes += len - self.touched[index] as usize;
                self.touched[index] = len as u32;
            }
            let is_truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let datagram_bytes = if segment == 0 { len } else { segment };
            received.empty += usize::from(len == 0);
            let start = index * self.stride;
            match is_truncated || datagram_bytes > self.message_bytes_max {
                false => batch.push(start, len, segment, origin),
                true if self.truncates => {
                    push_truncated(batch, (start, len), segment, self.message_bytes_max, origin);
                }
                true => received.truncated += if segment == 0 { 1 } else { len.div_ceil(segment) },
            }
        }
        self.depth =
            (ROUND_BYTES / longest.max(1)).clamp(16.min(self.touched.len()), self.touched.len());
        received
    }

    /// If long datagrams have touched a lot of memory, releases that memory. Call this method after
    /// a round has been passed on.
    pub fn trim(&mut self) {
        if self.touched_bytes > TOUCHED_BYTES_MAX {
            self.mapping.release();
            self.touched.fill(PAGE_BYTES as u32);
            self.touched_bytes = 0;
        }
    }
}

/// The ancillary data to expect with each datagram from a socket.
pub enum Ancillary<'a> {
    /// No ancillary data. All datagrams have this sender, an index into the batch.
    Plain(u32),
    /// The segment length of merged datagrams.
    Segments,
    /// The sender's credentials.
    Senders(&'a mut Senders),
}

impl Ancillary<'_> {
    /// Reads the ancillary data of one buffer, and resets the header for the next round. Returns
    /// the segment length of merged datagrams, or 0, and the sender's index.
    #[inline]
    fn read(
        &mut self,
        header: &mut libc::msghdr,
        control: &[u8],
        batch: &mut Batch,
    ) -> (usize, u32) {
        let senders = match self {
            Ancillary::Plain(sender) => return (0, *sender),
            Ancillary::Segments if header.msg_controllen == 0 => {
                header.msg_controllen = CONTROL_BYTES;
                return (0, batch.add_sender(None));
            }
            Ancillary::Segments => None,
            Ancillary::Senders(senders) => Some(senders),
        };
        let message = parse_control(&control[..header.msg_controllen.min(CONTROL_BYTES)]);
        header.msg_controllen = CONTROL_BYTES;
        match (message, senders) {
            (Some(ControlMessage::Segment(bytes)), _) => (bytes, batch.add_sender(None)),
            (Some(ControlMessage::Pid(pid)), Some(senders)) => {
                (0, batch.add_sender(Some(senders.get(pid))))
            }
            _ => (0, batch.add_sender(None)),
        }
    }
}

/// Adds the datagrams of a buffer to the batch, each truncated to the limit. `segment` is the
/// length of each datagram except the last one, or 0 if there is one datagram.
#[cold]
fn push_truncated(
    batch: &mut Batch,
    (start, len): (usize, usize),
    segment: usize,
    message_bytes_max: usize,
    origin: u32,
) {
    let segment = if segment == 0 { len } else { segment };
    for at in (0..len).step_by(segment.max(1)) {
        match segment.min(len - at) {
            // Only the last of several datagrams may fit.
            short if short <= message_bytes_max && at > 0 => {
                batch.push(start + at, short, 0, origin);
            }
            long => batch.push_truncated(start + at, long.min(message_bytes_max), origin),
        }
    }
}

/// Adds the address from which a buffer was received to the batch, and resets the header for the
/// next round. Returns `None` if the sender has no network address.
#[inline]
fn named(
    header: &mut libc::msghdr,
    names: &Mapping,
    index: usize,
    batch: &mut Batch,
) -> Option<u32> {
    let len = std::mem::replace(&mut header.msg_namelen, NAME_BYTES as u32) as usize;
    let name = &names.bytes()[index * NAME_BYTES..][..len.min(NAME_BYTES)];
    parse_address(name).map(|address| batch.add_address(Some(address)))
}

/// Parses a `struct sockaddr_in` or `struct sockaddr_in6`.
#[inline]
fn parse_address(name: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*name.first_chunk()?));
    let port = u16::from_be_bytes(name.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET => {
            let address: [u8; 4] = name.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::from((address, port)))
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = name.get(8..24)?.try_into().ok()?;
            let scope = u32::from_ne_bytes(name.get(24..28)?.try_into().ok()?);
            Some(SocketAddr::V6(SocketAddrV6::new(address.into(), port, 0, scope)))
        }
        _ => None,
    }
}

/// A control message that the kernel added to a datagram.
enum ControlMessage {
    Segment(usize),
    Pid(u32),
}

/// Parses the control message. The buffer contains at most one.
fn parse_control(control: &[u8]) -> Option<ControlMessage> {
    // The buffer contains a `struct cmsghdr`, which is the length (usize), the level (int) and the
    // type (int), followed by the data.
    let number = |at: usize| control.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let (level, kind, value) = (number(8)? as i32, number(12)? as i32, number(16)?);
    match (level, kind) {
        (libc::SOL_UDP, libc::UDP_GRO) => Some(ControlMessage::Segment(value as usize)),
        (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if value != 0 => Some(ControlMessage::Pid(value)),
        _ => None,
    }
}

impl Headers {
    /// Creates headers for `count` buffers of `buffer_bytes` bytes, [`STAGGER_BYTES`] apart.
    fn new(
        mapping: &Mapping,
        (buffer_bytes, count): (usize, usize),
        control_bytes: usize,
        has_names: bool,
    ) -> io::Result<Headers> {
        let names = if has_names { Some(Mapping::new(count * NAME_BYTES)?) } else { None };
        let controls = Mapping::new(count * CONTROL_BYTES)?;
        let start =
            |index: usize| mapping.start().wrapping_add(index * (buffer_bytes + STAGGER_BYTES));
        let vector = |index| libc::iovec { iov_base: start(index).cast(), iov_len: buffer_bytes };
        let mut vectors: Vec<libc::iovec> = (0..count).map(vector).collect();
        let header = |(index, vector): (usize, &mut libc::iovec)| {
            // SAFETY: all fields are integers and pointers, for which 0 is a valid value.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            if control_bytes > 0 {
                header.msg_hdr.msg_control =
                    controls.start().wrapping_add(index * CONTROL_BYTES).cast();
                header.msg_hdr.msg_controllen = control_bytes;
            }
            if let Some(names) = &names {
                header.msg_hdr.msg_name = names.start().wrapping_add(index * NAME_BYTES).cast();
                header.msg_hdr.msg_namelen = NAME_BYTES as u32;
            }
            header
        };
        let headers = vectors.iter_mut().enumerate().map(header).collect();
        Ok(Headers { headers, _vectors: vectors, controls, names })
    }

    /// Records a call that filled this many headers.
    #[inline]
    fn record(&self, timer: Timer, filled: usize, peer: &Subject) {
        if timer.is_on() {
            let lengths = self.headers[..filled].iter().map(|header| header.msg_len as usize);
            record::socket_read(timer, peer, lengths.sum());
        }
    }
}

fn last_error() -> Errno {
    let error = io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
