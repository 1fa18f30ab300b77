//! The lines of a StatsD message and the delimiters of their first fields.

/// Number of `|` per line whose positions are returned.
pub const BARS: usize = 3;

/// Positions in one line `name:value|type|field|…`, relative to the start of the message. The line
/// starts after the end of the previous one. It may be malformed: without a colon, without a bar,
/// or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsdLine {
    /// The first colon of the first field, or the end of that field.
    pub split: u32,
    /// The first bars; missing bars are set to the end of the line.
    pub bars: [u32; BARS],
    /// The newline, or the end of the message.
    pub end: u32,
}

/// Receives the lines of a message.
///
/// A trait instead of a closure, because it must be inlined into the scan: otherwise every line
/// would cost a call. Implement [`StatsdLines::line`] as `#[inline(always)]`.
pub trait StatsdLines {
    /// Handles the next line.
    fn line(&mut self, line: StatsdLine);
}

/// Twin of [`crate::statsd_lines`].
///
/// # Panics
/// If `text` is longer than `u32::MAX` - 1 bytes.
pub fn scalar(text: &[u8], each: &mut impl StatsdLines) {
    assert_short(text);
    let mut start = 0;
    while start < text.len() {
        let line = text[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let end = (start + line.len()) as u32;
        let mut positions =
            (0_u32..).zip(&text[..end as usize]).skip(start).filter(|(_, byte)| **byte == b'|');
        let bars = std::array::from_fn(|_| positions.next().map_or(end, |(at, _)| at));
        let colon =
            line.iter().position(|byte| *byte == b':').map_or(end, |at| (start + at) as u32);
        each.line(StatsdLine { split: colon.min(bars[0]), bars, end });
        start = end as usize + 1;
    }
}

/// # Panics
/// If `text` is longer than `u32::MAX` - 1 bytes.
pub fn assert_short(text: &[u8]) {
    assert!(
        u32::try_from(text.len()).is_ok_and(|len| len < u32::MAX),
        "messages are shorter than u32::MAX bytes"
    );
}
