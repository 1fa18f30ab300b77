//! Validates a tree with source positions against the JSON Schema that is derived from the option
//! types.
//!
//! The validation covers the parts of such schemas: types, properties, enumerations, alternatives,
//! bounds, formats and references. It continues after an error, so that all errors are reported at
//! once.

pub mod describe;
mod object;
mod pick;
pub mod retype;
mod scalar;

use millstream_console::Limit;
use millstream_model::{Expiry, Interval, Size};
use millstream_recorder::schema::PerSecond;
use serde_json::Value as Json;
use std::str::FromStr;

use super::fault::{Fault, Place};
use super::node::{Data, Node, Scalar, Value};

/// A string check: `Err` is "what is wrong; what to use instead".
pub type FormatCheck = fn(&str) -> Result<(), String>;

/// Checks for strings, by the name of the `format` in a schema.
pub type Formats = &'static [(&'static str, FormatCheck)];

/// Formats that apply to every configuration.
const OWN_FORMATS: Formats = &[
    ("size", |text| text.parse::<Size>().map(drop).map_err(|error| error.to_string())),
    ("duration", |text| text.parse::<Interval>().map(drop).map_err(|error| error.to_string())),
    ("expiry", |text| text.parse::<Expiry>().map(drop).map_err(|error| error.to_string())),
    ("address", address),
    ("log-target", log_target),
    ("event-threshold", |text| limit::<Interval>(text)),
    ("event-rate", |text| limit::<PerSecond>(text)),
];

fn limit<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<(), String> {
    let bad = |error: T::Err| format!("{error} or none");
    text.parse::<Limit<T>>().map(drop).map_err(bad)
}

fn address(text: &str) -> Result<(), String> {
    let bad = |_| format!("{text:?} is not an address and port; use, for example, 127.0.0.1:7878");
    text.parse::<std::net::SocketAddr>().map(drop).map_err(bad)
}

fn log_target(text: &str) -> Result<(), String> {
    if text == "stderr" || text.contains('/') {
        return Ok(());
    }
    Err(format!(
        "{text:?} is neither stderr nor a path; use stderr, or a path such as \
         /var/log/millstream.log"
    ))
}

/// Where a value belongs: its key, and the position of that key.
#[derive(Clone, Copy)]
pub struct Spot<'s> {
    /// The key; empty for a whole component.
    pub key: &'s str,
    pub place: &'s Place,
}

impl Spot<'_> {
    /// Returns the subject of a message about the value.
    fn prefix(&self) -> String {
        if self.key.is_empty() { String::new() } else { format!("`{}`: ", self.key) }
    }
}

/// Validates values against the parts of one schema.
pub struct Checker<'a> {
    /// The whole schema, to resolve `$ref`.
    root: &'a Json,
    formats: Formats,
    faults: Vec<Fault>,
}

/// Reports everything in `node` that does not match `schema`.
pub fn check(node: &Node, schema: &Json, formats: Formats, spot: Spot<'_>) -> Vec<Fault> {
    let mut checker = Checker { root: schema, formats, faults: Vec::new() };
    checker.check(node, schema, spot);
    checker.faults
}

impl<'a> Checker<'a> {
    fn check(&mut self, node: &Node, schema: &'a Json, spot: Spot<'_>) {
        if matches!(node.value, Value::Hole) {
            return;
        }
        let leaves = self.leaves(schema);
        let fitting: Vec<&'a Json> =
            leaves.iter().copied().filter(|leaf| accepts(leaf, node)).collect();
        match fitting.as_slice() {
            [] => {
                let fault = self.type_fault(node, &leaves, spot);
                self.faults.push(fault);
            }
            [only] => self.value(node, only, spot),
            several => {
                if let Some(leaf) = self.pick(node, several, spot) {
                    self.value(node, leaf, spot);
                }
            }
        }
    }

    /// Validates against one alternative whose type matches.
    fn value(&mut self, node: &Node, leaf: &'a Json, spot: Spot<'_>) {
        match &node.value {
            Value::Map(_) => self.object(node, leaf, spot),
            Value::Seq(items) => self.list(node, items, leaf, spot),
            Value::Scalar(scalar) => self.scalar(node, scalar, leaf, spot),
            Value::Hole => {}
        }
    }

