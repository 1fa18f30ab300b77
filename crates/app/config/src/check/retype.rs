//! Gives quoted variables the type of their options.
//!
//! Inside `{ }` and `[ ]`, YAML allows a variable only in quotes, so quotes alone do not make a
//! value text.

use serde_json::Value as Json;

use super::super::node::{Data, Node, Value};
use super::super::scalar::resolve;
use super::{Checker, accepts, alternatives, types};

/// Turns quoted strings with variables into numbers or booleans where `schema` allows no text.
pub fn retype(node: &mut Node, schema: &Json) {
    let checker = Checker { root: schema, formats: &[], faults: Vec::new() };
    checker.retype(node, &[schema]);
}

impl<'a> Checker<'a> {
    fn retype(&self, node: &mut Node, schemas: &[&'a Json]) {
        let parts: Vec<&'a Json> = schemas.iter().flat_map(|schema| self.parts(schema)).collect();
        match &mut node.value {
            Value::Map(entries) => {
                for entry in entries {
                    self.retype(&mut entry.node, &of_key(&parts, &entry.key));
                }
            }
            Value::Seq(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.retype(item, &of_index(&parts, index));
                }
            }
            Value::Scalar(_) => retype_scalar(node, &parts),
            Value::Hole => {}
        }
    }

    /// Returns a schema with all its alternatives.
    fn parts(&self, schema: &'a Json) -> Vec<&'a Json> {
        let schema = self.resolve(schema);
        let all = schema.get("allOf").and_then(Json::as_array);
        let below = all.into_iter().chain(alternatives(schema)).flatten();
        let mut parts = vec![schema];
        parts.extend(below.flat_map(|part| self.parts(part)));
        parts
    }
}

/// Returns the schemas of a key.
fn of_key<'a>(parts: &[&'a Json], key: &str) -> Vec<&'a Json> {
    let named = parts.iter().filter_map(|part| part.get("properties")?.get(key));
    let named: Vec<&Json> = named.collect();
    if !named.is_empty() {
        return named;
    }
    parts.iter().filter_map(|part| part.get("additionalProperties")).collect()
}

/// Returns the schemas for a list item.
fn of_index<'a>(parts: &[&'a Json], index: usize) -> Vec<&'a Json> {
    let item_schema = |part: &&'a Json| {
        let fixed = part.get("prefixItems").and_then(|fixed| fixed.get(index));
        fixed.or(part.get("items"))
    };
    parts.iter().filter_map(item_schema).collect()
}

fn retype_scalar(node: &mut Node, parts: &[&Json]) {
    if node.template.is_none() || takes(parts, node) {
        return;
    }
    let Some(scalar) = node.scalar() else { return };
    let mut typed = node.clone();
    let data = resolve(&scalar.text);
    if let Value::Scalar(scalar) = &mut typed.value {
        scalar.data = data;
    }
    if data != Data::Null && takes(parts, &typed) {
        *node = typed;
    }
}

/// Returns whether a schema allows the type of a value.
fn takes(parts: &[&Json], node: &Node) -> bool {
    let names_type = |part: &&&Json| !types(part).is_empty();
    parts.iter().filter(names_type).any(|part| accepts(part, node))
}
