//! A parser that remembers the text it read last.

use crate::step::{number, scaled, two_digits};
use crate::{Fault, Format, SECOND_NS, Stamp};
use std::sync::Arc;

/// Bytes of a text that are compared with the text before, as words; longer times are read anew.
const WORDS: usize = 6;
const WINDOW: usize = WORDS * 8;

/// Bytes behind a time that can decide where it ends: `+02` ends there, `+02:0` does not.
const AHEAD: usize = 2;

/// Reads the times of lines that follow each other.
///
/// It answers what [`Format::parse`] answers, faster where a text differs from the one before in
/// its second and fraction only.
#[derive(Clone, Debug)]
pub struct Parser {
    format: Arc<Format>,
    last: Last,
}

/// What was read last.
#[derive(Clone, Debug)]
struct Last {
    /// The text, and the bits of it that another text must have as well.
    text: [u64; WORDS],
    mask: [u64; WORDS],
    shape: Shape,
    /// Whether no more bytes than those of the shape may be there.
    ends: bool,
    /// Bytes of the time.
    len: usize,
    /// The time without its second and fraction.
    minute_ns: i64,
    /// What the year was found with.
    reference_ns: i64,
}

/// Where the parts of a text are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    /// Bytes that must be there; no text has them if nothing was read yet.
    bytes: usize,
    second_at: Option<usize>,
    fraction_at: usize,
    fraction_len: usize,
}

impl Parser {
    /// A parser for this format.
    pub fn new(format: Arc<Format>) -> Parser {
        let shape = Shape { bytes: usize::MAX, second_at: None, fraction_at: 0, fraction_len: 0 };
        let (text, mask) = ([0; WORDS], [0; WORDS]);
        let last = Last { text, mask, shape, ends: false, len: 0, minute_ns: 0, reference_ns: 0 };
        Parser { format, last }
    }

    /// Reads the time with which `text` begins, see [`Format::parse`].
    #[inline]
    pub fn parse(&mut self, text: &[u8], reference_ns: i64) -> Result<Stamp, Fault> {
        match self.last.again(text, reference_ns) {
            Some(ns) => Ok(Stamp { ns, len: self.last.len }),
            None => self.anew(text, reference_ns),
        }
    }

    fn anew(&mut self, text: &[u8], reference_ns: i64) -> Result<Stamp, Fault> {
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
        // One that always fits, where it does not matter.
        last.reference_ns = if self.format.finds_year() { reference_ns } else { i64::MIN };
        Ok(stamp)
    }
}

impl Shape {
    /// The bits that texts of one minute have in common.
    fn mask(&self) -> [u64; WORDS] {
        let mut mask = [0; WINDOW];
        mask[..self.bytes].fill(0xFF);
        mask[self.second_at.map_or(0..0, |at| at..at + 2)].fill(0);
        mask[self.fraction_at..self.fraction_at + self.fraction_len].fill(0);
        words(&mask)
    }
}

impl Last {
    /// The time of a text that differs from the last one in second and fraction only.
    #[inline]
    fn again(&self, text: &[u8], reference_ns: i64) -> Option<i64> {
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
            let (fraction, len) = number(text.get(shape.fraction_at..)?, shape.fraction_len);
            if len < shape.fraction_len {
                return None;
            }
            ns += scaled(fraction, len);
        }
        Some(ns)
    }
}

/// The beginning of a text, with zeros behind a shorter one.
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
