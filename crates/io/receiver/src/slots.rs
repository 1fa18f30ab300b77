//! Many datagrams with one call: slots of memory, and the headers that tell the kernel about them.

use crate::messages::Batch;
use crate::senders::Senders;
use crate::sys::Area;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Slots of a round at most. Measured with 64, 256 and 1,024: a datagram costs the same with each,
/// and every slot keeps a page resident.
const DEPTH_MAX: usize = 256;

/// A slot takes the largest UDP datagram, and as much as the kernel merges into one.
const SLOT_BYTES_MIN: usize = 64 << 10;

/// Slots do not begin at the same place of a page: else the first lines of all of them would
/// compete for the same few sets of the cache. Three lines of 64 bytes.
const STAGGER_BYTES: usize = 192;

/// Address space of all slots; what is not written to is not resident.
const AREA_BYTES_MAX: usize = 64 << 20;

/// Bytes a round should bring: what the second level of the cache holds beside everything else.
/// Datagrams of 8,000 bytes cost a quarter more when a round brings 2 MB.
const ROUND_BYTES: usize = 128 << 10;

/// Pages beyond the first of each slot are given back when they have come to so much.
const TOUCHED_BYTES_MAX: usize = 4 << 20;

const PAGE_BYTES: usize = 4096;

/// Room for the credentials of the sender, or for the length of merged datagrams, and no more: file
/// descriptors that a sender may pass along find no room and are closed by the kernel.
const CONTROL_BYTES: usize = 32;

/// The headers of all slots.
struct Headers {
    headers: Vec<libc::mmsghdr>,
    /// The headers point into these two, which therefore never grow.
    _vectors: Vec<libc::iovec>,
    controls: Area,
}

/// What a call brought.
#[derive(Debug, Default, Clone, Copy)]
pub struct Received {
    /// Slots that were filled; fewer than asked means that the socket is empty.
    pub slots: usize,
    /// Datagrams that were longer than allowed, and so were left out.
    pub truncated: usize,
    /// Slots without a byte, which is what the end of a connection looks like as well.
    pub empty: usize,
}

/// The memory one thread receives datagrams into.
pub struct Slots {
    area: Area,
    /// Headers with room for control messages, and without.
    noted: Headers,
    plain: Headers,
    stride: usize,
    message_bytes_max: usize,
    /// Bytes of each slot that have been written to, if more than its first page.
    touched: Vec<u32>,
    touched_bytes: usize,
    depth: usize,
}

impl Slots {
    pub fn new(message_bytes_max: usize) -> io::Result<Slots> {
        let slot = message_bytes_max.max(SLOT_BYTES_MIN).next_multiple_of(PAGE_BYTES);
        let stride = slot + STAGGER_BYTES;
        let depth_max = (AREA_BYTES_MAX / stride).clamp(1, DEPTH_MAX);
        let area = Area::new(stride * depth_max)?;
        let noted = Headers::new(&area, slot, depth_max, CONTROL_BYTES)?;
        let plain = Headers::new(&area, slot, depth_max, 0)?;
        let touched = vec![PAGE_BYTES as u32; depth_max];
        Ok(Slots {
            area,
            noted,
            plain,
            stride,
            message_bytes_max,
            touched,
            touched_bytes: 0,
            depth: depth_max,
        })
    }

    pub fn memory(&self) -> &[u8] {
        self.area.bytes()
    }

