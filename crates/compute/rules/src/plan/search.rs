//! A search for thousands of literals at once.
//!
//! Each literal is represented by one of its windows of four bytes, the one that the fewest other
//! literals have. A text is looked through window by window in a bitmap that stays in the
//! first-level cache, so that the time per byte hardly depends on the number of literals; an
//! automaton for a thousand of them has states of megabytes. Only a window in the bitmap is looked
//! up, and the literals that have it are compared with the text. The idea is that of the hashed
//! blocks of Wu and Manber (A Fast Algorithm for Multi-Pattern Searching, 1994), without skips. Up to
//! [`VECTOR_MAX`] windows are found by vector instructions.

use aho_corasick::{Span, packed::Searcher};
use foldhash::fast::RandomState;
use memchr::memmem::Finder;
use std::collections::HashMap;

/// Bytes of a window.
const WINDOW: usize = 4;

/// Shortest literal.
pub const LITERAL_BYTES_MIN: usize = 3;

/// Number of literals up to which a search for each is faster.
const FEW_MAX: usize = if cfg!(test) { 1 } else { 3 };

/// Number of windows up to which vector instructions look for all of them.
const VECTOR_MAX: usize = if cfg!(test) { 8 } else { 32 };

/// Words of a bitmap: 8 KiB.
const WORDS: usize = 1024;

/// Literals and the windows that represent them.
#[derive(Debug)]
pub struct LiteralSearch {
    literals: Vec<Box<[u8]>>,
    /// One for each literal if there are few.
    few: Vec<Finder<'static>>,
    /// Finds the windows if there are not too many.
    vector: Option<Searcher>,
    /// For literals of four bytes and more.
    long: Windows,
    /// For those of three bytes.
    short: Windows,
}

/// The windows of some literals.
#[derive(Debug)]
struct Windows {
    bitmap: Box<[u64; WORDS]>,
    places: HashMap<u32, Vec<Place>, RandomState>,
}

/// Where a literal has a window.
#[derive(Clone, Copy, Debug)]
struct Place {
    literal: u32,
    offset: u32,
}

impl LiteralSearch {
    /// Prepares a search for literals of at least [`LITERAL_BYTES_MIN`] bytes.
    pub fn new(literals: Vec<Box<[u8]>>) -> LiteralSearch {
        let (mut long, mut short) = (Windows::default(), Windows::default());
        let mut uses: HashMap<u32, u32, RandomState> = HashMap::default();
        for window in literals.iter().flat_map(|literal| literal.windows(WINDOW)) {
            *uses.entry(word_of(window)).or_default() += 1;
        }
        for (number, literal) in literals.iter().enumerate() {
            let windows = literal.windows(WINDOW).map(word_of).enumerate();
            // Of several the last one: literals differ more often at their end.
            let rarest = windows.rev().min_by_key(|(_, word)| uses[word]);
            let literal = number as u32;
            match rarest {
                Some((offset, word)) => long.add(word, Place { literal, offset: offset as u32 }),
                None => short.add(word_of(&literals[number]), Place { literal, offset: 0 }),
            }
        }
        let finders = literals.iter().map(|literal| Finder::new(literal).into_owned());
        let few = if literals.len() <= FEW_MAX { finders.collect() } else { Vec::new() };
        let vector = vector_search(&long, &short);
        LiteralSearch { literals, few, vector, long, short }
    }

