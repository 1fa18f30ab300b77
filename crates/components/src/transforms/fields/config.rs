//! Configuration of transform `fields`.

use super::constant::{Compute, Copy, Drop, Keep, Rename, Set, Value};
use super::pieces::{Join, Split, SplitInto};
use super::table::{Lookup, Table};
use super::text::{Edit, Edits, Substring};
use super::typed::{Cast, Hash};
use super::url::Url;
use super::{Fields, Step};
use crate::condition::Formula;
use crate::on_error::OnError;
use crate::registry::{Component, TransformComponent};
use crate::template::TextTemplate;
use crate::transforms::parse::{TypeConfig, of_config};
use indexmap::IndexMap;
use millstream_model::{BuildError, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of transform `fields`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldsConfig {
    /// What is done, in this order.
    #[schemars(length(min = 1))]
    pub steps: Vec<StepConfig>,
    /// What becomes of an event with a value that is not of the type it should be.
    #[serde(default)]
    pub on_error: OnError,
}

/// One step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepConfig {
    /// New names of fields.
    Rename(BTreeMap<String, String>),
    /// Fields that go; `message` too.
    Drop(Vec<String>),
    /// The only fields that stay.
    Keep(Vec<String>),
    /// The same values under more names.
    Copy(BTreeMap<String, String>),
    /// Constants and templates.
    Set(BTreeMap<String, SetConfig>),
    /// Values of expressions.
    Compute(IndexMap<String, Formula>),
    /// Types, by field.
    Cast(BTreeMap<String, CastType>),
    /// Fields whose letters become small.
    Lower(Vec<String>),
    /// Fields whose letters become capital.
    Upper(Vec<String>),
    /// Fields that lose white space before and behind them.
    Trim(Vec<String>),
    /// A part of a text.
    Substring(SubstringConfig),
    /// The pieces of a text.
    Split(SplitConfig),
    /// Several values as one text.
    Join(JoinConfig),
    /// Values by a table.
    Lookup(LookupConfig),
    /// A hash of a value.
    Hash(HashConfig),
    /// The parts of a URL.
    Url(UrlConfig),
}

/// A value that is set.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SetConfig {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text, in which fields may stand.
    Text(TextTemplate),
}

/// A value of a table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Constant {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

/// The type of a field, as transform `parse` has it.
pub type CastType = TypeConfig;

/// Options of step `substring`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubstringConfig {
    /// The field whose part it is.
    pub field: String,
    /// The first character, counted from 0; from the end, if negative.
    #[serde(default)]
    pub from: i64,
    /// Characters at most; all the rest if not given.
    pub length: Option<u64>,
    /// The field it becomes; the same if not given.
    pub to: Option<String>,
}

/// Options of step `split`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitConfig {
    /// The field that is taken apart.
    pub field: String,
    /// What stands between two pieces.
    pub delimiter: String,
    /// The fields that the pieces become in their order; the last takes the rest.
    pub to: Option<Vec<String>>,
    /// The field that becomes a list of all pieces.
    pub into: Option<String>,
}

/// Options of step `join`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinConfig {
    /// The fields, in their order; those that are not there are left out.
    pub fields: Vec<String>,
    /// What stands between two of them.
    #[serde(default)]
    pub delimiter: String,
    /// The field they become.
    pub to: String,
}

/// Options of step `lookup`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookupConfig {
    /// The field whose value is looked for.
    pub field: String,
    /// The field that the value found becomes; the same if not given.
    pub to: Option<String>,
    /// Values by key.
    #[serde(default)]
    pub table: BTreeMap<String, Constant>,
    /// A CSV file of `key,value` lines. What stands in `table` goes before it.
    pub file: Option<PathBuf>,
    /// The value for all others.
    pub default: Option<Constant>,
}

/// Options of step `hash`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HashConfig {
    /// The field that is hashed.
    pub field: String,
    /// The field that the hash becomes; the same if not given.
    pub to: Option<String>,
    /// How.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// A secret: with it, it is an HMAC.
    pub key: Option<String>,
}

/// How a hash is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// SHA-256: 64 digits.
    #[default]
    Sha256,
    /// XXH3: 16 digits; fast, and anybody can make texts that have the same.
    Xxh3,
}

/// Options of step `url`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlConfig {
    /// The field that is taken apart.
    pub field: String,
    /// What the names of the new fields begin with.
    #[serde(default = "url_prefix")]
    pub prefix: String,
    /// What becomes of the query.
    #[serde(default)]
    pub query: Query,
}

