//! The lane: passes shipments to the client, processes their delivery reports, and retries
//! failures.

use super::config::{KafkaConfig, Partitioner};
use super::encoder::EncodedShipment;
use super::errors;
use super::refusals::{SentShipment, of_record};
use super::settings::{self, Batching, RECORDS_MAX};
use crate::codec::Codec;
use crate::util::kafka::token_file;
use millstream_kafka::{ErrorCode, Failure, KeyHash, Producer, Receipt, RecordId, Run, Shipment};
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Feed, Lane, LaneCx, Outcome, Payload, Refused,
    Routing, Settled,
};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Timeout for a metadata request for a topic.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);

/// Time without delivery reports after which an error is reported.
const SILENCE: Duration = Duration::from_secs(3);

/// Time to wait for reports after a record has stopped the client, and the interval of this check.
const STOPPED_WAIT: Duration = Duration::from_millis(500);

/// Interval at which the partition count of a topic is refreshed.
const METADATA_REFRESH: Duration = Duration::from_secs(300);

/// Time after a rejection before batches grow again.
const LARGER_AFTER: Duration = Duration::from_secs(60);

/// Interval between warnings about rejected records.
const WARN_INTERVAL: Duration = Duration::from_secs(30);

/// Queue of receipts from the delivery report thread to the lane.
#[derive(Default)]
struct Receipts {
    arrived: Mutex<Vec<Receipt>>,
    changed: Notify,
}

impl Receipts {
    fn put(&self, receipt: Receipt) {
        self.arrived.lock().push(receipt);
        self.changed.notify_one();
    }

    fn take(&self) -> Vec<Receipt> {
        std::mem::take(&mut self.arrived.lock())
    }
}

/// A shipment that is not settled.
struct Pending {
    shipment: Arc<Shipment>,
    /// Codec of the events.
    codec: Codec,
    /// Keeps the shipment's share of the memory grant.
    _routing: Option<Arc<dyn Routing>>,
    state: State,
    /// Records of a rejected batch, to be sent individually before all other records.
    suspects: Vec<RecordId>,
    /// Records that wait until the suspects are sent.
    rest: Vec<RecordId>,
    refused: u64,
    /// Time when the shipment was passed to the client.
    sent: Instant,
}

#[derive(PartialEq)]
enum State {
    /// The shipment waits to be sent: all of its records (`None`), or only these.
    Waiting(Option<Vec<RecordId>>),
    /// The shipment was passed to the client.
    InFlight,
    /// Every record was delivered or rejected.
    Done,
}

/// The cause of a delivery failure.
struct Cause {
    code: ErrorCode,
    topic: Arc<str>,
}

/// A lane of the `kafka` sink, with its client.
pub struct KafkaLane {
    config: Arc<KafkaConfig>,
    counters: Arc<Counters>,
    /// The feed of rejected events, which tells whether a component reads them.
    feed: Arc<Feed>,
    client: Option<Arc<Producer>>,
    receipts: Arc<Receipts>,
    /// Partition count of each topic, and when the count was fetched.
    topics: HashMap<Arc<str>, (i32, Instant)>,
    /// Unsettled shipments, oldest first.
    pending: VecDeque<Pending>,
    /// Number of the oldest unsettled shipment.
    first: u64,
    /// Rejected events that the engine has not taken yet.
    refused: Vec<Refused>,
    records_in_flight: usize,
    linger: Duration,
    batching: Batching,
    /// Time when `batching` last changed.
    batching_changed: Instant,
    cause: Option<Cause>,
    /// Time of the last report without failures, or of a later send when nothing was in flight.
    last_progress: Instant,
    /// The last error from the library since `last_progress`.
    last_error: Option<(ErrorCode, String)>,
    /// Time when the lane noticed that a record that cannot be delivered had stopped the client.
    stopped_at: Option<Instant>,
    round: i32,
    warned_at: Option<Instant>,
}

impl KafkaLane {
    /// Creates a lane that connects when it starts.
    pub fn new(config: Arc<KafkaConfig>, cx: LaneCx) -> KafkaLane {
        let linger = settings::linger(&config);
        KafkaLane {
            config,
            counters: cx.counters,
            feed: cx.feed,
            client: None,
            receipts: Arc::default(),
            topics: HashMap::new(),
            pending: VecDeque::new(),
            first: 0,
            refused: Vec::new(),
            records_in_flight: 0,
            linger,
            batching: Batching::default(),
            batching_changed: Instant::now(),
            cause: None,
            last_progress: Instant::now(),
            last_error: None,
            stopped_at: None,
            round: 0,
            warned_at: None,
        }
    }

