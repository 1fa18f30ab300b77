//! Hashes of names, tags and members.

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use std::fmt;
use std::hash::Hasher;

/// A hash function chosen by a seed: without it, nobody can send names that all fall into one place.
#[derive(Clone)]
pub struct Hashing {
    seed: u64,
    shared: SharedSeed,
    /// Secret numbers of the lanes that keys are read in.
    lanes: [u64; LANES],
}

/// Parts of a key that are hashed side by side, as each step of one has to wait for the step before: the name, and
/// every second block of the tags.
const LANES: usize = 3;

/// Bytes that one multiplication takes in.
const BLOCK_BYTES: usize = 16;

impl Hashing {
    pub fn new(seed: u64) -> Hashing {
        let shared = SharedSeed::from_u64(seed);
        let lane = |lane| {
            let mut hasher = FoldHasher::with_seed(seed, &shared);
            hasher.write_u64(lane);
            hasher.finish()
        };
        Hashing { seed, lanes: [lane(1), lane(2), lane(3)], shared }
    }

    /// Of a key that is in parts.
    ///
    /// Made as foldhash is, which other hashes here come from: 64 by 64 bits are multiplied and both halves of the
    /// product joined, of data that a secret was added to. Here the name and the halves of the tags do not wait for
    /// each other, and nothing is called, which takes half the time for texts of this length.
    #[inline(always)]
    pub fn of(&self, header: &[u8; 4], name: &[u8], tags: &[u8]) -> u64 {
        let [of_name, even, odd] = self.lanes;
        let lens = u64::from(u32::from_le_bytes(*header)) << 32 | tags.len() as u64;
        let name = short(name, of_name, odd);
        let (even, odd) = match tags.last_chunk::<BLOCK_BYTES>() {
            None => (short(tags, even, odd), odd),
            Some(last) => {
                let (pairs, rest) = tags.as_chunks::<{ 2 * BLOCK_BYTES }>();
                let (mut even, mut odd) = (even, odd);
                for pair in pairs {
                    let [a, b, c, d] = words(pair);
                    (even, odd) = (fold(a ^ even, b ^ of_name), fold(c ^ odd, d ^ of_name));
                }
                if let Some(block) = rest.first_chunk::<BLOCK_BYTES>() {
                    let [a, b] = words(block);
                    even = fold(a ^ even, b ^ of_name);
                }
                let [a, b] = words(last);
                (even, fold(a ^ odd, b ^ of_name))
            }
        };
        fold(name ^ even, odd ^ self.seed ^ lens)
    }

    /// Of a series and a timestamp.
    #[inline]
    pub fn of_place(&self, id: u32, timestamp: i64) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write_u32(id);
        hasher.write_i64(timestamp);
        hasher.finish()
    }

    /// Of one text.
    #[inline]
    pub fn of_text(&self, text: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write(text);
        hasher.finish()
    }
}

/// The hash of a text in one lane, with another secret number.
#[inline(always)]
fn short(text: &[u8], lane: u64, other: u64) -> u64 {
    if let (Some(first), Some(last)) = (text.first_chunk::<BLOCK_BYTES>(), text.last_chunk::<BLOCK_BYTES>()) {
        let add = |state: u64, block| {
            let [a, b] = words(block);
            fold(a ^ state, b ^ other)
        };
        let (blocks, _) = text[BLOCK_BYTES..].as_chunks::<BLOCK_BYTES>();
        return add(blocks.iter().fold(add(lane, first), add), last);
    }
    let number = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (a, b) = match text.len() {
        8.. => (number(text.first_chunk()), number(text.last_chunk())),
        _ => (text.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), 0),
    };
    fold(a ^ lane, b ^ other)
}

/// Numbers of eight bytes each.
#[inline(always)]
fn words<const BYTES: usize, const WORDS: usize>(block: &[u8; BYTES]) -> [u64; WORDS] {
    let (words, _) = block.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// Both halves of the product, joined.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The seed stays unknown.
impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashing")
    }
}

/// Takes a hash as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
