//! The flight recorder: `/api/recorder` and `/api/recorder/rings`.

use crate::reply::{Reply, as_json, error, reply};
use hyper::StatusCode;
use hyper::body::Bytes;
use millstream_model::Interval;
use millstream_recorder::recorder::{self, AllSettings};
use millstream_recorder::schema::{EVENTS, EventKind, EventSpec, PerSecond, Settings};
use millstream_recorder::snapshot::SlotCounts;
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum size of a settings change in bytes. Settings of all types take about 2 kB.
pub const CHANGE_BYTES_MAX: usize = 64 << 10;

/// Maximum size, in bytes, of the list of chunks that a client already has: 8 bytes per chunk, and
/// the largest recording has 32,768 chunks.
pub const KNOWN_BYTES_MAX: usize = 1 << 20;

/// Text for a missing threshold or rate limit.
const NONE: &str = "none";

/// Error while the recorder is off.
const OFF: &str = "the recorder is off: set recorder.enabled to true and restart the agent";

/// Permit to copy the recording. A copy is as large as the recording, so only one is in memory at a
/// time.
static COPIES: Semaphore = Semaphore::const_new(1);

/// The recording of the agent, and the conditions for recording events.
#[derive(Debug)]
pub struct RecorderState {
    /// File of the recording; `None` if it is only in memory.
    file: Option<PathBuf>,
    bytes: u64,
    /// The settings, including settings of disabled types, which apply when the type is enabled.
    settings: Mutex<AllSettings>,
}

impl RecorderState {
    /// Creates the state for a recording of this size in a file, or in memory.
    pub fn new(file: Option<PathBuf>, bytes: u64, settings: AllSettings) -> RecorderState {
        RecorderState { file, bytes, settings: Mutex::new(settings) }
    }

    /// Sets the conditions for recording events.
    pub fn set(&self, settings: AllSettings) {
        let mut current = self.settings.lock();
        *current = settings;
        recorder::set(&current);
    }

    fn change(&self, changes: &[(EventKind, EventChange)]) {
        let mut current = self.settings.lock();
        for (kind, change) in changes {
            change.apply(&mut current[*kind as usize]);
        }
        recorder::set(&current);
    }
}

/// A change of the conditions for recording an event type. Absent options stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventChange {
    /// Whether events of this type are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Minimum duration of a recorded event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "write_limit", deserialize_with = "read_threshold")]
    pub threshold: Option<Limit<Interval>>,
    /// Maximum number of events per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "write_limit", deserialize_with = "read_rate")]
    pub rate: Option<Limit<PerSecond>>,
}

/// A limit; `None` for no limit. The text is the limit or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

impl<T: FromStr> FromStr for Limit<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Limit<T>, T::Err> {
        if text == NONE { Ok(Limit(None)) } else { text.parse().map(|limit| Limit(Some(limit))) }
    }
}

impl<T: std::fmt::Display> std::fmt::Display for Limit<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(limit) => limit.fmt(f),
            None => f.pad(NONE),
        }
    }
}

fn write_limit<T: std::fmt::Display, S: Serializer>(
    limit: &Option<Limit<T>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match limit {
        Some(limit) => serializer.collect_str(limit),
        None => serializer.serialize_none(),
    }
}

fn read_threshold<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Limit<Interval>>, D::Error> {
    read_limit("threshold", deserializer)
}

fn read_rate<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Limit<PerSecond>>, D::Error> {
    read_limit("rate", deserializer)
}

/// Reads a limit. `null` means no limit, while an absent key means no change.
fn read_limit<'de, T, D: Deserializer<'de>>(
    key: &str,
    deserializer: D,
) -> Result<Option<Limit<T>>, D::Error>
where
    T: FromStr<Err: std::fmt::Display>,
{
    use serde::de::Error;
    let text = match Value::deserialize(deserializer)? {
        Value::Null => return Ok(Some(Limit(None))),
        Value::String(text) => text,
        other => return Err(D::Error::custom(format!("{key}: {other} is not a string"))),
    };
    let limit = text.parse().map_err(|error| D::Error::custom(format!("{key}: {error}")))?;
    Ok(Some(limit))
}

