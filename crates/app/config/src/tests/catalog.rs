//! A few component types with every shape of option.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use millstream_components::component::{
    AnyComponent, BuildCx, Component, SinkComponent, SourceComponent, TransformComponent,
};
use millstream_model::{
    BuildError, Expiry, Interval, Kind, OptionError, Sink, Size, Source, SourceOpen, Transform,
};
use schemars::{JsonSchema, Schema, schema_for};
use serde_json::Value as Json;

use super::super::{Catalog, Formats};

pub struct TestCatalog;

/// Options for a source. The tests never read files.
#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileSource {
    /// Globs of the files to read.
    #[schemars(length(min = 1))]
    include: Vec<Glob>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    read_from: ReadFrom,
    ignore_older: Option<Interval>,
    expire: Option<Expiry>,
    max_line: Option<Size>,
    keep_lines: Option<Lines>,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(extend("format" = "glob"))]
struct Glob(String);

#[allow(dead_code)]
#[derive(Default, JsonSchema, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum ReadFrom {
    /// From the first byte.
    #[default]
    Beginning,
    End,
}

/// One of two keys.
#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Lines {
    Contains(Vec<String>),
    Regex(String),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

/// Options of which some depend on `format`.
#[allow(dead_code)]
#[derive(JsonSchema)]
struct Parse {
    field: Option<String>,
    #[serde(flatten)]
    format: Format,
    /// Position of the event's time.
    time: Option<Time>,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(tag = "format", rename_all = "lowercase", deny_unknown_fields)]
enum Format {
    Json,
    Regex { pattern: String },
    Delimited { delimiter: String, fields: Vec<Field> },
}

/// A name alone, or with a type.
#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(untagged)]
enum Field {
    Name(String),
    Typed(TypedField),
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedField {
    name: String,
    r#type: FieldType,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FieldType {
    Int,
    Float,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct Time {
    field: String,
    format: String,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct Console {
    encoding: Option<Encoding>,
    password: Option<String>,
    password_file: Option<String>,
    retries: Option<u16>,
    ratio: Option<f64>,
    color: Option<bool>,
    labels: Option<BTreeMap<String, i64>>,
    endpoint: Option<OneOrMany>,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(tag = "codec", rename_all = "lowercase", deny_unknown_fields)]
enum Encoding {
    /// The raw line.
    Text,
    /// One JSON object a line.
    Json { metadata_key: Option<String> },
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

fn glob(text: &str) -> Result<(), String> {
    if text.contains('[') && !text.contains(']') {
        return Err(format!("bad glob {text:?}: unclosed character class; close it with ]"));
    }
    Ok(())
}

impl Catalog for TestCatalog {
    fn types(&self, kind: Kind) -> Vec<&'static str> {
        match kind {
            Kind::Source => vec!["file", "stdin"],
            Kind::Transform => vec!["filter", "parse"],
            Kind::Sink => vec!["blackhole", "console"],
        }
    }

    fn schema(&self, _: Kind, type_name: &str) -> Option<Schema> {
        match type_name {
            "file" => Some(schema_for!(FileSource)),
            "parse" => Some(schema_for!(Parse)),
            "console" => Some(schema_for!(Console)),
            "stdin" | "filter" | "blackhole" => Some(schema_for!(NoOptions)),
            _ => None,
        }
    }

    fn decode(&self, kind: Kind, type_name: &str, options: Json) -> Result<AnyComponent, String> {
        let component = TestComponent { type_name: type_name.to_owned(), options };
        Ok(match kind {
            Kind::Source => AnyComponent::Source(Arc::new(component)),
            Kind::Transform => AnyComponent::Transform(Arc::new(component)),
            Kind::Sink => AnyComponent::Sink(Arc::new(component)),
        })
    }

    fn formats(&self) -> Formats {
        &[("glob", glob)]
    }
}

/// A component that is never built.
struct TestComponent {
    type_name: String,
    options: Json,
}

impl Component for TestComponent {
    fn outputs(&self) -> Vec<String> {
        if self.type_name == "parse" || self.type_name == "console" {
            vec!["rejected".into()]
        } else {
            Vec::new()
        }
    }

    /// Rejects a password that starts with `hunter`, and quotes it. Also rejects an unlucky number
    /// of retries, with an error about the environment.
    fn check(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        if self.options.get("retries") == Some(&13.into()) {
            let message = "the variable HTTPS_PROXY is not an address; use, for example, \
                           http://proxy.example:3128";
            errors.push(OptionError::new("", message));
        }
        match self.options.get("password").and_then(Json::as_str) {
            Some(password) if password.starts_with("hunter") => {
                let message = format!("{password:?} is easily guessed; take a longer one");
                errors.push(OptionError::new("/password", message));
            }
            _ => {}
        }
        errors
    }

    /// Lists every option that names a file.
    fn files(&self) -> Vec<(String, PathBuf)> {
        let path = self.options.get("password_file").and_then(Json::as_str);
        path.map(|path| ("/password_file".to_owned(), path.into())).into_iter().collect()
    }
}

impl SourceComponent for TestComponent {
    fn open(&self, _: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        unreachable!("only checked")
    }
}

impl TransformComponent for TestComponent {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        unreachable!("only checked")
    }
}

impl SinkComponent for TestComponent {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        unreachable!("only checked")
    }
}
