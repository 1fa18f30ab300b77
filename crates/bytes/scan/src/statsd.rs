//! The lines of a StatsD message, and the delimiters of their first fields.

/// Maximum number of `|` positions that are returned per line.
pub const BARS: usize = 3;

/// Positions in one line `name:value|type|field|…`, relative to the start of the message. The line
/// starts after the end of the previous one. A line can be malformed: it can be empty, or lack a
/// colon or a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsdLine {
    /// Position of the first colon in the first field, or the end of that field.
    pub split: u32,
    /// Positions of the first bars. A missing bar is set to the end of the line.
    pub bars: [u32; BARS],
    /// Position of the newline, or the end of the message.
    pub end: u32,
}

/// Receives the lines of a message.
///
/// This is a trait instead of a closure, because it must be inlined into the scan. Otherwise, every
/// line would cost a call. Implement [`StatsdLines::line`] as `#[inline(always)]`.
pub trait StatsdLines {
    /// Handles the next line.
    fn line(&mut self, line: StatsdLine);
}

/// Scalar twin of [`crate::statsd_lines`].
///
/// # Panics
/// Panics if `text` is longer than `u32::MAX` - 1 bytes.
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

/// Checks that the positions in a message fit into 32 bits.
///
/// # Panics
/// Panics if `text` is longer than `u32::MAX` - 1 bytes.
pub fn assert_short(text: &[u8]) {
    assert!(
        u32::try_from(text.len()).is_ok_and(|len| len < u32::MAX),
        "messages are shorter than u32::MAX bytes"
    );
}
