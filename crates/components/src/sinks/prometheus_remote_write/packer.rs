//! The packer: looks up series, accumulates deltas, and encodes requests.

use crate::codec::metric_record;
use crate::sinks::http_delivery::{EncodedPayload, EventSet, PackRefusal, Packer, Record, Request};
use crate::sinks::prometheus::{now_ms, rows_of};
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use millstream_encodings::prometheus::{
    Accumulator, Body, Options, RemoteWriteLabels, RequestBuilder, Rows, Version,
};
use millstream_model::{Counters, Feed, MemoryPressure};
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

/// The payloads of a batch, kept until its requests are delivered: they have the events that the
/// endpoint refuses. `None` if no component reads these.
type Kept = Option<Arc<[EncodedPayload]>>;

/// What a request was made from.
struct Packed {
    body: Body,
    events: EventSet,
    kept: Kept,
}

/// Packs rows into requests.
pub struct RemotePacker {
    accumulator: Accumulator<RemoteWriteLabels>,
    builder: RequestBuilder,
    /// Events of the request in progress.
    events: EventSet,
    limits: Limits,
    compressor: Compressor,
    counters: Arc<Counters>,
    /// Says whether a component reads what is refused.
    feed: Arc<Feed>,
    /// Refused events that no component reads, by reason.
    dropped: BTreeMap<&'static str, u64>,
    /// Refused events that a component reads.
    refused: Vec<PackRefusal>,
    /// The version in use.
    version: Version,
    /// Whether the endpoint was probed for its version.
    probed: bool,
    pressure: Arc<MemoryPressure>,
}

impl RemotePacker {
    /// Creates a packer without any series.
    pub fn new(
        options: Options,
        limits: Limits,
        counters: Arc<Counters>,
        feed: Arc<Feed>,
        pressure: Arc<MemoryPressure>,
    ) -> RemotePacker {
        let (form, seed) = (RemoteWriteLabels::new(&options.distributions), options.seed);
        let version = if limits.protocol == Protocol::Two { Version::Two } else { Version::One };
        RemotePacker {
            accumulator: Accumulator::new(options, form),
            builder: RequestBuilder::new(version, seed),
            events: EventSet::default(),
            limits,
            compressor: Compressor::new(Algorithm::Snappy, None),
            counters,
            feed,
            dropped: BTreeMap::new(),
            refused: Vec::new(),
            version,
            probed: limits.protocol != Protocol::Auto,
            pressure,
        }
    }

    /// Adds the rows of a payload, whose first event has the index `first` in the batch.
    fn add(
        &mut self,
        (rows, text): (&Rows, &[u8]),
        (first, now_ms): (u32, i64),
        kept: &Kept,
        requests: &mut Vec<Request>,
    ) {
        for (event, row) in (first..).zip(rows.rows()) {
            match self.accumulator.add((rows, row, text), now_ms, &mut self.builder) {
                Ok(()) => {
                    self.builder.end_event();
                    self.events.push(event);
                }
                Err(refusal) => {
                    let record = || Record::json(metric_record::of_row(rows, row, text));
                    self.refuse(event, refusal.reason(), record);
                }
            }
            if self.builder.events() >= self.limits.events
                || self.builder.bytes() >= self.limits.bytes
            {
                self.finish(kept, requests);
            }
        }
    }

    fn finish(&mut self, kept: &Kept, requests: &mut Vec<Request>) {
        if self.builder.events() > 0 {
            let (body, events) = (self.builder.take(), std::mem::take(&mut self.events));
            requests.extend(self.request(Packed { body, events, kept: kept.clone() }));
        }
    }

    /// Refuses an event: passes it on if a component reads it, else drops it.
    fn refuse(&mut self, event: u32, reason: &'static str, record: impl FnOnce() -> Record) {
        if self.feed.keeps_refused() {
            self.refused.push(PackRefusal { event, reason, record: record() });
        } else {
            *self.dropped.entry(reason).or_default() += 1;
        }
    }

