//! Configuration of the `fields` transform.

use crate::transforms::on_error::OnError;
use crate::transforms::parse::TypeConfig;
use crate::util::condition::Formula;
use crate::util::template::TextTemplate;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options for the `fields` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldsConfig {
    /// The steps, which run in order.
    #[schemars(length(min = 1))]
    pub steps: Vec<StepConfig>,
    /// What happens to an event with a value that the `cast` step cannot convert.
    #[serde(default)]
    pub on_error: OnError,
}

/// One step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepConfig {
    /// Renames fields.
    Rename(BTreeMap<String, String>),
    /// Drops fields, which can include `message`.
    Drop(Vec<String>),
    /// Drops all fields except these.
    Keep(Vec<String>),
    /// Copies values to additional fields; each key is a field, and its value is the new name.
    Copy(BTreeMap<String, String>),
    /// Sets fields to constants and templates.
    Set(BTreeMap<String, SetConfig>),
    /// Sets fields to the values of expressions.
    Compute(IndexMap<String, Formula>),
    /// Converts fields to types.
    Cast(BTreeMap<String, CastType>),
    /// Converts fields to lowercase.
    Lower(Vec<String>),
    /// Converts fields to uppercase.
    Upper(Vec<String>),
    /// Removes leading and trailing whitespace.
    Trim(Vec<String>),
    /// Extracts a substring.
    Substring(SubstringConfig),
    /// Splits a string into pieces.
    Split(SplitConfig),
    /// Joins several values into one string.
    Join(JoinConfig),
    /// Looks values up in a table.
    Lookup(LookupConfig),
    /// Hashes a value.
    Hash(HashConfig),
    /// Parses a URL into fields.
    Url(UrlConfig),
    /// Normalizes levels to one scale.
    Severity(SeverityConfig),
    /// Replaces the dots in all field names, and in the names of object members, with this text.
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
    /// A text template, which may contain fields.
    Text(TextTemplate),
}

/// A value in a lookup table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Constant {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A string.
    Text(String),
}

/// The type of a field, as in the `parse` transform.
pub type CastType = TypeConfig;

/// Options for the `substring` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubstringConfig {
    /// The field to extract from.
    pub field: String,
    /// First character of the part, counted from 0; a negative number counts from the end.
    #[serde(default)]
    pub from: i64,
    /// Maximum number of characters. The default is the remaining text.
    pub length: Option<u64>,
    /// Field for the result. The default is `field`.
    pub to: Option<String>,
}

/// Options for the `split` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitConfig {
    /// The field to split.
    pub field: String,
    /// Delimiter between two pieces.
    pub delimiter: String,
    /// Fields for the pieces, in order; the last field gets the remaining text.
    pub to: Option<Vec<String>>,
    /// Field for a list of all pieces.
    pub into: Option<String>,
}

/// Options for the `join` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinConfig {
    /// Fields to join, in order; missing fields are skipped.
    pub fields: Vec<String>,
    /// Delimiter between two values.
    #[serde(default)]
    pub delimiter: String,
    /// Field for the result.
    pub to: String,
}

/// Options for the `lookup` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookupConfig {
    /// Field whose value is looked up.
    pub field: String,
    /// Field for the result. The default is `field`.
    pub to: Option<String>,
    /// Lookup table that maps each key to its value.
    #[serde(default)]
    pub table: BTreeMap<String, Constant>,
    /// CSV file of `key,value` lines. Keys in `table` take precedence.
    pub file: Option<PathBuf>,
    /// Value for keys that are not in the table. Without it, such keys create no field.
    pub default: Option<Constant>,
}

/// Options for the `hash` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HashConfig {
    /// The field to hash.
    pub field: String,
    /// Field for the hash. The default is `field`.
    pub to: Option<String>,
    /// The hash function.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// Secret key that turns the hash into an HMAC, so that readers without the key cannot test
    /// guesses.
    pub key: Option<String>,
}

/// A hash function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// SHA-256: 64 hexadecimal digits.
    #[default]
    Sha256,
    /// XXH3: 16 hexadecimal digits. Fast, but collisions are easy to construct.
    Xxh3,
}

/// Options for the `url` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlConfig {
    /// The field to parse.
    pub field: String,
    /// Prefix for the new field names.
    #[serde(default = "url_prefix")]
    pub prefix: String,
    /// How the URL's query is stored.
    #[serde(default)]
    pub query: Query,
}

fn url_prefix() -> String {
    "url_".to_owned()
}

/// How a URL's query is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Query {
    /// As a field, unchanged.
    #[default]
    Text,
    /// As one field per parameter, decoded.
    Fields,
}

/// Options for the `severity` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeverityConfig {
    /// Fields to read. The first field with a value counts.
    #[serde(default = "severity_fields")]
    pub fields: Vec<String>,
    /// Meaning of numbers.
    #[serde(default)]
    pub numbers: Numbers,
    /// Field for the name of the level.
    #[serde(default = "level_field")]
    pub to: String,
    /// Field for the number of the severity. An event that has a valid number keeps it.
    #[serde(default = "number_field")]
    pub number: String,
}

fn severity_fields() -> Vec<String> {
    super::severity::FIELDS.map(str::to_owned).into()
}

fn level_field() -> String {
    "level".to_owned()
}

fn number_field() -> String {
    "severity_number".to_owned()
}

/// Meaning of numbers in a level field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Numbers {
    /// From 0 to 7 as in syslog; 10, 20, 30, 40, 50 and 60 as in pino and bunyan.
    #[default]
    Auto,
    /// 10, 20, 30, 40 and 50 as in Python's `logging`.
    Python,
    /// From 1 to 24 as in OpenTelemetry.
    Otel,
}
