//! A librdkafka producer, with a thread that polls its delivery reports.

use crate::ErrorCode;
use crate::client::{Callbacks, ClientError, OpenError};
use crate::in_flight::{Failure, InFlight, OnReceipt, Receipt};
use crate::shipment::{RecordId, Run, Shipment};
use crate::traffic::Traffic;
use parking_lot::Mutex;
use rdkafka::bindings as c;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{
    BaseProducer, DeliveryResult, Producer as _, ProducerContext, PurgeConfig,
};
use rdkafka::types::RDKafkaConfRes;
use rdkafka::{ClientConfig, ClientContext};
use std::collections::HashMap;
use std::error::Error;
use std::ffi::{CStr, CString};
use std::os::raw::c_void;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of messages per call, chosen so that their structs (72 bytes each) fit into the
/// L1 cache.
const MESSAGES_PER_CALL_MAX: usize = 256;

/// librdkafka's `RD_KAFKA_PARTITION_UA`, which means that each message specifies its partition.
const ANY_PARTITION: i32 = -1;

/// Maximum time that the report thread blocks before it checks whether to exit.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// Checks a single setting. The error message does not contain the value.
pub fn check(key: &str, value: &str) -> Result<(), String> {
    let mut config = ClientConfig::new();
    config.set(key, value);
    match config.create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
            Err("unknown property".into())
        }
        Err(_) => Err("invalid value".into()),
    }
}

/// A client that sends records.
pub struct Producer {
    // The topics must be declared before the client, so that they are destroyed first.
    topics: Mutex<HashMap<Arc<str>, Topic>>,
    client: Arc<BaseProducer<Context>>,
    on_receipt: OnReceipt,
    stop: Arc<AtomicBool>,
    reports: Option<JoinHandle<()>>,
}

/// Receives librdkafka's logs, errors and delivery reports.
struct Context(Callbacks);

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(&error, reason);
    }

    fn stats_raw(&self, json: &[u8]) {
        self.0.statistics(json);
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.0.token()
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Arc<InFlight>;

    fn delivery(&self, result: &DeliveryResult<'_>, flight: Arc<InFlight>) {
        if let Err((error, message)) = result {
            let code = error.rdkafka_error_code().unwrap_or(ErrorCode::Unknown);
            flight.fail_at(message.payload().map_or(0, |payload| payload.as_ptr() as usize), code);
        }
    }
}

/// A librdkafka topic handle.
struct Topic(*mut c::rd_kafka_topic_t);

// SAFETY: librdkafka's topic handles may be used from any thread.
unsafe impl Send for Topic {}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: created by `rd_kafka_topic_new`, and destroyed once, before its client.
        unsafe { c::rd_kafka_topic_destroy(self.0) }
    }
}

impl Producer {
    /// Creates a client from librdkafka settings. The client connects in the background. For SASL
    /// OAUTHBEARER, it uses the token in `token_file`. `on_receipt` gets a receipt for every
    /// [`Producer::send`], even if the client is dropped.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid, or the thread cannot be started.
    pub fn open(
        settings: &[(String, String)],
        token_file: Option<PathBuf>,
        on_receipt: impl Fn(Receipt) + Send + Sync + 'static,
    ) -> Result<Producer, OpenError> {
        let mut config = ClientConfig::new();
        Traffic::request(&mut config);
        for (key, value) in settings {
            config.set(key, value);
        }
        config.set_log_level(RDKafkaLogLevel::Warning);
        let client: BaseProducer<Context> = config
            .create_with_context(Context(Callbacks::new(token_file)))
            .map_err(|error| OpenError(error.to_string()))?;
        let (client, stop) = (Arc::new(client), Arc::new(AtomicBool::new(false)));
        let (polled, stopped) = (client.clone(), stop.clone());
        let poll = move || {
            while !stopped.load(Ordering::Acquire) {
                polled.poll(POLL_TIMEOUT);
            }
        };
        let reports = std::thread::Builder::new().name("kafka-reports".into()).spawn(poll);
        let reports = reports.map_err(|error| {
            OpenError(format!("cannot start the thread for delivery reports: {error}"))
        })?;
        let topics = Mutex::default();
        Ok(Producer {
            topics,
            client,
            on_receipt: Arc::new(on_receipt),
            stop,
            reports: Some(reports),
        })
    }

