//! The framer of one file, and what it knows of the event that is open.

use millstream_framing::{Close, Event, Framer, Rules};
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
        FileFramer { framer: Framer::new(framing.rules.clone()), timeout: framing.timeout, open: None }
    }

    /// Whether an event is open that ends when its file has been silent for long enough.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Nothing is open.
    pub fn end(&mut self) {
        self.open = None;
    }

    /// Whether the open event is to end, at `now` in engine time. It waits only while nothing is added.
    pub fn close(&mut self, portion: Portion, raw: &[u8], now: Duration) -> Close {
        let (position, bytes) = (portion.position, portion.bytes);
        let same = self.open.filter(|open| (open.position, open.bytes) == (position, bytes));
        let since = same.map_or(now, |open| open.since);
        self.open = Some(Open { position, bytes, since });
        let is_unfinished = !raw[bytes.saturating_sub(2)..].contains(&b'\n');
        let patience = if is_unfinished { self.timeout * UNFINISHED_PATIENCE } else { self.timeout };
        match portion.is_all {
            true => Close::All,
            false if portion.bytes < portion.wanted && now.saturating_sub(since) >= patience => Close::Lines,
            false => Close::No,
        }
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