    /// Returns the client; creates it on first use.
    fn client(&mut self) -> Result<Arc<Producer>, DeliverError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let receipts = self.receipts.clone();
        let settings = settings::of(&self.config, &self.batching);
        let token_file = token_file(self.config.sasl.as_ref());
        let client = Producer::open(&settings, token_file, move |receipt| receipts.put(receipt));
        let client = Arc::new(client.map_err(|error| DeliverError::retry("client", error.0))?);
        Ok(self.client.insert(client).clone())
    }

    /// Closes the client on the blocking pool, because closing may block.
    fn close_client(&mut self) {
        self.stopped_at = None;
        if let Some(client) = self.client.take() {
            tokio::task::spawn_blocking(move || drop(client));
        }
    }

    /// Processes the delivery reports received so far.
    fn process_receipts(&mut self) {
        for receipt in self.receipts.take() {
            let index = receipt.tag.wrapping_sub(self.first) as usize;
            let Some(pending) = self.pending.get(index) else { continue };
            let (shipment, codec) = (pending.shipment.clone(), pending.codec);
            let sent = SentShipment { number: receipt.tag, shipment: &shipment, codec };
            let (mut left, mut suspects, mut refused) = (Vec::new(), Vec::new(), 0);
            for failure in &receipt.failures {
                if self.is_refused(failure) {
                    refused += self.refuse(sent, failure);
                    continue;
                }
                left.push(failure.record);
                self.record_cause(&shipment, failure);
                if errors::is_about_record(failure.code) {
                    suspects.push(failure.record);
                }
            }
            self.records_in_flight = self.records_in_flight.saturating_sub(shipment.records());
            let pending = &mut self.pending[index];
            (pending.refused, pending.suspects) = (pending.refused + refused, suspects);
            left.append(&mut pending.rest);
            left.sort_unstable();
            pending.state = if left.is_empty() { State::Done } else { State::Waiting(Some(left)) };
            if receipt.failures.is_empty() {
                (self.last_progress, self.last_error) = (Instant::now(), None);
            }
        }
    }

    /// Returns whether the failure is caused by this record, not by its batch.
    fn is_refused(&self, failure: &Failure) -> bool {
        errors::is_about_record(failure.code)
            && (failure.rejected_by_client || self.batching.one_by_one)
    }

    /// Logs a rejected record of a payload, and passes it on or counts it. Returns its event count.
    fn refuse(&mut self, sent: SentShipment<'_>, failure: &Failure) -> u64 {
        let reason = errors::reason(failure.code);
        let run = &sent.shipment.runs[failure.record.run as usize];
        self.counters.set_last_error(&format!("topic {}: {}", run.topic, failure.code));
        if self.warned_at.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
            self.warned_at = Some(Instant::now());
            let end = match self.feed.keeps_refused() {
                true => "passed on to the output `rejected`".to_owned(),
                false => format!("counted as {reason}"),
            };
            log::warn!(
                "topic {}: the broker rejected a {}-byte record ({}); the record is {end}; \
                 further rejections are not logged for {} s",
                run.topic,
                sent.shipment.payload(failure.record).len(),
                failure.code,
                WARN_INTERVAL.as_secs()
            );
        }
        let text = || failure.code.to_string();
        self.pass_on(sent, &[failure.record], reason, &text)
    }

    /// Passes on the events of rejected records if a component reads rejected events, otherwise
    /// counts them as dropped. Returns their number. `label` is the reason as a counter label, and
    /// `text` describes it.
    fn pass_on(
        &mut self,
        sent: SentShipment<'_>,
        records: &[RecordId],
        label: &'static str,
        text: &dyn Fn() -> String,
    ) -> u64 {
        let events = records.iter().map(|id| sent.shipment.runs[id.run as usize].events).sum();
        if records.is_empty() || !self.feed.keeps_refused() {
            self.counters.dropped(label, events);
            return events;
        }
        let text = text();
        for id in records {
            self.refused.extend(of_record(sent, *id, &text));
        }
        events
    }

    /// Records the cause of a failure. Failures that are only consequences never replace the cause.
    fn record_cause(&mut self, shipment: &Shipment, failure: &Failure) {
        let known = self.cause.as_ref().is_some_and(|cause| !errors::is_consequence(cause.code));
        if !known {
            let topic = shipment.runs[failure.record.run as usize].topic.clone();
            self.cause = Some(Cause { code: failure.code, topic });
        }
    }

    /// Returns whether another payload may be passed to the client. With idempotence, librdkafka
    /// (2.12) sends up to five requests to a partition, then waits for all five responses. While
    /// another request is due by `linger.ms` but may not be sent, the library's thread spins.
    /// Payloads that would wait for a slow response longer than the library lingers therefore wait
    /// here instead.
    fn has_capacity(&self) -> bool {
        let in_flight = |pending: &&Pending| pending.state == State::InFlight;
        let Some(oldest) = self.pending.iter().find(in_flight) else { return true };
        !self.batching.one_by_one
            && self.records_in_flight < RECORDS_MAX
            && oldest.sent.elapsed() < self.linger / 2
    }

    fn has_in_flight(&self) -> bool {
        self.pending.iter().any(|pending| pending.state == State::InFlight)
    }

    /// Processes the delivery reports. After a failure, withdraws all records in flight and adapts.
    /// Then sends all waiting records in order.
    async fn recover(&mut self) -> Result<(), DeliverError> {
        self.process_receipts();
        if self.cause.is_some() {
            self.purge().await;
            self.close_client();
            if let Some(cause) = self.cause.take() {
                self.adapt(cause)?;
            }
        }
        if !self.has_in_flight() {
            self.ramp_up();
        }
        let waits = |pending: &Pending| matches!(pending.state, State::Waiting(_));
        if self.pending.iter().any(waits) {
            let shipments: Vec<_> =
                self.pending.iter().filter(|p| waits(p)).map(|p| p.shipment.clone()).collect();
            for shipment in &shipments {
                self.load_metadata(shipment).await?;
            }
            self.send_waiting()?;
        }
        Ok(())
    }

    /// Returns to batches after the suspects are sent, and to larger batches after some time
    /// without a rejection. Does nothing while records are in flight.
    fn ramp_up(&mut self) {
        let suspects = self.pending.iter().any(|pending| !pending.suspects.is_empty());
        let batching = match self.batching.one_by_one {
            true if suspects => self.batching,
            true => Batching { one_by_one: false, ..self.batching },
            false if self.batching_changed.elapsed() >= LARGER_AFTER => self.batching.larger(),
            false => self.batching,
        };
        self.set_batching(batching);
    }

    fn set_batching(&mut self, batching: Batching) {
        if batching != self.batching {
            (self.batching, self.batching_changed) = (batching, Instant::now());
            self.close_client();
        }
    }

    /// Purges the client, and waits until no record is in flight.
    async fn purge(&mut self) {
        while self.has_in_flight() {
            if let Some(client) = &self.client {
                client.purge();
            }
            let _ = timeout(Duration::from_millis(50), self.receipts.changed.notified()).await;
            self.process_receipts();
        }
    }

    /// Prepares for the next attempt. The engine logs the returned error and waits.
    fn adapt(&mut self, cause: Cause) -> Result<(), DeliverError> {
        if errors::is_about_record(cause.code) {
            let (topic, bytes) = (&cause.topic, self.batching.batch_bytes);
            log::info!(
                "topic {topic}: the broker rejected a batch of up to {bytes} bytes ({}); \
                 sending smaller batches",
                cause.code
            );
            self.set_batching(self.batching.smaller());
            return Ok(());
        }
        if errors::is_about_topic(cause.code) {
            self.topics.remove(&cause.topic);
        }
        let last_error =
            self.last_error.as_ref().map_or(String::new(), |(_, text)| format!(" ({text})"));
        Err(errors::error(cause.code, format!("topic {}: {}{last_error}", cause.topic, cause.code)))
    }

    /// Ensures that the topics of a shipment exist and their partitions are known, except for
    /// topics beyond the limit.
    async fn load_metadata(&mut self, shipment: &Shipment) -> Result<(), DeliverError> {
        for (index, Run { topic, .. }) in shipment.runs.iter().enumerate() {
            if index > 0 && shipment.runs[index - 1].topic == *topic {
                continue;
            }
            let known = self.topics.get(topic).copied();
            if known.is_some_and(|(_, fetched)| fetched.elapsed() < METADATA_REFRESH) {
                continue;
            }
            if known.is_none() && self.topics.len() >= self.config.topics_max {
                continue;
            }
            let partitions = match (self.fetch_partitions(topic.clone()).await, known) {
                // Stale metadata is still usable.
                (Ok(partitions), _) | (Err(_), Some((partitions, _))) => partitions,
                (Err(error), None) => return Err(error),
            };
            self.topics.insert(topic.clone(), (partitions, Instant::now()));
        }
        Ok(())
    }

    /// Fetches the partition count of a topic from a broker.
    async fn fetch_partitions(&mut self, topic: Arc<str>) -> Result<i32, DeliverError> {
        let client = self.client()?;
        let (producer, name) = (client.clone(), topic.clone());
        let result =
            tokio::task::spawn_blocking(move || producer.partitions(&name, METADATA_TIMEOUT)).await;
        let error = match result {
            Ok(Ok(partitions)) => return Ok(partitions),
            Ok(Err(error)) => error,
            Err(error) => return Err(DeliverError::retry("panic", error.to_string())),
        };
        if let Some(error) = client.take_last_error() {
            self.note_last_error(error);
        }
        let brokers = self.config.brokers.join(", ");
        Err(match &self.last_error {
            Some((code, text)) => {
                errors::error(*code, format!("cannot reach Kafka at {brokers}: {text}"))
            }
            None => {
                errors::error(error.code, format!("topic {topic} at {brokers}: {}", error.message))
            }
        })
    }

    /// Hands every waiting shipment to the client, oldest first.
    fn send_waiting(&mut self) -> Result<(), DeliverError> {
        let client = self.client()?;
        if !self.has_in_flight() {
            self.last_progress = Instant::now();
        }
        for index in 0..self.pending.len() {
            let pending = &mut self.pending[index];
            let State::Waiting(only) = &mut pending.state else { continue };
            let (mut only, shipment) = (only.take(), pending.shipment.clone());
            let codec = pending.codec;
            if self.batching.one_by_one {
                if pending.suspects.is_empty() {
                    pending.state = State::Waiting(only);
                    continue;
                }
                let suspects = std::mem::take(&mut pending.suspects);
                pending.rest = only.unwrap_or_default();
                pending.rest.retain(|record| suspects.binary_search(record).is_err());
                only = Some(suspects);
            }
            pending.suspects.clear();
            let unknown = take_unknown_topics(&mut only, &shipment, &self.topics);
            (pending.state, pending.sent) = (State::InFlight, Instant::now());
            let (payload, topics_max) = (self.first + index as u64, self.config.topics_max);
            let reason = || format!("more than {topics_max} topics");
            let sent = SentShipment { number: payload, shipment: &shipment, codec };
            let refused = self.pass_on(sent, &unknown, "too_many_topics", &reason);
            self.pending[index].refused += refused;
            self.records_in_flight += shipment.records();
            let (topics, by, round) = (&self.topics, self.config.partitioner(), self.round);
            let partition = |run: &Run, key: Option<&[u8]>| {
                let partitions = topics.get(&run.topic).map_or(1, |(partitions, _)| *partitions);
                partition_of(by, run, key, round, partitions)
            };
            client.send(&shipment, payload, only.as_deref(), partition);
            self.round = self.round.wrapping_add(1) & i32::MAX;
        }
        Ok(())
    }

    /// Returns whether a record stopped the client a while ago. Such a client (librdkafka 2.12)
    /// sometimes keeps later records without reporting them.
    fn look_for_stop(&mut self) -> bool {
        if let Some(last_error) = self.client.as_ref().and_then(|client| client.take_last_error()) {
            if errors::is_consequence(last_error.0) {
                self.stopped_at.get_or_insert_with(Instant::now);
            }
            self.note_last_error(last_error);
        }
        self.stopped_at.is_some_and(|at| at.elapsed() >= STOPPED_WAIT)
    }

    /// Keeps an error from the library. The error that all brokers are down replaces no other
    /// error, because librdkafka reports the reason why a broker is down once in 30 seconds, but
    /// reports each time that all are down.
    fn note_last_error(&mut self, error: (ErrorCode, String)) {
        if error.0 != ErrorCode::AllBrokersDown || self.last_error.is_none() {
            self.last_error = Some(error);
        }
    }

    /// Fails if the first topic of the oldest shipment in flight does not exist, because librdkafka
    /// waits for the topic without a report.
    async fn ask_for_topic(&mut self) -> Result<(), DeliverError> {
        let oldest = self.pending.iter().find(|pending| pending.state == State::InFlight);
        let topic = oldest.and_then(|pending| Some(pending.shipment.runs.first()?.topic.clone()));
        match topic {
            Some(topic) => self.fetch_partitions(topic).await.map(drop),
            None => Ok(()),
        }
    }

    /// Waits for delivery reports. Fails if there was no report for a long time.
    async fn wait_for_reports(&mut self) -> Result<(), DeliverError> {
        if self.look_for_stop() {
            self.purge().await;
            return Ok(());
        }
        let reported = timeout(STOPPED_WAIT, self.receipts.changed.notified()).await.is_ok();
        let silence = self.last_progress.elapsed();
        if reported || silence < SILENCE {
            return Ok(());
        }
        self.ask_for_topic().await?;
        let brokers = self.config.brokers.join(", ");
        Err(match &self.last_error {
            Some((code, text)) => {
                errors::error(*code, format!("no response from Kafka at {brokers}: {text}"))
            }
            None => errors::error(
                ErrorCode::OperationTimedOut,
                format!("no response from Kafka at {brokers}"),
            ),
        })
    }
}

