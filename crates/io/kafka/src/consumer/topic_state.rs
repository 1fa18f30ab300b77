//! The state of topics as reported by the brokers.

use super::{Consumer, Queue};
use crate::ErrorCode;
use crate::client::ClientError;
use rdkafka::bindings as c;
use std::ffi::{CStr, CString};
use std::ptr::{NonNull, null};
use std::sync::Arc;
use std::time::Duration;

/// The state of a topic as reported by the brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicState {
    /// Whether the topic exists and the client is allowed to describe it.
    pub exists: bool,
    /// Id of the topic; `None` if the broker does not support topic ids.
    pub id: Option<[u8; 16]>,
}

/// A broker's response.
struct Answer(NonNull<c::rd_kafka_event_t>);

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: the event came from a queue, and is destroyed once.
        unsafe { c::rd_kafka_event_destroy(self.0.as_ptr()) }
    }
}

/// Fetches the state of each topic.
pub fn fetch(
    consumer: &Consumer,
    topics: &[Arc<str>],
    timeout: Duration,
) -> Result<Vec<TopicState>, ClientError> {
    let answer = ask(consumer, topics, timeout)?;
    let known = described(&answer)?;
    let state = |topic: &Arc<str>| {
        let found = known.iter().find(|(name, _)| name.to_bytes() == topic.as_bytes());
        found.map_or(TopicState::default(), |(_, state)| *state)
    };
    Ok(topics.iter().map(state).collect())
}

fn ask(consumer: &Consumer, topics: &[Arc<str>], timeout: Duration) -> Result<Answer, ClientError> {
    let failed = |code: ErrorCode| ClientError { code, message: code.to_string() };
    let names: Result<Vec<CString>, _> = topics.iter().map(|t| CString::new(&**t)).collect();
    let names = names.map_err(|_| failed(ErrorCode::InvalidTopic))?;
    let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: the client is alive. The names are C strings, which the collection copies; it is
    // destroyed after the request has been made. The queue and its event are destroyed by their
    // owners.
    let event = unsafe {
        let queue = NonNull::new(c::rd_kafka_queue_new(consumer.native()));
        let queue = Queue(queue.ok_or_else(|| failed(ErrorCode::Fail))?);
        let wanted =
            c::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        c::rd_kafka_DescribeTopics(consumer.native(), wanted, null(), queue.0.as_ptr());
        c::rd_kafka_TopicCollection_destroy(wanted);
        c::rd_kafka_queue_poll(queue.0.as_ptr(), timeout.as_millis() as i32)
    };
    let answer = NonNull::new(event).map(Answer);
    answer.ok_or_else(|| failed(ErrorCode::OperationTimedOut))
}

/// A topic's name and state.
type Described<'a> = (&'a CStr, TopicState);

/// Returns the topics in a response.
fn described(answer: &Answer) -> Result<Vec<Described<'_>>, ClientError> {
    // SAFETY: the event lives while `answer` is borrowed, and all the data that is read belongs to
    // it.
    unsafe {
        let code = c::rd_kafka_event_error(answer.0.as_ptr());
        if code != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            let code = ErrorCode::from(code);
            return Err(ClientError { code, message: code.to_string() });
        }
        let result = c::rd_kafka_event_DescribeTopics_result(answer.0.as_ptr());
        if result.is_null() {
            return Ok(Vec::new());
        }
        let mut count = 0;
        let first = c::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        let topics = (0..count).map(|index| *first.add(index));
        Ok(topics.map(|topic| (name(topic), state(topic))).collect())
    }
}

/// Returns the name of a topic.
///
/// # Safety
/// The description must be alive for `'a`.
unsafe fn name<'a>(topic: *const c::rd_kafka_TopicDescription_t) -> &'a CStr {
    // SAFETY: the name is a C string that belongs to the description.
    unsafe { CStr::from_ptr(c::rd_kafka_TopicDescription_name(topic)) }
}

/// Returns a topic's state, including its id.
///
/// # Safety
/// The description must be alive.
unsafe fn state(topic: *const c::rd_kafka_TopicDescription_t) -> TopicState {
    // SAFETY: the error belongs to the description, and may be null.
    unsafe {
        let error = c::rd_kafka_TopicDescription_error(topic);
        let none = c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        let exists = error.is_null() || c::rd_kafka_error_code(error) == none;
        TopicState { exists, id: id(topic) }
    }
}

/// Returns a topic's id; `None` if the broker does not support topic ids.
///
/// # Safety
/// The description must be alive.
unsafe fn id(topic: *const c::rd_kafka_TopicDescription_t) -> Option<[u8; 16]> {
    // SAFETY: the id belongs to the description, and may be null.
    let (most, least) = unsafe {
        let id = NonNull::new(c::rd_kafka_TopicDescription_topic_id(topic).cast_mut())?;
        (
            c::rd_kafka_Uuid_most_significant_bits(id.as_ptr()),
            c::rd_kafka_Uuid_least_significant_bits(id.as_ptr()),
        )
    };
    let bits = (most as u64 as u128) << 64 | least as u64 as u128;
    (bits != 0).then(|| bits.to_be_bytes())
}
