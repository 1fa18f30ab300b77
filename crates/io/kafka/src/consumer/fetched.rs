//! Records that stay in librdkafka's memory.

use super::Consumer;
use crate::ErrorCode;
use rdkafka::bindings as c;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::time::Duration;

/// Records in librdkafka's memory. The records of each partition are in order.
pub struct Fetched {
    messages: Vec<*mut c::rd_kafka_message_t>,
    /// Keeps the client alive, because its messages refer to it.
    _consumer: Consumer,
}

// SAFETY: a message that was taken from a queue belongs to its taker, on any thread.
unsafe impl Send for Fetched {}

/// Time of a record, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub i64);

/// A record, or an error concerning its partition.
#[derive(Clone, Copy)]
pub struct FetchedRecord<'a> {
    message: &'a c::rd_kafka_message_t,
}

impl Fetched {
    /// Takes up to `max` records. Waits up to `timeout` for the first one.
    pub(super) fn take(consumer: Consumer, max: usize, timeout: Duration) -> Fetched {
        let mut messages = Vec::with_capacity(max);
        // The library waits until it has all the messages that it may take, so take the first
        // message alone.
        take(&consumer, &mut messages, 1, timeout);
        if !messages.is_empty() {
            take(&consumer, &mut messages, max - 1, Duration::ZERO);
        }
        Fetched { messages, _consumer: consumer }
    }

    /// Returns the number of records and errors together.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether there are no records or errors.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the record at `index`.
    ///
    /// # Panics
    /// Panics if the index is out of range.
    #[inline]
    pub fn get(&self, index: usize) -> FetchedRecord<'_> {
        // SAFETY: the message lives until `self` is dropped, and does not change in the meantime.
        FetchedRecord { message: unsafe { &*self.messages[index] } }
    }

    /// Returns the records.
    pub fn iter(&self) -> impl Iterator<Item = FetchedRecord<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        for message in &self.messages {
            // SAFETY: the message was taken from the queue, and is destroyed once.
            unsafe { c::rd_kafka_message_destroy(*message) }
        }
    }
}

fn take(
    consumer: &Consumer,
    messages: &mut Vec<*mut c::rd_kafka_message_t>,
    max: usize,
    timeout: Duration,
) {
    let (length, timeout_ms) = (messages.len(), timeout.as_millis() as i32);
    messages.resize(length + max, null_mut());
    let to = messages[length..].as_mut_ptr();
    // SAFETY: the queue is alive, and `to` has room for `max` pointers.
    let taken =
        unsafe { c::rd_kafka_consume_batch_queue(consumer.0.data.0.as_ptr(), timeout_ms, to, max) };
    messages.truncate(length + usize::try_from(taken).unwrap_or(0).min(max));
}

impl<'a> FetchedRecord<'a> {
    /// Returns a key that identifies the topic. All records from one topic and one call have the
    /// same key.
    #[inline]
    pub fn topic_key(self) -> usize {
        self.message.rkt as usize
    }

    /// Returns the topic of the record.
    pub fn topic(self) -> &'a str {
        if self.message.rkt.is_null() {
            return "";
        }
        // SAFETY: the message refers to the topic, whose name is a C string that lives as long as
        // the message.
        let name = unsafe { CStr::from_ptr(c::rd_kafka_topic_name(self.message.rkt)) };
        name.to_str().unwrap_or_default()
    }

    /// Returns the partition number.
    #[inline]
    pub fn partition(self) -> i32 {
        self.message.partition
    }

    /// Returns the offset of the record; at the end of a partition, the offset of the next record.
    #[inline]
    pub fn offset(self) -> u64 {
        u64::try_from(self.message.offset).unwrap_or(0)
    }

    /// Returns the error, or `None` if this is a record.
    #[inline]
    pub fn error(self) -> Option<ErrorCode> {
        let is_record = self.message.err == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        if is_record { None } else { Some(self.message.err.into()) }
    }

    /// Returns the value; `None` for a tombstone.
    #[inline]
    pub fn value(self) -> Option<&'a [u8]> {
        // SAFETY: the pointer and the length come from the library.
        unsafe { bytes(self.message.payload, self.message.len) }
    }

    /// Returns the key; `None` if the record has no key.
    #[inline]
    pub fn key(self) -> Option<&'a [u8]> {
        // SAFETY: the pointer and the length come from the library.
        unsafe { bytes(self.message.key, self.message.key_len) }
    }

    /// Returns the record's time, if it has one.
    #[inline]
    pub fn timestamp(self) -> Option<Timestamp> {
        let mut kind = c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive, and the call writes only the kind.
        let time = unsafe { c::rd_kafka_message_timestamp(self.message, &mut kind) };
        let is_known = kind != c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        (is_known && time >= 0).then_some(Timestamp(time))
    }

    /// Calls `visit` with each header until it returns false. A header may lack a value.
    pub fn headers(self, mut visit: impl FnMut(&'a [u8], Option<&'a [u8]>) -> bool) {
        let mut headers = null_mut();
        // SAFETY: the message is alive and owns the headers. librdkafka parses them on the first
        // call, and no other thread uses the message.
        let code = unsafe { c::rd_kafka_message_headers(self.message, &mut headers) };
        if code != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return;
        }
        for index in 0.. {
            let (mut name, mut value): (*const c_char, *const c_void) = (null(), null());
            let mut len = 0;
            // SAFETY: the headers are alive, and the call writes the name, the value and the length
            // if the header exists.
            let code = unsafe {
                c::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut len)
            };
            if code != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            // SAFETY: the name is a C string, the value has this length, and both live as long as
            // the message.
            let (name, value) = unsafe { (CStr::from_ptr(name).to_bytes(), bytes(value, len)) };
            if !visit(name, value) {
                return;
            }
        }
    }
}

/// Returns the bytes at one of the library's pointers.
///
/// # Safety
/// The pointer must be null, or `len` bytes at the pointer must live for `'a`.
#[inline]
unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller guarantees this.
    (!pointer.is_null()).then(|| unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}
