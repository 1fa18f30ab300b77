//! A glob pattern in the configuration.

use schemars::JsonSchema;
use serde::Deserialize;

/// A glob pattern.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(inline, extend("format" = "glob"))]
pub struct Glob(pub String);
