//! The variable parts of a template: fields and time specifiers.

use super::Use;
use crate::formats::{civil, push_decimal, push_rfc3339};
use millstream_model::{Batch, LINE, MEMBERS, PARTIAL, STREAM, Segment};
use std::borrow::Cow;
use std::io::Write;

/// Total bytes of the mark and hash that replace the end of a truncated value.
const HASH_BYTES: usize = 34;

/// Minimum space for a value: its first bytes, the mark and the hash.
pub const FIELD_BYTES_MIN: usize = HASH_BYTES + 6;

/// A field of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Name of the host.
    Host,
    /// Id of the source.
    Source,
    /// Path of the file.
    File,
    /// Id of the file.
    FileId,
    /// Offset of the line.
    Offset,
    /// Id of the event.
    Id,
    /// Time of the event.
    Timestamp,
    /// Time at which the line was read.
    Collected,
    /// Offset of the previous line in the segment.
    PreviousOffset,
    /// Whether the line was truncated.
    Truncated,
    /// The message: the `message` field; if there is none, the line.
    Message,
    /// The line.
    Line,
    /// Metadata that only some sources provide, with the name of its column.
    Metadata(&'static str),
    /// A field of the line, or an attribute of the source or the origin.
    Named(String),
}

impl Field {
    /// Returns the field called `name`. A name that is not built in refers to a field of the line
    /// or to an attribute.
    pub fn named(name: &str) -> Field {
        match name {
            "host" => Field::Host,
            "source" => Field::Source,
            "file" => Field::File,
            "file_id" => Field::FileId,
            "offset" => Field::Offset,
            "id" => Field::Id,
            "timestamp" => Field::Timestamp,
            "collected" => Field::Collected,
            "previous_offset" => Field::PreviousOffset,
            "truncated" => Field::Truncated,
            "message" => Field::Message,
            LINE => Field::Line,
            STREAM => Field::Metadata(STREAM),
            PARTIAL => Field::Metadata(PARTIAL),
            name => Field::Named(name.to_owned()),
        }
    }

    /// Returns whether the value can differ between rows in a segment of this batch.
    pub fn per_row(&self, batch: &Batch) -> bool {
        use Field::{Id, Line, Message, Offset, PreviousOffset, Timestamp, Truncated};
        match self {
            Offset | Id | PreviousOffset | Truncated | Message | Line => true,
            Timestamp => batch.time.is_some(),
            Field::Metadata(name) => batch.metadata(name).is_some(),
            Field::Named(name) => {
                batch.fields.get(name).is_some() || batch.fields.get(MEMBERS).is_some()
            }
            _ => false,
        }
    }

    /// Returns the field's value; `None` if the event has no such field or no value for it.
    pub fn of<'b>(
        &self,
        batch: &'b Batch,
        segment: &'b Segment,
        row: usize,
    ) -> Option<Cow<'b, [u8]>> {
        let value: &[u8] = match self {
            Field::Host => batch.source.host.as_bytes(),
            Field::Source => batch.source.id.as_bytes(),
            Field::File => Some(segment.origin.name.as_bytes()).filter(|name| !name.is_empty())?,
            Field::Message => return batch.message_text(row),
            Field::Line => batch.text(row),
            Field::Metadata(name) => return batch.value(batch.metadata(name)?, row).plain(),
            Field::Named(name) => {
                let column =
                    batch.fields.get(name).and_then(|column| batch.value(column, row).plain());
                let found =
                    column.or_else(|| batch.fields.member(name, &batch.block, row)?.plain());
                if found.is_some() {
                    return found;
                }
                let own = || segment.origin.attributes.get(name);
                batch.source.attributes.get(name).or_else(own)?.as_bytes()
            }
            Field::Truncated if batch.is_truncated(row) => b"true",
            Field::Truncated => b"false",
            Field::PreviousOffset if row == segment.first_row => return None,
            field => return Some(field.format(batch, segment, row).into()),
        };
        Some(value.into())
    }

    /// Formats a value that is an id, a number or a time.
    fn format(&self, batch: &Batch, segment: &Segment, row: usize) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Field::Id => batch.write_id(segment, row, &mut out),
            Field::FileId => drop(write!(out, "{}", segment.origin.id)),
            Field::Offset => push_decimal(&mut out, batch.offset(segment, row)),
            Field::PreviousOffset => push_decimal(&mut out, batch.offset(segment, row - 1)),
            Field::Timestamp => push_rfc3339(&mut out, batch.event_ns(row)),
            _ => push_rfc3339(&mut out, batch.read_ns),
        }
        out
    }
}