/// Removes the records of topics beyond the limit from the records to be sent, and returns them.
fn take_unknown_topics(
    only: &mut Option<Vec<RecordId>>,
    shipment: &Shipment,
    topics: &HashMap<Arc<str>, (i32, Instant)>,
) -> Vec<RecordId> {
    if shipment.runs.iter().all(|run| topics.contains_key(&run.topic)) {
        return Vec::new();
    }
    let all = || {
        let records = |(run, entry): (usize, &Run)| {
            (0..entry.records.len())
                .map(move |record| RecordId { run: run as u32, record: record as u32 })
        };
        shipment.runs.iter().enumerate().flat_map(records).collect()
    };
    let is_known = |id: &RecordId| topics.contains_key(&shipment.runs[id.run as usize].topic);
    let (known, unknown) = only.take().unwrap_or_else(all).into_iter().partition(is_known);
    *only = Some(known);
    unknown
}

/// Returns the partition of a record.
fn partition_of(
    by: Partitioner,
    run: &Run,
    key: Option<&[u8]>,
    round: i32,
    partitions: i32,
) -> i32 {
    let of_origin = || (run.origin % partitions.max(1) as u64) as i32;
    match (by, by.key_hash(), key) {
        (_, Some(hash), Some(key)) => KeyHash::partition(hash, key, partitions),
        (Partitioner::RoundRobin, ..) => round % partitions.max(1),
        _ => of_origin(),
    }
}

