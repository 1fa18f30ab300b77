//! A search for thousands of literals at once.
//!
//! Each literal is represented by one of its four-byte windows: the window that the fewest other
//! literals contain. Text is checked window by window against a bitmap that stays in the L1 cache,
//! so the time per byte hardly depends on the number of literals. In contrast, an automaton for a
//! thousand literals has megabytes of states. Only a window that is in the bitmap is looked up, and
//! only the literals with this window are compared with the text. The idea comes from the hashed
//! blocks of Wu and Manber (A Fast Algorithm for Multi-Pattern Searching, 1994), without skipping.
//! If there are at most [`VECTOR_MAX`] windows, vector instructions search for them.

use aho_corasick::{Span, packed::Searcher};
use foldhash::fast::RandomState;
use memchr::memmem::Finder;
use std::collections::{BTreeMap, HashMap};

/// Number of bytes in a window.
const WINDOW: usize = 4;

/// Minimum number of bytes in a literal.
pub const LITERAL_BYTES_MIN: usize = 3;

/// Maximum number of literals for which it is faster to search for each one separately.
const FEW_MAX: usize = if cfg!(test) { 1 } else { 3 };

/// Maximum number of windows for which vector instructions can search.
const VECTOR_MAX: usize = if cfg!(test) { 8 } else { 32 };

/// Number of words in a bitmap: 8 KiB.
const WORDS: usize = 1024;

/// A search for literals by the windows that represent them.
#[derive(Debug)]
pub struct LiteralSearch {
    /// A finder for each literal, if there are only a few.
    few: Vec<Finder<'static>>,
    /// Finds the windows, if there are at most [`VECTOR_MAX`].
    vector: Option<Searcher>,
    /// Windows of literals that have at least four bytes.
    long: Windows,
    /// Windows of literals that have three bytes.
    short: Windows,
}

/// A set of windows and their literals.
#[derive(Debug)]
struct Windows {
    bitmap: Box<[u64; WORDS]>,
    /// A hash table of windows that is at most half full.
    slots: Vec<Slot>,
    /// Shift that maps a hash to the index of a slot.
    shift: u32,
    /// Places of all windows, grouped by window.
    places: Vec<Place>,
    /// The literals, concatenated.
    bytes: Vec<u8>,
}

/// A slot for a window. A slot without places is free.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    word: u32,
    first: u32,
    places: u32,
}

/// Where a window occurs in a literal.
#[derive(Clone, Copy, Debug)]
struct Place {
    literal: u32,
    /// Offset of the window within the literal.
    offset: u32,
    /// Start of the literal in [`Windows::bytes`].
    start: u32,
    len: u32,
}

/// For each window, its literals: the index, the literal, and the window's offset.
type ByWindow<'l> = BTreeMap<u32, Vec<(usize, &'l [u8], usize)>>;

impl LiteralSearch {
    /// Prepares a search for literals of at least [`LITERAL_BYTES_MIN`] bytes.
    pub fn new(literals: &[Box<[u8]>]) -> LiteralSearch {
        let (mut long, mut short) = (ByWindow::new(), ByWindow::new());
        let mut uses: HashMap<u32, u32, RandomState> = HashMap::default();
        for window in literals.iter().flat_map(|literal| literal.windows(WINDOW)) {
            *uses.entry(word_of(window)).or_default() += 1;
        }
        for (number, literal) in literals.iter().enumerate() {
            let windows = literal.windows(WINDOW).map(word_of).enumerate();
            // If several windows are equally rare, the last one is used, because literals usually
            // differ toward their end.
            let rarest = windows.rev().min_by_key(|(_, word)| uses[word]);
            let (by_window, word, offset) = match rarest {
                Some((offset, word)) => (&mut long, word, offset),
                None => (&mut short, word_of(literal), 0),
            };
            by_window.entry(word).or_default().push((number, literal, offset));
        }
        let finders = literals.iter().map(|literal| Finder::new(literal).into_owned());
        let few = if literals.len() <= FEW_MAX { finders.collect() } else { Vec::new() };
        let vector = vector_search(&long, &short);
        LiteralSearch { few, vector, long: Windows::new(&long), short: Windows::new(&short) }
    }

