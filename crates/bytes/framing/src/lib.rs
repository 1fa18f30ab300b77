//! How the bytes of a file become events: lines that belong together, encodings, and the formats in
//! which container runtimes write. No clock, and no I/O once the name of a time zone is looked up,
//! when rules are compiled.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! [`Rules`] are compiled once. A [`Framer`] applies them to one file: it is given bytes that begin
//! where an event begins, and says which events are whole. What it gives depends on those bytes
//! alone, so an event that is not whole yet is simply framed again later, from its beginning.
//!
//! ```
//! use millstream_framing::{Close, Found, Framer, Input, Multiline, Preset, Rules, Spec};
//! let multiline = Multiline { preset: Some(Preset::Java), ..Multiline::default() };
//! let rules = Rules::new(&Spec { multiline: Some(multiline), ..Spec::default() }).unwrap();
//! let mut framer = Framer::new(rules.into());
//! let mut found = Found::default();
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
mod rule;
mod spec;
mod time;

pub use container::Fields as CriFields;
pub use cri::fields as cri_fields;
pub use framer::Framer;
pub use spec::{Container, Fault, LINES_MAX_DEFAULT, Multiline, Preset, Rules, Spec, Start};
pub use time::{TimeReader, TimeSpec, Unread};

/// The time of an event that says none.
pub const TIME_UNKNOWN: i64 = i64::MIN;

/// Bytes of a file that [`Framer::see_head`] needs, if the file has as many.
pub const HEAD_BYTES: usize = 1024;

/// Most events that are used up together: a caller with room for as many always gets on.
pub const GROUP_ROWS_MAX: usize = 1000;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where its text begins: in the raw bytes, or in `out` if the framer is decoding.
    pub start: u32,
    /// Where its text ends, without its last line end.
    pub end: u32,
    /// Where its bytes begin in the raw bytes.
    pub offset: u32,
    /// All raw bytes before this are used up once this event and all before it are delivered. Where
    /// it does not move past that of the event before, both go together with the next that does.
    pub next: u32,
    /// The time it says it is of, in nanoseconds since 1970, or [`TIME_UNKNOWN`].
    pub time_ns: i64,
}

/// What was not as the rules have it, of the events that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that begin with a line which cannot begin one.
    pub misfits: u64,
    /// Events ended by a limit.
    pub cut: u64,
    /// Byte sequences that stand for no character, and lines that are not of the container's
    /// format.
    pub broken: u64,
}

/// What is known about the end of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// More may come: an event that may go on is not given.
    No,
    /// More may come, but not soon: an open event ends with its last whole line.
    Lines,
    /// Nothing more will come: an unfinished last line is a line.
    All,
}

/// What there is to frame.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes of the file from the beginning of an event on; less than 4 GiB.
    pub raw: &'a [u8],
    /// What is known about their end.
    pub close: Close,
    /// Most events to give.
    pub rows_max: usize,
    /// Times without a year are at most a day later than this, in nanoseconds since 1970.
    pub reference_ns: i64,
}

/// What was found, with memory that is used again by the next call.
#[derive(Debug, Default)]
pub struct Found {
    /// The events, in the order of delivery.
    pub events: Vec<Event>,
    /// What was not as the rules have it.
    pub tally: Tally,
    scratch: line::Scratch,
}

/// How far it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed {
    /// Raw bytes used up: up to the beginning of the first event that was not given.
    pub used: usize,
    /// Bytes of `out` in which the texts are.
    pub written: usize,
}

/// Length of the byte order mark of UTF-8, with which a file may begin; 0 if there is none.
pub fn bom_len(head: &[u8]) -> usize {
    if head.starts_with(line::BOM) { line::BOM.len() } else { 0 }
}
