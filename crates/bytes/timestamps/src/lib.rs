//! The time of a log line: a format, compiled once, reads it from the beginning of a text; and
//! times written as RFC 3339. No I/O, no clock, no dependencies.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A [`Format`] reads every text by itself. A [`Parser`] remembers the text it read last: lines
//! that follow each other mostly share their minute, and then only the digits of the second and of
//! its fraction are read.
//!
//! ```
//! use millstream_timestamps::{Format, Parser};
//! let format = Format::new("%d/%b/%Y:%H:%M:%S %z", None).unwrap();
//! let mut parser = Parser::new(format.into());
//! let stamp = parser.parse(b"21/Nov/2026:20:29:46 +0000] GET /", 0).unwrap();
//! assert_eq!((stamp.ns, stamp.len), (1_795_292_986_000_000_000, 26));
//! ```

#![forbid(unsafe_code)]

mod civil;
mod compile;
mod parser;
mod rfc3339;
mod step;
mod zone;

pub use compile::Format;
pub use parser::Parser;
pub use rfc3339::{RFC3339_BYTES, Rfc3339, civil, push_rfc3339};
pub use zone::{Period, Zone, distance};

use std::fmt;

/// Nanoseconds of a second.
const SECOND_NS: i64 = 1_000_000_000;

/// A time that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970 in UTC.
    pub ns: i64,
    /// Bytes of the text that the time takes.
    pub len: usize,
}

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not fit the format from this byte on.
    Text(usize),
    /// It fits, but there is no such date or time of day: 30 February, 25 o'clock.
    Date,
    /// It names a time zone that the place of the format does not have.
    Zone,
    /// Before 1678 or after 2261: nanoseconds in 64 bits do not reach there.
    Range,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Text(at) => write!(f, "does not fit the format from byte {at} on"),
            Fault::Date => f.write_str("there is no such date or time of day"),
            Fault::Zone => {
                f.write_str("the time zone that it names is not one of the configured place")
            }
            Fault::Range => f.write_str("not between the years 1678 and 2261"),
        }
    }
}
