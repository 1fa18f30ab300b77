//! The lines of a StatsD message: where their first fields are.

use crate::kernels::Kernel;

/// Bars of a line whose places are told.
pub const BARS: usize = 3;

/// Where a line of `name:value|type|field|…` is, counted from the beginning of the message. It
/// begins behind the end of the one before it. Nothing says that it is a good line: it may have no
/// colon, no bar, or no byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsdLine {
    /// The first colon of the first field, else the end of that.
    pub split: u32,
    /// The first bars; the end of the line in place of those that it does not have.
    pub bars: [u32; BARS],
    /// Its line end, or the end of the message.
    pub end: u32,
}

/// Who is told the lines of a message.
///
/// No closure, as it has to become part of the search: else a call would stand between any two
/// lines. For that, [`StatsdLines::line`] is to be `#[inline(always)]`.
pub trait StatsdLines {
    /// The next line.
    fn line(&mut self, line: StatsdLine);
}

/// Tells `each` the lines of a StatsD message, in their order. An empty message has no lines; a
/// line end at its end begins no further one.
///
/// What `each` does overlaps with the search for the next line, which a list of lines would not.
///
/// # Panics
/// If `text` is longer than `u32::MAX` - 1 bytes.
#[inline]
pub fn statsd_lines(text: &[u8], each: &mut impl StatsdLines) {
    Kernel::best().statsd_lines(text, each);
}

/// Twin of [`crate::statsd_lines`].
///
/// # Panics
/// If `text` is longer than `u32::MAX` - 1 bytes.
pub fn by_bytes(text: &[u8], each: &mut impl StatsdLines) {
    assert_short(text);
    let mut start = 0;
    while start < text.len() {
        let line = text[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let end = (start + line.len()) as u32;
        let mut places =
            (0_u32..).zip(&text[..end as usize]).skip(start).filter(|(_, byte)| **byte == b'|');
        let bars = std::array::from_fn(|_| places.next().map_or(end, |(at, _)| at));
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