impl EventChange {
    /// Returns the error for a change that is invalid for an event type: "what is wrong; what to
    /// use instead".
    pub fn fault(&self, spec: &EventSpec) -> Option<String> {
        let has_threshold = self.threshold.is_some_and(|threshold| threshold.0.is_some());
        (has_threshold && !spec.has_duration).then(|| {
            format!("threshold: {} events have no duration; remove the threshold", spec.name)
        })
    }

    /// Applies the change to settings.
    pub fn apply(&self, settings: &mut Settings) {
        if let Some(enabled) = self.enabled {
            settings.enabled = enabled;
        }
        if let Some(Limit(threshold)) = self.threshold {
            settings.threshold = threshold.map_or(Duration::ZERO, |threshold| threshold.0);
        }
        if let Some(Limit(rate)) = self.rate {
            settings.rate = rate;
        }
    }
}

/// The state of the recorder, as JSON.
#[derive(Serialize)]
struct Recorder<'a> {
    /// Whether the agent records events.
    enabled: bool,
    /// File of the current run; `null` if the recording ends with the process.
    file: Option<&'a PathBuf>,
    size_bytes: u64,
    events: Vec<EventState>,
    /// Number of events that were lost because no chunk had space for them.
    without_space: u64,
    /// Number of events that were recorded without the name of their file, connection or component.
    without_name: u64,
}

/// The state of an event type, as JSON.
#[derive(Serialize)]
struct EventState {
    name: &'static str,
    enabled: bool,
    threshold: Option<Interval>,
    rate: Option<String>,
    /// Number of events that were not recorded because the type was over its rate limit.
    over_rate: u64,
}

impl EventState {
    fn of(spec: &EventSpec, settings: &Settings, over_rate: u64) -> EventState {
        let threshold = Some(Interval(settings.threshold)).filter(|interval| !interval.0.is_zero());
        EventState {
            name: spec.name,
            enabled: settings.enabled,
            threshold,
            rate: settings.rate.map(|rate| rate.to_string()),
            over_rate,
        }
    }
}

/// Returns the state of the recorder.
pub fn show(state: &RecorderState) -> Reply {
    let (settings, omitted) = (*state.settings.lock(), recorder::omitted());
    let events = EVENTS.iter().zip(&settings).zip(omitted.over_rate);
    let shown = Recorder {
        enabled: recorder::settings().is_some(),
        file: state.file.as_ref(),
        size_bytes: state.bytes,
        events: events
            .map(|((spec, settings), over)| EventState::of(spec, settings, over))
            .collect(),
        without_space: omitted.without_space,
        without_name: omitted.names,
    };
    as_json(StatusCode::OK, &shown)
}

/// Changes settings, and returns the new settings.
pub fn change(state: &RecorderState, body: &[u8]) -> Reply {
    if recorder::settings().is_none() {
        return error(StatusCode::CONFLICT, OFF);
    }
    match changes(body) {
        Ok(changes) => {
            state.change(&changes);
            show(state)
        }
        Err(message) => error(StatusCode::BAD_REQUEST, &message),
    }
}

/// The body of a change request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    events: BTreeMap<String, Value>,
}

fn changes(body: &[u8]) -> Result<Vec<(EventKind, EventChange)>, String> {
    let changes: Changes = serde_json::from_slice(body).map_err(|error| {
        format!("the body is not {{\"events\": {{\"FileRead\": {{\"enabled\": false}}}}}}: {error}")
    })?;
    changes.events.into_iter().map(|(name, value)| change_of(&name, value)).collect()
}

fn change_of(name: &str, value: Value) -> Result<(EventKind, EventChange), String> {
    let Some(kind) = EventKind::named(name) else {
        let names: Vec<&str> = EVENTS.iter().map(|spec| spec.name).collect();
        return Err(format!("no event is named {name:?}; the names are {}", names.join(", ")));
    };
    let change: EventChange =
        serde_json::from_value(value).map_err(|error| format!("{name}: {error}"))?;
    match change.fault(kind.spec()) {
        Some(fault) => Err(format!("{name}: {fault}")),
        None => Ok((kind, change)),
    }
}

