//! The packer: looks up series, accumulates deltas, and encodes requests.

use super::refused_series::{RefusedSeries, SERIES_MAX, Sample, SeriesKey, Treatment};
use super::split_time::{Period, SplitTime};
use crate::codec::metric_record;
use crate::sinks::http_delivery::{
    EncodedPayload, EventSet, Packer, Record, Refusal, RefusedEvent, Request,
};
use crate::sinks::prometheus::{log_conflicts, now_ms, rows_of};
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use millstream_encodings::prometheus::{
    Accumulator, Body, Collector, Histogram, Options, Point, RejectReason, RemoteWriteLabels,
    RequestBuilder, RowPlace, Rows, Version,
};
use millstream_model::{Counters, Feed, LaneCx, MemoryPressure};
use schemars::JsonSchema;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of the remote write protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Protocol {
    /// Version 2.0 if the endpoint supports it, otherwise 1.0.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// Version 1.0, which every backend supports.
    #[serde(rename = "1")]
    One,
    /// Version 2.0, with smaller requests that include types and creation times.
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
    /// Maximum request size in bytes, before compression.
    pub bytes: usize,
    /// The protocol version, or `auto` to detect it.
    pub protocol: Protocol,
}

/// The payloads of a batch, kept until its requests are delivered, because they contain the events
/// that the endpoint may reject. `None` if no component reads rejected events.
type Kept = Option<Arc<[EncodedPayload]>>;

/// The data that the requests of a batch share.
#[derive(Clone)]
struct PackedBatch {
    kept: Kept,
    /// Time when the batch was packed, in milliseconds since 1970.
    packed_ms: i64,
    period: Option<Period>,
}

/// The data from which a request was built.
struct Packed {
    batch: PackedBatch,
    body: Body,
    events: EventSet,
    /// The sample of each event.
    samples: Vec<Sample>,
}

impl Packed {
    /// Returns the data of a request without events.
    fn probe(batch: PackedBatch) -> Packed {
        Packed { batch, body: Body::probe(), events: EventSet::default(), samples: Vec::new() }
    }

    fn to_version_1(&self) -> Option<Packed> {
        Some(Packed {
            batch: self.batch.clone(),
            body: self.body.to_version_1()?,
            events: self.events.clone(),
            samples: self.samples.clone(),
        })
    }

    fn split(&self) -> Option<[Packed; 2]> {
        let [one, other] = self.body.split()?;
        let (events, other_events) = self.events.split_at(one.events());
        let (samples, other_samples) = self.samples.split_at_checked(one.events() as usize)?;
        let half = |body, events, samples: &[Sample]| Packed {
            batch: self.batch.clone(),
            body,
            events,
            samples: samples.to_vec(),
        };
        Some([half(one, events, samples), half(other, other_events, other_samples)])
    }
}

/// A request in progress.
struct OpenRequest {
    builder: RequestBuilder,
    events: EventSet,
    samples: Vec<Sample>,
}

impl OpenRequest {
    fn new(version: Version, seed: u64) -> OpenRequest {
        let builder = RequestBuilder::new(version, seed);
        OpenRequest { builder, events: EventSet::default(), samples: Vec::new() }
    }

    /// Ends an event, after its sample was added to the builder.
    fn end_event(&mut self, event: u32, sample: Sample) {
        self.builder.end_event();
        self.events.push(event);
        self.samples.push(sample);
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.builder.events() >= limits.events || self.builder.bytes() >= limits.bytes
    }

    /// Returns the request and starts the next one; `None` if the request has no events.
    fn take(&mut self, batch: &PackedBatch) -> Option<Packed> {
        if self.events.is_empty() {
            return None;
        }
        Some(Packed {
            batch: batch.clone(),
            body: self.builder.take(),
            events: std::mem::take(&mut self.events),
            samples: std::mem::take(&mut self.samples),
        })
    }
}

/// A visitor that drops the samples of series that the endpoint rejects. The sums still include
/// them.
struct LeftOut;

impl Collector for LeftOut {
    fn number(&mut self, _: &[u8], _: &Point) {}
    fn histogram(&mut self, _: &[u8], _: &Histogram, _: &Point) {}
}

/// Packs rows into requests.
pub struct RemotePacker {
    accumulator: Accumulator<RemoteWriteLabels>,
    open: OpenRequest,
    /// The request in progress with the series that the endpoint may reject.
    apart: OpenRequest,
    refused_series: RefusedSeries,
    split_time: SplitTime,
    limits: Limits,
    compressor: Compressor,
    /// The sink's id, for messages.
    sink: Arc<str>,
    counters: Arc<Counters>,
    /// The feed of rejected events, which tells whether a component reads them.
    feed: Arc<Feed>,
    /// Rejected events that no component reads, by reason.
    dropped: BTreeMap<&'static str, u64>,
    /// Rejected events that a component reads.
    refused: Vec<RefusedEvent>,
    /// The version in use.
    version: Version,
    /// Whether the endpoint was probed for its version.
    probed: bool,
    pressure: Arc<MemoryPressure>,
}

