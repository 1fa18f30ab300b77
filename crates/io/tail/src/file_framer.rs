//! The framer for one file, and the timeout of its open event.

use millstream_framing::{Close, Event, Framer, Rules, Tally, bom_len};
use millstream_model::{BatchBuilder, Counters, EngineTime, LongLine, TIME_UNKNOWN};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Minimum bytes per read, even if the events are shorter.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Bytes that a decoder may need in addition to the text.
pub const OUT_MARGIN: usize = 16;

/// Factor applied to the timeout of an event whose last line is unfinished, because its writer is
/// in the middle of a line.
const UNFINISHED_FACTOR: u32 = 10;

/// How the bytes in a source's files become events.
#[derive(Clone)]
pub struct Framing {
    /// The framing rules.
    pub rules: Arc<Rules>,
    /// How long an event stays open in an idle file.
    pub timeout: Duration,
}

/// The framer for one file.
pub struct FileFramer {
    framer: Framer,
    timeout: Duration,
    open: Option<Open>,
}

/// The event at the cursor, which may continue.
#[derive(Clone, Copy)]
struct Open {
    position: u64,
    /// Number of bytes that the event had at the last read.
    bytes: usize,
    since: EngineTime,
}

/// Limits on long lines.
#[derive(Clone, Copy)]
pub struct LineLimits {
    /// Maximum length of a line in bytes.
    pub line_max: usize,
    /// How longer lines are handled.
    pub long: LongLine,
}

/// Counts the framing errors in a tally as notes of the source.
pub fn count(tally: Tally, counters: &Counters) {
    for (what, count) in
        [("slice_errors", tally.misfits), ("cut", tally.cut), ("broken", tally.broken)]
    {
        if count > 0 {
            counters.noted(what, count);
        }
    }
}

/// The bytes returned by one read.
#[derive(Clone, Copy)]
pub struct Portion {
    /// Offset of the bytes in the file.
    pub position: u64,
    /// Number of bytes read.
    pub bytes: usize,
    /// Number of bytes requested.
    pub wanted: usize,
    /// Whether the portion reaches the end of the data.
    pub is_all: bool,
}

/// The positions where a read starts.
#[derive(Clone, Copy)]
pub struct ReadOrigin {
    /// Offset of the read's text in the block.
    pub block: usize,
    /// Offset of the read's bytes in the file.
    pub file: u64,
}

/// Events that are consumed together.
#[derive(Clone, Copy)]
pub struct EventGroup {
    /// Number of events.
    pub events: usize,
    /// Number of bytes that the events take in the file.
    pub bytes: usize,
}

impl Portion {
    /// Returns the first `bytes` of the portion, as if no line followed them.
    pub fn cut(self, bytes: usize) -> Portion {
        Portion { bytes, wanted: bytes, is_all: true, ..self }
    }
}

impl Deref for FileFramer {
    type Target = Framer;

    fn deref(&self) -> &Framer {
        &self.framer
    }
}

impl DerefMut for FileFramer {
    fn deref_mut(&mut self) -> &mut Framer {
        &mut self.framer
    }
}

impl FileFramer {
    /// Creates the framer of one file.
    pub fn new(framing: &Framing) -> FileFramer {
        FileFramer {
            framer: Framer::new(framing.rules.clone()),
            timeout: framing.timeout,
            open: None,
        }
    }

    /// Returns whether an event is open and may be ended by the timeout.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Clears the open event.
    pub fn end(&mut self) {
        self.open = None;
    }

    /// Decides whether the open event must end at `now`, and remembers when it last grew. The
    /// timeout restarts whenever bytes are added.
    pub fn close(&mut self, portion: Portion, raw: &[u8], now: EngineTime) -> Close {
        let position = portion.position;
        let bytes = portion.bytes;
        let same = self.open.filter(|open| (open.position, open.bytes) == (position, bytes));
        let since = same.map_or(now, |open| open.since);
        self.open = Some(Open { position, bytes, since });
        let is_unfinished = !raw[bytes.saturating_sub(2)..].contains(&b'\n');
        let timeout = if is_unfinished { self.timeout * UNFINISHED_FACTOR } else { self.timeout };
        if portion.is_all {
            Close::All
        } else if portion.bytes < portion.wanted && now - since >= timeout {
            Close::Lines
        } else {
            Close::No
        }
    }

    /// Adds an event, which ends at the end of `text`, to a batch. Returns how many times a long
    /// line was cut.
    pub fn add(
        &self,
        event: Event,
        text: &[u8],
        origin: ReadOrigin,
        limits: LineLimits,
        builder: &mut BatchBuilder,
    ) -> u64 {
        let start = origin.block + event.start as usize;
        let offset = origin.file + u64::from(event.offset);
        let text = &text[start..];
        let mut cuts = 0;
        if text.len() > limits.line_max {
            // Decoded text may be longer than its bytes in the file, so the offsets of its parts
            // are interpolated.
            let bytes = u64::from(event.next.max(event.offset + 1) - event.offset);
            let part = |at: usize| offset + (at - start) as u64 * bytes / text.len() as u64;
            cuts = builder.long_row_at(text, start, limits.line_max, limits.long, part);
        } else if self.is_decoding() {
            builder.row_at(text, start, offset);
        } else {
            builder.row(text, start);
        }
        if event.time_ns != TIME_UNKNOWN {
            builder.time(event.time_ns);
        }
        cuts
    }

    /// Returns whether the first line of `raw`, which contains no complete event, exceeds the
    /// maximum event size.
    pub fn begins_long(&self, raw: &[u8], line_max: usize) -> bool {
        let line = self.line_end(raw).unwrap_or(raw.len());
        line > bom_len(raw) + self.raw_bytes(line_max) + 2
    }

    /// Returns the maximum number of bytes in a file that decode to `bytes` of text.
    pub fn raw_bytes(&self, bytes: usize) -> usize {
        if self.is_decoding() { bytes * 2 } else { bytes }
    }

    /// Returns a block size in bytes that fits an event of any permitted length.
    pub fn block_bytes(&self, line_max: usize) -> usize {
        let expansion = if self.is_decoding() { self.expansion() } else { 1 };
        (self.raw_bytes(line_max) + READ_AHEAD_BYTES) * expansion + OUT_MARGIN
    }
}

/// Returns the leading events that must be consumed together: at least `count`, and more if they
/// share their bytes with the last one.
pub fn together(events: &[Event], count: usize) -> EventGroup {
    let mut end = count.min(events.len()).max(1);
    while end < events.len() && events[end].next == events[end - 1].next {
        end += 1;
    }
    EventGroup { events: end, bytes: events.get(end - 1).map_or(0, |event| event.next as usize) }
}