/// A copy that is being sent.
struct Sent {
    bytes: Vec<u8>,
    _permit: SemaphorePermit<'static>,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the chunks of the recording that a client does not have yet. Waits until no other copy
/// is being sent.
pub async fn rings(body: &[u8]) -> Reply {
    let Some(known) = known(body) else {
        let text = "the body is not a list of pairs of 32-bit numbers, each a sequence and its \
                    slots";
        return error(StatusCode::BAD_REQUEST, text);
    };
    let Ok(permit) = COPIES.acquire().await else {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "no copy can be made");
    };
    // Copying takes milliseconds, and this thread also delivers payloads.
    match tokio::task::spawn_blocking(move || recorder::copy(&known)).await {
        Ok(Some(bytes)) => {
            let body = Bytes::from_owner(Sent { bytes, _permit: permit });
            reply(StatusCode::OK, "application/octet-stream", body)
        }
        Ok(None) => error(StatusCode::CONFLICT, OFF),
        Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, &failed.to_string()),
    }
}

fn known(body: &[u8]) -> Option<SlotCounts> {
    let (pairs, rest) = body.as_chunks::<8>();
    let number = |bytes: [u8; 4]| u32::from_le_bytes(bytes);
    let pair = |pair: &[u8; 8]| {
        let [a, b, c, d, e, f, g, h] = *pair;
        (number([a, b, c, d]), number([e, f, g, h]))
    };
    rest.is_empty().then(|| pairs.iter().map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change_in(text: &str) -> Result<Vec<(EventKind, EventChange)>, String> {
        changes(text.as_bytes())
    }

    #[test]
    fn a_change_keeps_what_it_does_not_set() {
        let mut settings = EventKind::WaitForCapacity.spec().defaults;
        let change = |text: &str| change_in(text).unwrap().remove(0).1;
        let off = change(r#"{"events": {"WaitForCapacity": {"enabled": false, "rate": "5/s"}}}"#);
        off.apply(&mut settings);
        assert!(!settings.enabled && settings.rate == Some(PerSecond(5)));
        assert_eq!(settings.threshold, Duration::from_millis(1));
        let none =
            change(r#"{"events": {"WaitForCapacity": {"threshold": null, "rate": "none"}}}"#);
        none.apply(&mut settings);
        assert_eq!((settings.threshold, settings.rate), (Duration::ZERO, None));
        assert!(!settings.enabled);
    }

    #[test]
    fn a_change_is_written_as_it_is_read() {
        let text = r#"{"enabled":true,"threshold":"2ms","rate":"none"}"#;
        let change: EventChange = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&change).unwrap(), text);
        assert_eq!(serde_json::to_string(&EventChange::default()).unwrap(), "{}");
    }

    #[test]
    fn errors_say_what_to_write() {
        for (events, expected) in [
            (r#"{"fileread": {}}"#, "no event is named \"fileread\"; the names are FileRead, "),
            (r#"{"FileRead": {"threshold": "1"}}"#, "FileRead: threshold: \"1\" has no unit; "),
            (r#"{"FileRead": {"threshold": 1}}"#, "FileRead: threshold: 1 is not a string"),
            (r#"{"FileRead": {"rate": "1"}}"#, "FileRead: rate: \"1\" is not a number of events"),
            (r#"{"FileRead": {"on": true}}"#, "FileRead: unknown field `on`, expected one of"),
            (r#"{"Retry": {"threshold": "1s"}}"#, "Retry: threshold: Retry events have no dur"),
        ] {
            let error = change_in(&format!(r#"{{"events": {events}}}"#)).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        for text in ["", "[]", "{}", r#"{"event": {}}"#] {
            assert!(change_in(text).unwrap_err().starts_with("the body is not {"), "{text}");
        }
        assert_eq!(change_in(r#"{"events": {}}"#), Ok(Vec::new()));
    }

    #[test]
    fn known_slots_are_pairs() {
        let body = [1_u32, 2, 3, u32::MAX].map(u32::to_le_bytes).concat();
        assert_eq!(known(&body), Some(SlotCounts::from([(1, 2), (3, u32::MAX)])));
        assert_eq!(known(&[]), Some(SlotCounts::new()));
        assert_eq!(known(&[0; 9]), None);
    }
}
