//! The registry: one row per component type.
//!
//! A new component needs a folder, and a module and a row in `sources`, `transforms` or `sinks`.

use crate::util::condition::Condition;
use crate::util::template::{Template, Use};
use crate::{sinks, sources, transforms};
use millstream_model::Kind;
use millstream_patterns::{PatternUse, pattern_fault};

pub use crate::row::Row;

/// Returns every component type.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [sources::ROWS, transforms::ROWS, sinks::ROWS].into_iter().flatten()
}

/// Component types for tests of the engine. Releases do not include them.
#[cfg(feature = "test-components")]
static TEST_ROWS: &[Row] = &[Row {
    kind: Kind::Transform,
    name: "test_offload",
    decode: |options| {
        let config: crate::test_offload::TestOffloadConfig = serde_json::from_value(options)?;
        Ok(crate::component::AnyComponent::Transform(std::sync::Arc::new(config)))
    },
    schema: || schemars::schema_for!(crate::test_offload::TestOffloadConfig),
    sample: "",
    readme: "",
}];

#[cfg(not(feature = "test-components"))]
static TEST_ROWS: &[Row] = &[];

/// Looks up the row of a component type.
pub fn find(kind: Kind, name: &str) -> Option<&'static Row> {
    rows().chain(TEST_ROWS).find(|row| row.kind == kind && row.name == name)
}

/// Checks a string; the error says what to use instead.
pub type CheckText = fn(&str) -> Result<(), String>;

/// Checks of the text formats that schemas name.
pub static FORMATS: &[(&str, CheckText)] = &[
    ("aggregate", |text| text.parse::<crate::transforms::windows::Emit>().map(drop)),
    ("condition", |text| Condition::new(text).map(drop)),
    ("expression", crate::util::condition::check_expression),
    ("glob", millstream_tail::discover::check_glob),
    ("regex", regex),
    ("path template", |text| Template::parse(text, Use::Path).map(drop)),
    ("topic template", |text| Template::parse(text, Use::Topic).map(drop)),
    ("index template", |text| Template::parse(text, Use::Index).map(drop)),
    ("template", |text| Template::parse(text, Use::Text).map(drop)),
    ("date-time", |text| crate::util::formats::parse_rfc3339(text).map(drop)),
];

fn regex(pattern: &str) -> Result<(), String> {
    let checked = regex::bytes::Regex::new(pattern);
    checked.map(drop).map_err(|error| {
        let fault = pattern_fault(pattern, &error.to_string(), PatternUse::Condition);
        format!("invalid regular expression: {fault}")
    })
}
