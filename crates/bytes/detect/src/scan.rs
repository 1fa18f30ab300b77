//! Finds candidates in one pass over a block.
//!
//! The scan searches for all short patterns of all detectors at once, with one bit per character
//! (shift-and; Baeza-Yates and Gonnet, "A new approach to text searching", 1992). Each step takes
//! one load, one shift and two operations, regardless of the patterns and of letter case. Each step
//! depends on the previous one, so four parts of the block are scanned in parallel.

use crate::Candidate;

/// A trigger: one set of bytes per position. A letter matches both cases.
pub type Pattern = &'static [&'static [u8]];

/// Number of parts that are scanned in parallel.
const LANES: usize = 4;

/// Searches for all patterns.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    words: Vec<Word>,
    /// Patterns of a single byte and their masks. There is a faster search for them.
    bytes: Vec<(u8, u8)>,
    /// The combined masks of all patterns, because any pattern can be hidden behind an [`ESCAPE`].
    all: u8,
}

/// The start of a JSON numeric escape, for the characters that patterns can contain.
pub const ESCAPE: &[u8] = b"\\u00";

/// A word that represents as many patterns as fit.
#[derive(Clone, Debug)]
struct Word {
    /// For each byte, the pattern positions that the byte matches.
    table: Box<[u64; 256]>,
    starts: u64,
    ends: u64,
    /// The last position of each pattern, and the pattern's mask.
    masks: Vec<(u64, u8)>,
    used: usize,
    longest: usize,
}

impl Scanner {
    /// Creates a scanner for these patterns. Each match is reported with its pattern's mask.
    pub fn new(patterns: impl Iterator<Item = (Pattern, u8)>) -> Scanner {
        let mut scanner = Scanner::default();
        for (pattern, mask) in patterns {
            scanner.all |= mask;
            if let [[byte]] = pattern {
                match scanner.bytes.iter_mut().find(|(known, _)| known == byte) {
                    Some((_, known)) => *known |= mask,
                    None => scanner.bytes.push((*byte, mask)),
                }
                continue;
            }
            let fits = |word: &&mut Word| word.used + pattern.len() <= 64;
            match scanner.words.iter_mut().find(fits) {
                Some(word) => word.add(pattern, mask),
                None => {
                    let mut word = Word::new();
                    word.add(pattern, mask);
                    scanner.words.push(word);
                }
            }
        }
        scanner
    }

    /// Returns the number of passes over a block, excluding the passes for single-byte patterns.
    pub fn passes(&self) -> usize {
        self.words.len()
    }

    /// Appends the position of the last byte of every match to `out`, in ascending order.
    pub fn scan(&self, block: &[u8], out: &mut Vec<Candidate>) {
        let begin = out.len();
        for (byte, mask) in &self.bytes {
            out.extend(
                memchr::memchr_iter(*byte, block)
                    .map(|at| Candidate { at: at as u32, mask: *mask }),
            );
        }
        if self.all != 0 {
            let escape = |at| Candidate { at: at as u32, mask: self.all };
            out.extend(memchr::memmem::find_iter(block, ESCAPE).map(escape));
        }
        self.words.iter().for_each(|word| word.scan(block, out));
        out[begin..].sort_unstable();
    }
}

impl Word {
    fn new() -> Word {
        Word {
            table: Box::new([0; 256]),
            starts: 0,
            ends: 0,
            masks: Vec::new(),
            used: 0,
            longest: 1,
        }
    }

    fn add(&mut self, pattern: Pattern, mask: u8) {
        self.starts |= 1 << self.used;
        for set in pattern {
            for byte in *set {
                self.table[usize::from(byte.to_ascii_lowercase())] |= 1 << self.used;
                self.table[usize::from(byte.to_ascii_uppercase())] |= 1 << self.used;
            }
            self.used += 1;
        }
        self.ends |= 1 << (self.used - 1);
        self.masks.push((1 << (self.used - 1), mask));
        self.longest = self.longest.max(pattern.len());
    }

    #[inline(always)]
    fn step(&self, state: u64, byte: u8) -> u64 {
        ((state << 1) | self.starts) & self.table[usize::from(byte)]
    }

    fn scan(&self, block: &[u8], out: &mut Vec<Candidate>) {
        let len = block.len() / LANES;
        let lanes: [&[u8]; LANES] =
            std::array::from_fn(|lane| &block[lane * len..(lane + 1) * len]);
        // The bytes that precede a part determine its initial state.
        let mut states: [u64; LANES] = std::array::from_fn(|lane| {
            let before = (lane * len).saturating_sub(self.longest);
            block[before..lane * len].iter().fold(0, |state, byte| self.step(state, *byte))
        });
        let [a, b, c, d] = lanes;
        for (at, (((a, b), c), d)) in a.iter().zip(b).zip(c).zip(d).enumerate() {
            for (state, byte) in states.iter_mut().zip([a, b, c, d]) {
                *state = self.step(*state, *byte);
            }
            if states.iter().fold(0, |all, state| all | state) & self.ends != 0 {
                (0..LANES).for_each(|lane| self.note(states[lane], lane * len + at, out));
            }
        }
        let mut state = states[LANES - 1];
        for (at, byte) in block.iter().enumerate().skip(LANES * len) {
            state = self.step(state, *byte);
            self.note(state, at, out);
        }
    }

    #[cold]
    fn note(&self, state: u64, at: usize, out: &mut Vec<Candidate>) {
        let mask = self
            .masks
            .iter()
            .filter(|(end, _)| state & end != 0)
            .fold(0, |all, (_, mask)| all | mask);
        if mask != 0 {
            out.push(Candidate { at: at as u32, mask });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scan must find the same places as a plain comparison, for any length and any division
    /// into parts.
    #[test]
    fn nothing_is_missed_between_two_parts() {
        let patterns: [(Pattern, u8); 3] =
            [(&[b"a", b"bc", b"c"], 1), (&[b"0123456789" as &[u8]; 13], 2), (&[b"@"], 4)];
        let scanner = Scanner::new(patterns.into_iter());
        let text = b"xABC@acc1234567890123456abcab@c";
        for len in 0..200 {
            let block: Vec<u8> = text.iter().copied().cycle().skip(len % 7).take(len).collect();
            let mut found = Vec::new();
            scanner.scan(&block, &mut found);
            let mut expected = Vec::new();
            for (pattern, mask) in patterns {
                for (at, window) in block.windows(pattern.len()).enumerate() {
                    let fits =
                        |(byte, set): (&u8, &&[u8])| set.contains(&byte.to_ascii_lowercase());
                    if window.iter().zip(pattern).all(fits) {
                        expected.push(Candidate { at: (at + pattern.len() - 1) as u32, mask });
                    }
                }
            }
            expected.sort_unstable();
            assert_eq!(found, expected, "{len}");
        }
    }
}
