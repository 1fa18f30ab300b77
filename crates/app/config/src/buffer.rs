//! The buffer of a sink: its keys, and checks that the schema cannot express.

use millstream_engine::{Buffer, DiskMode, DiskOptions, WhenFull};
use millstream_model::Size;

use super::fault::Fault;
use super::node::{Entry, Node};

/// Minimum disk buffer size in bytes. A smaller buffer would have tiny segment files.
const DISK_BYTES_MIN: u64 = 16 << 20;

/// Parses the buffer of a sink. The keys already match the schema.
pub fn of(node: &Node) -> Buffer {
    let text = |key| node.get(key).and_then(Node::text);
    let when_full = match text("when_full") {
        Some("drop_newest") => WhenFull::DropNewest,
        Some("drop_oldest") => WhenFull::DropOldest,
        _ => WhenFull::Block,
    };
    let bytes_max = size(node, "max");
    if !is_on_disk(node) {
        return Buffer { bytes_max, when_full, disk: None };
    }
    let mode = match text("mode") {
        Some("always") => DiskMode::Always,
        _ => DiskMode::Overflow,
    };
    let replay_rate = size(node, "replay_rate");
    let disk = bytes_max.map(|bytes_max| DiskOptions { bytes_max, mode, replay_rate });
    Buffer { bytes_max: None, when_full, disk }
}

/// Reports keys that contradict each other.
pub fn check(entry: &Entry) -> Vec<Fault> {
    let node = &entry.node;
    if !is_on_disk(node) {
        let keys = ["mode", "replay_rate"].into_iter().filter_map(|key| node.entry(key));
        return keys.map(needs_disk).collect();
    }
    match (node.entry("max"), size(node, "max")) {
        (None, _) => vec![Fault::new(
            &entry.place,
            "`buffer`: a disk buffer has no default size",
            "add, for example, max: 10GiB",
        )],
        (Some(max), Some(..DISK_BYTES_MIN)) => vec![Fault::new(
            &max.node.place,
            "`max`: the disk buffer is too small",
            "use 16MiB or more",
        )],
        _ => Vec::new(),
    }
}

fn needs_disk(entry: &Entry) -> Fault {
    let what = format!("`{}`: applies only to a disk buffer", entry.key);
    Fault::new(&entry.place, what, "add type: disk, or remove the key")
}

fn is_on_disk(node: &Node) -> bool {
    node.get("type").and_then(Node::text) == Some("disk")
}

fn size(node: &Node, key: &str) -> Option<u64> {
    Some(node.get(key)?.text()?.parse::<Size>().ok()?.0)
}
