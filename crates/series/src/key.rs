//! What a series is called: one contiguous, unambiguous run of bytes.

use crate::point::Kind;
use millstream_scan::{Tag, TagPlaces, TagSyntax, prefetch, scalar};
use std::fmt;
use std::sync::Arc;

/// How clients write tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagStyle {
    /// `key=value|key=value`, or with spaces. A key has one value, the last one; an empty value is `-`.
    Pairs = 0,
    /// `key:value,key:value`. A key may have several values, or none.
    DogStatsd = 1,
}

impl TagStyle {
    /// The bytes between tags, and between key and value.
    pub fn syntax(self) -> TagSyntax {
        match self {
            TagStyle::Pairs => TagSyntax::PAIRS,
            TagStyle::DogStatsd => TagSyntax::DOGSTATSD,
        }
    }
}

/// Kind, style and the length of the name.
const HEADER_BYTES: usize = 4;

const CACHE_LINE_BYTES: usize = 64;

/// Kind, name and tags in one run of bytes: a header of fixed size that has the length of the name, the name, and
/// the tags as text, sorted, in the syntax of their style.
///
/// No key has a split byte and no tag an end byte, as they were divided at those: so two different sets of tags
/// never have the same text, and `a=bc` is not `ab=c`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesKey(Arc<[u8]>);

impl SeriesKey {
    pub(crate) fn new(kind: Kind, style: TagStyle, name: &[u8], tags: &[u8]) -> SeriesKey {
        let [header, name, tags] = [&header(kind, style, name)[..], name, tags];
        SeriesKey(header.iter().chain(name).chain(tags).copied().collect())
    }

    /// Whether it is the key of this name with these tags.
    #[inline]
    pub(crate) fn is(&self, header: &[u8; HEADER_BYTES], name: &[u8], tags: &[u8]) -> bool {
        let rest = self.0.strip_prefix(header).and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest == tags)
    }

    /// Asks for the bytes; a long key is read in order, which the processor foresees.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.0.iter().step_by(CACHE_LINE_BYTES).take(2).for_each(prefetch);
    }

    fn name_end(&self) -> usize {
        HEADER_BYTES + usize::from(u16::from_le_bytes([self.0[2], self.0[3]]))
    }

    /// What the series is.
    pub fn kind(&self) -> Kind {
        Kind::ALL[usize::from(self.0[0])]
    }

    /// How its tags are written.
    pub fn style(&self) -> TagStyle {
        if self.0[1] == TagStyle::Pairs as u8 { TagStyle::Pairs } else { TagStyle::DogStatsd }
    }

    /// The name; valid UTF-8.
    pub fn name(&self) -> &[u8] {
        &self.0[HEADER_BYTES..self.name_end()]
    }

    /// The tags as text, sorted; valid UTF-8.
    pub fn tags_text(&self) -> &[u8] {
        &self.0[self.name_end()..]
    }

    /// Calls `each` with every tag, in rising order of key and value.
    pub fn tags(&self, each: impl FnMut(Tag<'_>)) {
        let mut places = TagPlaces::default();
        scalar::tags(self.tags_text(), &self.style().syntax(), &mut places);
        places.tags(self.tags_text()).for_each(each);
    }

    /// All of it: equal bytes are equal series.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SeriesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, tags] = [self.name(), self.tags_text()].map(String::from_utf8_lossy);
        write!(f, "{:?} {name} {{{tags}}}", self.kind())
    }
}

/// What a key begins with. A name is at most [`crate::limits::TEXT_BYTES_MAX`] bytes.
#[inline]
pub fn header(kind: Kind, style: TagStyle, name: &[u8]) -> [u8; HEADER_BYTES] {
    let [low, high] = (name.len() as u16).to_le_bytes();
    [kind as u8, style as u8, low, high]
}
