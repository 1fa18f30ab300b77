//! Configuration of the `http` sink.

use super::HttpSink;
use super::packer::{BodyFormat, Framing};
use crate::codec::{Codec, Encoding};
use crate::component::{Component, SinkComponent};
use crate::sinks::http_delivery::{
    Access, BatchOptions, Jitter, RequestOptions, Settings, targets,
};
use millstream_compression::Algorithm;
use millstream_model::{BuildError, OptionError, Sink};
use millstream_transport::auth::AuthOptions;
use millstream_transport::tls::TlsFiles;
use millstream_transport::{HeaderValue, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Options for the `http` sink.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Address that requests are sent to.
    pub uri: Option<String>,
    /// Several equivalent addresses, used round-robin, instead of `uri`.
    pub endpoints: Vec<String>,
    /// Request method.
    pub method: RequestMethod,
    /// Additional headers to send with each request; `Content-Type` replaces the default.
    pub headers: BTreeMap<String, String>,
    /// The agent's credentials.
    pub auth: Option<AuthOptions>,
    /// TLS settings for connections to `https` addresses.
    pub tls: Option<TlsFiles>,
    /// HTTP proxy for connections to the endpoints, such as `http://proxy.example:3128`, or `none`.
    /// By default, the sink uses the environment variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`
    /// and `NO_PROXY`.
    pub proxy: Option<String>,
    /// Event encoding.
    pub encoding: Encoding,
    /// Framing of the events in a body. The default is `none` with the `msgpack` codec, otherwise
    /// `newline`.
    pub framing: Option<Framing>,
    /// Compression of request bodies.
    pub compression: Algorithm,
    /// Compression level: 1 to 9 for `gzip` and `zlib` (default 6), 1 to 19 for `zstd` (default 3).
    /// A higher level makes requests smaller but uses more CPU time.
    pub compression_level: Option<u32>,
    /// Limits on the events in a request.
    pub batch: BatchOptions,
    /// Timeouts and limits for requests.
    pub request: RequestOptions,
    /// Time window, after the end of a metric period, in which this host sends its metrics.
    pub spread: Jitter,
}

/// Request method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum RequestMethod {
    /// `POST`.
    #[default]
    #[serde(rename = "POST")]
    Post,
    /// `PUT`.
    #[serde(rename = "PUT")]
    Put,
}

impl HttpConfig {
    /// Returns the content type of a body. A configured header overrides it.
    fn content_type(&self) -> &'static str {
        match (self.framing(), self.encoding.codec) {
            (Framing::Length, _) => "application/octet-stream",
            (Framing::Newline, Codec::Json | Codec::RawJson) => "application/x-ndjson",
            (Framing::JsonArray, _) | (Framing::None, Codec::Json | Codec::RawJson) => {
                "application/json"
            }
            (_, Codec::Text) => "text/plain",
            (_, Codec::Msgpack) => "application/msgpack",
        }
    }

    fn framing(&self) -> Framing {
        let default =
            if self.encoding.codec == Codec::Msgpack { Framing::None } else { Framing::Newline };
        self.framing.unwrap_or(default)
    }

    fn check_framing(&self) -> Option<&'static str> {
        match (self.framing(), self.encoding.codec) {
            (Framing::JsonArray, Codec::Text) => {
                Some("json_array needs the json codec; use newline")
            }
            (Framing::JsonArray | Framing::Newline, Codec::Msgpack) => {
                Some("cannot be used with msgpack blocks; use length or none")
            }
            _ => None,
        }
    }

    fn access(&self) -> Access<'_> {
        Access { headers: &self.headers, auth: &self.auth, tls: &self.tls, proxy: &self.proxy }
    }

    fn settings(&self) -> Settings {
        let (targets, _) = targets(self.uri.as_deref(), &self.endpoints);
        let mut settings = Settings::new(targets, self.access(), self.batch, self.request);
        settings.method = match self.method {
            RequestMethod::Post => Method::POST,
            RequestMethod::Put => Method::PUT,
        };
        settings
            .headers
            .entry("content-type")
            .or_insert(HeaderValue::from_static(self.content_type()));
        settings
    }
}

