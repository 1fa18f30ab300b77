//! Access logs of web servers.

use crate::cells::Found;
use crate::lines::{head_and_lines, lines, lossy, take};
use millstream_columns::Kind;
use millstream_parsers::{Access, AccessConfig, Escape, Fields, Server, Type};
use regex::bytes::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub const FORMAT_WORDS: &[&[u8]] = &[
    b"$",
    b"${",
    b"}",
    b"$remote_addr",
    b"$time_local",
    b"$request",
    b"$status",
    b"$request_time",
    b"$msec",
    b" - ",
    b"$upstream_response_time",
    b"$http_a",
    b"%h",
    b"%t",
    b"%r",
    b"%>s",
    b"%b",
    b"%{",
    b"}i",
    b"%{Referer}i",
    b"%%",
    b"%{%Y-%m-%d}t",
    b"combined",
    b"common",
    b"\"",
    b" ",
    b"[",
    b"]",
    b"\\\"",
    b"\\x22",
    b"\\u00e9",
    b"\\",
    b"-",
    b"GET / HTTP/1.1",
    b"200",
    b"0.004",
    b", ",
    b" : ",
    b"\n",
    b"\xFF",
    b"0123456789abcdef0123456789abcdef",
];
pub const LINE_WORDS: &[&[u8]] = &[
    b" ",
    b"\"",
    b"\" ",
    b" \"",
    b"[",
    b"] \"",
    b"-",
    b" - ",
    b" - - [",
    b"\\x22",
    b"\\",
    b"0",
    b"00",
    b"GET ",
    b"POST /",
    b" HTTP/1.1",
    b" HTTP/2",
    b"HTTP/1.",
    b", ",
    b" : ",
    b".",
    b"+1",
    b"200",
    b"\n",
    b"\r",
    b"\xFF",
    b"\0",
    b"M-SEARCH *",
    b"99999999999999999999",
    b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
];

/// Applies the format in the first line of the input to the remaining lines.
pub fn formats(input: &[u8]) {
    let (format, lines) = head_and_lines(input);
    let Ok(format) = std::str::from_utf8(format) else { return };
    for (server, escape) in [
        (Server::Nginx, None),
        (Server::Nginx, Some(Escape::Json)),
        (Server::Nginx, Some(Escape::None)),
        (Server::Apache, None),
    ] {
        match Access::new(&AccessConfig { server, format: format.into(), escape }) {
            Ok(mut parser) => _ = take(&mut parser, &lines),
            Err(message) => assert!(!message.is_empty(), "{format} is refused without a word"),
        }
    }
}

const FORMAT: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
     \"$http_referer\" \"$http_user_agent\" $request_time";

/// The same format as an expression, in which each value is as short as possible.
const EXPRESSION: &str = r#"(?s-u)^(?<remote_addr>.*?) - (?<remote_user>.*?) \[(?<time_local>.*?)\] "(?<request>.*?)" (?<status>.*?) (?<body_bytes_sent>.*?) "(?<http_referer>.*?)" "(?<http_user_agent>.*?)" (?<request_time>.*)$"#;

/// A stricter expression, in which values do not contain the text that ends them.
const STRICT: &str = r#"(?s-u)^([^ ]*) - ([^ ]*) \[([^\]]*)\] "([^"]*)" ([^ ]*) ([^ ]*) "([^"]*)" "([^"]*)" ([^ ]*)$"#;

const REQUEST: &str = r"(?s-u)^(?<method>[A-Z_-]+) (?:(?<path>.+) (?<protocol>HTTP/[0-9](?:\.[0-9])?)|(?<bare>[^ ]+))$";

struct Expressions {
    whole: Regex,
    strict: Regex,
    request: Regex,
    protocol: Regex,
}

static EXPRESSIONS: LazyLock<Expressions> = LazyLock::new(|| {
    let [whole, strict, request, protocol] =
        [EXPRESSION, STRICT, REQUEST, r"^HTTP/[0-9](\.[0-9])?$"]
            .map(|text| Regex::new(text).expect("sound"));
    Expressions { whole, strict, request, protocol }
});

/// Checks that a parsed line of nginx has the fields that an equivalent expression finds, and that
/// a rejected line does not match the stricter expression.
pub fn nginx(input: &[u8]) {
    let lines = lines(input);
    let config = |escape| AccessConfig { format: FORMAT.into(), escape, ..AccessConfig::default() };
    let parser = |escape| Access::new(&config(escape)).expect("a format that is sound");
    for (line, row) in lines.iter().zip(take(&mut parser(Some(Escape::None)), &lines)) {
        match row {
            Ok(fields) => assert_eq!(Some(fields), found(line), "{}", lossy(line)),
            Err(_) => assert!(!EXPRESSIONS.strict.is_match(line), "does not fit: {}", lossy(line)),
        }
    }
    take(&mut parser(None), &lines);
    let combined = AccessConfig { server: Server::Apache, ..AccessConfig::default() };
    take(&mut Access::new(&combined).expect("a format that is sound"), &lines);
}

/// Returns the fields that the expression finds in a line; `None` if the line does not match.
fn found(line: &[u8]) -> Option<BTreeMap<String, Found>> {
    let whole = &EXPRESSIONS.whole;
    let captures = whole.captures(line)?;
    let mut fields = BTreeMap::new();
    for name in whole.capture_names().flatten() {
        let value = &captures[name];
        fields.extend(typed(name, value).map(|found| (name.to_owned(), found)));
        if name == "request" {
            fields.extend(request(value));
        }
    }
    Some(fields)
}

/// Returns the field for a value; `None` for `-` and empty values.
fn typed(name: &str, value: &[u8]) -> Option<Found> {
    let of = match name {
        _ if value.is_empty() || value == b"-" => return None,
        "status" | "body_bytes_sent" => Type::Int,
        "request_time" => Type::Float,
        _ => return Some((Kind::Text, value.to_vec())),
    };
    let mut fields = Fields::new(1, value);
    let cell = millstream_columns::Cell::own(Kind::Text, 0, value.len());
    match of.cast(value, cell, 0, &mut fields) {
        Some(cell) => Some((cell.kind(), fields.bytes(b"", cell).to_vec())),
        None => Some((Kind::Null, Vec::new())),
    }
}

/// Returns the parts of a request line; none if it is malformed.
fn request(value: &[u8]) -> Vec<(String, Found)> {
    let Some(parts) = EXPRESSIONS.request.captures(value) else { return Vec::new() };
    let bare = parts.name("bare");
    // A protocol without a path before it is not a path.
    if bare.is_some_and(|bare| EXPRESSIONS.protocol.is_match(bare.as_bytes())) {
        return Vec::new();
    }
    let named = [("method", parts.name("method")), ("path", parts.name("path").or(bare))];
    let named = named.into_iter().chain([("protocol", parts.name("protocol"))]);
    let text = |(name, part): (&str, Option<regex::bytes::Match<'_>>)| {
        Some((name.to_owned(), (Kind::Text, part?.as_bytes().to_vec())))
    };
    named.filter_map(text).collect()
}
