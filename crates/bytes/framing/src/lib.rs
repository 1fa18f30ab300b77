//! Splits the bytes of a file into events: multi-line rules, encodings and container log formats.
//! The crate uses no clock, and no I/O except for looking up a time zone by name when it compiles
//! rules.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! [`Rules`] are compiled once. A [`Framer`] applies them to one file: it takes bytes that begin at
//! the start of an event and returns the complete events. The result depends only on these bytes,
//! so the framer can reread an incomplete event from its start later.
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
mod syslog;
mod time;

pub use cri::fields as cri_fields;
pub use framer::Framer;
pub use record::Fields as CriFields;
pub use spec::{Container, LINES_MAX_DEFAULT, Multiline, Preset, Rules, Spec, SpecError, Start};
pub use syslog::{InvalidLength, SyslogFrame, SyslogFramer};
pub use time::{TimeReader, TimeSpec, Unread};

/// The time of an event that has no timestamp.
pub const TIME_UNKNOWN: i64 = i64::MIN;

/// Number of bytes that [`Framer::detect`] needs, unless the file is shorter.
pub const HEAD_BYTES: usize = 1024;

/// Maximum number of events that are consumed together. A caller with capacity for this many events
/// always makes progress.
pub const GROUP_ROWS_MAX: usize = 1000;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Start of the text, in the raw bytes or, if the framer is decoding, in `out`.
    pub start: u32,
    /// End of the text, excluding the last line ending.
    pub end: u32,
    /// Start of the event in the raw bytes.
    pub offset: u32,
    /// Offset before which all raw bytes are consumed once this event and all previous events are
    /// delivered. If the previous event has the same offset, both are consumed together with the
    /// next event that advances the offset.
    pub next: u32,
    /// Timestamp in nanoseconds since 1970, or [`TIME_UNKNOWN`].
    pub time_ns: i64,
    /// The container stream that wrote the event.
    pub stream: Option<Stream>,
    /// Whether another part of the line is missing although the container runtime announced it.
    pub is_partial: bool,
}

/// An output stream of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Counts of returned events that do not match the rules or the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events whose first line cannot start an event.
    pub misfits: u64,
    /// Events ended by a limit.
    pub cut: u64,
    /// Invalid byte sequences, and lines that are not in the container format.
    pub broken: u64,
}

/// Whether more bytes can follow the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// More bytes can follow. An event that another line can join is not returned.
    No,
    /// More bytes can follow, but not soon. An open event ends with its last complete line.
    Lines,
    /// The file ends here. An unterminated last line is treated as a line.
    All,
}

/// The input of [`Framer::frame`].
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes of the file, beginning at the start of an event. Less than 4 GiB.
    pub raw: &'a [u8],
    /// Whether more bytes can follow.
    pub close: Close,
    /// Maximum number of events to return.
    pub rows_max: usize,
    /// Reference for timestamps without a year, in nanoseconds since 1970. Such a timestamp gets
    /// the year that places it at most one day after the reference.
    pub reference_ns: i64,
}

/// The result of [`Framer::frame`]. The next call reuses the memory.
#[derive(Debug, Default)]
pub struct EventBuffer {
    /// The events, in the order of delivery.
    pub events: Vec<Event>,
    /// Counts of events that did not match the rules.
    pub tally: Tally,
    scratch: line::Scratch,
    buffers: streams::Buffers,
}

/// Numbers of bytes that were consumed and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed {
    /// Number of raw bytes consumed, up to the start of the first event that was not returned.
    pub used: usize,
    /// Number of bytes that the text takes in `out`.
    pub written: usize,
}

/// Returns the length of the UTF-8 byte order mark at the start of a file, or 0 if there is no
/// mark.
pub fn bom_len(head: &[u8]) -> usize {
    if head.starts_with(line::BOM) { line::BOM.len() } else { 0 }
}
