//! Creates inputs from other inputs.

use crate::Random;

/// Maximum bytes of an input: longer inputs find little more and take longer.
pub const INPUT_BYTES_MAX: usize = 4096;

/// Maximum number of changes to one input.
const CHANGES_MAX: usize = 5;

/// Maximum bytes that one change usually removes or duplicates.
const PIECE_BYTES_MAX: usize = 16;

/// Creates inputs from the entries of a corpus and the words of a target.
pub struct Mutator<'a> {
    entries: &'a [Vec<u8>],
    words: &'a [&'a [u8]],
    random: Random,
}

impl<'a> Mutator<'a> {
    /// Creates a mutator. Equal entries, words and seeds give equal inputs.
    pub fn new(entries: &'a [Vec<u8>], words: &'a [&'a [u8]], seed: u64) -> Mutator<'a> {
        Mutator { entries, words, random: Random::new(seed) }
    }

    /// Returns the next input, of at most [`INPUT_BYTES_MAX`] bytes.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.entry().to_vec();
        for _ in 0..1 + self.random.below(CHANGES_MAX) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn entry(&mut self) -> &'a [u8] {
        if self.entries.is_empty() { b"" } else { self.random.pick::<Vec<u8>>(self.entries) }
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() + 1);
        let end = at + self.piece_bytes(input.len() - at);
        match self.random.below(9) {
            0 if at < input.len() => input[at] ^= 1 << self.random.below(8),
            1 if at < input.len() => input[at] = self.random.draw() as u8,
            2 => drop(input.drain(at..end)),
            3 => self.double(input, at..end),
            4 if self.random.below(4) == 0 => input.truncate(at),
            5 => self.splice(input, at),
            6 => self.overwrite(input, at..end),
            _ => self.word(input, at),
        }
    }

    /// Returns a random number of bytes, which is usually small and at most `max`.
    fn piece_bytes(&mut self, max: usize) -> usize {
        let most = if self.random.below(16) == 0 { INPUT_BYTES_MAX } else { PIECE_BYTES_MAX };
        (1 + self.random.below(most)).min(max)
    }

    /// Duplicates a piece of the input, sometimes many times in order to reach limits.
    fn double(&mut self, input: &mut Vec<u8>, piece: std::ops::Range<usize>) {
        let times = if self.random.below(8) == 0 { 1 + self.random.below(200) } else { 1 };
        let times = times.min(INPUT_BYTES_MAX / piece.len().max(1));
        let more = input[piece.clone()].repeat(times);
        input.splice(piece.end..piece.end, more);
    }

    /// Inserts a piece of a corpus entry.
    fn splice(&mut self, input: &mut Vec<u8>, at: usize) {
        let other = self.entry();
        let from = self.random.below(other.len() + 1);
        let to = from + self.random.below(other.len() - from + 1);
        input.splice(at..at, other[from..to].iter().copied());
    }

    /// Overwrites a part of the input with a piece of the same input.
    fn overwrite(&mut self, input: &mut [u8], piece: std::ops::Range<usize>) {
        let from = self.random.below(input.len() - piece.len() + 1);
        input.copy_within(piece.clone(), from);
    }

    fn word(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(word) = (!self.words.is_empty()).then(|| *self.random.pick(self.words)) else {
            return;
        };
        let replaced = if self.random.below(2) == 0 { word.len() } else { 0 };
        let end = (at + replaced).min(input.len());
        input.splice(at..end, word.iter().copied());
    }
}
