//! Where a line says its own time, and how.

use crate::Fault;
use memchr::memmem::Finder;
use millstream_timestamps::{Fault as TimeFault, Format, Parser, zone};
use std::fmt;
use std::sync::Arc;

/// Where a line says its own time, and how, as it is configured.
#[derive(Clone, Debug, Default)]
pub struct TimeSpec {
    /// A format of `millstream-timestamps`.
    pub format: String,
    /// The time begins right behind this text; without it, at the beginning of the line.
    pub after: Option<String>,
    /// Behind which occurrence of `after` it begins, counted from 1; the first if left out.
    pub nth: Option<u32>,
    /// Distance to UTC of times that do not say it: `UTC` or `+02:00`.
    pub timezone: Option<String>,
}

impl TimeSpec {
    /// Everything that is wrong with it.
    pub fn faults(&self) -> Vec<Fault> {
        [self.compiled().err(), self.place_fault()].into_iter().flatten().collect()
    }

    /// Compiles it.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn reader(&self) -> Result<TimeReader, Fault> {
        let format = self.compiled()?;
        match self.place_fault() {
            Some(fault) => Err(fault),
            None => Ok(TimeReader {
                place: Arc::new(Place::new(self.after.as_deref(), self.nth.unwrap_or(1))),
                is_never_indented: self.after.is_none() && is_never_indented(&self.format),
                parser: Parser::new(Arc::new(format)),
            }),
        }
    }

    fn compiled(&self) -> Result<Format, Fault> {
        let offset = self.timezone.as_deref().map(zone).transpose();
        let offset = offset.map_err(|message| ("/timezone", message))?;
        Format::new(&self.format, offset).map_err(|message| ("/format", message))
    }

    fn place_fault(&self) -> Option<Fault> {
        match (self.after.as_deref(), self.nth) {
            (Some(""), _) => {
                Some(("/after", "an empty text is everywhere; write the text before the time".into()))
            }
            (Some(text), _) if text.contains('\n') => {
                Some(("/after", "no line has a line end within; write the text before the time".into()))
            }
            (_, Some(0)) => Some(("/nth", "counts from 1; write 1 for the first".into())),
            (None, Some(_)) => Some(("/nth", "counts what `after` names; write after as well".into())),
            _ => None,
        }
    }
}

/// Whether no text of this format begins with white space: it is a preset, or its first piece stands
/// for letters or digits.
fn is_never_indented(format: &str) -> bool {
    match format.as_bytes() {
        [b'%', piece, ..] => b"YymdbBjaAHIMSsFTRD".contains(piece),
        [first, ..] => first.is_ascii_alphanumeric(),
        [] => false,
    }
}

/// Where in a line the time begins.
#[derive(Debug)]
enum Place {
    Beginning,
    /// Behind the n-th of these bytes, counted from 0.
    Byte(u8, usize),
    /// The same of a longer text; occurrences do not overlap.
    Text(Box<Finder<'static>>, usize),
}

impl Place {
    fn new(after: Option<&str>, nth: u32) -> Place {
        let skipped = nth.saturating_sub(1) as usize;
        match after.map(str::as_bytes) {
            None | Some([]) => Place::Beginning,
            Some([byte]) => Place::Byte(*byte, skipped),
            Some(text) => Place::Text(Box::new(Finder::new(text).into_owned()), skipped),
        }
    }

    #[inline]
    fn find(&self, line: &[u8]) -> Option<usize> {
        match self {
            Place::Beginning => Some(0),
            Place::Byte(byte, 0) => memchr::memchr(*byte, line).map(|at| at + 1),
            Place::Byte(byte, skipped) => memchr::memchr_iter(*byte, line).nth(*skipped).map(|at| at + 1),
            Place::Text(finder, skipped) => {
                finder.find_iter(line).nth(*skipped).map(|at| at + finder.needle().len())
            }
        }
    }
}

/// Reads the times of lines that follow each other. A copy shares what was compiled.
#[derive(Clone, Debug)]
pub struct TimeReader {
    place: Arc<Place>,
    /// The time stands at the beginning of lines, which is no white space then.
    is_never_indented: bool,
    parser: Parser,
}

impl TimeReader {
    /// The time of `line` in nanoseconds since 1970. Without a year, it is at most a day later than
    /// `reference_ns`.
    ///
    /// # Errors
    ///
    /// Why it has none.
    #[inline]
    pub fn time(&mut self, line: &[u8], reference_ns: i64) -> Result<i64, Unread> {
        if self.is_never_indented && matches!(line, [b' ' | b'\t', ..]) {
            return Err(Unread::Fault(TimeFault::Text(0)));
        }
        let at = self.place.find(line).ok_or(Unread::NoPlace)?;
        self.parser.parse(&line[at..], reference_ns).map(|stamp| stamp.ns).map_err(Unread::Fault)
    }
}

/// Why a line has no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// What stands before the time is not in it.
    NoPlace,
    /// What stands there is no time.
    Fault(TimeFault),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::NoPlace => f.write_str("what stands before it is not in the line"),
            Unread::Fault(fault) => fault.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_white_space_is_only_skipped_where_no_time_does() {
        let reads = |format: &str, line: &str| {
            let spec = TimeSpec { format: format.into(), ..TimeSpec::default() };
            spec.reader().unwrap().time(line.as_bytes(), 0).is_ok()
        };
        assert!(reads("%e %b %Y %T", " 9 Nov 2025 01:02:03") && reads(" %F %T", " 2025-11-09 01:02:03"));
        assert!(reads("%k:%M %F", " 1:02 2025-11-09") && reads("%FT%T", "2025-11-09T01:02:03"));
        for format in ["%Y-%m-%d %T", "%F %T", "%d %m %Y %T", "%H %F", "iso8601", "rfc3339", "epoch_s", "%s"]
        {
            // Neither the short cut nor the format takes it.
            let parsed = Format::new(format, None).unwrap().parse(b" 2025-11-09 01:02:03", 0);
            assert!(parsed.is_err() && !reads(format, " 2025-11-09 01:02:03"), "{format}");
        }
    }
}
