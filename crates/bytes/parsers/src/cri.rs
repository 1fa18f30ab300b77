//! Parses lines in the log format of the Container Runtime Interface (CRI):
//! `2026-11-21T20:29:46.123456789Z stdout F GET /`.
//!
//! The fields are `timestamp`, `log.iostream` (`stdout` or `stderr`), `flags` (`F` for a full line,
//! `P` for a partial line, followed by any tags after colons) and `message`. The file source joins
//! partial lines before this parser runs. The reason for any other line, or for a line with an
//! invalid time, is `not_cri`.

use crate::fields::{Fields, Reason};
use crate::input::Input;
use crate::{Parser, TimeField};
use millstream_columns::{Cell, Kind};
use millstream_framing::cri_fields;
use millstream_timestamps::{Format, Parser as TimeParser};
use std::sync::Arc;

/// The line is not in CRI format.
const NOT_CRI: Reason = "not_cri";

const TIMESTAMP: &str = "timestamp";
const NAMES: [&str; 4] = [TIMESTAMP, "log.iostream", "flags", "message"];
const TIME_FORMAT: &str = "rfc3339";

/// Length of both `stdout` and `stderr`.
const STREAM_BYTES: usize = 6;

/// Parser for lines that container runtimes write.
pub struct Cri {
    format: Arc<Format>,
    time: TimeParser,
}

impl Cri {
    /// Creates a parser. The format has no options.
    ///
    /// # Errors
    ///
    /// Never returns an error. The signature matches the other parsers.
    pub fn new() -> Result<Cri, String> {
        Format::new(TIME_FORMAT, None).map(|format| Cri::of(Arc::new(format)))
    }

    fn of(format: Arc<Format>) -> Cri {
        Cri { time: TimeParser::new(format.clone()), format }
    }

    /// Splits a line into timestamp, stream, flags and message. Returns `None` if the line is not
    /// in this format.
    #[inline(always)]
    fn cells(&mut self, line: Cell, text: &[u8], read_ns: i64) -> Option<[Cell; 4]> {
        let found = cri_fields(text)?;
        let time_bytes = found.time.len();
        self.time.parse(found.time, read_ns).ok().filter(|stamp| stamp.len == time_bytes)?;
        let flags = time_bytes + 1 + STREAM_BYTES + 1;
        // The space before the message may be missing if the message is empty.
        let behind = &text[flags..found.start];
        let flags_bytes = behind.strip_suffix(b" ").unwrap_or(behind).len();
        let part = |start, len| line.part(Kind::Text, start, len);
        Some([
            part(0, time_bytes),
            part(time_bytes + 1, STREAM_BYTES),
            part(flags, flags_bytes),
            part(found.start, found.text.len()),
        ])
    }
}

impl Parser for Cri {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        let indices = NAMES.map(|name| fields.named(&name.into()));
        for (row, line, text) in input.rows() {
            match self.cells(line, text, input.read_ns) {
                Some(cells) => indices
                    .iter()
                    .zip(cells)
                    .for_each(|(field, cell)| fields.set(*field, row, cell)),
                None => fields.fail(row, NOT_CRI, 0),
            }
        }
    }

    fn time_field(&self) -> Option<TimeField> {
        Some(TimeField { name: TIMESTAMP.into(), format: TIME_FORMAT.into() })
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(Cri::of(self.format.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{mutate, parse_line, show};
    use millstream_testkit_random::{Seed, TestSize};

    #[test]
    fn lines_are_parsed() {
        let mut cri = Cri::new().unwrap();
        for (line, expected) in [
            (
                "2026-11-21T20:29:46.123456789Z stdout F GET /",
                "timestamp='2026-11-21T20:29:46.123456789Z' log.iostream='stdout' flags='F' message='GET /'",
            ),
            (
                "2026-11-21T20:29:46+01:00 stderr P:x  two",
                "timestamp='2026-11-21T20:29:46+01:00' log.iostream='stderr' flags='P:x' message=' two'",
            ),
            (
                "2026-11-21T20:29:46Z stdout F",
                "timestamp='2026-11-21T20:29:46Z' log.iostream='stdout' flags='F' message=''",
            ),
            (
                "2026-11-21T20:29:46Z stdout F ",
                "timestamp='2026-11-21T20:29:46Z' log.iostream='stdout' flags='F' message=''",
            ),
            ("2026-11-21T20:29:46Z stdin F x", "!not_cri@0"),
            ("2026-11-21T20:29:46Z stdout X x", "!not_cri@0"),
            ("now stdout F x", "!not_cri@0"),
            ("2026-11-21T20:29:46Z", "!not_cri@0"),
            ("", "!not_cri@0"),
        ] {
            assert_eq!(show(&parse_line(&mut cri, line.as_bytes())), expected, "{line}");
        }
        assert_eq!(&*cri.time_field().unwrap().name, "timestamp");
        let again = show(&parse_line(&mut *cri.clone_boxed(), b"2026-11-21T20:29:46Z stdout F x"));
        assert!(again.ends_with("message='x'"));
    }

    /// Number of mutated lines.
    const LINES: TestSize = TestSize { gate: 20_000, long: 1_000_000 };

    #[test]
    fn mutated_lines_are_parsed_whole_or_rejected() {
        let (mut cri, mut random) = (Cri::new().unwrap(), Seed::of_test_or(2).random());
        for _ in random.rounds(LINES) {
            let mut line = b"2026-11-21T20:29:46.123Z stdout F some text".to_vec();
            mutate(&mut line, &[b" ", b"P", b":", b"\xFF", b"stderr"], &mut random);
            let Ok(fields) = parse_line(&mut cri, &line) else { continue };
            let joined: Vec<&[u8]> = fields.iter().map(|field| &field.2[..]).collect();
            let joined = joined.join(&b' ');
            assert!(joined == line || joined == [&line[..], b" "].concat(), "{line:?}");
        }
    }
}