fn url_prefix() -> String {
    "url_".to_owned()
}

/// What becomes of the query of a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Query {
    /// A field, as it is.
    #[default]
    Text,
    /// A field for each parameter, decoded.
    Fields,
}

/// What is wrong: a JSON pointer within the step, and what to write instead.
type Fault = (String, String);

fn fault(key: &str, message: impl Into<String>) -> Fault {
    (key.to_owned(), message.into())
}

fn pairs(names: &BTreeMap<String, String>) -> Vec<(String, Arc<str>)> {
    names.iter().map(|(from, to)| (from.clone(), to.as_str().into())).collect()
}

fn edits(edit: Edit, fields: &[String]) -> Box<dyn Step> {
    Box::new(Edits { edit, fields: fields.iter().map(|name| name.as_str().into()).collect() })
}

/// The field a step makes: that which it reads, if no other is named.
fn target(to: Option<&String>, field: &str) -> Arc<str> {
    to.map_or(field, String::as_str).into()
}

impl StepConfig {
    fn step(&self) -> Result<Box<dyn Step>, Fault> {
        Ok(match self {
            StepConfig::Rename(names) => rename(names)?,
            StepConfig::Drop(names) => Box::new(Drop(names.clone())),
            StepConfig::Keep(names) => Box::new(Keep(names.clone())),
            StepConfig::Copy(names) => Box::new(Copy(pairs(names))),
            StepConfig::Set(values) => {
                let value = |(name, value): (&String, &SetConfig)| {
                    (name.as_str().into(), Value::new(value))
                };
                Box::new(Set(values.iter().map(value).collect()))
            }
            StepConfig::Compute(formulas) => {
                let formula =
                    |(name, formula): (&String, &Formula)| (name.as_str().into(), formula.clone());
                Box::new(Compute(formulas.iter().map(formula).collect()))
            }
            StepConfig::Cast(types) => Box::new(Cast(casts(types)?)),
            StepConfig::Lower(fields) => edits(Edit::Lower, fields),
            StepConfig::Upper(fields) => edits(Edit::Upper, fields),
            StepConfig::Trim(fields) => edits(Edit::Trim, fields),
            StepConfig::Substring(SubstringConfig { field, from, length, to }) => {
                let to = target(to.as_ref(), field);
                Box::new(Substring { field: field.clone(), to, from: *from, length: *length })
            }
            StepConfig::Split(split) => split.step()?,
            StepConfig::Join(JoinConfig { fields, delimiter, to }) => {
                let (fields, delimiter) = (fields.clone(), delimiter.clone());
                Box::new(Join { fields, delimiter, to: to.as_str().into() })
            }
            StepConfig::Lookup(lookup) => lookup.step()?,
            StepConfig::Hash(hash) => hash.step()?,
            StepConfig::Url(UrlConfig { field, prefix, query }) => {
                let parameters = *query == Query::Fields;
                Box::new(Url { field: field.clone(), prefix: prefix.clone(), parameters })
            }
        })
    }
}

impl StepConfig {
    /// The fields it names.
    fn names(&self) -> Vec<&String> {
        match self {
            StepConfig::Rename(names) | StepConfig::Copy(names) => {
                names.iter().flat_map(|(a, b)| [a, b]).collect()
            }
            StepConfig::Drop(names) | StepConfig::Keep(names) => names.iter().collect(),
            StepConfig::Lower(names) | StepConfig::Upper(names) | StepConfig::Trim(names) => {
                names.iter().collect()
            }
            StepConfig::Set(values) => values.keys().collect(),
            StepConfig::Compute(formulas) => formulas.keys().collect(),
            StepConfig::Cast(types) => types.keys().collect(),
            StepConfig::Substring(one) => std::iter::once(&one.field).chain(&one.to).collect(),
            StepConfig::Split(one) => std::iter::once(&one.field)
                .chain(one.to.iter().flatten())
                .chain(&one.into)
                .collect(),
            StepConfig::Join(one) => one.fields.iter().chain([&one.to]).collect(),
            StepConfig::Lookup(one) => std::iter::once(&one.field).chain(&one.to).collect(),
            StepConfig::Hash(one) => std::iter::once(&one.field).chain(&one.to).collect(),
            StepConfig::Url(one) => vec![&one.field],
        }
    }
}

fn rename(names: &BTreeMap<String, String>) -> Result<Box<dyn Step>, Fault> {
    let mut new: Vec<&String> = names.values().collect();
    new.sort_unstable();
    match new.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => {
            Err(fault("/rename", format!("two fields become `{}`; write other names", twice[0])))
        }
        None => Ok(Box::new(Rename(pairs(names)))),
    }
}