    /// Builds a compressed request. `None` if compression runs out of memory, which refuses its
    /// events: sums include them, so their next value makes up for it.
    fn request(&mut self, packed: Packed) -> Option<Request> {
        if let Some(compressed) = self.compressed(&packed.body) {
            return Some(request_of(packed, compressed));
        }
        for event in packed.events.iter() {
            self.refuse(event, "compression", || record(&packed.kept, event));
        }
        None
    }

    /// Compresses a body. `None` if that runs out of memory.
    fn compressed(&mut self, body: &Body) -> Option<Bytes> {
        let compressed = self.compressor.compress(&body.parts());
        let failed = |error| {
            log::error!("cannot compress a request: {error}; refusing its {} events", body.events())
        };
        Some(compressed.map_err(failed).ok()?.into())
    }

    fn count(&mut self) {
        for (reason, events) in std::mem::take(&mut self.dropped) {
            self.counters.dropped(reason, events);
        }
        self.counters.noted("label_cut", self.accumulator.take_cut());
    }
}

/// Builds the request for a compressed body.
fn request_of(packed: Packed, compressed: Bytes) -> Request {
    let version = packed.body.version;
    Request {
        body: vec![compressed],
        headers: vec![
            ("content-type", version.content_type().to_owned()),
            ("content-encoding", "snappy".to_owned()),
            ("x-prometheus-remote-write-version", version.number().to_owned()),
        ],
        events: packed.events.clone(),
        origin: Box::new(packed),
    }
}

/// Returns an event of a batch from its payloads; empty if they are not kept.
fn record(kept: &Kept, event: u32) -> Record {
    let mut row = event as usize;
    for EncodedPayload { parts, routing, events, .. } in kept.iter().flat_map(|kept| kept.iter()) {
        let Some(after) = row.checked_sub(*events as usize) else {
            let of_row = |(rows, text): (&Rows, &Bytes)| {
                Some(metric_record::of_row(rows, rows.rows().get(row)?, text))
            };
            let metric = rows_of(routing).zip(parts.first()).and_then(of_row);
            return metric.map(Record::json).unwrap_or_default();
        };
        row = after;
    }
    Record::default()
}

impl Packer for RemotePacker {
    fn pack(&mut self, payloads: Vec<EncodedPayload>) -> Vec<Request> {
        let (now_ms, mut requests) = (now_ms(), Vec::new());
        self.accumulator.sweep(now_ms);
        self.accumulator.set_may_grow(self.pressure.may_grow());
        if !std::mem::replace(&mut self.probed, true) {
            let probe = Packed { body: Body::probe(), events: EventSet::default(), kept: None };
            requests.extend(self.request(probe));
        }
        self.builder.set_version(self.version);
        let kept: Kept = self.feed.keeps_refused().then(|| payloads.as_slice().into());
        let mut first = 0;
        for EncodedPayload { parts, routing, events, .. } in &payloads {
            if let (Some(rows), [text]) = (rows_of(routing), &parts[..]) {
                self.add((rows, text), (first, now_ms), &kept, &mut requests);
            }
            first += *events as u32;
        }
        self.finish(&kept, &mut requests);
        self.count();
        requests
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let Packed { body, events, kept } = request.origin.downcast_ref::<Packed>()?;
        let [one, other] = body.split()?;
        let (first, second) = events.split_at(one.events());
        let halves = [(one, first), (other, second)].into_iter();
        let halves = halves.map(|(body, events)| Packed { body, events, kept: kept.clone() });
        let requests = halves.filter_map(|half| self.request(half)).collect();
        self.count();
        Some(requests)
    }

    fn record(&mut self, request: &Request) -> Record {
        let packed = request.origin.downcast_ref::<Packed>();
        let event = packed.and_then(|packed| Some((&packed.kept, packed.events.iter().next()?)));
        event.map(|(kept, event)| record(kept, event)).unwrap_or_default()
    }

    fn take_refused(&mut self) -> Vec<PackRefusal> {
        std::mem::take(&mut self.refused)
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
        let Packed { body, events, kept } = request.origin.downcast_ref::<Packed>()?;
        let (body, events, kept) = (body.to_version_1()?, events.clone(), kept.clone());
        let compressed = self.compressed(&body)?;
        self.version = Version::One;
        Some(request_of(Packed { body, events, kept }, compressed))
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
