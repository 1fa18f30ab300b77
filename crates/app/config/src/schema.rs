//! JSON Schemas of a component with its common keys, and of the whole configuration for editors.

use millstream_model::{Interval, Kind, Size};
use serde_json::{Map, Value as Json, json};

use super::merge::SHARED;
use super::{Catalog, globals, unit_tests};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Pattern for strings that contain a variable, which editors must accept.
const VARIABLE_PATTERN: &str = r"\$\{[^}]+\}";

/// The common keys, and the kinds of components that have them.
pub const COMMON_KEYS: [(&str, &[Kind]); 7] = [
    ("type", &Kind::ALL),
    ("inputs", &[Kind::Transform, Kind::Sink]),
    ("attributes", &[Kind::Source]),
    ("host", &[Kind::Source]),
    ("priority", &[Kind::Source]),
    ("rate_limit", &[Kind::Source]),
    ("buffer", &[Kind::Sink]),
];

/// Returns the schema of a component: its options and the common keys.
pub fn component_schema(kind: Kind, type_name: &str, options: schemars::Schema) -> Json {
    let mut schema = options.to_value();
    if !schema.is_object() {
        schema = json!({});
    }
    add_properties(&mut schema, &common_properties(kind, type_name));
    schema["type"] = "object".into();
    if kind != Kind::Source {
        add_required(&mut schema, "inputs");
    }
    add_required(&mut schema, "type");
    schema
}

fn common_properties(kind: Kind, type_name: &str) -> Map<String, Json> {
    let keys = COMMON_KEYS.iter().filter(|(_, kinds)| kinds.contains(&kind));
    keys.map(|(key, _)| ((*key).to_owned(), common_property(key, type_name))).collect()
}

fn common_property(key: &str, type_name: &str) -> Json {
    match key {
        "type" => {
            json!({ "description": "Type of the component.", "type": "string", "const": type_name })
        }
        "inputs" => json!({
            "description": "Ids of the components to read from; id.output for a side output.",
            "type": "array",
            "items": { "type": "string", "minLength": 1 },
            "minItems": 1,
            "examples": [["app"]],
        }),
        "attributes" => json!({
            "description": "Constant fields added to every event; numbers and booleans become text.",
            "type": "object",
            "additionalProperties": { "type": ["string", "number", "boolean"] },
        }),
        "priority" => json!({
            "description": "Read priority among the sources that have data.",
            "type": "string",
            "enum": ["high", "normal", "low"],
            "default": "normal",
        }),
        "rate_limit" => json!({
            "description": "Maximum bytes read per second. The default is unlimited.",
            "type": "string",
            "format": "size",
            "examples": ["10MiB"],
        }),
        "buffer" => buffer_property(),
        _ => {
            json!({ "description": "Host name of every event, instead of the real host name.", "type": "string", "minLength": 1 })
        }
    }
}

fn buffer_property() -> Json {
    json!({
        "description": "Buffer in front of the sink, and what happens when it is full.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "type": {
                "description": "Where the buffer is stored; a buffer on disk survives a restart.",
                "type": "string",
                "enum": ["memory", "disk"],
                "default": "memory",
            },
            "max": {
                "description": "Maximum size of the encoded events in the buffer; required for a buffer on disk.",
                "type": "string",
                "format": "size",
                "examples": ["64MiB", "10GiB"],
            },
            "when_full": {
                "description": "What happens when the buffer is full: the source waits, or events are dropped and counted.",
                "type": "string",
                "enum": ["block", "drop_newest", "drop_oldest"],
                "default": "block",
            },
            "mode": {
                "description": "Events that are written to disk: only those that do not fit into memory, or all.",
                "type": "string",
                "enum": ["overflow", "always"],
                "default": "overflow",
            },
            "replay_rate": {
                "description": "Maximum bytes read back from disk per second. The default is unlimited.",
                "type": "string",
                "format": "size",
                "examples": ["20MiB"],
            },
        },
    })
}

/// Puts the common keys before the options.
fn add_properties(schema: &mut Json, common: &Map<String, Json>) {
    let mut properties = common.clone();
    properties.extend(take_object(schema, "properties"));
    schema["properties"] = Json::Object(properties);
}

fn add_required(schema: &mut Json, key: &str) {
    match schema.get_mut("required").and_then(Json::as_array_mut) {
        Some(required) => required.insert(0, key.into()),
        None => schema["required"] = json!([key]),
    }
}

