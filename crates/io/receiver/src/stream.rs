//! Splits byte streams into messages.

use crate::messages::Batch;
use crate::{Framing, Options};
use millstream_framing::{SyslogFrame, SyslogFramer};

/// Bytes per read from a connection.
pub const READ_BYTES: usize = 64 << 10;

/// Size of the length prefix in bytes.
const LENGTH_BYTES: usize = 4;

/// A stream's parser state between two reads.
#[derive(Debug)]
pub struct Stream {
    framing: Framing,
    message_bytes_max: usize,
    /// The start of a message that is not complete yet.
    partial: Vec<u8>,
    /// Whether the remaining bytes of an oversized line are being skipped.
    is_skipping: bool,
    /// State of [`Framing::Syslog`].
    syslog: SyslogFramer,
    /// Whether [`Framing::Syslog`] truncates messages over the limit instead of dropping them.
    truncates: bool,
}

/// The error for an unusable stream, whose next message boundary is unknown.
#[derive(Debug, PartialEq, Eq)]
pub struct Desynchronized;

impl Stream {
    pub fn new(framing: Framing, options: &Options) -> Stream {
        let message_bytes_max = options.message_bytes_max;
        let (partial, is_skipping, syslog) = Default::default();
        let truncates = options.truncates;
        Stream { framing, message_bytes_max, partial, is_skipping, syslog, truncates }
    }

    /// Returns whether the stream is within a message.
    pub fn is_partial(&self) -> bool {
        !self.partial.is_empty() || self.is_skipping || self.syslog.is_skipping()
    }

    /// Applies the limit of other options. Returns the number of framing errors that this causes.
    pub fn apply_options(&mut self, options: &Options) -> Result<usize, Desynchronized> {
        let message_bytes_max = options.message_bytes_max;
        (self.message_bytes_max, self.truncates) = (message_bytes_max, options.truncates);
        match self.framing {
            Framing::Lines if self.partial.len() > message_bytes_max => {
                (self.partial, self.is_skipping) = (Vec::new(), true);
                Ok(1)
            }
            Framing::Syslog if self.partial.len() > message_bytes_max => {
                self.syslog.skip_message(&self.partial);
                self.partial = Vec::new();
                Ok(1)
            }
            Framing::Length
                if length_prefix(&self.partial).is_some_and(|len| len > message_bytes_max) =>
            {
                Err(Desynchronized)
            }
            _ => Ok(0),
        }
    }

    /// Returns how much memory [`Stream::restore`] and a read need, in bytes.
    pub fn memory_bytes(message_bytes_max: usize) -> usize {
        message_bytes_max + LENGTH_BYTES.max(SyslogFramer::EXTRA_BYTES) + READ_BYTES
    }

    /// Copies the partial message to the start of the memory and returns its length. The next bytes
    /// of the stream must be read to the position after it.
    pub fn restore(&mut self, memory: &mut [u8]) -> usize {
        memory[..self.partial.len()].copy_from_slice(&self.partial);
        self.partial.len()
    }

    /// Parses `bytes`, which are the partial message followed by the bytes read, and adds the
    /// messages to the batch. Keeps the bytes of an incomplete message. Returns the number of
    /// framing errors.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch,
        sender: u32,
    ) -> Result<usize, Desynchronized> {
        let (consumed, errors) = match self.framing {
            Framing::Lines => self.lines(bytes, batch, sender),
            Framing::Length => self.length_prefixed(bytes, batch, sender)?,
            Framing::Syslog => self.syslog(bytes, batch, sender)?,
        };
        self.keep(&bytes[consumed..]);
        Ok(errors)
    }

    /// Ends the stream. `bytes` is the partial message. Returns the number of framing errors.
    pub fn finish(&mut self, bytes: &[u8], batch: &mut Batch, sender: u32) -> usize {
        self.partial = Vec::new();
        match self.framing {
            Framing::Syslog => {
                let last = self.syslog.finish(bytes, self.message_bytes_max);
                last.map_or(0, |frame| push_frame(batch, &frame, self.truncates, sender))
            }
            _ if bytes.is_empty() => 0,
            Framing::Lines if self.is_skipping => 0,
            Framing::Lines => {
                batch.push(0, bytes.len(), 0, sender);
                0
            }
            Framing::Length => 1,
        }
    }

    /// Aborts the stream and drops the partial message, because the end of the message is missing.
    /// Returns the number of framing errors.
    pub fn abort(&mut self) -> usize {
        usize::from(!std::mem::take(&mut self.partial).is_empty())
    }

    fn keep(&mut self, rest: &[u8]) {
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        if rest.is_empty() {
            self.partial = Vec::new(); // thousands of idle connections need no memory
        }
    }

    /// Returns the number of consumed bytes, and the number of lines over the limit.
    fn lines(&mut self, bytes: &[u8], batch: &mut Batch, sender: u32) -> (usize, usize) {
        let (mut start, mut errors) = (0, 0);
        // The partial message contains no newline; otherwise it would have been consumed.
        for end in memchr::memchr_iter(b'\n', &bytes[self.partial.len()..]) {
            let end = end + self.partial.len();
            let len = end - start;
            match std::mem::take(&mut self.is_skipping) {
                true => {}
                false if len > self.message_bytes_max => errors += 1,
                false if len > 0 => batch.push(start, len, 0, sender),
                false => {}
            }
            start = end + 1;
        }
        if self.is_skipping {
            return (bytes.len(), errors);
        }
        if bytes.len() - start > self.message_bytes_max {
            self.is_skipping = true;
            return (bytes.len(), errors + 1);
        }
        (start, errors)
    }

    /// Returns the number of consumed bytes, and the number of messages over the limit that were
    /// dropped.
    fn syslog(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch,
        sender: u32,
    ) -> Result<(usize, usize), Desynchronized> {
        let (searched, truncates, mut errors) = (self.partial.len(), self.truncates, 0);
        let consumed = self.syslog.parse(bytes, searched, self.message_bytes_max, |frame| {
            errors += push_frame(batch, &frame, truncates, sender);
        });
        consumed.map(|consumed| (consumed, errors)).map_err(|_| Desynchronized)
    }

    fn length_prefixed(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch,
        sender: u32,
    ) -> Result<(usize, usize), Desynchronized> {
        let mut start = 0;
        while let Some(len) = length_prefix(&bytes[start..]) {
            if len > self.message_bytes_max {
                return Err(Desynchronized);
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

/// Returns the length prefix at the start of the bytes; `None` if it is incomplete.
fn length_prefix(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<LENGTH_BYTES>().map(|prefix| u32::from_le_bytes(*prefix) as usize)
}

/// Adds a syslog message to the batch. Returns 1 if the message is truncated and therefore dropped.
fn push_frame(batch: &mut Batch, frame: &SyslogFrame, truncates: bool, sender: u32) -> usize {
    let SyslogFrame { range, is_truncated } = frame;
    match (is_truncated, truncates) {
        (false, _) => batch.push(range.start, range.len(), 0, sender),
        (true, true) => batch.push_truncated(range.start, range.len(), sender),
        (true, false) => return 1,
    }
    0
}
