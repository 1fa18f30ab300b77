//! The position and format of a line's timestamp.

use crate::SpecError;
use memchr::memmem::Finder;
use millstream_timestamps::{Fault as ParseError, Format, Parser, Stamp};
use millstream_zones::zone;
use std::sync::Arc;

/// Configured position and formats of a line's timestamp.
#[derive(Clone, Debug, Default)]
pub struct TimeSpec {
    /// Formats that `millstream-timestamps` accepts. The first one that matches a line is used.
    pub formats: Vec<String>,
    /// Text directly before the timestamp. Without it, the line starts with the timestamp.
    pub after: Option<String>,
    /// Which occurrence of `after` precedes the timestamp, counted from 1. The default is 1.
    pub nth: Option<u32>,
    /// Time zone of timestamps that do not include one, as `millstream-zones` accepts it: `UTC`,
    /// `+02:00`, `Europe/Berlin`, `local`.
    pub timezone: Option<String>,
}

impl TimeSpec {
    /// Returns all errors of the configuration.
    pub fn errors(&self) -> Vec<SpecError> {
        [self.compiled().err(), self.position_error()].into_iter().flatten().collect()
    }

    /// Compiles the configuration.
    ///
    /// # Errors
    ///
    /// Returns the first error in the configuration.
    pub fn reader(&self) -> Result<TimeReader, SpecError> {
        let (first, others) = self.compiled()?;
        match self.position_error() {
            Some(error) => Err(error),
            None => Ok(TimeReader {
                position: Arc::new(Position::new(self.after.as_deref(), self.nth.unwrap_or(1))),
                is_never_indented: self.after.is_none()
                    && self.formats.iter().all(|format| is_never_indented(format)),
                parser: Parser::new(Arc::new(first)),
                others: others.into_iter().map(|format| Parser::new(Arc::new(format))).collect(),
                is_exact: false,
            }),
        }
    }

    /// Compiles the formats. Returns the first format and the remaining formats.
    fn compiled(&self) -> Result<(Format, Vec<Format>), SpecError> {
        let zone = self.timezone.as_deref().map(zone).transpose();
        let zone = zone.map_err(|message| ("/timezone", message))?;
        let compile = |format: &String| {
            let compiled = Format::new(format, zone.clone());
            compiled.map_err(|message| match self.formats.len() {
                1 => ("/format", message),
                _ => ("/format", format!("{format:?}: {message}")),
            })
        };
        let Some((first, others)) = self.formats.split_first() else {
            return Err(("/format", "has no format; use, for example, iso8601".into()));
        };
        Ok((compile(first)?, others.iter().map(compile).collect::<Result<_, _>>()?))
    }

    fn position_error(&self) -> Option<SpecError> {
        match (self.after.as_deref(), self.nth) {
            (Some(""), _) => {
                Some(("/after", "must not be empty; use the text before the timestamp".into()))
            }
            (Some(text), _) if text.contains('\n') => Some((
                "/after",
                "must not contain a line ending; use the text before the timestamp".into(),
            )),
            (_, Some(0)) => Some(("/nth", "counts from 1; use 1 for the first".into())),
            (None, Some(_)) => {
                Some(("/nth", "counts occurrences of `after`; set `after` as well".into()))
            }
            _ => None,
        }
    }
}

/// Returns whether timestamps in this format never begin with whitespace: the format is a preset,
/// or it begins with a letter, a digit or a conversion that parses only letters and digits.
fn is_never_indented(format: &str) -> bool {
    match format.as_bytes() {
        [b'%', conversion, ..] => b"YymdbBjaAHIMSsFTRD".contains(conversion),
        [first, ..] => first.is_ascii_alphanumeric(),
        [] => false,
    }
}