impl RemotePacker {
    /// Creates a packer without any series.
    pub fn new(options: Options, limits: Limits, cx: &LaneCx) -> RemotePacker {
        let (form, seed) = (RemoteWriteLabels::new(&options.distributions), options.seed);
        let version = if limits.protocol == Protocol::Two { Version::Two } else { Version::One };
        RemotePacker {
            accumulator: Accumulator::new(options, form),
            open: OpenRequest::new(version, seed),
            apart: OpenRequest::new(version, seed),
            refused_series: RefusedSeries::default(),
            split_time: SplitTime::default(),
            limits,
            compressor: Compressor::new(Algorithm::Snappy, None),
            sink: cx.sink.clone(),
            counters: cx.counters.clone(),
            feed: cx.feed.clone(),
            dropped: BTreeMap::new(),
            refused: Vec::new(),
            version,
            probed: limits.protocol != Protocol::Auto,
            pressure: cx.pressure.clone(),
        }
    }

    /// Adds the rows of a payload, whose first event has the index `first` in the batch.
    fn add(
        &mut self,
        rows: &Rows,
        text: &[u8],
        first: u32,
        batch: &PackedBatch,
        requests: &mut Requests,
    ) {
        for (event, row) in (first..).zip(rows.rows()) {
            let place = RowPlace { rows, row, text };
            if let Err(why) = self.add_row(place, event, batch.packed_ms) {
                let record = || Record::json(metric_record::of_row(rows, row, text));
                self.refuse(event, why, record);
            }
            if self.open.is_full(&self.limits) {
                requests.first.extend(self.finish(batch));
            }
            if self.apart.is_full(&self.limits) {
                requests.apart.extend(self.finish_apart(batch));
            }
        }
    }

    /// Adds a row to a request, unless it is rejected.
    #[inline]
    fn add_row(&mut self, place: RowPlace<'_>, event: u32, now_ms: i64) -> Result<(), Why> {
        let row = place.row;
        let series = SeriesKey(row.key);
        let open = match self.refused_series.treatment(series, now_ms) {
            Treatment::Send => &mut self.open,
            Treatment::SendApart => &mut self.apart,
            Treatment::Refuse(reason) => {
                // The value is added to the sum, so the next sample that is sent includes it.
                self.accumulator.add(place, now_ms, &mut LeftOut)?;
                return Err(Why::of_endpoint(reason.to_string()));
            }
        };
        self.accumulator.add(place, now_ms, &mut open.builder)?;
        open.end_event(
            event,
            Sample { series, time_ms: row.time_ms, interval_ms: row.interval_ms },
        );
        Ok(())
    }

    fn finish(&mut self, batch: &PackedBatch) -> Option<Request> {
        let packed = self.open.take(batch)?;
        self.request(packed)
    }

    fn finish_apart(&mut self, batch: &PackedBatch) -> Option<Request> {
        let packed = self.apart.take(batch)?;
        self.request(packed)
    }

    /// Rejects an event: passes it on if a component reads rejected events, otherwise drops and
    /// counts it.
    fn refuse(&mut self, event: u32, why: Why, record: impl FnOnce() -> Record) {
        let Why { counter, reason } = why;
        if self.feed.keeps_refused() {
            self.refused.push(RefusedEvent { event, reason, record: record() });
        } else {
            *self.dropped.entry(counter).or_default() += 1;
        }
    }

    /// Rejects all events of a request.
    fn refuse_all(&mut self, packed: &Packed, why: &Why) {
        for event in packed.events.iter() {
            self.refuse(event, why.clone(), || record(&packed.batch.kept, event));
        }
    }

    /// Builds a compressed request. Returns `None` and rejects the events if compression runs out
    /// of memory; the next values of the sums make up for the missing samples.
    fn request(&mut self, packed: Packed) -> Option<Request> {
        if let Some(compressed) = self.compressed(&packed.body) {
            return Some(request_of(packed, compressed));
        }
        self.refuse_all(&packed, &Why::of_counter("compression"));
        None
    }

    /// Compresses a body; returns `None` if compression runs out of memory.
    fn compressed(&mut self, body: &Body) -> Option<Bytes> {
        let compressed = self.compressor.compress(&body.parts());
        let failed = |error| {
            log::error!(
                "cannot compress a request: {error}; dropping its {} events as `refused`",
                body.events()
            )
        };
        Some(compressed.map_err(failed).ok()?.into())
    }

    fn count(&mut self) {
        for (reason, events) in std::mem::take(&mut self.dropped) {
            self.counters.dropped(reason, events);
        }
        self.counters.noted("label_cut", self.accumulator.take_cut());
        self.counters.noted("label_conflict", self.accumulator.take_joined());
        log_conflicts(&self.sink, self.accumulator.take_conflicts());
    }

