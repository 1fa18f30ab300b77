//! A librdkafka consumer whose records arrive through a separate queue.
//!
//! The library has one queue per partition and forwards all of them to the consumer's queue. This
//! module forwards them to a data queue instead, so that group events are served even while no
//! records are taken. A full data queue stops the fetchers, but the member stays in its group.
//!
//! A rebalance is an ordinary event. The library waits until [`Consumer::assign`] or
//! [`Consumer::unassign`] responds to it.

mod fetched;
mod topic_state;

pub use fetched::{Fetched, FetchedRecord, Timestamp};
pub use topic_state::TopicState;

use crate::ErrorCode;
use crate::client::{Callbacks, ClientError, OpenError};
use crate::traffic::Traffic;
use parking_lot::Mutex;
use rdkafka::bindings as c;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};
use std::collections::VecDeque;
use std::error::Error;
use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of events that a call serves, including logs.
const EVENTS_PER_CALL: usize = 8;

/// Maximum time that closing a client waits until its records are released.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Partition number.
    pub partition: i32,
}

/// A place in a partition, for which the brokers can return the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first record.
    First,
    /// The position after the last record.
    End,
    /// The first record whose time is at least this, in milliseconds since 1970.
    Time(i64),
}

/// An event of the consumer group or the client.
#[derive(Debug)]
pub enum Event {
    /// The group assigns these partitions. Respond with [`Consumer::assign`].
    Assign(Vec<TopicPartition>),
    /// The group revokes these partitions. Respond with [`Consumer::unassign`].
    Revoke {
        /// The revoked partitions.
        partitions: Vec<TopicPartition>,
        /// Whether another member may already own the partitions, so that nothing can be committed.
        is_lost: bool,
    },
    /// The response to a commit.
    Committed(Result<(), ClientError>),
    /// An error. The client continues.
    Error(ClientError),
}

/// A member of a consumer group. All clones refer to the same member.
#[derive(Clone)]
pub struct Consumer(Arc<Inner>);

struct Inner {
    // The queues must be declared before the client, so that they are destroyed first.
    data: Queue,
    /// Responses to commits.
    commits: Queue,
    client: BaseConsumer<Context>,
}

/// Receives librdkafka's callbacks.
struct Context {
    callbacks: Callbacks,
    events: Mutex<VecDeque<Event>>,
    /// Whether to respond to rebalances immediately, because no thread handles them anymore.
    is_closing: AtomicBool,
}

/// A librdkafka queue.
struct Queue(NonNull<c::rd_kafka_queue_t>);

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for Queue {}
// SAFETY: as above; the library locks them.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the library returned the pointer with a reference, which is released once, here.
        unsafe { c::rd_kafka_queue_destroy(self.0.as_ptr()) }
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.callbacks.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log::debug!("librdkafka {error}: {reason}");
        let code = error.rdkafka_error_code().unwrap_or(ErrorCode::Unknown);
        self.push(Event::Error(ClientError { code, message: reason.to_owned() }));
    }

    fn stats_raw(&self, json: &[u8]) {
        self.callbacks.statistics(json);
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let token = self.callbacks.token();
        let failed = self.callbacks.last_error().take();
        failed.into_iter().for_each(|error| self.push(Event::Error(error)));
        token
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        client: &BaseConsumer<Context>,
        code: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let partitions = partitions(list);
        let is_assign = code == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.is_closing.load(Ordering::Acquire) {
            let none = TopicPartitionList::new();
            let answered = if is_assign { assign(client, &none) } else { unassign(client, list) };
            return answered.unwrap_or_else(|error| log::debug!("closing a consumer: {error}"));
        }
        self.push(match is_assign {
            true => Event::Assign(partitions),
            false => Event::Revoke { partitions, is_lost: client.assignment_lost() },
        });
    }
}

impl Context {
    fn push(&self, event: Event) {
        self.events.lock().push_back(event);
    }
}

impl Consumer {
    /// Creates a client from librdkafka settings, which must contain `group.id`. The client
    /// connects in the background. For SASL OAUTHBEARER, it uses the token in `token_file`.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid.
    pub fn open(
        settings: &[(String, String)],
        token_file: Option<PathBuf>,
    ) -> Result<Consumer, OpenError> {
        let mut config = ClientConfig::new();
        Traffic::request(&mut config);
        for (key, value) in settings {
            config.set(key, value);
        }
        config.set_log_level(RDKafkaLogLevel::Warning);
        let context = Context {
            callbacks: Callbacks::new(token_file),
            events: Mutex::default(),
            is_closing: AtomicBool::new(false),
        };
        let client: BaseConsumer<Context> =
            config.create_with_context(context).map_err(|error| OpenError(error.to_string()))?;
        let queue = || {
            // SAFETY: the client is alive; the queue is destroyed before it.
            let queue = unsafe { c::rd_kafka_queue_new(client.client().native_ptr()) };
            NonNull::new(queue).map(Queue).ok_or_else(|| OpenError("no queue".to_owned()))
        };
        let (data, commits) = (queue()?, queue()?);
        Ok(Consumer(Arc::new(Inner { data, commits, client })))
    }