impl Lane for KafkaLane {
    fn start(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            let topic = &self.config.topic.0;
            if topic.is_constant() {
                let topic: Arc<str> = topic.outline(0).into();
                let partitions = self.fetch_partitions(topic.clone()).await?;
                self.topics.insert(topic, (partitions, Instant::now()));
            }
            Ok(())
        })
    }

    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            let Some(encoded) = payload.routing_as::<EncodedShipment>() else {
                return Err(DeliverError::reject(
                    "panic",
                    "received another sink's payload; this is a bug",
                ));
            };
            loop {
                self.recover().await?;
                if self.has_capacity() {
                    break;
                }
                self.wait_for_reports().await?;
            }
            self.load_metadata(&encoded.shipment).await?;
            self.pending.push_back(Pending {
                shipment: encoded.shipment.clone(),
                codec: encoded.codec,
                _routing: payload.routing.clone(),
                state: State::Waiting(None),
                suspects: Vec::new(),
                rest: Vec::new(),
                refused: 0,
                sent: Instant::now(),
            });
            // If the client rejects the shipment now, the next `recover` sends it.
            let _ = self.send_waiting();
            Ok(Delivery::Sent)
        })
    }

    fn refused(&mut self) -> Vec<Refused> {
        self.process_receipts();
        std::mem::take(&mut self.refused)
    }

    // Do not process delivery reports here. They may add rejected events, and the engine must get
    // those from `refused` before the payload counts as settled.
    fn settled(&mut self) -> Vec<Settled> {
        let throttled =
            self.client.as_ref().map_or(Duration::ZERO, |client| client.take_throttled());
        if !throttled.is_zero() {
            self.counters.waited("broker_quota", throttled);
        }
        let mut settled = Vec::new();
        while self.pending.front().is_some_and(|pending| pending.state == State::Done) {
            let Some(Pending { refused, .. }) = self.pending.pop_front() else { break };
            self.first += 1;
            let outcome = if refused > 0 { Outcome::Rejected } else { Outcome::Delivered };
            settled.push(Settled { outcome, refused });
        }
        settled
    }

    fn progress(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            loop {
                self.recover().await?;
                let has_settled = self.pending.front().is_some_and(|p| p.state == State::Done);
                if has_settled || !self.refused.is_empty() {
                    return Ok(());
                }
                self.wait_for_reports().await?;
            }
        })
    }
}

#[cfg(test)]
mod tests;
