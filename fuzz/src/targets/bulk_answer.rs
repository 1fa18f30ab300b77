//! Responses to bulk requests of Elasticsearch. The first byte of an input is the number of events,
//! and the second byte is the size of the pieces in which the response arrives.

use crate::cells::is_json;
use crate::lines::lossy;
use millstream_components::sinks::elasticsearch::judge_answer;
use serde_json::Value;

pub const WORDS: &[&[u8]] = &[
    b"{\"errors\":false,\"items\":[",
    b"{\"create\":{\"status\":201}}",
    b"{\"index\":{\"status\":200}}",
    b"{\"create\":{\"status\":409,\"error\":{\"type\":\"x\",\"reason\":\"y\"}}}",
    b"\"items\":[",
    b"\"errors\":true",
    b"\"status\":",
    b"\"error\":",
    b"\"caused_by\":{\"reason\":\"z\"}",
    b"\\\"items\":",
    b"null",
    b"429",
    b"cluster_block_exception",
    b",",
    b"[",
    b"]",
    b"{",
    b"}",
    b"\"",
    b"\\",
    b"1",
    b"\xFF",
];

/// The number of events in a request is less than this.
const EVENTS_MAX: u8 = 16;

/// Checks that a response that is accepted is JSON and has an item for each event, that the failed
/// events are those with an error status, and that the sizes of the arriving pieces do not matter.
pub fn bulk_answer(input: &[u8]) {
    let [events, step, body @ ..] = input else { return };
    let events = u64::from(events % EVENTS_MAX);
    let judged = failed(body, body.len(), events);
    assert_eq!(judged, failed(body, usize::from(*step), events), "in pieces of {step} bytes");
    if judged.is_some() {
        assert!(is_json(body), "{} is no JSON", lossy(body));
    }
    // Numbers can be too large for a `Value`.
    let Ok(answer) = serde_json::from_slice::<Value>(body) else { return };
    let expected = read(&answer).filter(|items| items.len() as u64 == events);
    let expected: Option<Vec<usize>> = expected.map(|items| {
        (0..).zip(items).filter(|(_, is_taken)| !is_taken).map(|(position, _)| position).collect()
    });
    if judged.is_some() {
        assert_eq!(judged, expected, "{}", lossy(body));
    }
    // If two members have the same name, a `Value` keeps the last one.
    let written = answer.to_string();
    assert_eq!(failed(written.as_bytes(), written.len(), events), expected, "{written}");
}

/// Returns the positions of the failed events; `None` if the response is invalid.
fn failed(body: &[u8], step: usize, events: u64) -> Option<Vec<usize>> {
    let failures = judge_answer(body.chunks(step.max(1)), events).ok()?;
    assert!(failures.iter().all(|failure| !failure.reason.contains(char::is_control)));
    Some(failures.iter().map(|failure| failure.position as usize).collect())
}

/// Returns for each item whether its event was accepted; `None` if the value is not a response to a
/// bulk request.
fn read(answer: &Value) -> Option<Vec<bool>> {
    answer.as_object()?.get("errors")?.as_bool()?;
    answer.get("items")?.as_array()?.iter().map(is_taken).collect()
}

fn is_taken(item: &Value) -> Option<bool> {
    let item = item.as_object()?;
    let status = |name: &str| match item.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(operation) => {
            let status = operation.as_object()?.get("status")?.as_u64()?;
            u16::try_from(status).ok().map(Some)
        }
    };
    let create = status("create")?;
    let index = status("index")?;
    let status = create.or(index)?;
    Some((200..300).contains(&status) || create == Some(409))
}