    /// Subscribes to topics by name; a name that begins with `^` is a regular expression.
    ///
    /// # Errors
    /// Returns an error if a regular expression is invalid.
    pub fn subscribe(&self, topics: &[&str]) -> Result<(), String> {
        self.0.client.subscribe(topics).map_err(|error| error.to_string())
    }

    /// Serves the group's events for up to `timeout`, and returns the events that occurred.
    pub fn serve(&self, timeout: Duration) -> Vec<Event> {
        // Each poll serves one event. Errors also reach the context, with better text. Records
        // arrive through the data queue.
        for timeout in std::iter::once(timeout).chain([Duration::ZERO; EVENTS_PER_CALL - 1]) {
            if let Some(Ok(message)) = self.0.client.poll(timeout) {
                log::debug!("a record outside the data queue: {message:?}");
            }
        }
        while let Some(answer) = self.commit_answer() {
            self.0.client.context().push(Event::Committed(answer));
        }
        self.0.client.context().events.lock().drain(..).collect()
    }

    /// Takes up to `max` records, and waits up to `timeout` for the first one.
    pub fn fetch(&self, max: usize, timeout: Duration) -> Fetched {
        Fetched::take(self.clone(), max, timeout)
    }

    /// Returns how long broker quotas delayed requests since the last call.
    pub fn take_throttled(&self) -> Duration {
        self.0.client.context().callbacks.take_throttled()
    }

