//! A producer: one librdkafka client with the thread that takes its reports.

use crate::ErrorCode;
use crate::flight::{Failure, Flight, Receipt, TakeReceipt};
use crate::shipment::{Headers, RecordId, Run, Shipment};
use parking_lot::{Mutex, MutexGuard};
use rdkafka::bindings as c;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{
    BaseProducer, DeliveryResult, Producer as _, ProducerContext, PurgeConfig,
};
use rdkafka::types::RDKafkaConfRes;
use rdkafka::{ClientConfig, ClientContext};
use std::collections::HashMap;
use std::ffi::CString;
use std::os::raw::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages handed over in one call: their descriptions (72 bytes each) stay in the L1 cache.
const CALL_MESSAGES_MAX: usize = 256;

/// librdkafka's `RD_KAFKA_PARTITION_UA`: each message names its own.
const ANY_PARTITION: i32 = -1;

/// How long the thread of reports waits at most before it looks whether it is to end.
const POLL: Duration = Duration::from_millis(100);

/// The client cannot be made.
#[derive(Debug)]
pub struct OpenError(pub String);

/// A topic cannot be written to now.
#[derive(Debug)]
pub struct TopicError {
    /// What the broker, or the way to it, said.
    pub code: ErrorCode,
    /// The same for a person.
    pub message: String,
}

/// Checks one setting by itself; the error says what is wrong with it, without the value.
pub fn check(key: &str, value: &str) -> Result<(), String> {
    let mut config = ClientConfig::new();
    config.set(key, value);
    match config.create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
            Err("unknown property".into())
        }
        Err(_) => Err("no value for it".into()),
    }
}

/// A client that sends.
pub struct Producer {
    // Before the client: topics have to be given back first.
    topics: Mutex<HashMap<Arc<str>, Topic>>,
    client: Arc<BaseProducer<Context>>,
    take: TakeReceipt,
    ending: Arc<AtomicBool>,
    reports: Option<JoinHandle<()>>,
}

/// What the library tells beside reports.
#[derive(Default)]
struct Context {
    last_error: Mutex<Option<(ErrorCode, String)>>,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log::debug!("librdkafka {level:?} {facility}: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log::debug!("librdkafka {error}: {reason}");
        // That all brokers are away says less than why the last one is.
        let code = error.rdkafka_error_code().unwrap_or(ErrorCode::Unknown);
        let mut last_error = self.last_error();
        if code != ErrorCode::AllBrokersDown || last_error.is_none() {
            *last_error = Some((code, reason.to_owned()));
        }
    }
}

impl Context {
    fn last_error(&self) -> MutexGuard<'_, Option<(ErrorCode, String)>> {
        self.last_error.lock()
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Arc<Flight>;

    fn delivery(&self, result: &DeliveryResult<'_>, flight: Arc<Flight>) {
        if let Err((error, message)) = result {
            let code = error.rdkafka_error_code().unwrap_or(ErrorCode::Unknown);
            flight.fail_at(message.payload().map_or(0, |payload| payload.as_ptr() as usize), code);
        }
    }
}

/// A handle of the library to a topic.
struct Topic(*mut c::rd_kafka_topic_t);

// SAFETY: the library's topic handles may be used from any thread.
unsafe impl Send for Topic {}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: made by `rd_kafka_topic_new`, given back once, and before its client.
        unsafe { c::rd_kafka_topic_destroy(self.0) }
    }
}

impl Producer {
    /// Makes a client from librdkafka's own settings; it connects by itself. `take` gets a receipt
    /// for every [`Producer::send`], also when the client is dropped.
    pub fn open(
        settings: &[(String, String)],
        take: impl Fn(Receipt) + Send + Sync + 'static,
    ) -> Result<Producer, OpenError> {
        let mut config = ClientConfig::new();
        for (key, value) in settings {
            config.set(key, value);
        }
        config.set_log_level(RDKafkaLogLevel::Warning);
        let client: BaseProducer<Context> = config
            .create_with_context(Context::default())
            .map_err(|error| OpenError(error.to_string()))?;
        let (client, ending) = (Arc::new(client), Arc::new(AtomicBool::new(false)));
        let (polled, end) = (client.clone(), ending.clone());
        let poll = move || {
            while !end.load(Ordering::Acquire) {
                polled.poll(POLL);
            }
        };
        let reports = std::thread::Builder::new().name("kafka-reports".into()).spawn(poll);
        let reports = reports
            .map_err(|error| OpenError(format!("no thread for delivery reports: {error}")))?;
        let topics = Mutex::default();
        Ok(Producer { topics, client, take: Arc::new(take), ending, reports: Some(reports) })
    }

