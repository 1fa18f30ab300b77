//! The lane: listens, and adds received rows to the series.

use super::server::Server;
use super::{PrometheusExporter, Series};
use crate::sinks::http_delivery::PayloadMetadata;
use crate::sinks::prometheus::{log_conflicts, now_ms, rows_of};
use bytes::Bytes;
use millstream_encodings::prometheus::{Added, NameConflict, RowPlace};
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Lane, LaneCx, MemoryPressure, Outcome, Payload,
    Routing, Settled,
};
use millstream_transport::auth::Auth;
use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, spawn_blocking};

/// Number of rows that are added under one lock, after which a scrape may proceed.
const ROWS_AT_ONCE: usize = 1024;

/// The lane of a `prometheus_exporter` sink.
pub struct ExporterLane {
    listen: SocketAddr,
    auth: Option<Arc<Auth>>,
    series: Arc<Series>,
    /// The sink's id, for messages.
    sink: Arc<str>,
    counters: Arc<Counters>,
    pressure: Arc<MemoryPressure>,
    server: Option<JoinHandle<()>>,
    done: Vec<Settled>,
}

impl ExporterLane {
    /// Creates a lane that listens when it starts.
    pub fn new(exporter: &PrometheusExporter, cx: LaneCx) -> ExporterLane {
        ExporterLane {
            listen: exporter.listen,
            auth: exporter.auth.clone(),
            series: exporter.series.clone(),
            sink: cx.sink,
            counters: cx.counters,
            pressure: cx.pressure,
            server: None,
            done: Vec::new(),
        }
    }
}

impl Drop for ExporterLane {
    fn drop(&mut self) {
        self.server.iter().for_each(JoinHandle::abort);
    }
}

impl Lane for ExporterLane {
    fn start(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            if self.server.is_some() {
                return Ok(());
            }
            let listener = TcpListener::bind(self.listen).await.map_err(|error| {
                let text = format!(
                    "cannot listen on {}: {error}; free the address, or change `listen`",
                    self.listen
                );
                DeliverError::retry("listen", text)
            })?;
            // Port 0 is replaced by an unused port.
            let address = listener.local_addr().unwrap_or(self.listen);
            log::info!("serving metrics at http://{address}/metrics");
            let server = Server::new(self.series.clone(), self.auth.clone());
            self.server = Some(tokio::spawn(server.run(listener)));
            Ok(())
        })
    }

    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            let metadata = payload.routing_as::<PayloadMetadata>();
            let (Some(PayloadMetadata { routing, .. }), [text]) = (metadata, &payload.parts[..])
            else {
                return Err(DeliverError::reject(
                    "panic",
                    "received another sink's payload; this is a bug",
                ));
            };
            let (series, routing, text) = (self.series.clone(), routing.clone(), text.clone());
            let may_grow = self.pressure.may_grow();
            let add = move || {
                series.exposition.lock().set_may_grow(may_grow);
                add(&series, &routing, &text)
            };
            let refused = match spawn_blocking(add).await {
                Ok(refused) => refused,
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                // The runtime shuts down.
                Err(_) => return pending().await,
            };
            let mut total = 0;
            for (reason, events) in refused.dropped {
                self.counters.dropped(reason, events);
                total += events;
            }
            for (limit, events) in refused.overflow {
                self.counters.noted(limit, events);
            }
            self.counters.noted("label_cut", refused.cut);
            self.counters.noted("label_conflict", refused.joined);
            log_conflicts(&self.sink, refused.conflicts);
            let outcome = if total > 0 { Outcome::Rejected } else { Outcome::Delivered };
            self.done.push(Settled { outcome, refused: total });
            Ok(Delivery::Sent)
        })
    }

    fn settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.done)
    }
}

/// Numbers of dropped events, events in the overflow series, and changed labels.
#[derive(Default)]
struct Refused {
    dropped: BTreeMap<&'static str, u64>,
    overflow: BTreeMap<&'static str, u64>,
    cut: u64,
    joined: u64,
    conflicts: Vec<NameConflict>,
}