    fn list(&mut self, node: &Node, items: &[Node], leaf: &'a Json, spot: Spot<'_>) {
        let bound = |name| leaf.get(name).and_then(Json::as_u64).map(|bound| bound as usize);
        if let Some(least) = bound("minItems").filter(|least| items.len() < *least) {
            let what = if items.is_empty() { "the list is empty" } else { "the list is too short" };
            let advice = format!("use {} or more", counted(least));
            self.faults.push(Fault::new(&node.place, format!("{}{what}", spot.prefix()), advice));
        }
        if let Some(most) = bound("maxItems").filter(|most| items.len() > *most) {
            let what = format!("{}the list is too long", spot.prefix());
            self.faults.push(Fault::new(
                &node.place,
                what,
                format!("use {} or fewer", counted(most)),
            ));
        }
        for (index, item) in items.iter().enumerate() {
            let fixed = leaf.get("prefixItems").and_then(|fixed| fixed.get(index));
            if let Some(schema) = fixed.or(leaf.get("items")) {
                self.check(item, schema, spot);
            }
        }
    }

    /// Resolves `$ref`.
    fn resolve(&self, mut schema: &'a Json) -> &'a Json {
        while let Some(target) = schema.get("$ref").and_then(Json::as_str) {
            match self.root.pointer(target.trim_start_matches('#')) {
                Some(next) => schema = next,
                None => break,
            }
        }
        schema
    }

    /// Returns the alternatives of a schema, or the schema itself if it has none.
    fn leaves(&self, schema: &'a Json) -> Vec<&'a Json> {
        let schema = self.resolve(schema);
        // Alternatives next to properties are merged with them when the map is checked.
        let own =
            ["type", "properties", "const", "enum"].iter().any(|key| schema.get(key).is_some());
        match alternatives(schema) {
            Some(branches) if !own => {
                branches.iter().flat_map(|branch| self.leaves(branch)).collect()
            }
            _ => vec![schema],
        }
    }

    fn format_check(&self, format: &str) -> Option<FormatCheck> {
        let mut all = self.formats.iter().chain(OWN_FORMATS);
        all.find(|(name, _)| *name == format).map(|(_, check)| *check)
    }
}

fn counted(count: usize) -> String {
    if count == 1 { "one item".into() } else { format!("{count} items") }
}

fn alternatives(schema: &Json) -> Option<&Vec<Json>> {
    schema.get("oneOf").or(schema.get("anyOf")).and_then(Json::as_array)
}

/// Returns the values of an enumeration; empty if the schema is not an enumeration.
fn allowed_values(leaf: &Json) -> Vec<&Json> {
    match (leaf.get("const"), leaf.get("enum").and_then(Json::as_array)) {
        (Some(value), _) => vec![value],
        (None, Some(values)) => values.iter().collect(),
        (None, None) => Vec::new(),
    }
}

/// Returns the JSON types that a schema allows; empty if it allows any type.
fn types(leaf: &Json) -> Vec<&str> {
    match leaf.get("type") {
        Some(Json::String(name)) => vec![name],
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        _ if leaf.get("properties").is_some() => vec!["object"],
        _ => allowed_values(leaf).into_iter().map(type_of).collect(),
    }
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// Returns whether the schema allows the type of this value.
fn accepts(leaf: &Json, node: &Node) -> bool {
    let types = types(leaf);
    let fits = |name: &&str| match &node.value {
        Value::Map(_) => *name == "object",
        Value::Seq(_) => *name == "array",
        Value::Scalar(Scalar { data, .. }) => match data {
            Data::Null => *name == "null",
            Data::Bool(_) => *name == "boolean",
            Data::Int(_) => *name == "integer" || *name == "number",
            Data::Float(_) => *name == "number",
            Data::Text => *name == "string",
        },
        Value::Hole => true,
    };
    leaf != &Json::Bool(false) && (types.is_empty() || types.iter().any(fits))
}
