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
    secrets: Secrets,
}

/// Numbers that nobody outside knows, for the parts of a key that are hashed side by side: each step of one part has
/// to wait for the step before.
#[derive(Clone, Copy)]
struct Secrets {
    /// Where the name begins, and every second block of the tags.
    name: u64,
    even: u64,
    odd: u64,
    /// What is added to the other half of each block.
    in_name: u64,
    in_tags: u64,
    end: u64,
}

/// Bytes that one multiplication takes in.
const BLOCK_BYTES: usize = 16;

impl Hashing {
    pub fn new(seed: u64) -> Hashing {
        let shared = SharedSeed::from_u64(seed);
        let [name, even, odd, in_name, in_tags, end] = [1, 2, 3, 4, 5, 6].map(|number| secret(seed, number));
        Hashing { seed, secrets: Secrets { name, even, odd, in_name, in_tags, end }, shared }
    }

    /// Of a key that is in parts. The header has the length of the name.
    ///
    /// Made as foldhash is, which other hashes here come from: of data that a secret was added to, 64 by 64 bits are
    /// multiplied and both halves of the product joined. Here the name and the halves of the tags do not wait for
    /// each other, and nothing is called, which takes half the time for texts of this length.
    #[inline(always)]
    pub fn of(&self, header: &[u8; 4], name: &[u8], tags: &[u8]) -> u64 {
        let secrets = &self.secrets;
        let lens = u64::from(u32::from_le_bytes(*header)) << 32 | tags.len() as u64;
        let name = of_part(name, secrets.name, secrets.in_name);
        let (mut even, mut odd) = (secrets.even, secrets.odd);
        match tags.last_chunk::<BLOCK_BYTES>() {
            None => even = of_part(tags, even, secrets.in_tags),
            Some(last) => {
                let (pairs, rest) = tags.as_chunks::<{ 2 * BLOCK_BYTES }>();
                for pair in pairs {
                    let [a, b, c, d] = words(pair);
                    even = fold(a ^ even, b ^ secrets.in_tags);
                    odd = fold(c ^ odd, d ^ secrets.in_tags);
                }
                if let Some(block) = rest.first_chunk() {
                    even = with_block(even, block, secrets.in_tags);
                }
                // It overlaps what was before it; the length tells where.
                odd = with_block(odd, last, secrets.in_tags);
            }
        }
        fold(name ^ even, odd ^ secrets.end ^ lens)
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

/// One of the numbers that follow from a seed, none of which tells of another: those of SplitMix64 (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators").
fn secret(seed: u64, number: u64) -> u64 {
    let state = seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// The hash of a text that begins with one secret; the other is added to the second half of each block.
#[inline(always)]
fn of_part(text: &[u8], secret: u64, other: u64) -> u64 {
    if let (Some(first), Some(last)) = (text.first_chunk::<BLOCK_BYTES>(), text.last_chunk()) {
        let (blocks, _) = text[BLOCK_BYTES..].as_chunks::<BLOCK_BYTES>();
        let start = with_block(secret, first, other);
        return with_block(
            blocks.iter().fold(start, |state, block| with_block(state, block, other)),
            last,
            other,
        );
    }
    let number = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (a, b) = match text.len() {
        8.. => (number(text.first_chunk()), number(text.last_chunk())),
        _ => (text.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), 0),
    };
    fold(a ^ secret, b ^ other)
}

#[inline(always)]
fn with_block(state: u64, block: &[u8; BLOCK_BYTES], other: u64) -> u64 {
    let [a, b] = words(block);
    fold(a ^ state, b ^ other)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hash(seed: u64, name: &[u8], tags: &[u8]) -> u64 {
        Hashing::new(seed).of(&[0, 0, name.len() as u8, 0], name, tags)
    }

    /// Keys as clients have them, of every length, and such as differ in one byte, or in where a part ends.
    fn keys() -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut keys = Vec::new();
        for len in 0..200 {
            keys.push((b"name".to_vec(), vec![b'a'; len]));
            keys.push((vec![b'a'; len + 1], Vec::new()));
            keys.push((vec![b'a'; len + 1], vec![b'a'; 200 - len]));
            for at in 0..len {
                let mut tags = vec![b'a'; len];
                tags[at] = b'b';
                keys.push((b"name".to_vec(), tags.clone()));
                keys.push((tags, b"name".to_vec()));
            }
        }
        for number in 0..60_000_u32 {
            let tags = format!("env:prod,host:web-{number},pod:checkout-{:08x}", number.wrapping_mul(7919));
            keys.push((format!("requests.{}", number % 50).into_bytes(), tags.into_bytes()));
        }
        keys
    }

    #[test]
    fn different_keys_hardly_ever_have_one_hash() {
        let (hashing, keys) = (Hashing::new(7), keys());
        let of = |(name, tags): &(Vec<u8>, Vec<u8>)| hashing.of(&[0, 0, name.len() as u8, 0], name, tags);
        let hashes: HashSet<u64> = keys.iter().map(of).collect();
        assert_eq!(hashes.len(), keys.iter().collect::<HashSet<_>>().len());
        // Of 100,000 random numbers of 32 bits, one or two are the same.
        let lower: HashSet<u32> = hashes.iter().map(|hash| *hash as u32).collect();
        assert!(hashes.len() - lower.len() < 12, "{} of {}", lower.len(), hashes.len());
    }

    #[test]
    fn every_bit_of_a_key_changes_half_of_the_hash() {
        let text: Vec<u8> = (0..150_u8).map(|at| b'a' + at % 26).collect();
        for (name_len, tags_len) in [(1, 0), (7, 3), (8, 15), (15, 16), (16, 17), (20, 33), (40, 63), (5, 96)]
        {
            let (name, tags) = text[..name_len + tags_len].split_at(name_len);
            let (mut changed, mut count) = (0, 0);
            for bit in 0..8 * (name_len + tags_len) {
                let mut other = [name, tags].concat();
                other[bit / 8] ^= 1 << (bit % 8);
                let (a, b) = other.split_at(name_len);
                let bits = (hash(3, name, tags) ^ hash(3, a, b)).count_ones();
                assert!(bits >= 8, "bit {bit} changes {bits}, name {name_len}, tags {tags_len}");
                (changed, count) = (changed + bits, count + 64);
            }
            let part = f64::from(changed) / f64::from(count);
            assert!((0.4..0.6).contains(&part), "{part} of the bits, name {name_len}, tags {tags_len}");
        }
    }

    #[test]
    fn no_small_seed_makes_keys_alike() {
        for seed in (0..64).chain((0..64).map(|seed: u64| !seed)) {
            let hashing = Hashing::new(seed);
            let hash = |key: u16| hashing.of(&[0, 0, 1, 0], &[(key >> 8) as u8], &[key as u8]);
            let hashes: HashSet<u64> = (0..=u16::MAX).map(hash).collect();
            assert_eq!(hashes.len(), 1 << 16, "seed {seed}");
        }
    }

    #[test]
    fn another_seed_gives_another_hash() {
        let hashes: HashSet<u64> = (0..1000).map(|seed| hash(seed, b"name", b"env:prod")).collect();
        assert_eq!(hashes.len(), 1000);
    }
}