/// Returns the JSON Schema of a whole configuration file, for editors.
pub fn schema(catalog: &dyn Catalog) -> Json {
    let mut root = globals::schema();
    let mut definitions = take_object(&mut root, "$defs");
    for kind in Kind::ALL {
        let section = section_schema(kind, catalog, &mut definitions);
        root["properties"][kind.section()] = section;
    }
    root["properties"]["tests"] = tests_schema(&mut definitions);
    let shared = "YAML for anchors; the agent ignores it otherwise.";
    let pattern = format!("^{SHARED}");
    root["patternProperties"] = json!({ pattern: { "description": shared } });
    root["$schema"] = DIALECT.into();
    root["title"] = "Millstream configuration".into();
    root["$defs"] = Json::Object(definitions);
    add_patterns(&mut root);
    root
}

/// Returns the schema of `sources`, `transforms` or `sinks`: a map from ids to one of the component
/// types.
fn section_schema(kind: Kind, catalog: &dyn Catalog, definitions: &mut Map<String, Json>) -> Json {
    let mut alternatives = Vec::new();
    for type_name in catalog.types(kind) {
        let Some(options) = catalog.schema(kind, type_name) else { continue };
        let mut schema = component_schema(kind, type_name, options);
        close(&mut schema, &common_properties(kind, type_name));
        // Definitions of two components may have the same name, so each name is prefixed with the
        // component.
        define(&mut schema, &format!("{kind}.{type_name}."), definitions);
        schema["title"] = format!("{kind} {type_name}").into();
        alternatives.push(schema);
    }
    // An empty list of alternatives is not a valid schema.
    let components =
        if alternatives.is_empty() { Json::Bool(false) } else { json!({ "oneOf": alternatives }) };
    json!({
        "description": format!("All components of kind {kind}, by id."),
        "type": ["object", "null"],
        "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$" },
        "additionalProperties": components,
    })
}

/// Returns the schema of `tests`: a list of unit tests.
fn tests_schema(definitions: &mut Map<String, Json>) -> Json {
    let mut test = unit_tests::schema();
    define(&mut test, "test.", definitions);
    json!({ "description": "Unit tests of the configuration.", "type": ["array", "null"], "items": test })
}

/// Moves the definitions of a schema to the common definitions, under names that begin with
/// `prefix`.
fn define(schema: &mut Json, prefix: &str, definitions: &mut Map<String, Json>) {
    rename_references(schema, prefix);
    let own = take_object(schema, "$defs");
    definitions
        .extend(own.into_iter().map(|(name, definition)| (prefix.to_owned() + &name, definition)));
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
    }
}

/// Rejects unknown keys, as validation does. Closed alternatives would reject the common keys, so
/// these keys are added to the alternatives.
fn close(schema: &mut Json, common: &Map<String, Json>) {
    for name in ["oneOf", "anyOf"] {
        let branches = schema.get_mut(name).and_then(Json::as_array_mut).into_iter().flatten();
        for branch in
            branches.filter(|branch| branch.get("additionalProperties") == Some(&Json::Bool(false)))
        {
            add_properties(branch, common);
        }
    }
    if schema.get("additionalProperties").is_none() {
        schema["unevaluatedProperties"] = false.into();
    }
}

fn take_object(schema: &mut Json, key: &str) -> Map<String, Json> {
    match schema.as_object_mut().and_then(|object| object.remove(key)) {
        Some(Json::Object(map)) => map,
        _ => Map::new(),
    }
}

fn rename_references(schema: &mut Json, prefix: &str) {
    walk(schema, &mut |object| {
        if let Some(Json::String(target)) = object.get_mut("$ref")
            && let Some(name) = target.strip_prefix("#/$defs/")
        {
            *target = format!("#/$defs/{prefix}{name}");
        }
    });
}

/// Adds patterns to formats such as `size` and `duration`, because editors do not support these
/// formats.
fn add_patterns(schema: &mut Json) {
    let threshold = format!("{}|^none$", Interval::PATTERN);
    let expiry = format!("{}|^never$", Interval::PATTERN);
    walk(schema, &mut |object| {
        let pattern = match object.get("format").and_then(Json::as_str) {
            Some("size") => Size::PATTERN,
            Some("duration") => Interval::PATTERN,
            Some("expiry") => &expiry,
            Some("event-threshold") => &threshold,
            Some("event-rate") => "^[0-9]+/s$|^none$",
            _ => return,
        };
        object.insert("pattern".into(), format!("{pattern}|{VARIABLE_PATTERN}").into());
    });
}

/// Calls `change` on every object of the schema.
fn walk(schema: &mut Json, change: &mut dyn FnMut(&mut Map<String, Json>)) {
    match schema {
        Json::Object(object) => {
            change(object);
            object.values_mut().for_each(|value| walk(value, change));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| walk(item, change)),
        _ => {}
    }
}
