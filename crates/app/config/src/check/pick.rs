//! Selects the alternative that a value most likely belongs to, so that errors concern only this
//! one.

use serde_json::Value as Json;

use super::super::fault::Fault;
use super::super::node::{Node, Value};
use super::super::suggest;
use super::object::unknown_key;
use super::scalar::unknown_value;
use super::{Checker, Spot, allowed_values};

impl<'a> Checker<'a> {
    /// Selects the alternative that `node` most likely belongs to. If that is unclear, reports an
    /// error and returns `None`.
    pub(super) fn pick(
        &mut self,
        node: &Node,
        leaves: &[&'a Json],
        spot: Spot<'_>,
    ) -> Option<&'a Json> {
        match &node.value {
            Value::Map(_) => {
                if let Some(tag) = common_tag(leaves) {
                    return self.by_tag(node, tag, leaves, spot);
                }
                match leaves.iter().map(|leaf| only_key(leaf)).collect::<Option<Vec<&str>>>() {
                    Some(keys) => self.by_key(node, &keys, leaves, spot),
                    None => self.best(node, leaves, spot),
                }
            }
            Value::Scalar(_) if leaves.iter().all(|leaf| !allowed_values(leaf).is_empty()) => {
                self.by_value(node, leaves, spot)
            }
            _ => self.best(node, leaves, spot),
        }
    }

    /// Selects by the value of the tag, as in `codec: json`.
    fn by_tag(
        &mut self,
        node: &Node,
        tag: &'a str,
        leaves: &[&'a Json],
        spot: Spot<'_>,
    ) -> Option<&'a Json> {
        let Some(entry) = node.entry(tag) else {
            let values =
                leaves.iter().filter_map(|leaf| tag_value(leaf, tag)?.as_str()).collect::<Vec<_>>();
            let what = format!("{}missing key `{tag}`", spot.prefix());
            let advice = format!("add `{tag}:` with {}", suggest::listed(&values, "or"));
            self.faults.push(Fault::new(spot.place, what, advice));
            return None;
        };
        let inner = Spot { key: tag, place: &entry.place };
        if entry.node.scalar().is_none() {
            let schema = leaves.first().and_then(|leaf| leaf.get("properties")?.get(tag));
            schema.into_iter().for_each(|schema| self.check(&entry.node, schema, inner));
            return None;
        }
        let given = entry.node.to_json();
        let found = leaves.iter().find(|leaf| tag_value(leaf, tag) == Some(&given));
        if found.is_none() {
            let values: Vec<&Json> =
                leaves.iter().filter_map(|leaf| tag_value(leaf, tag)).collect();
            self.faults.push(unknown_value(&entry.node, &values, inner));
        }
        found.copied()
    }

    /// Selects by the single key of each alternative, as in `{ regex: ... }`.
    fn by_key(
        &mut self,
        node: &Node,
        keys: &[&str],
        leaves: &[&'a Json],
        spot: Spot<'_>,
    ) -> Option<&'a Json> {
        if let Some(index) = keys.iter().position(|key| node.get(key).is_some()) {
            return Some(leaves[index]);
        }
        let fault = match node.entries() {
            [entry] => unknown_key(entry, keys),
            _ => {
                let what = format!("{}no key is set", spot.prefix());
                Fault::new(&node.place, what, format!("use {}", suggest::listed(keys, "or")))
            }
        };
        self.faults.push(fault);
        None
    }

    fn by_value(&mut self, node: &Node, leaves: &[&'a Json], spot: Spot<'_>) -> Option<&'a Json> {
        let given = node.to_json();
        let found = leaves.iter().find(|leaf| allowed_values(leaf).contains(&&given));
        if found.is_none() {
            let values: Vec<&Json> = leaves.iter().flat_map(|leaf| allowed_values(leaf)).collect();
            self.faults.push(unknown_value(node, &values, spot));
        }
        found.copied()
    }

    /// Selects by trial: the alternative with the fewest errors.
    fn best(&self, node: &Node, leaves: &[&'a Json], spot: Spot<'_>) -> Option<&'a Json> {
        let rated = leaves.iter().map(|leaf| {
            let mut trial = Checker { root: self.root, formats: self.formats, faults: Vec::new() };
            trial.value(node, leaf, spot);
            (trial.faults.len(), *leaf)
        });
        rated.min_by_key(|(faults, _)| *faults).map(|(_, leaf)| leaf)
    }
}

fn tag_value<'a>(leaf: &'a Json, tag: &str) -> Option<&'a Json> {
    leaf.get("properties")?.get(tag)?.get("const")
}

/// Returns the tag: the key that has a different constant value in every alternative.
fn common_tag<'a>(leaves: &[&'a Json]) -> Option<&'a str> {
    let keys = leaves.first()?.get("properties")?.as_object()?.keys();
    keys.map(String::as_str).find(|key| {
        let mut values = leaves.iter().map(|leaf| tag_value(leaf, key));
        let first = values.next().flatten();
        leaves.iter().all(|leaf| tag_value(leaf, key).is_some())
            && values.any(|value| value != first)
    })
}

/// Returns the required key if an alternative consists of a single key.
fn only_key(leaf: &Json) -> Option<&str> {
    let properties = leaf.get("properties")?.as_object()?;
    let key = properties.keys().next().filter(|_| properties.len() == 1)?;
    let required = leaf.get("required")?.as_array()?.iter().any(|name| name == key);
    required.then_some(key)
}