/// Position of the timestamp in a line.
#[derive(Debug)]
enum Position {
    Start,
    /// After the n-th occurrence of this byte, counted from 0.
    Byte(u8, usize),
    /// After the n-th occurrence of this text, counted from 0. Occurrences do not overlap.
    Text(Box<Finder<'static>>, usize),
}

impl Position {
    fn new(after: Option<&str>, nth: u32) -> Position {
        let skipped = nth.saturating_sub(1) as usize;
        match after.map(str::as_bytes) {
            None | Some([]) => Position::Start,
            Some([byte]) => Position::Byte(*byte, skipped),
            Some(text) => Position::Text(Box::new(Finder::new(text).into_owned()), skipped),
        }
    }

    #[inline]
    fn find(&self, line: &[u8]) -> Option<usize> {
        match self {
            Position::Start => Some(0),
            Position::Byte(byte, 0) => memchr::memchr(*byte, line).map(|at| at + 1),
            Position::Byte(byte, skipped) => {
                memchr::memchr_iter(*byte, line).nth(*skipped).map(|at| at + 1)
            }
            Position::Text(finder, skipped) => {
                finder.find_iter(line).nth(*skipped).map(|at| at + finder.needle().len())
            }
        }
    }
}

/// Parses the timestamps of consecutive lines. Clones share the compiled formats.
#[derive(Clone, Debug)]
pub struct TimeReader {
    position: Arc<Position>,
    /// Whether timestamps start at the beginning of the line and never begin with whitespace.
    is_never_indented: bool,
    /// The parser of the first format.
    parser: Parser,
    others: Vec<Parser>,
    /// Whether to reject text after the timestamp.
    is_exact: bool,
}

impl TimeReader {
    /// Returns a reader for field values. Without `after`, the whole value must be a timestamp.
    pub fn for_field(self) -> TimeReader {
        TimeReader { is_exact: matches!(*self.position, Position::Start), ..self }
    }

    /// Returns the timestamp of `line` in nanoseconds since 1970. A timestamp without a year gets
    /// the year that places it at most one day after `reference_ns`.
    ///
    /// # Errors
    ///
    /// Returns an error if no format matches. The error gives the reason for the first format.
    #[inline]
    pub fn time(&mut self, line: &[u8], reference_ns: i64) -> Result<i64, Unread> {
        if self.is_never_indented && matches!(line, [b' ' | b'\t', ..]) {
            return Err(Unread::Invalid(ParseError::Text(0)));
        }
        let at = self.position.find(line).ok_or(Unread::AfterNotFound)?;
        let text = &line[at..];
        match self.parser.parse(text, reference_ns) {
            Ok(stamp) if !self.is_exact || stamp.len == text.len() => Ok(stamp.ns),
            Ok(stamp) => self
                .try_others(text, reference_ns)
                .ok_or(Unread::Invalid(ParseError::Text(stamp.len))),
            Err(error) => self.try_others(text, reference_ns).ok_or(Unread::Invalid(error)),
        }
    }