impl Component for HttpConfig {
    fn check(&self) -> Vec<OptionError> {
        let (targets, mut errors) = targets(self.uri.as_deref(), &self.endpoints);
        errors.extend(self.access().check(&targets));
        errors.extend(self.encoding.check());
        errors.extend(self.check_framing().map(|text| OptionError::new("/framing", text)));
        let wrong =
            self.compression_level.and_then(|level| self.compression.check_level(level).err());
        errors.extend(wrong.map(|text| OptionError::new("/compression_level", text)));
        errors.extend(self.batch.check());
        errors.extend(self.request.check());
        errors
    }

    fn outputs(&self) -> Vec<String> {
        vec!["rejected".to_owned()]
    }

    fn proxies(&self) -> Vec<String> {
        self.access().proxies(&targets(self.uri.as_deref(), &self.endpoints).0)
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        self.access().files()
    }

    fn wants_metrics(&self) -> bool {
        self.encoding.codec == Codec::Msgpack
    }
}

impl SinkComponent for HttpConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        let settings = Arc::new(self.settings());
        if settings.targets.is_empty() {
            return Err(BuildError::Options(
                "`uri` is missing; use, for example, http://host:8080/path".to_owned(),
            ));
        }
        let format = BodyFormat {
            framing: self.framing(),
            line_ends: self.encoding.codec != Codec::Msgpack,
            is_json: self.encoding.codec.is_json(),
            compression: self.compression,
            level: self.compression_level,
            bytes_max: self.batch.bytes.0,
            events_max: self.batch.events,
        };
        Ok(Arc::new(HttpSink {
            settings,
            format,
            encoding: self.encoding.clone(),
            spread: self.spread,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn errors(options: Value) -> Vec<OptionError> {
        serde_json::from_value::<HttpConfig>(options).unwrap().check()
    }

    #[test]
    fn errors_beyond_the_schema_have_advice() {
        for (options, at) in [
            (json!({}), ""),
            (json!({ "uri": "http://h/", "endpoints": ["http://i/"] }), "/endpoints"),
            (json!({ "endpoints": ["http://h/", "h:80"] }), "/endpoints/1"),
            (json!({ "uri": "http://u:p@h/" }), "/uri"),
            (
                json!({ "uri": "http://h/", "headers": { "authorization": "x" } }),
                "/headers/authorization",
            ),
            (json!({ "uri": "http://h/", "headers": { "a b": "x" } }), "/headers/a b"),
            (json!({ "uri": "http://h/", "headers": { "x": "a\nb" } }), "/headers/x"),
            (json!({ "uri": "http://h/", "tls": {} }), "/tls"),
            (json!({ "uri": "https://h/", "tls": { "cert_file": "/c" } }), "/tls"),
            (json!({ "uri": "http://h/", "auth": { "type": "bearer" } }), "/auth"),
            (json!({ "uri": "http://h/", "compression_level": 3 }), "/compression_level"),
            (
                json!({ "uri": "http://h/", "framing": "json_array", "encoding": { "codec": "text" } }),
                "/framing",
            ),
            (
                json!({ "uri": "http://h/", "framing": "newline", "encoding": { "codec": "msgpack" } }),
                "/framing",
            ),
            (json!({ "uri": "http://h/", "batch": { "bytes": "1GiB" } }), "/batch/bytes"),
            (json!({ "uri": "http://h/", "request": { "rate_max": 0 } }), "/request/rate_max"),
        ] {
            let found = errors(options);
            assert_eq!(found.iter().map(|error| error.pointer.as_str()).collect::<Vec<_>>(), [at]);
            assert!(found[0].to_string().contains("; "), "{}", found[0].to_string());
        }
        assert_eq!(errors(json!({ "uri": "https://h/", "tls": {}, "compression": "zstd" })), []);
    }

    #[test]
    fn the_content_type_matches_the_body_unless_configured() {
        let content_type = |options: Value| {
            let settings = serde_json::from_value::<HttpConfig>(options).unwrap().settings();
            settings.headers["content-type"].to_str().unwrap().to_owned()
        };
        assert_eq!(content_type(json!({ "uri": "http://h/" })), "application/x-ndjson");
        assert_eq!(
            content_type(json!({ "uri": "http://h/", "framing": "json_array" })),
            "application/json"
        );
        let blocks = json!({ "uri": "http://h/", "encoding": { "codec": "msgpack" } });
        assert_eq!(content_type(blocks), "application/msgpack");
        let own = json!({ "uri": "http://h/", "headers": { "Content-Type": "text/csv" }, "encoding": { "codec": "text" } });
        assert_eq!(content_type(own), "text/csv");
    }
}
