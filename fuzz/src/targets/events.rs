//! Lines of security devices: CEF and LEEF.

use crate::cells::Found;
use crate::lines::{Row, lines, lossy, take};
use millstream_columns::Kind;
use millstream_parsers::{Cef, EventConfig, Leef, LeefConfig, Type};
use regex::bytes::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub const CEF_WORDS: &[&[u8]] = &[
    b"CEF:0|",
    b"CEF: 1.0 |",
    b"CEF:",
    b"|",
    b"||||||",
    b"\\|",
    b"\\\\",
    b"\\",
    b"\\=",
    b"\\n",
    b"\\r",
    b"=",
    b" ",
    b"   ",
    b"\t",
    b"\r",
    b"\n",
    b" src=10.0.0.1",
    b" severity=",
    b" name=x",
    b" ad.x-y[0]=",
    b"?a=b&c=d",
    b"<134>Sep 29 08:26:10 host ",
    b"\xEF\xBB\xBF",
    b"\xFF",
];
pub const LEEF_WORDS: &[&[u8]] = &[
    b"LEEF:1.0|",
    b"LEEF:2.0|",
    b"LEEF:",
    b"|",
    b"||||",
    b"|^|",
    b"^",
    b"|0x5e|",
    b"|x09|",
    b"x7C",
    b"xD800",
    b"\\|",
    b"\\",
    b"\\=",
    b"\t",
    b"=",
    b"=\t",
    b" = ",
    b"src=10.0.0.1",
    b"\tvendor=x",
    b"\n",
    b"\r",
    "¦".as_bytes(),
    b"\xFF",
];

/// Names of the header fields after the version.
const CEF_NAMES: [&str; 6] = [
    "device_vendor",
    "device_product",
    "device_version",
    "device_event_class_id",
    "name",
    "severity",
];
const LEEF_NAMES: [&str; 4] = ["vendor", "product", "product_version", "event_id"];

/// Checks that CEF fields equal those found with expressions and splits.
pub fn cef(input: &[u8]) {
    static KEYS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?-u) ([0-9A-Za-z_.\[\]-]+)=").expect("sound"));
    let lines = lines(input);
    let types = vec![("spt".into(), Type::Int)];
    let null_values = vec![b"".to_vec(), b"x".to_vec()];
    take(&mut Cef::new(EventConfig { escapes: false, null_values, types }), &lines);
    let config = EventConfig { escapes: true, ..EventConfig::default() };
    for (line, row) in lines.iter().zip(take(&mut Cef::new(config), &lines)) {
        let line = line.trim_ascii_end();
        let expected = header(line, "CEF:", "cef_version", &CEF_NAMES).map(|(mut found, rest)| {
            // The expression requires a space before each key.
            let rest = [b" ", rest].concat();
            let found_keys = KEYS.captures_iter(&rest);
            let keys: Vec<_> =
                found_keys.filter_map(|key| Some((key.get(0)?, key.get(1)?))).collect();
            for (index, (whole, key)) in keys.iter().enumerate() {
                let end = keys.get(index + 1).map_or(rest.len(), |(next, _)| next.start());
                let value = rest[whole.end()..end].trim_ascii_end();
                put(&mut found, &CEF_NAMES, "cef_version", key.as_bytes(), &decoded(value));
            }
            found
        });
        compare(line, row, expected);
    }
}

/// Checks that LEEF fields equal those found with splits.
pub fn leef(input: &[u8]) {
    let lines = lines(input);
    let types = vec![("sev".into(), Type::Int)];
    let values = EventConfig { escapes: true, null_values: vec![b"-".to_vec()], types };
    let delimiter = Some("^ ".to_owned());
    let mut other = Leef::new(LeefConfig { delimiter, values }).expect("a delimiter");
    take(&mut other, &lines);
    let mut parser = Leef::new(LeefConfig::default()).expect("the default");
    for (line, row) in lines.iter().zip(take(&mut parser, &lines)) {
        let line = line.trim_ascii_end();
        let Some((mut found, rest)) = header(line, "LEEF:", "leef_version", &LEEF_NAMES) else {
            assert!(row.is_err(), "{}", lossy(line));
            continue;
        };
        let is_2 = found["leef_version"].1.starts_with(b"2");
        let delimiter = if is_2 { delimiter_of(rest) } else { Some(("\t".to_owned(), rest)) };
        let expected = delimiter.map(|(delimiter, rest)| {
            // As Latin-1 text, in which every byte is a character.
            let latin =
                |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
            let bytes = |text: &str| text.chars().map(|byte| byte as u8).collect::<Vec<u8>>();
            for piece in latin(rest).split(&latin(delimiter.as_bytes())) {
                let Some((key, value)) = piece.split_once('=') else { continue };
                let (key, value) = (bytes(key), bytes(value));
                let key = key.trim_ascii();
                if !key.is_empty() {
                    put(&mut found, &LEEF_NAMES, "leef_version", key, value.trim_ascii_end());
                }
            }
            found
        });
        compare(line, row, expected);
    }
}

