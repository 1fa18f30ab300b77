//! Byte sets.

/// A set of ASCII bytes.
///
/// A byte is in the set if the table entries for its low and high nibble share a bit, so that two
/// shuffles classify a whole vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSet {
    /// For each low nibble, a bit mask of the high nibbles with which it forms a member.
    pub(crate) low: [u8; 16],
    /// The only member, if there is exactly one.
    pub(crate) only: Option<u8>,
}

impl ByteSet {
    /// The bit for each high nibble. 0 for nibbles of 8 and above, which are not ASCII.
    pub(crate) const HIGH: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0];

    /// Creates a set of these bytes.
    ///
    /// # Panics
    /// Panics if a byte is not ASCII.
    pub const fn new(bytes: &[u8]) -> ByteSet {
        let (mut low, mut at) = ([0; 16], 0);
        while at < bytes.len() {
            assert!(bytes[at].is_ascii(), "sets hold ASCII bytes");
            low[(bytes[at] & 15) as usize] |= Self::HIGH[(bytes[at] >> 4) as usize];
            at += 1;
        }
        let only = if bytes.len() == 1 { Some(bytes[0]) } else { None };
        ByteSet { low, only }
    }

    /// Returns whether the set contains `byte`.
    #[inline]
    pub const fn contains(&self, byte: u8) -> bool {
        self.low[(byte & 15) as usize] & Self::HIGH[(byte >> 4) as usize] != 0
    }
}
