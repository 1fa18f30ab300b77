//! Regular expressions applied to lines. The first line of an input is the pattern.

use crate::cells::Found;
use crate::lines::{head_and_lines, lossy, take};
use millstream_columns::Kind;
use millstream_parsers::{Grok, GrokConfig, Regex, RegexConfig};
use regex::bytes::{Regex as Other, RegexBuilder};
use std::collections::BTreeMap;

pub const WORDS: &[&[u8]] = &[
    b"(?<a>",
    b"(?P<b>",
    b"(?:",
    b")",
    b"|",
    b"*",
    b"+?",
    b"{2,3}",
    b"\\d+",
    b"\\w",
    b"\\b",
    b"(?-u)",
    b"(?i)",
    b"^",
    b"$",
    b".",
    b"[^ ]*",
    b"\\xFF",
    b"%{IP:client}",
    b"%{WORD:w}",
    b"%{NUMBER:n:float}",
    b"%{INT:n:int}",
    b"%{",
    b"}",
    b"%{DATA:d}",
    b"%{GREEDYDATA:rest}",
    b"%{TIMESTAMP_ISO8601:t}",
    b"%{QUOTEDSTRING:q}",
    b"%{WORD:[x][y]}",
    b"\n",
    b"%{COMBINEDAPACHELOG}",
    b"%{IPORHOST}",
    b" ",
    b"-",
    b"\"",
    b"1.5",
    b"10.0.0.1",
    b"word",
    b"\xFF",
    "é".as_bytes(),
];

/// Maximum bytes of a pattern: a longer one takes a long time to compile without finding more.
const PATTERN_BYTES_MAX: usize = 160;

/// Maximum bytes of the compiled states, for the same reason.
const COMPILED_BYTES_MAX: usize = 1 << 18;

fn pattern_and_lines(input: &[u8]) -> Option<(&str, Vec<&[u8]>)> {
    let (pattern, lines) = head_and_lines(input);
    let pattern =
        std::str::from_utf8(pattern).ok().filter(|text| text.len() <= PATTERN_BYTES_MAX)?;
    Some((pattern, lines))
}

/// Checks that the groups equal those that the crate `regex` finds.
pub fn regex(input: &[u8]) {
    let Some((pattern, lines)) = pattern_and_lines(input) else { return };
    let other = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build();
    let Ok(other) = other else { return };
    let config = RegexConfig { pattern: pattern.into(), ..RegexConfig::default() };
    let has_names = other.capture_names().flatten().next().is_some();
    let mut parser = match Regex::new(&config) {
        Ok(parser) => parser,
        Err(message) => return assert!(!has_names, "{pattern}: {message}"),
    };
    for (line, row) in lines.iter().zip(take(&mut parser, &lines)) {
        let expected = groups(&other, line);
        assert_eq!(row.ok(), expected, "{pattern}: {}", lossy(line));
    }
}

fn groups(expression: &Other, line: &[u8]) -> Option<BTreeMap<String, Found>> {
    let captures = expression.captures(line)?;
    let names = expression.capture_names().flatten();
    let groups = names.filter_map(|name| Some((name, captures.name(name)?)));
    Some(
        groups
            .map(|(name, part)| (name.to_owned(), (Kind::Text, part.as_bytes().to_vec())))
            .collect(),
    )
}

/// Checks that values are parts of their lines, and that an error includes advice.
pub fn grok(input: &[u8]) {
    let Some((pattern, lines)) = pattern_and_lines(input) else { return };
    let patterns = vec![("OWN".to_owned(), "[a-z]+(?<inner>-)?".to_owned())];
    let config = GrokConfig { pattern: pattern.into(), patterns, ..GrokConfig::default() };
    match Grok::new(&config) {
        Ok(mut parser) => _ = take(&mut parser, &lines),
        Err(message) => assert!(message.contains("; "), "{pattern}: {message}"),
    }
}
