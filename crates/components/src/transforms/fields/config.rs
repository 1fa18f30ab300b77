//! Configuration of transform `fields`.

use crate::transforms::on_error::OnError;
use crate::transforms::parse::TypeConfig;
use crate::util::condition::Formula;
use crate::util::template::TextTemplate;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of transform `fields`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldsConfig {
    /// The steps, in order.
    #[schemars(length(min = 1))]
    pub steps: Vec<StepConfig>,
    /// What happens to an event with a value that cannot be cast to its type.
    #[serde(default)]
    pub on_error: OnError,
}

/// One step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepConfig {
    /// Renames fields.
    Rename(BTreeMap<String, String>),
    /// Drops fields; `message` too.
    Drop(Vec<String>),
    /// Drops all fields but these.
    Keep(Vec<String>),
    /// Copies values to more fields.
    Copy(BTreeMap<String, String>),
    /// Sets constants and templates.
    Set(BTreeMap<String, SetConfig>),
    /// Computes expressions.
    Compute(IndexMap<String, Formula>),
    /// Casts fields to types.
    Cast(BTreeMap<String, CastType>),
    /// Converts fields to lower case.
    Lower(Vec<String>),
    /// Converts fields to upper case.
    Upper(Vec<String>),
    /// Removes leading and trailing white space.
    Trim(Vec<String>),
    /// Extracts a part of a text.
    Substring(SubstringConfig),
    /// Splits a text.
    Split(SplitConfig),
    /// Joins several values into one text.
    Join(JoinConfig),
    /// Looks values up in a table.
    Lookup(LookupConfig),
    /// Hashes a value.
    Hash(HashConfig),
    /// Parses a URL.
    Url(UrlConfig),
    /// Replaces dots in the names of all fields, and of members of objects in them.
    ReplaceDots(String),
}

/// The value of a field.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SetConfig {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text, which may contain fields.
    Text(TextTemplate),
}

/// A value of a table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Constant {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

/// The type of a field, as in transform `parse`.
pub type CastType = TypeConfig;

/// Options of step `substring`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubstringConfig {
    /// The field to take a part of.
    pub field: String,
    /// The first character, counted from 0; from the end, if negative.
    #[serde(default)]
    pub from: i64,
    /// Maximum characters; the rest by default.
    pub length: Option<u64>,
    /// The field for the result; `field` by default.
    pub to: Option<String>,
}

/// Options of step `split`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitConfig {
    /// The field to split.
    pub field: String,
    /// The delimiter between two pieces.
    pub delimiter: String,
    /// The fields for the pieces, in order; the last gets the rest.
    pub to: Option<Vec<String>>,
    /// The field for a list of all pieces.
    pub into: Option<String>,
}

/// Options of step `join`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinConfig {
    /// The fields, in order; missing ones are skipped.
    pub fields: Vec<String>,
    /// The delimiter between two of them.
    #[serde(default)]
    pub delimiter: String,
    /// The field for the result.
    pub to: String,
}

/// Options of step `lookup`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookupConfig {
    /// The field to look up.
    pub field: String,
    /// The field for the result; `field` by default.
    pub to: Option<String>,
    /// Values by key.
    #[serde(default)]
    pub table: BTreeMap<String, Constant>,
    /// A CSV file of `key,value` lines. `table` takes precedence.
    pub file: Option<PathBuf>,
    /// The value for all other keys.
    pub default: Option<Constant>,
}

/// Options of step `hash`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HashConfig {
    /// The field to hash.
    pub field: String,
    /// The field for the hash; `field` by default.
    pub to: Option<String>,
    /// The hash function.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// A secret that turns the hash into an HMAC.
    pub key: Option<String>,
}

/// A hash function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// SHA-256: 64 hexadecimal digits.
    #[default]
    Sha256,
    /// XXH3: 16 hexadecimal digits; fast, but anyone can construct collisions.
    Xxh3,
}

/// Options of step `url`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlConfig {
    /// The field to parse.
    pub field: String,
    /// Prefix of the names of the new fields.
    #[serde(default = "url_prefix")]
    pub prefix: String,
    /// How the query is stored.
    #[serde(default)]
    pub query: Query,
}

fn url_prefix() -> String {
    "url_".to_owned()
}

/// How the query of a URL is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Query {
    /// As a field, unchanged.
    #[default]
    Text,
    /// As a field per parameter, decoded.
    Fields,
}
