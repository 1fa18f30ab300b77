//! Tag syntax.

use millstream_scan::TagSyntax;

/// The syntax of tags in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagStyle {
    /// `key=value|key=value`, or with spaces instead of `|`. If a key occurs several times, the
    /// last value counts. An empty value becomes `-`.
    Pairs = 0,
    /// `key:value,key:value`. A key can have several values or no value; `key` and `key:` differ.
    /// The tags `dd.internal.*`, in which clients report their origin, are omitted.
    DogStatsd = 1,
}

impl TagStyle {
    /// Returns the bytes that separate tags from each other, and keys from values.
    pub fn syntax(self) -> TagSyntax {
        match self {
            TagStyle::Pairs => TagSyntax::PAIRS,
            TagStyle::DogStatsd => TagSyntax::DOGSTATSD,
        }
    }

    /// Returns whether tags with this key report the origin of a client. Such tags are not part of
    /// the series, because otherwise each pod would have separate series.
    pub fn is_internal(self, key: &[u8]) -> bool {
        self == TagStyle::DogStatsd && key.starts_with(INTERNAL)
    }
}

/// Key prefix of the tags in which DogStatsD clients report their origin.
const INTERNAL: &[u8] = b"dd.internal.";