    /// Tries the other formats. Returns `None` if none of them matches. The order is always the
    /// configured one, because a timestamp can match several formats.
    fn try_others(&mut self, text: &[u8], reference_ns: i64) -> Option<i64> {
        let fits = |stamp: &Stamp| !self.is_exact || stamp.len == text.len();
        let mut read = self.others.iter_mut().map(|parser| parser.parse(text, reference_ns));
        read.find_map(|stamp| stamp.ok().filter(fits)).map(|stamp| stamp.ns)
    }
}

/// Reason why a line's timestamp cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// The line contains `after` fewer times than required.
    #[error("the line does not contain the text before the timestamp")]
    AfterNotFound,
    /// The text at the position is not a valid timestamp.
    #[error("{0}")]
    Invalid(ParseError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_lines_are_skipped_only_if_the_format_never_begins_with_white_space() {
        let reads = |format: &str, line: &str| {
            let spec = TimeSpec { formats: vec![format.into()], ..TimeSpec::default() };
            spec.reader().unwrap().time(line.as_bytes(), 0).is_ok()
        };
        assert!(
            reads("%e %b %Y %T", " 9 Nov 2025 01:02:03") && reads(" %F %T", " 2025-11-09 01:02:03")
        );
        assert!(reads("%k:%M %F", " 1:02 2025-11-09") && reads("%FT%T", "2025-11-09T01:02:03"));
        for format in
            ["%Y-%m-%d %T", "%F %T", "%d %m %Y %T", "%H %F", "iso8601", "rfc3339", "epoch_s", "%s"]
        {
            // Both the fast path and the format must reject the text.
            let parsed = Format::new(format, None).unwrap().parse(b" 2025-11-09 01:02:03", 0);
            assert!(parsed.is_err() && !reads(format, " 2025-11-09 01:02:03"), "{format}");
        }
    }

    #[test]
    fn a_field_with_text_after_the_timestamp_is_rejected() {
        let formats = ["epoch_s", "iso8601"].map(str::to_owned).to_vec();
        let spec = TimeSpec { formats, ..TimeSpec::default() };
        let (mut line, mut field) = (spec.reader().unwrap(), spec.reader().unwrap().for_field());
        assert_eq!(line.time(b"2026-07-01T12:00:00Z", 0), Ok(2_026_000_000_000));
        assert_eq!(field.time(b"2026-07-01T12:00:00Z", 0), Ok(1_782_907_200_000_000_000));
        assert_eq!(field.time(b"12", 0), Ok(12_000_000_000));
        assert_eq!(field.time(b"12 o'clock", 0), Err(Unread::Invalid(ParseError::Text(2))));
        // With `after`, text may follow the timestamp.
        let spec = TimeSpec { formats: vec!["epoch_s".into()], after: Some("[".into()), ..spec };
        assert_eq!(spec.reader().unwrap().for_field().time(b"[12] x", 0), Ok(12_000_000_000));
    }

    #[test]
    fn the_first_matching_format_is_used() {
        let formats =
            ["%d.%m.%Y %T", "%m.%d.%Y %T", "iso8601", "epoch_s"].map(str::to_owned).to_vec();
        let spec =
            TimeSpec { formats, timezone: Some("Europe/Berlin".into()), ..TimeSpec::default() };
        assert_eq!(spec.errors(), [("/format", EPOCH_ERROR.to_owned())]);
        let spec = TimeSpec { formats: spec.formats[..3].to_vec(), ..spec };
        let mut reader = spec.reader().unwrap();
        let plain = Format::new("%F %T", None).unwrap();
        for (line, expected) in [
            ("01.02.2026 12:00:00", "2026-02-01 11:00:00"),
            ("02.13.2026 12:00:00", "2026-02-13 11:00:00"),
            // The format that matched the previous line has no priority.
            ("02.03.2026 12:00:00", "2026-03-02 11:00:00"),
            ("2026-07-01T12:00:00", "2026-07-01 10:00:00"),
            ("2026-07-01T12:00:01Z", "2026-07-01 12:00:01"),
        ] {
            let expected = plain.parse(expected.as_bytes(), 0).unwrap().ns;
            assert_eq!(reader.time(line.as_bytes(), 0), Ok(expected), "{line}");
        }
        // The error comes from the first format.
        assert_eq!(reader.time(b"01.x", 0), Err(Unread::Invalid(ParseError::Text(3))));
    }

    const EPOCH_ERROR: &str =
        "\"epoch_s\": times in this format include their time zone; remove timezone";

    #[test]
    fn errors_have_a_pointer_and_advice() {
        let errors = |formats: &[&str], timezone: Option<&str>| {
            let formats = formats.iter().map(|format| (*format).to_owned()).collect();
            TimeSpec { formats, timezone: timezone.map(str::to_owned), ..TimeSpec::default() }
                .errors()
        };
        assert!(
            matches!(&errors(&[], None)[..], [("/format", message)] if message.contains("use"))
        );
        let wrong = errors(&["iso8601"], Some("Europe/Berln"));
        assert!(
            matches!(&wrong[..], [("/timezone", message)] if message.contains("Europe/Berlin?"))
        );
        assert_eq!(errors(&["iso8601", "%F %T"], Some("America/New_York")), []);
    }
}
