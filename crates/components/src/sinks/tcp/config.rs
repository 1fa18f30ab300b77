//! Configuration of the `tcp` sink.

use super::TcpSink;
use crate::codec::{Codec, Encoding};
use crate::component::{Component, SinkComponent};
use crate::sinks::http_delivery::{BatchOptions, access_files, under};
use millstream_compression::Algorithm;
use millstream_model::{BuildError, Interval, OptionError, Sink, Size};
use millstream_transport::tcp::Address;
use millstream_transport::tls::{Tls, TlsFiles};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options for the `tcp` sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpConfig {
    /// Address of the endpoint, as `host:port`.
    #[serde(default)]
    pub address: Option<String>,
    /// List of `host:port` addresses, used instead of `address`. If one fails, the sink switches to
    /// the next.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub addresses: Option<Vec<String>>,
    /// Event encoding.
    #[serde(default)]
    pub encoding: Encoding,
    /// How events are delimited in the stream.
    #[serde(default)]
    pub framing: Framing,
    /// Compression of batches; requires `framing: length`.
    #[serde(default)]
    pub compression: Algorithm,
    /// Compression level: 1 to 9 for `gzip` and `zlib` (default 6), 1 to 19 for `zstd` (default 3).
    #[serde(default)]
    pub compression_level: Option<u32>,
    /// Limits on the events in a batch. Batches exist only with compression or acknowledgements.
    #[serde(default)]
    pub batch: Option<BatchOptions>,
    /// Whether the endpoint acknowledges batches with the frame protocol; requires
    /// `framing: length`.
    #[serde(default)]
    pub acknowledgements: bool,
    /// Limits on unsettled data in flight.
    #[serde(default)]
    pub window: Window,
    /// Number of connections, 1 to 64. Each origin always uses the same connection, so its events
    /// stay in order.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 64))]
    pub connections: usize,
    /// TLS settings for the connections. Without them, the connections are not encrypted.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Maximum time for connecting, including TLS.
    #[serde(default = "default_connect_timeout")]
    pub connect_timeout: Interval,
    /// Maximum time that the endpoint may neither accept nor acknowledge data while data is in
    /// flight. After this time, the sink reconnects.
    #[serde(default = "default_timeout")]
    pub timeout: Interval,
}

fn default_connections() -> usize {
    1
}

fn default_connect_timeout() -> Interval {
    Interval(Duration::from_secs(10))
}

fn default_timeout() -> Interval {
    Interval(Duration::from_secs(30))
}

/// How events are delimited in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// A line feed after each event.
    #[default]
    Newline,
    /// A 32-bit big-endian length before each frame. A frame holds one event, or one batch with
    /// compression or acknowledgements.
    Length,
    /// Events without separators.
    None,
}

/// Limits on unsettled data in flight.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Window {
    /// Maximum number of bytes in flight, before compression. Raise it for an endpoint with a long
    /// round-trip time.
    pub bytes: Size,
    /// Maximum number of frames in flight.
    #[schemars(range(min = 1))]
    pub frames: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { bytes: Size(4 * 1024 * 1024), frames: 256 }
    }
}

impl TcpConfig {
    /// Returns whether frames are batches rather than payloads.
    pub fn has_batches(&self) -> bool {
        self.acknowledgements || self.compression != Algorithm::None
    }

    /// Returns the name of the payload format. Payloads contain the delimiters of their events. A
    /// batch has no delimiters, so its format names only the codec, which the endpoint learns once
    /// per connection.
    pub fn payload_format(&self) -> String {
        let delimiter = match self.framing {
            Framing::Newline => "newline",
            Framing::Length => "length",
            Framing::None => "none",
        };
        let codec = match self.encoding.codec {
            Codec::Json | Codec::RawJson => "json",
            Codec::Text => "text",
            Codec::Msgpack => "msgpack",
        };
        match self.has_batches() {
            true => format!("tcp/1 batch {codec}"),
            false => format!("tcp/1 {delimiter}"),
        }
    }

    /// Returns the addresses to send to.
    pub fn targets(&self) -> Vec<Address> {
        let texts = self.address.iter().chain(self.addresses.iter().flatten());
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    fn check_addresses(&self, errors: &mut Vec<OptionError>) {
        match (&self.address, &self.addresses) {
            (None, None) => {
                errors.push(OptionError::new("", "`address` is missing; use `address: host:port`"))
            }
            (Some(_), Some(_)) => {
                errors.push(OptionError::new(
                    "/address",
                    "conflicts with `addresses`; keep one of them",
                ));
            }
            _ => {}
        }
        let one = self.address.iter().map(|text| ("/address".to_owned(), text));
        let several = self.addresses.iter().flatten().enumerate();
        let several = several.map(|(index, text)| (format!("/addresses/{index}"), text));
        for (place, text) in one.chain(several) {
            if let Err(what) = text.parse::<Address>() {
                errors.push(OptionError::new(place, what));
            }
        }
    }

    fn check_batches(&self, errors: &mut Vec<OptionError>) {
        let mut error = |key: &str, message: &str| errors.push(OptionError::new(key, message));
        let is_length = self.framing == Framing::Length;
        if self.acknowledgements && !is_length {
            error("/acknowledgements", "requires frames; use `framing: length`");
        }
        if self.compression != Algorithm::None && !is_length {
            error("/compression", "requires frames; use `framing: length`");
        }
        if self.encoding.codec == Codec::Msgpack && self.framing == Framing::Newline {
            error("/framing", "cannot be used with `msgpack`; use `framing: length`");
        }
        if let Some(Err(what)) =
            self.compression_level.map(|level| self.compression.check_level(level))
        {
            errors.push(OptionError::new("/compression_level", what));
        }
        match &self.batch {
            Some(batch) if self.has_batches() => errors.extend(batch.check()),
            Some(_) => errors.push(OptionError::new(
                "/batch",
                "has no effect because events are sent immediately without compression and \
                 acknowledgements; remove it",
            )),
            None => {}
        }
    }
}

impl Component for TcpConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = self.encoding.check();
        self.check_addresses(&mut errors);
        self.check_batches(&mut errors);
        if !(1..=64).contains(&self.connections) {
            errors.push(OptionError::new("/connections", "is out of range; use 1 to 64"));
        }
        let batch_bytes = self.batch.unwrap_or_default().bytes.0;
        if self.has_batches() && self.window.bytes.0 < batch_bytes {
            errors.push(OptionError::new(
                "/window/bytes",
                format!(
                   "cannot hold a batch of {batch_bytes} bytes; increase it or reduce `batch.bytes`"
                ),
            ));
        }
        if self.window.frames == 0 {
            errors.push(OptionError::new(
                "/window/frames",
                "must allow at least one frame; use at least 1",
            ));
        }
        errors.extend(self.tls.iter().flat_map(|tls| under("tls", tls.check())));
        errors
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        access_files(None, self.tls.as_ref())
    }

    fn wants_metrics(&self) -> bool {
        self.encoding.codec == Codec::Msgpack
    }
}

impl SinkComponent for TcpConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        let tls = self.tls.clone().map(|files| Arc::new(Tls::new(files)));
        Ok(Arc::new(TcpSink { config: Arc::new(self.clone()), tls }))
    }
}

#[cfg(test)]
mod tests;
