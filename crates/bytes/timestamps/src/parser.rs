//! A parser that caches the result for the previous text.

use crate::step::{fraction_ns, parse_digits, two_digits};
use crate::{Fault, Format, SECOND_NS, Stamp};
use std::sync::Arc;

/// Number of words that are compared with the previous text. Longer times are always fully parsed.
const WORDS: usize = 6;
const WINDOW: usize = WORDS * 8;

/// Number of bytes after a time that can affect where it ends: `+02` ends there, but `+02:0` does
/// not.
const AHEAD: usize = 2;

/// Parses the times of consecutive lines.
///
/// The results are the same as with [`Format::parse`], but parsing is faster if a string differs
/// from the previous one only in its second and fraction.
#[derive(Clone, Debug)]
pub struct Parser {
    format: Arc<Format>,
    last: Cached,
}

/// The result for the previous text.
#[derive(Clone, Debug)]
struct Cached {
    /// The previous text.
    text: [u64; WORDS],
    /// Mask of the bits that must be the same in the next text.
    mask: [u64; WORDS],
    shape: Shape,
    /// Whether nothing may follow the bytes of the shape.
    ends: bool,
    /// Length of the time in bytes.
    len: usize,
    /// The time without its second and fraction.
    minute_ns: i64,
    /// The reference from which the year was inferred.
    reference_ns: i64,
}

/// Positions of the parts of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    /// Minimum length of a string, or `usize::MAX` before the first string.
    bytes: usize,
    second_at: Option<usize>,
    fraction_at: usize,
    fraction_len: usize,
}

impl Parser {
    /// Creates a parser for this format.
    pub fn new(format: Arc<Format>) -> Parser {
        let shape = Shape { bytes: usize::MAX, second_at: None, fraction_at: 0, fraction_len: 0 };
        let (text, mask) = ([0; WORDS], [0; WORDS]);
        let last = Cached { text, mask, shape, ends: false, len: 0, minute_ns: 0, reference_ns: 0 };
        Parser { format, last }
    }

    /// Parses the time at the start of `text` (see [`Format::parse`]).
    #[inline]
    pub fn parse(&mut self, text: &[u8], reference_ns: i64) -> Result<Stamp, Fault> {
        match self.last.parse_cached(text, reference_ns) {
            Some(ns) => Ok(Stamp { ns, len: self.last.len }),
            None => self.parse_full(text, reference_ns),
        }
    }

    fn parse_full(&mut self, text: &[u8], reference_ns: i64) -> Result<Stamp, Fault> {
        let mut fields = self.format.fields();
        let stamp = self.format.read(text, reference_ns, &mut fields)?;
        let ahead = if self.format.looks_ahead() { AHEAD } else { 0 };
        let bytes = text.len().min(stamp.len + ahead);
        let minute_ns =
            self.format.minute_ns(stamp.ns, &fields, reference_ns).filter(|_| bytes <= WINDOW);
        let Some(minute_ns) = minute_ns else { return Ok(stamp) };
        let shape = Shape {
            bytes,
            second_at: fields.second_at,
            fraction_at: fields.fraction_at,
            fraction_len: fields.fraction_len,
        };
        let last = &mut self.last;
        if last.shape != shape {
            (last.mask, last.shape) = (shape.mask(), shape);
        }
        last.text = text.first_chunk().map_or_else(|| words(&window(text)), words);
        last.ends = bytes < stamp.len + ahead;
        last.len = stamp.len;
        last.minute_ns = minute_ns;
        // If no year is inferred, the reference does not matter. `i64::MIN` matches any reference.
        last.reference_ns = if self.format.infers_year() { reference_ns } else { i64::MIN };
        Ok(stamp)
    }
}

impl Shape {
    /// Returns the mask of the bits that times in the same minute share.
    fn mask(&self) -> [u64; WORDS] {
        let mut mask = [0; WINDOW];
        mask[..self.bytes].fill(0xFF);
        mask[self.second_at.map_or(0..0, |at| at..at + 2)].fill(0);
        mask[self.fraction_at..self.fraction_at + self.fraction_len].fill(0);
        words(&mask)
    }
}

impl Cached {
    /// Returns the time of a string that differs from the previous string only in its second and
    /// fraction. Returns `None` for any other text.
    #[inline]
    fn parse_cached(&self, text: &[u8], reference_ns: i64) -> Option<i64> {
        let shape = &self.shape;
        let fits = text.len() >= shape.bytes && (!self.ends || text.len() == shape.bytes);
        if !fits || (self.reference_ns != i64::MIN && self.reference_ns != reference_ns) {
            return None;
        }
        let other = match text.first_chunk() {
            Some(chunk) => words(chunk),
            None => words(&window(text)),
        };
        let differs = |index: usize| (other[index] ^ self.text[index]) & self.mask[index];
        if (0..WORDS).fold(0, |all, index| all | differs(index)) != 0 {
            return None;
        }
        let mut ns = self.minute_ns;
        if let Some(at) = shape.second_at {
            let second = two_digits(text, at).filter(|second| *second <= 60)?;
            ns += i64::from(second) * SECOND_NS;
        }
        if shape.fraction_len > 0 {
            let (fraction, len) = parse_digits(text.get(shape.fraction_at..)?, shape.fraction_len);
            if len < shape.fraction_len {
                return None;
            }
            ns += fraction_ns(fraction, len);
        }
        Some(ns)
    }
}

/// Returns the first bytes of `text`, padded with zeros.
fn window(text: &[u8]) -> [u8; WINDOW] {
    let mut window = [0; WINDOW];
    let len = text.len().min(WINDOW);
    window[..len].copy_from_slice(&text[..len]);
    window
}

#[inline]
fn words(window: &[u8; WINDOW]) -> [u64; WORDS] {
    let (words, _) = window.as_chunks();
    std::array::from_fn(|index| u64::from_le_bytes(words[index]))
}
