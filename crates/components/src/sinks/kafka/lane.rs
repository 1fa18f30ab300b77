//! The lane: hands shipments to the client, follows their reports, and mends what fails.

use super::config::{KafkaConfig, Partitioner};
use super::encoder::Cargo;
use super::faults;
use super::settings::{self, Pace};
use millstream_kafka::{ErrorCode, Failure, KeyHash, Producer, Receipt, RecordId, Run, Shipment};
use millstream_model::{
    BoxFuture, Counters, DeliverError, Delivery, Lane, Outcome, Payload, Settled,
};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Records on their way at once, at least 200 bytes of the library's each. More than a round trip
/// to a far broker takes; the bytes are bounded by the engine.
pub const RECORDS_MAX: usize = 100_000;

/// How long a question about a topic waits for its answer.
const ANSWER: Duration = Duration::from_secs(3);

/// How long no report may come before that is said.
const SILENCE: Duration = Duration::from_secs(3);

/// How often the number of a topic's partitions is asked for.
const ASK_AGAIN: Duration = Duration::from_secs(300);

/// How long after a refusal batches become larger again.
const LARGER_AFTER: Duration = Duration::from_secs(60);

/// How often refused records are shown in the log.
const SAY_AGAIN: Duration = Duration::from_secs(30);

/// Receipts on their way from the thread of reports to the lane.
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
    /// Holds what the shipment takes of the grant.
    _cargo: Arc<Cargo>,
    state: State,
    /// Records of a batch that was refused, to be sent one by one before everything else.
    suspects: Vec<RecordId>,
    /// What waits while they are.
    rest: Vec<RecordId>,
    refused: u64,
    /// When it was handed over.
    sent: Instant,
}

#[derive(PartialEq)]
enum State {
    /// To be sent: all of its records, or these.
    Waiting(Option<Vec<RecordId>>),
    /// With the client.
    Flying,
    /// Every record has arrived or was refused.
    Done,
}

/// Why the client does not get on.
struct Fault {
    code: ErrorCode,
    topic: Arc<str>,
}

/// The lane.
pub struct KafkaLane {
    config: Arc<KafkaConfig>,
    counters: Arc<Counters>,
    client: Option<Arc<Producer>>,
    receipts: Arc<Receipts>,
    /// Partitions of each topic, and when they were asked for.
    topics: HashMap<Arc<str>, (i32, Instant)>,
    /// Oldest first.
    pending: VecDeque<Pending>,
    /// Number of the oldest.
    first: u64,
    flying_records: usize,
    linger: Duration,
    pace: Pace,
    /// When the pace last changed.
    paced: Instant,
    fault: Option<Fault>,
    /// When something last went well, or begun.
    heard: Instant,
    /// What the library last complained about since then.
    complaint: Option<(ErrorCode, String)>,
    turn: i32,
    said: Option<Instant>,
}

impl KafkaLane {
    /// A lane that connects when it starts.
    pub fn new(config: Arc<KafkaConfig>, counters: Arc<Counters>) -> KafkaLane {
        let linger = settings::linger(&config);
        KafkaLane {
            config,
            counters,
            client: None,
            receipts: Arc::default(),
            topics: HashMap::new(),
            pending: VecDeque::new(),
            first: 0,
            flying_records: 0,
            linger,
            pace: Pace::default(),
            paced: Instant::now(),
            fault: None,
            heard: Instant::now(),
            complaint: None,
            turn: 0,
            said: None,
        }
    }