    fn note_alone(&mut self, sample: Sample, reason: &str, packed_ms: i64) {
        let was_full = self.refused_series.is_full();
        self.refused_series.note_alone(sample, reason, packed_ms);
        if self.refused_series.is_full() && !was_full {
            log::warn!(
                "sink {}: the endpoint rejects more than {SERIES_MAX} series, which is the number \
                 that the sink can track; requests that contain other rejected series are split \
                 repeatedly, and valid samples in them are rejected",
                self.sink
            );
        }
    }
}

/// Why an event is rejected.
#[derive(Clone)]
struct Why {
    /// The key of its counter.
    counter: &'static str,
    reason: Cow<'static, str>,
}

impl Why {
    /// Returns a reason with the same text as its counter.
    fn of_counter(counter: &'static str) -> Why {
        Why { counter, reason: counter.into() }
    }

    /// Returns the reason that the endpoint reported.
    fn of_endpoint(reason: String) -> Why {
        Why { counter: "refused", reason: reason.into() }
    }
}

impl From<RejectReason> for Why {
    fn from(reason: RejectReason) -> Why {
        Why::of_counter(reason.reason())
    }
}

/// The requests of a batch. Requests with series that the endpoint may reject are sent last. Each
/// series is in requests of one kind, so its samples stay in order.
#[derive(Default)]
struct Requests {
    first: Vec<Request>,
    apart: Vec<Request>,
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
        let (now_ms, mut requests) = (now_ms(), Requests::default());
        self.accumulator.sweep(now_ms);
        self.accumulator.set_may_grow(self.pressure.may_grow());
        self.refused_series.sweep(now_ms);
        let rows = payloads.iter().filter_map(|payload| rows_of(&payload.routing));
        let batch = PackedBatch {
            kept: self.feed.keeps_refused().then(|| payloads.as_slice().into()),
            packed_ms: now_ms,
            period: Period::newest(rows.flat_map(Rows::rows), now_ms),
        };
        if !std::mem::replace(&mut self.probed, true) {
            requests.first.extend(self.request(Packed::probe(batch.clone())));
        }
        self.open.builder.set_version(self.version);
        self.apart.builder.set_version(self.version);
        let mut first = 0;
        for EncodedPayload { parts, routing, events, .. } in &payloads {
            if let (Some(rows), [text]) = (rows_of(routing), &parts[..]) {
                self.add(rows, text, first, &batch, &mut requests);
            }
            first += *events as u32;
        }
        requests.first.extend(self.finish(&batch));
        requests.apart.extend(self.finish_apart(&batch));
        self.count();
        requests.first.append(&mut requests.apart);
        requests.first
    }

    /// Remembers the series of a request with a single event. Rejects the events of a larger
    /// request that can no longer be split.
    fn on_refusal(&mut self, request: &Request, refusal: &Refusal) -> bool {
        let Some(packed) = request.origin.downcast_ref::<Packed>() else { return true };
        let packed_ms = packed.batch.packed_ms;
        if let [sample] = packed.samples[..] {
            if !refusal.is_duplicate {
                self.note_alone(sample, &refusal.reason, packed_ms);
            }
            return true;
        }
        if self.split_time.may_split(packed.batch.period, now_ms()) {
            return true;
        }
        for sample in &packed.samples {
            self.refused_series.note_unsplit(*sample, packed_ms);
        }
        self.refuse_all(packed, &Why::of_endpoint(refusal.reason.clone()));
        self.count();
        false
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let halves = request.origin.downcast_ref::<Packed>()?.split()?;
        let requests = halves.into_iter().filter_map(|half| self.request(half)).collect();
        self.count();
        Some(requests)
    }

    fn record(&mut self, request: &Request) -> Record {
        let packed = request.origin.downcast_ref::<Packed>();
        let event =
            packed.and_then(|packed| Some((&packed.batch.kept, packed.events.iter().next()?)));
        event.map(|(kept, event)| record(kept, event)).unwrap_or_default()
    }

    fn take_refused(&mut self) -> Vec<RefusedEvent> {
        std::mem::take(&mut self.refused)
    }

    /// Returns whether a response rejects samples that the endpoint already has. When a request is
    /// repeated, the endpoint accepts the newest samples again, but rejects older ones, such as the
    /// 0 at the start of a sum, as out of order.
    fn is_duplicate(body: &[u8]) -> bool {
        let text = String::from_utf8_lossy(body).to_ascii_lowercase();
        text.contains("out of order") || text.contains("out-of-order")
    }

    /// If the version is detected automatically, converts the request to version 1, which later
    /// requests then also use.
    fn convert(&mut self, request: &Request) -> Option<Request> {
        if self.limits.protocol != Protocol::Auto {
            return None;
        }
        let packed = request.origin.downcast_ref::<Packed>()?.to_version_1()?;
        let compressed = self.compressed(&packed.body)?;
        self.version = Version::One;
        Some(request_of(packed, compressed))
    }

    /// Notes that an endpoint supports version 2 if it returns the number of samples written.
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
