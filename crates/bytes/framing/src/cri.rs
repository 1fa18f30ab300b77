//! The log format of the Container Runtime Interface (CRI): timestamp, stream, tags and text,
//! separated by spaces. `2026-11-21T20:29:46.123456789Z stdout F GET /`

use crate::record::{Fields, stream_index};
use memchr::memchr;

/// Parses a line. Returns `None` if the line is not in the CRI format.
#[inline]
pub fn fields(line: &[u8]) -> Option<Fields<'_>> {
    let time_end = memchr(b' ', line)?;
    let stream = stream_index(line.get(time_end + 1..time_end + 7)?)?;
    let tags = line[time_end + 7..].strip_prefix(b" ")?;
    let tags_end = memchr(b' ', tags).unwrap_or(tags.len());
    let is_partial = match &tags[..tags_end] {
        [b'P'] | [b'P', b':', ..] => true,
        [b'F'] | [b'F', b':', ..] => false,
        _ => return None,
    };
    // The space before the text is optional if the text is empty.
    let start = (time_end + 8 + tags_end + 1).min(line.len());
    Some(Fields { time: &line[..time_end], stream, is_partial, text: &line[start..], start })
}