    /// The client, made if there is none.
    fn client(&mut self) -> Result<Arc<Producer>, DeliverError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let receipts = self.receipts.clone();
        let client = Producer::open(&settings::of(&self.config, &self.pace), move |receipt| {
            receipts.put(receipt)
        });
        let client = Arc::new(client.map_err(|error| DeliverError::retry("client", error.0))?);
        Ok(self.client.insert(client).clone())
    }

    /// Lets the client go, on a thread that may wait for it.
    fn close_client(&mut self) {
        if let Some(client) = self.client.take() {
            tokio::task::spawn_blocking(move || drop(client));
        }
    }

    /// Takes in what was reported.
    fn harvest(&mut self) {
        for receipt in self.receipts.take() {
            let index = receipt.tag.wrapping_sub(self.first) as usize;
            let Some(shipment) = self.pending.get(index).map(|pending| pending.shipment.clone())
            else {
                continue;
            };
            let (mut left, mut suspects, mut refused) = (Vec::new(), Vec::new(), 0);
            for failure in &receipt.failures {
                if self.is_refused(failure) {
                    refused += self.refuse(&shipment, failure);
                    continue;
                }
                left.push(failure.record);
                self.note_fault(&shipment, failure);
                if faults::is_about_record(failure.code) {
                    suspects.push(failure.record);
                }
            }
            self.flying_records = self.flying_records.saturating_sub(shipment.records());
            let pending = &mut self.pending[index];
            (pending.refused, pending.suspects) = (pending.refused + refused, suspects);
            left.append(&mut pending.rest);
            left.sort_unstable();
            pending.state = if left.is_empty() { State::Done } else { State::Waiting(Some(left)) };
            if receipt.failures.is_empty() {
                (self.heard, self.complaint) = (Instant::now(), None);
            }
        }
    }

    /// Whether the record itself is at fault. In a batch with others that is not known.
    fn is_refused(&self, failure: &Failure) -> bool {
        faults::is_about_record(failure.code) && (failure.at_once || self.pace.one_by_one)
    }

    /// Counts a record that is refused, and says so; the events it stands for.
    fn refuse(&mut self, shipment: &Shipment, failure: &Failure) -> u64 {
        let reason = faults::reason(failure.code);
        let run = &shipment.runs[failure.record.run as usize];
        self.counters.dropped(reason, run.events);
        if self.said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            self.said = Some(Instant::now());
            log::warn!(
                "topic {}: a record of {} bytes is refused ({}) and counted as {reason}; more of them are only \
                 counted for {} s",
                run.topic,
                shipment.payload(failure.record).len(),
                failure.code,
                SAY_AGAIN.as_secs()
            );
        }
        run.events
    }

    /// Remembers the cause; what merely fell with it says nothing.
    fn note_fault(&mut self, shipment: &Shipment, failure: &Failure) {
        let known = self.fault.as_ref().is_some_and(|fault| !faults::is_consequence(fault.code));
        if !known {
            let topic = shipment.runs[failure.record.run as usize].topic.clone();
            self.fault = Some(Fault { code: failure.code, topic });
        }
    }

    /// Whether one more payload may be handed over. With idempotence librdkafka (2.12) sends up to
    /// five requests to a partition, then none until all of them are answered; from the moment that
    /// one more is due, by `linger.ms`, until it may go, its thread spins. So what would wait
    /// longer for a slow answer than the library lingers waits here.
    fn has_room(&self) -> bool {
        let flying = |pending: &&Pending| pending.state == State::Flying;
        let Some(oldest) = self.pending.iter().find(flying) else { return true };
        !self.pace.one_by_one
            && self.flying_records < RECORDS_MAX
            && oldest.sent.elapsed() < self.linger / 2
    }

    fn is_flying(&self) -> bool {
        self.pending.iter().any(|pending| pending.state == State::Flying)
    }

    /// After a failure: takes back everything that is on its way, changes what has to change, and
    /// sends it again, in order. Without one it returns at once.
    async fn mend(&mut self) -> Result<(), DeliverError> {
        self.harvest();
        if self.fault.is_some() {
            self.collect().await;
            self.close_client();
            if let Some(fault) = self.fault.take() {
                self.adapt(fault)?;
            }
        }
        if !self.is_flying() {
            self.hurry();
        }
        let waits = |pending: &Pending| matches!(pending.state, State::Waiting(_));
        if self.pending.iter().any(waits) {
            let shipments: Vec<_> =
                self.pending.iter().filter(|p| waits(p)).map(|p| p.shipment.clone()).collect();
            for shipment in &shipments {
                self.look_up(shipment).await?;
            }
            self.send_waiting()?;
        }
        Ok(())
    }

    /// With nothing on its way: back to batches once the suspects are through, and to larger ones
    /// after a while without a refusal.
    fn hurry(&mut self) {
        let suspects = self.pending.iter().any(|pending| !pending.suspects.is_empty());
        let pace = match self.pace.one_by_one {
            true if suspects => self.pace,
            true => Pace { one_by_one: false, ..self.pace },
            false if self.paced.elapsed() >= LARGER_AFTER => self.pace.larger(),
            false => self.pace,
        };
        self.set_pace(pace);
    }

    fn set_pace(&mut self, pace: Pace) {
        if pace != self.pace {
            (self.pace, self.paced) = (pace, Instant::now());
            self.close_client();
        }
    }

    /// Waits until nothing is on its way any more.
    async fn collect(&mut self) {
        while self.is_flying() {
            if let Some(client) = &self.client {
                client.purge();
            }
            let _ = timeout(Duration::from_millis(50), self.receipts.changed.notified()).await;
            self.harvest();
        }
    }

    /// Prepares for the next attempt; an error is for the engine to say and to wait for.
    fn adapt(&mut self, fault: Fault) -> Result<(), DeliverError> {
        if faults::is_about_record(fault.code) {
            let (topic, bytes) = (&fault.topic, self.pace.batch_bytes);
            log::info!(
                "topic {topic}: a batch of up to {bytes} bytes is refused ({}); smaller ones follow",
                fault.code
            );
            self.set_pace(self.pace.smaller());
            return Ok(());
        }
        if faults::is_about_topic(fault.code) {
            self.topics.remove(&fault.topic);
        }
        let complaint =
            self.complaint.as_ref().map_or(String::new(), |(_, text)| format!(" ({text})"));
        Err(faults::error(fault.code, format!("topic {}: {}{complaint}", fault.topic, fault.code)))
    }

    /// Makes sure that the topics of a shipment are there and their partitions known.
    async fn look_up(&mut self, shipment: &Shipment) -> Result<(), DeliverError> {
        for (index, Run { topic, .. }) in shipment.runs.iter().enumerate() {
            if index > 0 && shipment.runs[index - 1].topic == *topic {
                continue;
            }
            let known = self.topics.get(topic).copied();
            if known.is_some_and(|(_, asked)| asked.elapsed() < ASK_AGAIN) {
                continue;
            }
            if known.is_none() && self.topics.len() >= self.config.topics_max {
                continue;
            }
            match (self.ask(topic.clone()).await, known) {
                (Ok(partitions), _) => {
                    self.topics.insert(topic.clone(), (partitions, Instant::now()));
                }
                // What is known still serves.
                (Err(_), Some((partitions, _))) => {
                    self.topics.insert(topic.clone(), (partitions, Instant::now()));
                }
                (Err(error), None) => return Err(error),
            }
        }
        Ok(())
    }

    /// Asks a broker for the number of a topic's partitions.
    async fn ask(&mut self, topic: Arc<str>) -> Result<i32, DeliverError> {
        let client = self.client()?;
        let (asked, name) = (client.clone(), topic.clone());
        let answer = tokio::task::spawn_blocking(move || asked.partitions(&name, ANSWER)).await;
        let error = match answer {
            Ok(Ok(partitions)) => return Ok(partitions),
            Ok(Err(error)) => error,
            Err(error) => return Err(DeliverError::retry("panic", error.to_string())),
        };
        let complaint = client.take_trouble().or(self.complaint.take());
        self.complaint.clone_from(&complaint);
        let brokers = self.config.brokers.join(", ");
        Err(match complaint {
            Some((code, text)) => {
                faults::error(code, format!("cannot reach Kafka at {brokers}: {text}"))
            }
            None => {
                faults::error(error.code, format!("topic {topic} at {brokers}: {}", error.message))
            }
        })
    }

    /// Hands every waiting shipment to the client, oldest first.
    fn send_waiting(&mut self) -> Result<(), DeliverError> {
        let client = self.client()?;
        if !self.is_flying() {
            self.heard = Instant::now();
        }
        for index in 0..self.pending.len() {
            let pending = &mut self.pending[index];
            let State::Waiting(only) = &mut pending.state else { continue };
            let (mut only, shipment) = (only.take(), pending.shipment.clone());
            if self.pace.one_by_one {
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
            let only = without_homeless(
                only,
                &shipment,
                &self.topics,
                &self.counters,
                &mut pending.refused,
            );
            (pending.state, pending.sent) = (State::Flying, Instant::now());
            self.flying_records += shipment.records();
            let (topics, by, turn) = (&self.topics, self.config.partitioner(), self.turn);
            let partition = |run: &Run, key: Option<&[u8]>| {
                let partitions = topics.get(&run.topic).map_or(1, |(partitions, _)| *partitions);
                partition_of(by, run, key, turn, partitions)
            };
            client.send(&shipment, self.first + index as u64, only.as_deref(), partition);
            self.turn = self.turn.wrapping_add(1) & i32::MAX;
        }
        Ok(())
    }

    /// Waits for reports. An error says that none has come for long.
    async fn listen(&mut self) -> Result<(), DeliverError> {
        let reported =
            timeout(Duration::from_secs(1), self.receipts.changed.notified()).await.is_ok();
        if let Some(complaint) = self.client.as_ref().and_then(|client| client.take_trouble()) {
            self.complaint = Some(complaint);
        }
        let silence = self.heard.elapsed();
        if reported || silence < SILENCE {
            return Ok(());
        }
        let brokers = self.config.brokers.join(", ");
        Err(match &self.complaint {
            Some((code, text)) => {
                faults::error(*code, format!("no answer from Kafka at {brokers}: {text}"))
            }
            None => faults::error(
                ErrorCode::OperationTimedOut,
                format!("no answer from Kafka at {brokers}"),
            ),
        })
    }
}

