//! Configuration of sink `tcp`.

use super::TcpSink;
use crate::codec::{Codec, Encoding};
use crate::registry::{Component, SinkComponent};
use crate::requests::{BatchOptions, access_files, under};
use millstream_compression::Algorithm;
use millstream_model::{BuildError, Interval, Sink, Size};
use millstream_transport::tcp::Address;
use millstream_transport::tls::{Tls, TlsFiles};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of sink `tcp`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpConfig {
    /// Where to send, as `host:port`.
    #[serde(default)]
    pub address: Option<String>,
    /// Several places instead of `address`: the next one is taken when one fails.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub addresses: Option<Vec<String>>,
    /// How events are encoded.
    #[serde(default)]
    pub encoding: Encoding,
    /// How the endpoint tells events apart.
    #[serde(default)]
    pub framing: Framing,
    /// How batches are compressed; needs `framing: length`.
    #[serde(default)]
    pub compression: Algorithm,
    /// Level of the compression.
    #[serde(default)]
    pub compression_level: Option<u32>,
    /// How events are collected to batches, where there are batches: with compression or
    /// acknowledgements.
    #[serde(default)]
    pub batch: Option<BatchOptions>,
    /// The endpoint answers which batches it has settled; needs `framing: length`.
    #[serde(default)]
    pub acknowledgements: bool,
    /// What may be on its way without being settled.
    #[serde(default)]
    pub window: Window,
    /// Connections; an origin always uses the same one.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 64))]
    pub connections: usize,
    /// Encrypts the connections.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// How long it may take to connect, TLS included.
    #[serde(default = "default_connect_timeout")]
    pub connect_timeout: Interval,
    /// How long the endpoint may take nothing and acknowledge nothing before another connection is
    /// tried.
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

/// How the endpoint tells events apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// A line end behind each event.
    #[default]
    Newline,
    /// The length before each frame, as 32 bits, the highest byte first. A frame is an event; with
    /// compression or acknowledgements it is a batch.
    Length,
    /// Not at all: one event behind the other.
    None,
}

/// What may be on its way without being settled.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Window {
    /// Bytes before compression.
    pub bytes: Size,
    /// Frames.
    #[schemars(range(min = 1))]
    pub frames: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { bytes: Size(4 * 1024 * 1024), frames: 256 }
    }
}

impl TcpConfig {
    /// Whether what is sent are batches, not single events.
    pub fn has_batches(&self) -> bool {
        self.acknowledgements || self.compression != Algorithm::None
    }

    /// Where to send.
    pub fn targets(&self) -> Vec<Address> {
        let texts = self.address.iter().chain(self.addresses.iter().flatten());
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    fn check_addresses(&self, faults: &mut Vec<(String, String)>) {
        match (&self.address, &self.addresses) {
            (None, None) => {
                faults.push((String::new(), "has no address; write `address: host:port`".into()))
            }
            (Some(_), Some(_)) => {
                faults.push((
                    "/address".into(),
                    "stands beside `addresses`; write one of them".into(),
                ));
            }
            _ => {}
        }
        let one = self.address.iter().map(|text| ("/address".to_owned(), text));
        let several = self.addresses.iter().flatten().enumerate();
        let several = several.map(|(index, text)| (format!("/addresses/{index}"), text));
        for (place, text) in one.chain(several) {
            if let Err(what) = text.parse::<Address>() {
                faults.push((place, what));
            }
        }
    }

    fn check_batches(&self, faults: &mut Vec<(String, String)>) {
        let is_length = self.framing == Framing::Length;
        if self.acknowledgements && !is_length {
            faults
                .push(("/acknowledgements".into(), "need frames; write `framing: length`".into()));
        }
        if self.compression != Algorithm::None && !is_length {
            faults.push(("/compression".into(), "needs frames; write `framing: length`".into()));
        }
        if self.encoding.codec == Codec::Msgpack && self.framing == Framing::Newline {
            faults.push((
                "/framing".into(),
                "does not fit `msgpack`; write `framing: length`".into(),
            ));
        }
        if let Some(Err(what)) =
            self.compression_level.map(|level| self.compression.check_level(level))
        {
            faults.push(("/compression_level".into(), what));
        }
        match &self.batch {
            Some(batch) if self.has_batches() => faults.extend(batch.check()),
            Some(_) => faults.push((
                "/batch".into(),
                "has no effect: events are sent at once without compression and acknowledgements; remove it"
                    .into(),
            )),
            None => {}
        }
    }
}

impl Component for TcpConfig {
    fn check(&self) -> Vec<(String, String)> {
        let mut faults = self.encoding.check();
        self.check_addresses(&mut faults);
        self.check_batches(&mut faults);
        if !(1..=64).contains(&self.connections) {
            faults.push(("/connections".into(), "is out of range; write 1 to 64".into()));
        }
        let batch_bytes = self.batch.unwrap_or_default().bytes.0;
        if self.has_batches() && self.window.bytes.0 < batch_bytes {
            faults.push((
                "/window/bytes".into(),
                format!(
                    "has no room for a batch of {batch_bytes} bytes; write more here or less in `batch.bytes`"
                ),
            ));
        }
        if self.window.frames == 0 {
            faults.push(("/window/frames".into(), "lets nothing out; write at least 1".into()));
        }
        faults.extend(self.tls.iter().flat_map(|tls| under("tls", tls.check())));
        faults
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        access_files(None, self.tls.as_ref())
    }

    fn wants_metrics(&self) -> bool {
        self.encoding.codec == Codec::Msgpack
    }
}

impl SinkComponent for TcpConfig {
    fn build(self) -> Result<Arc<dyn Sink>, BuildError> {
        let tls = self.tls.clone().map(|files| Arc::new(Tls::new(files)));
        Ok(Arc::new(TcpSink { config: Arc::new(self), tls }))
    }
}

#[cfg(test)]
mod tests;
