//! Lines of JSON, and lines of Docker.

use crate::cells::{self, is_json};
use crate::lines::{Row, lines, lossy, take};
use millstream_columns::Kind;
use millstream_parsers::{Docker, Json, JsonConfig, Type};
use serde_json::Value;

pub const WORDS: &[&[u8]] = &[
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\\u00",
    b"\\ud800",
    b"\\ud83d\\ude00",
    b"\\\"",
    b"null",
    b"true",
    b"fals",
    b"-",
    b"0",
    b"-0",
    b"1e",
    b"1e999",
    b".5",
    b"18446744073709551616",
    b" ",
    b"\t",
    b"\n",
    b"\r",
    b"\0",
    b"\x1f",
    b"\x7f",
    b"\xFF",
    b"\xC3",
    "é".as_bytes(),
    "\u{FEFF}".as_bytes(),
    b"{\"a\":",
    b"\"a\":1,",
    b"[[[[[[[[[[[[[[[[",
    b"{}",
    b"\"\":",
    b"0123456789abcdef",
    b"\"a.b\":",
];
pub const DOCKER_WORDS: &[&[u8]] = &[
    b"{\"log\":\"",
    b"\"log\":",
    b"\"stream\":\"stdout\"",
    b"\"time\":",
    b"\"attrs\":{",
    b"\\n",
    b"\\\\n",
    b"\"",
    b"\\u000a",
    b"\\ud83d",
    b",",
    b":",
    b"}",
    b"{",
    b"[",
    b"\n",
    b"null",
    b"2026-11-21T20:29:46.5Z",
    b"\xFF",
    b" ",
];

/// Checks that exactly the lines match that serde_json accepts, that are objects, and that are not
/// too deep; and that the fields have the same meaning.
pub fn json(input: &[u8]) {
    let lines = lines(input);
    let config = JsonConfig::default();
    let plain = take(&mut parser(&config), &lines);
    let flat = take(&mut parser(&JsonConfig { flatten: true, ..config.clone() }), &lines);
    for ((line, row), flat) in lines.iter().zip(&plain).zip(&flat) {
        assert_eq!(row.as_ref().err(), flat.as_ref().err(), "flattened or not: {}", lossy(line));
        is_judged_as_by_serde(line, row);
    }
    let types = [
        ("a", Type::Int),
        ("b", Type::Float),
        ("c", Type::Bool),
        ("", Type::Text),
        ("d", Type::Ip),
    ];
    let types = types.map(|(name, of)| (name.to_owned(), of)).to_vec();
    let fields = vec!["a".into(), "b.c".into(), "d".into()];
    let typed = take(&mut parser(&JsonConfig { types, flatten: true, fields, ..config }), &lines);
    for ((line, row), typed) in lines.iter().zip(&plain).zip(&typed) {
        assert_eq!(row.as_ref().err(), typed.as_ref().err(), "all fields or some: {}", lossy(line));
    }
}

fn parser(config: &JsonConfig) -> Json {
    Json::new(config).expect("a configuration that is possible")
}

fn is_judged_as_by_serde(line: &[u8], row: &Row) {
    let is_object = line.trim_ascii_start().starts_with(b"{");
    match row {
        Ok(_) => assert!(is_json(line) && is_object, "accepted, not an object: {}", lossy(line)),
        Err(("too_deep", _)) => {}
        Err((reason, _)) => assert!(!is_json(line) || !is_object, "{reason}: {}", lossy(line)),
    }
    let Ok(fields) = row else { return };
    // Numbers that exceed floats and lone surrogates are accepted by the parser, but are errors for
    // serde_json.
    if let Ok(Value::Object(expected)) = serde_json::from_slice(line) {
        let written = cells::json(fields.iter().map(|(name, found)| (&**name, found)));
        let written: Value = serde_json::from_slice(&written).expect("valid when read");
        assert_eq!(written, Value::Object(expected), "{}", lossy(line));
    }
}

/// Checks that a matching line is a JSON object whose `log` is the message, and that a line
/// rejected as JSON is not a JSON object.
pub fn docker(input: &[u8]) {
    let lines = lines(input);
    let mut parser = Docker::new().expect("nothing to configure");
    for (line, row) in lines.iter().zip(take(&mut parser, &lines)) {
        let is_object = line.trim_ascii_start().starts_with(b"{");
        match row {
            Ok(fields) => {
                assert!(is_json(line) && is_object, "accepted, not an object: {}", lossy(line));
                has_its_log(line, fields.get("message").map_or(b"", |(_, bytes)| bytes));
            }
            Err(("not_json" | "not_utf8", _)) => {
                assert!(!is_json(line) || !is_object, "{}", lossy(line))
            }
            Err(_) => {}
        }
    }
}

/// Checks that the message equals `log`, without its last line ending if that is written as `\n`.
fn has_its_log(line: &[u8], message: &[u8]) {
    // The parser does not recognize names with escaped letters.
    let Some(log) = log(line).filter(|_| !lossy(line).contains(r"\u006")) else { return };
    let written = cells::json([("log", &(Kind::Escaped, message.to_vec()))]);
    let written: Value = serde_json::from_slice(&written).expect("valid when read");
    let has_end = lossy(message).to_lowercase().ends_with(r"\u000a") || !log.ends_with('\n');
    let is_all = has_end && written["log"] == log;
    assert!(
        is_all || Some(&written["log"]) == log.strip_suffix('\n').map(Value::from).as_ref(),
        "{}",
        lossy(line)
    );
}

fn log(line: &[u8]) -> Option<String> {
    serde_json::from_slice::<Value>(line).ok()?.get("log")?.as_str().map(str::to_owned)
}
