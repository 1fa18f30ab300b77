//! Parses lines of Docker's `json-file` driver:
//! `{"log":"GET /\n","stream":"stdout","time":"2026-11-21T20:29:46.123456789Z"}`.
//!
//! The fields are `time`, `log.iostream`, `message` (`log` without its trailing newline) and
//! `attrs`, an object that is present if the driver is configured to add labels. Other members are
//! validated and ignored. The file source joins partial lines before this parser runs. The reason
//! for a JSON object without `log` is `not_docker`. Other invalid lines have the same reasons as in
//! the JSON parser.

use crate::fields::{Fields, Reason};
use crate::input::Input;
use crate::json::{Cursor, JSON_DEPTH_MAX, check_end, check_utf8};
use crate::{Parser, TimeField};
use millstream_columns::{Cell, Kind};
use millstream_scan::string_end;

/// The object has no message.
const NOT_DOCKER: Reason = "not_docker";

const TIME: &str = "time";
const NAMES: [&str; 4] = [TIME, "log.iostream", "message", "attrs"];
const MESSAGE: usize = 2;

/// Parser for Docker's log lines.
pub struct Docker(());

impl Docker {
    /// Creates a parser. The format has no options.
    ///
    /// # Errors
    ///
    /// Never returns an error. The signature matches the other parsers.
    pub fn new() -> Result<Docker, String> {
        Ok(Docker(()))
    }
}

/// Returns the values of a line, in the order of [`NAMES`].
fn cells(cursor: &mut Cursor<'_>) -> Result<[Cell; 4], Reason> {
    let mut cells = [Cell::ABSENT; 4];
    check_utf8(cursor)?;
    cursor.expect(b'{')?;
    if cursor.token() != b'}' {
        loop {
            let (start, end) = cursor.key()?;
            let first = cursor.token();
            let cell = cursor.value(first, 1, JSON_DEPTH_MAX)?;
            let is_text = matches!(cell.kind(), Kind::Text | Kind::Escaped);
            match (&cursor.text[start..end], is_text) {
                (b"time", true) => cells[0] = cell,
                (b"stream", true) => cells[1] = cell,
                (b"log", true) => cells[MESSAGE] = message(cell, cursor),
                (b"attrs", false) if cell.kind() == Kind::Object => cells[3] = cell,
                _ => {}
            }
            if cursor.token() != b',' {
                break;
            }
            cursor.at += 1;
        }
    }
    cursor.expect(b'}')?;
    check_end(cursor)?;
    if cells[MESSAGE].is_present() { Ok(cells) } else { Err(NOT_DOCKER) }
}

/// Returns a string without its trailing newline, which is `\n` whose backslash is not escaped.
fn message(cell: Cell, cursor: &Cursor<'_>) -> Cell {
    let start = cell.start() - cursor.line.start();
    let text = &cursor.text[start..start + cell.len()];
    let Some(before) = text.strip_suffix(b"n") else { return cell };
    if before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0 {
        return cell;
    }
    let len = before.len() - 1;
    let kind = if string_end(&text[..len], 0) == len { Kind::Text } else { Kind::Escaped };
    cell.part(kind, 0, len)
}

impl Parser for Docker {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        let indices = NAMES.map(|name| fields.named(&name.into()));
        for (row, line, text) in input.rows() {
            let mut cursor = Cursor { text, line, at: 0 };
            match cells(&mut cursor) {
                Ok(cells) => indices
                    .iter()
                    .zip(cells)
                    .for_each(|(field, cell)| fields.set(*field, row, cell)),
                Err(reason) => fields.fail(row, reason, cursor.at),
            }
        }
    }

    fn time_field(&self) -> Option<TimeField> {
        Some(TimeField { name: TIME.into(), format: "rfc3339".into() })
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(Docker(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{json, mutate, parse_line, show};
    use millstream_testkit_random::{Seed, TestSize};
    use serde_json::Value;

    #[test]
    fn lines_are_parsed() {
        let mut docker = Docker::new().unwrap();
        for (line, expected) in [
            (
                r#"{"log":"GET /\n","stream":"stdout","time":"2026-11-21T20:29:46.1Z"}"#,
                "time='2026-11-21T20:29:46.1Z' log.iostream='stdout' message='GET /'",
            ),
            (
                r#" {"time":"t", "attrs":{"a":"b"}, "x":[1], "stream":"stderr", "log":"a\tb\\n"} "#,
                r#"time='t' log.iostream='stderr' message=Escaped'a\tb\\n' attrs={"a":"b"}"#,
            ),
            (r#"{"log":"a\\\n"}"#, r"message=Escaped'a\\'"),
            (r#"{"log":"\n"}"#, "message=''"),
            (r#"{"log":"n"}"#, "message='n'"),
            (r#"{"log":"","time":1}"#, "message=''"),
            (r#"{"log":1}"#, "!not_docker@9"),
            ("{}", "!not_docker@2"),
            ("{\"log\":\"a\nb\"}", "!not_json@9"),
            (r#"{"log":"a",}"#, "!not_json@11"),
            (r#"{"log":"a"}x"#, "!not_json@11"),
            (r#"["log"]"#, "!not_json@0"),
            ("", "!not_json@0"),
        ] {
            assert_eq!(show(&parse_line(&mut docker, line.as_bytes())), expected, "{line}");
        }
        assert_eq!(parse_line(&mut docker, b"{\"log\":\"\xFF\"}"), Err(("not_utf8", 8)));
        assert_eq!(&*docker.clone_boxed().time_field().unwrap().name, "time");
    }

    /// Number of mutated lines.
    const LINES: TestSize = TestSize { gate: 20_000, long: 1_000_000 };

    #[test]
    fn mutated_lines_become_valid_json() {
        let (mut docker, mut random) = (Docker::new().unwrap(), Seed::of_test_or(4).random());
        let seed =
            br#"{"log":"a \"b\" \\n\n","attrs":{"a":1},"stream":"stdout","time":"2026-11-21T20:29:46Z"}"#;
        for _ in random.rounds(LINES) {
            let mut line = seed.to_vec();
            mutate(&mut line, &[b"\"", b"\\", b"n", b"}", b",", b"\xFF"], &mut random);
            let Ok(fields) = parse_line(&mut docker, &line) else { continue };
            assert!(serde_json::from_slice::<Value>(&json(&fields)).is_ok(), "{line:?}");
        }
    }
}