    /// Returns the number of partitions in a topic. Blocks for up to `timeout`.
    pub fn partitions(&self, topic: &str, timeout: Duration) -> Result<i32, ClientError> {
        let failed = |code: ErrorCode| ClientError { code, message: code.to_string() };
        let metadata =
            self.client.client().fetch_metadata(Some(topic), timeout).map_err(|error| {
                failed(error.rdkafka_error_code().unwrap_or(ErrorCode::Unknown))
            })?;
        let topic = metadata.topics().first().ok_or_else(|| failed(ErrorCode::UnknownTopic))?;
        match topic.error() {
            Some(error) => Err(failed(error.into())),
            None if topic.partitions().is_empty() => {
                Err(failed(ErrorCode::UnknownTopicOrPartition))
            }
            None => Ok(i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX)),
        }
    }

    /// Takes the client's last error, if one has occurred since the previous call.
    pub fn take_last_error(&self) -> Option<(ErrorCode, String)> {
        let ClientError { code, message } = self.client.context().0.last_error().take()?;
        Some((code, message))
    }

    /// Returns how long broker quotas delayed requests since the last call.
    pub fn take_throttled(&self) -> Duration {
        self.client.context().0.take_throttled()
    }

    /// Aborts all records that are queued or in flight. They are immediately reported as failed.
    pub fn purge(&self) {
        self.client.purge(PurgeConfig::default().queue().inflight());
    }

    /// Sends the records in `shipment`, or only the records in `only`, which must ascend.
    /// `partition` returns the partition for a record, given its run and its key. The receipt
    /// carries `tag`.
    pub fn send(
        &self,
        shipment: &Arc<Shipment>,
        tag: u64,
        only: Option<&[RecordId]>,
        mut partition: impl FnMut(&Run, Option<&[u8]>) -> i32,
    ) {
        let flight = Arc::new(InFlight {
            shipment: shipment.clone(),
            tag,
            failures: Mutex::default(),
            on_receipt: self.on_receipt.clone(),
        });
        let mut topics = self.topics.lock();
        for (index, run) in shipment.runs.iter().enumerate() {
            let in_run = |only: &[RecordId]| -> Vec<u32> {
                only.iter().filter(|id| id.run as usize == index).map(|id| id.record).collect()
            };
            let records = only.map_or_else(|| (0..run.records.len() as u32).collect(), in_run);
            let mut call = Call { run, index: index as u32, flight: &flight, messages: Vec::new() };
            let topic = self.topic(&mut topics, &run.topic);
            for chunk in records.chunks(MESSAGES_PER_CALL_MAX) {
                let has_headers = !run.headers.is_empty() || run.id_header.is_some();
                match (topic, has_headers) {
                    (Err(code), _) => call.fail(chunk, code),
                    (Ok(topic), false) => call.produce(topic, chunk, &mut partition),
                    (Ok(topic), true) => {
                        call.produce_with_headers(&self.client, topic, chunk, &mut partition)
                    }
                }
            }
        }
    }

    fn topic(
        &self,
        topics: &mut HashMap<Arc<str>, Topic>,
        name: &Arc<str>,
    ) -> Result<*mut c::rd_kafka_topic_t, ErrorCode> {
        if let Some(topic) = topics.get(name) {
            return Ok(topic.0);
        }
        let text = CString::new(&**name).map_err(|_| ErrorCode::InvalidTopic)?;
        // SAFETY: the client is alive, the name is a C string, and a null configuration is
        // permitted.
        let topic = unsafe {
            c::rd_kafka_topic_new(self.client.client().native_ptr(), text.as_ptr(), null_mut())
        };
        if topic.is_null() {
            return Err(ErrorCode::InvalidTopic);
        }
        topics.insert(name.clone(), Topic(topic));
        Ok(topic)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(reports) = self.reports.take() {
            let _ = reports.join();
        }
        self.topics.get_mut().clear();
        // Dropping the client, of which this is the last reference, purges its records and reports
        // them.
    }
}

/// Passes one run's messages to librdkafka.
struct Call<'a> {
    run: &'a Run,
    index: u32,
    flight: &'a Arc<InFlight>,
    messages: Vec<c::rd_kafka_message_t>,
}

