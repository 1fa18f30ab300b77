//! Tags that identify the sender of a point: the container that the client reports, or the process
//! that the kernel reports.

use millstream_points::Extra;
use millstream_receiver::Sender;
use millstream_series::TagStyle;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::Write;

/// A tag that identifies the sender of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OriginTag {
    /// Container id, from the client's `c:` field, otherwise the container of the process that sent
    /// the point over a Unix socket.
    ContainerId,
    /// Container name, from the client's `e:` field.
    ContainerName,
    /// Pod id, from the client's `e:` field, otherwise from the `dd.internal.entity_id` tag.
    PodUid,
    /// Id of the process that sent the point over a Unix socket, in the agent's PID namespace.
    Pid,
}

/// Adds origin tags to the tags of a point.
pub struct OriginTags {
    selected: Vec<OriginTag>,
    style: TagStyle,
    text: Vec<u8>,
}

impl OriginTags {
    /// Creates an instance that adds the selected tags in this syntax.
    pub fn new(selected: Vec<OriginTag>, style: TagStyle) -> OriginTags {
        OriginTags { selected, style, text: Vec::new() }
    }

    /// Returns whether the instance adds no tags.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.selected.is_empty()
    }

    /// Returns the tags of a point, with the origin tags added.
    pub fn of<'t>(
        &'t mut self,
        tags: &'t [u8],
        extra: &Extra<'_>,
        sender: Option<&Sender>,
    ) -> &'t [u8] {
        if self.selected.is_empty() || extra.cardinality == b"none" {
            return tags;
        }
        let internal = InternalTags::of(tags, self.style);
        if internal.refuse_tags(extra) {
            return tags;
        }
        self.text.clear();
        self.text.extend_from_slice(tags);
        for selected in &self.selected {
            let mut pid = Vec::new();
            let (key, value) = match selected {
                OriginTag::ContainerId => {
                    let seen = sender.and_then(|sender| sender.container.as_deref());
                    let reported = container_of(extra.container);
                    ("container_id", reported.or(seen.map(str::as_bytes)))
                }
                OriginTag::ContainerName => ("container_name", part(extra.external, b"cn-")),
                OriginTag::PodUid => {
                    ("pod_uid", part(extra.external, b"pu-").or(internal.entity_id))
                }
                OriginTag::Pid => {
                    let has_pid =
                        sender.is_some_and(|sender| write!(pid, "{}", sender.pid).is_ok());
                    ("pid", has_pid.then_some(&pid[..]))
                }
            };
            push(&mut self.text, self.style, key, value);
        }
        &self.text
    }
}

/// The origin that a client reports in tags, as older DogStatsD clients do. These tags are not part
/// of the series (see [`TagStyle::is_internal`]).
#[derive(Debug, Default, PartialEq, Eq)]
struct InternalTags<'a> {
    /// Pod id, or `none` for a client that wants no origin tags.
    entity_id: Option<&'a [u8]>,
    cardinality: Option<&'a [u8]>,
}

impl<'a> InternalTags<'a> {
    /// Finds the internal tags in the tags of a point.
    fn of(tags: &'a [u8], style: TagStyle) -> InternalTags<'a> {
        let mut found = InternalTags::default();
        if style == TagStyle::DogStatsd && memchr::memmem::find(tags, b"dd.internal.").is_some() {
            found.entity_id = part(tags, b"dd.internal.entity_id:");
            found.cardinality = part(tags, b"dd.internal.card:");
        }
        found
    }

    /// Returns whether the client does not want origin tags. The field `card:` takes precedence.
    fn refuse_tags(&self, extra: &Extra<'_>) -> bool {
        let is_none = |tag: Option<&[u8]>| tag == Some(b"none");
        is_none(self.entity_id) || extra.cardinality.is_empty() && is_none(self.cardinality)
    }
}

/// Appends a tag, if the value exists and needs no escaping.
fn push(text: &mut Vec<u8>, style: TagStyle, key: &str, value: Option<&[u8]>) {
    let is_plain = |value: &&[u8]| {
        !value.is_empty()
            && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
    };
    let Some(value) = value.filter(is_plain) else { return };
    let (end, split) = match style {
        TagStyle::DogStatsd => (b',', b':'),
        TagStyle::Pairs => (b'|', b'='),
    };
    if !text.is_empty() {
        text.push(end);
    }
    text.extend_from_slice(key.as_bytes());
    text.push(split);
    text.extend_from_slice(value);
}

/// Finds the first part of a comma-separated list that begins with `prefix`, and returns the text
/// after the prefix.
fn part<'a>(list: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    list.split(|byte| *byte == b',').find_map(|part| part.strip_prefix(prefix))
}

