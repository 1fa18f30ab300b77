//! Components that change data.

pub mod aggregate;
pub mod dedupe;
pub mod fields;
pub mod filter;
pub mod jvm;
pub mod on_error;
pub mod parse;
pub mod redact;
pub mod route;
mod rows;
pub mod rules;
pub mod sample;
pub mod throttle;
pub(crate) mod windows;

pub use windows::rewrite_snapshot;

use crate::row::{Row, row};

/// The transforms.
pub static ROWS: &[Row] = &[
    row!(Transform, aggregate::AggregateConfig, "aggregate", "transforms/aggregate"),
    row!(Transform, dedupe::DedupeConfig, "dedupe", "transforms/dedupe"),
    row!(Transform, fields::FieldsConfig, "fields", "transforms/fields"),
    row!(Transform, filter::FilterConfig, "filter", "transforms/filter"),
    row!(Transform, jvm::JvmConfig, "jvm", "transforms/jvm"),
    row!(Transform, parse::ParseConfig, "parse", "transforms/parse"),
    row!(Transform, redact::RedactConfig, "redact", "transforms/redact"),
    row!(Transform, route::RouteConfig, "route", "transforms/route"),
    row!(Transform, rules::RulesConfig, "rules", "transforms/rules"),
    row!(Transform, sample::SampleConfig, "sample", "transforms/sample"),
    row!(Transform, throttle::ThrottleConfig, "throttle", "transforms/throttle"),
];
