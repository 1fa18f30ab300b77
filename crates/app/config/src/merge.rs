//! Merges several files into one configuration: the union of their ids and settings.

use std::collections::HashMap;

use millstream_model::Kind;

use super::check::describe::found;
use super::fault::{Fault, Place};
use super::node::{Entry, Node, Value};
use super::parse::twice;

/// Prefix of top-level keys that contain only YAML for anchors. The agent ignores these keys.
pub const SHARED: &str = "x-";

/// The merged configuration, not yet checked.
#[derive(Default)]
pub struct Merged {
    /// Every top-level key except sections and tests.
    pub globals: Vec<Entry>,
    /// Every component, in file order.
    pub components: Vec<(Kind, Entry)>,
    /// Every unit test, in file order.
    pub tests: Vec<Node>,
    /// Kinds whose sections contain at least one entry, valid or not.
    pub written: Vec<Kind>,
}

/// Merges the roots of all files. Of duplicate keys, the first one is kept.
pub fn merge(roots: Vec<Node>, faults: &mut Vec<Fault>) -> Merged {
    let mut merger =
        Merger { merged: Merged::default(), globals: HashMap::new(), ids: HashMap::new(), faults };
    for root in roots {
        merger.root(root);
    }
    merger.merged
}

struct Merger<'a> {
    merged: Merged,
    globals: HashMap<String, Place>,
    ids: HashMap<String, Place>,
    faults: &'a mut Vec<Fault>,
}

impl Merger<'_> {
    fn root(&mut self, root: Node) {
        let what = format!("expected top-level keys, found {}", found(&root));
        let Value::Map(entries) = root.value else {
            // The intended section is unknown, so every kind is treated as present.
            self.merged.written.extend(Kind::ALL);
            self.faults.push(Fault::new(&root.place, what, "use, for example, sources:"));
            return;
        };
        for entry in entries {
            match Kind::ALL.into_iter().find(|kind| kind.section() == entry.key) {
                Some(kind) => self.section(kind, entry.node),
                None if entry.key == "tests" => self.tests(entry.node),
                // The key only holds values for anchors.
                None if entry.key.starts_with(SHARED) => {}
                None if once(&mut self.globals, &entry, self.faults) => {
                    self.merged.globals.push(entry)
                }
                None => {}
            }
        }
    }

    fn section(&mut self, kind: Kind, node: Node) {
        if node.is_null() {
            return;
        }
        let what = format!(
            "`{}`: expected a map from ids to components, found {}",
            kind.section(),
            found(&node)
        );
        let (place, value) = (node.place, node.value);
        let is_empty = matches!(&value, Value::Map(entries) if entries.is_empty());
        if !is_empty {
            self.merged.written.push(kind);
        }
        match value {
            Value::Map(entries) => {
                entries.into_iter().for_each(|entry| self.component(kind, entry))
            }
            Value::Hole => {}
            _ => self.faults.push(Fault::new(
                &place,
                what,
                "write an id, a colon, and the component's keys below",
            )),
        }
    }

    /// Adds tests. Several files may contain tests.
    fn tests(&mut self, node: Node) {
        let what = format!("`tests`: expected a list of tests, found {}", found(&node));
        let is_null = node.is_null();
        match node.value {
            Value::Seq(tests) => self.merged.tests.extend(tests),
            Value::Hole => {}
            _ if is_null => {}
            _ => self.faults.push(Fault::new(&node.place, what, "write a dash before each test")),
        }
    }

    fn component(&mut self, kind: Kind, entry: Entry) {
        if !is_id(&entry.key) {
            let advice = "use letters, digits, _ and -, beginning with a letter or _";
            self.faults.push(Fault::new(
                &entry.place,
                format!("invalid id `{}`", entry.key),
                advice,
            ));
        }
        if once(&mut self.ids, &entry, self.faults) {
            self.merged.components.push((kind, entry));
        }
    }
}

/// Returns whether the entry's key is new; reports a duplicate.
fn once(known: &mut HashMap<String, Place>, entry: &Entry, faults: &mut Vec<Fault>) -> bool {
    if let Some(first) = known.get(&entry.key) {
        faults.push(twice(&entry.key, &entry.place, first));
        return false;
    }
    known.insert(entry.key.clone(), entry.place.clone());
    true
}

/// Returns whether `name` is a valid id. Dots are invalid because a dot separates the id from the
/// output name.
fn is_id(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
