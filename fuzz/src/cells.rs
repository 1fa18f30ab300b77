//! Invariants of parsed and computed values.

use millstream_columns::{Cell, Column, Kind, push_json_string};
use millstream_parsers::is_number;
use millstream_timestamps::Format;
use serde::de::IgnoredAny;
use std::sync::LazyLock;

/// A value: its kind and its bytes.
pub type Found = (Kind, Vec<u8>);

/// Returns whether serde_json accepts the text as JSON. The values are ignored, so that numbers of
/// any size and lone surrogates pass.
pub fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Returns whether the text is a time in UTC. Outside the years 1678 to 2261, only the `Z` at the
/// end is checked, because times at the limits of 64 bits can be written, but not parsed.
fn is_time(text: &[u8]) -> bool {
    static RFC3339: LazyLock<Format> =
        LazyLock::new(|| Format::new("rfc3339", None).expect("sound"));
    let is_edge = !(&b"1678"[..]..&b"2262"[..]).contains(&text);
    let is_read = || RFC3339.parse(text, 0).is_ok_and(|stamp| stamp.len == text.len());
    text.ends_with(b"Z") && (is_edge || is_read())
}

/// Returns the value of a cell.
///
/// # Panics
/// Panics if the cell ends after the block (or the column's own buffer), or if its bytes do not
/// match its kind.
pub fn found(column: &Column, cell: Cell, block: &[u8]) -> Found {
    let within = if cell.is_own() { column.own().len() } else { block.len() };
    assert!(
        cell.start() + cell.len() <= within,
        "{}: {cell:?} ends after {within} bytes",
        column.name
    );
    let bytes = column.bytes(block, cell).to_vec();
    let is_sound = match cell.kind() {
        Kind::Null | Kind::False | Kind::True => bytes.is_empty(),
        Kind::Int | Kind::Float => is_number(&bytes) == Some(cell.kind()),
        Kind::Time => is_time(&bytes),
        _ => true,
    };
    assert!(is_sound, "{}: {:?} {:?}", column.name, cell.kind(), String::from_utf8_lossy(&bytes));
    (cell.kind(), bytes)
}

/// Returns the fields of one row as a JSON object, copied as an encoder copies them.
///
/// # Panics
/// Panics if the result is not JSON.
pub fn json<'a>(fields: impl IntoIterator<Item = (&'a str, &'a Found)>) -> Vec<u8> {
    let mut out = b"{".to_vec();
    for (name, (kind, bytes)) in fields {
        if out.len() > 1 {
            out.push(b',');
        }
        if *kind == Kind::Members {
            out.extend_from_slice(bytes);
            continue;
        }
        push_json_string(name.as_bytes(), &mut out);
        out.push(b':');
        match kind {
            Kind::Text | Kind::Time => push_json_string(bytes, &mut out),
            Kind::Escaped => out.extend([b"\"", &bytes[..], b"\""].concat()),
            Kind::Absent | Kind::Null => out.extend_from_slice(b"null"),
            Kind::True => out.extend_from_slice(b"true"),
            Kind::False => out.extend_from_slice(b"false"),
            _ => out.extend_from_slice(bytes),
        }
    }
    out.push(b'}');
    assert!(is_json(&out), "the output is not JSON: {}", String::from_utf8_lossy(&out));
    out
}
