//! The hash functions of the format, also for programs that write journals.

/// Returns the SipHash-2-4 of bytes, with a key of 16 bytes.
pub fn siphash24(key: [u8; 16], bytes: &[u8]) -> u64 {
    let key = u128::from_le_bytes(key);
    let (key0, key1) = (key as u64, (key >> 64) as u64);
    let mut state = [
        key0 ^ 0x736f_6d65_7073_6575,
        key1 ^ 0x646f_7261_6e64_6f6d,
        key0 ^ 0x6c79_6765_6e65_7261,
        key1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        sip_word(&mut state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    sip_word(&mut state, u64::from_le_bytes(last));
    state[2] ^= 0xff;
    for _ in 0..4 {
        sip_round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline]
fn sip_word(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    sip_round(state);
    sip_round(state);
    state[0] ^= word;
}

#[inline]
fn sip_round([v0, v1, v2, v3]: &mut [u64; 4]) {
    *v0 = v0.wrapping_add(*v1);
    *v2 = v2.wrapping_add(*v3);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v1);
    *v0 = v0.wrapping_add(*v3);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.rotate_left(32);
}

/// Returns the hash of Bob Jenkins' lookup3 as the format combines it: the first result is the
/// high half.
pub fn jenkins(bytes: &[u8]) -> u64 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    // The last 1 to 12 bytes are mixed differently.
    let (body, tail) = bytes.split_at(bytes.len().saturating_sub(1) / 12 * 12);
    for block in body.as_chunks::<12>().0 {
        add_block(&mut state, block);
        jenkins_mix(&mut state);
    }
    if !tail.is_empty() {
        let mut block = [0; 12];
        block[..tail.len()].copy_from_slice(tail);
        add_block(&mut state, &block);
        jenkins_final(&mut state);
    }
    u64::from(state[2]) << 32 | u64::from(state[1])
}

#[inline]
fn add_block(state: &mut [u32; 3], block: &[u8; 12]) {
    for (value, word) in state.iter_mut().zip(block.as_chunks::<4>().0) {
        *value = value.wrapping_add(u32::from_le_bytes(*word));
    }
}

#[inline]
fn jenkins_mix([a, b, c]: &mut [u32; 3]) {
    *a = a.wrapping_sub(*c) ^ c.rotate_left(4);
    *c = c.wrapping_add(*b);
    *b = b.wrapping_sub(*a) ^ a.rotate_left(6);
    *a = a.wrapping_add(*c);
    *c = c.wrapping_sub(*b) ^ b.rotate_left(8);
    *b = b.wrapping_add(*a);
    *a = a.wrapping_sub(*c) ^ c.rotate_left(16);
    *c = c.wrapping_add(*b);
    *b = b.wrapping_sub(*a) ^ a.rotate_left(19);
    *a = a.wrapping_add(*c);
    *c = c.wrapping_sub(*b) ^ b.rotate_left(4);
    *b = b.wrapping_add(*a);
}

#[inline]
fn jenkins_final([a, b, c]: &mut [u32; 3]) {
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(14));
    *a = (*a ^ *c).wrapping_sub(c.rotate_left(11));
    *b = (*b ^ *a).wrapping_sub(a.rotate_left(25));
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(16));
    *a = (*a ^ *c).wrapping_sub(c.rotate_left(4));
    *b = (*b ^ *a).wrapping_sub(a.rotate_left(14));
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(24));
}

#[cfg(test)]
mod tests {
    use super::{jenkins, siphash24};

    /// The vectors of the authors of both functions.
    #[test]
    fn hashes_have_the_published_values() {
        let key: [u8; 16] = std::array::from_fn(|index| index as u8);
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(siphash24(key, &input), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash24(key, b""), 0x726f_db47_dd0e_0e31);
        assert_eq!(jenkins(b""), 0xdead_beef_dead_beef);
        assert_eq!(jenkins(b"Four score and seven years ago"), 0x1777_0551_ce72_26e6);
    }
}
