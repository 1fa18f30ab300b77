//! Describes what a schema expects and what was found.

use serde_json::Value as Json;

use super::super::fault::Fault;
use super::super::node::{Data, Node, Scalar, Value};
use super::super::scalar::resolve;
use super::super::suggest;
use super::{Checker, Spot, accepts, allowed_values, types};

/// Longest text to repeat in advice, in characters.
const REPEATED_MAX: usize = 60;

impl<'a> Checker<'a> {
    /// Returns the error for a value whose type is not allowed by any of `leaves`.
    pub(super) fn type_fault(&self, node: &Node, leaves: &[&'a Json], spot: Spot<'_>) -> Fault {
        if let Some(message) = self.number_as_text(node, leaves) {
            return Fault::from_message(&node.place, &spot.prefix(), &message);
        }
        let mut expected: Vec<String> = Vec::new();
        for words in leaves.iter().flat_map(|leaf| self.expected(leaf)) {
            if !expected.contains(&words) {
                expected.push(words);
            }
        }
        let what =
            format!("{}expected {}, found {}", spot.prefix(), expected.join(" or "), found(node));
        Fault::new(&node.place, what, self.type_advice(node, leaves))
    }

    /// Returns the error for a bare number where formatted text, such as a size, is required. The
    /// message of the format is better than advice to add quotes, which would not help.
    fn number_as_text(&self, node: &Node, leaves: &[&'a Json]) -> Option<String> {
        let scalar =
            node.scalar().filter(|scalar| matches!(scalar.data, Data::Int(_) | Data::Float(_)))?;
        let leaf = leaves
            .iter()
            .find(|leaf| types(leaf).contains(&"string") && leaf.get("format").is_some())?;
        let message = self.format_check(leaf.get("format")?.as_str()?)?(&scalar.text).err()?;
        match &node.template {
            // The message of the format quotes the value, which came from a variable.
            Some(template) => {
                Some(format!("`{template}` is a bare number; use, for example, {}", sample(leaf)))
            }
            None => Some(message),
        }
    }

    /// Describes what a schema expects, one entry per allowed type.
    fn expected(&self, leaf: &'a Json) -> Vec<String> {
        let names = types(leaf);
        let described = names.into_iter().filter(|name| *name != "null").map(|name| match name {
            "string" => text_words(leaf).0.to_owned(),
            "array" => format!("a list of {}", self.item_words(leaf)),
            "object" => "a map".to_owned(),
            "boolean" => "true or false".to_owned(),
            "integer" => "a whole number".to_owned(),
            _ => "a number".to_owned(),
        });
        described.collect()
    }

    fn item_words(&self, list: &'a Json) -> &'static str {
        let Some(items) = list.get("items") else { return "values" };
        let leaves = self.leaves(items);
        let [leaf] = leaves.as_slice() else { return "values" };
        match types(leaf).as_slice() {
            ["string"] => text_words(leaf).1,
            ["integer"] => "whole numbers",
            ["number"] => "numbers",
            ["object"] => "maps",
            ["array"] => "lists",
            _ => "values",
        }
    }

    fn type_advice(&self, node: &Node, leaves: &[&'a Json]) -> String {
        let shown = node.shown();
        let listed = enumeration(leaves);
        if !listed.is_empty() && !listed.contains(&shown) {
            return format!("use {}", suggest::listed(&listed, "or"));
        }
        let short = !shown.contains('\n') && shown.chars().count() <= REPEATED_MAX;
        let scalar = node.scalar().filter(|_| short);
        if let Some(advice) = scalar.and_then(|scalar| self.scalar_advice(node, scalar, leaves)) {
            return advice;
        }
        let tagged = leaves.iter().find(|leaf| tag(leaf).is_some_and(|(_, value)| value == shown));
        let meant = tagged.or(leaves.first());
        meant.map(|leaf| format!("use, for example, {}", sample(leaf))).unwrap_or_default()
    }

    /// Returns advice on how to write a scalar that is nearly valid.
    fn scalar_advice(&self, node: &Node, scalar: &Scalar, leaves: &[&'a Json]) -> Option<String> {
        let wants = |name: &str| leaves.iter().any(|leaf| types(leaf).contains(&name));
        let shown = node.shown();
        if wants("string") && !matches!(scalar.data, Data::Null | Data::Text) {
            return Some(format!("use quotes: \"{shown}\""));
        }
        if self.fits_as_item(node, leaves) {
            let bare = scalar.plain && !shown.contains([',', '[', ']', '{', '}', ':', '#']);
            return Some(if bare { format!("use [{shown}]") } else { format!("use [{shown:?}]") });
        }
        let fits_unquoted = match resolve(&scalar.text) {
            Data::Int(_) => wants("integer") || wants("number"),
            Data::Float(_) => wants("number"),
            Data::Bool(_) => wants("boolean"),
            Data::Null | Data::Text => false,
        };
        match shown.to_ascii_lowercase().as_str() {
            _ if fits_unquoted && !scalar.plain => Some(format!("remove the quotes: {shown}")),
            "yes" | "on" if wants("boolean") => Some("use true".into()),
            "no" | "off" if wants("boolean") => Some("use false".into()),
            _ => None,
        }
    }

    /// Returns whether the value would be valid inside a list.
    fn fits_as_item(&self, node: &Node, leaves: &[&'a Json]) -> bool {
        let mut items = leaves.iter().filter_map(|leaf| leaf.get("items"));
        !node.is_null()
            && items.any(|items| self.leaves(items).iter().any(|leaf| accepts(leaf, node)))
    }
}

/// Returns the allowed strings, if the schema allows only listed strings. Ignores `null`, which
/// omits an option.
fn enumeration<'a>(leaves: &[&'a Json]) -> Vec<&'a str> {
    let mut texts = Vec::new();
    for leaf in leaves.iter().filter(|leaf| types(leaf) != ["null"]) {
        let allowed: Option<Vec<&str>> =
            allowed_values(leaf).into_iter().map(Json::as_str).collect();
        match allowed {
            Some(allowed) if !allowed.is_empty() => texts.extend(allowed),
            _ => return Vec::new(),
        }
    }
    texts
}

/// Returns the name of a text format in singular and plural.
fn text_words(leaf: &Json) -> (&'static str, &'static str) {
    match leaf.get("format").and_then(Json::as_str) {
        Some("size") => ("a size", "sizes"),
        Some("duration") => ("a duration", "durations"),
        Some("expiry") => ("a duration or never", "durations or never"),
        _ => ("text", "strings"),
    }
}

/// Describes a value without showing it.
pub fn found(node: &Node) -> String {
    let words = match &node.value {
        Value::Map(_) => "a map",
        Value::Seq(_) => "a list",
        Value::Hole => "nothing",
        Value::Scalar(scalar) => match scalar.data {
            Data::Null => "nothing",
            Data::Bool(true) if node.template.is_none() => "true",
            Data::Bool(false) if node.template.is_none() => "false",
            Data::Bool(_) => "true or false",
            Data::Int(_) => "a number",
            Data::Float(_) => "a number with a fraction",
            Data::Text => "text",
        },
    };
    match &node.template {
        Some(template) => format!("{words} in `{template}`"),
        None => words.to_owned(),
    }
}

/// Returns the key of a map whose value is a constant string, and this string.
fn tag(schema: &Json) -> Option<(&str, &str)> {
    let mut properties = schema.get("properties")?.as_object()?.iter();
    properties.find_map(|(key, property)| Some((key.as_str(), property.get("const")?.as_str()?)))
}

/// Returns a valid value: the example or default of the schema, or a value of its shape.
pub fn sample(schema: &Json) -> String {
    let examples = schema.get("examples").and_then(|examples| examples.get(0));
    let given = examples.or(schema.get("default")).or(allowed_values(schema).first().copied());
    if let Some(value) = given.filter(|value| !value.is_null()) {
        return match value {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
    }
    let first = types(schema).into_iter().find(|name| *name != "null");
    match first {
        Some("array") => "[...]".into(),
        Some("object") => match tag(schema) {
            Some((key, value)) => format!("{{ {key}: {value} }}"),
            None => "{ ... }".into(),
        },
        Some("boolean") => "true".into(),
        Some("integer" | "number") => {
            schema.get("minimum").filter(|m| **m != 0).map_or("10".into(), Json::to_string)
        }
        _ => "...".into(),
    }
}