/// Leaves out the records whose topic is one too many; they are refused and counted.
fn without_homeless(
    only: Option<Vec<RecordId>>,
    shipment: &Shipment,
    topics: &HashMap<Arc<str>, (i32, Instant)>,
    counters: &Counters,
    refused: &mut u64,
) -> Option<Vec<RecordId>> {
    if shipment.runs.iter().all(|run| topics.contains_key(&run.topic)) {
        return only;
    }
    let all = || {
        let records = |(run, of): (usize, &Run)| {
            (0..of.records.len())
                .map(move |record| RecordId { run: run as u32, record: record as u32 })
        };
        shipment.runs.iter().enumerate().flat_map(records).collect()
    };
    let mut records: Vec<RecordId> = only.unwrap_or_else(all);
    let mut homeless = 0;
    records.retain(|id| {
        let run = &shipment.runs[id.run as usize];
        let has_home = topics.contains_key(&run.topic);
        homeless += if has_home { 0 } else { run.events };
        has_home
    });
    counters.dropped("too_many_topics", homeless);
    *refused += homeless;
    Some(records)
}

/// The partition of a record.
fn partition_of(by: Partitioner, run: &Run, key: Option<&[u8]>, turn: i32, partitions: i32) -> i32 {
    let of_origin = || (run.origin % partitions.max(1) as u64) as i32;
    match (by, by.key_hash(), key) {
        (_, Some(hash), Some(key)) => KeyHash::partition(hash, key, partitions),
        (Partitioner::RoundRobin, ..) => turn % partitions.max(1),
        _ => of_origin(),
    }
}

