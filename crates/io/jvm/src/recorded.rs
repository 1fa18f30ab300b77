//! Records activity that a JVM reports afterward as events: garbage collections, and collector
//! calls that have ended.

use crate::answered::parsed;
use crate::error::CallError;
use millstream_recorder::record::{self, Subject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Maximum number of events of each kind to record per response. `RecentCollections` and
/// `CollectorPool` do not report more, but an untrusted child may.
const EVENTS_MAX: usize = 1024;

/// A response with the activity since the previous response.
#[derive(Deserialize)]
struct Answer<T> {
    #[serde(flatten)]
    rest: T,
    #[serde(default)]
    recent_collections: Vec<Collection>,
    /// Number of omitted collections.
    #[serde(default)]
    omitted_collections: u64,
    #[serde(default)]
    recent_calls: Vec<Call>,
    /// Number of omitted calls.
    #[serde(default)]
    omitted_calls: u64,
}

/// A garbage collection.
#[derive(Deserialize)]
struct Collection {
    collector: String,
    cause: String,
    ended_ms_ago: u64,
    took_ms: u64,
    before: u64,
    after: u64,
}

/// A collector call.
#[derive(Deserialize)]
struct Call {
    component: String,
    ended_us_ago: u64,
    took_us: u64,
    rows: u64,
    bytes: u64,
    outcome: String,
}

/// Parses a JVM's response, and records the events in it. `process` is the name of the separate
/// process, or `None` for the JVM inside the agent.
pub fn recorded<T: DeserializeOwned>(
    process: Option<&str>,
    answer: Vec<u8>,
) -> Result<T, CallError> {
    let answer: Answer<T> = parsed(answer)?;
    for collection in answer.recent_collections.iter().take(EVENTS_MAX) {
        collection.record(process);
    }
    answer.recent_calls.iter().take(EVENTS_MAX).for_each(Call::record);
    let omitted = (answer.omitted_collections, answer.omitted_calls);
    if omitted != (0, 0) {
        let (collections, calls) = omitted;
        log::debug!(
            "{collections} garbage collections and {calls} collector calls were not recorded, \
             because there were too many per second"
        );
    }
    Ok(answer.rest)
}

impl Collection {
    fn record(&self, process: Option<&str>) {
        let collector = match process {
            Some(process) => &format!("{process}: {}", self.collector),
            None => &self.collector,
        };
        let [ended_ago, took] = [self.ended_ms_ago, self.took_ms].map(Duration::from_millis);
        let collector = Subject::component(collector);
        record::collection(ended_ago, took, &collector, &self.cause, self.before, self.after);
    }
}

impl Call {
    fn record(&self) {
        let [ended_ago, took] = [self.ended_us_ago, self.took_us].map(Duration::from_micros);
        let component = Subject::component(&self.component);
        record::past_jvm_call(ended_ago, took, &component, self.rows, self.bytes, &self.outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jvm::{HeapSize, JvmStats};

    #[test]
    fn an_answer_is_parsed_with_and_without_events() {
        let tight = br#"{"heap_used":1,"heap_committed":2}"#;
        let size: HeapSize = recorded(None, tight.to_vec()).unwrap();
        assert_eq!((size.used, size.committed), (1, 2));
        let events = br#"{"heap_used":1,"heap_committed":2,"heap_max":3,"non_heap_used":4,
            "metaspace_used":5,"collections":6,"collection_ms":7,"threads":8,"classes":9,
            "recent_collections":[{"collector":"Copy","cause":"System.gc()","ended_ms_ago":1,
            "took_ms":2,"before":3,"after":4}],"omitted_collections":1}"#;
        let stats: JvmStats = recorded(Some("enrich"), events.to_vec()).unwrap();
        assert_eq!((stats.heap_used, stats.classes), (1, 9));
        let size: HeapSize = recorded(None, events.to_vec()).unwrap();
        assert_eq!(size.committed, 2);
    }

    #[test]
    fn an_answer_that_is_damaged_is_an_error() {
        for text in ["", "{}", r#"{"heap_used":1,"heap_committed":2,"recent_collections":[{}]}"#] {
            let answer: Result<HeapSize, CallError> = recorded(None, text.into());
            assert!(matches!(answer, Err(CallError::Exception(_))), "{text}");
        }
    }
}
