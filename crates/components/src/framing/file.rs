//! The framer of one file, and what it knows of the event that is open.

use millstream_framing::{Close, Event, Framer, Rules, Tally};
use millstream_model::{BatchBuilder, Counters, LongLine, TIME_UNKNOWN};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Bytes read at once at least, however short the events are.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Bytes a decoder may need beside those for the text.
pub const OUT_MARGIN: usize = 16;

/// An event whose last line is unfinished stays open this many times as long: its writer is in the
/// middle of it.
const UNFINISHED_PATIENCE: u32 = 10;

/// How the bytes of a source's files become events.
#[derive(Clone)]
pub struct Framing {
    /// The rules.
    pub rules: Arc<Rules>,
    /// How long an event stays open in a silent file.
    pub timeout: Duration,
}

/// The framer of one file.
pub struct FileFramer {
    framer: Framer,
    timeout: Duration,
    open: Option<Open>,
}

/// An event that may go on.
#[derive(Clone, Copy)]
struct Open {
    position: u64,
    /// Bytes there are of it.
    bytes: usize,
    since: Duration,
}

/// What becomes of long lines.
#[derive(Clone, Copy)]
pub struct LineLimits {
    /// Longest line in bytes.
    pub line_max: usize,
    /// What becomes of a longer one.
    pub long: LongLine,
}

/// Counts what was not as the rules have it.
pub fn count(tally: Tally, counters: &Counters) {
    for (what, count) in
        [("slice_errors", tally.misfits), ("cut", tally.cut), ("broken", tally.broken)]
    {
        if count > 0 {
            counters.noted(what, count);
        }
    }
}

/// Bytes that were read.
#[derive(Clone, Copy)]
pub struct Portion {
    /// Where they begin in the file.
    pub position: u64,
    /// How many there were.
    pub bytes: usize,
    /// How many were asked for.
    pub wanted: usize,
    /// Nothing more will come.
    pub is_all: bool,
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
    /// For one file.
    pub fn new(framing: &Framing) -> FileFramer {
        FileFramer {
            framer: Framer::new(framing.rules.clone()),
            timeout: framing.timeout,
            open: None,
        }
    }

    /// Whether an event is open that ends when its file has been silent for long enough.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Nothing is open.
    pub fn end(&mut self) {
        self.open = None;
    }

    /// Whether the open event is to end, at `now` in engine time. It waits only while nothing is
    /// added.
    pub fn close(&mut self, portion: Portion, raw: &[u8], now: Duration) -> Close {
        let (position, bytes) = (portion.position, portion.bytes);
        let same = self.open.filter(|open| (open.position, open.bytes) == (position, bytes));
        let since = same.map_or(now, |open| open.since);
        self.open = Some(Open { position, bytes, since });
        let is_unfinished = !raw[bytes.saturating_sub(2)..].contains(&b'\n');
        let patience =
            if is_unfinished { self.timeout * UNFINISHED_PATIENCE } else { self.timeout };
        match portion.is_all {
            true => Close::All,
            false if portion.bytes < portion.wanted && now.saturating_sub(since) >= patience => {
                Close::Lines
            }
            false => Close::No,
        }
    }

    /// Adds an event, the end of `text`, to a batch. `begin` is where its texts begin in the block,
    /// and `position` where its bytes begin in the file. Returns how often a long line was cut.
    pub fn add(
        &self,
        event: Event,
        text: &[u8],
        (begin, position): (usize, u64),
        limits: LineLimits,
        builder: &mut BatchBuilder,
    ) -> u64 {
        let (start, offset) = (begin + event.start as usize, position + u64::from(event.offset));
        let text = &text[start..];
        let mut cuts = 0;
        if text.len() > limits.line_max {
            // Text may be longer than the bytes it stands for: its parts get offsets among those.
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

    /// Whether the first line of `raw`, in which no event is whole, is longer than an event may be.
    pub fn begins_long(&self, raw: &[u8], line_max: usize) -> bool {
        self.line_end(raw).unwrap_or(raw.len()) > self.raw_bytes(line_max) + 2
    }

    /// Most bytes of a file that stand for `bytes` of text.
    pub fn raw_bytes(&self, bytes: usize) -> usize {
        if self.is_decoding() { bytes * 2 } else { bytes }
    }

    /// Bytes of a block that can hold an event of any length.
    pub fn block_bytes(&self, line_max: usize) -> usize {
        let expansion = if self.is_decoding() { self.expansion() } else { 1 };
        (self.raw_bytes(line_max) + READ_AHEAD_BYTES) * expansion + OUT_MARGIN
    }
}

/// The first events, at least `count`, that are used up together, and the bytes they take.
pub fn together(events: &[Event], count: usize) -> (usize, usize) {
    let mut end = count.min(events.len()).max(1);
    while end < events.len() && events[end].next == events[end - 1].next {
        end += 1;
    }
    (end, events.get(end - 1).map_or(0, |event| event.next as usize))
}