/// A `strftime` specifier for an event's time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece(char);

impl Piece {
    /// Returns the specifier with this letter; `None` if the letter is not supported.
    pub fn of(letter: char) -> Option<Piece> {
        "YmdHMSjyFs".contains(letter).then_some(Piece(letter))
    }

    /// Returns the maximum bytes that the specifier renders, for any time in 64-bit nanoseconds.
    pub fn bytes_max(self) -> usize {
        match self.0 {
            'Y' => 4,
            'j' => 3,
            'F' => 10,
            's' => 11,
            _ => 2,
        }
    }

    /// Returns whether two times are known to render the same text.
    pub fn is_same(self, one_ns: i64, other_ns: i64) -> bool {
        let seconds = match self.0 {
            'S' | 's' => 1,
            'M' => 60,
            'H' => 3600,
            _ => 86_400,
        };
        let period = seconds * 1_000_000_000;
        one_ns.div_euclid(period) == other_ns.div_euclid(period)
    }

    /// Appends the time rendered by this specifier; the time is given in nanoseconds since 1970.
    pub fn push(self, ns: i64, out: &mut Vec<u8>) {
        let seconds = ns.div_euclid(1_000_000_000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let written = match self.0 {
            'Y' => write!(out, "{year:04}"),
            'm' => write!(out, "{month:02}"),
            'd' => write!(out, "{day:02}"),
            'H' => write!(out, "{:02}", second / 3600),
            'M' => write!(out, "{:02}", second / 60 % 60),
            'S' => write!(out, "{:02}", second % 60),
            'j' => write!(out, "{:03}", day_of_year(year, month, day)),
            'y' => write!(out, "{:02}", year.rem_euclid(100)),
            'F' => write!(out, "{year:04}-{month:02}-{day:02}"),
            _ => write!(out, "{seconds}"),
        };
        // Writing to memory does not fail.
        drop(written);
    }
}

fn day_of_year(year: i64, month: u32, day: u32) -> u32 {
    const BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    BEFORE[month as usize - 1] + day + u32::from(is_leap && month > 2)
}

/// Appends a value escaped for `usage`, in at most `bytes_max` bytes. In text, the value is neither
/// escaped nor limited.
pub fn push(usage: Use, value: &[u8], bytes_max: usize, out: &mut Vec<u8>) {
    let begin = out.len();
    // The part that cannot fit affects only the hash.
    let prefix = &value[..value.len().min(bytes_max)];
    match usage {
        Use::Text => return out.extend_from_slice(value),
        Use::Path => push_path(prefix, out),
        Use::Topic => push_topic(prefix, out),
        Use::Index => push_topic(&prefix.to_ascii_lowercase(), out),
    }
    if value.len() > bytes_max || out.len() - begin > bytes_max {
        let mark = if usage == Use::Path { b'%' } else { b'_' };
        let mut end = begin + bytes_max - HASH_BYTES;
        end -= out[end - 2..end].iter().rev().position(|byte| *byte == mark).map_or(0, |at| at + 1);
        while out[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        out.truncate(end);
        // Escaping never produces a mark before `-`, so the mark shows that the value was
        // truncated.
        drop(write!(out, "{}-{:032x}", mark as char, xxhash_rust::xxh3::xxh3_128(value)));
    }
}

fn push_path(value: &[u8], out: &mut Vec<u8>) {
    let percent = |byte: &u8, out: &mut Vec<u8>| drop(write!(out, "%{byte:02X}"));
    match value {
        b"" => return out.push(b'%'),
        b"." | b".." => return value.iter().for_each(|byte| percent(byte, out)),
        _ => {}
    }
    for chunk in value.utf8_chunks() {
        for byte in chunk.valid().as_bytes() {
            match byte {
                b'/' | b'%' | 0x7F | 0..0x20 => percent(byte, out),
                byte => out.push(*byte),
            }
        }
        chunk.invalid().iter().for_each(|byte| percent(byte, out));
    }
}

fn push_topic(value: &[u8], out: &mut Vec<u8>) {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    for (at, byte) in value.iter().enumerate() {
        // An underscore is escaped only if it could be mistaken for an escape or for a truncated
        // value.
        let looks_escaped = || is_hex(value.get(at + 1)) && is_hex(value.get(at + 2));
        match byte {
            b'_' if value.get(at + 1) == Some(&b'-') || looks_escaped() => {
                out.extend_from_slice(b"_5f")
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => out.push(*byte),
            byte => drop(write!(out, "_{byte:02x}")),
        }
    }
}
