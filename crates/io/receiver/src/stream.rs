//! Streams of bytes parsed into messages.

use crate::messages::Batch;
use crate::{Framing, Options};

/// Bytes read from a connection with one call.
pub const READ_BYTES: usize = 64 << 10;

/// Bytes in front of each message that hold its length.
const LENGTH_BYTES: usize = 4;

/// What is known of a stream between two reads.
#[derive(Debug)]
pub struct Stream {
    framing: Framing,
    message_bytes_max: usize,
    /// The beginning of a message whose end has not come yet.
    open: Vec<u8>,
    /// True while the rest of a line that was too long is skipped.
    is_skipping: bool,
}

/// The stream cannot go on: nobody knows where its next message begins.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

impl Stream {
    pub fn new(framing: Framing, options: &Options) -> Stream {
        let message_bytes_max = options.message_bytes_max;
        Stream { framing, message_bytes_max, open: Vec::new(), is_skipping: false }
    }

    /// Goes on with another limit. Returns how many faults that makes.
    pub fn adapt(&mut self, message_bytes_max: usize) -> Result<usize, Broken> {
        self.message_bytes_max = message_bytes_max;
        match self.framing {
            Framing::Lines if self.open.len() > message_bytes_max => {
                (self.open, self.is_skipping) = (Vec::new(), true);
                Ok(1)
            }
            Framing::Length if length(&self.open).is_some_and(|len| len > message_bytes_max) => {
                Err(Broken)
            }
            _ => Ok(0),
        }
    }

    /// Bytes of memory that [`Stream::begin`] and a read need.
    pub fn memory_bytes(message_bytes_max: usize) -> usize {
        message_bytes_max + LENGTH_BYTES + READ_BYTES
    }

    /// Puts the open message at the start of the memory and gives its length: the next bytes of the
    /// stream belong behind it.
    pub fn begin(&mut self, memory: &mut [u8]) -> usize {
        memory[..self.open.len()].copy_from_slice(&self.open);
        self.open.len()
    }

    /// Adds the messages in `bytes`, which are the open message and what was read behind it, to the
    /// batch, and keeps the rest. Returns how many faults there were.
    pub fn take(&mut self, bytes: &[u8], batch: &mut Batch, sender: u32) -> Result<usize, Broken> {
        let (taken, faults) = match self.framing {
            Framing::Lines => self.lines(bytes, batch, sender),
            Framing::Length => self.lengths(bytes, batch, sender)?,
        };
        self.keep(&bytes[taken..]);
        Ok(faults)
    }

    /// The stream has ended behind `bytes`, which are the open message. Returns faults.
    pub fn end(&mut self, bytes: &[u8], batch: &mut Batch, sender: u32) -> usize {
        self.open = Vec::new();
        match self.framing {
            _ if bytes.is_empty() => 0,
            Framing::Lines if self.is_skipping => 0,
            Framing::Lines => {
                batch.push(0, bytes.len(), 0, sender);
                0
            }
            Framing::Length => 1,
        }
    }

    /// The stream was broken off: its open message, of which nobody knows how it goes on, is left
    /// out. Returns faults.
    pub fn break_off(&mut self) -> usize {
        usize::from(!std::mem::take(&mut self.open).is_empty())
    }

    fn keep(&mut self, rest: &[u8]) {
        self.open.clear();
        self.open.extend_from_slice(rest);
        if rest.is_empty() {
            self.open = Vec::new(); // thousands of idle connections need no memory
        }
    }

    /// Returns how many bytes are done with, and how many lines were too long.
    fn lines(&mut self, bytes: &[u8], batch: &mut Batch, sender: u32) -> (usize, usize) {
        let (mut start, mut faults) = (0, 0);
        // The open message has no line end, else it would have been taken.
        for end in memchr::memchr_iter(b'\n', &bytes[self.open.len()..]) {
            let end = end + self.open.len();
            let len = end - start;
            match std::mem::take(&mut self.is_skipping) {
                true => {}
                false if len > self.message_bytes_max => faults += 1,
                false if len > 0 => batch.push(start, len, 0, sender),
                false => {}
            }
            start = end + 1;
        }
        if self.is_skipping {
            return (bytes.len(), faults);
        }
        if bytes.len() - start > self.message_bytes_max {
            self.is_skipping = true;
            return (bytes.len(), faults + 1);
        }
        (start, faults)
    }

    fn lengths(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch,
        sender: u32,
    ) -> Result<(usize, usize), Broken> {
        let mut start = 0;
        while let Some(len) = length(&bytes[start..]) {
            if len > self.message_bytes_max {
                return Err(Broken);
            }
            if len > bytes.len() - start - LENGTH_BYTES {
                break;
            }
            if len > 0 {
                batch.push(start + LENGTH_BYTES, len, 0, sender);
            }
            start += LENGTH_BYTES + len;
        }
        Ok((start, 0))
    }
}

/// The length that the bytes begin with.
fn length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<LENGTH_BYTES>().map(|length| u32::from_le_bytes(*length) as usize)
}
