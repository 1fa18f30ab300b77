//! Keys of pairs, which are recognized if the previous line has the same keys.

/// Maximum length, in bytes, of a key that can be recognized by comparing one word.
const KEY_BYTES_MAX: usize = 16;

/// A key and the field to which it belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// The bytes of a key of up to [`KEY_BYTES_MAX`] as a word.
    word: u128,
    /// Mask of the bytes in `word` that are part of the key.
    mask: u128,
    len: usize,
    /// Index of the field.
    pub field: usize,
}

impl Key {
    /// A key that never matches, not even an empty key.
    pub const NONE: Key = Key { word: 0, mask: 0, len: usize::MAX, field: 0 };

    pub fn new(key: &[u8], field: usize) -> Key {
        if key.len() > KEY_BYTES_MAX {
            return Key { field, ..Key::NONE };
        }
        let mut word = [0; KEY_BYTES_MAX];
        word[..key.len()].copy_from_slice(key);
        let mask = u128::MAX.checked_shr(128 - 8 * key.len() as u32).unwrap_or(0);
        Key { word: u128::from_le_bytes(word), mask, len: key.len(), field }
    }

    /// Returns whether the key at `at` with length `len` equals this key. `false` means that this
    /// check cannot tell.
    #[inline(always)]
    pub fn is(&self, text: &[u8], at: usize, len: usize) -> bool {
        let chunk = text.get(at..).and_then(|text| text.first_chunk());
        let chunk = chunk.map_or(!self.word, |chunk| u128::from_le_bytes(*chunk));
        self.len == len && chunk & self.mask == self.word
    }
}
