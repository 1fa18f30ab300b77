//! Replacements of hidden parts. They are ASCII or a configured text, without quotes and
//! backslashes, so they are valid anywhere in a JSON string.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use std::sync::Arc;

/// Number of hash bytes that are shown, as two digits each.
const HASH_BYTES: usize = 16;

/// The replacement of a hidden part.
#[derive(Clone)]
pub enum Hide {
    /// Name of the detector or pattern.
    Mask,
    /// Name, and a hash with this key.
    Hash(Arc<[u8]>),
    /// This text.
    Text(Arc<[u8]>),
}

impl Hide {
    /// Appends the replacement of `hidden`. `name` is the detector or pattern that found it.
    pub fn write(&self, name: &str, hidden: &[u8], out: &mut Vec<u8>) {
        let key = match self {
            Hide::Text(text) => return out.extend_from_slice(text),
            Hide::Mask => None,
            Hide::Hash(key) => Some(key),
        };
        out.push(b'[');
        out.extend_from_slice(name.as_bytes());
        if let Some(key) = key {
            out.push(b':');
            push_hex(&hmac(key, hidden)[..HASH_BYTES], out);
        }
        out.push(b']');
    }
}

impl fmt::Debug for Hide {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hide::Mask => "mask",
            Hide::Hash(_) => "hash",
            Hide::Text(_) => "text",
        })
    }
}

/// HMAC-SHA256 (RFC 2104).
pub fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// Appends bytes as lowercase hexadecimal digits.
pub fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}