impl Call<'_> {
    fn fail(&self, records: &[u32], code: ErrorCode) {
        for record in records {
            let record = RecordId { run: self.index, record: *record };
            self.flight.fail(Failure { record, code, rejected_by_client: true });
        }
    }

    /// Builds a message, which owns a reference to the shipment in flight.
    fn message(&self, record: u32, partition: i32) -> c::rd_kafka_message_t {
        let payload = self.flight.shipment.payload(RecordId { run: self.index, record });
        let key = self.run.key.get(record as usize);
        c::rd_kafka_message_t {
            err: c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
            rkt: null_mut(),
            partition,
            payload: payload.as_ptr() as *mut c_void,
            len: payload.len(),
            key: key.map_or(null_mut(), |key| key.as_ptr() as *mut c_void),
            key_len: key.map_or(0, <[u8]>::len),
            offset: 0,
            _private: Arc::into_raw(self.flight.clone()) as *mut c_void,
        }
    }

    /// Releases the reference in a message that librdkafka rejected, and records the failure.
    fn reject(&self, record: u32, message: &c::rd_kafka_message_t) {
        // SAFETY: `message` created this pointer from an `Arc`, and librdkafka did not take
        // ownership of it.
        drop(unsafe { Arc::from_raw(message._private as *const InFlight) });
        self.fail(&[record], message.err.into());
    }

    fn produce(
        &mut self,
        topic: *mut c::rd_kafka_topic_t,
        records: &[u32],
        partition: &mut impl FnMut(&Run, Option<&[u8]>) -> i32,
    ) {
        self.messages.clear();
        for record in records {
            let partition = partition(self.run, self.run.key.get(*record as usize));
            self.messages.push(self.message(*record, partition));
        }
        let (flags, count) = (c::RD_KAFKA_MSG_F_PARTITION, self.messages.len() as i32);
        // SAFETY: the topic and the array are valid for the call. With these flags, librdkafka
        // neither copies nor frees the payloads. The payloads do not move while the `InFlight`
        // lives, and every message holds a reference to it until its report. librdkafka copies the
        // keys.
        let accepted = unsafe {
            c::rd_kafka_produce_batch(
                topic,
                ANY_PARTITION,
                flags,
                self.messages.as_mut_ptr(),
                count,
            )
        };
        if accepted < count {
            let is_rejected = |m: &&c::rd_kafka_message_t| {
                m.err != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
            };
            for (record, message) in
                records.iter().zip(&self.messages).filter(|(_, m)| is_rejected(m))
            {
                self.reject(*record, message);
            }
        }
    }

    /// Passes messages one by one, because the batch call does not support headers.
    fn produce_with_headers(
        &self,
        client: &BaseProducer<Context>,
        topic: *mut c::rd_kafka_topic_t,
        records: &[u32],
        partition: &mut impl FnMut(&Run, Option<&[u8]>) -> i32,
    ) {
        let mut arguments = Vec::new();
        for record in records {
            let partition = partition(self.run, self.run.key.get(*record as usize));
            let mut message = self.message(*record, partition);
            message.rkt = topic;
            let id = self
                .run
                .id_header
                .as_ref()
                .map(|header| (&*header.name, header.id(*record as usize)));
            let own = self.run.headers.iter().map(|(name, value)| (name.as_c_str(), &value[..]));
            set_arguments(&mut arguments, &message, own.chain(id));
            // SAFETY: every argument sets the union member that its type names. The pointers in the
            // arguments outlive the call; for the payload, see `produce`. librdkafka copies keys
            // and headers.
            let code = unsafe {
                let error = c::rd_kafka_produceva(
                    client.client().native_ptr(),
                    arguments.as_ptr(),
                    arguments.len(),
                );
                let code = c::rd_kafka_error_code(error);
                if !error.is_null() {
                    c::rd_kafka_error_destroy(error);
                }
                code
            };
            if code != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                message.err = code;
                self.reject(*record, &message);
            }
        }
    }
}

/// Sets the arguments of `rd_kafka_produceva` for a message with headers.
fn set_arguments<'a>(
    arguments: &mut Vec<c::rd_kafka_vu_t>,
    message: &c::rd_kafka_message_t,
    headers: impl Iterator<Item = (&'a CStr, &'a [u8])>,
) {
    use c::rd_kafka_vtype_t as kind;
    type Value = c::rd_kafka_vu_s__bindgen_ty_1;
    type Memory = c::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1;
    arguments.clear();
    arguments.extend([
        c::rd_kafka_vu_t { vtype: kind::RD_KAFKA_VTYPE_RKT, u: Value { rkt: message.rkt } },
        c::rd_kafka_vu_t {
            vtype: kind::RD_KAFKA_VTYPE_PARTITION,
            u: Value { i32_: message.partition },
        },
        c::rd_kafka_vu_t {
            vtype: kind::RD_KAFKA_VTYPE_VALUE,
            u: Value { mem: Memory { ptr: message.payload, size: message.len } },
        },
        c::rd_kafka_vu_t {
            vtype: kind::RD_KAFKA_VTYPE_KEY,
            u: Value { mem: Memory { ptr: message.key, size: message.key_len } },
        },
        c::rd_kafka_vu_t { vtype: kind::RD_KAFKA_VTYPE_OPAQUE, u: Value { ptr: message._private } },
    ]);
    arguments.extend(headers.map(|(name, value)| c::rd_kafka_vu_t {
        vtype: kind::RD_KAFKA_VTYPE_HEADER,
        u: Value {
            header: c::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_2 {
                name: name.as_ptr(),
                val: value.as_ptr().cast(),
                size: value.len() as isize,
            },
        },
    }));
}
