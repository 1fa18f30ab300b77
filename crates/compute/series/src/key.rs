//! What a series is called: one contiguous, unambiguous run of bytes.

use crate::point::Kind;
use crate::tags::Canonical;
use millstream_scan::{Keys, Tag, TagSyntax, is_joined, prefetch};
use std::fmt;
use std::sync::Arc;

/// How clients write tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagStyle {
    /// `key=value|key=value`, or with spaces. A key has one value, the last one; an empty value is
    /// `-`.
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

/// Beside the style: the tags are in their canonical form.
const CANONICAL: u8 = 1 << 7;

const CACHE_LINE_BYTES: usize = 64;

/// Kind, name and tags in one run of bytes: a header of fixed size that has the length of the name,
/// the name, and the tags as text, in the syntax of their style and in the order in which they
/// arrived first. Keys of one series may differ in that text; its canonical form is the same.
///
/// No key of a tag has a split byte and no tag an end byte, as they were divided at those: so two
/// different sets of tags never have the same text, and `a=bc` is not `ab=c`.
#[derive(Clone)]
pub struct SeriesKey(Arc<[u8]>);

impl SeriesKey {
    /// `canonical` is the canonical form of the tags.
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

    /// Whether it is the key of this name with these tags, byte for byte.
    #[inline]
    pub(crate) fn is(&self, header: &[u8; HEADER_BYTES], name: &[u8], tags: &[u8]) -> bool {
        self.behind(header).is_some_and(|rest| is_joined(rest, name, tags))
    }

    /// [`SeriesKey::is`] by the kernel that does more with keys.
    #[inline(always)]
    pub(crate) fn is_by(
        &self,
        keys: impl Keys,
        header: &[u8; HEADER_BYTES],
        name: &[u8],
        tags: &[u8],
    ) -> bool {
        match self.behind(header) {
            Some(rest) => keys.is_joined(rest, name, tags),
            None => false,
        }
    }

    /// Name and tags, if the key begins like this.
    #[inline(always)]
    fn behind(&self, header: &[u8; HEADER_BYTES]) -> Option<&[u8]> {
        let (own, rest) = self.0.split_first_chunk()?;
        is_alike(own, header).then_some(rest)
    }

    /// Whether it is a key of this name with tags of this canonical form, in whatever order.
    pub(crate) fn means(
        &self,
        header: &[u8; HEADER_BYTES],
        name: &[u8],
        canonical: &[u8],
        room: &mut Canonical,
    ) -> bool {
        is_alike(&self.header(), header)
            && self.name() == name
            && self.canonical_text(room) == canonical
    }

    /// Asks for the bytes; a long key is read in order, which the processor foresees.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.0.first().into_iter().for_each(prefetch);
        self.0.get(CACHE_LINE_BYTES).into_iter().for_each(prefetch);
    }

    /// What it begins with, see [`header`].
    pub(crate) fn header(&self) -> [u8; HEADER_BYTES] {
        header(self.kind(), self.style(), self.name())
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
        if self.0[1] & !CANONICAL == TagStyle::Pairs as u8 {
            TagStyle::Pairs
        } else {
            TagStyle::DogStatsd
        }
    }

    /// The name; valid UTF-8.
    pub fn name(&self) -> &[u8] {
        &self.0[HEADER_BYTES..self.name_end()]
    }

    /// The tags as text, as they arrived first; valid UTF-8.
    pub fn tags_text(&self) -> &[u8] {
        &self.0[self.name_end()..]
    }

    pub(crate) fn is_canonical(&self) -> bool {
        self.0[1] & CANONICAL != 0
    }

    /// The tags as text in their canonical form: sorted, without repeated ones. Keys of the same
    /// kind, name and canonical text are of the same series.
    pub fn canonical_text<'a>(&'a self, room: &'a mut Canonical) -> &'a [u8] {
        match self.is_canonical() {
            true => self.tags_text(),
            false => room.of(self.tags_text(), self.style()).text,
        }
    }

    /// Calls `each` with every tag once, in rising order of key and value. `room` saves
    /// allocations.
    pub fn tags(&self, room: &mut Canonical, each: impl FnMut(Tag<'_>)) {
        match self.is_canonical() {
            true => room.each_as_is(self.tags_text(), self.style(), each),
            false => room.each(self.tags_text(), self.style(), each),
        }
    }
}

impl fmt::Debug for SeriesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, tags] = [self.name(), self.tags_text()].map(String::from_utf8_lossy);
        write!(f, "{:?} {name} {{{tags}}}", self.kind())
    }
}

/// Whether two headers say the same, but for [`CANONICAL`].
#[inline]
fn is_alike(own: &[u8; HEADER_BYTES], header: &[u8; HEADER_BYTES]) -> bool {
    u32::from_le_bytes(*own) & !u32::from_le_bytes([0, CANONICAL, 0, 0])
        == u32::from_le_bytes(*header)
}

/// What a key begins with. A name is at most [`crate::limits::TEXT_BYTES_MAX`] bytes.
#[inline]
pub fn header(kind: Kind, style: TagStyle, name: &[u8]) -> [u8; HEADER_BYTES] {
    let [low, high] = (name.len() as u16).to_le_bytes();
    [kind as u8, style as u8, low, high]
}
