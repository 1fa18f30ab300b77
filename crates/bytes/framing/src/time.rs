//! Where a line says its own time, and how.

use crate::Fault;
use memchr::memmem::Finder;
use millstream_timestamps::{Fault as TimeFault, Format, Parser, Stamp};
use millstream_zones::zone;
use std::fmt;
use std::sync::Arc;

/// Where a line says its own time, and how, as it is configured.
#[derive(Clone, Debug, Default)]
pub struct TimeSpec {
    /// Formats of `millstream-timestamps`; the first that fits a line reads its time.
    pub formats: Vec<String>,
    /// The time begins right behind this text; without it, at the beginning of the line.
    pub after: Option<String>,
    /// Behind which occurrence of `after` it begins, counted from 1; the first if left out.
    pub nth: Option<u32>,
    /// Time zone of times that do not say it, as `millstream-zones` has it: `UTC`, `+02:00`,
    /// `Europe/Berlin`, `local`.
    pub timezone: Option<String>,
}

impl TimeSpec {
    /// Everything that is wrong with it.
    pub fn errors(&self) -> Vec<Fault> {
        [self.compiled().err(), self.place_fault()].into_iter().flatten().collect()
    }

    /// Compiles it.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn reader(&self) -> Result<TimeReader, Fault> {
        let (first, others) = self.compiled()?;
        match self.place_fault() {
            Some(fault) => Err(fault),
            None => Ok(TimeReader {
                place: Arc::new(Place::new(self.after.as_deref(), self.nth.unwrap_or(1))),
                is_never_indented: self.after.is_none()
                    && self.formats.iter().all(|format| is_never_indented(format)),
                parser: Parser::new(Arc::new(first)),
                others: others.into_iter().map(|format| Parser::new(Arc::new(format))).collect(),
                is_whole: false,
            }),
        }
    }

    /// The first format and the others.
    fn compiled(&self) -> Result<(Format, Vec<Format>), Fault> {
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
            return Err(("/format", "has no format; write for example iso8601".into()));
        };
        Ok((compile(first)?, others.iter().map(compile).collect::<Result<_, _>>()?))
    }

    fn place_fault(&self) -> Option<Fault> {
        match (self.after.as_deref(), self.nth) {
            (Some(""), _) => Some((
                "/after",
                "an empty text is everywhere; write the text before the time".into(),
            )),
            (Some(text), _) if text.contains('\n') => Some((
                "/after",
                "no line has a line end within; write the text before the time".into(),
            )),
            (_, Some(0)) => Some(("/nth", "counts from 1; write 1 for the first".into())),
            (None, Some(_)) => {
                Some(("/nth", "counts what `after` names; write after as well".into()))
            }
            _ => None,
        }
    }
}

/// Whether no text of this format begins with white space: it is a preset, or its first piece
/// stands for letters or digits.
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
            Place::Byte(byte, skipped) => {
                memchr::memchr_iter(*byte, line).nth(*skipped).map(|at| at + 1)
            }
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
    /// That of the first format.
    parser: Parser,
    others: Vec<Parser>,
    /// Nothing may follow the time.
    is_whole: bool,
}

impl TimeReader {
    /// The same for texts that are nothing but a time, unless it is said what stands before it.
    pub fn of_fields(self) -> TimeReader {
        TimeReader { is_whole: matches!(*self.place, Place::Beginning), ..self }
    }

    /// The time of `line` in nanoseconds since 1970. Without a year, it is at most a day later than
    /// `reference_ns`.
    ///
    /// # Errors
    ///
    /// Why it has none by the first format.
    #[inline]
    pub fn time(&mut self, line: &[u8], reference_ns: i64) -> Result<i64, Unread> {
        if self.is_never_indented && matches!(line, [b' ' | b'\t', ..]) {
            return Err(Unread::Fault(TimeFault::Text(0)));
        }
        let at = self.place.find(line).ok_or(Unread::NoPlace)?;
        let text = &line[at..];
        match self.parser.parse(text, reference_ns) {
            Ok(stamp) if !self.is_whole || stamp.len == text.len() => Ok(stamp.ns),
            Ok(stamp) => {
                self.otherwise(text, reference_ns).ok_or(Unread::Fault(TimeFault::Text(stamp.len)))
            }
            Err(fault) => self.otherwise(text, reference_ns).ok_or(Unread::Fault(fault)),
        }
    }

