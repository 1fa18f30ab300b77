//! The text between two variables of a format.

use crate::region::{Bits, NOWHERE};

/// Text that must stand in a line.
#[derive(Clone, Debug)]
pub(super) struct Literal {
    bytes: Box<[u8]>,
    /// The first eight bytes, and which of them count.
    word: u64,
    mask: u64,
    /// Whether the line ends behind it.
    last: bool,
}

impl Literal {
    pub fn new(bytes: &[u8], last: bool) -> Literal {
        let mut word = [0; 8];
        let len = bytes.len().min(8);
        word[..len].copy_from_slice(&bytes[..len]);
        let mask = u64::MAX.checked_shr(64 - 8 * len as u32).unwrap_or(0);
        Literal { bytes: bytes.into(), word: u64::from_le_bytes(word), mask, last }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it stands at `at` in `text`, before `end`.
    #[inline(always)]
    pub fn fits(&self, text: &[u8], at: usize, end: usize) -> bool {
        let behind = at + self.bytes.len();
        if behind > end || (self.last && behind != end) {
            return false;
        }
        match text.get(at..).and_then(|text| text.first_chunk()) {
            Some(chunk) if self.bytes.len() <= 8 => {
                u64::from_le_bytes(*chunk) & self.mask == self.word
            }
            _ => self.fits_slowly(text, at),
        }
    }

    #[cold]
    fn fits_slowly(&self, text: &[u8], at: usize) -> bool {
        text.get(at..).is_some_and(|text| text.starts_with(&self.bytes))
    }
}

/// What more a variable asks of the place where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    /// Nothing.
    Anywhere,
    /// Behind a comma or around a colon it goes on: `0.1, 0.2 : 0.3`.
    OverLists,
    /// It has one space: `14/Nov/2025:00:00:00 +0000`.
    OverOneSpace,
    /// It ends with a protocol: `GET /a b HTTP/1.1`.
    ToProtocol,
    /// A quote with a backslash before it belongs to it.
    OverEscapes,
}

/// Where a variable ends.
#[derive(Clone, Debug)]
pub(super) struct Until {
    pub literal: Literal,
    pub goes: Goes,
    /// Index of the bits of the first byte of the literal; none at the end of the line.
    pub bits: Option<usize>,
}

impl Until {
    /// Whether the variable that begins at `start` can end at `at`.
    #[inline(always)]
    pub fn fits(&self, text: &[u8], start: usize, at: usize, end: usize) -> bool {
        self.literal.fits(text, at, end)
            && (self.goes == Goes::Anywhere || self.is_end(&text[start..], at - start))
    }

    #[inline(never)]
    fn is_end(&self, text: &[u8], at: usize) -> bool {
        let (value, behind) = text.split_at(at);
        match self.goes {
            Goes::Anywhere => true,
            Goes::OverLists => {
                !value.ends_with(b",") && !value.ends_with(b" :") && !behind.starts_with(b" : ")
            }
            Goes::OverOneSpace => value == b"-" || value.contains(&b' '),
            Goes::ToProtocol => {
                let last = value.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                value == b"-" || last.starts_with(b"HTTP/")
            }
            Goes::OverEscapes => {
                value.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
            }
        }
    }

    /// What mostly decides; it is kept in registers over many lines.
    pub fn quick(&self) -> Quick {
        let literal = &self.literal;
        let guard = self.goes == Goes::OverEscapes;
        let is_simple = literal.len() <= 8 && (guard || self.goes == Goes::Anywhere);
        // No word has bits that its mask has not.
        let (word, mask) = if is_simple { (literal.word, literal.mask) } else { (1, 0) };
        Quick { word, mask, len: literal.len(), last: literal.last, guard }
    }

    /// Where the variable that begins at `start` ends.
    #[inline(always)]
    pub fn find(
        &self,
        quick: Quick,
        bits: &[Bits],
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Option<usize> {
        let at = match self.bits {
            Some(index) => bits[index].find(start),
            None => end,
        };
        if quick.fits(text, at, end) { Some(at) } else { self.find_on(bits, text, start, end) }
    }

    /// The same where more than a word decides, or the first byte of the literal comes up in the
    /// value.
    #[cold]
    pub fn find_on(&self, bits: &[Bits], text: &[u8], start: usize, end: usize) -> Option<usize> {
        let Some(index) = self.bits else { return self.fits(text, start, end, end).then_some(end) };
        let bits = &bits[index];
        let next = |at: &usize| Some(bits.find(*at + 1));
        let places = std::iter::successors(Some(bits.find(start)), next);
        places
            .take_while(|at| *at < end && *at != NOWHERE)
            .find(|at| self.fits(text, start, *at, end))
    }
}

/// The part of [`Until`] that a word decides.
#[derive(Clone, Copy)]
pub(super) struct Quick {
    word: u64,
    mask: u64,
    pub len: usize,
    last: bool,
    guard: bool,
}

impl Quick {
    /// Whether a variable ends at `at`; false is no answer.
    #[inline(always)]
    pub fn fits(self, text: &[u8], at: usize, end: usize) -> bool {
        let Some(chunk) = text.get(at..).and_then(|text| text.first_chunk()) else { return false };
        let behind = at + self.len;
        let is_escaped = self.guard && at > 0 && text[at - 1] == b'\\';
        (u64::from_le_bytes(*chunk) & self.mask == self.word)
            & (behind <= end)
            & (!self.last | (behind == end))
            & !is_escaped
    }
}
