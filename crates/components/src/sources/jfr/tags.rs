//! Tags of metrics. Each process has a limited number of tag values.

use super::catalog::{Kind, Tag};
use millstream_jfr::read::{Lookup, Raw, SLOTS, Text};
use std::collections::{HashMap, HashSet};

/// Value of all tags of a tag set that exceeds the limit.
const OTHER: &str = "other";

/// First port that systems assign to the client of a connection, by default. Such a port differs
/// for each connection and carries no information, so it is not a tag.
const EPHEMERAL_PORT_MIN: u64 = 32_768;

/// Maximum number of leading path folders in a tag.
const FOLDERS: usize = 2;

/// Maximum length of a value in bytes; longer values are truncated.
const VALUE_BYTES_MAX: usize = 256;

/// Maximum number of raw field values that are cached with their tags.
const CACHE_MAX: usize = 16_384;

/// The tags of a metric, without the tags of the process.
pub type TagSet = Vec<(&'static str, String)>;

/// Id of a tag set in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagSetId(pub u32);

/// Tag sets that were seen, by process and event type. Limits their number for each of these pairs.
#[derive(Debug, Default)]
pub struct Bounds {
    seen: HashMap<(String, &'static str), HashSet<TagSet>>,
}

/// Number of pairs of process and event type above which [`Bounds`] forgets all tag sets and starts
/// over.
const PROCESSES_MAX: usize = 10_000;

impl Bounds {
    /// Returns the tags unchanged, or with all values replaced by `other` if the process already
    /// has `max` other tag sets for this event type.
    fn bounded(&mut self, process: &str, event: &'static str, tags: TagSet, max: usize) -> TagSet {
        if self.seen.len() > PROCESSES_MAX {
            self.seen.clear();
        }
        let seen = self.seen.entry((process.to_owned(), event)).or_default();
        if seen.contains(&tags) {
            return tags;
        }
        if seen.len() < max {
            seen.insert(tags.clone());
            return tags;
        }
        tags.into_iter().map(|(key, _)| (key, OTHER.to_owned())).collect()
    }
}

/// The tag sets of a chunk, without duplicates.
#[derive(Debug, Default)]
pub struct TagSets {
    sets: Vec<TagSet>,
    ids: HashMap<TagSet, TagSetId>,
    /// Tag sets by the bytes of the fields from which they are built.
    cache: HashMap<Vec<u8>, TagSetId>,
    key: Vec<u8>,
}

/// The input for building tags.
pub struct TagCx<'a> {
    /// Types and pools of the chunk.
    pub lookup: Lookup<'a>,
    /// Key of the process, as in [`Bounds`].
    pub process: &'a str,
    /// Maximum number of tag sets per process and event type.
    pub max: usize,
}

impl TagSets {
    /// Returns the id of an event's tag set. `types` are the types of the values in `raw`.
    pub fn of(
        &mut self,
        kind: &'static Kind,
        raw: &[Raw<'_>; SLOTS],
        types: &[u64; SLOTS],
        bounds: &mut Bounds,
        cx: &TagCx<'_>,
    ) -> TagSetId {
        self.fill_key(kind, raw);
        if let Some(id) = self.cache.get(&self.key) {
            return *id;
        }
        let tags = kind.tags.iter().flat_map(|tag| values(*tag, raw, types, &cx.lookup)).collect();
        let tags = bounds.bounded(cx.process, kind.event, tags, cx.max);
        let next = TagSetId(self.sets.len() as u32);
        let id = *self.ids.entry(tags.clone()).or_insert(next);
        if id == next {
            self.sets.push(tags);
        }
        if self.cache.len() >= CACHE_MAX {
            self.cache.clear();
        }
        self.cache.insert(self.key.clone(), id);
        id
    }

    /// Builds the cache key from the event type and the field bytes.
    fn fill_key(&mut self, kind: &Kind, raw: &[Raw<'_>; SLOTS]) {
        let key = &mut self.key;
        key.clear();
        key.extend_from_slice(kind.event.as_bytes());
        for slot in kind.tags.iter().flat_map(|tag| tag.slots()) {
            key.push(0xff);
            match raw[slot] {
                Raw::Integer(number) => key.extend_from_slice(&number.to_le_bytes()),
                Raw::Text(Text::Utf8(text) | Text::Latin1(text) | Text::Utf16(text)) => {
                    key.extend_from_slice(text);
                }
                Raw::Text(Text::Key(pool_key)) => {
                    key.push(0xfe);
                    key.extend_from_slice(&pool_key.to_le_bytes());
                }
                _ => key.push(0xfd),
            }
        }
    }

    /// Returns the tag set with this id.
    pub fn get(&self, id: TagSetId) -> &TagSet {
        &self.sets[id.0 as usize]
    }

    /// Clears the cache. Must be called when the constant pools change, because pool keys are part
    /// of the cache keys.
    pub fn forget_bytes(&mut self) {
        self.cache.clear();
    }
}

/// Returns a tag's keys and values: two pairs for a peer whose port is not ephemeral, otherwise
/// one.
fn values<'a>(
    tag: Tag,
    raw: &[Raw<'a>; SLOTS],
    types: &[u64; SLOTS],
    lookup: &Lookup<'a>,
) -> TagSet {
    let text = |slot: usize| cut(&lookup.text(&raw[slot], types[slot]));
    match tag {
        Tag::Peer(at) => peer_tags(&peer(raw, types, lookup, at), raw[at + 2].integer()),
        Tag::Directory(at) => vec![("file.directory", directory(&text(at)))],
        Tag::Text(key, at) => vec![(key, text(at))],
        Tag::Class(key, at) => vec![(key, cut(&lookup.class(&raw[at], types[at])))],
    }
}

/// Returns the host at the other end of a connection, or its address if the host has no name. For a
/// Unix socket, whose recorded address is the path in brackets, returns the path.
pub fn peer<'a>(
    raw: &[Raw<'a>; SLOTS],
    types: &[u64; SLOTS],
    lookup: &Lookup<'a>,
    at: usize,
) -> String {
    let [host, address] = [at, at + 1].map(|slot| cut(&lookup.text(&raw[slot], types[slot])));
    let path = address.strip_prefix("[/").and_then(|rest| rest.strip_suffix(']'));
    match (path, host.is_empty(), address.is_empty()) {
        (Some(path), ..) => format!("/{path}"),
        (None, false, _) => host,
        (None, true, false) => address,
        (None, true, true) => "unknown".to_owned(),
    }
}

fn peer_tags(peer: &str, port: u64) -> TagSet {
    let mut tags = vec![("network.peer.address", peer.to_owned())];
    if (1..EPHEMERAL_PORT_MIN).contains(&port) {
        tags.push(("network.peer.port", port.to_string()));
    }
    tags
}

/// Returns the first folders of a path.
fn directory(path: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let end = folder.match_indices('/').nth(FOLDERS).map_or(folder.len(), |(at, _)| at);
    match &folder[..end] {
        "" if path.starts_with('/') => "/".to_owned(),
        "" => ".".to_owned(),
        folder => folder.to_owned(),
    }
}

/// Cuts a value, and replaces characters that the Java agent's protocol cannot send, so that this
/// source and the Java agent produce the same tags.
pub fn cut(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(VALUE_BYTES_MAX)];
    text.replace(|c: char| c.is_control() || matches!(c, ' ' | '|' | '='), "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_folders_of_a_path_are_its_tag() {
        let cases = [
            ("/var/lib/app/data/1.db", "/var/lib"),
            ("/var/lib/1.db", "/var/lib"),
            ("/var/1.db", "/var"),
            ("/1.db", "/"),
            ("1.db", "."),
            ("data/1.db", "data"),
            ("", "."),
        ];
        for (path, expected) in cases {
            assert_eq!(directory(path), expected, "{path}");
        }
    }

    #[test]
    fn a_process_has_a_bounded_number_of_tags() {
        let mut bounds = Bounds::default();
        let tags =
            |n: usize| vec![("network.peer.address", format!("10.0.{}.{}", n / 256, n % 256))];
        let kept = |bounds: &mut Bounds, process: &str| {
            let all = (0..10_000).map(|n| bounds.bounded(process, "jdk.SocketWrite", tags(n), 100));
            all.collect::<HashSet<TagSet>>().len()
        };
        assert_eq!(kept(&mut bounds, "1 shop"), 101);
        assert_eq!(kept(&mut bounds, "1 shop"), 101, "the bound outlives a chunk");
        assert_eq!(kept(&mut bounds, "2 shop"), 101, "each process has its own");
        let other = bounds.bounded("1 shop", "jdk.SocketWrite", tags(500), 100);
        assert_eq!(other, [("network.peer.address", "other".to_owned())]);
    }

    #[test]
    fn ports_of_clients_are_no_tags() {
        assert_eq!(peer_tags("db", 5432).len(), 2);
        assert_eq!(peer_tags("db", 51_000).len(), 1);
    }
}
