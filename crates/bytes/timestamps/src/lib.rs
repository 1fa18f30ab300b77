//! Parses the time in a log line with a precompiled format, and formats times as RFC 3339. No I/O,
//! no clock, no dependencies.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A [`Format`] parses every string independently. A [`Parser`] remembers the previous string.
//! Consecutive lines usually have the same minute, in which case the parser reads only the digits
//! of the second and the fraction.
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
mod fields;
mod offset;
mod parser;
mod rfc3339;
mod step;
mod zone;

pub use compile::Format;
pub use offset::parse_utc_offset;
pub use parser::Parser;
pub use rfc3339::{RFC3339_BYTES, Rfc3339, civil, push_rfc3339};
pub use zone::{Period, Zone};

use std::fmt;

/// Nanoseconds per second.
const SECOND_NS: i64 = 1_000_000_000;

/// A parsed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970 in UTC.
    pub ns: i64,
    /// Length of the time in the text, in bytes.
    pub len: usize,
}

/// Reason why text cannot be parsed as a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text does not match the format, starting at this byte.
    Text(usize),
    /// The text matches, but the date or time of day does not exist, such as February 30 or 25:00.
    Date,
    /// The time zone in the text is not a name that the format's zone uses.
    Zone,
    /// The time is before 1678 or after 2261, so its nanoseconds do not fit into 64 bits.
    Range,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Text(at) => write!(f, "does not match the format at byte {at}"),
            Fault::Date => f.write_str("the date or time of day does not exist"),
            Fault::Zone => {
                f.write_str("the abbreviation is not a time zone of the configured location")
            }
            Fault::Range => f.write_str("is outside the years 1678 to 2261"),
        }
    }
}
