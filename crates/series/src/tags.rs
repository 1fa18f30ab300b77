//! From the tags as they arrived to their one canonical text.

use crate::key::TagStyle;
use millstream_scan::{Tag, TagPlaces, tags};

/// Tags in their canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorted<'a> {
    /// Sorted, without empty and repeated ones, in the syntax that they arrived in.
    pub text: &'a [u8],
    /// Their number.
    pub count: usize,
    /// How many had a value and no key, and were left out.
    pub keyless: usize,
}

/// Room that is kept between two texts.
#[derive(Debug, Default)]
pub struct Canonical {
    places: TagPlaces,
    text: Vec<u8>,
}

impl Canonical {
    /// The canonical form of `raw`.
    pub fn of(&mut self, raw: &[u8], style: TagStyle) -> Sorted<'_> {
        let syntax = style.syntax();
        tags(raw, &syntax, &mut self.places);
        let keyless = self.places.tags(raw).filter(|tag| tag.key.is_empty() && !tag.value.is_empty()).count();
        let keyed = self.places.tags(raw).filter(|tag| !tag.key.is_empty());
        let mut found: Vec<(usize, Tag<'_>)> = keyed.map(|tag| fill(tag, style)).enumerate().collect();
        match style {
            TagStyle::DogStatsd => {
                found.sort_unstable_by_key(|(_, tag)| *tag);
                found.dedup_by_key(|(_, tag)| *tag);
            }
            TagStyle::Pairs => {
                // The last one of a key comes first, and stays.
                found.sort_unstable_by(|(at, a), (bt, b)| a.key.cmp(b.key).then(bt.cmp(at)));
                found.dedup_by_key(|(_, tag)| tag.key);
            }
        }
        self.text.clear();
        for (index, (_, tag)) in found.iter().enumerate() {
            if index > 0 {
                self.text.push(syntax.ends[0]);
            }
            self.text.extend_from_slice(tag.key);
            if !tag.value.is_empty() {
                self.text.push(syntax.split);
                self.text.extend_from_slice(tag.value);
            }
        }
        Sorted { count: found.len(), keyless, text: &self.text }
    }
}

/// An empty value of a pair is `-`, as the metric server has it.
fn fill(tag: Tag<'_>, style: TagStyle) -> Tag<'_> {
    match style {
        TagStyle::Pairs if tag.value.is_empty() => Tag { value: b"-", ..tag },
        _ => tag,
    }
}
