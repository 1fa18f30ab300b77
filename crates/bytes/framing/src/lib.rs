//! Splits the bytes of a file into events: multi-line rules, encodings and container log formats.
//! No clock. No I/O except the lookup of a time zone by name when rules are compiled.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! [`Rules`] are compiled once. A [`Framer`] applies them to one file: it takes bytes that begin at
//! the start of an event and returns the complete events. The result depends only on these bytes,
//! so an incomplete event is framed again later, from its start.
//!
//! ```
//! use millstream_framing::{Close, EventBuffer, Framer, Input, Multiline, Preset, Rules, Spec};
//! let multiline = Multiline { preset: Some(Preset::Java), ..Multiline::default() };
//! let rules = Rules::new(&Spec { multiline: Some(multiline), ..Spec::default() }).unwrap();
//! let mut framer = Framer::new(rules.into());
//! let mut found = EventBuffer::default();
//! let raw = b"java.io.IOException: no\n\tat A.b(A.java:1)\nnext\n";
//! let input = Input { raw, close: Close::No, rows_max: 100, reference_ns: 0 };
//! let framed = framer.frame(input, &mut [], &mut found);
//! assert_eq!((found.events.len(), framed.used), (1, 42));
//! ```

#![forbid(unsafe_code)]

mod container;
mod cri;
mod docker;
mod encoding;
mod framer;
mod group;
mod line;
mod pattern;
mod presets;
mod record;
mod rule;
mod spec;
mod streams;
mod time;

pub use cri::fields as cri_fields;
pub use framer::Framer;
pub use record::Fields as CriFields;
pub use spec::{Container, LINES_MAX_DEFAULT, Multiline, Preset, Rules, Spec, SpecError, Start};
pub use time::{TimeReader, TimeSpec, Unread};

/// The time of an event without a timestamp.
pub const TIME_UNKNOWN: i64 = i64::MIN;

/// Bytes of a file that [`Framer::detect`] needs, or all bytes of a shorter file.
pub const HEAD_BYTES: usize = 1024;

/// Maximum number of events that are consumed together: a caller with capacity for this many always
/// makes progress.
pub const GROUP_ROWS_MAX: usize = 1000;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Start of the text: in the raw bytes, or in `out` if the framer is decoding.
    pub start: u32,
    /// End of the text, without the last line end.
    pub end: u32,
    /// Start of the event in the raw bytes.
    pub offset: u32,
    /// Offset before which all raw bytes are consumed once this and all previous events are
    /// delivered. If the previous event has the same offset, both are consumed together with the
    /// next event that advances it.
    pub next: u32,
    /// Timestamp in nanoseconds since 1970, or [`TIME_UNKNOWN`].
    pub time_ns: i64,
    /// The container stream that wrote the event.
    pub stream: Option<Stream>,
    /// Whether the container runtime announced another part of the line that is missing.
    pub is_partial: bool,
}

/// A stream of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Counts of the returned events that do not match the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events whose first line cannot start an event.
    pub misfits: u64,
    /// Events ended by a limit.
    pub cut: u64,
    /// Invalid byte sequences, and lines that are not in the container format.
    pub broken: u64,
}

/// Whether more bytes may follow the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// More bytes may follow: an event that another line may join is not returned.
    No,
    /// More bytes may follow, but not soon: an open event ends with its last complete line.
    Lines,
    /// The file ends here: an unterminated last line is a line.
    All,
}

/// The input of [`Framer::frame`].
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes of the file, beginning at the start of an event; less than 4 GiB.
    pub raw: &'a [u8],
    /// Whether more bytes may follow.
    pub close: Close,
    /// Maximum events to return.
    pub rows_max: usize,
    /// Reference for timestamps without a year, in nanoseconds since 1970: their date is at most
    /// one day later.
    pub reference_ns: i64,
}

/// The result of [`Framer::frame`]; its memory is reused by the next call.
#[derive(Debug, Default)]
pub struct EventBuffer {
    /// The events, in the order of delivery.
    pub events: Vec<Event>,
    /// Counts of events that did not match the rules.
    pub tally: Tally,
    scratch: line::Scratch,
    buffers: streams::Buffers,
}

/// Number of bytes that were consumed and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed {
    /// Raw bytes consumed: up to the start of the first event that was not returned.
    pub used: usize,
    /// Bytes of `out` that the texts take.
    pub written: usize,
}

/// Returns the length of the UTF-8 byte order mark at the start of a file, or 0 without one.
pub fn bom_len(head: &[u8]) -> usize {
    if head.starts_with(line::BOM) { line::BOM.len() } else { 0 }
}