    /// Calls `found` with the index of each literal that the text contains, at least once per
    /// literal.
    #[inline]
    pub fn each(&self, text: &[u8], mut found: impl FnMut(usize)) {
        if !self.few.is_empty() {
            let is_in = |(_, finder): &(usize, &Finder<'_>)| finder.find(text).is_some();
            return self.few.iter().enumerate().filter(is_in).for_each(|(at, _)| found(at));
        }
        if let Some(vector) = &self.vector {
            return self.each_by_vectors(vector, text, found);
        }
        for (windows, len) in [(&self.long, WINDOW), (&self.short, LITERAL_BYTES_MIN)] {
            if windows.is_empty() {
                continue;
            }
            for (at, window) in text.windows(len).enumerate() {
                let word = word_of(window);
                if windows.may_have(word) {
                    windows.compare(text, at, word, &mut found);
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
                    windows.compare(text, at, word_of(window), &mut found);
                }
            }
            rest.start = at + 1;
        }
    }
}

/// Prepares a vector search for all windows. Returns `None` if there are too many.
fn vector_search(long: &ByWindow<'_>, short: &ByWindow<'_>) -> Option<Searcher> {
    if long.len() + short.len() > VECTOR_MAX {
        return None;
    }
    let text = |len: usize| move |word: &u32| word.to_le_bytes()[..len].to_vec();
    let long = long.keys().map(text(WINDOW));
    let windows: Vec<Vec<u8>> = long.chain(short.keys().map(text(LITERAL_BYTES_MIN))).collect();
    Searcher::new(windows)
}

impl Windows {
    fn new(by_window: &ByWindow<'_>) -> Windows {
        let slots = (by_window.len() * 2).next_power_of_two().max(2);
        let mut windows = Windows {
            bitmap: Box::new([0; WORDS]),
            slots: vec![Slot::default(); slots],
            shift: u32::BITS - slots.ilog2(),
            places: Vec::new(),
            bytes: Vec::new(),
        };
        by_window.iter().for_each(|(word, literals)| windows.add(*word, literals));
        windows
    }

    fn add(&mut self, word: u32, literals: &[(usize, &[u8], usize)]) {
        let (index, bit) = bit_of(word);
        self.bitmap[index] |= 1 << bit;
        let (first, places) = (self.places.len() as u32, literals.len() as u32);
        for (number, literal, offset) in literals {
            let (start, len) = (self.bytes.len() as u32, literal.len() as u32);
            let (literal_number, offset) = (*number as u32, *offset as u32);
            self.places.push(Place { literal: literal_number, offset, start, len });
            self.bytes.extend_from_slice(literal);
        }
        let mut at = self.slot_of(word);
        while self.slots[at].places > 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = Slot { word, first, places };
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[inline(always)]
    fn may_have(&self, word: u32) -> bool {
        let (index, bit) = bit_of(word);
        self.bitmap[index] >> bit & 1 == 1
    }

    /// Returns the slot at which the search for a window starts.
    #[inline(always)]
    fn slot_of(&self, word: u32) -> usize {
        (hash(word) >> self.shift) as usize
    }

    /// Returns the places of a window.
    #[inline(always)]
    fn places(&self, word: u32) -> &[Place] {
        let mut at = self.slot_of(word);
        loop {
            let Slot { word: known, first, places } = self.slots[at];
            if known == word || places == 0 {
                return &self.places[first as usize..(first + places) as usize];
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Compares the literals that contain a window with the text around the window.
    #[inline(never)]
    fn compare(&self, text: &[u8], at: usize, word: u32, found: &mut impl FnMut(usize)) {
        for Place { literal, offset, start, len } in self.places(word) {
            let bytes = &self.bytes[*start as usize..][..*len as usize];
            let begin = at.checked_sub(*offset as usize);
            if begin.and_then(|begin| text.get(begin..)).is_some_and(|rest| rest.starts_with(bytes))
            {
                found(*literal as usize);
            }
        }
    }
}

#[inline(always)]
fn hash(word: u32) -> u32 {
    word.wrapping_mul(0x9E37_79B1)
}

/// Returns the bitmap word and the bit for a window.
#[inline(always)]
fn bit_of(word: u32) -> (usize, u32) {
    let hash = hash(word);
    ((hash >> 22) as usize, hash >> 16 & 63)
}

/// Packs up to four bytes into a number.
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
    use millstream_testkit_random::{Seed, TestSize};

    /// Number of literal sets. Each has a separate text.
    const CASES: TestSize = TestSize { gate: 3000, long: 300_000 };

    #[test]
    fn every_literal_in_a_text_is_found() {
        let mut random = Seed::of_test_or(7).random();
        let mut hits = 0;
        for _ in random.rounds(CASES) {
            let word = |random: &mut Rng, len: usize| -> Box<[u8]> {
                (0..len).map(|_| b"abc"[random.usize(..3)]).collect()
            };
            let number = random.usize(..20);
            let literals: Vec<Box<[u8]>> = (0..number)
                .map(|_| {
                    let len = random.usize(LITERAL_BYTES_MIN..8);
                    word(&mut random, len)
                })
                .collect();
            let len = random.usize(..40);
            let text = word(&mut random, len);
            let search = LiteralSearch::new(&literals);
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
