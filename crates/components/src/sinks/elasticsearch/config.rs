//! Configuration of the `elasticsearch` sink.

use super::ElasticsearchSink;
use crate::codec::bulk::{Action, Id, Indexes, OpType};
use crate::codec::{Encoding, TimestampFormat};
use crate::component::{Component, SinkComponent};
use crate::sinks::http_delivery::{Access, BatchOptions, RequestOptions, Settings};
use crate::util::template::{IndexTemplate, Template, TextTemplate, Use};
use millstream_compression::Algorithm;
use millstream_model::{BuildError, Interval, OptionError, Sink};
use millstream_transport::auth::AuthOptions;
use millstream_transport::tls::TlsFiles;
use millstream_transport::{HeaderValue, Target};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Path of a bulk request. Its filter reduces the response to the results of the items, in order,
/// and their errors.
const BULK: &str = "/_bulk?filter_path=errors,items.*.status,items.*.error,error";

/// Default gzip and zlib level, which is twice as fast as the library's default of 6.
const FAST_LEVEL: u32 = 1;

/// Options for the `elasticsearch` sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ElasticsearchConfig {
    /// Node addresses in one cluster, used round-robin. The sink appends `_bulk` to the path of
    /// each address.
    #[schemars(length(min = 1))]
    pub endpoints: Vec<String>,
    /// Index that an event is written to, as a template. Dates in the template come from the event
    /// time.
    #[serde(default)]
    pub index: Option<IndexTemplate>,
    /// Data stream that events are written to, instead of `index`.
    #[serde(default)]
    pub data_stream: Option<DataStream>,
    /// Operation for each event: `create` keeps an existing document, and `index` replaces it. Data
    /// streams accept only `create`.
    #[serde(default)]
    pub op_type: OpType,
    /// Document id, as a template. The default, which also applies to events without the field, is
    /// the event id, so that a repeated event becomes the same document. `''` lets the server
    /// choose ids; repeated events then become duplicates.
    #[serde(default = "event_id")]
    pub id: TextTemplate,
    /// Routing value for a document, as a template. An event without the field gets no routing
    /// value. Set it for an index with custom routing.
    #[serde(default)]
    pub routing: Option<TextTemplate>,
    /// Ingest pipeline for a document, as a template. An event without the field gets no pipeline.
    #[serde(default)]
    pub pipeline: Option<TextTemplate>,
    /// Maximum number of indexes that receive events within an hour; events for additional indexes
    /// are rejected. The limit protects the cluster from a template that renders too many names.
    #[serde(default = "indexes_max")]
    #[schemars(range(min = 1))]
    pub indexes_max: usize,
    /// Key of the event time in a document. Change it for an index whose mapping expects another
    /// name.
    #[serde(default = "timestamp_key")]
    pub timestamp_key: String,
    /// Document encoding.
    #[serde(default)]
    pub encoding: Encoding,
    /// Additional headers to send with each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The agent's credentials.
    #[serde(default)]
    pub auth: Option<AuthOptions>,
    /// TLS settings for connections to `https` addresses.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// HTTP proxy for connections to the endpoints, such as `http://proxy.example:3128`, or `none`.
    /// By default, the sink uses the environment variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`
    /// and `NO_PROXY`.
    #[serde(default)]
    pub proxy: Option<String>,
    /// Compression of request bodies.
    #[serde(default = "gzip")]
    pub compression: Algorithm,
    /// Compression level: 1 to 9 for `gzip` and `zlib` (default 1), 1 to 19 for `zstd` (default 3).
    /// A higher level makes requests smaller but uses more CPU time.
    #[serde(default)]
    pub compression_level: Option<u32>,
    /// Limits on the events in a request.
    #[serde(default)]
    pub batch: BatchOptions,
    /// Timeouts and limits for requests.
    #[serde(default)]
    pub request: BulkRequestOptions,
}

/// A data stream name `TYPE-DATASET-NAMESPACE`; each part is a template.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataStream {
    /// Type of the data, the first part of the name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Dataset, the second part of the name. It identifies what produces the data.
    pub dataset: String,
    /// Namespace, the third part of the name: any grouping, such as an environment.
    pub namespace: String,
}

impl Default for DataStream {
    fn default() -> DataStream {
        let [kind, dataset, namespace] = ["logs", "generic", "default"].map(str::to_owned);
        DataStream { kind, dataset, namespace }
    }
}

impl DataStream {
    fn template(&self) -> Result<Template, String> {
        let name = format!("{}-{}-{}", self.kind, self.dataset, self.namespace);
        Template::parse(&name, Use::Index)
    }
}

/// Timeouts and limits for bulk requests.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BulkRequestOptions {
    /// Maximum time for a request, from connecting to the end of the response. Raise it for a
    /// cluster that indexes slowly.
    pub timeout: Interval,
    /// Maximum time for connecting, including TLS.
    pub connect_timeout: Interval,
    /// Maximum number of requests in flight, 1 to 64. The sink starts with one, adds more while the
    /// cluster keeps up, and halves the number when the cluster is overloaded.
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: usize,
    /// Maximum number of requests per second, including retries. The default is unlimited.
    #[schemars(range(min = 0.001))]
    pub rate_max: Option<f64>,
}

impl Default for BulkRequestOptions {
    fn default() -> BulkRequestOptions {
        BulkRequestOptions {
            timeout: Interval(Duration::from_secs(60)),
            connect_timeout: Interval(Duration::from_secs(10)),
            concurrency: 8,
            rate_max: None,
        }
    }
}

impl From<BulkRequestOptions> for RequestOptions {
    fn from(options: BulkRequestOptions) -> RequestOptions {
        let BulkRequestOptions { timeout, connect_timeout, concurrency, rate_max } = options;
        RequestOptions { timeout, connect_timeout, concurrency, rate_max }
    }
}

