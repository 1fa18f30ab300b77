//! An event's time as a JSON value, in the configured format.

use crate::TimestampFormat;
use crate::formats::{RFC3339_BYTES, Rfc3339, push_decimal};

/// Number of bytes of an RFC 3339 time up to and including its seconds.
const SECONDS_BYTES: usize = "1970-01-01T00:00:00".len();

/// Writes times in one format.
pub struct Times {
    format: TimestampFormat,
    rfc3339: Rfc3339,
    text: Vec<u8>,
}

impl Times {
    /// Creates a writer for this format.
    pub fn new(format: TimestampFormat) -> Times {
        Times { format, rfc3339: Rfc3339::default(), text: Vec::new() }
    }

    /// Returns the quotation mark before and after a time; nothing if times are numbers.
    pub fn quote(&self) -> &'static [u8] {
        match self.format {
            TimestampFormat::Rfc3339 | TimestampFormat::Rfc3339Nano => b"\"",
            TimestampFormat::Unix | TimestampFormat::UnixMs => b"",
        }
    }

    /// Returns a time, in nanoseconds since 1970, as text of a fixed length; `None` if the format
    /// is not the default.
    #[inline]
    pub fn fixed(&mut self, ns: i64) -> Option<&[u8; RFC3339_BYTES]> {
        (self.format == TimestampFormat::Rfc3339).then(|| self.rfc3339.text(ns))
    }

    /// Returns a time, in nanoseconds since 1970, without quotation marks.
    #[inline]
    pub fn text(&mut self, ns: i64) -> &[u8] {
        if self.format == TimestampFormat::Rfc3339 {
            return self.rfc3339.text(ns);
        }
        self.other(ns);
        &self.text
    }

    /// Renders a time in a format other than the default.
    fn other(&mut self, ns: i64) {
        self.text.clear();
        match self.format {
            TimestampFormat::Unix => push_integer(ns.div_euclid(1_000_000_000), &mut self.text),
            TimestampFormat::UnixMs => push_integer(ns.div_euclid(1_000_000), &mut self.text),
            TimestampFormat::Rfc3339 | TimestampFormat::Rfc3339Nano => {
                self.text.extend_from_slice(&self.rfc3339.text(ns)[..SECONDS_BYTES]);
                let fraction = 1_000_000_000 + ns.rem_euclid(1_000_000_000) as u64;
                push_decimal(&mut self.text, fraction);
                // `fraction` has a leading 1 so that nine digits follow it. The decimal point
                // replaces this 1.
                self.text[SECONDS_BYTES] = b'.';
                self.text.push(b'Z');
            }
        }
    }
}

fn push_integer(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    push_decimal(out, number.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_each_format() {
        use TimestampFormat as Format;
        let cases = [
            (Format::Rfc3339, 1_764_000_000_123_456_789, "2025-11-24T16:00:00.123Z"),
            (Format::Rfc3339Nano, 1_764_000_000_123_456_789, "2025-11-24T16:00:00.123456789Z"),
            (Format::Rfc3339Nano, 1, "1970-01-01T00:00:00.000000001Z"),
            (Format::Rfc3339Nano, -1, "1969-12-31T23:59:59.999999999Z"),
            (Format::Unix, 1_764_000_000_999_999_999, "1764000000"),
            (Format::Unix, -1, "-1"),
            (Format::UnixMs, 1_764_000_000_123_456_789, "1764000000123"),
            (Format::UnixMs, 0, "0"),
        ];
        for (format, ns, text) in cases {
            let mut times = Times::new(format);
            assert_eq!(str::from_utf8(times.text(ns)), Ok(text), "{format:?}");
            assert_eq!(times.fixed(ns).is_some(), format == Format::Rfc3339);
        }
    }
}
