//! Maps: unknown or missing keys, and the value of each key.

use serde_json::Value as Json;

use super::super::aliases;
use super::super::fault::Fault;
use super::super::node::{Entry, Node};
use super::super::suggest;
use super::{Checker, Spot, accepts, alternatives, describe};

/// The schemas that apply to one map: the schema of the map, and the selected alternative.
struct Views<'a> {
    parts: Vec<&'a Json>,
    /// Whether no alternative could be selected, so that other keys may be valid.
    partial: bool,
}

impl<'a> Checker<'a> {
    pub(super) fn object(&mut self, node: &Node, leaf: &'a Json, spot: Spot<'_>) {
        let mut views = Views { parts: Vec::new(), partial: false };
        self.collect(node, leaf, spot, &mut views);
        let keys = views.keys();
        let mut meant = Vec::new();
        for entry in node.entries() {
            let inner = Spot { key: &entry.key, place: &entry.place };
            match views.property(&entry.key).or_else(|| views.additional()) {
                Some(schema) => self.check(&entry.node, schema, inner),
                None if views.is_closed() => {
                    self.faults.push(unknown_key(entry, &keys));
                    let alias = aliases::option(&entry.key, &keys).map(|(key, _)| key);
                    meant.extend(alias.or_else(|| suggest::nearest(&entry.key, &keys)));
                }
                None => {}
            }
        }
        // A misspelled key is not also reported as missing.
        let missing = views
            .required()
            .into_iter()
            .filter(|key| node.get(key).is_none() && !meant.contains(key));
        for key in missing {
            let schema = views.property(key).map(|schema| self.resolve(schema));
            self.faults.push(missing_key(key, schema, spot));
        }
    }

    /// Collects the schemas that apply to this map.
    fn collect(&mut self, node: &Node, schema: &'a Json, spot: Spot<'_>, views: &mut Views<'a>) {
        let schema = self.resolve(schema);
        views.parts.push(schema);
        for part in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            self.collect(node, part, spot, views);
        }
        let Some(branches) = alternatives(schema) else { return };
        let leaves = branches.iter().flat_map(|branch| self.leaves(branch));
        let fitting: Vec<&'a Json> = leaves.filter(|leaf| accepts(leaf, node)).collect();
        let picked = match fitting.as_slice() {
            [only] => Some(*only),
            several => self.pick(node, several, spot),
        };
        match picked {
            Some(branch) => self.collect(node, branch, spot, views),
            None => views.partial = true,
        }
    }
}

impl<'a> Views<'a> {
    fn property(&self, key: &str) -> Option<&'a Json> {
        self.parts.iter().find_map(|part| part.get("properties")?.get(key))
    }

    /// Returns the schema of keys without an entry in `properties`.
    fn additional(&self) -> Option<&'a Json> {
        let schemas = self.parts.iter().filter_map(|part| part.get("additionalProperties"));
        schemas.into_iter().find(|schema| **schema != Json::Bool(false))
    }

    /// Returns whether the map accepts only the keys in `properties`. True for every map with
    /// properties, even if the option type does not say so, because types with flattened fields
    /// cannot.
    fn is_closed(&self) -> bool {
        let has = |name| self.parts.iter().any(|part| part.get(name).is_some());
        !self.partial
            && !has("patternProperties")
            && (has("properties") || has("additionalProperties"))
    }

    fn keys(&self) -> Vec<&'a str> {
        let maps =
            self.parts.iter().filter_map(|part| part.get("properties").and_then(Json::as_object));
        maps.flat_map(|map| map.keys().map(String::as_str)).collect()
    }

    fn required(&self) -> Vec<&'a str> {
        let mut keys: Vec<&str> = Vec::new();
        let lists =
            self.parts.iter().filter_map(|part| part.get("required").and_then(Json::as_array));
        for key in lists.flatten().filter_map(Json::as_str) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

/// Returns the error for a key that is not in `keys`.
pub(super) fn unknown_key(entry: &Entry, keys: &[&str]) -> Fault {
    let advice = match (keys, aliases::option(&entry.key, keys)) {
        ([], _) => "remove it; no keys are allowed here".into(),
        (_, Some((_, advice))) => advice,
        _ => suggest::advice(&entry.key, keys, "the valid keys are"),
    };
    Fault::new(&entry.place, format!("unknown key `{}`", entry.key), advice)
}

/// Returns the error for a missing key.
pub(super) fn missing_key(key: &str, schema: Option<&Json>, spot: Spot<'_>) -> Fault {
    let sample = schema.map_or("...".into(), describe::sample);
    Fault::new(
        spot.place,
        format!("{}missing key `{key}`", spot.prefix()),
        format!("add, for example, {key}: {sample}"),
    )
}