    /// Slots the next round should use: so many that their bytes fit into the cache.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Receives up to `most` datagrams that wait at the socket, and adds them to the batch.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        notes: Notes<'_>,
        batch: &mut Batch,
    ) -> Result<Received, Errno> {
        let headers = match notes {
            Notes::Plain(_) => &mut self.plain,
            _ => &mut self.noted,
        };
        let most = most.min(headers.headers.len());
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        let first = headers.headers.as_mut_ptr();
        // SAFETY: `first` are at least `most` headers. Their vectors point to slots within the area
        // and their control addresses into `controls`, with the lengths of both, and all of that
        // lives as long as `self`; `&mut self` says that nobody looks into the slots meanwhile.
        let got = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), first, most as u32, flags as _, ptr::null_mut())
        };
        match usize::try_from(got) {
            Ok(slots) => Ok(self.note(slots, notes, batch)),
            Err(_) => Err(last_error()),
        }
    }

    /// Adds what the kernel wrote to the batch and makes the headers ready for the next round.
    fn note(&mut self, slots: usize, mut notes: Notes<'_>, batch: &mut Batch) -> Received {
        let headers =
            if matches!(notes, Notes::Plain(_)) { &mut self.plain } else { &mut self.noted };
        let mut received = Received { slots, ..Received::default() };
        let mut longest = 0;
        let controls = headers.controls.bytes();
        for (slot, header) in headers.headers[..slots].iter_mut().enumerate() {
            let len = header.msg_len as usize;
            let control = &controls[slot * CONTROL_BYTES..][..CONTROL_BYTES];
            let (segment, sender) = notes.read(&mut header.msg_hdr, control, batch);
            longest = longest.max(len);
            if len > self.touched[slot] as usize {
                self.touched_bytes += len - self.touched[slot] as usize;
                self.touched[slot] = len as u32;
            }
            let is_cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let single = if segment == 0 { len } else { segment };
            received.empty += usize::from(len == 0);
            match is_cut || single > self.message_bytes_max {
                true => received.truncated += if segment == 0 { 1 } else { len.div_ceil(segment) },
                false => batch.push(slot * self.stride, len, segment, sender),
            }
        }
        self.depth =
            (ROUND_BYTES / longest.max(1)).clamp(16.min(self.touched.len()), self.touched.len());
        received
    }

    /// To be called when a round has been handed on: returns memory that long datagrams have
    /// taken, if it has become much.
    pub fn settle(&mut self) {
        if self.touched_bytes > TOUCHED_BYTES_MAX {
            self.area.release();
            self.touched.fill(PAGE_BYTES as u32);
            self.touched_bytes = 0;
        }
    }
}

/// What the kernel notes beside each datagram of a socket.
pub enum Notes<'a> {
    /// Nothing: all are from this sender, by its index in the batch.
    Plain(u32),
    /// The length of datagrams that it merged.
    Segments,
    /// The process that sent it.
    Senders(&'a mut Senders),
}

impl Notes<'_> {
    /// The length of merged datagrams, or 0, and the sender's index; the header is made ready for
    /// the next round.
    #[inline]
    fn read(
        &mut self,
        header: &mut libc::msghdr,
        control: &[u8],
        batch: &mut Batch,
    ) -> (usize, u32) {
        let senders = match self {
            Notes::Plain(sender) => return (0, *sender),
            Notes::Segments if header.msg_controllen == 0 => {
                header.msg_controllen = CONTROL_BYTES;
                return (0, batch.sender(None));
            }
            Notes::Segments => None,
            Notes::Senders(senders) => Some(senders),
        };
        let note = note(&control[..header.msg_controllen.min(CONTROL_BYTES)]);
        header.msg_controllen = CONTROL_BYTES;
        match (note, senders) {
            (Some(Note::Segment(bytes)), _) => (bytes, batch.sender(None)),
            (Some(Note::Pid(pid)), Some(senders)) => (0, batch.sender(Some(senders.get(pid)))),
            _ => (0, batch.sender(None)),
        }
    }
}

/// A control message.
enum Note {
    Segment(usize),
    Pid(u32),
}

/// Reads a control message; there is room for one only.
fn note(control: &[u8]) -> Option<Note> {
    // struct cmsghdr: length (usize), level (int), type (int), then its data.
    let number = |at: usize| control.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let (level, kind, value) = (number(8)? as i32, number(12)? as i32, number(16)?);
    match (level, kind) {
        (libc::SOL_UDP, libc::UDP_GRO) => Some(Note::Segment(value as usize)),
        (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if value != 0 => Some(Note::Pid(value)),
        _ => None,
    }
}

impl Headers {
    /// Headers for `count` slots of `slot` bytes, that lie a little more than that apart.
    fn new(area: &Area, slot: usize, count: usize, control_bytes: usize) -> io::Result<Headers> {
        let controls = Area::new(count * CONTROL_BYTES)?;
        let start = |index: usize| area.start().wrapping_add(index * (slot + STAGGER_BYTES));
        let vector = |index| libc::iovec { iov_base: start(index).cast(), iov_len: slot };
        let mut vectors: Vec<libc::iovec> = (0..count).map(vector).collect();
        let header = |(index, vector): (usize, &mut libc::iovec)| {
            // SAFETY: all fields are integers and addresses, for which 0 is a value.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            if control_bytes > 0 {
                header.msg_hdr.msg_control =
                    controls.start().wrapping_add(index * CONTROL_BYTES).cast();
                header.msg_hdr.msg_controllen = control_bytes;
            }
            header
        };
        let headers = vectors.iter_mut().enumerate().map(header).collect();
        Ok(Headers { headers, _vectors: vectors, controls })
    }
}

fn last_error() -> Errno {
    let error = io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