    /// Returns the offsets that the group has committed, in the order of `partitions`; `None` for a
    /// partition without a committed offset.
    ///
    /// # Errors
    /// Returns an error if the brokers do not respond within `timeout`, or reject the request.
    pub fn committed(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<u64>>, ClientError> {
        let list = list(partitions.iter().map(|partition| (partition, Offset::Invalid)))?;
        offsets(&self.0.client.committed_offsets(list, timeout)?, partitions)
    }

    /// Returns the offset of a place in each partition; `None` if the place is a time after the
    /// last record.
    ///
    /// # Errors
    /// Returns an error if the brokers do not respond within `timeout`, or reject the request.
    pub fn find(
        &self,
        partitions: &[TopicPartition],
        place: Place,
        timeout: Duration,
    ) -> Result<Vec<Option<u64>>, ClientError> {
        let place = match place {
            Place::First => Offset::Beginning,
            Place::End => Offset::End,
            Place::Time(ms) => Offset::Offset(ms.max(0)),
        };
        let list = list(partitions.iter().map(|partition| (partition, place)))?;
        offsets(&self.0.client.offsets_for_times(list, timeout)?, partitions)
    }

    /// Returns the end of a partition as of the last fetch; `None` before the first fetch.
    pub fn known_end(&self, partition: &TopicPartition) -> Option<u64> {
        let topic = CString::new(&*partition.topic).ok()?;
        let (mut low, mut high) = (0, 0);
        // SAFETY: the client is alive, the name is a C string, and both offsets are written.
        let code = unsafe {
            c::rd_kafka_get_watermark_offsets(
                self.native(),
                topic.as_ptr(),
                partition.partition,
                &mut low,
                &mut high,
            )
        };
        let is_ok = code == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        if is_ok { u64::try_from(high).ok() } else { None }
    }

    /// Starts reading partitions at these offsets. If the group rebalances cooperatively, the
    /// member also keeps its current partitions; otherwise, these partitions replace them.
    ///
    /// # Errors
    /// Returns an error if the group is in another state.
    pub fn assign(&self, to: &[(TopicPartition, u64)]) -> Result<(), ClientError> {
        to.iter().for_each(|(partition, _)| self.forward(partition));
        let offset = |offset: u64| Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        let list = list(to.iter().map(|(partition, at)| (partition, offset(*at))))?;
        Ok(assign(&self.0.client, &list)?)
    }

    /// Stops reading partitions. If the group does not rebalance cooperatively, the member stops
    /// reading all of its partitions.
    ///
    /// # Errors
    /// Returns an error if the group is in another state.
    pub fn unassign(&self, from: &[TopicPartition]) -> Result<(), ClientError> {
        let list = list(from.iter().map(|partition| (partition, Offset::Invalid)))?;
        Ok(unassign(&self.0.client, &list)?)
    }

    /// Returns whether the group rebalances cooperatively, so that a member keeps the partitions
    /// that a rebalance does not mention.
    pub fn is_cooperative(&self) -> bool {
        matches!(self.0.client.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }

    /// Starts a commit. Its response arrives as an event.
    ///
    /// # Errors
    /// Returns an error if the client cannot send the commit.
    pub fn commit(&self, offsets: &[(TopicPartition, u64)]) -> Result<(), ClientError> {
        let offset = |offset: u64| Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        let list = list(offsets.iter().map(|(partition, at)| (partition, offset(*at))))?;
        // SAFETY: client and queue are alive; the library copies the list, and there is no
        // callback.
        let code = unsafe {
            let queue = self.0.commits.0.as_ptr();
            c::rd_kafka_commit_queue(self.native(), list.ptr(), queue, None, null_mut())
        };
        answer(code)
    }

    /// Takes the response to a commit, if one has arrived.
    fn commit_answer(&self) -> Option<Result<(), ClientError>> {
        // SAFETY: the queue is alive; the event from it is read, and then destroyed once.
        unsafe {
            let event = c::rd_kafka_queue_poll(self.0.commits.0.as_ptr(), 0);
            let event = NonNull::new(event)?.as_ptr();
            let code = c::rd_kafka_event_error(event);
            c::rd_kafka_event_destroy(event);
            Some(answer(code))
        }
    }

    /// Returns the cluster id; `None` if no broker responds within `timeout`.
    pub fn cluster_id(&self, timeout: Duration) -> Option<String> {
        self.0.client.client().fetch_cluster_id(timeout)
    }

    /// Returns the state of each topic, as reported by the brokers.
    pub fn describe(
        &self,
        topics: &[Arc<str>],
        timeout: Duration,
    ) -> Result<Vec<TopicState>, ClientError> {
        topic_state::fetch(self, topics, timeout)
    }

    /// Leaves the group once all its records are released, but after a second at the latest.
    /// Responds to pending rebalances.
    pub fn close(self) {
        self.0.client.context().is_closing.store(true, Ordering::Release);
        for event in self.0.client.context().events.lock().drain(..) {
            let none = TopicPartitionList::new();
            let answered = match event {
                Event::Assign(_) => assign(&self.0.client, &none).map_err(ClientError::from),
                Event::Revoke { partitions, .. } => self.unassign(&partitions),
                _ => Ok(()),
            };
            answered.unwrap_or_else(|error| log::debug!("closing a consumer: {}", error.message));
        }
        // The client leaves the group when the last reference to it is dropped.
        let begun = Instant::now();
        while Arc::strong_count(&self.0) > 1 && begun.elapsed() < CLOSE_WAIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Forwards a partition's records to the data queue. The library stops forwarding some time
    /// after a partition is unassigned, so a partition that is reassigned immediately must be
    /// forwarded again. Forwarding a partition again has no effect.
    pub fn forward(&self, partition: &TopicPartition) {
        let Ok(topic) = CString::new(&*partition.topic) else { return };
        let partition = partition.partition;
        // SAFETY: the client is alive and the name is a C string. The reference to the queue is
        // released when `Queue` is dropped, and the data queue outlives the call.
        unsafe {
            let queue = c::rd_kafka_queue_get_partition(self.native(), topic.as_ptr(), partition);
            if let Some(queue) = NonNull::new(queue).map(Queue) {
                c::rd_kafka_queue_forward(queue.0.as_ptr(), self.0.data.0.as_ptr());
            }
        }
    }

    fn native(&self) -> *mut c::rd_kafka_t {
        self.0.client.client().native_ptr()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.client.context().is_closing.store(true, Ordering::Release);
    }
}

fn assign(client: &BaseConsumer<Context>, list: &TopicPartitionList) -> KafkaResult<()> {
    match client.rebalance_protocol() {
        RebalanceProtocol::Cooperative => client.incremental_assign(list),
        RebalanceProtocol::None | RebalanceProtocol::Eager => client.assign(list),
    }
}

fn unassign(client: &BaseConsumer<Context>, list: &TopicPartitionList) -> KafkaResult<()> {
    match client.rebalance_protocol() {
        RebalanceProtocol::Cooperative => client.incremental_unassign(list),
        RebalanceProtocol::None | RebalanceProtocol::Eager => client.unassign(),
    }
}

/// Converts an error code from the library to a result.
fn answer(code: c::rd_kafka_resp_err_t) -> Result<(), ClientError> {
    if code == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Ok(());
    }
    let code = ErrorCode::from(code);
    Err(ClientError { code, message: code.to_string() })
}

fn partitions(list: &TopicPartitionList) -> Vec<TopicPartition> {
    let partition = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
        TopicPartition { topic: element.topic().into(), partition: element.partition() }
    };
    list.elements().iter().map(partition).collect()
}

fn list<'a>(
    entries: impl Iterator<Item = (&'a TopicPartition, Offset)>,
) -> Result<TopicPartitionList, ClientError> {
    let mut list = TopicPartitionList::new();
    for (TopicPartition { topic, partition }, offset) in entries {
        list.add_partition_offset(topic, *partition, offset)?;
    }
    Ok(list)
}

/// Returns the offsets from a list in the order of `partitions`.
fn offsets(
    list: &TopicPartitionList,
    partitions: &[TopicPartition],
) -> Result<Vec<Option<u64>>, ClientError> {
    let offset = |partition: &TopicPartition| {
        let element = list.find_partition(&partition.topic, partition.partition);
        let Some(element) = element else { return Ok(None) };
        element.error()?;
        match element.offset() {
            Offset::Offset(offset) => Ok(u64::try_from(offset).ok()),
            _ => Ok(None),
        }
    };
    partitions.iter().map(offset).collect()
}