/// Fields of a line by name.
type Fields = BTreeMap<String, Found>;

fn compare(line: &[u8], row: Row, mut expected: Option<Fields>) {
    let mut found = row.ok();
    if let (Some(found), Some(expected)) = (&mut found, &mut expected)
        && found.remove("").is_some()
    {
        // Keys that are not UTF-8, and keys beyond the maximum number of columns, share an extra
        // field with an empty name.
        expected.retain(|name, _| found.contains_key(name));
    }
    assert_eq!(found, expected, "{}", lossy(line));
}

fn text(value: &[u8]) -> Found {
    (Kind::Text, value.to_vec())
}

/// Adds a pair. A key that is the name of a header field gets the prefix `ext_`.
fn put(found: &mut Fields, names: &[&str], version: &str, key: &[u8], value: &[u8]) {
    let Ok(key) = std::str::from_utf8(key) else { return };
    let is_taken = names.contains(&key) || ["prefix", version].contains(&key);
    let name = if is_taken { format!("ext_{key}") } else { key.to_owned() };
    found.insert(name, text(value));
}

/// Returns the fields of a header, and the text after it; `None` if there is no header.
fn header<'l>(
    line: &'l [u8],
    signature: &str,
    version: &str,
    names: &[&str],
) -> Option<(Fields, &'l [u8])> {
    static SIGNATURE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?-u)(CEF:|LEEF:)[\t\n\x0C\r ]*([0-9.]+)[\t\n\x0C\r ]*\|").expect("sound")
    });
    let captures = SIGNATURE.captures_iter(line).find(|found| found[1] == *signature.as_bytes())?;
    let whole = captures.get(0)?;
    let mut found = Fields::from([(version.to_owned(), text(&captures[2]))]);
    let prefix = &line[..whole.start()];
    let prefix = prefix.strip_suffix(b"\xEF\xBB\xBF").unwrap_or(prefix).trim_ascii();
    if !prefix.is_empty() {
        found.insert("prefix".to_owned(), text(prefix));
    }
    let mut rest = &line[whole.end()..];
    for (index, name) in names.iter().enumerate() {
        let (value, behind) = header_value(rest);
        if behind.is_none() && index + 1 < names.len() {
            return None;
        }
        found.insert((*name).to_owned(), text(&value));
        rest = behind.unwrap_or_default();
    }
    Some((found, rest))
}

/// Returns the value up to the next pipe, and the text after the pipe.
fn header_value(text: &[u8]) -> (Vec<u8>, Option<&[u8]>) {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let is_end = *byte == b'|' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    let value = &text[..end.unwrap_or(text.len())];
    (replaced(value.trim_ascii(), &[(b'|', b'|'), (b'\\', b'\\')]), end.map(|end| &text[end + 1..]))
}

fn decoded(value: &[u8]) -> Vec<u8> {
    replaced(value, &[(b'=', b'='), (b'\\', b'\\'), (b'n', b'\n'), (b'r', b'\r')])
}

/// Returns a text in which a backslash followed by the first byte of a pair is replaced by the
/// second byte.
fn replaced(text: &[u8], escapes: &[(u8, u8)]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let behind = text.get(at + 1);
        let escape = escapes.iter().find(|(byte, _)| text[at] == b'\\' && behind == Some(byte));
        out.push(escape.map_or(text[at], |(_, meaning)| *meaning));
        at += 1 + usize::from(escape.is_some());
    }
    out
}

/// Returns the delimiter of LEEF 2.0, and the text after it; `None` if the delimiter is invalid.
fn delimiter_of(rest: &[u8]) -> Option<(String, &[u8])> {
    static HEXADECIMAL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?-u)^0?[xX]([0-9a-fA-F]{1,4})$").expect("sound"));
    if let Some(rest) = rest.strip_prefix(b"||") {
        return Some(("|".to_owned(), rest));
    }
    let end = rest.iter().position(|byte| *byte == b'|');
    let Some(end) = end.filter(|end| !rest[..*end].contains(&b'=')) else {
        return Some(("\t".to_owned(), rest));
    };
    let field = std::str::from_utf8(&rest[..end]).ok()?;
    let delimiter = match field.chars().count() {
        0 => "\t".to_owned(),
        1 => field.to_owned(),
        _ => {
            let digits = HEXADECIMAL.captures(field.as_bytes())?;
            let digits = std::str::from_utf8(digits.get(1)?.as_bytes()).ok()?;
            char::from_u32(u32::from_str_radix(digits, 16).ok()?)?.to_string()
        }
    };
    (delimiter != "=").then_some((delimiter, &rest[end + 1..]))
}