    /// The time as the other formats read it. They are always tried in their order, as a text may
    /// fit several of them.
    fn otherwise(&mut self, text: &[u8], reference_ns: i64) -> Option<i64> {
        let fits = |stamp: &Stamp| !self.is_whole || stamp.len == text.len();
        let mut read = self.others.iter_mut().map(|parser| parser.parse(text, reference_ns));
        read.find_map(|stamp| stamp.ok().filter(fits)).map(|stamp| stamp.ns)
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
            // Neither the short cut nor the format takes it.
            let parsed = Format::new(format, None).unwrap().parse(b" 2025-11-09 01:02:03", 0);
            assert!(parsed.is_err() && !reads(format, " 2025-11-09 01:02:03"), "{format}");
        }
    }

    #[test]
    fn nothing_follows_the_time_in_a_field() {
        let formats = ["epoch_s", "iso8601"].map(str::to_owned).to_vec();
        let spec = TimeSpec { formats, ..TimeSpec::default() };
        let (mut line, mut field) = (spec.reader().unwrap(), spec.reader().unwrap().of_fields());
        assert_eq!(line.time(b"2026-07-01T12:00:00Z", 0), Ok(2_026_000_000_000));
        assert_eq!(field.time(b"2026-07-01T12:00:00Z", 0), Ok(1_782_907_200_000_000_000));
        assert_eq!(field.time(b"12", 0), Ok(12_000_000_000));
        assert_eq!(field.time(b"12 o'clock", 0), Err(Unread::Fault(TimeFault::Text(2))));
        // Where it is said what stands before it, more may stand behind it.
        let spec = TimeSpec { formats: vec!["epoch_s".into()], after: Some("[".into()), ..spec };
        assert_eq!(spec.reader().unwrap().of_fields().time(b"[12] x", 0), Ok(12_000_000_000));
    }

    #[test]
    fn the_first_format_that_fits_reads_the_time() {
        let formats =
            ["%d.%m.%Y %T", "%m.%d.%Y %T", "iso8601", "epoch_s"].map(str::to_owned).to_vec();
        let spec =
            TimeSpec { formats, timezone: Some("Europe/Berlin".into()), ..TimeSpec::default() };
        assert_eq!(spec.errors(), [("/format", EPOCH_FAULT.to_owned())]);
        let spec = TimeSpec { formats: spec.formats[..3].to_vec(), ..spec };
        let mut reader = spec.reader().unwrap();
        let plain = Format::new("%F %T", None).unwrap();
        for (line, expected) in [
            ("01.02.2026 12:00:00", "2026-02-01 11:00:00"),
            ("02.13.2026 12:00:00", "2026-02-13 11:00:00"),
            // What fitted last is not preferred.
            ("02.03.2026 12:00:00", "2026-03-02 11:00:00"),
            ("2026-07-01T12:00:00", "2026-07-01 10:00:00"),
            ("2026-07-01T12:00:01Z", "2026-07-01 12:00:01"),
        ] {
            let expected = plain.parse(expected.as_bytes(), 0).unwrap().ns;
            assert_eq!(reader.time(line.as_bytes(), 0), Ok(expected), "{line}");
        }
        // The fault of the first format is told.
        assert_eq!(reader.time(b"01.x", 0), Err(Unread::Fault(TimeFault::Text(3))));
    }

    const EPOCH_FAULT: &str =
        "\"epoch_s\": every text of this format says its own time zone; leave out timezone";

    #[test]
    fn wrong_zones_and_formats_have_their_place_and_advice() {
        let faults = |formats: &[&str], timezone: Option<&str>| {
            let formats = formats.iter().map(|format| (*format).to_owned()).collect();
            TimeSpec { formats, timezone: timezone.map(str::to_owned), ..TimeSpec::default() }
                .errors()
        };
        assert!(
            matches!(&faults(&[], None)[..], [("/format", message)] if message.contains("write"))
        );
        let wrong = faults(&["iso8601"], Some("Europe/Berln"));
        assert!(
            matches!(&wrong[..], [("/timezone", message)] if message.contains("Europe/Berlin?"))
        );
        assert_eq!(faults(&["iso8601", "%F %T"], Some("America/New_York")), []);
    }
}