fn event_id() -> TextTemplate {
    TextTemplate(Template::of_event_id())
}

fn indexes_max() -> usize {
    1000
}

fn timestamp_key() -> String {
    "@timestamp".to_owned()
}

fn gzip() -> Algorithm {
    Algorithm::Gzip
}

impl ElasticsearchConfig {
    /// Parses the endpoints. Returns the valid targets and the errors.
    fn targets(&self) -> (Vec<Arc<Target>>, Vec<OptionError>) {
        let (mut targets, mut errors) = (Vec::new(), Vec::new());
        if self.endpoints.is_empty() {
            let text = "has no address; use, for example, [\"http://127.0.0.1:9200\"]";
            errors.push(OptionError::new("/endpoints", text));
        }
        for (at, uri) in self.endpoints.iter().enumerate() {
            let target = match uri.contains('?') {
                true => Err("contains a query; remove it".to_owned()),
                false => Target::parse(uri).map_err(|error| error.to_string()),
            };
            match target {
                Ok(target) => {
                    let path = format!("{}{BULK}", target.path.trim_end_matches('/'));
                    targets.push(Arc::new(Target { path, ..target }));
                }
                Err(text) => errors.push(OptionError::new(format!("/endpoints/{at}"), text)),
            }
        }
        (targets, errors)
    }

    /// Returns the template of the index or data stream.
    fn destination(&self) -> Result<Template, OptionError> {
        match (&self.index, &self.data_stream) {
            (Some(index), None) => Ok(index.0.clone()),
            (None, Some(stream)) => {
                stream.template().map_err(|text| OptionError::new("/data_stream", text))
            }
            (Some(_), Some(_)) => {
                Err(OptionError::new("/data_stream", "conflicts with `index`; keep one of them"))
            }
            (None, None) => Err(OptionError::new(
                "",
                "`index` is missing; use, for example, index: logs-%Y.%m.%d, or data_stream: {}",
            )),
        }
    }

    fn check_documents(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        let mut error = |key: &str, message: &str| errors.push(OptionError::new(key, message));
        if self.data_stream.is_some() && self.op_type == OpType::Index {
            let text = "cannot be used with a data stream, which accepts only new documents; use \
                        create";
            error("/op_type", text);
        }
        if !self.encoding.codec.is_json() {
            error("/encoding/codec", "does not produce JSON documents; use json or raw_json");
        }
        if self.encoding.timestamp == TimestampFormat::Unix {
            let text = "is wrong because Elasticsearch reads a number as milliseconds; use unix_ms \
                        or rfc3339";
            error("/encoding/timestamp", text);
        }
        if matches!(self.compression, Algorithm::Snappy | Algorithm::Lz4) {
            let text = "is not supported by Elasticsearch; use gzip, zlib, zstd or none";
            error("/compression", text);
        }
        if self.timestamp_key.is_empty() || self.timestamp_key == "message" {
            error("/timestamp_key", "is not a key; use, for example, @timestamp");
        }
        if self.indexes_max == 0 {
            error("/indexes_max", "allows no index; use at least 1");
        }
        errors
    }

    /// Returns the document encoding, with the configured timestamp key.
    fn documents(&self) -> Encoding {
        Encoding { timestamp_key: self.timestamp_key.clone(), ..self.encoding.clone() }
    }

    fn access(&self) -> Access<'_> {
        Access { headers: &self.headers, auth: &self.auth, tls: &self.tls, proxy: &self.proxy }
    }

    fn settings(&self) -> Settings {
        let (targets, _) = self.targets();
        let mut settings = Settings::new(targets, self.access(), self.batch, self.request.into());
        let content_type = HeaderValue::from_static("application/x-ndjson");
        settings.headers.entry("content-type").or_insert(content_type);
        settings
    }

    fn level(&self) -> Option<u32> {
        let is_deflate = matches!(self.compression, Algorithm::Gzip | Algorithm::Zlib);
        self.compression_level.or(is_deflate.then_some(FAST_LEVEL))
    }
}

impl Component for ElasticsearchConfig {
    fn check(&self) -> Vec<OptionError> {
        let (targets, mut errors) = self.targets();
        errors.extend(self.destination().err());
        errors.extend(self.check_documents());
        errors.extend(self.access().check(&targets));
        errors.extend(self.documents().check());
        let wrong =
            self.compression_level.and_then(|level| self.compression.check_level(level).err());
        errors.extend(wrong.map(|text| OptionError::new("/compression_level", text)));
        errors.extend(self.batch.check());
        errors.extend(RequestOptions::from(self.request).check());
        errors
    }

    fn outputs(&self) -> Vec<String> {
        vec!["rejected".to_owned()]
    }

    fn proxies(&self) -> Vec<String> {
        self.access().proxies(&self.targets().0)
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        self.access().files()
    }
}

impl SinkComponent for ElasticsearchConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        let index = self.destination().map_err(|error| BuildError::Options(error.to_string()))?;
        let id = match self.id.0.text() {
            "" => None,
            _ if self.id.0.is_event_id() => Some(Id::Event),
            _ => Some(Id::Template(self.id.0.clone())),
        };
        let text = |template: &Option<TextTemplate>| template.as_ref().map(|inner| inner.0.clone());
        let action = Action {
            op_type: self.op_type,
            index,
            id,
            routing: text(&self.routing),
            pipeline: text(&self.pipeline),
            indexes: Indexes::new(self.indexes_max),
        };
        Ok(Arc::new(ElasticsearchSink {
            settings: Arc::new(self.settings()),
            action: Arc::new(action),
            encoding: self.documents(),
            compression: (self.compression, self.level()),
        }))
    }
}

#[cfg(test)]
mod tests;
