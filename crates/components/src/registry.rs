//! The registry: one row per component type.
//!
//! Adding a component is its folder and one row of [`ROWS`].

use crate::condition::Condition;
use crate::template::{Template, Use};
use crate::{sinks, sources, transforms};
use millstream_model::{BuildError, Kind, Sink, Source, SourceOpen, Transform};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of a component, as configured.
pub trait Component: DeserializeOwned + JsonSchema + Send + 'static {
    /// Returns the errors in options that match the schema, as (JSON pointer, "what is wrong; what
    /// to write instead").
    fn check(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the names of its side outputs, in the order of their index, which starts at 1.
    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns descriptions of the resources that only one component of an agent may use.
    fn claims(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the files it writes, as absolute paths. Only one component may write a file.
    fn writes(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns whether it would read the file at this absolute path.
    fn reads(&self, _: &Path) -> bool {
        false
    }

    /// Returns the files of secrets and certificates that it reads when it connects, each with the
    /// JSON pointer of its option.
    fn files(&self) -> Vec<(String, PathBuf)> {
        Vec::new()
    }

    /// Returns the files that it reads when it is built. A reload rebuilds the component if their
    /// content has changed.
    fn contents(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns whether it can produce metrics from input that is not metrics: as a source from
    /// nothing, as a transform from lines.
    fn makes_metrics(&self) -> bool {
        false
    }

    /// Returns whether, as a sink, it accepts only metrics and skips all other events.
    fn wants_metrics(&self) -> bool {
        false
    }
}

/// A component that ingests data.
pub trait SourceComponent: Component {
    /// Opens the source.
    fn open(self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError>;
}

/// A component that transforms data.
pub trait TransformComponent: Component {
    /// Builds the transform.
    fn build(self) -> Result<Transform, BuildError>;
}

/// A component that emits data.
pub trait SinkComponent: Component {
    /// Builds the sink.
    fn build(self) -> Result<Arc<dyn Sink>, BuildError>;
}

/// Opens a source.
pub type OpenSource = Box<dyn FnOnce(SourceOpen) -> Result<Box<dyn Source>, BuildError> + Send>;

/// How a row constructs its component from options that match the schema.
#[derive(Clone, Copy)]
pub enum Build {
    /// Opens a source.
    Source(fn(Value) -> Result<OpenSource, BuildError>),
    /// Builds a transform.
    Transform(fn(Value) -> Result<Transform, BuildError>),
    /// Builds a sink.
    Sink(fn(Value) -> Result<Arc<dyn Sink>, BuildError>),
}

/// One component type.
pub struct Row {
    /// Its type in the configuration.
    pub name: &'static str,
    /// Its kind and constructor.
    pub build: Build,
    /// JSON Schema of its specific options.
    pub schema: fn() -> schemars::Schema,
    /// Returns the errors in options that match the schema.
    pub check: fn(Value) -> Vec<(String, String)>,
    /// Names of its side outputs.
    pub outputs: fn(Value) -> Vec<String>,
    /// Resources that only one component of an agent may use.
    pub claims: fn(Value) -> Vec<String>,
    /// Files it writes.
    pub writes: fn(Value) -> Vec<PathBuf>,
    /// Whether it would read the file at this absolute path.
    pub reads: fn(Value, &Path) -> bool,
    /// Files that it reads when it connects, each with the JSON pointer of its option.
    pub files: fn(Value) -> Vec<(String, PathBuf)>,
    /// Files that it reads when it is built.
    pub contents: fn(Value) -> Vec<PathBuf>,
    /// Whether it can produce metrics from input that is not metrics.
    pub makes_metrics: fn(Value) -> bool,
    /// Whether it accepts only metrics.
    pub wants_metrics: fn(Value) -> bool,
    /// A configuration that shows every option: both documentation and test.
    pub sample: &'static str,
    /// Its user documentation.
    pub readme: &'static str,
}

impl Row {
    /// Returns the role of the component in the topology.
    pub fn kind(&self) -> Kind {
        match self.build {
            Build::Source(_) => Kind::Source,
            Build::Transform(_) => Kind::Transform,
            Build::Sink(_) => Kind::Sink,
        }
    }
}

macro_rules! row {
    ($make:ident, $config:ty, $name:literal, $folder:literal) => {
        Row {
            name: $name,
            build: $make::<$config>(),
            schema: || schemars::schema_for!($config),
            check: check::<$config>,
            outputs: outputs::<$config>,
            claims: claims::<$config>,
            writes: writes::<$config>,
            reads: reads::<$config>,
            files: files::<$config>,
            contents: contents::<$config>,
            makes_metrics: makes_metrics::<$config>,
            wants_metrics: wants_metrics::<$config>,
            sample: include_str!(concat!($folder, "/sample.yaml")),
            readme: include_str!(concat!($folder, "/README.md")),
        }
    };
}

/// Every component type.
pub static ROWS: &[Row] = &[
    row!(source, sources::dogstatsd::DogStatsdConfig, "dogstatsd", "sources/dogstatsd"),
    row!(source, sources::file::FileConfig, "file", "sources/file"),
    row!(source, sources::generate::GenerateConfig, "generate", "sources/generate"),
    row!(source, sources::host_metrics::HostMetricsConfig, "host_metrics", "sources/host_metrics"),
    row!(
        source,
        sources::internal_metrics::InternalMetricsConfig,
        "internal_metrics",
        "sources/internal_metrics"
    ),
    row!(source, sources::metricserver::MetricServerConfig, "metricserver", "sources/metricserver"),
    row!(source, sources::stdin::StdinConfig, "stdin", "sources/stdin"),
    row!(transform, transforms::dedupe::DedupeConfig, "dedupe", "transforms/dedupe"),
    row!(transform, transforms::fields::FieldsConfig, "fields", "transforms/fields"),
    row!(transform, transforms::filter::FilterConfig, "filter", "transforms/filter"),
    row!(transform, transforms::parse::ParseConfig, "parse", "transforms/parse"),
    row!(transform, transforms::redact::RedactConfig, "redact", "transforms/redact"),
    row!(transform, transforms::route::RouteConfig, "route", "transforms/route"),
    row!(transform, transforms::sample::SampleConfig, "sample", "transforms/sample"),
    row!(transform, transforms::throttle::ThrottleConfig, "throttle", "transforms/throttle"),
    row!(sink, sinks::blackhole::BlackholeConfig, "blackhole", "sinks/blackhole"),
    row!(sink, sinks::console::ConsoleConfig, "console", "sinks/console"),
    row!(sink, sinks::file::FileConfig, "file", "sinks/file"),
    row!(sink, sinks::http::HttpConfig, "http", "sinks/http"),
    row!(sink, sinks::kafka::KafkaConfig, "kafka", "sinks/kafka"),
    row!(
        sink,
        sinks::prometheus_exporter::PrometheusExporterConfig,
        "prometheus_exporter",
        "sinks/prometheus_exporter"
    ),
    row!(
        sink,
        sinks::prometheus_remote_write::PrometheusRemoteWriteConfig,
        "prometheus_remote_write",
        "sinks/prometheus_remote_write"
    ),
    row!(sink, sinks::tcp::TcpConfig, "tcp", "sinks/tcp"),
];

/// Looks up the row of a component type.
pub fn find(kind: Kind, name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.kind() == kind && row.name == name)
}

const fn source<C: SourceComponent>() -> Build {
    Build::Source(|options| {
        let config: C = decode(options)?;
        Ok(Box::new(move |open| config.open(open)))
    })
}

const fn transform<C: TransformComponent>() -> Build {
    Build::Transform(|options| decode::<C>(options)?.build())
}

const fn sink<C: SinkComponent>() -> Build {
    Build::Sink(|options| decode::<C>(options)?.build())
}

fn decode<C: Component>(options: Value) -> Result<C, BuildError> {
    serde_json::from_value(options).map_err(|error| BuildError(error.to_string()))
}

fn check<C: Component>(options: Value) -> Vec<(String, String)> {
    match serde_json::from_value::<C>(options) {
        Ok(config) => config.check(),
        Err(error) => {
            vec![(String::new(), format!("{error}; compare with the sample of this component"))]
        }
    }
}

fn claims<C: Component>(options: Value) -> Vec<String> {
    serde_json::from_value::<C>(options).map(|config| config.claims()).unwrap_or_default()
}

fn writes<C: Component>(options: Value) -> Vec<PathBuf> {
    serde_json::from_value::<C>(options).map(|config| config.writes()).unwrap_or_default()
}

fn reads<C: Component>(options: Value, path: &Path) -> bool {
    serde_json::from_value::<C>(options).is_ok_and(|config| config.reads(path))
}

fn files<C: Component>(options: Value) -> Vec<(String, PathBuf)> {
    serde_json::from_value::<C>(options).map(|config| config.files()).unwrap_or_default()
}

fn contents<C: Component>(options: Value) -> Vec<PathBuf> {
    serde_json::from_value::<C>(options).map(|config| config.contents()).unwrap_or_default()
}

fn makes_metrics<C: Component>(options: Value) -> bool {
    serde_json::from_value::<C>(options).is_ok_and(|config| config.makes_metrics())
}

fn wants_metrics<C: Component>(options: Value) -> bool {
    serde_json::from_value::<C>(options).is_ok_and(|config| config.wants_metrics())
}

fn outputs<C: Component>(options: Value) -> Vec<String> {
    serde_json::from_value::<C>(options).map(|config| config.outputs()).unwrap_or_default()
}

/// Describes the claim on a TCP address. `None` for port 0, where each bind gets an unused port.
pub fn tcp_claim(address: SocketAddr) -> Option<String> {
    (address.port() != 0).then(|| format!("the TCP address {address}"))
}

/// Checks a text; the error says what to write instead.
pub type CheckText = fn(&str) -> Result<(), String>;

/// Checks of the text formats that schemas name.
pub static FORMATS: &[(&str, CheckText)] = &[
    ("condition", |text| Condition::new(text).map(drop)),
    ("expression", crate::condition::check_expression),
    ("glob", glob),
    ("regex", regex),
    ("path template", |text| Template::parse(text, Use::Path).map(drop)),
    ("topic template", |text| Template::parse(text, Use::Topic).map(drop)),
    ("template", |text| Template::parse(text, Use::Text).map(drop)),
    ("date-time", |text| crate::formats::parse_rfc3339(text).map(drop)),
];

fn glob(pattern: &str) -> Result<(), String> {
    crate::files::discover::check_glob(pattern)
}

fn regex(pattern: &str) -> Result<(), String> {
    let checked = regex::bytes::Regex::new(pattern);
    checked
        .map(drop)
        .map_err(|error| format!("invalid regular expression: {}", last_line(&error.to_string())))
}

/// Returns the last line of a regex error, which has the reason; the lines before it mark the
/// position.
fn last_line(message: &str) -> &str {
    message.lines().last().unwrap_or(message).trim_start_matches("error: ")
}
