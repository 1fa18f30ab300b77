//! A hash that changes with the configuration but not with its layout.

use xxhash_rust::xxh3::Xxh3;

use super::merge::Merged;
use super::node::{Data, Entry, Node, Value};

/// Hashes the merged configuration. The order of keys and files, comments and the quoting of keys
/// have no effect. For a value from a variable, only the variable's name is hashed, so that the
/// hash leaks nothing about the value.
pub fn hash(merged: &Merged) -> u64 {
    let mut hasher = Xxh3::new();
    hash_map(&mut hasher, merged.globals.iter());
    for kind in millstream_model::Kind::ALL {
        text(&mut hasher, kind.section());
        let of_kind = merged.components.iter().filter(|(other, _)| *other == kind);
        hash_map(&mut hasher, of_kind.map(|(_, entry)| entry));
    }
    hasher.digest()
}

fn hash_map<'a>(hasher: &mut Xxh3, entries: impl Iterator<Item = &'a Entry>) {
    let mut sorted: Vec<&Entry> = entries.collect();
    sorted.sort_by(|left, right| left.key.cmp(&right.key));
    hasher.update(b"m");
    hasher.update(&sorted.len().to_le_bytes());
    for entry in sorted {
        text(hasher, &entry.key);
        hash_node(hasher, &entry.node);
    }
}

fn hash_node(hasher: &mut Xxh3, node: &Node) {
    if let Some(template) = &node.template {
        hasher.update(b"v");
        return text(hasher, template);
    }
    match &node.value {
        Value::Map(entries) => hash_map(hasher, entries.iter()),
        Value::Seq(items) => {
            hasher.update(b"s");
            hasher.update(&items.len().to_le_bytes());
            items.iter().for_each(|item| hash_node(hasher, item));
        }
        Value::Scalar(scalar) => match scalar.data {
            Data::Null => hasher.update(b"n"),
            Data::Bool(value) => hasher.update(if value { b"t" } else { b"f" }),
            // Attributes keep numbers as written, so the text is hashed.
            Data::Int(_) | Data::Float(_) => {
                hasher.update(b"d");
                text(hasher, &scalar.text);
            }
            Data::Text => {
                hasher.update(b"x");
                text(hasher, &scalar.text);
            }
        },
        Value::Hole => hasher.update(b"h"),
    }
}

/// Hashes the length and the bytes, so that two strings never collide with two other strings.
fn text(hasher: &mut Xxh3, text: &str) {
    hasher.update(&text.len().to_le_bytes());
    hasher.update(text.as_bytes());
}