    /// Asks for the number of partitions of a topic. Blocks for up to `timeout`.
    pub fn partitions(&self, topic: &str, timeout: Duration) -> Result<i32, TopicError> {
        let failed = |code: ErrorCode| TopicError { code, message: code.to_string() };
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

    /// What the library last complained about, since this was last asked.
    pub fn take_error(&self) -> Option<(ErrorCode, String)> {
        self.client.context().last_error().take()
    }

    /// Gives up everything that is on its way: it is reported as failed, at once.
    pub fn purge(&self) {
        self.client.purge(PurgeConfig::default().queue().inflight());
    }

    /// Sends the records of `shipment`, or only those in `only` (ascending). `partition` gives the
    /// partition of a record of a run. The receipt carries `tag`.
    pub fn send(
        &self,
        shipment: &Arc<Shipment>,
        tag: u64,
        only: Option<&[RecordId]>,
        mut partition: impl FnMut(&Run, Option<&[u8]>) -> i32,
    ) {
        let flight = Arc::new(Flight {
            shipment: shipment.clone(),
            tag,
            failures: Mutex::default(),
            take: self.take.clone(),
        });
        let mut topics = self.topics.lock();
        for (index, run) in shipment.runs.iter().enumerate() {
            let of_run = |only: &[RecordId]| -> Vec<u32> {
                only.iter().filter(|id| id.run as usize == index).map(|id| id.record).collect()
            };
            let records = only.map_or_else(|| (0..run.records.len() as u32).collect(), of_run);
            let mut call = Call { run, index: index as u32, flight: &flight, messages: Vec::new() };
            let topic = self.topic(&mut topics, &run.topic);
            for chunk in records.chunks(CALL_MESSAGES_MAX) {
                match (topic, run.headers.is_empty()) {
                    (Err(code), _) => call.fail(chunk, code),
                    (Ok(topic), true) => call.produce(topic, chunk, &mut partition),
                    (Ok(topic), false) => {
                        call.with_headers(&self.client, topic, chunk, &mut partition)
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
        // SAFETY: the client lives, the name is a C string, and no configuration is given.
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
        self.ending.store(true, Ordering::Release);
        if let Some(reports) = self.reports.take() {
            let _ = reports.join();
        }
        self.topics.get_mut().clear();
        // The client purges and reports what is left when it drops, now that nobody else has it.
    }
}

/// Messages of one run on their way into the library.
struct Call<'a> {
    run: &'a Run,
    index: u32,
    flight: &'a Arc<Flight>,
    messages: Vec<c::rd_kafka_message_t>,
}

impl Call<'_> {
    fn fail(&self, records: &[u32], code: ErrorCode) {
        for record in records {
            let record = RecordId { run: self.index, record: *record };
            self.flight.fail(Failure { record, code, at_once: true });
        }
    }

    /// A message as the library takes it; it holds a reference to the flight.
    fn message(&self, record: u32, partition: i32) -> c::rd_kafka_message_t {
        let payload = self.flight.shipment.payload(RecordId { run: self.index, record });
        let key = self.run.key.of(record as usize);
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

    /// Takes back the reference of a message that the library did not take.
    fn refused(&self, record: u32, message: &c::rd_kafka_message_t) {
        // SAFETY: `message` made this pointer from an `Arc`, and the library did not take it.
        drop(unsafe { Arc::from_raw(message._private as *const Flight) });
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
            let partition = partition(self.run, self.run.key.of(*record as usize));
            self.messages.push(self.message(*record, partition));
        }
        let (flags, count) = (c::RD_KAFKA_MSG_F_PARTITION, self.messages.len() as i32);
        // SAFETY: topic and array are valid for the call. The bytes of the payloads, which the
        // flags neither copy nor free, stay where they are as long as the flight lives, which every
        // message refers to until its report. Keys are copied by the library.
        let taken = unsafe {
            c::rd_kafka_produce_batch(
                topic,
                ANY_PARTITION,
                flags,
                self.messages.as_mut_ptr(),
                count,
            )
        };
        if taken < count {
            let refused = |m: &&c::rd_kafka_message_t| {
                m.err != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
            };
            for (record, message) in records.iter().zip(&self.messages).filter(|(_, m)| refused(m))
            {
                self.refused(*record, message);
            }
        }
    }

    /// The library takes headers only message by message.
    fn with_headers(
        &self,
        client: &BaseProducer<Context>,
        topic: *mut c::rd_kafka_topic_t,
        records: &[u32],
        partition: &mut impl FnMut(&Run, Option<&[u8]>) -> i32,
    ) {
        for record in records {
            let partition = partition(self.run, self.run.key.of(*record as usize));
            let mut message = self.message(*record, partition);
            message.rkt = topic;
            let arguments = arguments(&message, &self.run.headers);
            // SAFETY: every argument has the member that its type names, and points to what lives
            // longer than the call; for the payload see `produce`. Keys and headers are copied.
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
                self.refused(*record, &message);
            }
        }
    }
}

/// A message with headers, as `rd_kafka_produceva` takes it.
fn arguments(message: &c::rd_kafka_message_t, headers: &Headers) -> Vec<c::rd_kafka_vu_t> {
    use c::rd_kafka_vtype_t as kind;
    type Value = c::rd_kafka_vu_s__bindgen_ty_1;
    type Memory = c::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1;
    let mut arguments = vec![
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
    ];
    arguments.extend(headers.iter().map(|(name, value)| c::rd_kafka_vu_t {
        vtype: kind::RD_KAFKA_VTYPE_HEADER,
        u: Value {
            header: c::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_2 {
                name: name.as_ptr(),
                val: value.as_ptr().cast(),
                size: value.len() as isize,
            },
        },
    }));
    arguments
}
