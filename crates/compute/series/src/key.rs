//! Series keys: kind, name and tags in one unambiguous byte string.

use crate::point::Kind;
use crate::style::TagStyle;
use crate::tags::Canonical;
use millstream_scan::{Keys, Tag, is_joined, prefetch};
use std::fmt;
use std::sync::Arc;

/// Size of the header: kind, style and length of the name, in bytes.
const HEADER_BYTES: usize = 4;

/// Flag in the style byte that is set if the tags are in canonical form.
const CANONICAL: u8 = 1 << 7;

const CACHE_LINE_BYTES: usize = 64;

/// Kind, name and tags in one byte string: a header of fixed size, which includes the length of the
/// name, the name, and the text of the tags, in the syntax of their style and in arrival order.
/// Keys of the same series may differ in this text, but not in its canonical form.
///
/// Tags are split at separator bytes, and keys are split from values at another byte, so tags and
/// keys never contain these bytes. Two different sets of tags therefore never have the same text:
/// `a=bc` differs from `ab=c`.
#[derive(Clone)]
pub struct SeriesKey(Arc<[u8]>);

impl SeriesKey {
    /// Creates a key. `canonical` is the canonical form of `tags`.
    pub(crate) fn new(
        kind: Kind,
        style: TagStyle,
        name: &[u8],
        tags: &[u8],
        canonical: &[u8],
    ) -> SeriesKey {
        let mut header = header(kind, style, name);
        if tags == canonical {
            header[1] |= CANONICAL;
        }
        SeriesKey(header.iter().chain(name).chain(tags).copied().collect())
    }

    /// Returns whether the key has this header, name and tag text, byte for byte.
    #[inline]
    pub(crate) fn is(&self, header: &[u8; HEADER_BYTES], name: &[u8], tags: &[u8]) -> bool {
        self.after_header(header).is_some_and(|rest| is_joined(rest, name, tags))
    }

    /// Like [`SeriesKey::is`], for use within a SIMD kernel that the caller runs.
    #[inline(always)]
    pub(crate) fn is_by(
        &self,
        keys: impl Keys,
        header: &[u8; HEADER_BYTES],
        name: &[u8],
        tags: &[u8],
    ) -> bool {
        match self.after_header(header) {
            Some(rest) => keys.is_joined(rest, name, tags),
            None => false,
        }
    }

    /// Returns name and tags, concatenated, if the key has this header.
    #[inline(always)]
    fn after_header(&self, header: &[u8; HEADER_BYTES]) -> Option<&[u8]> {
        let (own, rest) = self.0.split_first_chunk()?;
        is_alike(own, header).then_some(rest)
    }

    /// Returns whether the key has this header and name, and tags with this canonical form in any
    /// order.
    pub(crate) fn means(
        &self,
        header: &[u8; HEADER_BYTES],
        name: &[u8],
        canonical: &[u8],
        scratch: &mut Canonical,
    ) -> bool {
        is_alike(&self.header(), header)
            && self.name() == name
            && self.canonical_text(scratch) == canonical
    }

    /// Prefetches the first two cache lines. The processor prefetches the rest of a long key.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.0.first().into_iter().for_each(prefetch);
        self.0.get(CACHE_LINE_BYTES).into_iter().for_each(prefetch);
    }

    /// Returns the header without [`CANONICAL`] (see [`header`]).
    pub(crate) fn header(&self) -> [u8; HEADER_BYTES] {
        header(self.kind(), self.style(), self.name())
    }

    fn name_end(&self) -> usize {
        HEADER_BYTES + usize::from(u16::from_le_bytes([self.0[2], self.0[3]]))
    }

    /// Returns the kind of the series.
    pub fn kind(&self) -> Kind {
        Kind::ALL[usize::from(self.0[0])]
    }

    /// Returns the syntax of the tags.
    pub fn style(&self) -> TagStyle {
        if self.0[1] & !CANONICAL == TagStyle::Pairs as u8 {
            TagStyle::Pairs
        } else {
            TagStyle::DogStatsd
        }
    }

    /// Returns the name, which is valid UTF-8.
    pub fn name(&self) -> &[u8] {
        &self.0[HEADER_BYTES..self.name_end()]
    }

    /// Returns the text of the tags as it arrived, which is valid UTF-8.
    pub fn tags_text(&self) -> &[u8] {
        &self.0[self.name_end()..]
    }

    pub(crate) fn is_canonical(&self) -> bool {
        self.0[1] & CANONICAL != 0
    }

    /// Returns the tags in canonical form: sorted and without duplicates. Keys with the same kind,
    /// name and canonical form belong to the same series.
    pub fn canonical_text<'a>(&'a self, scratch: &'a mut Canonical) -> &'a [u8] {
        match self.is_canonical() {
            true => self.tags_text(),
            false => scratch.of(self.tags_text(), self.style()).text,
        }
    }

    /// Calls `each` once for every tag, in ascending order of key and value. `scratch` avoids
    /// allocations.
    pub fn tags(&self, scratch: &mut Canonical, each: impl FnMut(Tag<'_>)) {
        match self.is_canonical() {
            true => scratch.each_as_is(self.tags_text(), self.style(), each),
            false => scratch.each(self.tags_text(), self.style(), each),
        }
    }
}

impl fmt::Debug for SeriesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, tags] = [self.name(), self.tags_text()].map(String::from_utf8_lossy);
        write!(f, "{:?} {name} {{{tags}}}", self.kind())
    }
}

/// Returns whether two headers are equal except for [`CANONICAL`].
#[inline]
fn is_alike(own: &[u8; HEADER_BYTES], header: &[u8; HEADER_BYTES]) -> bool {
    u32::from_le_bytes(*own) & !u32::from_le_bytes([0, CANONICAL, 0, 0])
        == u32::from_le_bytes(*header)
}

/// Returns the header of a key. The name must have at most [`crate::limits::TEXT_BYTES_MAX`] bytes.
#[inline]
pub fn header(kind: Kind, style: TagStyle, name: &[u8]) -> [u8; HEADER_BYTES] {
    let [low, high] = (name.len() as u16).to_le_bytes();
    [kind as u8, style as u8, low, high]
}
