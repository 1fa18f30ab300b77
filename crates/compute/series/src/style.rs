//! Syntax of tags.

use millstream_scan::TagSyntax;

/// Syntax of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagStyle {
    /// `key=value|key=value`, or with spaces. If a key has several values, the last one counts; an
    /// empty value is `-`.
    Pairs = 0,
    /// `key:value,key:value`. A key may have several values, or no value: `key` and `key:` differ.
    /// Tags `dd.internal.*`, in which clients report their origin, are left out.
    DogStatsd = 1,
}

impl TagStyle {
    /// Returns the bytes that separate tags, and key and value.
    pub fn syntax(self) -> TagSyntax {
        match self {
            TagStyle::Pairs => TagSyntax::PAIRS,
            TagStyle::DogStatsd => TagSyntax::DOGSTATSD,
        }
    }

    /// Returns whether tags with this key report the origin of a client. Such tags do not belong to
    /// the series: otherwise each pod would have separate series.
    pub fn is_internal(self, key: &[u8]) -> bool {
        self == TagStyle::DogStatsd && key.starts_with(INTERNAL)
    }
}

/// Prefix of the tags in which DogStatsD clients report their origin.
const INTERNAL: &[u8] = b"dd.internal.";
