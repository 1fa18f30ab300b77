//! The literal text between two variables of a format.

use crate::region::{Bits, NOWHERE};

/// Literal text that every line must contain.
#[derive(Clone, Debug)]
pub(super) struct Literal {
    bytes: Box<[u8]>,
    /// The first eight bytes as a word.
    word: u64,
    /// Mask of the bytes in `word` that are part of the literal.
    mask: u64,
    /// Whether the literal must be at the end of the line.
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

    /// Returns whether the literal is in `text` at `at` and fits before `end`.
    #[inline(always)]
    pub fn matches(&self, text: &[u8], at: usize, end: usize) -> bool {
        let behind = at + self.bytes.len();
        if behind > end || (self.last && behind != end) {
            return false;
        }
        match text.get(at..).and_then(|text| text.first_chunk()) {
            Some(chunk) if self.bytes.len() <= 8 => {
                u64::from_le_bytes(*chunk) & self.mask == self.word
            }
            _ => self.matches_long(text, at),
        }
    }

    #[cold]
    fn matches_long(&self, text: &[u8], at: usize) -> bool {
        text.get(at..).is_some_and(|text| text.starts_with(&self.bytes))
    }
}

/// An additional condition for the end of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCondition {
    /// No condition.
    Anywhere,
    /// After a comma or next to a colon, a list continues: `0.1, 0.2 : 0.3`.
    OverLists,
    /// The value is `-` or contains a space: `14/Nov/2025:00:00:00 +0000`.
    OverOneSpace,
    /// The value is `-` or ends with a protocol: `GET /a b HTTP/1.1`.
    ToProtocol,
    /// A quote after a backslash belongs to the value.
    OverEscapes,
}

/// The literal and the condition that end a variable.
#[derive(Clone, Debug)]
pub(super) struct Until {
    pub literal: Literal,
    pub condition: EndCondition,
    /// Bitmap index for the literal's first byte. `None` if the variable ends at the end of the
    /// line.
    pub bits: Option<usize>,
}

impl Until {
    /// Returns whether the variable that starts at `start` can end at `at`.
    #[inline(always)]
    pub fn matches(&self, text: &[u8], start: usize, at: usize, end: usize) -> bool {
        self.literal.matches(text, at, end)
            && (self.condition == EndCondition::Anywhere || self.is_end(&text[start..], at - start))
    }

    #[inline(never)]
    fn is_end(&self, text: &[u8], at: usize) -> bool {
        let (value, behind) = text.split_at(at);
        match self.condition {
            EndCondition::Anywhere => true,
            EndCondition::OverLists => {
                !value.ends_with(b",") && !value.ends_with(b" :") && !behind.starts_with(b" : ")
            }
            EndCondition::OverOneSpace => value == b"-" || value.contains(&b' '),
            EndCondition::ToProtocol => {
                let last = value.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                value == b"-" || last.starts_with(b"HTTP/")
            }
            EndCondition::OverEscapes => {
                value.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
            }
        }
    }

    /// Returns the part that decides most lines and fits into registers.
    pub fn quick(&self) -> Quick {
        let literal = &self.literal;
        let guard = self.condition == EndCondition::OverEscapes;
        let is_simple = literal.len() <= 8 && (guard || self.condition == EndCondition::Anywhere);
        // This pair never matches, because the word has a bit that the mask clears.
        let (word, mask) = if is_simple { (literal.word, literal.mask) } else { (1, 0) };
        Quick { word, mask, len: literal.len(), last: literal.last, guard }
    }

    /// Finds the end of the variable that starts at `start`. Returns `None` if the literal does not
    /// follow.
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
        if quick.matches(text, at, end) { Some(at) } else { self.find_slow(bits, text, start, end) }
    }

    /// Finds the end when comparing one word does not decide, or when the literal's first byte
    /// occurs in the value.
    #[cold]
    pub fn find_slow(&self, bits: &[Bits], text: &[u8], start: usize, end: usize) -> Option<usize> {
        let Some(index) = self.bits else {
            return self.matches(text, start, end, end).then_some(end);
        };
        let bits = &bits[index];
        let next = |at: &usize| Some(bits.find(*at + 1));
        let places = std::iter::successors(Some(bits.find(start)), next);
        places
            .take_while(|at| *at < end && *at != NOWHERE)
            .find(|at| self.matches(text, start, *at, end))
    }
}

/// The part of [`Until`] that one word comparison checks.
#[derive(Clone, Copy)]
pub(super) struct Quick {
    word: u64,
    mask: u64,
    pub len: usize,
    last: bool,
    guard: bool,
}

impl Quick {
    /// Returns whether a variable ends at `at`. `false` means that the quick check cannot tell.
    #[inline(always)]
    pub fn matches(self, text: &[u8], at: usize, end: usize) -> bool {
        let Some(chunk) = text.get(at..).and_then(|text| text.first_chunk()) else { return false };
        let behind = at + self.len;
        let is_escaped = self.guard && at > 0 && text[at - 1] == b'\\';
        (u64::from_le_bytes(*chunk) & self.mask == self.word)
            & (behind <= end)
            & (!self.last | (behind == end))
            & !is_escaped
    }
}