/// Returns the container id that a client reported: `ci-ID`, or the bare id from older clients. An
/// inode (`in-…`) is ignored, because only the container runtime can resolve it.
fn container_of(reported: &[u8]) -> Option<&[u8]> {
    let bare =
        || Some(reported).filter(|reported| !reported.is_empty() && !reported.starts_with(b"in-"));
    part(reported, b"ci-").or_else(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(
        selected: &[OriginTag],
        tags: &str,
        extra: &Extra<'_>,
        sender: Option<&Sender>,
    ) -> String {
        let mut origin = OriginTags::new(selected.to_vec(), TagStyle::DogStatsd);
        String::from_utf8(origin.of(tags.as_bytes(), extra, sender).to_vec()).unwrap()
    }

    #[test]
    fn tags_of_the_client_override_those_of_the_kernel() {
        use OriginTag::{ContainerId, ContainerName, Pid, PodUid};
        let sender = Sender { pid: 7, container: Some("kernel".into()) };
        let all = [ContainerId, ContainerName, PodUid, Pid];
        let none = Extra::NONE;
        assert_eq!(text(&all, "a:b", none, None), "a:b");
        assert_eq!(text(&all, "", none, Some(&sender)), "container_id:kernel,pid:7");
        let reported =
            Extra { container: b"ci-abc,in-9", external: b"it-false,cn-web,pu-12-34", ..*none };
        let expected = "a:b,container_id:abc,container_name:web,pod_uid:12-34,pid:7";
        assert_eq!(text(&all, "a:b", &reported, Some(&sender)), expected);
        assert_eq!(
            text(&[ContainerId], "", &Extra { container: b"old", ..*none }, None),
            "container_id:old"
        );
        let inode = Extra { container: b"in-9", ..*none };
        assert_eq!(text(&[ContainerId], "", &inode, Some(&sender)), "container_id:kernel");
        assert_eq!(
            text(&all, "a:b", &Extra { cardinality: b"none", ..reported }, Some(&sender)),
            "a:b"
        );
        // A value that would split into two tags is omitted.
        assert_eq!(
            text(&[ContainerId], "a:b", &Extra { container: b"ci-x:y", ..*none }, None),
            "a:b"
        );
        // Older clients report their origin in tags, which the series excludes.
        let entity = "a:b,dd.internal.entity_id:7e-8";
        assert_eq!(text(&[PodUid], entity, none, None), format!("{entity},pod_uid:7e-8"));
        assert_eq!(text(&[PodUid], entity, &reported, None), format!("{entity},pod_uid:12-34"));
        for silent in ["dd.internal.card:none", "dd.internal.entity_id:none,a:b"] {
            assert_eq!(text(&all, silent, &reported, Some(&sender)), silent);
        }
        let low = Extra { cardinality: b"low", ..*none };
        let tags = "dd.internal.card:none";
        assert_eq!(text(&[Pid], tags, &low, Some(&sender)), format!("{tags},pid:7"));
        let mut pairs = OriginTags::new(vec![Pid], TagStyle::Pairs);
        assert_eq!(pairs.of(b"k=v", none, Some(&sender)), b"k=v|pid=7");
    }
}
