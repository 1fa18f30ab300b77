//! Multiplication-based key hashes, and the secrets of all key hashes.

use super::extent;
use std::fmt;

/// Number of bytes that one multiplication absorbs.
const BLOCK_BYTES: usize = 16;

/// The secrets for the parts of a key. The parts are hashed in parallel, because the steps within
/// one part depend on each other. If a client knew the secrets, it could send names whose hashes
/// all collide.
#[derive(Clone)]
pub struct KeySecrets {
    /// Initial state for the first string.
    first: u64,
    /// Initial state for the even blocks of the second string.
    even: u64,
    /// Initial state for the odd blocks of the second string.
    odd: u64,
    /// Combined by XOR with the second half of each block.
    in_first: u64,
    in_second: u64,
    end: u64,
    /// For vector hashes (see [`crate::x86::keys`]): the initial states of both strings, and the
    /// keys of two rounds.
    #[cfg(target_arch = "x86_64")]
    pub(crate) vectors: [[u64; 8]; 4],
    /// For vector hashes: the keys of the last two rounds.
    #[cfg(target_arch = "x86_64")]
    pub(crate) lanes: [[u64; 2]; 2],
}

impl KeySecrets {
    /// Derives the secrets from a secret seed.
    pub fn new(seed: u64) -> KeySecrets {
        let mut number = 0;
        let mut next = || {
            number += 1;
            secret(seed, number)
        };
        let [first, even, odd, in_first, in_second, end] = [(); 6].map(|()| next());
        KeySecrets {
            first,
            even,
            odd,
            in_first,
            in_second,
            end,
            #[cfg(target_arch = "x86_64")]
            vectors: [(); 4].map(|()| [(); 8].map(|()| next())),
            #[cfg(target_arch = "x86_64")]
            lanes: [(); 2].map(|()| [(); 2].map(|()| next())),
        }
    }
}

/// Prints the type name only, because the secrets must not leak.
impl fmt::Debug for KeySecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecrets")
    }
}

/// Returns one of the pseudorandom numbers that SplitMix64 derives from a seed (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators"). Each number reveals the seed, so it
/// must not leak.
fn secret(seed: u64, number: u64) -> u64 {
    let state = seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// The hash for CPUs without vector AES.
///
/// The hash follows foldhash: each 64-bit half of a block is combined with a secret, the halves are
/// multiplied, and both halves of the 128-bit product are XORed. Unlike in foldhash, the first
/// string and the even and odd blocks of the second string are independent, and all calls are
/// inlined, which takes half the time for strings of this length.
#[inline(always)]
pub fn hash_words(secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
    let extent = extent(number, first, second);
    let first = hash_part(first, secrets.first, secrets.in_first);
    let (mut even, mut odd) = (secrets.even, secrets.odd);
    match second.last_chunk::<BLOCK_BYTES>() {
        None => even = hash_part(second, even, secrets.in_second),
        Some(last) => {
            let (pairs, rest) = second.as_chunks::<{ 2 * BLOCK_BYTES }>();
            for pair in pairs {
                let [a, b, c, d] = words(pair);
                even = fold(a ^ even, b ^ secrets.in_second);
                odd = fold(c ^ odd, d ^ secrets.in_second);
            }
            if let Some(block) = rest.first_chunk() {
                even = absorb_block(even, block, secrets.in_second);
            }
            // The last block overlaps the previous one by a number of bytes that depends only on
            // the length.
            odd = absorb_block(odd, last, secrets.in_second);
        }
    }
    fold(first ^ even, odd ^ secrets.end ^ extent)
}

/// Hashes a string with an initial secret. `other` is combined by XOR with the second half of each
/// block.
#[inline(always)]
fn hash_part(text: &[u8], secret: u64, other: u64) -> u64 {
    if let (Some(first), Some(last)) = (text.first_chunk::<BLOCK_BYTES>(), text.last_chunk()) {
        let (blocks, _) = text[BLOCK_BYTES..].as_chunks::<BLOCK_BYTES>();
        let start = absorb_block(secret, first, other);
        return absorb_block(
            blocks.iter().fold(start, |state, block| absorb_block(state, block, other)),
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
fn absorb_block(state: u64, block: &[u8; BLOCK_BYTES], other: u64) -> u64 {
    let [a, b] = words(block);
    fold(a ^ state, b ^ other)
}

/// Splits a block into little-endian 64-bit words.
#[inline(always)]
fn words<const BYTES: usize, const WORDS: usize>(block: &[u8; BYTES]) -> [u64; WORDS] {
    let (words, _) = block.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// Multiplies two words and XORs both halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