    /// Calls `found` with the index of each literal in the text, at least once.
    #[inline]
    pub fn each(&self, text: &[u8], mut found: impl FnMut(usize)) {
        if !self.few.is_empty() {
            let is_in = |(_, finder): &(usize, &Finder<'_>)| finder.find(text).is_some();
            return self.few.iter().enumerate().filter(is_in).for_each(|(at, _)| found(at));
        }
        if let Some(vector) = &self.vector {
            return self.each_by_vectors(vector, text, found);
        }
        if !self.long.places.is_empty() {
            for (at, window) in text.windows(WINDOW).enumerate() {
                let word = word_of(window);
                if self.long.may_have(word) {
                    self.compare(&self.long, (text, at), word, &mut found);
                }
            }
        }
        if !self.short.places.is_empty() {
            for (at, window) in text.windows(LITERAL_BYTES_MIN).enumerate() {
                let word = word_of(window);
                if self.short.may_have(word) {
                    self.compare(&self.short, (text, at), word, &mut found);
                }
            }
        }
    }

    #[inline]
    fn each_by_vectors(&self, vector: &Searcher, text: &[u8], mut found: impl FnMut(usize)) {
        let mut rest = Span::from(0..text.len());
        while let Some(hit) = vector.find_in(text, rest) {
            let at = hit.start();
            for (windows, len) in [(&self.long, WINDOW), (&self.short, LITERAL_BYTES_MIN)] {
                if let Some(window) = text.get(at..at + len) {
                    self.compare(windows, (text, at), word_of(window), &mut found);
                }
            }
            rest.start = at + 1;
        }
    }

    /// Compares the literals that have a window with the text around it.
    #[cold]
    #[inline(never)]
    fn compare(
        &self,
        windows: &Windows,
        (text, at): (&[u8], usize),
        word: u32,
        found: &mut impl FnMut(usize),
    ) {
        for Place { literal, offset } in windows.places.get(&word).into_iter().flatten() {
            let (literal, begin) = (*literal as usize, at.checked_sub(*offset as usize));
            let rest = begin.and_then(|begin| text.get(begin..));
            if rest.is_some_and(|rest| rest.starts_with(&self.literals[literal])) {
                found(literal);
            }
        }
    }
}

/// Prepares a search for all windows, unless there are too many.
fn vector_search(long: &Windows, short: &Windows) -> Option<Searcher> {
    if long.places.len() + short.places.len() > VECTOR_MAX {
        return None;
    }
    let text = |len: usize| move |word: &u32| word.to_le_bytes()[..len].to_vec();
    let long = long.places.keys().map(text(WINDOW));
    let windows: Vec<Vec<u8>> =
        long.chain(short.places.keys().map(text(LITERAL_BYTES_MIN))).collect();
    Searcher::new(windows)
}

impl Default for Windows {
    fn default() -> Windows {
        Windows { bitmap: Box::new([0; WORDS]), places: HashMap::default() }
    }
}

impl Windows {
    fn add(&mut self, word: u32, place: Place) {
        let (index, bit) = slot(word);
        self.bitmap[index] |= 1 << bit;
        self.places.entry(word).or_default().push(place);
    }

    #[inline(always)]
    fn may_have(&self, word: u32) -> bool {
        let (index, bit) = slot(word);
        self.bitmap[index] >> bit & 1 == 1
    }
}

/// Returns the place of a window in a bitmap: word and bit.
#[inline(always)]
fn slot(word: u32) -> (usize, u32) {
    let hash = word.wrapping_mul(0x9E37_79B1);
    ((hash >> 22) as usize, hash >> 16 & 63)
}

/// Returns up to four bytes as a number.
#[inline(always)]
fn word_of(window: &[u8]) -> u32 {
    match window {
        [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]),
        [a, b, c] => u32::from_le_bytes([*a, *b, *c, 0]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    #[test]
    fn every_literal_in_a_text_is_found() {
        let random = &mut Rng::with_seed(7);
        let mut hits = 0;
        for _ in 0..3000 {
            let word = |random: &mut Rng, len: usize| -> Box<[u8]> {
                (0..len).map(|_| b"abc"[random.usize(..3)]).collect()
            };
            let number = random.usize(..20);
            let literals: Vec<Box<[u8]>> = (0..number)
                .map(|_| {
                    let len = random.usize(LITERAL_BYTES_MIN..8);
                    word(random, len)
                })
                .collect();
            let len = random.usize(..40);
            let text = word(random, len);
            let search = LiteralSearch::new(literals.clone());
            let mut found = Vec::new();
            search.each(&text, |literal| found.push(literal));
            found.sort_unstable();
            found.dedup();
            let is_in = |at: &usize| {
                let literal = &literals[*at];
                text.windows(literal.len()).any(|window| *window == **literal)
            };
            let expected: Vec<usize> = (0..literals.len()).filter(is_in).collect();
            assert_eq!(found, expected, "{literals:?} in {text:?}");
            hits += found.len();
        }
        assert!(hits > 1000, "{hits}");
    }
}