impl Lane for KafkaLane {
    fn start(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async move {
            let topic = &self.config.topic.0;
            if topic.is_constant() {
                let topic: Arc<str> = topic.outline(0).into();
                let partitions = self.ask(topic.clone()).await?;
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
            let cargo =
                payload.routing.as_ref().and_then(|routing| routing.downcast_ref::<Arc<Cargo>>());
            let Some(cargo) = cargo else {
                return Err(DeliverError::reject(
                    "panic",
                    "a payload of another sink: this is a bug",
                ));
            };
            loop {
                self.mend().await?;
                if self.has_room() {
                    break;
                }
                self.listen().await?;
            }
            self.look_up(&cargo.shipment).await?;
            self.pending.push_back(Pending {
                shipment: cargo.shipment.clone(),
                _cargo: cargo.clone(),
                state: State::Waiting(None),
                suspects: Vec::new(),
                rest: Vec::new(),
                refused: 0,
                sent: Instant::now(),
            });
            // Should the client refuse now, the next call of `mend` sends it.
            let _ = self.send_waiting();
            Ok(Delivery::Sent)
        })
    }

    fn settled(&mut self) -> Vec<Settled> {
        self.harvest();
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
                self.mend().await?;
                if self.pending.front().is_some_and(|pending| pending.state == State::Done) {
                    return Ok(());
                }
                self.listen().await?;
            }
        })
    }
}
