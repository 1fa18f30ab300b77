//! The packer: looks series up, adds deltas, and writes requests.

use super::config::Protocol;
use crate::prometheus::{now_ms, rows_of};
use crate::requests::{EncodedPayload, Packer, Request};
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use millstream_encodings::prometheus::{
    Accumulator, Body, Options, RemoteForm, RequestBuilder, Rows, Version,
};
use millstream_model::Counters;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Header by which an endpoint that knows version 2 says how many samples it has written.
const WRITTEN: &str = "x-prometheus-remote-write-samples-written";

/// How large requests become, and what they are.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Events of a request.
    pub events: u64,
    /// Bytes of a request, not compressed.
    pub bytes: usize,
    /// The version of the protocol, or how it is found.
    pub protocol: Protocol,
}

/// Makes requests of rows.
pub struct RemotePacker {
    accumulator: Accumulator<RemoteForm>,
    builder: RequestBuilder,
    limits: Limits,
    compressor: Compressor,
    counters: Arc<Counters>,
    refused: BTreeMap<&'static str, u64>,
    /// Which version the endpoint takes.
    version: Version,
    /// Whether it was asked which.
    asked: bool,
}

impl RemotePacker {
    /// A packer that knows no series.
    pub fn new(options: Options, limits: Limits, counters: Arc<Counters>) -> RemotePacker {
        let (form, seed) = (RemoteForm::new(&options.distributions), options.seed);
        let version = if limits.protocol == Protocol::Two { Version::Two } else { Version::One };
        RemotePacker {
            accumulator: Accumulator::new(options, form),
            builder: RequestBuilder::new(version, seed),
            limits,
            compressor: Compressor::new(Algorithm::Snappy, None),
            counters,
            refused: BTreeMap::new(),
            version,
            asked: limits.protocol != Protocol::Auto,
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

    /// A request, compressed. Without memory there is none: sums have what is left out, and say it
    /// with their next value.
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
            log::error!("a request of {} events could not be compressed: {error}", body.events())
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
    fn pack(&mut self, taken: Vec<EncodedPayload>) -> Vec<Request> {
        let (now_ms, mut requests) = (now_ms(), Vec::new());
        self.accumulator.sweep(now_ms);
        if !std::mem::replace(&mut self.asked, true) {
            requests.extend(self.request(Body::question()));
        }
        self.builder.set_version(self.version);
        for EncodedPayload { parts, routing, .. } in &taken {
            if let (Some(rows), [text]) = (rows_of(routing), &parts[..]) {
                self.add((rows, text), now_ms, &mut requests);
            }
        }
        self.finish(&mut requests);
        self.count();
        requests
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let halves = request.origin.downcast_ref::<Body>()?.halves()?;
        let requests = halves.into_iter().filter_map(|body| self.request(body)).collect();
        self.count();
        Some(requests)
    }

    /// Of a request that was written before, the same newest samples are taken again; older ones,
    /// such as the 0 with which a sum begins, are out of order now.
    fn is_duplicate(said: &[u8]) -> bool {
        let said = String::from_utf8_lossy(said).to_ascii_lowercase();
        said.contains("out of order") || said.contains("out-of-order")
    }

    /// An endpoint that does not take version 2 gets version 1 from now on, unless it has to be 2.
    fn convert(&mut self, request: &Request) -> Option<Request> {
        if self.limits.protocol != Protocol::Auto {
            return None;
        }
        let converted = self.compressed(request.origin.downcast_ref::<Body>()?.to_version_1()?)?;
        self.version = Version::One;
        Some(converted)
    }

    /// Who says how many samples were written knows version 2.
    fn answered(&mut self, header: &dyn Fn(&str) -> Option<String>) {
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
