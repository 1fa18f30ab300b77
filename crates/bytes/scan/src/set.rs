//! Sets of bytes.

/// Some of the 128 ASCII bytes.
///
/// A byte is in the set if the entry of its low half in one table and that of its high half in the
/// other have a bit in common: two shuffles classify a whole vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSet {
    /// For each low half the high halves that are in the set with it, a bit each.
    pub(crate) low: [u8; 16],
    /// The byte, if there is only one.
    pub(crate) only: Option<u8>,
}

impl ByteSet {
    /// The bit of each high half; none from 8 on, which are no ASCII.
    pub(crate) const HIGH: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0];

    /// The set of these bytes.
    ///
    /// # Panics
    /// If one is no ASCII.
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

    /// Whether the byte is in it.
    #[inline]
    pub const fn contains(&self, byte: u8) -> bool {
        self.low[(byte & 15) as usize] & Self::HIGH[(byte >> 4) as usize] != 0
    }
}
