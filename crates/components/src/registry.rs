//! The registry: one row per component type.
//!
//! A new component needs a folder and one row of [`ROWS`].

use crate::component::AnyComponent;
use crate::util::condition::Condition;
use crate::util::template::{Template, Use};
use crate::{sinks, sources, transforms};
use millstream_model::Kind;
use millstream_patterns::{PatternUse, pattern_fault};
use serde_json::Value;
use std::sync::Arc;

/// One component type.
pub struct Row {
    /// Role of the component in the topology.
    pub kind: Kind,
    /// Type of the component in the configuration.
    pub name: &'static str,
    /// Decodes options that match the schema.
    pub decode: fn(Value) -> Result<AnyComponent, serde_json::Error>,
    /// Returns the JSON Schema of the component's specific options.
    pub schema: fn() -> schemars::Schema,
    /// Sample configuration with every option, which is documentation and also a test.
    pub sample: &'static str,
    /// User documentation.
    pub readme: &'static str,
}

macro_rules! row {
    ($kind:ident, $config:ty, $name:literal, $folder:literal) => {
        Row {
            kind: Kind::$kind,
            name: $name,
            decode: |options| {
                let config: $config = serde_json::from_value(options)?;
                Ok(AnyComponent::$kind(Arc::new(config)))
            },
            schema: || schemars::schema_for!($config),
            sample: include_str!(concat!($folder, "/sample.yaml")),
            readme: include_str!(concat!($folder, "/README.md")),
        }
    };
}

/// Every component type.
pub static ROWS: &[Row] = &[
    row!(Source, sources::dogstatsd::DogStatsdConfig, "dogstatsd", "sources/dogstatsd"),
    row!(Source, sources::file::FileConfig, "file", "sources/file"),
    row!(Source, sources::generate::GenerateConfig, "generate", "sources/generate"),
    row!(Source, sources::host_metrics::HostMetricsConfig, "host_metrics", "sources/host_metrics"),
    row!(
        Source,
        sources::internal_logs::InternalLogsConfig,
        "internal_logs",
        "sources/internal_logs"
    ),
    row!(
        Source,
        sources::internal_metrics::InternalMetricsConfig,
        "internal_metrics",
        "sources/internal_metrics"
    ),
    row!(Source, sources::jfr::JfrConfig, "jfr", "sources/jfr"),
    row!(Source, sources::jvm::JvmSourceConfig, "jvm", "sources/jvm"),
    row!(Source, sources::kafka::KafkaConfig, "kafka", "sources/kafka"),
    row!(Source, sources::metricserver::MetricServerConfig, "metricserver", "sources/metricserver"),
    row!(Source, sources::stdin::StdinConfig, "stdin", "sources/stdin"),
    row!(Transform, transforms::aggregate::AggregateConfig, "aggregate", "transforms/aggregate"),
    row!(Transform, transforms::dedupe::DedupeConfig, "dedupe", "transforms/dedupe"),
    row!(Transform, transforms::fields::FieldsConfig, "fields", "transforms/fields"),
    row!(Transform, transforms::filter::FilterConfig, "filter", "transforms/filter"),
    row!(Transform, transforms::jvm::JvmConfig, "jvm", "transforms/jvm"),
    row!(Transform, transforms::parse::ParseConfig, "parse", "transforms/parse"),
    row!(Transform, transforms::redact::RedactConfig, "redact", "transforms/redact"),
    row!(Transform, transforms::route::RouteConfig, "route", "transforms/route"),
    row!(Transform, transforms::rules::RulesConfig, "rules", "transforms/rules"),
    row!(Transform, transforms::sample::SampleConfig, "sample", "transforms/sample"),
    row!(Transform, transforms::throttle::ThrottleConfig, "throttle", "transforms/throttle"),
    row!(Sink, sinks::blackhole::BlackholeConfig, "blackhole", "sinks/blackhole"),
    row!(Sink, sinks::console::ConsoleConfig, "console", "sinks/console"),
    row!(Sink, sinks::elasticsearch::ElasticsearchConfig, "elasticsearch", "sinks/elasticsearch"),
    row!(Sink, sinks::file::FileConfig, "file", "sinks/file"),
    row!(Sink, sinks::http::HttpConfig, "http", "sinks/http"),
    row!(Sink, sinks::kafka::KafkaConfig, "kafka", "sinks/kafka"),
    row!(
        Sink,
        sinks::prometheus_exporter::PrometheusExporterConfig,
        "prometheus_exporter",
        "sinks/prometheus_exporter"
    ),
    row!(
        Sink,
        sinks::prometheus_remote_write::PrometheusRemoteWriteConfig,
        "prometheus_remote_write",
        "sinks/prometheus_remote_write"
    ),
    row!(Sink, sinks::tcp::TcpConfig, "tcp", "sinks/tcp"),
];

/// Component types for tests of the engine. Releases do not include them.
#[cfg(feature = "test-components")]
static TEST_ROWS: &[Row] = &[Row {
    kind: Kind::Transform,
    name: "test_offload",
    decode: |options| {
        let config: crate::test_offload::TestOffloadConfig = serde_json::from_value(options)?;
        Ok(AnyComponent::Transform(Arc::new(config)))
    },
    schema: || schemars::schema_for!(crate::test_offload::TestOffloadConfig),
    sample: "",
    readme: "",
}];

#[cfg(not(feature = "test-components"))]
static TEST_ROWS: &[Row] = &[];

/// Looks up the row of a component type.
pub fn find(kind: Kind, name: &str) -> Option<&'static Row> {
    ROWS.iter().chain(TEST_ROWS).find(|row| row.kind == kind && row.name == name)
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