fn add(series: &Series, routing: &Option<Arc<dyn Routing>>, text: &Bytes) -> Refused {
    let (mut refused, now_ms) = (Refused::default(), now_ms());
    let Some(rows) = rows_of(routing) else { return refused };
    let mut exposition = series.exposition.lock();
    if series.scrapes.load(Ordering::SeqCst) == 0 {
        exposition.sweep(now_ms);
    }
    drop(exposition);
    for some in rows.rows().chunks(ROWS_AT_ONCE) {
        let mut exposition = series.exposition.lock();
        for row in some {
            match exposition.add(RowPlace { rows, row, text }, now_ms) {
                Ok(Added::Series) => {}
                Ok(Added::Overflow(limit)) => {
                    *refused.overflow.entry(limit.reason()).or_default() += 1;
                }
                Err(refusal) => *refused.dropped.entry(refusal.reason()).or_default() += 1,
            }
        }
    }
    let mut exposition = series.exposition.lock();
    refused.cut = exposition.take_cut();
    refused.joined = exposition.take_joined();
    refused.conflicts = exposition.take_conflicts();
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::SinkComponent;
    use crate::sinks::prometheus::encoded;
    use crate::sinks::prometheus_exporter::PrometheusExporterConfig;
    use millstream_encodings::metric::{Kind, Metric, SketchText, Temporality, Value};
    use millstream_encodings::prometheus::{Distributions, Options, TextFormat, WritePosition};
    use millstream_testkit::reread;

    fn options(distributions: &Distributions) -> Options {
        let config = serde_json::json!({ "host_label": "host" });
        let config: PrometheusExporterConfig = serde_json::from_value(config).unwrap();
        Options { distributions: distributions.clone(), ..config.series().build() }
    }

    /// Encodes a counter and a distribution.
    fn payload(distributions: &Distributions) -> Payload {
        let sketch = br#"{"count":2,"sum":3,"min":1,"max":2,"values":[1,2],"weights":[1,1]}"#;
        let metric = |name: &'static str, value| Metric {
            name: name.as_bytes(),
            tags: br#"{"a":"b"}"#,
            kind: Kind::Counter,
            temporality: Temporality::Delta,
            value,
            time_ns: 1_000_000_000,
            interval: 1.0,
        };
        let sketch = Value::Sketch(SketchText::parse(sketch).unwrap());
        let metrics = [metric("requests", Value::Number(2.0)), metric("latency", sketch)];
        let (rows, text) = encoded(&metrics, distributions);
        let mut payload = Payload::new(2);
        payload.push(text);
        payload.routing = Some(Arc::new(PayloadMetadata { hold: None, routing: Some(rows) }));
        payload
    }

    fn exposition(payload: &Payload, distributions: &Distributions) -> String {
        let series = Series::new(options(distributions));
        let routing = &payload.routing_as::<PayloadMetadata>().unwrap().routing;
        assert!(add(&series, routing, &payload.parts[0]).dropped.is_empty());
        let mut out = Vec::new();
        let begin = WritePosition::default();
        let format = TextFormat::Prometheus;
        assert!(series.exposition.lock().write(begin, 100, format, now_ms(), &mut out).is_none());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_text_of_a_payload_from_disk_is_that_of_the_original() {
        let config = serde_json::json!({ "quantiles": [0.5, 1.0] });
        let config: PrometheusExporterConfig = serde_json::from_value(config).unwrap();
        let (sink, distributions) = (config.build().unwrap(), config.series().distributions());
        let payload = payload(&distributions);
        let expected = exposition(&payload, &distributions);
        assert!(
            expected.contains("latency{a=\"b\",host=\"web-1\",quantile=\"1\"} 2"),
            "{expected}"
        );
        let read = reread(&payload, &*sink).unwrap();
        assert_eq!(exposition(&read, &distributions), expected);
    }

    #[test]
    fn other_quantiles_cannot_be_exposed() {
        let built = |quantiles: &[f64]| {
            let config = serde_json::json!({ "quantiles": quantiles });
            let config: PrometheusExporterConfig = serde_json::from_value(config).unwrap();
            config.build().unwrap()
        };
        let (two, one) = (built(&[0.5, 1.0]), built(&[0.5]));
        assert_ne!(two.payload_format(), one.payload_format());
        let payload = payload(&Distributions::Summary(vec![0.5, 1.0]));
        assert!(reread(&payload, &*one).is_err() && reread(&payload, &*two).is_ok());
    }
}
