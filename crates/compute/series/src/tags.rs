//! The canonical form of tags.

use crate::style::TagStyle;
use millstream_scan::{Tag, TagOffsets, tags};
use std::cmp::Ordering;

/// Tags in their canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorted<'a> {
    /// The tags in the syntax in which they arrived: sorted, and without empty tags, duplicates,
    /// and tags that report the origin of a client.
    pub text: &'a [u8],
    /// Number of tags.
    pub count: usize,
    /// Number of tags that were dropped because they have a value but no key.
    pub keyless: usize,
}

/// Scratch space for sorting tags, reused between calls.
#[derive(Debug, Default)]
pub struct Canonical {
    places: TagOffsets,
    order: Vec<Place>,
    text: Vec<u8>,
}

/// Position of a tag in its text: the start of the key, the end of the key, and the end of the
/// value.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    split: u32,
    end: u32,
}

impl Canonical {
    /// Returns the canonical form of `raw`.
    pub(crate) fn of(&mut self, raw: &[u8], style: TagStyle) -> Sorted<'_> {
        let keyless = self.sort(raw, style);
        let syntax = style.syntax();
        self.text.clear();
        for (index, place) in self.order.iter().enumerate() {
            let tag = place.tag(raw, style);
            if index > 0 {
                self.text.push(syntax.ends[0]);
            }
            self.text.extend_from_slice(tag.key);
            if let Some(value) = tag.value {
                self.text.push(syntax.split);
                self.text.extend_from_slice(value);
            }
        }
        Sorted { count: self.order.len(), keyless, text: &self.text }
    }

    /// Calls `each` with the tags in the canonical form of `raw`.
    pub(crate) fn each<'a>(&mut self, raw: &'a [u8], style: TagStyle, each: impl FnMut(Tag<'a>)) {
        self.sort(raw, style);
        self.order.iter().map(|place| place.tag(raw, style)).for_each(each);
    }

    /// Calls `each` with the tags in a string that is already in canonical form.
    pub(crate) fn each_as_is(&mut self, text: &[u8], style: TagStyle, each: impl FnMut(Tag<'_>)) {
        tags(text, &style.syntax(), &mut self.places);
        self.places.tags(text).for_each(each);
    }

    /// Splits and sorts the tags of `raw`. Returns the number of tags that have a value but no key.
    fn sort(&mut self, raw: &[u8], style: TagStyle) -> usize {
        tags(raw, &style.syntax(), &mut self.places);
        self.order.clear();
        let (mut start, mut keyless) = (0, 0);
        for (split, end) in self.places.splits.iter().zip(&self.places.ends) {
            let place = Place { start, split: *split, end: *end };
            if *split > start {
                self.order.extend((!style.is_internal(place.key(raw))).then_some(place));
            } else {
                keyless += usize::from(*end > split + 1);
            }
            start = end + 1;
        }
        self.order.sort_unstable_by(|a, b| a.compare(b, raw, style));
        self.order.dedup_by(|b, a| match style {
            TagStyle::DogStatsd => a.tag(raw, style) == b.tag(raw, style),
            TagStyle::Pairs => a.key(raw) == b.key(raw),
        });
        keyless
    }
}

impl Place {
    fn key<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        &raw[self.start as usize..self.split as usize]
    }

    fn tag<'a>(&self, raw: &'a [u8], style: TagStyle) -> Tag<'a> {
        let value = raw[..self.end as usize].get(self.split as usize + 1..);
        let value = match style {
            // As in the metric server, an empty value becomes `-`.
            TagStyle::Pairs => value.filter(|value| !value.is_empty()).or(Some(b"-")),
            TagStyle::DogStatsd => value,
        };
        Tag { key: self.key(raw), value }
    }

    /// Compares tags. If pairs have the same key, the last one sorts first, so that it is kept.
    fn compare(&self, other: &Place, raw: &[u8], style: TagStyle) -> Ordering {
        match style {
            TagStyle::DogStatsd => self.tag(raw, style).cmp(&other.tag(raw, style)),
            TagStyle::Pairs => self.key(raw).cmp(other.key(raw)).then(other.start.cmp(&self.start)),
        }
    }
}
