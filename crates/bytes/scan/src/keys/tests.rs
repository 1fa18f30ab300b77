use super::*;
use crate::kernels::available;
use crate::{hash_key, with_keys};
use std::collections::HashSet;

/// Returns the hash that each kernel computes.
fn hashes(secrets: &KeySecrets, first: &[u8], second: &[u8]) -> Vec<u64> {
    available().iter().map(|kernel| kernel.hash_key(secrets, 7, first, second)).collect()
}

/// Returns typical client keys, keys of every length, and keys that differ only in one byte or in
/// the boundary between the strings.
fn keys() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut keys = Vec::new();
    for len in 0..200 {
        keys.push((b"name".to_vec(), vec![b'a'; len]));
        keys.push((b"name".to_vec(), vec![0; len + 1]));
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
        let tags =
            format!("env:prod,host:web-{number},pod:checkout-{:08x}", number.wrapping_mul(7919));
        keys.push((format!("requests.{}", number % 50).into_bytes(), tags.into_bytes()));
    }
    keys
}

#[test]
fn different_keys_rarely_collide() {
    let (secrets, keys) = (KeySecrets::new(7), keys());
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    for kernel in available() {
        let all = keys.iter().map(|(first, second)| kernel.hash_key(&secrets, 7, first, second));
        let hashes: HashSet<u64> = all.collect();
        assert_eq!(hashes.len(), keys.len(), "{kernel:?}");
        // Among 100,000 random 32-bit numbers, one or two collide.
        let lower: HashSet<u32> = hashes.iter().map(|hash| *hash as u32).collect();
        assert!(hashes.len() - lower.len() < 12, "{kernel:?}: {} of {}", lower.len(), hashes.len());
    }
}

#[test]
fn every_bit_of_a_key_changes_half_of_the_hash_bits() {
    let text: Vec<u8> = (0..400_u32).map(|at| b'a' + (at % 26) as u8).collect();
    let lens = [
        (1, 0),
        (7, 3),
        (8, 15),
        (15, 16),
        (16, 17),
        (20, 33),
        (40, 63),
        (5, 96),
        (64, 128),
        (65, 129),
    ];
    for (first_len, second_len) in lens.into_iter().chain([(100, 300)]) {
        let (first, second) = text[..first_len + second_len].split_at(first_len);
        let hash = hashes(&KeySecrets::new(3), first, second);
        let mut changed = vec![0; hash.len()];
        let bits = 8 * (first_len + second_len) as u32;
        for bit in 0..bits as usize {
            let mut other = [first, second].concat();
            other[bit / 8] ^= 1 << (bit % 8);
            let (a, b) = other.split_at(first_len);
            for (at, other) in hashes(&KeySecrets::new(3), a, b).into_iter().enumerate() {
                let bits = (hash[at] ^ other).count_ones();
                assert!(
                    bits >= 8,
                    "kernel {at}, bit {bit} changes {bits}, of {first_len} and {second_len}"
                );
                changed[at] += bits;
            }
        }
        for changed in changed {
            let part = f64::from(changed) / f64::from(64 * bits);
            assert!(
                (0.4..0.6).contains(&part),
                "{part} of the bits, of {first_len} and {second_len}"
            );
        }
    }
}

/// A kernel combines bytes at these positions. Two different values must not cancel each other out.
#[test]
fn differences_at_two_positions_do_not_cancel_out() {
    let secrets = KeySecrets::new(11);
    let positions = [(0, 64), (3, 19), (5, 37), (9, 9 + 64), (2, 130), (70, 70 + 64), (17, 200)];
    for kernel in available() {
        // The second string starts after 64 bytes, so that its blocks are combined with blocks of
        // the first string.
        for (one, other) in positions {
            let mut text = vec![b'a'; 64 + 256];
            let mut hashes = HashSet::new();
            for (a, b) in (0..=u8::MAX).flat_map(|a| (0..=u8::MAX).map(move |b| (a, b))) {
                (text[one], text[other]) = (a, b);
                let (first, second) = text.split_at(64);
                hashes.insert(kernel.hash_key(&secrets, 7, first, second));
            }
            assert_eq!(hashes.len(), 1 << 16, "{kernel:?}: {one} and {other}");
        }
    }
}

#[test]
fn keys_do_not_collide_with_small_seeds() {
    for seed in (0..64).chain((0..64).map(|seed: u64| !seed)) {
        let secrets = KeySecrets::new(seed);
        for kernel in available() {
            let hash = |key: u16| kernel.hash_key(&secrets, 7, &[(key >> 8) as u8], &[key as u8]);
            let hashes: HashSet<u64> = (0..=u16::MAX).map(hash).collect();
            assert_eq!(hashes.len(), 1 << 16, "{kernel:?}: seed {seed}");
        }
    }
}

#[test]
fn hashes_depend_on_seed_and_number() {
    for kernel in available() {
        let hash =
            |seed, number| kernel.hash_key(&KeySecrets::new(seed), number, b"name", b"env:prod");
        let seeds = (0..1000).map(|seed| hash(seed, 7));
        let numbers = (0..1000).map(|number| hash(1000, number));
        assert_eq!(seeds.chain(numbers).collect::<HashSet<u64>>().len(), 2000, "{kernel:?}");
    }
}

#[test]
fn surrounding_bytes_do_not_change_the_hash() {
    let (secrets, text) = (KeySecrets::new(5), [b'x'; 300]);
    for len in 0..200 {
        let expected = hashes(&secrets, &text[..len / 3], &text[..len]);
        for begin in [0, 1, 31, 63, 64] {
            let mut buffer = vec![0xFF; begin + len + 70];
            buffer[begin..begin + len].fill(b'x');
            let found =
                hashes(&secrets, &buffer[begin..begin + len / 3], &buffer[begin..begin + len]);
            assert_eq!(found, expected, "{len} bytes at {begin}");
        }
    }
}

/// The batch runs with the selected kernel and returns its hashes.
#[test]
fn a_batch_has_the_hashes_of_its_kernel() {
    struct Batch<'a>(&'a KeySecrets);
    impl KeyWork for Batch<'_> {
        type Output = (u64, bool);

        #[inline(always)]
        fn run(self, keys: impl Keys) -> (u64, bool) {
            (keys.hash(self.0, 1, b"name", b"tags"), keys.is_joined(b"nametags", b"name", b"tags"))
        }
    }
    let secrets = KeySecrets::new(2);
    for kernel in available() {
        assert_eq!(
            kernel.with_keys(Batch(&secrets)),
            (kernel.hash_key(&secrets, 1, b"name", b"tags"), true)
        );
    }
    assert_eq!(with_keys(Batch(&secrets)).0, hash_key(&secrets, 1, b"name", b"tags"));
}
