//! The packer: looks up series, accumulates deltas, and encodes requests.

use crate::sinks::http_delivery::{EncodedPayload, Packer, Request};
use crate::sinks::prometheus::{now_ms, rows_of};
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use millstream_encodings::prometheus::{
    Accumulator, Body, Options, RemoteWriteLabels, RequestBuilder, Rows, Version,
};
use millstream_model::Counters;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of remote write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Protocol {
    /// 2.0 if the endpoint supports it, otherwise 1.0.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// 1.0: supported by every backend.
    #[serde(rename = "1")]
    One,
    /// 2.0: smaller, with types and creation times.
    #[serde(rename = "2")]
    Two,
}

/// Header in which an endpoint that supports version 2 returns the number of samples written.
const WRITTEN: &str = "x-prometheus-remote-write-samples-written";

/// Limits and format of requests.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Maximum events of a request.
    pub events: u64,
    /// Maximum bytes of a request before compression.
    pub bytes: usize,
    /// The protocol version, or `auto` to detect it.
    pub protocol: Protocol,
}

/// Packs rows into requests.
pub struct RemotePacker {
    accumulator: Accumulator<RemoteWriteLabels>,
    builder: RequestBuilder,
    limits: Limits,
    compressor: Compressor,
    counters: Arc<Counters>,
    refused: BTreeMap<&'static str, u64>,
    /// The version in use.
    version: Version,
    /// Whether the endpoint was probed for its version.
    probed: bool,
}

impl RemotePacker {
    /// Creates a packer without any series.
    pub fn new(options: Options, limits: Limits, counters: Arc<Counters>) -> RemotePacker {
        let (form, seed) = (RemoteWriteLabels::new(&options.distributions), options.seed);
        let version = if limits.protocol == Protocol::Two { Version::Two } else { Version::One };
        RemotePacker {
            accumulator: Accumulator::new(options, form),
            builder: RequestBuilder::new(version, seed),
            limits,
            compressor: Compressor::new(Algorithm::Snappy, None),
            counters,
            refused: BTreeMap::new(),
            version,
            probed: limits.protocol != Protocol::Auto,
        }
    }

    fn add(&mut self, (rows, text): (&Rows, &[u8]), now_ms: i64, requests: &mut Vec<Request>) {
        for row in rows.rows() {
            match self.accumulator.add((rows, row, text), now_ms, &mut self.builder) {
                Ok(()) => self.builder.end_event(),
                Err(refusal) => *self.refused.entry(refusal.reason()).or_default() += 1,
            }
            if self.builder.events() >= self.limits.events
                || self.builder.bytes() >= self.limits.bytes
            {
                self.finish(requests);
            }
        }
    }

    fn finish(&mut self, requests: &mut Vec<Request>) {
        if self.builder.events() > 0 {
            let body = self.builder.take();
            requests.extend(self.request(body));
        }
    }

    /// Builds a compressed request. `None` if compression runs out of memory: sums include what was
    /// dropped, so their next value makes up for it.
    fn request(&mut self, body: Body) -> Option<Request> {
        let events = body.events();
        let request = self.compressed(body);
        if request.is_none() {
            *self.refused.entry("compression").or_default() += events;
        }
        request
    }

    fn compressed(&mut self, body: Body) -> Option<Request> {
        let (version, compressed) = (body.version, self.compressor.compress(&body.parts()));
        let failed = |error| {
            log::error!("cannot compress a request: {error}; dropping its {} events", body.events())
        };
        Some(Request {
            body: vec![Bytes::from(compressed.map_err(failed).ok()?)],
            headers: vec![
                ("content-type", version.content_type().to_owned()),
                ("content-encoding", "snappy".to_owned()),
                ("x-prometheus-remote-write-version", version.number().to_owned()),
            ],
            events: body.events(),
            origin: Box::new(body),
        })
    }

    fn count(&mut self) {
        for (reason, events) in std::mem::take(&mut self.refused) {
            self.counters.dropped(reason, events);
        }
        self.counters.noted("label_cut", self.accumulator.take_cut());
    }
}

impl Packer for RemotePacker {
    fn pack(&mut self, payloads: Vec<EncodedPayload>) -> Vec<Request> {
        let (now_ms, mut requests) = (now_ms(), Vec::new());
        self.accumulator.sweep(now_ms);
        if !std::mem::replace(&mut self.probed, true) {
            requests.extend(self.request(Body::probe()));
        }
        self.builder.set_version(self.version);
        for EncodedPayload { parts, routing, .. } in &payloads {
            if let (Some(rows), [text]) = (rows_of(routing), &parts[..]) {
                self.add((rows, text), now_ms, &mut requests);
            }
        }
        self.finish(&mut requests);
        self.count();
        requests
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let halves = request.origin.downcast_ref::<Body>()?.split()?;
        let requests = halves.into_iter().filter_map(|body| self.request(body)).collect();
        self.count();
        Some(requests)
    }

    /// When a request is repeated, the endpoint accepts the same newest samples again but rejects
    /// older ones, such as the 0 at the start of a sum, as out of order.
    fn is_duplicate(body: &[u8]) -> bool {
        let text = String::from_utf8_lossy(body).to_ascii_lowercase();
        text.contains("out of order") || text.contains("out-of-order")
    }

    /// Falls back to version 1 permanently, unless version 2 is configured.
    fn convert(&mut self, request: &Request) -> Option<Request> {
        if self.limits.protocol != Protocol::Auto {
            return None;
        }
        let converted = self.compressed(request.origin.downcast_ref::<Body>()?.to_version_1()?)?;
        self.version = Version::One;
        Some(converted)
    }

    /// An endpoint that returns the number of samples written supports version 2.
    fn on_success(&mut self, header: &dyn Fn(&str) -> Option<String>) {
        if self.limits.protocol == Protocol::Auto
            && self.version == Version::One
            && header(WRITTEN).is_some()
        {
            self.version = Version::Two;
        }
    }
}

#[cfg(test)]
mod tests;
