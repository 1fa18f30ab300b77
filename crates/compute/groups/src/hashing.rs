//! Hash functions for strings and for a group's key ids.

use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of string bytes that a [`TextKey`] can contain.
pub const SHORT_BYTES_MAX: usize = 15;

/// Odd constants with random bits, from the fractional parts of the golden ratio and square roots.
const SEEDS: [u64; 4] =
    [0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B, 0x3C6E_F372_FE94_F82B, 0xA54F_F53A_5F1D_36F1];

/// Position of a short string's length in the second word of the key.
const LENGTH_SHIFT: u32 = 56;

/// Marks a long string, in place of its length.
const LONG: u64 = 0xFF << LENGTH_SHIFT;

/// A string as two words, so that comparisons need no call: the bytes, padded with zeros, and the
/// length plus one. For a longer string, a hash and a mark.
pub type TextKey = [u64; 2];

/// Returns the key of a string.
#[inline(always)]
pub fn key(text: &[u8]) -> TextKey {
    let length = (text.len() as u64 + 1) << LENGTH_SHIFT;
    match text.len() {
        8..=SHORT_BYTES_MAX => {
            let [first, last] = ends::<8>(text).map(u64::from_le_bytes);
            // Two shifts are needed: if all bytes are in the first word, the second word must
            // become 0.
            [first, last >> 1 >> (127 - 8 * text.len()) | length]
        }
        4..8 => {
            let [first, last] = ends(text).map(|bytes| u64::from(u32::from_le_bytes(bytes)));
            [first | last << (8 * text.len() - 32), length]
        }
        1..4 => {
            let at = |at: usize| u64::from(text[at]) << (8 * at);
            [at(0) | at(text.len() / 2) | at(text.len() - 1), length]
        }
        0 => [0, length],
        _ => [xxh3_64(text), LONG],
    }
}

/// Returns whether the key is only a hash, which is the case if the string is longer than 15 bytes.
#[inline(always)]
pub fn is_long(key: TextKey) -> bool {
    key[1] == LONG
}

/// Hashes a key for an index. Cheaper than [`hash`], but the bits are less random.
#[inline(always)]
pub fn index_hash([low, high]: TextKey) -> u32 {
    let mixed = fold(low ^ SEEDS[0], high ^ SEEDS[1]);
    (mixed ^ mixed >> u32::BITS) as u32
}

/// Hashes a string, for a table's dictionaries and for [`Hll`](crate::Hll). The function must never
/// change, because distinct counts in snapshots depend on it. It uses no secret. Colliding strings
/// can therefore be constructed, which make a table slower but never wrong.
#[inline]
pub fn hash(text: &[u8]) -> u64 {
    let [low, high] = key(text);
    fold(fold(low ^ SEEDS[0], high ^ SEEDS[1]), SEEDS[2])
}

/// Returns the first and the last `N` bytes of a string, which can overlap. The string must have at
/// least `N` bytes.
#[inline(always)]
fn ends<const N: usize>(text: &[u8]) -> [[u8; N]; 2] {
    let first = text.first_chunk().copied().unwrap_or([0; N]);
    [first, text.last_chunk().copied().unwrap_or([0; N])]
}

/// Hashes a group's key ids.
#[inline(always)]
pub fn hash_ids(ids: &[u32]) -> u32 {
    let (pairs, rest) = ids.as_chunks::<2>();
    let word = |pair: &[u32; 2]| u64::from(pair[0]) << 32 | u64::from(pair[1]);
    let mixed = pairs.iter().fold(SEEDS[3], |mixed, pair| fold(mixed ^ word(pair), SEEDS[0]));
    let last = rest.first().map_or(0, |id| u64::from(*id) + 1);
    fold(mixed ^ last, SEEDS[1]) as u32
}

/// Multiplies two words and folds the product like wyhash (Wang Yi,
/// <https://github.com/wangyi-fudan/wyhash>), in the variant that tolerates a factor of 0.
#[inline(always)]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (one ^ product as u64) ^ (other ^ (product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Returns strings of all short lengths that differ only in a few bits.
    fn texts() -> Vec<Vec<u8>> {
        let of_length = |len: usize| {
            let counted = (0..1000_u32).map(move |at| {
                let mut text = format!("{at:0len$}").into_bytes();
                text.rotate_left(at as usize % len);
                text.truncate(len);
                text
            });
            counted.collect::<HashSet<_>>()
        };
        (1..40).flat_map(of_length).chain([Vec::new(), vec![0], vec![0, 0]]).collect()
    }

    #[test]
    fn texts_have_distinct_hashes_with_random_bits() {
        let texts = texts();
        let hashes: HashSet<u64> = texts.iter().map(|text| hash(text)).collect();
        assert_eq!(hashes.len(), texts.len());
        for bit in 0..64 {
            let ones = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count();
            let part = ones as f64 / hashes.len() as f64;
            assert!((0.48..0.52).contains(&part), "bit {bit}: {part}");
        }
    }

    #[test]
    fn ids_have_distinct_hashes() {
        let combined = |a: u32| [vec![a], vec![a, 0], vec![0, a, 7]];
        let ids: HashSet<Vec<u32>> = (0..2000).flat_map(combined).collect();
        let hashes: HashSet<u32> = ids.iter().map(|ids| hash_ids(ids)).collect();
        assert!(hashes.len() > ids.len() - 20, "{} of {}", hashes.len(), ids.len());
    }

    #[test]
    fn a_key_has_the_bytes_of_a_short_text() {
        for text in texts() {
            let expected = match text.len() {
                0..=SHORT_BYTES_MAX => {
                    let mut bytes = [0; 16];
                    bytes[..text.len()].copy_from_slice(&text);
                    bytes[15] = text.len() as u8 + 1;
                    u128::from_le_bytes(bytes)
                }
                _ => u128::from(xxh3_64(&text)) | 0xFF << 120,
            };
            let [low, high] = key(&text);
            assert_eq!(u128::from(high) << 64 | u128::from(low), expected, "{text:?}");
            assert_eq!(is_long([low, high]), text.len() > SHORT_BYTES_MAX);
        }
    }
}