fn casts(
    types: &BTreeMap<String, CastType>,
) -> Result<Vec<(Arc<str>, millstream_parsers::Type)>, Fault> {
    let cast = |(name, kind): (&String, &CastType)| match name.as_str() {
        "message" => Err(fault("/cast/message", "the line is text; copy it into a field first")),
        _ => Ok((name.as_str().into(), of_config(kind, &format!("/cast/{name}"))?)),
    };
    types.iter().map(cast).collect()
}

impl SplitConfig {
    fn step(&self) -> Result<Box<dyn Step>, Fault> {
        let (field, delimiter) = (self.field.clone(), self.delimiter.clone());
        if delimiter.is_empty() {
            return Err(fault(
                "/split/delimiter",
                "an empty text is everywhere; write for example \"/\"",
            ));
        }
        match (&self.to, &self.into) {
            (Some(to), None) if !to.is_empty() => {
                let to = to.iter().map(|name| name.as_str().into()).collect();
                Ok(Box::new(Split { field, delimiter, to }))
            }
            (None, Some(into)) => {
                Ok(Box::new(SplitInto { field, delimiter, into: into.as_str().into() }))
            }
            _ => Err(fault("/split", "needs one of `to` and `into`; write for example to: [a, b]")),
        }
    }
}

impl LookupConfig {
    fn step(&self) -> Result<Box<dyn Step>, Fault> {
        let mut table = Table::default();
        if let Some(path) = &self.file {
            table.read(path).map_err(|message| fault("/lookup/file", message))?;
        }
        if self.table.is_empty() && self.file.is_none() {
            return Err(fault("/lookup", "has nothing to look in; write a `table` or a `file`"));
        }
        self.table.iter().for_each(|(key, value)| table.add(key.as_bytes(), value));
        let default = self.default.as_ref().map(|value| table.value(value));
        let to = target(self.to.as_ref(), &self.field);
        Ok(Box::new(Lookup { field: self.field.clone(), to, table, default }))
    }
}

impl HashConfig {
    fn step(&self) -> Result<Box<dyn Step>, Fault> {
        if self.key.is_some() && self.algorithm == Algorithm::Xxh3 {
            return Err(fault("/hash/key", "xxh3 keeps no secret; write algorithm: sha256"));
        }
        if self.key.as_ref().is_some_and(String::is_empty) {
            return Err(fault("/hash/key", "is empty; write for example key: ${HASH_KEY}"));
        }
        let to = target(self.to.as_ref(), &self.field);
        let key = self.key.as_ref().map(|key| key.as_bytes().to_vec());
        Ok(Box::new(Hash { field: self.field.clone(), to, algorithm: self.algorithm, key }))
    }
}

impl FieldsConfig {
    fn steps(&self) -> (Vec<Box<dyn Step>>, Vec<Fault>) {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        for (index, step) in self.steps.iter().enumerate() {
            if step.names().iter().any(|name| name.is_empty()) {
                let message = "a field without a name cannot be used; write its name";
                faults.push((format!("/steps/{index}"), message.to_owned()));
            }
            match step.step() {
                Ok(step) => steps.push(step),
                Err((key, message)) => faults.push((format!("/steps/{index}{key}"), message)),
            }
        }
        (steps, faults)
    }
}

impl Component for FieldsConfig {
    fn contents(&self) -> Vec<PathBuf> {
        let file = |step: &StepConfig| match step {
            StepConfig::Lookup(lookup) => lookup.file.clone(),
            _ => None,
        };
        self.steps.iter().filter_map(file).collect()
    }

    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<(String, String)> {
        self.steps().1
    }

    fn outputs(&self) -> Vec<String> {
        self.on_error.outputs()
    }
}

impl TransformComponent for FieldsConfig {
    fn build(self) -> Result<Transform, BuildError> {
        let (steps, faults) = self.steps();
        if let Some((key, message)) = faults.into_iter().next() {
            return Err(BuildError(format!("{key}: {message}")));
        }
        let names: Arc<[String]> = self.steps.iter().flat_map(StepConfig::names).cloned().collect();
        let (steps, on_error): (Arc<[Box<dyn Step>]>, _) = (steps.into(), self.on_error);
        let make = move || Fields { steps: steps.clone(), names: names.clone(), on_error };
        Ok(Transform::Map(Arc::new(move || Box::new(make()))))
    }
}
